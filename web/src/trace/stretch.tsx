// What is chosen beside single events: several in one pixel, an area with its sums, a gap and
// its explanation.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";

import { categoryNamed, Swatch } from "../charts/categories";
import { Icicle } from "../charts/icicle";
import { Head } from "../charts/twin";
import { useAnswer, type Answer } from "../data/client";
import { CATEGORY_OF, type Category } from "../data/made/categories";
import type { Missing, Unavailable } from "../data/made/types";
import { counted, duration, moment, number, oneUnit, percent } from "../format";
import { Fact } from "../parts/panel";
import { Name } from "../parts/name";
import { MissingFields, Waiting } from "../parts/unavailable";
import { change } from "../state/url";
import { amount } from "../timeline/counters";
import type { Section } from "../timeline/model";
import type { Band } from "../timeline/overlay";
import { sliceAt } from "../timeline/pick";
import { around, type Extent } from "../timeline/viewport";
import { explained, type Choice } from "./chosen";
import type { Control } from "./control";
import { about, type Place } from "./questions";
import { Heading, Time } from "./span";

interface Sum {
  /** Absent for all names beyond those listed. */
  name: string | null;
  count: number;
  time_ps: number;
}
interface Totals {
  unavailable: Unavailable | null;
  /** The part of the window that lies in steps: owners of a device add up to it. */
  account_ps: number;
  owners: { device: number | null; owner: string; category: string; time_ps: number | null }[];
  spans: number;
  ops: Sum[];
  host_ops: Sum[];
  kernels: Sum[];
  names: Sum[];
  counters: { track: number; name: string; unit: string | null; least: number; mean: number; greatest: number }[];
  missing: Missing[];
}
interface CallTree {
  unavailable: Unavailable | null;
  calls: { parent: number | null; name: string; count: number; time_ps: number }[];
  left_out: number;
}
interface Owned {
  begin_ps: number;
  end_ps: number;
  track: number | null;
}
interface Owner {
  owner: string;
  label: string;
  ps: number;
  percent: number;
  parts: { name: string | null; ps: number }[];
  intervals: Owned[];
}
interface Explanation {
  unavailable: Unavailable | null;
  dur_ps: number;
  text: string;
  owners: Owner[];
  before: Meeting | null;
  after: Meeting | null;
  meanwhile: Meanwhile[];
  not_explained_percent: number;
  confidence: string;
  remedy: string | null;
}
/** What ran before or after; it may not be on the timeline. */
type Meeting = Pick<Place, "name" | "start_ps" | "dur_ps"> & { track: number | null; item: number | null };

interface Meanwhile {
  thread: string;
  name: string;
  count: number;
  ps: number;
  begin_ps: number;
  end_ps: number;
  track: number | null;
  item: number | null;
}

const categoryOf = (owner: string) => categoryNamed(CATEGORY_OF[owner] ?? owner);

export function Folded({ of, control }: { of: Extract<Choice, { kind: "folded" }>; control: Control }) {
  const slice = sliceAt(control.scene.pieces(of.track), of.track, of.row, of.at, 0);
  if (!slice || slice.count === 1) return null;
  return (
    <>
      <Heading title={`${number(slice.count)} events, too short to be drawn separately`}>
        <button onClick={() => control.scene.look(around(slice, control.scene.extent, 0.8))}>Zoom in on these events</button>
        <button onClick={() => control.go({ ...slice, start_ps: slice.begin, dur_ps: slice.end - slice.begin })}>The longest: {slice.name}</button>
      </Heading>
      <dl class="facts">
        <Time name="From first to last" ps={slice.end - slice.begin} />
        <Time name="Busy" ps={slice.busy} />
      </dl>
    </>
  );
}

export function Area({ of, control }: { of: Extract<Choice, { kind: "area" }>; control: Control }) {
  const answer = useAnswer<Totals>(
    about("trace/totals", { begin_ps: of.begin, end_ps: of.end, track: of.tracks ?? undefined }),
  );
  return (
    <>
      <Heading title={<>Selected time: <span data-ps={Math.round(of.end - of.begin)}>{duration(of.end - of.begin)}</span></>}>
        <button title="Key F" onClick={() => control.fit()}>Fit</button>
        <button title="Key M" onClick={() => control.mark()}>Mark</button>
        <button title="Key E" onClick={() => control.explain()}>Explain this time</button>
        <button onClick={() => change({ rows: "name" })}>Events by name</button>
      </Heading>
      {explained.value && <Explained ask={{ from_ps: Math.max(of.begin, 0), to_ps: of.end }} control={control} />}
      <Answered answer={answer} what="The sums of this time">{(of) => <Sums of={of} control={control} />}</Answered>
      <Flame of={of} />
    </>
  );
}

