// Pieces of tracks at a resolution: requested once, kept while there is room, and stretched
// while a finer piece is under way.
import { numbers, type Frame } from "../data/frame";
import { tilesOf, tileWidth, type Extent } from "./viewport";

/** What one track shows in one tile: slices by row, then by time. */
export interface Tile {
  begin: number;
  end: number;
  /** Where each row's slices begin; one more than there are rows. */
  rows: Uint32Array;
  start: Float64Array;
  stop: Float64Array;
  busy: Float64Array;
  count: Float64Array | Int32Array;
  item: Float64Array;
  first: Float64Array;
  name: Uint32Array;
  names: string[];
  category: Uint8Array;
  /** Shade of each name, 0 to `SHADES` - 1. */
  shade: Uint8Array;
}

/** A part of a tile that fills a stretch of time as well as can be. */
export interface Piece<T = Tile> extends Extent {
  tile: T;
}

export const SHADES = 5;
/** Tracks of one request, as the server allows. */
const MOST_TRACKS = 64;
const MOST_REQUESTS = 6;
/** Slices that are kept: about 60 bytes each. */
const MOST_SLICES = 1_500_000;
/** Levels below the wanted one that may fill in for it; each has twice the slices. */
const FINER = 2;

export function nameOf(track: number, level: number, index: number): string {
  return `${track}/${level}/${index}`;
}

/** A hash that gives a name the same shade everywhere. */
export function shadeOf(name: string): number {
  let hash = 7;
  for (let k = 0; k < name.length; k++) hash = (hash * 31 + name.charCodeAt(k)) | 0;
  return Math.abs(hash) % SHADES;
}

/** What a tile calls the columns of a frame. */
const COLUMNS = {
  start: "start_ps", stop: "end_ps", busy: "busy_ps", count: "count", item: "item", first: "first", name: "name", category: "category",
};

/** The tiles in a frame, by track; tracks without a span get an empty one. */
export function split(frame: Frame, tracks: number[], begin: number, end: number): Map<number, Tile> {
  const track = numbers<Int32Array>(frame, "track");
  const row = numbers<Int32Array>(frame, "row");
  const shade = Uint8Array.from(frame.names, shadeOf);
  const cut = (from: number, to: number): Tile => {
    const rows = [0];
    for (let k = from; k < to; k++) while (rows.length <= row[k]!) rows.push(k - from);
    rows.push(to - from);
    const parts = Object.entries(COLUMNS).map(([name, column]) => [name, numbers(frame, column).subarray(from, to)]);
    const columns = Object.fromEntries(parts) as Pick<Tile, keyof typeof COLUMNS>;
    return { begin, end, rows: Uint32Array.from(rows), names: frame.names, shade, ...columns };
  };
  const found = new Map<number, Tile>();
  for (let from = 0; from < frame.length; ) {
    let to = from;
    while (to < frame.length && track[to] === track[from]) to++;
    found.set(track[from]!, cut(from, to));
    from = to;
  }
  for (const each of tracks) if (!found.has(each)) found.set(each, cut(0, 0));
  return found;
}

/** Asks for one tile of some tracks. */
export type Source<T> = (tracks: number[], level: number, index: number, signal: AbortSignal) => Promise<Map<number, T>>;

/** Tiles of spans, or of the samples of counters. */
export class Tiles<T extends { start: ArrayLike<number> }> {
  /** Tiles by name, those used last at the end. */
  private readonly kept = new Map<string, T>();
  private readonly asked = new Map<string, AbortController>();
  private readonly refused = new Set<string>();
  private slices = 0;

  constructor(
    private readonly source: Source<T>,
    private readonly coarsest: number,
    private readonly changed: (error?: Error) => void,
  ) {}

  /** Tiles that are wanted and not there. */
  get pending(): number {
    return this.asked.size;
  }

