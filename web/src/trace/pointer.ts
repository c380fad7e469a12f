// Mouse, pen and fingers on the timeline.
import type { Reading } from "../timeline/counters";
import type { Track } from "../timeline/model";
import type { Slice } from "../timeline/pick";
import { markAt, stepAt } from "../timeline/ruler";
import { around, panned, toPs, within, zoomed, type Extent, type Viewport } from "../timeline/viewport";
import { choose, marks, said, tool } from "./chosen";
import type { Control } from "./control";

/** What is under the pointer, for the card beside it. */
export interface Pointed {
  x: number;
  y: number;
  track: Track;
  slice: Slice | null;
  /** Of a counter. */
  reading: Reading | null;
}
interface Down {
  x: number;
  y: number;
  view: Viewport;
  does: "select" | "pan" | "zoom" | "timing";
  moved: boolean;
  scrolled: number;
}

/** Pixels that a hand may move without meaning it. */
const STILL = 4;
const WHEEL = 0.0022;
const LINE = 16;

export class Pointer {
  private readonly fingers = new Map<number, { x: number; y: number }>();
  private pinch: { far: number; middle: number; view: Viewport } | null = null;
  private down: Down | null = null;
  /** Where a pointer rests over the canvas, and what it was told to point at. */
  private rests: { x: number; y: number } | null = null;
  private pointed: Pointed | null = null;

  constructor(
    private readonly control: Control,
    private readonly canvas: HTMLCanvasElement,
    private readonly scroller: HTMLElement,
    private readonly point: (at: Pointed | null) => void,
  ) {}

  /** Listen until the signal says stop. */
  listen(signal: AbortSignal): void {
    const on = <K extends keyof HTMLElementEventMap>(name: K, does: (event: HTMLElementEventMap[K]) => void) =>
      this.canvas.addEventListener(name, does, { signal, passive: false });
    on("pointerdown", (event) => this.pressed(event));
    on("pointermove", (event) => this.moved(event));
    on("pointerup", (event) => this.lifted(event));
    on("pointercancel", (event) => this.left(event));
    on("pointerleave", () => this.leave());
    on("dblclick", (event) => this.fill(event));
    on("wheel", (event) => this.wheel(event));
    // Keys move what is below a pointer that rests.
    const renew = () => this.renew();
    this.scene.followers.add(renew);
    signal.addEventListener("abort", () => this.scene.followers.delete(renew));
  }

  private pressed(event: PointerEvent): void {
    if (event.button > 1) return;
    const at = { x: event.offsetX, y: event.offsetY };
    this.fingers.set(event.pointerId, at);
    this.canvas.setPointerCapture(event.pointerId);
    if (this.fingers.size === 2) {
      this.begin();
      return;
    }
    // A finger moves the window unless another tool was chosen.
    const touched = event.pointerType === "touch" && tool.value === "select";
    const does = event.button === 1 || touched ? "pan" : event.shiftKey ? "timing" : tool.value;
    this.down = { ...at, view: { ...this.scene.view }, does, moved: false, scrolled: this.scroller.scrollTop };
    if (event.button === 1) event.preventDefault();
  }

  private moved(event: PointerEvent): void {
    const at = { x: event.offsetX, y: event.offsetY };
    this.control.pointer = toPs(this.scene.view, at.x);
    if (this.fingers.has(event.pointerId)) this.fingers.set(event.pointerId, at);
    if (this.pinch) this.pinched();
    else if (this.down) this.dragged(at);
    else this.hover(at);
  }

  private dragged({ x, y }: { x: number; y: number }): void {
    const down = this.down!;
    if (!down.moved && Math.hypot(x - down.x, y - down.y) < STILL) return;
    down.moved = true;
    this.show(null);
    const { scene } = this;
    if (down.does === "pan") {
      const by = toPs(down.view, down.x) - toPs(down.view, x);
      scene.look(panned(down.view, by, scene.extent), { glide: false });
      this.scroller.scrollTop = down.scrolled - (y - down.y);
      return;
    }
    const place = this.between(down, x, y);
    if (down.does === "timing") {
      this.control.measure(place);
      scene.show({ area: null });
    } else scene.show({ area: { ...place, tracks: down.does === "select" ? this.tracks(down.y, y) : null }, spot: null });
  }

  private lifted(event: PointerEvent): void {
    const { down } = this;
    const { offsetX: x, offsetY: y } = event;
    this.left(event);
    if (!down) return;
    if (down.moved) this.released(down, x, y);
    else if (down.does === "zoom") this.control.zoom(event.shiftKey ? 2 : 0.5, toPs(this.scene.view, x));
    else if (down.does === "timing") this.control.measure(null);
    else if (event.button === 0) this.control.pick(x, y);
  }

  private released(down: Down, x: number, y: number): void {
    const place = this.between(down, x, y);
    if (down.does === "select") choose({ kind: "area", ...place, tracks: this.tracks(down.y, y) });
    else if (down.does === "zoom") {
      this.scene.show({ area: null });
      this.scene.look(within(place, this.scene.extent));
    }
  }

  private left(event: PointerEvent): void {
    this.fingers.delete(event.pointerId);
    if (this.fingers.size < 2) this.pinch = null;
    this.down = null;
  }

