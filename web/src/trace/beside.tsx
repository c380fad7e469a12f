// Other hosts of the run below the timeline, on the clock of the host above, and the run to
// compare with, on the same ruler step by step.
import { useEffect, useMemo, useRef } from "preact/hooks";

import { useAnswer, useTool } from "../data/client";
import type { Unavailable } from "../data/made/types";
import { CLOCKS } from "../data/made/words";
import { base, chosen, type Run } from "../data/runs";
import { duration, us } from "../format";
import { Show } from "../parts/unavailable";
import { painted } from "../state/theme";
import { change, join, split, state } from "../state/url";
import { hiddenAtFirst, layout as laidOut, stepShift, type Catalogue, type Layout } from "../timeline/model";
import { beside as neighbour, sliceAt, type Slice } from "../timeline/pick";
import { rulerHeight } from "../timeline/ruler";
import { Scene } from "../timeline/scene";
import type { Extent } from "../timeline/viewport";
import { said } from "./chosen";
import { about, sources, spotted } from "./questions";

const PS_PER_US = 1e6;

/** In the place of a host: the run to compare with. */
export const OTHER_RUN = "@base";
const STEP_BY_STEP = "Aligned by steps: the step in the middle of the window starts at the same place in both runs.";
const TOO_LARGE = "Runs with over 200,000 events are not drawn below each other: open each run separately.";

/** What to draw below, as far as it is there. */
export function besides(catalogue: Catalogue): string[] {
  return split(state.value.beside).filter((each) =>
    each === OTHER_RUN ? base() : each !== catalogue.host && catalogue.hosts.includes(each));
}

export function Beside({ catalogue, scene }: { catalogue: Catalogue; scene: Scene }) {
  const hosts = besides(catalogue).filter((each) => each !== OTHER_RUN);
  const other = hosts.length < besides(catalogue).length && base();
  return (
    <>
      {hosts.length > 0 && <Hosts {...{ hosts, catalogue, scene }} />}
      {other && (
        <Companion
          key={other.id}
          run={other}
          scene={scene}
          main={catalogue}
          says={STEP_BY_STEP}
          shift={(view, below) => stepShift(catalogue, below, (view.begin + view.end) / 2)}
        />
      )}
    </>
  );
}

function Hosts({ hosts, catalogue, scene }: { hosts: string[]; catalogue: Catalogue; scene: Scene }) {
  const answer = useTool("pod_viewer");
  return (
    <Show answer={answer}>
      {({ data }) => {
        const clock = (host: string) => data?.clocks.find((each) => each.host === host);
        const own = clock(catalogue.host);
        return hosts.map((host) => {
          const other = clock(host);
          const tied = own?.shift_us != null && other?.shift_us != null;
          const shift = tied ? (other.shift_us! - own.shift_us!) * PS_PER_US : 0;
          const source = !tied ? "none" : other.source === "reference" ? own.source : other.source;
          const doubts = [own?.doubt_us, other?.doubt_us].map((each) => each ?? NaN);
          return (
            <Companion key={host} {...{ host, scene }} shift={() => shift} main={catalogue} says={clockWords(source, doubts)} />
          );
        });
      }}
    </Show>
  );
}

/** How surely the times of two hosts can be compared: their errors add up. */
function clockWords(source: string, doubts: number[]): string {
  const doubt = doubts.reduce((sum, each) => sum + each, 0);
  return `${CLOCKS[source] ?? source}${Number.isNaN(doubt) ? "" : `, with an error of at most ${us(doubt)}`}.`;
}

interface Props {
  /** Another host of the run above, or another run. */
  host?: string;
  run?: Run;
  main: Catalogue;
  /** Of the timeline above. */
  scene: Scene;
  /** What is added to a time below to get the time of a window above. */
  shift: (view: Extent, below: Catalogue) => number;
  says: string;
}

function Companion(props: Props) {
  const { host, run, main, says } = props;
  const answer = useAnswer<Catalogue & { unavailable: Unavailable | null }>(about("trace/catalogue", {}, { run: (run ?? chosen())?.id, host }));
  const key = host ?? OTHER_RUN;
  const name = host ?? run!.name;
  const others = besides(main).filter((each) => each !== key);
  return (
    <section class="companion" aria-label={run ? `${name}, step by step` : `${name}, on the clock of ${main.host}`}>
      <header>
        <b>{name}</b> <small>{says}</small>
        <button aria-label={`Take ${name} away`} onClick={() => change({ beside: join(others) })}>×</button>
      </header>
      <Show answer={answer}>
        {(catalogue) =>
          catalogue.unavailable ? <p>{catalogue.unavailable.reason}</p>
          : run && !(main.light && catalogue.light) ? <p>{TOO_LARGE}</p>
          : <Strip {...props} catalogue={catalogue} />}
      </Show>
    </section>
  );
}

