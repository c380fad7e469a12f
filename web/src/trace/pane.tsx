// The timeline: names at the left, canvases at the right, what is chosen below.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";

import { Hatches, Legend } from "../charts/categories";
import { useAnswer, useAsked } from "../data/client";
import { CATEGORIES } from "../data/made/categories";
import { duration, moment, number, percent } from "../format";
import { Refused } from "../parts/unavailable";
import { touch } from "../state/screen";
import { painted } from "../state/theme";
import { change, state } from "../state/url";
import { hiddenAtFirst, layout as laidOut, visible, type Catalogue, type Lane, type Layout } from "../timeline/model";
import { readingText } from "../timeline/counters";
import type { Slice } from "../timeline/pick";
import type { Arrow, Spot } from "../timeline/overlay";
import { Minimap } from "../timeline/minimap";
import { rulerHeight } from "../timeline/ruler";
import { Scene } from "../timeline/scene";
import { around, type Extent } from "../timeline/viewport";
import { Beside } from "./beside";
import { arrangement, choice, choiceText, marks, measured, said, tool } from "./chosen";
import { Control } from "./control";
import { EventsInView } from "./events";
import { press } from "./keys";
import { Names } from "./names";
import { onRuler, Pointer, type Pointed } from "./pointer";
import { about, shown, sources, type Details, type Place } from "./questions";
import { CounterValue, Span } from "./span";
import { Area, Folded, Gap } from "./stretch";
import { Toolbar } from "./toolbar";

/** The address follows the window this often at most. */
const FOLLOW_MS = 500;