  /** Fill the window with what was clicked twice. */
  private fill(event: MouseEvent): void {
    const slice = this.scene.at(event.offsetX, event.offsetY)?.slice;
    if (slice) this.scene.look(around(slice, this.scene.extent));
  }

  private leave(): void {
    this.control.pointer = null;
    this.show(null);
    this.outline(null);
  }

  private hover({ x, y }: { x: number; y: number }): void {
    const at = this.scene.at(x, y);
    const slice = at?.slice ?? null;
    this.show(at && (slice ?? at.reading) ? { x, y, track: at.lane.track!, slice, reading: at.reading } : null);
    this.rests = { x, y };
    this.outline(slice);
  }

  private show(pointed: Pointed | null): void {
    this.rests = null;
    this.pointed = pointed;
    this.point(pointed);
  }

  /** Point at what is now below the pointer. */
  private renew(): void {
    if (!this.rests) return;
    const { x, y } = this.rests;
    this.control.pointer = toPs(this.scene.view, x);
    const now = this.scene.at(x, y);
    const { track, slice, reading } = this.pointed ?? {};
    const same = [
      [now?.slice?.begin, slice?.begin], [now?.slice?.end, slice?.end], [now?.slice?.item, slice?.item],
      [now?.reading?.least, reading?.least], [now?.reading?.most, reading?.most], [(now?.slice ?? now?.reading) && now?.lane.track, track],
    ].every(([is, was]) => (is ?? null) === (was ?? null));
    if (!same) this.hover(this.rests);
  }

  private outline(slice: Slice | null): void {
    if (slice || this.scene.drawn.hover) this.scene.show({ hover: slice });
  }

  private wheel(event: WheelEvent): void {
    const unit = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? LINE : 1;
    const across = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
    const { scene } = this;
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      const at = toPs(scene.view, event.offsetX);
      scene.look(zoomed(scene.target, Math.exp(event.deltaY * unit * WHEEL), at, scene.extent), { glide: false });
    } else if (event.shiftKey || Math.abs(across) > Math.abs(event.deltaY)) {
      event.preventDefault();
      const by = ((across * unit) / scene.view.width) * (scene.view.end - scene.view.begin);
      scene.look(panned(scene.target, by, scene.extent), { glide: false });
    }
  }

  private begin(): void {
    const [one, two] = [...this.fingers.values()];
    const far = Math.max(Math.abs(one!.x - two!.x), 1);
    this.pinch = { far, middle: toPs(this.scene.view, (one!.x + two!.x) / 2), view: { ...this.scene.view } };
    this.down = null;
  }

  private pinched(): void {
    const [one, two] = [...this.fingers.values()];
    const { far, middle, view } = this.pinch!;
    const factor = far / Math.max(Math.abs(one!.x - two!.x), 1);
    const span = (view.end - view.begin) * factor;
    const begin = middle - (((one!.x + two!.x) / 2) / view.width) * span;
    this.scene.look({ begin, end: begin + span }, { glide: false });
  }

  private get scene() {
    return this.control.scene;
  }

  private between(down: Down, x: number, y: number): Extent {
    const from = this.control.snapped(down.x, down.y);
    const to = this.control.snapped(x, y);
    return { begin: Math.min(from, to), end: Math.max(from, to) };
  }

  /** Tracks with spans between two heights of the canvas; all where there is none. */
  private tracks(from: number, to: number): number[] | null {
    const { layout, scrolled } = this.scene;
    const [top, bottom] = [Math.min(from, to), Math.max(from, to)];
    const found = new Set<number>();
    for (const lane of layout.lanes) {
      const y = lane.pinned ? lane.y : lane.y - scrolled;
      if (lane.track && !lane.track.counter && y < bottom && y + lane.height > top) found.add(lane.track.track);
    }
    return found.size > 0 ? [...found] : null;
  }
}

/** The ruler: a click chooses a step or goes to a mark, dragging chooses a time. */
export function onRuler(control: Control, canvas: HTMLCanvasElement, signal: AbortSignal): void {
  let from: number | null = null;
  const { scene } = control;
  const area = (event: MouseEvent) => {
    const [one, two] = [toPs(scene.view, from!), toPs(scene.view, event.offsetX)];
    return { begin: Math.min(one, two), end: Math.max(one, two), tracks: null };
  };
  canvas.addEventListener("pointerdown", (event) => {
    from = event.offsetX;
    canvas.setPointerCapture(event.pointerId);
  }, { signal });
  canvas.addEventListener("pointermove", (event) => {
    if (from === null || Math.abs(event.offsetX - from) < STILL) return;
    scene.show({ area: area(event), spot: null });
  }, { signal });
  canvas.addEventListener("pointerup", (event) => {
    if (from === null) return;
    const dragged = Math.abs(event.offsetX - from) >= STILL;
    const mark = marks.value[markAt(marks.value, scene.view, event.offsetX, event.offsetY)];
    const step = stepAt(scene.catalogue.steps, scene.view, event.offsetX, event.offsetY);
    if (dragged) choose({ kind: "area", ...area(event) });
    else if (mark) control.reveal(mark);
    else if (step) {
      choose({ kind: "area", begin: step.start_ps, end: step.end_ps ?? step.start_ps, tracks: null });
      said.value = `Step ${step.number}`;
    }
    from = null;
  }, { signal });
}
