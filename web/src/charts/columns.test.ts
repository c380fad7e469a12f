import { describe, expect, it } from "vitest";

import { binned, scale, type Stack } from "./columns";

const stack = (at: number, height: number, group?: string): Stack => ({
  label: String(at),
  parts: { input: height },
  ...(group !== undefined && { group }),
});

describe("more steps than columns", () => {
  it("keep the worst of each bin, and all are counted", () => {
    const heights = Array.from({ length: 1000 }, (_, k) => ((k * 7919) % 1000) + 1);
    const shown = binned(heights.map((height, k) => stack(k, height)), 101);
    expect(shown.length).toBeLessThanOrEqual(101);
    expect(shown.reduce((sum, each) => sum + each.of, 0)).toBe(1000);
    let from = 0;
    for (const each of shown) {
      const mine = heights.slice(from, from + each.of);
      expect(each.total).toBe(Math.max(...mine));
      expect(each.index).toBe(from + mine.indexOf(each.total));
      from += each.of;
    }
  });

  it("are not mixed between hosts", () => {
    const stacks = [stack(1, 1, "a"), stack(1, 9, "b"), stack(2, 2, "a"), stack(2, 3, "b")];
    expect(binned(stacks, 100).map((each) => [each.group, each.total])).toEqual([["a", 1], ["a", 2], ["b", 9], ["b", 3]]);
    expect(binned(stacks, 3).map((each) => [each.group, each.of])).toEqual([["a", 2], ["b", 2]]);
  });
});

describe("the top of the axis", () => {
  it("is just above the tallest column", () => expect(scale([10, 12, 11])).toBeCloseTo(12.48));
  it("leaves out what is many times the others", () => expect(scale([10, 10, 11, 500])).toBeCloseTo(11.44));
  it("is some number without heights", () => expect([scale([]), scale([0, 0])]).toEqual([1.04, 1.04]));
});
