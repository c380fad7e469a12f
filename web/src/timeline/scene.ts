// The three canvases of the timeline and what is on them. Every change is drawn in the next
// frame; while the window moves at one device pixel, and sharply once it stands still.
import { amount, drawCounter, readingAt, type Reading, type Samples } from "./counters";
import { FONT, Labels, onCanvas } from "./labels";
import { rowY, ROW, visible, type Catalogue, type Lane, type Layout, type Step } from "./model";
import { drawGrid, drawOverlay, type Drawn } from "./overlay";
import { colours, type Colours } from "./palette";
import { colour } from "../state/theme";
import { laneAt, sliceAt, type Slice } from "./pick";
import { isHollow, paint, Strip, type Found } from "./raster";
import { drawRuler, rulerHeight } from "./ruler";
import { Tiles, type Piece, type Source, type Tile } from "./tiles";
import { around, levelOf, toPs, whole, within, type Extent, type Viewport } from "./viewport";

export interface Sources {
  spans: Source<Tile>;
  counters: Source<Samples>;
}

/** Share of the way to its goal that the window goes in a frame. */
const EASE = 0.35;
const STILL_MS = 140;
/** Pixels within which the pointer means a span. */
const SLACK = 4;
/** Room that a text needs; fewer spans get one while the window moves. */
const ROOMY = 26;
const ROOMY_MOVING = 60;
/** A text on a hollow span that is less busy than this needs the colour of the page around it. */
const NEARLY_FULL = 0.9;

interface Text {
  tile: Tile;
  slice: number;
  x0: number;
  x1: number;
  y: number;
}

export class Scene {
  readonly extent: Extent;
  readonly canvases: Record<"ruler" | "lanes" | "overlay", HTMLCanvasElement>;
  readonly tiles: Tiles<Tile>;
  readonly counters: Tiles<Samples>;
  view: Viewport;
  layout: Layout = { lanes: [], pinned: 0, height: 0 };
  scrolled = 0;
  height = 0;
  drawn: Drawn = { spot: null, hover: null, area: null, measured: null, arrows: [], bands: [], marks: [] };
  found: Found | null = null;
  /** Called with the window whenever it is drawn. */
  readonly followers = new Set<(view: Extent) => void>();
  private goal: Extent | null = null;
  private movedAt = -Infinity;
  private asked = 0;
  private strip = new Strip(1);
  private image = new ImageData(1, 1);
  private readonly buffer = document.createElement("canvas");
  private readonly labels: Labels;
  private colours: Colours;

  constructor(
    readonly catalogue: Catalogue,
    private readonly root: HTMLElement,
    readonly sources: Sources,
    private readonly told: { settled: () => void; refused: (error: Error) => void },
  ) {
    const [ruler, lanes, overlay] = root.querySelectorAll<HTMLCanvasElement>(".ruler, .sheet > canvas");
    this.canvases = { ruler: ruler!, lanes: lanes!, overlay: overlay! };
    this.extent = { begin: catalogue.begin_ps ?? 0, end: Math.max(catalogue.end_ps ?? 0, (catalogue.begin_ps ?? 0) + 1) };
    this.view = { ...first(catalogue.steps, this.extent), width: 1 };
    const changed = (error?: Error) => {
      if (error) told.refused(error);
      this.redraw();
    };
    this.tiles = new Tiles(sources.spans, catalogue.coarsest_level, changed);
    this.counters = new Tiles(sources.counters, catalogue.coarsest_level, changed);
    this.labels = new Labels(onCanvas(context(this.canvases.lanes)));
    this.colours = colours(catalogue.categories);
  }

  get moving(): boolean {
    return this.goal !== null || performance.now() - this.movedAt < STILL_MS;
  }

  /** Where the window is going, or is. */
  get target(): Extent {
    return this.goal ?? this.view;
  }

  repaint(): void {
    this.colours = colours(this.catalogue.categories);
    this.redraw();
  }

  resize(width: number, height: number): void {
    if (width === this.view.width && height === this.height && this.canvases.lanes.width === Math.round(width * devicePixelRatio)) return;
    this.view = { ...this.view, width };
    this.height = height;
    const { ruler, lanes, overlay } = this.canvases;
    const axis = rulerHeight(this.catalogue.steps);
    for (const [canvas, tall] of [[ruler, axis], [lanes, height], [overlay, height]] as const) {
      canvas.width = Math.round(width * devicePixelRatio);
      canvas.height = Math.round(tall * devicePixelRatio);
      canvas.style.width = `${width}px`;
      canvas.style.height = `${tall}px`;
    }
    this.draw();
  }

