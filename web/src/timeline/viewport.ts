// The window of time that is seen, and how picoseconds become pixels.
import { TIMES } from "../format";
import { rounded } from "../parts/axis";

export interface Extent {
  begin: number;
  end: number;
}
/** A window of time over so many CSS pixels. */
export interface Viewport extends Extent {
  width: number;
}

/** The narrowest window: a nanosecond. */
const NARROWEST_PS = 1000;
/** Room on both sides of the whole trace, as a share of it. */
const MARGIN = 0.02;
/** Buckets of a tile, as the server cuts them. */
export const TILE_BUCKETS = 1024;

export function toX(view: Viewport, ps: number): number {
  return ((ps - view.begin) / (view.end - view.begin)) * view.width;
}

export function toPs(view: Viewport, x: number): number {
  return view.begin + (x / view.width) * (view.end - view.begin);
}

/** The whole trace, with a little room around it. */
export function whole(extent: Extent): Extent {
  const room = Math.max((extent.end - extent.begin) * MARGIN, NARROWEST_PS);
  return { begin: extent.begin - room, end: extent.end + room };
}

/** A window as near to the wanted one as may be shown: no narrower, no wider, not beyond. */
export function within(wanted: Extent, extent: Extent): Extent {
  const all = whole(extent);
  const most = all.end - all.begin;
  const span = Math.min(Math.max(wanted.end - wanted.begin, NARROWEST_PS), most);
  const middle = (wanted.begin + wanted.end) / 2;
  const begin = Math.min(Math.max(middle - span / 2, all.begin), all.end - span);
  return { begin, end: begin + span };
}

/** The window with `factor` times the time, the same time at the same place. */
export function zoomed(view: Extent, factor: number, at: number, extent: Extent): Extent {
  const all = whole(extent);
  const span = view.end - view.begin;
  const kept = Math.min(Math.max(span * factor, NARROWEST_PS), all.end - all.begin);
  const share = span > 0 ? (at - view.begin) / span : 0.5;
  const begin = at - share * kept;
  return within({ begin, end: begin + kept }, extent);
}

export function panned(view: Extent, by: number, extent: Extent): Extent {
  return within({ begin: view.begin + by, end: view.end + by }, extent);
}

/** A window around a stretch of time; an instant gets a window, too. */
export function around(place: Extent, extent: Extent, share = 0.6): Extent {
  const span = Math.max((place.end - place.begin) / share, NARROWEST_PS);
  const middle = (place.begin + place.end) / 2;
  return within({ begin: middle - span / 2, end: middle + span / 2 }, extent);
}

/** The level whose buckets are as wide as a pixel at most, and half a pixel at least. */
export function levelOf(view: Viewport, ratio: number, coarsest: number): number {
  const pixel = (view.end - view.begin) / Math.max(view.width * ratio, 1);
  return Math.min(Math.max(Math.floor(Math.log2(Math.max(pixel, 1))), 0), coarsest);
}

/** Picoseconds of a tile; exact, since it is a power of two. */
export function tileWidth(level: number): number {
  return TILE_BUCKETS * 2 ** level;
}

/** First and last tile of a level that a window touches. */
export function tilesOf(view: Extent, level: number): [number, number] {
  const width = tileWidth(level);
  return [Math.floor(view.begin / width), Math.max(Math.ceil(view.end / width) - 1, Math.floor(view.begin / width))];
}

export interface Tick {
  ps: number;
  text: string;
}

/** Round times about `every` pixels apart, in one unit, from the beginning of the trace. */
export function ticks(view: Viewport, every: number): Tick[] {
  const rough = ((view.end - view.begin) / Math.max(view.width, 1)) * every;
  const step = Math.max(rounded(rough), 1);
  const size = Math.max(Math.abs(view.begin), Math.abs(view.end));
  // One unit for all: that of the step, or a larger one as long as few digits do.
  const [unit, name] = TIMES.find(([unit]) => size >= unit && step / unit >= 1e-3) ?? [1, "ps"];
  const digits = Math.max(0, -Math.floor(Math.log10(step / unit) + 1e-9));
  const found: Tick[] = [];
  for (let k = Math.ceil(view.begin / step); k * step <= view.end; k++) {
    found.push({ ps: k * step, text: `${((k * step) / unit).toFixed(digits)} ${name}` });
  }
  return found;
}
