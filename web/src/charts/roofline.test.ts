import { describe, expect, it } from "vitest";

import { besides } from "./roofline";

describe("labels of roofs", () => {
  it("stand above lines that lie apart", () => {
    expect(besides([20, 60, 100])).toEqual([16, 56, 96]);
  });
  it("stand above the first and below the last of lines close together", () => {
    expect(besides([28, 20, 32])).toEqual([45, 16, 58]);
  });
  it("never lie on each other or on a line", () => {
    // The second has the roofs of an H100 on ten decades of height.
    for (const lines of [[20, 24, 90, 93, 97], [20, 29.7, 49, 58.7]]) {
      const labels = besides(lines);
      const tops = [...labels].sort((a, b) => a - b);
      for (let k = 1; k < tops.length; k++) expect(tops[k]! - tops[k - 1]!).toBeGreaterThanOrEqual(13);
      for (const label of labels) expect(lines.filter((line) => line > label - 9 && line < label)).toEqual([]);
    }
  });
});
