// Two runs side by side: what became of the step, and what explains the change.
import type { ComponentChildren } from "preact";

import { categoryNamed, categoryTitle, Legend, paint, present, Swatch } from "../charts/categories";
import { Columns, total, type Stack } from "../charts/columns";
import { Chart, Head, Twin } from "../charts/twin";
import { useAnswer } from "../data/client";
import type { Change, Comparison, RunOfTwo } from "../data/made/types";
import { OWNERS } from "../data/made/words";
import { base, chosen, runs } from "../data/runs";
import { counted, decimals, ms, number, percent, singular, UNKNOWN } from "../format";
import { useFirst } from "../parts/more";
import { Name } from "../parts/name";
import { Panel } from "../parts/panel";
import { Check } from "../parts/pick";
import { Prose } from "../parts/prose";
import { Absent, MissingFields, Show } from "../parts/unavailable";
import { change, link, state } from "../state/url";

interface Told extends Comparison {
  words: { verdict: string; explaining: string[]; checks: string[]; promises: string[] };
}

const ALONE = {
  code: "NO_RUNS",
  reason: "The log directory has only one complete run.",
  remedy: "Record another run into the log directory.",
};

export function Compare() {
  const run = chosen();
  const other = base();
  if (run && other) return <Both key={`${run.version} ${other.version}`} run={run.id} other={other.id} />;
  const others = (runs.value?.runs ?? []).filter((each) => each.id !== run?.id && each.state === "ready");
  if (others.length === 0) return <Absent what="two runs side by side" why={ALONE} />;
  return (
    <Panel title={`Compare ${run?.name} with which run?`}>
      <ul class="bases">
        {others.map((each) => (
          <li key={each.id}>
            <a href={link({ page: "compare", base: each.id })}>{each.name}</a>
          </li>
        ))}
      </ul>
    </Panel>
  );
}

function Both({ run, other }: { run: string; other: string }) {
  const stated = state.value.same_work === "yes";
  const query = new URLSearchParams({ run, base: other, ...(stated && { same_work: "true" }) });
  return (
    <Show answer={useAnswer<Told>(`data/compare?${query}`)}>
      {(told) => (
        <>
          <section class="headline" aria-label="Headline">
            <p class="verdict"><Prose text={told.words.verdict} /></p>
            <Sentences of={told.words.explaining} />
          </section>
          <Parity told={told} stated={stated} onState={(to) => change({ same_work: to ? "yes" : "" })} />
          <Steps told={told} />
          <Changes title="By category" caption="categories" rows={told.breakdown} per={told.per} titleOf={categoryTitle} />
          <Changes title="By cause of the time" caption="owners" rows={told.owners} per={told.per} titleOf={(name) => OWNERS[name] ?? name} />
          <Changes title="Ops" caption="ops" times="self times" rows={told.ops} per={told.per} />
          <Changes title="Kernels" caption="kernels" rows={told.kernels} per={told.per} />
          <Findings told={told} />
          {told.step_time && <MissingFields missing={told.missing} />}
        </>
      )}
    </Show>
  );
}

function Sentences({ of }: { of: string[] }) {
  if (of.length === 0) return null;
  return (
    <ul>
      {of.map((each) => (
        <li key={each}><Prose text={each} /></li>
      ))}
    </ul>
  );
}

/** Whether both do the same work; the reader may state it where the recordings do not show it. */
function Parity({ told, stated, onState }: { told: Told; stated: boolean; onState: (to: boolean) => void }) {
  const { unavailable } = told.parity;
  return (
    <details class="panel" open={unavailable !== null || stated}>
      <summary>{unavailable ? "Is the work the same? Not proven" : "Is the work the same?"}</summary>
      <Sentences of={told.words.checks} />
      {(unavailable || stated) && <Check label="I state that both runs do the same work in a step" on={stated} onToggle={onState} />}
    </details>
  );
}

