import { describe, expect, it } from "vitest";

import type { Frame, Values } from "../data/frame";
import { nameOf, shadeOf, SHADES, split, Tiles, type Source, type Tile } from "./tiles";
import { tileWidth } from "./viewport";

type Row = [track: number, row: number, start: number, end: number];

function frame(rows: Row[]): Frame {
  const column = (take: (row: Row) => number) => Float64Array.from(rows, take);
  const columns: [string, Values][] = [
    ["track", Int32Array.from(rows, (row) => row[0])],
    ["row", Int32Array.from(rows, (row) => row[1])],
    ["start_ps", column((row) => row[2])],
    ["end_ps", column((row) => row[3])],
    ["busy_ps", column((row) => row[3] - row[2])],
    ["count", column(() => 1)],
    ["item", column((row) => rows.indexOf(row))],
    ["first", column((row) => rows.indexOf(row))],
    ["name", Uint32Array.from(rows, () => 0)],
    ["category", Uint8Array.from(rows, () => 8)],
  ];
  return { meta: {}, length: rows.length, names: ["one"], columns: new Map(columns) };
}

function tile(begin: number, end: number): Tile {
  return split(frame([[0, 0, begin, end]]), [0], begin, end).get(0)!;
}

/** A source that answers when the test says so. */
function source() {
  const asked: { name: string; answer: () => void; refuse: () => void }[] = [];
  const from: Source<Tile> = (tracks, level, index, signal) =>
    new Promise((done, failed) => {
      const width = tileWidth(level);
      const answer = () => done(new Map(tracks.map((track) => [track, tile(index * width, (index + 1) * width)])));
      const entry = { name: nameOf(tracks[0]!, level, index), answer, refuse: () => failed(new Error("no")) };
      asked.push(entry);
      signal.addEventListener("abort", () => {
        asked.splice(asked.indexOf(entry), 1);
        failed(new Error("aborted"));
      });
    });
  return { asked, from };
}

const settled = () => new Promise((done) => setTimeout(done));
const window = (level: number, from: number, to: number) => ({ begin: from * tileWidth(level), end: to * tileWidth(level) });

describe("a frame", () => {
  it("is cut by track and by row", () => {
    const found = split(frame([[3, 0, 0, 5], [3, 2, 1, 2], [3, 2, 2, 3], [7, 1, 0, 1]]), [3, 5, 7], 0, 8);
    expect([...found.get(3)!.rows]).toEqual([0, 1, 1, 3]);
    expect([...found.get(3)!.start]).toEqual([0, 1, 2]);
    expect([...found.get(7)!.rows]).toEqual([0, 0, 1]);
    expect(found.get(5)!.start.length).toBe(0);
  });
});

describe("a shade", () => {
  it("is that of the name, in range", () => {
    const names = Array.from({ length: 200 }, (_, k) => `kernel ${k}`);
    expect(names.map(shadeOf)).toEqual(names.map(shadeOf));
    expect(new Set(names.map(shadeOf))).toEqual(new Set([...Array(SHADES).keys()]));
  });
});

describe("tiles", () => {
  it("are requested once", async () => {
    const { asked, from } = source();
    const tiles = new Tiles(from, 20, () => undefined);
    tiles.want([0], window(4, 0, 2), 4);
    tiles.want([0], window(4, 0, 2), 4);
    expect(asked.map((each) => each.name)).toEqual([nameOf(0, 4, 0), nameOf(0, 4, 1)]);
    asked.forEach((each) => each.answer());
    await settled();
    tiles.want([0], window(4, 0, 2), 4);
    expect(asked.length).toBe(2);
    expect(tiles.pending).toBe(0);
  });

  it("that nobody wants any more are given up", () => {
    const { asked, from } = source();
    const tiles = new Tiles(from, 20, () => undefined);
    tiles.want([0], window(4, 0, 1), 4);
    tiles.want([0], window(4, 7, 8), 4);
    expect(asked.map((each) => each.name)).toEqual([nameOf(0, 4, 7)]);
    expect(tiles.pending).toBe(1);
  });

  it("of a coarser level are stretched until the finer ones are there", async () => {
    const { asked, from } = source();
    const tiles = new Tiles(from, 20, () => undefined);
    tiles.want([0], window(6, 0, 1), 6);
    asked[0]!.answer();
    await settled();
    const view = window(4, 0, 4);
    tiles.want([0], view, 4);
    const [stretched, ...others] = tiles.pieces(0, view, 4);
    expect(others).toEqual([]);
    expect(stretched).toMatchObject(view);
    expect(stretched!.tile.end).toBe(tileWidth(6));
    asked.slice(1).forEach((each) => each.answer());
    await settled();
    expect(tiles.pieces(0, view, 4).map((each) => each.tile.end)).toEqual([1, 2, 3, 4].map((k) => k * tileWidth(4)));
  });

  it("of a finer level stand in for a coarser one", async () => {
    const { asked, from } = source();
    const tiles = new Tiles(from, 20, () => undefined);
    tiles.want([0], window(4, 0, 2), 4);
    asked.forEach((each) => each.answer());
    await settled();
    const found = tiles.pieces(0, window(5, 0, 1), 5);
    expect(found.map(({ begin, end }) => [begin, end])).toEqual([[0, tileWidth(4)], [tileWidth(4), tileWidth(5)]]);
  });

  it("that were refused are said and not requested again", async () => {
    const { asked, from } = source();
    const errors: (Error | undefined)[] = [];
    const tiles = new Tiles(from, 20, (error) => errors.push(error));
    tiles.want([0], window(4, 0, 1), 4);
    asked[0]!.refuse();
    await settled();
    tiles.want([0], window(4, 0, 1), 4);
    expect(asked.length).toBe(1);
    expect(errors.map((each) => each?.message)).toEqual(["no"]);
  });

  it("are asked for a few at a time", () => {
    const { asked, from } = source();
    const tiles = new Tiles(from, 20, () => undefined);
    tiles.want(Array.from({ length: 200 }, (_, k) => k), window(4, 0, 9), 4);
    expect(asked.length).toBe(6);
  });
});
