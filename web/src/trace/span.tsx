// All that is known of one span, or of the value of a counter at a time that was chosen.
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";

import { categoryNamed, categoryTitle, Swatch } from "../charts/categories";
import { useAsked } from "../data/client";
import { duration, moment, number, percent, UNKNOWN } from "../format";
import { absent } from "../data/runs";
import { Fact } from "../parts/panel";
import { MissingFields } from "../parts/unavailable";
import { holding } from "../state/tables";
import { link } from "../state/url";
import { amount, readingText } from "../timeline/counters";
import { said, type Choice } from "./chosen";
import type { Control } from "./control";
import type { Details } from "./questions";

export function Span({ span, control }: { span: Details; control: Control }) {
  const category = categoryNamed(span.category);
  const equals = span.same_name;
  return (
    <>
      <Heading title={<>{category && <Swatch category={category} />} {span.name}</>} whole={span.full_name}>
        <button title="Key ," disabled={!equals.previous} onClick={() => control.instance(false)}>‹ Previous</button>
        <button title="Key ." disabled={!equals.next} onClick={() => control.instance(true)}>Next ›</button>
        <button title="Key F" onClick={() => control.fit()}>Fit</button>
        <button title="Key M" onClick={() => control.mark()}>Mark</button>
      </Heading>
      <div class="columns-of-facts">
        <dl class="facts">
          <Time name="Duration" ps={span.dur_ps} />
          {span.busy_ps === null ? <Time name="Self time" ps={span.self_ps} /> : <Time name="Busy" ps={span.busy_ps} />}
          <Time name="Start" ps={span.start_ps} written={moment} />
          <Fact name="Category">{categoryTitle(span.category)}</Fact>
          <Fact name="Track">{span.section} · {span.track_name}</Fact>
          <Fact name="Step">
            {span.step === null ? UNKNOWN : <a href={link({ page: "pod_viewer", step: String(span.step) })}>{span.step}</a>}
          </Fact>
          <Fact name="Events with this name">
            {number(equals.count)}, together {duration(equals.total_ps)}
          </Fact>
          <Fact name="Percentile">{percent(equals.percentile)}</Fact>
          {span.full_name !== span.name && <Fact name="Recorded as">{span.full_name}</Fact>}
          {span.source && <Fact name="Source"><code>{span.source}</code></Fact>}
        </dl>
        <Relatives span={span} control={control} />
        {span.arguments && Object.keys(span.arguments).length > 0 && (
          <section>
            <h3>
              Arguments
              {span.arguments_of && <small> of its first event, <button class="link" onClick={() => control.go(span.arguments_of)}>{span.arguments_of.name}</button></small>}
            </h3>
            <dl class="facts">
              {Object.entries(span.arguments).map(([name, value]) => (
                <Fact key={name} name={name}>
                  <span title={String(value)}>{typeof value === "number" ? number(value) : value}</span>
                </Fact>
              ))}
            </dl>
          </section>
        )}
      </div>
      <p class="controls">
        {span.links.op && <a href={link({ page: "framework_op_stats", op: span.links.op })}>This op in Op stats</a>}
        {span.links.kernel && (
          <a href={link({ page: "kernel_stats", tables: holding("rows", span.links.kernel) })}>This kernel in Kernels</a>
        )}
        {!absent.value.memory_profile && (
          <a href={link({ page: "memory_profile", at: String(span.start_ps / 1e9) })}>Memory at this time</a>
        )}
      </p>
      <MissingFields missing={span.missing} />
    </>
  );
}

/** Of more launches than these, only the arrows are shown. */
const MOST_LISTED = 100;

function Relatives({ span, control }: { span: Details; control: Control }) {
  const relatives = [
    ["launched by", span.launched_by ? [span.launched_by] : [], 0],
    ["inside", span.parent ? [span.parent] : [], 0],
    ["launches", span.launched ?? [], span.launched_count ?? 0],
    ["contains", span.children ?? [], span.children_count ?? 0],
  ] as const;
  if (relatives.every(([, places]) => places.length === 0)) return null;
  return (
    <section>
      <h3>Related events</h3>
      <ul class="relatives">
        {relatives.map(([as, places, all]) => [
          ...places.slice(0, MOST_LISTED).map((place) => (
            <li key={`${as} ${place.item}`}>
              <small>{as}</small>{" "}
              <button class="link" onClick={() => control.go(place)}>{place.name}</button>{" "}
              <small>{duration(place.dur_ps)}</small>
            </li>
          )),
          all > Math.min(places.length, MOST_LISTED) && <li key={as}>and {number(all - Math.min(places.length, MOST_LISTED))} more</li>,
        ])}
      </ul>
    </section>
  );
}

/** What is chosen, and what can be done with it. */
export function Heading({ title, whole, children }: { title: ComponentChildren; whole?: string; children: ComponentChildren }) {
  return (
    <header>
      <h2 title={whole}>{title}</h2>
      <span class="tools">{children}</span>
    </header>
  );
}

/** A time in a suitable unit; its tooltip has all picoseconds. */
export function Time({ name, ps, written = duration }: { name: string; ps: number | null; written?: (ps: number) => string }) {
  return (
    <Fact name={name}>
      <span title={ps === null ? undefined : `${ps} ps`} data-ps={ps ?? undefined}>{ps === null ? UNKNOWN : written(ps)}</span>
    </Fact>
  );
}

export function CounterValue({ of, control }: { of: Extract<Choice, { kind: "counter" }>; control: Control }) {
  const track = control.scene.catalogue.tracks[of.track];
  const answer = useAsked(track?.counter ? `${of.track}:${of.at}` : null, (signal) => control.reading(of.track, of.at, signal));
  const unit = track?.unit ?? "";
  useEffect(() => {
    if (answer.state === "refused") said.value = answer.error.message;
    if (answer.state !== "ready") return;
    said.value = `${track!.name}: ${answer.value ? readingText(answer.value, unit) : NO_VALUE}`;
    // The panel takes room of the lanes: the counter stays in sight.
    control.show(of.track);
  }, [control, answer]);
  if (!track || answer.state !== "ready") return null;
  const reading = answer.value;
  return (
    <>
      <Heading title={track.name}>
        <button title="Key M" onClick={() => control.mark()}>Mark</button>
      </Heading>
      <dl class="facts">
        <Fact name="Value">{reading ? <span data-value={reading.most}>{readingText(reading, unit)}</span> : NO_VALUE}</Fact>
        <Time name="At" ps={of.at} written={moment} />
        {reading && <Time name="Set at" ps={reading.since} written={moment} />}
        <Fact name="Least">{amount(track.least ?? 0, unit)}</Fact>
        <Fact name="Greatest">{amount(track.greatest ?? 0, unit)}</Fact>
      </dl>
    </>
  );
}

const NO_VALUE = "no value before this time";
