// One row of pixels for each row of a lane. A pixel's colour is that of the span that takes
// most of it, its opacity the share of it that is busy: a lane that is 30 % busy looks so.
import { SHADES, type Piece, type Tile } from "./tiles";
import { toX, type Viewport } from "./viewport";

/** What is there is seen, however short it is. */
const FAINTEST = 0.22;
/** Opacity of the line between neighbours, and of what a search does not mean. */
const EDGE = 0.4;
const UNSOUGHT = 0.2;
/** Spans at least this wide, in pixels, are told apart by a line. */
const WIDE = 4;

/** Colours by category and shade, as 0xBBGGRR. */
export type Palette = Uint32Array;

export interface Found {
  /** Names that are looked for. */
  names: ReadonlySet<string>;
}

/** Takes a span that stands alone and is wide enough for a text, or for its outline if it is hollow. */
export type Label = (tile: Tile, slice: number, x0: number, x1: number) => void;

export class Strip {
  private readonly cover: Float32Array;
  private readonly most: Float32Array;
  private readonly hue: Uint16Array;
  private readonly faint: Float32Array;

  constructor(readonly width: number) {
    this.cover = new Float32Array(width);
    this.most = new Float32Array(width);
    this.hue = new Uint16Array(width);
    this.faint = new Float32Array(width);
  }

  clear(): void {
    this.cover.fill(0);
    this.most.fill(-1);
    this.hue.fill(0);
    this.faint.fill(1);
  }

  /** Add time from `x0` to `x1`, of which a share is busy; hues count from 1. A line may part it from what came before. */
  add(x0: number, x1: number, share: number, hue: number, { faint = 1, parted = false } = {}): void {
    if (x1 < 0 || x0 >= this.width) return;
    const from = Math.max(x0, 0);
    const to = Math.min(x1, this.width);
    const first = Math.floor(from);
    const last = Math.min(Math.ceil(to) - 1, this.width - 1);
    if (last <= first) {
      this.put(first, (to - from) * share, hue, faint);
      return;
    }
    this.put(first, (first + 1 - from) * share, hue, faint);
    for (let x = first + 1; x < last; x++) this.put(x, share, hue, faint);
    this.put(last, (to - last) * share, hue, faint);
    if (parted && x0 >= 0) this.faint[first]! *= EDGE;
  }

  /** Write the row as RGBA. */
  write(pixels: Uint32Array, at: number, palette: Palette): void {
    for (let x = 0; x < this.width; x++) {
      const hue = this.hue[x]!;
      if (hue === 0) {
        pixels[at + x] = 0;
        continue;
      }
      const share = Math.min(Math.max(this.cover[x]!, FAINTEST), 1) * this.faint[x]!;
      pixels[at + x] = ((Math.round(share * 255) << 24) | palette[hue - 1]!) >>> 0;
    }
  }

  /** How busy a pixel is, and its hue. */
  at(x: number): { share: number; hue: number } {
    return { share: Math.min(this.cover[x]!, 1), hue: this.hue[x]! };
  }

  private put(x: number, amount: number, hue: number, faint: number): void {
    this.cover[x]! += amount;
    if (amount > this.most[x]!) {
      this.most[x] = amount;
      this.hue[x] = hue;
      this.faint[x] = faint;
    }
  }
}

/** The hue of a category and a shade. */
export function hueOf(category: number, shade: number): number {
  return 1 + category * SHADES + shade;
}

/** First slice of a row that may end after a time. */
export function firstAfter(tile: Tile, row: number, ps: number): number {
  let low = tile.rows[row] ?? tile.start.length;
  let high = tile.rows[row + 1] ?? low;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (tile.stop[middle]! <= ps) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Whether a single span stands for work that takes less time than it does. */
export function isHollow(tile: Tile, k: number): boolean {
  return tile.count[k] === 1 && tile.busy[k]! < tile.stop[k]! - tile.start[k]!;
}

/** Paint a row of a track; `ratio` pixels of the strip are one of the screen. */
export function paint(
  strip: Strip, pieces: Piece[], row: number, view: Viewport, ratio: number,
  found: Found | null, roomy: number, label: Label,
): void {
  pieces.forEach(({ tile, begin, end }, piece) => {
    const stop = tile.rows[row + 1] ?? 0;
    const from = Math.max(begin, view.begin);
    const to = Math.min(end, view.end);
    // An instant at the very beginning ends when it begins.
    for (let k = Math.max(firstAfter(tile, row, from) - 1, tile.rows[row] ?? stop); k < stop; k++) {
      const start = tile.start[k]!;
      if (start >= to) break;
      const ended = tile.stop[k]!;
      if (ended < from || (ended === from && start < from)) continue;
      // A span that other tiles have, too, is painted in parts.
      const x0 = toX(view, Math.max(start, begin)) * ratio;
      const x1 = toX(view, Math.min(ended, end)) * ratio;
      const share = ended > start ? tile.busy[k]! / (ended - start) : 0;
      const sought = !found || found.names.has(tile.names[tile.name[k]!]!);
      const wide = (toX(view, ended) - toX(view, start)) * ratio >= WIDE;
      const hollow = isHollow(tile, k) && wide;
      // The outline of a hollow span is seen, so that the rest may be as faint as it is idle.
      const faint = hollow ? Math.min(share / FAINTEST, 1) : 1;
      strip.add(x0, x1, share, hueOf(tile.category[k]!, tile.shade[tile.name[k]!]!), {
        faint: faint * (sought ? 1 : UNSOUGHT),
        parted: start >= begin && wide,
      });
      const isFirst = start >= begin || piece === 0;
      if (isFirst && tile.count[k] === 1) {
        const left = toX(view, start);
        const right = toX(view, ended);
        if (hollow || right - Math.max(left, 0) >= roomy) label(tile, k, left, right);
      }
    }
  });
}
