// Other hosts of the run below the timeline: the same window, on the clock of the host above.
import { useEffect, useMemo, useRef } from "preact/hooks";

import { useAnswer, useTool } from "../data/client";
import { CLOCKS } from "../data/made/words";
import { chosen } from "../data/runs";
import { us } from "../format";
import { Show } from "../parts/unavailable";
import { painted } from "../state/theme";
import { change, join, split, state } from "../state/url";
import { hiddenAtFirst, layout as laidOut, type Catalogue } from "../timeline/model";
import { laneAt, sliceAt } from "../timeline/pick";
import { rulerHeight } from "../timeline/ruler";
import { Scene } from "../timeline/scene";
import { toPs, type Extent } from "../timeline/viewport";
import { about, sources, spotted } from "./questions";

const PS_PER_US = 1e6;
/** Pixels within which the pointer means a span. */
const SLACK = 4;

/** Hosts to draw below, as far as the run has them. */
export function besides(catalogue: Catalogue): string[] {
  return split(state.value.beside).filter((each) => each !== catalogue.host && catalogue.hosts.includes(each));
}

export function Beside({ catalogue, scene }: { catalogue: Catalogue; scene: Scene }) {
  const hosts = besides(catalogue);
  const answer = useTool("pod_viewer");
  if (hosts.length === 0) return null;
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
            <Companion key={host} {...{ host, scene, shift }} main={catalogue} says={clockWords(source, doubts)} />
          );
        });
      }}
    </Show>
  );
}

/** How surely the times of two hosts can be compared: their errors add up. */
function clockWords(source: string, doubts: number[]): string {
  const doubt = doubts.reduce((sum, each) => sum + each, 0);
  return `${CLOCKS[source] ?? source}${Number.isNaN(doubt) ? "" : `, to within ${us(doubt)}`}.`;
}

interface Props {
  host: string;
  main: Catalogue;
  /** Of the timeline above. */
  scene: Scene;
  /** What is added to a time of this host to get the time of the one above. */
  shift: number;
  says: string;
}

function Companion(props: Props) {
  const { host, main, says } = props;
  const answer = useAnswer<Catalogue>(about("trace/catalogue", {}, { run: chosen()?.id, host }));
  const only = (hosts: string[]) => change({ beside: join(hosts) });
  return (
    <section class="companion" aria-label={`${host}, on the clock of ${main.host}`}>
      <header>
        <b>{host}</b> <small>{says}</small>
        <button aria-label={`Take ${host} away`} onClick={() => only(besides(main).filter((each) => each !== host))}>×</button>
      </header>
      <Show answer={answer}>{(catalogue) => <Strip {...props} catalogue={catalogue} />}</Show>
    </section>
  );
}

/** The lanes of one host; a click on an event makes it the host above. */
function Strip({ catalogue, main, scene: above, shift }: Props & { catalogue: Catalogue }) {
  const root = useRef<HTMLDivElement>(null);
  const ruler = useRef<HTMLCanvasElement>(null);
  const lanes = useRef<HTMLCanvasElement>(null);
  const overlay = useRef<HTMLCanvasElement>(null);
  const held = useRef<Scene | null>(null);
  const axis = rulerHeight(catalogue.steps);
  const layout = useMemo(() => laidOut(catalogue, arrangement(catalogue)), [catalogue]);
  useEffect(() => {
    const sheet = root.current!.querySelector(".sheet")!;
    const canvases = { root: root.current!, ruler: ruler.current!, lanes: lanes.current!, overlay: overlay.current! };
    const of = { run: chosen()?.id, host: catalogue.host, version: catalogue.version };
    const scene = new Scene(catalogue, canvases, sources(new Set(), of), { settled: () => {}, refused: () => {} });
    scene.layout = layout;
    held.current = scene;
    const follow = ({ begin, end }: Extent) => scene.follow({ begin: begin - shift, end: end - shift });
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
  }, [catalogue, layout, above, shift]);
  useEffect(() => held.current?.repaint(), [painted.value]);
  const choose = (event: MouseEvent) => {
    const scene = held.current!;
    const found = laneAt(layout, event.offsetY, 0);
    if (!found?.lane.track || found.lane.track.counter) return;
    const { track } = found.lane.track;
    const slack = (SLACK * (scene.view.end - scene.view.begin)) / scene.view.width;
    const slice = sliceAt(scene.pieces(track), track, found.row, toPs(scene.view, event.offsetX), slack);
    if (!slice) return;
    const { begin, end } = scene.view;
    const window = { t0: String(Math.round(begin)), t1: String(Math.round(end)) };
    const place = { track, item: slice.item, start_ps: slice.begin, dur_ps: slice.end - slice.begin };
    const others = besides(main).map((each) => (each === catalogue.host ? main.host : each));
    change({ ...spotted(catalogue.host, place), ...window, beside: join(others) }, { push: true });
  };
  return (
    <div class="lanes" ref={root}>
      <div class="corner" style={{ height: `${axis}px` }}>{catalogue.steps.length > 0 && <span>Steps</span>}</div>
      <canvas class="ruler" ref={ruler} aria-hidden="true" />
      <div class="names" style={{ height: `${layout.height}px` }}>
        {layout.lanes.map((lane) => (
          <div key={lane.key} class={lane.track ? "track" : "section"} style={{ top: `${lane.y}px`, height: `${lane.height}px` }}>
            <span class="name">{lane.track?.name ?? catalogue.sections[lane.section]!.name}</span>
          </div>
        ))}
      </div>
      <div class="sheet" style={{ top: `${axis}px` }}>
        <canvas ref={lanes} aria-hidden="true" />
        <canvas ref={overlay} class="overlay" aria-hidden="true" onClick={choose} />
      </div>
    </div>
  );
}

/** Devices, where the host has any: what its workers wait for each other with. */
function arrangement(catalogue: Catalogue) {
  const devices = catalogue.sections.some((each) => each.kind === "device");
  const away = catalogue.tracks.filter((each) => devices && catalogue.sections[each.section]!.kind !== "device");
  const hidden = new Set([...hiddenAtFirst(catalogue), ...away.map((each) => each.track)]);
  return { toggled: new Set<string>(), pinned: [], hidden, order: new Map<number, number[]>() };
}
