// What keys, buttons and the pointer do to the timeline.
import { duration } from "../format";
import { change, state } from "../state/url";
import type { Lane } from "../timeline/model";
import { readingAt, type Reading } from "../timeline/counters";
import { beside, gapAt, gapBeside, sliceAt, type Slice } from "../timeline/pick";
import type { Scene } from "../timeline/scene";
import { around, panned, tileWidth, toPs, whole, zoomed, type Extent } from "../timeline/viewport";
import { choice, choose, explained, marks, measured, said, setMarks, toggleFold, toggleHidden } from "./chosen";
import { question, type Details, type Place } from "./questions";

interface Unfolded {
  item: number;
  start_ps: number;
  end_ps: number;
}

/** A gap of so few pixels is not seen. */
const LEAST_GAP = 2;
/** Pixels from which a hand is drawn to the edge of a span. */
const SNAP = 6;
/** Levels between tiles that are asked for the edges of a gap. */
const WIDER = 5;

export class Control {
  /** What is known of the chosen span. */
  details: Details | null = null;
  /** Where the pointer was last. */
  pointer: number | null = null;
  /** A track to scroll to once its section is open. */
  private wanted: number | null = null;

  constructor(
    readonly scene: Scene,
    private readonly scroll: (lane: Lane) => void,
  ) {}

  zoom(factor: number, at?: number): void {
    const { scene } = this;
    const middle = (scene.target.begin + scene.target.end) / 2;
    scene.look(zoomed(scene.target, factor, at ?? this.pointer ?? middle, scene.extent));
  }

  /** Move the window by a share of itself. */
  pan(share: number): void {
    const { target, extent } = this.scene;
    this.scene.look(panned(target, share * (target.end - target.begin), extent));
  }

  whole(): void {
    this.scene.look(whole(this.scene.extent));
  }

  /** Fill the window with what is chosen or measured. */
  fit(): void {
    const place = this.stretch;
    if (place) this.scene.look(around(place, this.scene.extent));
    else this.whole();
  }

  /** The stretch of time that is chosen or measured. */
  get stretch(): Extent | null {
    const { spot, area, measured } = this.scene.drawn;
    return spot ?? area ?? measured;
  }

  pick(x: number, y: number): void {
    const found = this.scene.at(x, y);
    if (!found) choose(null);
    else if (found.lane.track!.counter) choose({ kind: "counter", track: found.lane.track!.track, at: found.ps });
    else if (found.slice) this.pickSlice(found.slice);
    else this.pickGap(found.lane, found.row, found.ps);
  }

  /** What a counter was at a time, exactly. */
  async reading(track: number, at: number, signal: AbortSignal): Promise<Reading | null> {
    const width = tileWidth(0);
    const index = Math.floor(at / width);
    const tile = (await this.scene.sources.counters([track], 0, index, signal)).get(track)!;
    return readingAt([{ tile, begin: index * width, end: (index + 1) * width }], at);
  }

  /** The next or previous value of a counter that is in view. */
  private value(track: number, at: number, forward: boolean): void {
    const { begin, end } = this.scene.view;
    const times = this.scene.samples(track).flatMap(({ tile }) => [...tile.start]).filter((each) => each >= begin && each < end);
    const others = times.filter((each) => (forward ? each > at : each < at));
    if (others.length > 0) choose({ kind: "counter", track, at: forward ? Math.min(...others) : Math.max(...others) });
    else said.value = `This was the ${forward ? "last" : "first"} value in view.`;
  }

  /** Choose the only span of a slice, or all that one pixel holds. */
  pickSlice(slice: Slice): void {
    const { track, row } = slice;
    if (slice.count === 1) choose({ kind: "span", track, item: slice.item });
    else choose({ kind: "folded", track, row, at: (slice.begin + slice.end) / 2 });
  }

  private pickGap(lane: Lane, row: number, ps: number): void {
    choose({ kind: "gap", track: lane.track!.track, row, at: ps });
    said.value = "";
    // Idle time of a device is there to be explained.
    explained.value = this.scene.catalogue.sections[lane.section]?.kind === "device";
  }

  /** Choose a span wherever it is, and bring it into view. */
  go(to: Place | null, none = "There is no other event."): void {
    if (!to) {
      said.value = none;
      return;
    }
    choose({ kind: "span", track: to.track, item: to.item });
    this.reveal({ begin: to.start_ps, end: to.start_ps + to.dur_ps }, to.track);
  }

  /** Bring a stretch into view; the window keeps its width where it can. */
  reveal(place: Extent, track?: number): void {
    const { target, view, extent } = this.scene;
    const span = target.end - target.begin;
    const long = place.end - place.begin;
    const seen = place.begin >= target.begin && place.end <= target.end;
    const tiny = (long / span) * view.width < 2;
    if (!seen || long > span) {
      if (long > span) this.scene.look(around(place, extent));
      else this.scene.look(panned(target, (place.begin + place.end - target.begin - target.end) / 2, extent));
    } else if (tiny && long > 0) this.scene.look(around(place, extent, 0.02));
    if (track !== undefined) this.show(track);
  }

