import { describe, expect, it } from "vitest";

import { around, levelOf, panned, ticks, tilesOf, tileWidth, toPs, toX, whole, within, zoomed } from "./viewport";

const EXTENT = { begin: 0, end: 1e12 };
const VIEW = { begin: 2e9, end: 4e9, width: 1000 };

describe("a place", () => {
  it("is the same after there and back", () => {
    expect(toX(VIEW, 3e9)).toBe(500);
    expect(toPs(VIEW, 500)).toBe(3e9);
    expect(toX(VIEW, toPs(VIEW, 123))).toBeCloseTo(123, 9);
  });
});

describe("zooming", () => {
  it("keeps the time under the pointer where it is", () => {
    const next = { ...zoomed(VIEW, 0.5, 2.5e9, EXTENT), width: 1000 };
    expect(next.end - next.begin).toBe(1e9);
    expect(toX(next, 2.5e9)).toBeCloseTo(toX(VIEW, 2.5e9), 6);
  });

  it("ends at the whole trace and at a nanosecond", () => {
    expect(zoomed(VIEW, 1e9, 3e9, EXTENT)).toEqual(whole(EXTENT));
    const narrow = zoomed(VIEW, 1e-12, 3e9, EXTENT);
    expect(narrow.end - narrow.begin).toBe(1000);
  });
});

describe("panning", () => {
  it("moves by as much and stops at the ends", () => {
    expect(panned(VIEW, 5e8, EXTENT)).toEqual({ begin: 2.5e9, end: 4.5e9 });
    expect(panned(VIEW, -1e15, EXTENT).begin).toBe(whole(EXTENT).begin);
    expect(panned(VIEW, 1e15, EXTENT).end).toBeCloseTo(whole(EXTENT).end, -3);
  });
});

describe("a window", () => {
  it("lies around what it is to show", () => {
    const found = around({ begin: 5e11, end: 5.6e11 }, EXTENT);
    expect(found.begin).toBeCloseTo(4.8e11, -3);
    expect(found.end).toBeCloseTo(5.8e11, -3);
  });

  it("is never wider than the trace", () => {
    expect(within({ begin: -1e15, end: 1e15 }, EXTENT)).toEqual(whole(EXTENT));
  });
});

describe("the level", () => {
  it("has buckets of half a pixel to a pixel", () => {
    for (const span of [1e3, 12_345, 1e6, 7.7e9, 1e12]) {
      for (const ratio of [1, 2]) {
        const level = levelOf({ begin: 0, end: span, width: 800 }, ratio, 52);
        const pixel = Math.max(span / 800 / ratio, 1);
        expect(2 ** level).toBeLessThanOrEqual(pixel);
        expect(2 ** level).toBeGreaterThan(pixel / 2);
      }
    }
  });

  it("is no coarser than one tile of the trace", () => {
    expect(levelOf({ begin: 0, end: 1e12, width: 1 }, 1, 30)).toBe(30);
  });
});

describe("tiles", () => {
  it("are those that the window touches", () => {
    const width = tileWidth(10);
    expect(width).toBe(2 ** 20);
    expect(tilesOf({ begin: 0, end: width }, 10)).toEqual([0, 0]);
    expect(tilesOf({ begin: width - 1, end: width + 1 }, 10)).toEqual([0, 1]);
    expect(tilesOf({ begin: -1, end: 3 * width }, 10)).toEqual([-1, 2]);
  });

  it("are exact beyond 32 bits", () => {
    expect(tileWidth(40)).toBe(2 ** 50);
    expect(tilesOf({ begin: 2 ** 50, end: 2 ** 50 + 1 }, 40)).toEqual([1, 1]);
  });
});

describe("ticks", () => {
  it("are round, in the window, and in one unit", () => {
    const found = ticks({ begin: 1.9e9, end: 4.1e9, width: 1100 }, 110);
    expect(found.map((each) => each.text)).toEqual(
      ["2.0 ms", "2.5 ms", "3.0 ms", "3.5 ms", "4.0 ms"],
    );
  });

  it("tell near times apart", () => {
    const texts = ticks({ begin: 5e9, end: 5e9 + 1e5, width: 1000 }, 110).map((each) => each.text);
    expect(new Set(texts).size).toBe(texts.length);
    expect(texts.length).toBeGreaterThan(3);
  });
});