  /** Show another window: at once while a hand moves it, else gliding there. */
  look(wanted: Extent, { glide = true } = {}): void {
    const goal = within(wanted, this.extent);
    this.movedAt = performance.now();
    if (glide && !matchMedia("(prefers-reduced-motion: reduce)").matches) this.goal = goal;
    else {
      this.goal = null;
      this.view = { ...goal, width: this.view.width };
    }
    this.redraw();
  }

  /** Show the window of another scene, also where nothing of this one lies in it. */
  follow(view: Extent): void {
    if (view.begin === this.view.begin && view.end === this.view.end) return;
    this.movedAt = performance.now();
    this.view = { begin: view.begin, end: view.end, width: this.view.width };
    this.redraw();
  }

  /** Change what lies over the spans. */
  show(what: Partial<Drawn>): void {
    this.drawn = { ...this.drawn, ...what };
    this.redraw();
  }

  redraw(): void {
    if (this.asked === 0) this.asked = requestAnimationFrame(() => this.draw());
  }

  /** What is loaded of a track in the window. */
  pieces(track: number): Piece[] {
    return this.tiles.pieces(track, this.view, this.level);
  }

  /** What is loaded of a counter in the window. */
  samples(track: number): Piece<Samples>[] {
    return this.counters.pieces(track, this.view, this.level);
  }

  /** The time that so many pixels are wide. */
  wide(pixels: number): number {
    return (pixels * (this.view.end - this.view.begin)) / this.view.width;
  }

  /** What lies at a place of the canvas: a span, or the value of a counter, as it is drawn. */
  at(x: number, y: number): { lane: Lane; row: number; ps: number; slice: Slice | null; reading: Reading | null } | null {
    const found = laneAt(this.layout, y, this.scrolled);
    if (!found?.lane.track) return null;
    const ps = toPs(this.view, x);
    const { track, counter } = found.lane.track;
    const slice = counter ? null : sliceAt(this.pieces(track), track, found.row, ps, this.wide(SLACK));
    return { ...found, ps, slice, reading: counter ? readingAt(this.samples(track), ps) : null };
  }

  get level(): number {
    return levelOf(this.view, devicePixelRatio, this.catalogue.coarsest_level);
  }

  close(): void {
    cancelAnimationFrame(this.asked);
    this.tiles.close();
    this.counters.close();
  }

  private draw(): void {
    cancelAnimationFrame(this.asked);
    this.asked = 0;
    this.glide();
    const moving = this.moving;
    const lanes = visible(this.layout, this.scrolled, this.height);
    this.request(lanes);
    this.drawLanes(lanes, moving);
    const place = { view: this.view, layout: this.layout, scrolled: this.scrolled, height: this.height };
    drawOverlay(context(this.canvases.overlay), place, this.drawn, this.colours, colour);
    const { spot, area, measured, marks } = this.drawn;
    const ruled = { steps: this.catalogue.steps, marks, chosen: measured ?? area ?? spot };
    drawRuler(context(this.canvases.ruler), this.view, ruled, this.colours, this.labels);
    for (const each of this.followers) each(this.view);
    this.tell(moving, lanes);
    if (moving) this.redraw();
    else if (!this.busy) this.told.settled();
  }

  private glide(): void {
    if (!this.goal) return;
    const pixel = (this.goal.end - this.goal.begin) / this.view.width;
    const begin = this.view.begin + (this.goal.begin - this.view.begin) * EASE;
    const end = this.view.end + (this.goal.end - this.view.end) * EASE;
    const near = Math.abs(this.goal.begin - begin) < pixel / 2 && Math.abs(this.goal.end - end) < pixel / 2;
    this.view = { ...(near ? this.goal : { begin, end }), width: this.view.width };
    this.movedAt = performance.now();
    if (near) this.goal = null;
  }