  /** Scroll to a track; where it is hidden or its section is closed, show it first. */
  show(track: number): void {
    const { lanes } = this.scene.layout;
    const lane = lanes.find((each) => each.track?.track === track);
    const closed = lanes.find((each) => !each.track && !each.open && each.section === this.scene.catalogue.tracks[track]?.section);
    this.wanted = lane ? null : track;
    if (lane) this.scroll(lane);
    else if (closed) toggleFold(closed.key);
    else if (state.value.tracks) change({ tracks: "" });
    else toggleHidden([track]);
  }

  /** The lanes were laid out anew. */
  arranged(): void {
    if (this.wanted !== null) this.show(this.wanted);
  }

  /** The next or previous span of the same name. */
  instance(forward: boolean): void {
    const equals = this.details?.same_name;
    if (!equals) said.value = "Choose an event first.";
    else this.go(forward ? equals.next : equals.previous, `This was the ${forward ? "last" : "first"} event with this name.`);
  }

  /** The next or previous span of the lane; exact, also where several share a pixel. */
  async beside(forward: boolean): Promise<void> {
    const at = this.standing();
    if (!at) return;
    if (choice.value?.kind === "counter") {
      this.value(at.track, choice.value.at, forward);
      return;
    }
    const pieces = this.scene.pieces(at.track);
    const { details } = this;
    if (!details || choice.value?.kind !== "span") {
      const slice = beside(pieces, at.track, at.row, at.ps, forward);
      if (slice) await this.firstOf(slice, forward);
      return;
    }
    const here = sliceAt(pieces, at.track, at.row, details.start_ps, 0);
    if (!here) return;
    const spans = here.count === 1 ? [] : await this.unfold(at.track, here.first, here.count);
    const place = spans.findIndex((each) => each.item === details.item);
    const first = here.first + Math.max(place, 0) + (forward ? 1 : -1);
    const [next] = first < 0 ? [] : await this.unfold(at.track, first, 1).catch(() => []);
    if (next) this.go({ ...details, item: next.item, start_ps: next.start_ps, dur_ps: next.end_ps - next.start_ps, row: at.row });
    else said.value = `This was the ${forward ? "last" : "first"} event on this lane.`;
  }

  /** The nearest span of the lane above or below. */
  async lane(down: boolean): Promise<void> {
    const at = this.standing();
    if (!at) return;
    const rows = this.scene.layout.lanes.flatMap((lane) =>
      lane.track ? Array.from({ length: lane.rows }, (_, row) => ({ lane, row })) : [],
    );
    const here = rows.findIndex((each) => each.lane.track!.track === at.track && each.row === at.row);
    for (let k = here + (down ? 1 : -1); k >= 0 && k < rows.length; k += down ? 1 : -1) {
      const { lane, row } = rows[k]!;
      const track = lane.track!.track;
      this.scroll(lane);
      if (lane.track!.counter) {
        choose({ kind: "counter", track, at: at.ps });
        return;
      }
      const slice = sliceAt(this.scene.pieces(track), track, row, at.ps, this.scene.view.end - this.scene.view.begin);
      if (!slice) continue;
      await this.firstOf(slice, true);
      return;
    }
    said.value = down ? "No lane below has an event here." : "No lane above has an event here.";
  }

  /** The next or previous empty stretch of the lane that is wide enough to be seen. */
  gap(forward: boolean): void {
    const at = this.standing();
    if (!at || this.isCounter(at.track)) return;
    const least = this.scene.wide(LEAST_GAP);
    const edge = this.scene.drawn.spot?.[forward ? "end" : "begin"] ?? at.ps;
    const found = gapBeside(this.scene.pieces(at.track), at.row, edge, least, forward);
    if (!found) {
      this.openGap(at, forward ? edge + least : edge - least);
      return;
    }
    choose({ kind: "gap", track: at.track, row: at.row, at: (found.begin + found.end) / 2 });
    this.reveal(found, at.track);
    said.value = `Gap of ${duration(found.end - found.begin)}.`;
  }

  /** A gap with an end beyond what is loaded; the server knows it. */
  private openGap({ track, row }: { track: number; row: number }, ps: number): void {
    const { begin, end } = this.scene.target;
    const around = gapAt(this.scene.pieces(track), row, ps);
    const empty = around.begin <= ps && around.end > ps && sliceAt(this.scene.pieces(track), track, row, ps, 0) === null;
    if (ps < begin || ps > end || !empty) {
      said.value = "No gap on this lane is visible. Zoom out to see more.";
      return;
    }
    choose({ kind: "gap", track, row, at: ps });
    this.gapOf(track, row, ps, new AbortController().signal).then(
      (gap) => {
        this.reveal(gap, track);
        said.value = `Gap of ${duration(gap.end - gap.begin)}.`;
      },
      (error: Error) => (said.value = error.message),
    );
  }

  explain(): void {
    const at = this.standing();
    if (at && this.isCounter(at.track)) return;
    if (!choice.value && at) choose({ kind: "gap", track: at.track, row: at.row, at: at.ps });
    explained.value = true;
  }

