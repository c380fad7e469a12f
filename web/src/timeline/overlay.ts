// What lies over the spans: selection, pointer, measured time, arrows, marks, explanations.
import { duration } from "../format";
import { FONT } from "./labels";
import { rowY, ROW, type Lane, type Layout } from "./model";
import type { Colours } from "./palette";
import type { Mark } from "./ruler";
import { ticks, toX, type Extent, type Viewport } from "./viewport";

/** A stretch of a row. */
export interface Spot extends Extent {
  track: number;
  row: number;
}
/** From where a call ends to where its work begins. */
export interface Arrow {
  from: Spot;
  to: Spot;
}
/** A stretch that explains idle time; without a track it concerns all of them. */
export interface Band extends Extent {
  track: number | null;
  token: string;
}
export interface Drawn {
  spot: Spot | null;
  hover: Spot | null;
  area: (Extent & { tracks: number[] | null }) | null;
  measured: Extent | null;
  arrows: Arrow[];
  bands: Band[];
  marks: Mark[];
}

export interface Place {
  view: Viewport;
  layout: Layout;
  scrolled: number;
  height: number;
}

const EVERY = 110;

/** Lines of the time axis, beneath everything. */
export function drawGrid(context: CanvasRenderingContext2D, view: Viewport, height: number, colours: Colours): void {
  context.strokeStyle = colours.line;
  context.globalAlpha = 0.6;
  context.beginPath();
  for (const { ps } of ticks(view, EVERY)) {
    const x = Math.round(toX(view, ps)) + 0.5;
    context.moveTo(x, 0);
    context.lineTo(x, height);
  }
  context.stroke();
  context.globalAlpha = 1;
}

export function drawOverlay(context: CanvasRenderingContext2D, at: Place, what: Drawn, colours: Colours, token: (name: string) => string): void {
  const { view, height } = at;
  context.clearRect(0, 0, view.width, height);
  context.font = FONT;
  context.textBaseline = "middle";
  for (const mark of what.marks) stroke(context, toX(view, mark.begin), 0, height, colours.accent, [2, 3]);
  for (const band of what.bands) drawBand(context, at, band, token(band.token));
  if (what.area) drawArea(context, at, what.area, colours);
  if (what.hover) outline(context, at, what.hover, colours.ink, 1);
  if (what.spot) {
    stroke(context, toX(view, what.spot.begin), 0, height, colours.accent, [1, 4]);
    stroke(context, toX(view, what.spot.end), 0, height, colours.accent, [1, 4]);
    outline(context, at, what.spot, colours.page, 5);
    outline(context, at, what.spot, colours.accent, 3);
  }
  for (const arrow of what.arrows) drawArrow(context, at, arrow, colours);
  if (what.measured) drawMeasured(context, at, what.measured, colours);
}

/** The lane of a track, and the height of one of its rows; a closed lane has its first row only. */
function placed(at: Place, track: number, row: number): { lane: Lane; y: number } | null {
  const lane = at.layout.lanes.find((each) => each.track?.track === track);
  if (!lane) return null;
  const y = rowY(lane, Math.min(row, Math.max(lane.rows - 1, 0)));
  return { lane, y: lane.pinned ? y : y - at.scrolled };
}

function outline(context: CanvasRenderingContext2D, at: Place, spot: Spot, colour: string, wide: number): void {
  const found = placed(at, spot.track, spot.row);
  if (!found || (!found.lane.pinned && found.y + ROW < at.layout.pinned)) return;
  const x0 = Math.max(toX(at.view, spot.begin), -4);
  const x1 = Math.min(toX(at.view, spot.end), at.view.width + 4);
  if (x1 < -3 || x0 > at.view.width + 3) return;
  context.strokeStyle = colour;
  context.lineWidth = wide;
  const height = found.lane.track?.counter ? found.lane.height - 4 : ROW;
  context.strokeRect(x0 - 1, found.y, Math.max(x1 - x0, 2) + 2, height - 1);
  context.lineWidth = 1;
}

