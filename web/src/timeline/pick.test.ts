import { describe, expect, it } from "vitest";

import type { Frame, Values } from "../data/frame";
import { layout, rowY, type Catalogue } from "./model";
import { beside, gapAt, gapBeside, laneAt, sliceAt } from "./pick";
import { split, type Piece } from "./tiles";

/** Two rows: 10–20, 30–40, 60–61 and 100–120 in the first, 12–15 in the second. */
function pieces(): Piece[] {
  const rows = [[0, 10, 20], [0, 30, 40], [0, 60, 61], [0, 100, 120], [1, 12, 15]] as const;
  const columns: [string, Values][] = [
    ["track", Int32Array.from(rows, () => 4)],
    ["row", Int32Array.from(rows, (row) => row[0])],
    ["start_ps", Float64Array.from(rows, (row) => row[1])],
    ["end_ps", Float64Array.from(rows, (row) => row[2])],
    ["busy_ps", Float64Array.from(rows, (row) => row[2] - row[1])],
    ["count", Float64Array.from(rows, () => 1)],
    ["item", Float64Array.from(rows, (row) => row[1])],
    ["first", Float64Array.from(rows, (row) => row[1])],
    ["name", new Uint32Array(rows.length)],
    ["category", new Uint8Array(rows.length)],
  ];
  const frame: Frame = { meta: {}, length: rows.length, names: ["x"], columns: new Map(columns) };
  return [{ tile: split(frame, [4], 0, 200).get(4)!, begin: 0, end: 200 }];
}

describe("a pick", () => {
  it("hits the span of its row", () => {
    expect(sliceAt(pieces(), 4, 0, 13, 0)?.item).toBe(10);
    expect(sliceAt(pieces(), 4, 1, 13, 0)?.item).toBe(12);
    expect(sliceAt(pieces(), 4, 0, 25, 0)).toBeNull();
    expect(sliceAt(pieces(), 4, 2, 13, 0)).toBeNull();
  });

  it("takes the nearest span within reach", () => {
    expect(sliceAt(pieces(), 4, 0, 58, 3)?.item).toBe(60);
    expect(sliceAt(pieces(), 4, 0, 24, 5)?.item).toBe(10);
    expect(sliceAt(pieces(), 4, 0, 26, 5)?.item).toBe(30);
    expect(sliceAt(pieces(), 4, 0, 50, 5)).toBeNull();
  });
});

describe("a gap", () => {
  it("reaches from span to span", () => {
    expect(gapAt(pieces(), 0, 50)).toEqual({ begin: 40, end: 60 });
    expect(gapAt(pieces(), 0, 5)).toEqual({ begin: -Infinity, end: 10 });
    expect(gapAt(pieces(), 0, 150)).toEqual({ begin: 120, end: Infinity });
  });

  it("is the next or previous one that is long enough", () => {
    expect(gapBeside(pieces(), 0, 40, 15, true)).toEqual({ begin: 40, end: 60 });
    expect(gapBeside(pieces(), 0, 10, 25, true)).toEqual({ begin: 61, end: 100 });
    expect(gapBeside(pieces(), 0, 100, 1, false)).toEqual({ begin: 61, end: 100 });
    expect(gapBeside(pieces(), 0, 60, 15, false)).toEqual({ begin: 40, end: 60 });
    expect(gapBeside(pieces(), 0, 100, 1, true)).toBeNull();
  });
});

describe("what is beside", () => {
  it("is the next and the previous span", () => {
    expect(beside(pieces(), 4, 0, 10, true)?.item).toBe(30);
    expect(beside(pieces(), 4, 0, 30, false)?.item).toBe(10);
    expect(beside(pieces(), 4, 0, 10, false)).toBeNull();
    expect(beside(pieces(), 4, 0, 100, true)).toBeNull();
    expect(beside(pieces(), 4, 0, 70, false)?.item).toBe(60);
  });
});

const TRACK = { name: "t", kind: "thread", view: null, recorded: true, spans: 1, drawn: 1, folded: false, counter: false };
const CATALOGUE: Catalogue = {
  version: "1", host: "h", hosts: ["h"], light: true, begin_ps: 0, end_ps: 1, coarsest_level: 1, categories: [], owners: [], steps: [],
  sections: [
    { name: "device", kind: "device", label: null, device: 0, tracks: [0, 1], collapsed: false },
    { name: "host", kind: "host", label: null, device: null, tracks: [2], collapsed: true },
  ],
  tracks: [
    { ...TRACK, track: 0, section: 0, rows: 1, drawn_rows: 1 },
    { ...TRACK, track: 1, section: 0, rows: 4, drawn_rows: 3 },
    { ...TRACK, track: 2, section: 1, rows: 2, drawn_rows: 2 },
  ],
};
const PLAIN = { toggled: new Set<string>(), pinned: [], hidden: new Set<number>(), named: "" };
const keys = (as: Partial<typeof PLAIN>) => layout(CATALOGUE, { ...PLAIN, ...as }).lanes.map((each) => each.key);

describe("the layout", () => {
  it("follows the catalogue; long sections begin closed", () => {
    expect(keys({})).toEqual(["s0", "t0", "t1", "s1"]);
    expect(keys({ toggled: new Set(["s1"]) })).toEqual(["s0", "t0", "t1", "s1", "t2"]);
    expect(keys({ toggled: new Set(["s0"]) })).toEqual(["s0", "s1"]);
  });

  it("can be arranged", () => {
    expect(keys({ hidden: new Set([0]) })).toEqual(["s0", "t1", "s1"]);
    expect(keys({ hidden: new Set([0, 1]) })).toEqual(["s1"]);
    expect(layout(CATALOGUE, { ...PLAIN, pinned: [2] }).lanes.map((each) => each.key) as string[]).toEqual(["p2", "s0", "t0", "t1"]);
  });

  it("is that of the tracks with a name, in sections that are open then", () => {
    expect(keys({ named: "host" })).toEqual(["s1", "t2"]);
    expect(keys({ named: "t" })).toEqual(["s0", "t0", "t1", "s1", "t2"]);
    expect(keys({ named: "nothing" })).toEqual([]);
  });

  it("has a place for each row, and a lane at each place", () => {
    const of = layout(CATALOGUE, PLAIN);
    const lane = of.lanes.find((each) => each.key === "t1")!;
    expect(lane.rows).toBe(3);
    for (let row = 0; row < 3; row++) {
      expect(laneAt(of, rowY(lane, row) + 1, 0)).toEqual({ lane, row });
      expect(laneAt(of, rowY(lane, row) - 29, 30)).toEqual({ lane, row });
    }
    expect(laneAt(of, of.height + 1, 0)).toBeNull();
    expect(of.height).toBe(26 + 24 + 64 + 26);
  });
});
