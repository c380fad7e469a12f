import { describe, expect, it } from "vitest";

import { ticks, written } from "./axis";

describe("marks of an axis", () => {
  it.each([
    [0, 1.56, 4, ["0", "0.5", "1.0", "1.5"]],
    [0, 15.3, 4, ["0", "5", "10", "15"]],
    [0, 3758, 4, ["0", "1,000", "2,000", "3,000"]],
    [20.05, 20.45, 3, ["20.2", "20.4"]],
    [0, 0.00041, 3, ["0", "0.0002", "0.0004"]],
    // One mark alone would not tell the scale, however narrow the chart is.
    [3.4, 168, 1.3, ["50", "100", "150"]],
    [2.5, 3760, 1.3, ["1,000", "2,000", "3,000"]],
  ])("from %s to %s have the same decimals", (from, to, count, texts) => {
    expect(written(ticks(from, to, count))).toEqual(texts);
  });
});
