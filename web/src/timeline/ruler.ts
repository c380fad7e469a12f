// The time axis, the steps below it, and the flags of marks.
import { duration } from "../format";
import { FONT, type Labels } from "./labels";
import type { Step } from "./model";
import type { Colours } from "./palette";
import { ticks, toX, type Extent, type Tick, type Viewport } from "./viewport";

export interface Mark extends Extent {
  note: string;
}

const AXIS = 22;
const STEPS = 22;
const EVERY = 110;
/** Between a text of the axis and its line or the next text, in pixels. */
const APART = 4;
/** A step narrower than this, in pixels, has no text; steps narrower than one share a line. */
const NARROW = 18;

export function rulerHeight(steps: Step[]): number {
  return steps.length > 0 ? AXIS + STEPS : AXIS;
}

export interface Ruled {
  steps: Step[];
  marks: Mark[];
  chosen: Extent | null;
}

/** Times to write: nearer to each other where only one would be in sight, which tells no scale. */
export function ruled(view: Viewport): Tick[] {
  const tries = [EVERY, EVERY / 2, EVERY / 4].map((every) => ticks(view, every));
  return tries.find((found) => found.length > 1) ?? tries.at(-1)!;
}

/** Where a text stands whole: right of its line, else left of it, else nowhere. */
export function placed(x: number, wide: number, free: number, width: number): number | null {
  const at = x + APART + wide <= width ? x + APART : x - APART - wide;
  return at >= free ? at : null;
}

export function drawRuler(
  context: CanvasRenderingContext2D, view: Viewport, what: Ruled, colours: Colours, labels: Labels,
): void {
  context.clearRect(0, 0, view.width, AXIS + STEPS);
  context.font = FONT;
  context.textBaseline = "middle";
  context.fillStyle = colours.muted;
  context.strokeStyle = colours.line;
  context.beginPath();
  let free = 0;
  for (const { ps, text } of ruled(view)) {
    const x = Math.round(toX(view, ps)) + 0.5;
    context.moveTo(x, 4);
    context.lineTo(x, AXIS);
    const at = placed(x, labels.width(text), free, view.width);
    if (at === null) continue;
    context.fillText(text, at, AXIS / 2);
    free = at + labels.width(text) + APART;
  }
  context.stroke();
  if (what.steps.length > 0) drawSteps(context, view, what.steps, colours, labels);
  if (what.chosen) {
    const [from, to] = [toX(view, what.chosen.begin), toX(view, what.chosen.end)];
    context.fillStyle = colours.accent;
    context.fillRect(from, AXIS - 3, Math.max(to - from, 2), 3);
  }
  what.marks.forEach((mark, number) => drawFlag(context, toX(view, mark.begin), number, colours));
}

function drawSteps(
  context: CanvasRenderingContext2D, view: Viewport, steps: Step[], colours: Colours, labels: Labels,
): void {
  let painted = -Infinity;
  steps.forEach((step, number) => {
    const end = step.end_ps ?? step.start_ps;
    if (end < view.begin || step.start_ps > view.end) return;
    const x0 = toX(view, step.start_ps);
    const x1 = toX(view, end);
    // Thousands of steps in one pixel are one; an outlier is drawn whatever lies there.
    if (x1 - painted < 1 && !step.outlier) return;
    painted = x1;
    const [from, to] = [Math.max(x0, 0), Math.min(x1, view.width)];
    context.fillStyle = step.outlier ? colours.warn : colours.line;
    context.globalAlpha = step.outlier ? 0.35 : number % 2 ? 0.45 : 0.9;
    context.fillRect(from, AXIS + 1, Math.max(to - from - 1, 1), STEPS - 3);
    context.globalAlpha = 1;
    if (step.outlier) context.fillRect(from, AXIS + STEPS - 3, Math.max(to - from - 1, 2), 2);
    if (to - from < NARROW) return;
    const name = `${step.outlier ? "▲ " : ""}${step.number ?? "?"}`;
    const long = `${step.outlier ? "▲ " : ""}Step ${step.number ?? "?"} · ${duration(end - step.start_ps)}`;
    context.fillStyle = colours.ink;
    const text = labels.width(long) <= to - from - 10 ? long : labels.fitted(name, to - from - 6);
    context.fillText(text, from + 4, AXIS + STEPS / 2);
  });
}

function drawFlag(context: CanvasRenderingContext2D, x: number, number: number, colours: Colours): void {
  const text = String(number + 1);
  context.fillStyle = colours.accent;
  context.fillRect(x, 0, 2, AXIS);
  context.fillRect(x, 0, 6 + 7 * text.length, 14);
  context.fillStyle = colours.page;
  context.fillText(text, x + 4, 7);
}

/** The step at a place of the ruler. */
export function stepAt(steps: Step[], view: Viewport, x: number, y: number): Step | null {
  if (y < AXIS) return null;
  return steps.find((each) => toX(view, each.start_ps) <= x && x < Math.max(toX(view, each.end_ps ?? each.start_ps), toX(view, each.start_ps) + 1)) ?? null;
}

/** The mark whose flag is at a place of the ruler. */
export function markAt(marks: Mark[], view: Viewport, x: number, y: number): number {
  if (y >= AXIS) return -1;
  return marks.findIndex((each) => x >= toX(view, each.begin) - 2 && x <= toX(view, each.begin) + 16);
}