/** Both runs on one ruler: columns of one width, heights of one scale. */
function Steps({ told }: { told: Told }) {
  const sides = ([["base", told.base], ["new", told.new]] as const).map(
    ([name, run]) => [name, run, stacksOf(run)] as const,
  );
  const every = sides.flatMap(([, , stacks]) => stacks);
  if (every.length === 0) return null;
  const most = Math.max(...every.map(total));
  const count = Math.max(...sides.map(([, , stacks]) => stacks.length));
  if (count === 1) return <OneStep sides={sides} />;
  return (
    <Chart
      title="Step by step"
      summary="One column per measured step, without the cost of recording. Both runs have the same scale."
      table={
        <Twin
          caption={`Time of a ${told.per} (ms)`}
          head={["Step", "base", "new"]}
          rows={Array.from({ length: count }, (_, at) => [
            labelOf(told.base, at),
            ...sides.map(([, , stacks]) => (stacks[at] ? number(total(stacks[at])) : UNKNOWN)),
          ])}
        />
      }
    >
      <p><a href={link({ page: "trace_viewer", beside: "@base" })}>Show both runs in Trace, aligned by steps</a></p>
      <Legend categories={present(every.map(({ parts }) => parts))} />
      {sides.map(([name, run, stacks]) => (
        <section key={name} aria-label={name}>
          <h3>
            {name}: {run.run}, mean {ms(run.mean_ms)}, median {ms(run.median_ms)} of {counted(run.steps, "step")}
            {run.hosts.length > 1 && run.steps > 0 && `; each column is the mean of ${run.hosts.length} hosts`}
          </h3>
          {stacks.length > 0 && (
            <Columns stacks={stacks} unit="ms" each={`${name} step`} ruler={{ most, count }} />
          )}
        </section>
      ))}
    </Chart>
  );
}

/** A step of each run has no course: its parts, side by side. */
function OneStep({ sides }: { sides: (readonly [string, RunOfTwo, Stack[]])[] }) {
  const found = present(sides.flatMap(([, , stacks]) => stacks.map(({ parts }) => parts)));
  const digits = decimals(Math.max(...sides.map(([, run]) => run.mean_ms ?? 0)));
  const cells = (of: (stack: Stack) => number | undefined) => sides.map(([, , [one]]) => number(one && (of(one) ?? 0), digits));
  return (
    <Panel title="One step of each run" label="One step of each run">
      <p><a href={link({ page: "trace_viewer", beside: "@base" })}>Show both runs in Trace</a></p>
      <Twin
        caption="Parts of the step (ms), without the cost of recording"
        head={["Part", ...sides.map(([name, run]) => `${name}: ${run.run}`)]}
        rows={[...found.map(({ name, title }) => [title, ...cells(({ parts }) => parts[name])]), ["the whole step", ...cells(total)]]}
      />
    </Panel>
  );
}

function stacksOf(run: RunOfTwo): Stack[] {
  // What no step has needs no colour in the legend.
  const parts = Object.entries(run.columns?.breakdown_ms ?? {}).filter(([, of]) => of.some((value) => value > 0));
  return (Object.values(run.columns?.breakdown_ms ?? {})[0] ?? []).map((_, at) => ({
    label: labelOf(run, at),
    parts: Object.fromEntries(parts.map(([name, of]) => [name, of[at]!])),
  }));
}

function labelOf(run: RunOfTwo, at: number): string {
  const each = run.columns?.steps_per_column ?? 1;
  return each === 1 ? `${at + 1}` : `${at * each + 1}–${Math.min((at + 1) * each, run.steps)}`;
}

const KINDS = { appeared: "appeared", vanished: "vanished", slowed: "slower", quickened: "faster", same: "same" };
const NUMBERS = ["Base", "New", "Change", "Share of the change"];
/** Rows that are shown before the others are asked for. */
const FIRST = 12;

