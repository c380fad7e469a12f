// Names of sections and tracks at the left, with triangles; tracks can be pinned and hidden.
import type { ButtonHTMLAttributes, TargetedKeyboardEvent } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

import { counted } from "../format";
import { numbered } from "../parts/name";
import { moveAlong } from "../parts/stops";
import { letters, touch } from "../state/screen";
import { rowsOf, type Catalogue, type Lane, type Layout } from "../timeline/model";
import { toggleFold, toggleHidden, togglePin } from "./chosen";

interface Props {
  catalogue: Catalogue;
  layout: Layout;
  /** Height of the ruler, below which pinned names stay. */
  axis: number;
}

export function Names({ catalogue, layout, axis }: Props) {
  const [reached, reach] = useState("");
  const root = useRef<HTMLDivElement>(null);
  const keeps = useKeptFocus(root, layout);
  // All names are one stop of the Tab key, or the way to the canvas would be long.
  const stop = (layout.lanes.find((lane) => nameOf(lane) === reached) ?? layout.lanes[0])?.key;
  const chosen = touch.value && layout.lanes.find((lane) => lane.track && nameOf(lane) === reached);
  const name = (lane: Lane) => {
    // Not every browser gives a button the focus that is touched.
    const stops = { tabIndex: lane.key === stop ? 0 : -1, onFocus: () => reach(nameOf(lane)), onPointerUp: () => reach(nameOf(lane)) };
    return lane.track ? (
      <TrackName key={lane.key} {...{ lane, stops, keeps }} />
    ) : (
      <SectionName key={lane.key} {...{ catalogue, lane, stops }} />
    );
  };
  return (
    <div class="names" ref={root} style={{ height: `${layout.height}px` }} onKeyDown={toName}>
      <div class="pinned" style={{ height: `${layout.pinned}px`, top: `${axis}px` }}>
        {layout.lanes.filter((lane) => lane.pinned).map(name)}
      </div>
      {layout.lanes.filter((lane) => !lane.pinned).map(name)}
      {chosen && <TouchActions lane={chosen} onDone={() => reach("")} />}
    </div>
  );
}

/** A change is drawn before this. */
const UNCHANGED_MS = 200;

/** What a name stands for, wherever it is: a track has another key while it is pinned. */
const nameOf = (lane: Lane) => (lane.track ? `t${lane.track.track}` : lane.key);

/** Fingers have no keys: buttons for the track whose name was touched. */
function TouchActions({ lane, onDone }: { lane: Lane; onDone: () => void }) {
  const track = lane.track!;
  return (
    <div class="touched" role="group" aria-label={`Track ${track.name}`}>
      <b>{track.name}</b>
      <button onClick={() => togglePin(track.track)}>{lane.pinned ? "Unpin" : "Pin"}</button>
      <button onClick={() => toggleHidden([track.track])}>Hide</button>
      <button onClick={onDone}>Done</button>
    </div>
  );
}

/**
 * A name that is pinned is another element then, and one that is hidden is gone: the
 * focus goes on to the name, or to the one that takes its place. Call what it returns before.
 */
function useKeptFocus(root: { current: HTMLElement | null }, layout: Layout): () => void {
  const kept = useRef<{ track: string; place: number; act: number } | null>(null);
  useLayoutEffect(() => {
    if (!kept.current || !root.current) return;
    const { track, place, act } = kept.current;
    kept.current = null;
    const names = [...root.current.querySelectorAll<HTMLElement>(NAMES)];
    const own = root.current.querySelector<HTMLElement>(`[data-track="${track}"]`);
    (own?.querySelectorAll<HTMLElement>("button")[act] ?? names[Math.min(place, names.length - 1)])?.focus();
  }, [layout]);
  return () => {
    const focused = document.activeElement as HTMLElement | null;
    const track = focused?.closest<HTMLElement>(".track");
    if (!track || !root.current) return;
    const place = [...root.current.querySelectorAll(".section, .track")].indexOf(track);
    kept.current = { track: track.dataset.track!, place, act: [...track.querySelectorAll("button")].indexOf(focused as HTMLButtonElement) };
    // What changes nothing moves no focus later.
    setTimeout(() => (kept.current = null), UNCHANGED_MS);
  };
}

const place = (lane: Lane) => ({ top: `${lane.y}px`, height: `${lane.height}px` });

/** Arrows go from name to name. */
const toName = (event: TargetedKeyboardEvent<HTMLDivElement>) => moveAlong(event, [...event.currentTarget.querySelectorAll<HTMLElement>(NAMES)]);

const NAMES = ".section, .track > .name";

function SectionName({ catalogue, lane, stops }: { catalogue: Catalogue; lane: Lane; stops: ButtonHTMLAttributes }) {
  const section = catalogue.sections[lane.section]!;
  const about = [section.label, counted(section.tracks.length, "track")].filter(Boolean).join(" · ");
  return (
    <button
      {...stops}
      class="section"
      style={place(lane)}
      data-section={lane.section}
      aria-expanded={lane.open}
      aria-label={`${section.name} ${about}`}
      title={[section.name, section.label].filter(Boolean).join(" · ")}
      onClick={() => toggleFold(lane.key)}
    >
      <span aria-hidden="true">{lane.open ? "▾" : "▸"}</span> <b><Ended name={section.name} /></b>{" "}
      <small>{about}</small>
    </button>
  );
}

/** A name that keeps its end where there is little room. */
function Ended({ name }: { name: string }) {
  const [head, tail] = numbered(name);
  return <span class="ended"><span>{head}</span><span>{tail}</span></span>;
}

function TrackName({ lane, stops, keeps }: { lane: Lane; stops: ButtonHTMLAttributes; keeps: () => void }) {
  const track = lane.track!;
  const foldable = rowsOf(track) > 1;
  const moved = (move: () => void) => () => {
    keeps();
    move();
  };
  const pin = moved(() => togglePin(track.track));
  const hide = moved(() => toggleHidden([track.track]));
  const pressed = (event: KeyboardEvent) => {
    if (event.key === "p" && letters.value) pin();
    else if (event.key === "h" && letters.value) hide();
    else return;
    event.preventDefault();
  };
  return (
    <div class="track" style={place(lane)} data-track={track.track} onKeyDown={pressed}>
      <button
        {...stops}
        class="name"
        aria-label={track.name}
        title={`${track.name}: ${counted(track.drawn, "event")}. P pins it, H hides it.`}
        aria-expanded={foldable ? lane.open : undefined}
        onClick={() => foldable && toggleFold(`t${track.track}`)}
      >
        <span aria-hidden="true">{foldable ? (lane.open ? "▾" : "▸") : " "}</span> <Ended name={track.name} />
      </button>
      <button class="act" aria-pressed={lane.pinned} aria-label={`${lane.pinned ? "Unpin" : "Pin"} ${track.name}`} onClick={pin}>
        <span aria-hidden="true">{lane.pinned ? "◆" : "◇"}</span>
      </button>
      <button class="act" aria-label={`Hide ${track.name}`} onClick={hide}>
        <span aria-hidden="true">×</span>
      </button>
    </div>
  );
}