export function Pane({ catalogue }: { catalogue: Catalogue }) {
  shown(catalogue);
  const places = { root: useRef<HTMLDivElement>(null), scroller: useRef<HTMLDivElement>(null), minimap: useRef<HTMLCanvasElement>(null), stage: useRef<HTMLDivElement>(null) };
  const [control, hold] = useState<Control | null>(null);
  const [pointed, point] = useState<Pointed | null>(null);
  const { folded, pinned, hidden, tracks } = state.value;
  const asTable = state.value.rows !== undefined;
  const as = useMemo(() => arrangement(catalogue), [catalogue, folded, pinned, hidden, tracks]);
  const layout = useMemo(() => laidOut(catalogue, as), [catalogue, as]);
  const axis = rulerHeight(catalogue.steps);

  useEffect(() => {
    const all = new Set(hiddenAtFirst(catalogue));
    const scene = new Scene(catalogue, places.root.current!, sources(all), { settled: follower(() => scene), refused: (error) => (said.value = error.message) });
    const scroll = (lane: Lane) => scrollTo(places.scroller.current!, lane, scene, axis);
    const made = new Control(scene, scroll);
    const { t0, t1, step } = state.peek();
    const now = choice.peek();
    const chosen = catalogue.steps.find((each) => String(each.number) === step);
    if (t0 && t1 && Number(t1) > Number(t0)) scene.look({ begin: Number(t0), end: Number(t1) }, { glide: false });
    else if (now?.kind === "area") scene.look(around(now, scene.extent), { glide: false });
    else if (chosen) scene.look(around({ begin: chosen.start_ps, end: chosen.end_ps ?? chosen.start_ps }, scene.extent, 0.9), { glide: false });
    const stop = new AbortController();
    new Pointer(made, scene.canvases.overlay, places.scroller.current!, point).listen(stop.signal);
    onRuler(made, scene.canvases.ruler, stop.signal);
    new Minimap(scene, places.minimap.current!, stop.signal);
    hold(made);
    return () => {
      stop.abort();
      scene.close();
    };
  }, [catalogue]);

  useLayoutEffect(() => {
    if (!control || asTable) return undefined;
    const { scene } = control;
    const scroller = places.scroller.current!;
    const measure = () => {
      scene.layout = layout;
      scene.scrolled = scroller.scrollTop;
      scene.resize(places.stage.current!.clientWidth, Math.max(scroller.clientHeight - axis, 1));
      scene.redraw();
    };
    measure();
    control.arranged();
    const watch = new ResizeObserver(measure);
    watch.observe(scroller);
    scroller.addEventListener("scroll", measure);
    return () => {
      watch.disconnect();
      scroller.removeEventListener("scroll", measure);
    };
  }, [control, layout, asTable]);

  useEffect(() => control?.scene.repaint(), [control, painted.value]);
  const known = useSelection(control);
  const pressed = (event: KeyboardEvent) => {
    // Where the panel below has the focus itself, arrows scroll it.
    const isWritten = (event.target as Element).matches("input, select, textarea, .chosen");
    if (control && !isWritten && !event.defaultPrevented && press(control, event)) event.preventDefault();
  };

  return (
    <div class="trace" ref={places.root} data-tool={tool.value} data-selected={state.value.sel} aria-busy="true" onKeyDown={pressed}>
      <Toolbar {...{ catalogue, control, as }} />
      {asTable && control && (
        <EventsInView catalogue={catalogue} view={control.scene.target} tracks={spansOf(layout)} />
      )}
      <canvas class="minimap" ref={places.minimap} hidden={asTable} aria-hidden="true" title="The whole recording. Click or drag to move the window." />
      <div class="lanes" ref={places.scroller} hidden={asTable}>
        <div class="corner" style={{ height: `${axis}px` }}>
          <input
            type="search"
            aria-label="Filter tracks"
            placeholder="Filter tracks"
            value={tracks ?? ""}
            onInput={(event) => change({ tracks: event.currentTarget.value })}
          />
          {catalogue.steps.length > 0 && <span>Steps</span>}
        </div>
        <canvas class="ruler" aria-hidden="true" />
        <Names {...{ catalogue, layout, axis }} />
        <div class="sheet" ref={places.stage} style={{ top: `${axis}px` }}>
          <canvas aria-hidden="true" />
          <canvas
            class="overlay"
            role="application"
            tabIndex={0}
            aria-label="Timeline. Arrow keys move between events; ? lists all keys."
          />
          {pointed && control && <Card at={pointed} width={control.scene.view.width} />}
        </div>
      </div>
      {control && !asTable && <Beside catalogue={catalogue} scene={control.scene} />}
      <Hatches />
      <p class="said" role="status">{said.value}</p>
      <aside class="chosen" aria-label="Selection" tabIndex={0}>
        {control && <Chosen control={control} known={known} />}
      </aside>
    </div>
  );
}

/** The tracks of a layout that hold spans. */
function spansOf(of: Layout): number[] {
  return visible(of, 0, of.height).flatMap(({ track }) => (track && !track.counter ? [track.track] : []));
}

/** Write the window into the address, not too often. */
function follower(scene: () => Scene): () => void {
  let later: ReturnType<typeof setTimeout> | undefined;
  return () => {
    clearTimeout(later);
    later = setTimeout(() => {
      const { begin, end } = scene().target;
      change({ t0: String(Math.round(begin)), t1: String(Math.round(end)) });
    }, FOLLOW_MS);
  };
}

function scrollTo(scroller: HTMLElement, lane: Lane, scene: Scene, axis: number): void {
  if (lane.pinned) return;
  const room = scroller.clientHeight - axis;
  const top = lane.y - scene.layout.pinned;
  if (top < scroller.scrollTop) scroller.scrollTop = top;
  else if (lane.y + lane.height > scroller.scrollTop + room) scroller.scrollTop = lane.y + lane.height - room;
}