  private request(lanes: Lane[]): void {
    const target = { ...this.target, width: this.view.width };
    const level = levelOf(target, devicePixelRatio, this.catalogue.coarsest_level);
    const of = (counter: boolean) => lanes.filter((lane) => lane.track!.counter === counter).map((lane) => lane.track!.track);
    this.tiles.want(of(false), target, level);
    this.counters.want(of(true), target, level);
  }

  get busy(): boolean {
    return this.tiles.pending + this.counters.pending > 0;
  }

  private drawLanes(lanes: Lane[], moving: boolean): void {
    const target = context(this.canvases.lanes);
    const { width } = this.view;
    target.clearRect(0, 0, width, this.height);
    this.drawHeadings(target);
    drawGrid(target, this.view, this.height, this.colours);
    const ratio = moving ? 1 : devicePixelRatio;
    const across = Math.max(Math.round(width * ratio), 1);
    const rows = lanes.reduce((sum, lane) => sum + (lane.track!.counter ? 0 : lane.rows), 0);
    this.fit(across, rows);
    const texts: Text[] = [];
    const pixels = new Uint32Array(this.image.data.buffer);
    let at = 0;
    for (const lane of lanes) {
      if (lane.track!.counter) continue;
      const pieces = this.pieces(lane.track!.track);
      for (let row = 0; row < lane.rows; row++) {
        const y = this.screenY(lane, row);
        this.strip.clear();
        paint(this.strip, pieces, row, this.view, across / width, this.found, moving ? ROOMY_MOVING : ROOMY, (tile, slice, x0, x1) =>
          texts.push({ tile, slice, x0, x1, y }),
        );
        this.strip.write(pixels, at * across, this.colours.fills);
        at += 1;
      }
    }
    context(this.buffer, 1).putImageData(this.image, 0, 0);
    target.imageSmoothingEnabled = false;
    at = 0;
    this.clipped(target, lanes, (lane) => {
      if (lane.track!.counter) this.drawCounter(target, lane);
      for (let row = 0; !lane.track!.counter && row < lane.rows; row++) {
        target.drawImage(this.buffer, 0, at++, across, 1, 0, this.screenY(lane, row) + 1, width, ROW - 2);
      }
    });
    this.drawTexts(target, texts, moving ? ROOMY_MOVING : ROOMY);
  }

  /** The bands of the sections' headings go on from the names at the left. */
  private drawHeadings(target: CanvasRenderingContext2D): void {
    target.fillStyle = this.colours.panel;
    for (const lane of this.layout.lanes) {
      if (!lane.track) target.fillRect(0, lane.y - this.scrolled, this.view.width, lane.height - 1);
    }
  }

  /** Draw the lanes that scroll below the pinned ones, then those. */
  private clipped(target: CanvasRenderingContext2D, lanes: Lane[], draw: (lane: Lane) => void): void {
    for (const lane of lanes) {
      target.save();
      if (!lane.pinned) {
        target.beginPath();
        target.rect(0, this.layout.pinned, this.view.width, this.height);
        target.clip();
      }
      draw(lane);
      target.strokeStyle = this.colours.line;
      const bottom = Math.round((lane.pinned ? lane.y : lane.y - this.scrolled) + lane.height) - 0.5;
      target.beginPath();
      target.moveTo(0, bottom);
      target.lineTo(this.view.width, bottom);
      target.stroke();
      target.restore();
    }
  }

  private drawCounter(target: CanvasRenderingContext2D, lane: Lane): void {
    const y = (lane.pinned ? lane.y : lane.y - this.scrolled) + 3;
    const { least, greatest, unit } = lane.track!;
    const [low, high] = [Math.min(least ?? 0, 0), Math.max(greatest ?? 0, 0)];
    drawCounter(target, this.samples(lane.track!.track), this.view, { low, high, y, height: lane.height - 8 }, this.colours.accent);
    target.font = FONT;
    target.textBaseline = "top";
    this.drawText(target, amount(high, unit ?? ""), 4, y, this.colours.muted, true);
  }

  /** A text, in a border of the page's colour where what is below it is not even. */
  private drawText(target: CanvasRenderingContext2D, text: string, x: number, y: number, ink: string, bordered: boolean): void {
    target.fillStyle = ink;
    target.strokeStyle = this.colours.page;
    target.lineWidth = 3;
    if (bordered) target.strokeText(text, x, y);
    target.fillText(text, x, y);
    target.lineWidth = 1;
  }

