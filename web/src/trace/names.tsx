// Names of sections and tracks at the left, with triangles; tracks can be pinned, hidden, moved.
import type { TargetedKeyboardEvent } from "preact";
import { useState } from "preact/hooks";

import { counted } from "../format";
import { numbered } from "../parts/name";
import { moveTo } from "../parts/stops";
import { letters } from "../state/letters";
import { ordered, rowsOf, type Arrangement, type Catalogue, type Lane, type Layout } from "../timeline/model";
import { reorder, said, toggleFold, toggleHidden, togglePin } from "./chosen";

interface Props {
  catalogue: Catalogue;
  layout: Layout;
  as: Arrangement;
  /** Height of the ruler, below which pinned names stay. */
  axis: number;
}

export function Names({ catalogue, layout, as, axis }: Props) {
  const [dragged, drag] = useState<number | null>(null);
  const [reached, reach] = useState("");
  // All names are one stop of the Tab key, or the way to the canvas would be long.
  const stop = (layout.lanes.find(({ key }) => key === reached) ?? layout.lanes[0])?.key;
  const name = (lane: Lane) => {
    const stops = { tabIndex: lane.key === stop ? 0 : -1, onFocus: () => reach(lane.key) };
    return lane.track ? (
      <TrackName key={lane.key} {...{ catalogue, lane, as, dragged, drag, stops }} />
    ) : (
      <SectionName key={lane.key} {...{ catalogue, lane, stops }} />
    );
  };
  return (
    <div class="names" style={{ height: `${layout.height}px` }} onKeyDown={toName}>
      <div class="pinned" style={{ height: `${layout.pinned}px`, top: `${axis}px` }}>
        {layout.lanes.filter((lane) => lane.pinned).map(name)}
      </div>
      {layout.lanes.filter((lane) => !lane.pinned).map(name)}
    </div>
  );
}

const place = (lane: Lane) => ({ top: `${lane.y}px`, height: `${lane.height}px` });

/** Arrows go from name to name; with Alt they move a track. */
function toName(event: TargetedKeyboardEvent<HTMLDivElement>): void {
  if (event.altKey) return;
  const names = [...event.currentTarget.querySelectorAll<HTMLElement>(NAMES)];
  moveTo(event, names, (at) => ({ ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: names.length - 1 }));
}

const NAMES = ".section, .track > .name";

interface Stops {
  tabIndex: number;
  onFocus: () => void;
}

function SectionName({ catalogue, lane, stops }: { catalogue: Catalogue; lane: Lane; stops: Stops }) {
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

interface TrackProps {
  catalogue: Catalogue;
  lane: Lane;
  as: Arrangement;
  dragged: number | null;
  drag: (track: number | null) => void;
  stops: Stops;
}

function TrackName({ catalogue, lane, as, dragged, drag, stops }: TrackProps) {
  const track = lane.track!;
  const foldable = rowsOf(track) > 1;
  const move = (to: number) => {
    const all = ordered(catalogue.sections[lane.section]!, lane.section, as);
    const others = all.filter((each) => each !== track.track);
    const at = Math.min(Math.max(to, 0), others.length);
    reorder(catalogue, lane.section, [...others.slice(0, at), track.track, ...others.slice(at)]);
  };
  const placeOf = (one: number) => ordered(catalogue.sections[lane.section]!, lane.section, as).indexOf(one);
  const drop = () => {
    if (dragged === null || dragged === track.track || catalogue.tracks[dragged]?.section !== lane.section) return;
    const others = ordered(catalogue.sections[lane.section]!, lane.section, as).filter((each) => each !== dragged);
    const at = others.indexOf(track.track) + (placeOf(dragged) < placeOf(track.track) ? 1 : 0);
    reorder(catalogue, lane.section, [...others.slice(0, at), dragged, ...others.slice(at)]);
  };
  const pressed = (event: KeyboardEvent) => {
    const step = event.altKey && { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (step) {
      move(placeOf(track.track) + step);
      said.value = `${track.name} moved ${step < 0 ? "up" : "down"}.`;
    } else if (event.key === "p" && letters.value) togglePin(track.track);
    else if (event.key === "h" && letters.value) toggleHidden([track.track]);
    else return;
    event.preventDefault();
  };
  return (
    <div
      class={dragged === track.track ? "track dragged" : "track"}
      style={place(lane)}
      data-track={track.track}
      draggable
      onDragStart={() => drag(track.track)}
      onDragEnd={() => drag(null)}
      onDragOver={(event) => event.preventDefault()}
      onDrop={drop}
      onKeyDown={pressed}
    >
      <button
        {...stops}
        class="name"
        aria-label={track.name}
        title={`${track.name}: ${counted(track.drawn, "event")}. Alt+↑ and Alt+↓ move it, P pins it, H hides it.`}
        aria-expanded={foldable ? lane.open : undefined}
        onClick={() => foldable && toggleFold(`t${track.track}`)}
      >
        <span aria-hidden="true">{foldable ? (lane.open ? "▾" : "▸") : " "}</span> <Ended name={track.name} />
      </button>
      <button class="act" aria-pressed={lane.pinned} aria-label={`${lane.pinned ? "Unpin" : "Pin"} ${track.name}`} onClick={() => togglePin(track.track)}>
        <span aria-hidden="true">{lane.pinned ? "◆" : "◇"}</span>
      </button>
      <button class="act" aria-label={`Hide ${track.name}`} onClick={() => toggleHidden([track.track])}>
        <span aria-hidden="true">×</span>
      </button>
    </div>
  );
}
