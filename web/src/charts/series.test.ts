import { describe, expect, it } from "vitest";

import { broken, stacked } from "./series";

const same = (value: number) => value;

describe("a line over time", () => {
  it("breaks where nothing is known", () => {
    expect(broken([1, null, 3, 4], same, same)).toBe("M0 1H1M2 3H3L3 4H3");
  });
  it("begins with what is known", () => {
    expect(broken([null, 2], same, same)).toBe("M1 2H1");
  });
});

describe("levels on top of each other", () => {
  it("begin where the one below ends", () => {
    const [low, high] = stacked([
      { label: "stack", token: "stack", values: [1, 2] },
      { label: "heap", token: "heap", values: [3, 0] },
    ]);
    expect([low!.high, high!.low, high!.high]).toEqual([[1, 2], [1, 2], [4, 2]]);
  });
});