  private drawTexts(target: CanvasRenderingContext2D, texts: Text[], roomy: number): void {
    target.font = FONT;
    target.textBaseline = "middle";
    const stripes = hatch(target, this.colours.stripe);
    for (const { tile, slice, x0, x1, y } of texts) {
      if (y < this.layout.pinned - ROW / 2 && !this.isPinnedAt(y)) continue;
      const category = tile.category[slice]!;
      const name = tile.names[tile.name[slice]!]!;
      const left = Math.max(x0, 0);
      const room = Math.min(x1, this.view.width) - left - 8;
      const text = x1 - left >= roomy ? this.labels.fitted(name, room) : "";
      const hollow = isHollow(tile, slice);
      if (hollow) {
        target.globalAlpha = this.found && !this.found.names.has(name) ? 0.3 : 1;
        target.strokeStyle = this.colours.edges[category]!;
        target.strokeRect(Math.max(x0, -2) + 0.5, y + 1.5, Math.min(x1, this.view.width + 2) - Math.max(x0, -2) - 1, ROW - 3);
        target.globalAlpha = 1;
      } else if (this.colours.hatched[category] && stripes) {
        // Below the text the plain colour stays, so that it can be read.
        const from = left + (text ? this.labels.width(text) + 8 : 0);
        target.fillStyle = stripes;
        target.fillRect(from, y + 1, Math.max(Math.min(x1, this.view.width) - from, 0), ROW - 2);
      }
      if (this.found && !this.found.names.has(name)) continue;
      const isPale = hollow && tile.busy[slice]! < NEARLY_FULL * (tile.stop[slice]! - tile.start[slice]!);
      if (text) this.drawText(target, text, left + 4, y + ROW / 2 + 0.5, isPale ? this.colours.ink : this.colours.texts[category]!, isPale);
    }
  }

  private isPinnedAt(y: number): boolean {
    return this.layout.lanes.some((lane) => lane.pinned && y >= lane.y && y < lane.y + lane.height);
  }

  private screenY(lane: Lane, row: number): number {
    return lane.pinned ? rowY(lane, row) : rowY(lane, row) - this.scrolled;
  }

  private fit(width: number, rows: number): void {
    if (this.strip.width !== width) this.strip = new Strip(width);
    const height = Math.max(rows, 1);
    if (this.image.width === width && this.image.height >= height && this.image.height < 2 * height + 16) return;
    this.image = new ImageData(width, height);
    this.buffer.width = width;
    this.buffer.height = height;
  }

  /** What tests and assistive tools read: the window, and whether it stands still. */
  private tell(moving: boolean, lanes: Lane[]): void {
    const { root } = this;
    const busy = moving || this.busy;
    if (root.getAttribute("aria-busy") !== String(busy)) root.setAttribute("aria-busy", String(busy));
    Object.assign(root.dataset, {
      begin: String(Math.round(this.view.begin)),
      end: String(Math.round(this.view.end)),
      level: String(this.level),
      lanes: String(lanes.length),
    });
  }
}

/** What is shown first: the steps, where there are any, else the whole trace. */
function first(steps: Step[], extent: Extent): Extent {
  if (steps.length === 0) return whole(extent);
  const begin = Math.min(...steps.map((each) => each.start_ps));
  const end = Math.max(...steps.map((each) => each.end_ps ?? each.start_ps));
  return around({ begin, end }, extent, 0.96);
}

function context(canvas: HTMLCanvasElement, ratio = devicePixelRatio): CanvasRenderingContext2D {
  const found = canvas.getContext("2d")!;
  found.setTransform(ratio, 0, 0, ratio, 0, 0);
  return found;
}

let tile: { colour: string; canvas: HTMLCanvasElement } | null = null;

/** Oblique stripes, as on the charts. */
function hatch(target: CanvasRenderingContext2D, stripe: string): CanvasPattern | null {
  if (tile?.colour !== stripe) {
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = 8;
    const pen = canvas.getContext("2d")!;
    pen.strokeStyle = stripe;
    pen.lineWidth = 2;
    pen.beginPath();
    for (const shift of [-8, 0, 8]) {
      pen.moveTo(shift, 8);
      pen.lineTo(shift + 8, 0);
    }
    pen.stroke();
    tile = { colour: stripe, canvas };
  }
  return target.createPattern(tile.canvas, "repeat");
}
