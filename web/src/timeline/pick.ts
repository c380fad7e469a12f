// What lies at a place of the screen: a span, several in one pixel, or nothing.
import { rowY, ROW, type Lane, type Layout } from "./model";
import { firstAfter } from "./raster";
import type { Piece, Tile } from "./tiles";
import type { Extent } from "./viewport";

export interface Slice extends Extent {
  track: number;
  row: number;
  item: number;
  /** Place of its first span in the track; `unfold` wants it. */
  first: number;
  count: number;
  busy: number;
  name: string;
  category: number;
}

/** The lane and the row at a height of the content; pinned lanes lie over the others. */
export function laneAt(of: Layout, y: number, scrolled: number): { lane: Lane; row: number } | null {
  const pinned = y < of.pinned;
  const at = pinned ? y : y + scrolled;
  const lane = of.lanes.find((each) => each.pinned === pinned && at >= each.y && at < each.y + each.height);
  if (!lane) return null;
  return { lane, row: Math.min(Math.max(Math.floor((at - rowY(lane, 0)) / ROW), 0), Math.max(lane.rows - 1, 0)) };
}

/** The slice of a row at a time, or within `slack` of it. */
export function sliceAt(pieces: Piece[], track: number, row: number, ps: number, slack: number): Slice | null {
  let nearest: Slice | null = null;
  let distance = slack;
  for (const { tile, begin, end } of pieces) {
    if (end < ps - slack || begin > ps + slack) continue;
    const stop = tile.rows[row + 1] ?? 0;
    const from = Math.max(firstAfter(tile, row, ps - slack) - 1, tile.rows[row] ?? stop);
    for (let k = from; k < stop && tile.start[k]! <= ps + slack; k++) {
      const away = Math.max(tile.start[k]! - ps, ps - tile.stop[k]!, 0);
      if (away > distance || (nearest && away === distance)) continue;
      distance = away;
      nearest = sliceOf(tile, k, track, row);
    }
  }
  return nearest;
}

/** The empty stretch of a row around a time; infinite on a side where nothing is loaded. */
export function gapAt(pieces: Piece[], row: number, ps: number): Extent {
  let begin = -Infinity;
  let end = Infinity;
  for (const { tile } of pieces) {
    const from = tile.rows[row] ?? 0;
    const stop = tile.rows[row + 1] ?? 0;
    const next = firstAfter(tile, row, ps);
    if (next < stop && next >= from) end = Math.min(end, Math.max(tile.start[next]!, ps));
    if (next > from) begin = Math.max(begin, tile.stop[next - 1]!);
  }
  return { begin, end };
}

/** The next or previous slice of a row from a time on; null where none is loaded. */
export function beside(pieces: Piece[], track: number, row: number, ps: number, forward: boolean): Slice | null {
  let best: Slice | null = null;
  const way = forward ? 1 : -1;
  for (const { tile } of pieces) {
    const from = tile.rows[row] ?? 0;
    const stop = tile.rows[row + 1] ?? 0;
    const near = firstAfter(tile, row, ps);
    let k = forward ? Math.max(near - 1, from) : Math.min(near, stop - 1);
    while (k >= from && k < stop && way * (tile.start[k]! - ps) <= 0) k += way;
    if (k < from || k >= stop) continue;
    if (!best || way * (tile.start[k]! - best.begin) < 0) best = sliceOf(tile, k, track, row);
  }
  return best;
}

/** The next or previous empty stretch of a row that is at least `least` long. */
export function gapBeside(pieces: Piece[], row: number, from: number, least: number, forward: boolean): Extent | null {
  const edges: [number, number][] = [];
  for (const { tile } of pieces) {
    const stop = tile.rows[row + 1] ?? 0;
    for (let k = tile.rows[row] ?? stop; k < stop; k++) edges.push([tile.start[k]!, tile.stop[k]!]);
  }
  edges.sort((a, b) => a[0] - b[0]);
  let found: Extent | null = null;
  for (let k = 1; k < edges.length; k++) {
    const [begin, end] = [edges[k - 1]![1], edges[k]![0]];
    if (end - begin < least) continue;
    if (forward && begin >= from) return { begin, end };
    if (!forward && end <= from) found = { begin, end };
  }
  return found;
}

function sliceOf(tile: Tile, k: number, track: number, row: number): Slice {
  return {
    track,
    row,
    begin: tile.start[k]!,
    end: tile.stop[k]!,
    item: tile.item[k]!,
    first: tile.first[k]!,
    count: tile.count[k]!,
    busy: tile.busy[k]!,
    name: tile.names[tile.name[k]!]!,
    category: tile.category[k]!,
  };
}
