import { describe, expect, it } from "vitest";

import { Labels } from "./labels";

describe("a label", () => {
  it("is measured once", () => {
    let measured = 0;
    const labels = new Labels((text) => {
      measured += 1;
      return 6 * text.length;
    });
    for (let k = 0; k < 5; k++) expect(labels.fitted("matmul", 100)).toBe("matmul");
    expect(measured).toBe(1);
  });

  it("is cut to its room, or left out", () => {
    const labels = new Labels((text) => 6 * text.length);
    expect(labels.fitted("matmul_kernel", 48)).toBe("matmul_…");
    expect(labels.fitted("matmul_kernel", 20)).toBe("");
  });
});