/** What is known of the chosen span or gap; the scene shows what is chosen. */
function useSelection(control: Control | null) {
  const now = choice.value;
  const answer = useAnswer<Details>(now?.kind === "span" ? about("trace/details", { track: now.track, item: now.item }) : null);
  const span = now?.kind === "span" && answer.state === "ready" ? answer.value : null;
  const gap = useGap(control);
  useEffect(() => {
    if (!control) return;
    control.details = span;
    const value = now?.kind === "counter" ? { track: now.track, row: 0, begin: now.at, end: now.at } : null;
    const spot = value ?? (span ? spotOf(span) : gap && now?.kind === "gap" ? { track: now.track, row: now.row, ...gap } : null);
    const area = now?.kind === "area" ? now : null;
    control.scene.show({ spot, area, measured: measured.value, marks: marks.value, arrows: span ? arrowsOf(span) : [] });
  }, [control, span, gap, state.value.sel, state.value.marks, measured.value]);
  useEffect(() => {
    if (!control || !span) return;
    said.value = `${span.name}, ${duration(span.dur_ps)}, ${span.track_name}`;
    const { scene } = control;
    control.show(span.track);
    if (!state.peek().t0) scene.look(around(spotOf(span), scene.extent, 0.02), { glide: false });
  }, [control, span]);
  return { answer, gap };
}

/** The chosen gap; null until its edges are known. */
function useGap(control: Control | null): Extent | null {
  const of = choice.value?.kind === "gap" ? choice.value : null;
  const answer = useAsked(control && of && choiceText(of), (signal) => control!.gapOf(of!.track, of!.row, of!.at, signal));
  useEffect(() => {
    if (answer.state === "refused") said.value = answer.error.message;
  }, [answer]);
  return answer.state === "ready" ? answer.value : null;
}

function spotOf(place: Place): Spot {
  return { track: place.track, row: place.row, begin: place.start_ps, end: place.start_ps + place.dur_ps };
}

/** Arrows from the launch call to what it put on the device. */
function arrowsOf(span: Details): Arrow[] {
  const here = spotOf(span);
  const arrows = (span.launched ?? []).map((each) => ({ from: here, to: spotOf(each) }));
  return span.launched_by ? [{ from: spotOf(span.launched_by), to: here }, ...arrows] : arrows;
}

function Chosen({ control, known }: { control: Control; known: ReturnType<typeof useSelection> }) {
  const now = choice.value;
  const { answer, gap } = known;
  if (!now) {
    return (
      <>
        <p class="hint">
          {touch.value
            ? "Tap an event or a gap. Drag to move, pinch to zoom; drag on the ruler for the sums of an interval."
            : "Click an event, or drag for the sums of an interval. W and S zoom, A and D move, ? lists all keys."}
        </p>
        <Legend categories={CATEGORIES} />
      </>
    );
  }
  if (now.kind === "area") return <Area of={now} control={control} />;
  if (now.kind === "gap") return gap && <Gap of={now} gap={gap} control={control} />;
  if (now.kind === "counter") return <CounterValue of={now} control={control} />;
  if (now.kind === "folded") return <Folded of={now} control={control} />;
  if (answer.state === "refused") return <Refused error={answer.error} />;
  return answer.state === "ready" ? <Span span={answer.value} control={control} /> : null;
}

/** The card beside the pointer. */
function Card({ at, width }: { at: Pointed; width: number }) {
  const { track, slice, reading, x, y } = at;
  const left = x > width / 2;
  const style = { top: `${y + 14}px`, ...(left ? { right: `${width - x + 8}px` } : { left: `${x + 12}px` }) };
  return (
    <div class="card" style={style} aria-hidden="true">
      <b>{slice?.name ?? track.name}</b>
      <br />
      {slice ? saidOf(slice) : reading && readingText(reading, track.unit ?? "")}
    </div>
  );
}

function saidOf({ begin, end, busy, count }: Slice): string {
  const long = end - begin;
  const share = busy < long ? `, busy ${percent((100 * busy) / Math.max(long, 1))}` : "";
  return (count === 1 ? `${duration(long)} from ${moment(begin)}` : `the longest of ${number(count)} here`) + share;
}
