// Counters: the value as steps; a bucket shows what it reached, from least to most.
import { number, sizeUnit } from "../format";
import { numbers, type Frame } from "../data/frame";
import type { Piece } from "./tiles";
import { toX, type Viewport } from "./viewport";

/** A value with its unit; bytes in a larger one. */
export function amount(value: number, unit: string): string {
  const [size, name] = unit.startsWith("bytes") ? sizeUnit(value) : [1, ""];
  return `${number(value / size)} ${unit.replace("bytes", name).replace("percent", "%")}`;
}

/** What a counter reached in each bucket of a tile. */
export interface Samples {
  start: Float64Array;
  least: Float64Array;
  most: Float64Array;
  last: Float64Array;
  /** Width of a bucket, in picoseconds. */
  bucket: number;
}

/** What a counter read at a time: one value, or the least and the greatest of a bucket. */
export interface Reading {
  least: number;
  most: number;
  /** When the first of them was set. */
  since: number;
}

/** The value at a time, which holds until the next one; null before the first. */
export function readingAt(pieces: Piece<Samples>[], ps: number): Reading | null {
  let found: Reading | null = null;
  for (const { tile } of pieces) {
    for (let k = 0; k < tile.start.length && tile.start[k]! <= ps; k++) {
      const since = tile.start[k]!;
      const inside = Math.floor(ps / tile.bucket) === Math.floor(since / tile.bucket);
      const [least, most] = inside ? [tile.least[k]!, tile.most[k]!] : [tile.last[k]!, tile.last[k]!];
      found = { least, most, since };
    }
  }
  return found;
}

export function readingText({ least, most }: Reading, unit: string): string {
  return least === most ? amount(least, unit) : `${amount(least, unit)} to ${amount(most, unit)}`;
}

/** Samples of one tile by track. */
export function samplesOf(frame: Frame, bucket: number): Map<number, Samples> {
  const track = numbers<Int32Array>(frame, "track");
  const found = new Map<number, Samples>();
  for (let from = 0; from < frame.length; ) {
    let to = from;
    while (to < frame.length && track[to] === track[from]) to++;
    const cut = (name: string) => numbers<Float64Array>(frame, name).subarray(from, to);
    found.set(track[from]!, {
      start: cut("start_ps"),
      least: cut("min"),
      most: cut("max"),
      last: cut("last"),
      bucket,
    });
    from = to;
  }
  return found;
}

/** Where a lane's values lie: those of the whole trace, and zero. */
export interface Scale {
  low: number;
  high: number;
  y: number;
  height: number;
}

export function drawCounter(
  context: CanvasRenderingContext2D, pieces: Piece<Samples>[], view: Viewport, { low, high, y, height }: Scale, colour: string,
): void {
  if (high === low) return;
  const at = (value: number) => y + height - ((value - low) / (high - low)) * height;
  const path = new Path2D();
  const area = new Path2D();
  let before: { x: number; y: number } | null = null;
  for (const { tile: piece, begin } of pieces) {
    for (let k = 0; k < piece.start.length; k++) {
      // The value that a tile begins with may be older than the tile.
      const x = toX(view, Math.max(piece.start[k]!, begin));
      if (before) {
        path.lineTo(x, before.y);
        area.rect(before.x, before.y, x - before.x, at(low) - before.y);
      } else path.moveTo(x, at(piece.last[k]!));
      path.lineTo(x, at(piece.most[k]!));
      path.lineTo(x, at(piece.least[k]!));
      path.lineTo(x, at(piece.last[k]!));
      before = { x, y: at(piece.last[k]!) };
    }
  }
  if (before) {
    path.lineTo(view.width, before.y);
    area.rect(before.x, before.y, Math.max(view.width - before.x, 0), at(low) - before.y);
  }
  context.globalAlpha = 0.3;
  context.fillStyle = colour;
  context.fill(area);
  context.globalAlpha = 1;
  context.strokeStyle = colour;
  context.stroke(path);
}