function drawArea(context: CanvasRenderingContext2D, at: Place, area: NonNullable<Drawn["area"]>, colours: Colours): void {
  const x0 = toX(at.view, area.begin);
  const width = Math.max(toX(at.view, area.end) - x0, 1);
  context.fillStyle = colours.accent;
  const lanes = at.layout.lanes.filter((lane) => lane.track && (!area.tracks || area.tracks.includes(lane.track.track)));
  context.globalAlpha = 0.18;
  if (!area.tracks) context.fillRect(x0, 0, width, at.height);
  else for (const lane of lanes) context.fillRect(x0, lane.pinned ? lane.y : lane.y - at.scrolled, width, lane.height);
  context.globalAlpha = 1;
  stroke(context, x0, 0, at.height, colours.accent, []);
  stroke(context, x0 + width, 0, at.height, colours.accent, []);
}

function drawBand(context: CanvasRenderingContext2D, at: Place, band: Band, fill: string): void {
  const x0 = toX(at.view, band.begin);
  const width = Math.max(toX(at.view, band.end) - x0, 1);
  if (x0 > at.view.width || x0 + width < 0) return;
  context.fillStyle = fill;
  context.globalAlpha = 0.22;
  context.fillRect(x0, 0, width, at.height);
  context.globalAlpha = 1;
  context.fillRect(x0, 0, width, 4);
  const found = band.track === null ? null : placed(at, band.track, 0);
  if (found) {
    context.strokeStyle = fill;
    context.lineWidth = 2;
    context.strokeRect(x0, found.y - 1, width, found.lane.height - 2);
    context.lineWidth = 1;
  }
}

function drawArrow(context: CanvasRenderingContext2D, at: Place, arrow: Arrow, colours: Colours): void {
  const from = placed(at, arrow.from.track, arrow.from.row);
  const to = placed(at, arrow.to.track, arrow.to.row);
  if (!from || !to) return;
  const [x0, y0] = [toX(at.view, arrow.from.end), from.y + ROW / 2];
  const [x1, y1] = [toX(at.view, arrow.to.begin), to.y + ROW / 2];
  const bend = Math.min(Math.max(Math.abs(x1 - x0) / 2, 24), 160);
  for (const [colour, wide] of [[colours.page, 4], [colours.accent, 2]] as const) {
    context.strokeStyle = colour;
    context.lineWidth = wide;
    context.beginPath();
    context.moveTo(x0, y0);
    context.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1 - 3, y1);
    context.stroke();
  }
  context.fillStyle = colours.accent;
  context.beginPath();
  context.moveTo(x1, y1);
  context.lineTo(x1 - 8, y1 - 4.5);
  context.lineTo(x1 - 8, y1 + 4.5);
  context.fill();
  context.lineWidth = 1;
}

function drawMeasured(context: CanvasRenderingContext2D, at: Place, measured: Extent, colours: Colours): void {
  const [x0, x1] = [toX(at.view, measured.begin), toX(at.view, measured.end)];
  context.fillStyle = colours.warn;
  context.globalAlpha = 0.12;
  context.fillRect(x0, 0, x1 - x0, at.height);
  context.globalAlpha = 1;
  stroke(context, x0, 0, at.height, colours.warn, []);
  stroke(context, x1, 0, at.height, colours.warn, []);
  const text = duration(measured.end - measured.begin);
  const width = context.measureText(text).width + 12;
  const middle = Math.min(Math.max((x0 + x1) / 2, width / 2), at.view.width - width / 2);
  context.fillStyle = colours.warn;
  context.fillRect(middle - width / 2, 6, width, 18);
  context.fillStyle = colours.page;
  context.fillText(text, middle - width / 2 + 6, 15);
}

function stroke(context: CanvasRenderingContext2D, x: number, top: number, bottom: number, colour: string, dash: number[]): void {
  context.strokeStyle = colour;
  context.setLineDash(dash);
  context.beginPath();
  context.moveTo(Math.round(x) + 0.5, top);
  context.lineTo(Math.round(x) + 0.5, bottom);
  context.stroke();
  context.setLineDash([]);
}