  /** Mark what is chosen or measured, else the middle of the window; or take the mark away. */
  mark(): void {
    const { begin, end } = this.scene.target;
    const middle = this.pointer ?? (begin + end) / 2;
    const place = this.stretch ?? { begin: middle, end: middle };
    const same = (each: Extent) => Math.abs(each.begin - place.begin) < 1 && Math.abs(each.end - place.end) < 1;
    const others = marks.value.filter((each) => !same(each));
    const added = others.length === marks.value.length;
    setMarks(added ? [...others, { ...place, note: "" }] : others);
    said.value = added ? `Mark ${others.length + 1} set.` : "Mark removed.";
  }

  measure(place: Extent | null): void {
    measured.value = place && place.end > place.begin ? place : null;
    if (measured.value) said.value = `Measured ${duration(place!.end - place!.begin)}.`;
  }

  /** Let the chosen or measured time reach to the next or previous edge on the lane. */
  stretchTo(forward: boolean): void {
    const at = this.standing();
    if (!at) return;
    const from = measured.value ?? this.stretch ?? { begin: at.ps, end: at.ps };
    const slice = beside(this.scene.pieces(at.track), at.track, at.row, forward ? from.end - 1 : from.begin, forward);
    if (!slice) return;
    this.measure({ begin: Math.min(from.begin, slice.begin), end: Math.max(from.end, slice.end) });
  }

  /** The measured or chosen time becomes an area of all lanes, with its sums. */
  sums(): void {
    const place = measured.value ?? this.stretch;
    if (place) choose({ kind: "area", begin: place.begin, end: place.end, tracks: null });
  }

  clear(): boolean {
    const had = choice.value !== null || measured.value !== null || Boolean(state.value.q);
    measured.value = null;
    if (had) change({ sel: "", q: "" });
    explained.value = false;
    return had;
  }

  /** A place on the lane as near as can be to a time: the edge of a span, or the time. */
  snapped(x: number, y: number): number {
    const slice = this.scene.at(x, y)?.slice;
    const ps = toPs(this.scene.view, x);
    const edges = slice ? [slice.begin, slice.end] : [];
    return edges.find((edge) => Math.abs(edge - ps) <= this.scene.wide(SNAP)) ?? ps;
  }

  /**
   * The empty stretch of a row around a time. Where it reaches beyond what is loaded, wider
   * tiles are asked for its edges; beyond the last span it ends with the trace.
   */
  async gapOf(track: number, row: number, at: number, signal: AbortSignal): Promise<Extent> {
    const { catalogue, extent, sources } = this.scene;
    let { begin, end } = gapAt(this.scene.pieces(track), row, at);
    let { level } = this.scene;
    while (!(Number.isFinite(begin) && Number.isFinite(end)) && level < catalogue.coarsest_level) {
      level = Math.min(level + WIDER, catalogue.coarsest_level);
      const width = tileWidth(level);
      const index = Math.floor(at / width);
      const found = (await sources.spans([track], level, index, signal)).get(track)!;
      const wide = gapAt([{ tile: found, begin: index * width, end: (index + 1) * width }], row, at);
      begin = Number.isFinite(begin) ? begin : wide.begin;
      end = Number.isFinite(end) ? end : wide.end;
    }
    return { begin: Math.max(begin, extent.begin), end: Math.min(end, extent.end) };
  }

  private async firstOf(slice: Slice, forward: boolean): Promise<void> {
    const place = forward ? slice.first : slice.first + slice.count - 1;
    const alone = { item: slice.item, start_ps: slice.begin, end_ps: slice.end };
    const [span] = slice.count === 1 ? [alone] : await this.unfold(slice.track, place, 1);
    if (span) this.go({ ...slice, ...span, dur_ps: span.end_ps - span.start_ps });
  }

  private async unfold(track: number, first: number, count: number): Promise<Unfolded[]> {
    const found = await question<{ spans: Unfolded[] }>("trace/unfold", { track, first, count });
    return found.spans;
  }

  /** Whether a track is a counter, which has no gap; then that is said. */
  private isCounter(track: number): boolean {
    const { counter } = this.scene.catalogue.tracks[track] ?? { counter: false };
    if (counter) said.value = "A counter has no gaps: each value lasts until the next value.";
    return counter;
  }

  /** Track, row and time that keys start from: the choice, else the first lane and the pointer. */
  private standing(): { track: number; row: number; ps: number } | null {
    const now = choice.value;
    const { scene, details } = this;
    const middle = this.pointer ?? (scene.view.begin + scene.view.end) / 2;
    if (now?.kind === "span" && details) return { track: details.track, row: details.row, ps: details.start_ps };
    if (now && "at" in now) return { track: now.track, row: "row" in now ? now.row : 0, ps: now.at };
    const first = scene.layout.lanes.find((lane) => lane.track && !lane.track.counter && lane.y + lane.height > scene.scrolled);
    return first ? { track: first.track!.track, row: 0, ps: middle } : null;
  }
}
