// Tools, search, marks and what else can be done with the window.
import { useEffect, useState } from "preact/hooks";

import { save, useAnswer } from "../data/client";
import { base } from "../data/runs";
import { counted } from "../format";
import { Checks, Pick } from "../parts/pick";
import { change, join, state } from "../state/url";
import type { Arrangement, Catalogue } from "../timeline/model";
import { besides, OTHER_RUN } from "./beside";
import { choice, marks, said, setMarks, toggleHidden, tool, TOOLS } from "./chosen";
import type { Control } from "./control";
import { about, question, type Found, type Place } from "./questions";

const TITLES = { select: "Select", pan: "Pan", zoom: "Zoom", timing: "Timing" };
const TYPING_MS = 250;

interface Props {
  catalogue: Catalogue;
  control: Control | null;
  as: Arrangement;
}

export function Toolbar({ catalogue, control, as }: Props) {
  const asTable = state.value.rows !== undefined;
  const hidden = [...as.hidden].filter((each) => catalogue.tracks[each] !== undefined);
  return (
    <div class="toolbar" role="toolbar" aria-label="Timeline">
      <span class="tools">
        {TOOLS.map((each, place) => (
          <button key={each} aria-pressed={tool.value === each} title={`Key ${place + 1}`} onClick={() => change({ tool: each })}>
            {TITLES[each]}
          </button>
        ))}
      </span>
      <span class="tools">
        <button aria-label="Zoom out" title="Key S" onClick={() => control?.zoom(1.6)}>−</button>
        <button aria-label="Zoom in" title="Key W" onClick={() => control?.zoom(1 / 1.6)}>+</button>
        <button title="Key 0" onClick={() => control?.whole()}>Whole</button>
      </span>
      <Search control={control} />
      <span class="grow" />
      {catalogue.hosts.length > 1 && (
        <Pick
          label="Host"
          value={catalogue.host}
          of={catalogue.hosts}
          onPick={(host) => change({ host, sel: "", t0: "", t1: "" }, { push: true })}
        />
      )}
      {(catalogue.hosts.length > 1 || base()) && <Others catalogue={catalogue} />}
      {hidden.length > 0 && <Hidden catalogue={catalogue} hidden={hidden} />}
      <Marks control={control} />
      <button data-twin aria-pressed={asTable} title="Key T" onClick={() => change({ rows: asTable ? "" : "events" })}>
        {asTable ? "As a timeline" : "As a table"}
      </button>
      <button title="Save this window for Perfetto" onClick={() => saveWindow(control)}>Save</button>
    </div>
  );
}

/** Save what the window shows, and say so where that cannot be. */
async function saveWindow(control: Control | null): Promise<void> {
  const { begin, end } = control?.scene.target ?? { begin: 0, end: 0 };
  try {
    await save(about("trace/window", { begin_ps: begin, end_ps: end }), "trace.json");
  } catch (error) {
    said.value = (error as Error).message;
  }
}

function Search({ control }: { control: Control | null }) {
  const [text, type] = useState(state.value.q ?? "");
  const asked = state.value.q ?? "";
  useEffect(() => type(asked), [asked]);
  useEffect(() => {
    const later = setTimeout(() => text !== (state.value.q ?? "") && change({ q: text }), TYPING_MS);
    return () => clearTimeout(later);
  }, [text]);
  const answer = useAnswer<Found>(asked ? about("trace/search", { text: asked }) : null);
  const found = answer.state === "ready" ? answer.value : null;
  useEffect(() => {
    if (!control) return;
    control.scene.found = found && { names: new Set(found.names.map((each) => each.name)) };
    control.scene.redraw();
  }, [control, found]);
  const go = async (forward: boolean) => {
    if (!control || !text) return;
    if (text !== state.value.q) change({ q: text });
    const now = choice.value;
    const from = now?.kind === "span" ? { track: now.track, item: now.item } : { from_ps: control.scene.target.begin };
    try {
      const { place } = await question<{ place: Place | null }>("trace/find", { text, ...from, direction: forward ? "next" : "previous" });
      control.go(place, `No ${forward ? "later" : "earlier"} event matches.`);
    } catch (error) {
      said.value = (error as Error).message;
    }
  };
  return (
    <span class="search">
      <input
        type="search"
        aria-label="Search events"
        placeholder="Text or /pattern/"
        value={text}
        onInput={(event) => type(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter") void go(!event.shiftKey);
          if (event.key === "Escape") (event.currentTarget.closest(".trace")?.querySelector("[role=application]") as HTMLElement | null)?.focus();
        }}
      />
      <button aria-label="Previous matching event" onClick={() => void go(false)}>‹</button>
      <button aria-label="Next matching event" onClick={() => void go(true)}>›</button>
      <output data-found={found?.count}>
        {asked && answer.state === "refused" ? answer.error.message : found ? counted(found.count, "event") : ""}
      </output>
      {found && found.count > 0 && state.value.rows === undefined && <button onClick={() => change({ rows: "events" })}>List</button>}
    </span>
  );
}

/** What is drawn below: hosts on the same clock, and the run to compare with. */
function Others({ catalogue }: { catalogue: Catalogue }) {
  const shown = besides(catalogue);
  const toggle = (host: string) => change({ beside: join(shown.includes(host) ? shown.filter((each) => each !== host) : [...shown, host]) });
  const hosts = catalogue.hosts.filter((host) => host !== catalogue.host);
  const run = base();
  const others = hosts.map((host) => [host, host, shown.includes(host)] as const);
  const runs = run ? [[OTHER_RUN, `${run.name}, step by step`, shown.includes(OTHER_RUN)] as const] : [];
  const legend = hosts.length > 0 ? `Hosts below, on the clock of ${catalogue.host}` : "Drawn below";
  return <Checks title={`Below${shown.length > 0 ? ` (${shown.length})` : ""}`} legend={legend} of={[...others, ...runs]} onToggle={toggle} />;
}

function Hidden({ catalogue, hidden }: { catalogue: Catalogue; hidden: number[] }) {
  const tracks = hidden.map((each) => [each, catalogue.tracks[each]!.name, false] as const);
  return (
    <Checks title={`${hidden.length} hidden`} legend="Hidden tracks" of={tracks} onToggle={(each) => toggleHidden([each])}>
      <button onClick={() => toggleHidden(hidden)}>Show all</button>
    </Checks>
  );
}

function Marks({ control }: { control: Control | null }) {
  const all = marks.value;
  const put = (place: number, note: string) => setMarks(all.map((each, k) => (k === place ? { ...each, note } : each)));
  return (
    <details class="choose">
      <summary>Marks{all.length > 0 && ` (${all.length})`}</summary>
      <fieldset>
        <legend>Marks, kept in the URL</legend>
        <button onClick={() => control?.mark()}>Mark the selection</button>
        {all.map((mark, place) => (
          <span class="mark" key={`${mark.begin} ${mark.end}`}>
            <button onClick={() => control?.reveal(mark)}>{place + 1}</button>
            <input aria-label={`Note of mark ${place + 1}`} value={mark.note} onChange={(event) => put(place, event.currentTarget.value)} />
            <button aria-label={`Remove mark ${place + 1}`} onClick={() => setMarks(all.filter((each) => each !== mark))}>×</button>
          </span>
        ))}
      </fieldset>
    </details>
  );
}