interface Rows {
  title: string;
  caption: string;
  rows: readonly Change[] | null;
  per: string;
  times?: string;
  titleOf?: (name: string) => string;
}

function Changes({ title, caption, rows, per, times = "times", titleOf = (name) => name }: Rows) {
  const told = (rows ?? []).filter((each) => each.base_ms || each.new_ms);
  const [first, more] = useFirst(told, FIRST);
  if (told.length === 0) return null;
  const most = Math.max(...told.map((each) => Math.abs(each.change_ms)), Number.MIN_VALUE);
  // One column of numbers: all have the decimals that the largest needs.
  const digits = decimals(Math.max(...told.flatMap((each) => [each.base_ms ?? 0, each.new_ms ?? 0])));
  return (
    <Panel title={title} label={title}>
      <div class="scroll whole" tabIndex={0} role="group" aria-label={`${title}, scrolls`}>
        <table class="changes">
          <caption>
            {counted(told.length, singular(caption), caption)}; {times} of a mean {per} in ms
          </caption>
          <Head of={["Name", ...NUMBERS, "Quicker · slower"]} numbers={NUMBERS} />
          <tbody>
            {first.map((each) => (
              <Line key={`${each.name} ${each.side} ${each.scope}`} of={each} {...{ most, digits }} title={titleOf(each.name)} />
            ))}
          </tbody>
        </table>
      </div>
      {more}
    </Panel>
  );
}

function Line({ of, most, digits, title }: { of: Change; most: number; digits: number; title: string }) {
  const category = categoryNamed(of.category);
  const by = of.low_ms !== null && of.kind === "same" ? "by chance" : KINDS[of.kind];
  const length = (50 * Math.abs(of.change_ms)) / most;
  return (
    <tr data-name={of.name} data-kind={of.kind}>
      <th scope="row" title={of.name}>
        {category && <Swatch category={category} />} <Name text={title} />
        {(of.side ?? of.scope) && <small> {of.side ?? of.scope}</small>}
      </th>
      <Cell exact={of.base_ms}>{number(of.base_ms, digits)}</Cell>
      <Cell exact={of.new_ms}>{number(of.new_ms, digits)}</Cell>
      <Cell exact={of.change_ms}>{signed(of.change_ms, digits)}</Cell>
      <Cell exact={of.share_percent}>{of.kind === "same" ? UNKNOWN : percent(of.share_percent)}</Cell>
      <td>
        <svg class="length" aria-hidden="true">
          <rect
            x={`${of.change_ms < 0 ? 50 - length : 50}%`}
            width={`${length}%`}
            height="12"
            {...(category ? paint(category) : { class: "mark fill-compute" })}
          />
        </svg>{" "}
        {by}
      </td>
    </tr>
  );
}

function Cell({ exact, children }: { exact: number | null; children: ComponentChildren }) {
  return (
    <td class="number" title={exact === null ? undefined : String(exact)}>{children}</td>
  );
}

function signed(value: number, digits: number): string {
  const text = number(value, digits).replace("-", "−");
  return /^\d/.test(text) && value > 0 ? `+${text}` : text;
}

function Findings({ told }: { told: Told }) {
  if (told.findings.length === 0) return null;
  // One quantity: both columns have the decimals that the largest needs.
  const digits = decimals(Math.max(...told.findings.flatMap((each) => [each.base_ms ?? 0, each.new_ms ?? 0])));
  const written = (value: number | null) => (value === null ? UNKNOWN : `${number(value, digits)} ms`);
  return (
    <Panel title="Findings" label="Findings">
      <Twin
        caption={`Effect of each finding on a ${told.per}`}
        head={["Finding", "Became", "Base", "New"]}
        rows={told.findings.map((each) => [
          `${each.id}: ${each.title}`,
          each.change === "unknown" ? "known in only one run" : each.change,
          written(each.base_ms),
          written(each.new_ms),
        ])}
      />
      <Sentences of={told.words.promises} />
    </Panel>
  );
}