  /** Ask for what a window needs and give up what it needs no more. */
  want(tracks: number[], view: Extent, level: number): void {
    const [first, last] = tilesOf(view, level);
    const wanted = new Set<string>();
    const groups: { index: number; tracks: number[] }[] = [];
    for (let index = first; index <= last; index++) {
      const missing = tracks.filter((track) => {
        const name = nameOf(track, level, index);
        wanted.add(name);
        return !this.kept.has(name) && !this.asked.has(name) && !this.refused.has(name);
      });
      for (let k = 0; k < missing.length; k += MOST_TRACKS) {
        groups.push({ index, tracks: missing.slice(k, k + MOST_TRACKS) });
      }
    }
    for (const [name, stop] of this.asked) if (!wanted.has(name)) stop.abort();
    // What is left waits for the next call, which every answer brings about.
    const free = MOST_REQUESTS - new Set(this.asked.values()).size;
    for (const group of groups.slice(0, Math.max(free, 0))) this.ask(group.tracks, level, group.index);
  }

  /** What is there for a track, in order of time and without overlap; all of the window or less. */
  pieces(track: number, view: Extent, level: number): Piece<T>[] {
    const width = tileWidth(level);
    const [first, last] = tilesOf(view, level);
    const found: Piece<T>[] = [];
    for (let index = first; index <= last; index++) {
      const begin = index * width;
      this.fill(found, track, level, index, begin, begin + width);
    }
    return found;
  }

  close(): void {
    for (const stop of this.asked.values()) stop.abort();
  }

  private fill(found: Piece<T>[], track: number, level: number, index: number, begin: number, end: number): void {
    const own = this.touch(track, level, index);
    if (own) {
      found.push({ tile: own, begin, end });
      return;
    }
    if (this.finer(found, track, level, index, FINER)) return;
    for (let up = 1; level + up <= this.coarsest; up++) {
      const tile = this.touch(track, level + up, Math.floor(index / 2 ** up));
      if (!tile) continue;
      const before = found.at(-1);
      if (before?.tile === tile && before.end === begin) before.end = end;
      else found.push({ tile, begin, end });
      return;
    }
  }

  /** The two halves of a tile, each from the level below or further down, if both are there. */
  private finer(found: Piece<T>[], track: number, level: number, index: number, deep: number): boolean {
    if (level === 0 || deep === 0) return false;
    const parts: Piece<T>[] = [];
    const width = tileWidth(level - 1);
    for (const half of [2 * index, 2 * index + 1]) {
      const tile = this.touch(track, level - 1, half);
      if (tile) parts.push({ tile, begin: half * width, end: (half + 1) * width });
      else if (!this.finer(parts, track, level - 1, half, deep - 1)) return false;
    }
    found.push(...parts);
    return true;
  }

  private touch(track: number, level: number, index: number): T | undefined {
    const name = nameOf(track, level, index);
    const tile = this.kept.get(name);
    if (tile) {
      this.kept.delete(name);
      this.kept.set(name, tile);
    }
    return tile;
  }

  private ask(tracks: number[], level: number, index: number): void {
    const stop = new AbortController();
    const names = tracks.map((track) => nameOf(track, level, index));
    for (const name of names) this.asked.set(name, stop);
    const over = () => names.forEach((name) => this.asked.get(name) === stop && this.asked.delete(name));
    stop.signal.addEventListener("abort", over);
    this.source(tracks, level, index, stop.signal).then(
      (tiles) => {
        over();
        for (const [track, tile] of tiles) this.keep(nameOf(track, level, index), tile);
        this.changed();
      },
      (error: Error) => {
        over();
        if (stop.signal.aborted) return;
        for (const name of names) this.refused.add(name);
        this.changed(error);
      },
    );
  }

  private keep(name: string, tile: T): void {
    this.kept.set(name, tile);
    this.slices += tile.start.length + 1;
    for (const [oldest, old] of this.kept) {
      if (this.slices <= MOST_SLICES || oldest === name) break;
      this.kept.delete(oldest);
      this.slices -= old.start.length + 1;
    }
  }
}
