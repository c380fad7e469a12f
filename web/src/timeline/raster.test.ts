import { describe, expect, it } from "vitest";

import { firstAfter, hueOf, paint, Strip } from "./raster";
import type { Piece, Tile } from "./tiles";

type Spec = { start: number; end: number; busy?: number; count?: number; category?: number; name?: number };

function tile(begin: number, end: number, specs: Spec[], names = ["a", "b"]): Piece {
  const of = (take: (spec: Spec) => number) => Float64Array.from(specs, take);
  const made: Tile = {
    begin,
    end,
    rows: Uint32Array.of(0, specs.length),
    start: of((each) => each.start),
    stop: of((each) => each.end),
    busy: of((each) => each.busy ?? each.end - each.start),
    count: of((each) => each.count ?? 1),
    item: of((each) => each.start),
    first: of((each) => each.start),
    name: Uint32Array.from(specs, (each) => each.name ?? 0),
    names,
    category: Uint8Array.from(specs, (each) => each.category ?? 0),
    shade: new Uint8Array(names.length),
  };
  return { tile: made, begin, end };
}

const VIEW = { begin: 0, end: 100, width: 10 };

function painted(pieces: Piece[], found: Set<string> | null = null, ratio = 1) {
  const strip = new Strip(VIEW.width * ratio);
  strip.clear();
  const labels: [number, number][] = [];
  paint(strip, pieces, 0, VIEW, ratio, found && { names: found }, 2, (_tile, _slice, x0, x1) => labels.push([x0, x1]));
  return { strip, labels };
}

describe("a pixel", () => {
  it("is as busy as its time", () => {
    const { strip } = painted([tile(0, 100, [{ start: 5, end: 25 }])]);
    expect([0, 1, 2, 3].map((x) => strip.at(x).share)).toEqual([0.5, 1, 0.5, 0]);
  });

  it("of a folded slice is as busy as the slice", () => {
    const { strip } = painted([tile(0, 100, [{ start: 0, end: 100, busy: 30, count: 9 }])]);
    for (let x = 0; x < 10; x++) expect(strip.at(x).share).toBeCloseTo(0.3, 6);
  });

  it("of a span that stands for less work is as strong as that, and its outline is asked for", () => {
    const { strip, labels } = painted([tile(0, 100, [{ start: 0, end: 100, busy: 5 }])]);
    expect(strip.at(4).share).toBeCloseTo(0.05, 6);
    const pixels = new Uint32Array(10);
    strip.write(pixels, 0, Uint32Array.of(0x112233, 0, 0, 0, 0));
    expect(pixels[4]! >>> 24).toBe(Math.round(0.05 * 255));
    expect(labels).toEqual([[0, 10]]);
  });

  it("adds up all that lies in it, and has the hue of the longest", () => {
    const { strip } = painted([tile(0, 100, [{ start: 20, end: 22, category: 1 }, { start: 24, end: 29, category: 2 }, { start: 29, end: 30, category: 3 }])]);
    expect(strip.at(2).share).toBeCloseTo(0.8, 6);
    expect(strip.at(2).hue).toBe(hueOf(2, 0));
  });

  it("of an instant is there, too", () => {
    const { strip } = painted([tile(0, 100, [{ start: 50, end: 50 }])]);
    expect(strip.at(5)).toEqual({ share: 0, hue: hueOf(0, 0) });
    const pixels = new Uint32Array(10);
    strip.write(pixels, 0, Uint32Array.of(0x112233, 0, 0, 0, 0));
    expect(pixels[5]! >>> 24).toBe(56);
    expect(pixels[5]! & 0xffffff).toBe(0x112233);
    expect(pixels[4]).toBe(0);
  });

  it("is painted once where tiles meet", () => {
    const span = { start: 30, end: 70 };
    const { strip } = painted([tile(0, 50, [span]), tile(50, 100, [span])]);
    expect(Array.from({ length: 10 }, (_, x) => strip.at(x).share)).toEqual([0, 0, 0, 1, 1, 1, 1, 0, 0, 0]);
    const pixels = new Uint32Array(10);
    strip.write(pixels, 0, new Uint32Array(5));
    // A line parts a span from what is before it, and not the halves of one span.
    expect([...pixels].map((each) => each >>> 24)).toEqual([0, 0, 0, 102, 255, 255, 255, 0, 0, 0]);
  });

  it("does not depend on how sharply it is drawn", () => {
    const piece = tile(0, 100, [{ start: 5, end: 25 }, { start: 61, end: 63 }]);
    const sum = (ratio: number) => {
      const { strip } = painted([piece], null, ratio);
      let busy = 0;
      for (let x = 0; x < VIEW.width * ratio; x++) busy += strip.at(x).share / ratio;
      return busy;
    };
    expect(sum(1)).toBeCloseTo(2.2, 5);
    expect(sum(3)).toBeCloseTo(2.2, 5);
  });
});

describe("a search", () => {
  it("leaves what it does not mean pale", () => {
    const piece = tile(0, 100, [{ start: 0, end: 10, name: 0 }, { start: 20, end: 30, name: 1 }]);
    const { strip } = painted([piece], new Set(["b"]));
    const pixels = new Uint32Array(10);
    strip.write(pixels, 0, new Uint32Array(5));
    expect(pixels[0]! >>> 24).toBe(51);
    expect(pixels[2]! >>> 24).toBe(255);
  });
});

describe("a text", () => {
  it("is for single spans with room, once for each", () => {
    const wide = { start: 30, end: 70 };
    const { labels } = painted([
      tile(0, 50, [{ start: 0, end: 5 }, { start: 5, end: 30, count: 3 }, wide]),
      tile(50, 100, [wide]),
    ]);
    expect(labels).toEqual([[3, 7]]);
  });
});

describe("the first slice after a time", () => {
  it("is found as by looking at all", () => {
    const spans = Array.from({ length: 50 }, (_, k) => ({ start: 3 * k, end: 3 * k + 2 }));
    const { tile: made } = tile(0, 150, spans);
    for (let ps = -1; ps < 152; ps++) {
      const slow = spans.findIndex((each) => each.end > ps);
      expect(firstAfter(made, 0, ps)).toBe(slow < 0 ? spans.length : slow);
    }
  });
});