/** The lanes of one host; a click on an event makes it the host above, or its run the one above. */
function Strip({ catalogue, run, main, scene: above, shift }: Props & { catalogue: Catalogue }) {
  const root = useRef<HTMLDivElement>(null);
  const held = useRef<Scene | null>(null);
  const axis = rulerHeight(catalogue.steps);
  const layout = useMemo(() => laidOut(catalogue, arrangement(catalogue)), [catalogue]);
  useEffect(() => {
    const sheet = root.current!.querySelector(".sheet")!;
    const of = { run: (run ?? chosen())?.id, host: catalogue.host, version: catalogue.version };
    const scene = new Scene(catalogue, root.current!, sources(new Set(), of), { settled: () => {}, refused: () => {} });
    scene.layout = layout;
    held.current = scene;
    const follow = (view: Extent) => {
      const by = shift(view, catalogue);
      scene.follow({ begin: view.begin - by, end: view.end - by });
    };
    const resize = () => {
      scene.resize(sheet.clientWidth, layout.height);
      follow(above.view);
    };
    above.followers.add(follow);
    const watch = new ResizeObserver(resize);
    watch.observe(sheet);
    resize();
    return () => {
      above.followers.delete(follow);
      watch.disconnect();
      scene.close();
    };
  }, [catalogue, layout, above]);
  useEffect(() => held.current?.repaint(), [painted.value]);
  const choose = (event: MouseEvent) => {
    const slice = held.current!.at(event.offsetX, event.offsetY)?.slice;
    if (slice) take(slice);
  };
  const take = ({ track, item, begin: start, end: stop }: Slice) => {
    const { begin, end } = held.current!.view;
    const window = { t0: String(Math.round(begin)), t1: String(Math.round(end)) };
    const place = { track, item, start_ps: start, dur_ps: stop - start };
    const others = besides(main).map((each) => (each === catalogue.host && !run ? main.host : each));
    const swapped = run && { run: run.id, base: chosen()!.id, hosts: "", step: "", beside: OTHER_RUN };
    change({ ...spotted(catalogue.host, place), ...window, beside: join(others), ...swapped }, { push: true });
  };
  const reached = useRef<Slice | null>(null);
  const press = (event: KeyboardEvent) => {
    const was = reached.current;
    if (event.key === "Enter" && was) take(was);
    if (!event.key.startsWith("Arrow")) return;
    // They are not the keys of the timeline above.
    event.preventDefault();
    const next = near(held.current!, layout, was, event.key);
    if (!next) return;
    reached.current = next;
    held.current!.show({ hover: next });
    const lane = layout.lanes.find((each) => each.track?.track === next.track)!;
    root.current!.scrollTop = Math.max(lane.y - root.current!.clientHeight / 3, 0);
    said.value = `${next.name}, ${duration(next.end - next.begin)}, ${catalogue.host}, ${lane.track!.name}`;
  };
  return (
    <div class="lanes" ref={root}>
      <div class="corner" style={{ height: `${axis}px` }}>{catalogue.steps.length > 0 && <span>Steps</span>}</div>
      <canvas class="ruler" aria-hidden="true" />
      <div class="names" style={{ height: `${layout.height}px` }}>
        {layout.lanes.map((lane) => (
          <div key={lane.key} class={lane.track ? "track" : "section"} style={{ top: `${lane.y}px`, height: `${lane.height}px` }}>
            <span class="name">{lane.track?.name ?? catalogue.sections[lane.section]!.name}</span>
          </div>
        ))}
      </div>
      <div class="sheet" style={{ top: `${axis}px` }}>
        <canvas aria-hidden="true" />
        <canvas
          class="overlay"
          role="application"
          tabIndex={0}
          aria-label={`Events of ${catalogue.host}. Arrow keys move between events, Enter shows the event above.`}
          onClick={choose}
          onKeyDown={press}
        />
      </div>
    </div>
  );
}

/** The event beside the one that was reached, or the nearest of the lane above or below. */
function near(scene: Scene, layout: Layout, from: Slice | null, key: string): Slice | null {
  if (from && (key === "ArrowLeft" || key === "ArrowRight")) {
    return neighbour(scene.pieces(from.track), from.track, from.row, from.begin, key === "ArrowRight");
  }
  const rows = layout.lanes.flatMap(({ track, rows }) => (track && !track.counter ? Array.from({ length: rows }, (_, row) => ({ track: track.track, row })) : []));
  const by = key === "ArrowUp" ? -1 : 1;
  const { begin, end } = scene.view;
  for (let k = rows.findIndex((each) => each.track === from?.track && each.row === from.row) + by; rows[k]; k += by) {
    const { track, row } = rows[k]!;
    const slice = sliceAt(scene.pieces(track), track, row, from?.begin ?? (begin + end) / 2, end - begin);
    if (slice) return slice;
  }
  return null;
}

/** Devices, where the host has any: what its workers wait for each other with. */
function arrangement(catalogue: Catalogue) {
  const devices = catalogue.sections.some((each) => each.kind === "device");
  const away = catalogue.tracks.filter((each) => devices && catalogue.sections[each.section]!.kind !== "device");
  const hidden = new Set([...hiddenAtFirst(catalogue), ...away.map((each) => each.track)]);
  return { toggled: new Set<string>(), pinned: [], hidden, named: "" };
}
