import { describe, expect, it } from "vitest";

import { placed, ruled } from "./ruler";

describe("the time axis", () => {
  it("has more than one time on a narrow screen", () => {
    // A step of 164 ms in 155 pixels: every 200 ms there would be none, every 100 one.
    const texts = ruled({ begin: 3.4e9, end: 168e9, width: 155 }).map(({ text }) => text);
    expect(texts).toEqual(["50 ms", "100 ms", "150 ms"]);
  });

  it("keeps its own distance where there is room", () => {
    const texts = ruled({ begin: 0, end: 10e9, width: 1100 }).map(({ text }) => text);
    expect(texts).toEqual(["0 ms", "2 ms", "4 ms", "6 ms", "8 ms", "10 ms"]);
  });

  it("writes a text whole, right of its line or left of it, and never over another", () => {
    expect(placed(20.5, 40, 0, 155)).toBe(24.5);
    expect(placed(140.5, 40, 68, 155)).toBe(96.5);
    expect(placed(140.5, 40, 120, 155)).toBe(null);
  });
});