/** A flame graph of the chosen time: the calls of its threads, those of one name together. */
function Flame({ of }: { of: Extract<Choice, { kind: "area" }> }) {
  const [open, show] = useState(false);
  return (
    <details open={open} onToggle={(event) => show(event.currentTarget.open)}>
      <summary>Flame graph of this time</summary>
      {open && <Calls of={of} />}
    </details>
  );
}

function Calls({ of }: { of: Extract<Choice, { kind: "area" }> }) {
  const answer = useAnswer<CallTree>(about("trace/calls", { begin_ps: of.begin, end_ps: of.end, track: of.tracks ?? undefined }));
  return (
    <Answered answer={answer} what="The flame graph of this time">
      {({ calls, left_out }) => {
        if (calls.length === 0) return <p>No thread has an event in this time.</p>;
        const time = oneUnit(calls.map((each) => each.time_ps));
        const spans = calls.map(({ parent, name, time_ps, count }, id) => ({ id, parent, name, value: time_ps, text: `${time(time_ps)}, ${counted(count, "call")}` }));
        return (
          <>
            <Icicle label="Flame graph of the selected time" spans={spans} onChoose={(name) => change({ q: name })} />
            {left_out > 0 && <p class="hint">Calls that take less than 1/2000 of the time are left out.</p>}
          </>
        );
      }}
    </Answered>
  );
}

function Sums({ of, control }: { of: Totals; control: Control }) {
  const { spans, account_ps, owners, ops, host_ops, kernels, names, counters, missing } = of;
  const devices = [...new Set(owners.map((each) => each.device))];
  const spent = owners.filter((each) => each.time_ps).sort((one, other) => other.time_ps! - one.time_ps!);
  return (
    <>
      <p data-spans={spans}>{counted(spans, "event")} within this time or across its edges.</p>
      <div class="columns-of-facts">
        {devices.map((device) => (
          <SumTable
            key={device}
            title={`Causes of the time${device !== null && devices.length > 1 ? `, device ${device}` : ""}`}
            rows={spent.filter((each) => each.device === device).map(({ owner, category, time_ps }) => ({
              owner,
              category: categoryOf(category),
              what: control.scene.catalogue.owners.find((each) => each.name === owner)?.words ?? owner,
              ps: time_ps!,
              beside: percent((100 * time_ps!) / account_ps),
            }))}
          />
        ))}
        <SumTable title="Ops on the device" rows={summed(ops)} />
        <SumTable title="Ops on the host" rows={summed(host_ops)} />
        <SumTable title="Kernels" rows={summed(kernels)} />
        {ops.length + host_ops.length + kernels.length === 0 && <SumTable title="Events by name, including nested events" rows={summed(names)} />}
        {counters.length > 0 && <Counters of={counters} />}
      </div>
      <MissingFields missing={missing} />
    </>
  );
}

function Counters({ of }: { of: Totals["counters"] }) {
  return (
    <table class="twin sums">
      <caption>Counters</caption>
      <Head of={["", "Least", "Mean", "Greatest"]} numbers={["Least", "Mean", "Greatest"]} />
      <tbody>
        {of.map(({ track, name, unit, least, mean, greatest }) => (
          <tr key={track}>
            <th scope="row">{name}</th>
            {[least, mean, greatest].map((value, k) => <td key={k} class="number" data-value={value}>{amount(value, unit ?? "")}</td>)}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

const MOST_SUMS = 12;
const MOST_PARTS = 5;

/** One row: what took time, how much, and its share or count. */
interface Summed {
  owner?: string;
  /** Of an owner, for its colour. */
  category?: Category | undefined;
  what: ComponentChildren;
  /** All of a name that may be cut. */
  title?: string | null;
  ps: number;
  beside: string;
  /** Part of the row before. */
  part?: boolean;
}

function SumTable({ title, rows }: { title: string; rows: Summed[] }) {
  if (rows.length === 0) return null;
  const time = oneUnit(rows.map((each) => each.ps));
  return (
    <table class="twin sums">
      <caption>{title}</caption>
      <tbody>
        {rows.map(({ owner, category, what, title, ps, beside, part }, k) => (
          <tr key={k} data-owner={owner} class={part ? "part" : undefined}>
            <th scope="row" title={title ?? undefined}>
              {category && <Swatch category={category} />} {what}
            </th>
            <td class="number" title={`${ps} ps`} data-ps={ps}>{time(ps)}</td>
            <td class="number">{beside}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function summed(rows: Sum[]): Summed[] {
  return rows.slice(0, MOST_SUMS).map(({ name, time_ps, count }) => ({ what: name === null ? "all other events" : <Name text={name} />, title: name, ps: time_ps, beside: `${number(count)} ×` }));
}

export function Gap({ of, gap, control }: { of: Extract<Choice, { kind: "gap" }>; gap: Extent; control: Control }) {
  const track = control.scene.catalogue.tracks[of.track];
  const section = control.scene.catalogue.sections[track?.section ?? -1];
  return (
    <>
      <Heading title={<>No event ran here for <span data-ps={gap.end - gap.begin}>{duration(gap.end - gap.begin)}</span></>}>
        <button title="Key F" onClick={() => control.fit()}>Fit</button>
        <button title="Key G" onClick={() => control.gap(true)}>Next gap</button>
        {!explained.value && <button title="Key E" onClick={() => control.explain()}>Explain this gap</button>}
      </Heading>
      <p>{section?.name} · {track?.name}, from {moment(gap.begin)} to {moment(gap.end)}</p>
      {explained.value && <Explained ask={asked(section, of.at, gap)} control={control} />}
    </>
  );
}

/** A device's idle time is found by the server; a gap of another lane is what is seen. */
function asked(section: Section | undefined, at: number, gap: Extent): Record<string, number> {
  if (section?.device === null || section === undefined) return { from_ps: Math.max(gap.begin, 0), to_ps: gap.end };
  return { at_ps: Math.max(at, 0), device: section.device };
}

function Explained({ ask, control }: { ask: Record<string, number>; control: Control }) {
  const answer = useAnswer<Explanation>(about("explain", ask));
  const found = answer.state === "ready" && !answer.value.unavailable ? answer.value : null;
  useEffect(() => {
    control.scene.show({ bands: found?.owners.flatMap(bandsOf) ?? [] });
    return () => control.scene.show({ bands: [] });
  }, [found, control]);
  return <Answered answer={answer} what="An explanation">{(of) => <Told of={of} control={control} />}</Answered>;
}

function bandsOf({ owner, intervals }: Owner): Band[] {
  const token = categoryOf(owner)?.token ?? "idle";
  return intervals.map(({ begin_ps: begin, end_ps: end, track }) => ({ begin, end, track, token }));
}

function Told({ of, control }: { of: Explanation; control: Control }) {
  return (
    <section class="explained" aria-label="Explanation">
      <p class="verdict">{of.text}</p>
      <div class="columns-of-facts">
        <SumTable
          title="Causes of the time"
          rows={of.owners.flatMap(({ owner, label, parts, ps, percent: share }) => [
            { owner, category: categoryOf(owner), what: label, ps, beside: percent(share) },
            ...parts.slice(0, MOST_PARTS).flatMap((part) =>
              part.name === null ? [] : { what: <Name text={part.name} />, title: part.name, ps: part.ps, beside: percent((100 * part.ps) / of.dur_ps), part: true }),
          ])}
        />
        <SumTable
          title="Meanwhile on the host"
          rows={of.meanwhile.slice(0, 10).map((each) => ({
            what: (
              <>
                <Way to={{ ...each, start_ps: each.begin_ps, dur_ps: each.end_ps - each.begin_ps }} control={control} />{" "}
                <small>{each.thread}</small>
              </>
            ),
            ps: each.ps,
            beside: `${number(each.count)} ×`,
          }))}
        />
        <dl class="facts">
          <Time name="Interval" ps={of.dur_ps} />
          {of.before && <Fact name="Before"><Way to={of.before} control={control} /></Fact>}
          {of.after && <Fact name="After"><Way to={of.after} control={control} /></Fact>}
          <Fact name="Unexplained">{percent(of.not_explained_percent)}</Fact>
          <Fact name="Confidence">{of.confidence}</Fact>
          {of.remedy && <Fact name="To see more">{of.remedy}</Fact>}
        </dl>
      </div>
    </section>
  );
}

/** A link to an event where the timeline shows it, else its name. */
function Way({ to, control }: { to: Meeting; control: Control }) {
  const { track, item } = to;
  if (track === null || item === null) return <>{to.name}</>;
  return <button class="link" onClick={() => control.go({ ...to, track, item, row: 0 })}>{to.name}</button>;
}

/** What was answered, or one line with the reason why there is nothing; a saved file does not know every question. */
function Answered<T extends { unavailable: Unavailable | null }>(props: { answer: Answer<T>; what: string; children: (value: T) => ComponentChildren }) {
  const { answer, what, children } = props;
  if (answer.state === "waiting") return <Waiting />;
  if (answer.state === "refused") return <p role="status">{answer.error.code === "not_found" ? `${what} is not available from this server.` : answer.error.message}</p>;
  const why = answer.value.unavailable;
  return why ? <p role="status">{why.reason} {why.remedy}</p> : <>{children(answer.value)}</>;
}
