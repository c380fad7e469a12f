// Pod viewer: one step across all workers, and which of them the others wait for.
import { useState } from "preact/hooks";

import { Breakdown } from "../charts/bars";
import { categoryTitle } from "../charts/categories";
import { Columns } from "../charts/columns";
import { DataTable } from "../charts/table";
import { Chart } from "../charts/twin";
import type { PodStep, PodViewerResult, Worker } from "../data/made/types";
import { CODES } from "../data/made/words";
import { counted, ms, number, percent } from "../format";
import { Panel } from "../parts/panel";
import { deviceName } from "../parts/name";
import { Pick } from "../parts/pick";
import { ToolPage } from "../parts/tool";
import { Line, Lines, Value } from "../parts/value";
import { change, join, link, state } from "../state/url";

export function PodViewer() {
  return (
    <ToolPage tool="pod_viewer" what="every step across all workers, and the worker that the others wait for">
      {(data, { words }) => (
        <>
          <Summary data={data} words={words} />
          <OneStep data={data} />
          <Panel title={unstepped(data) ? "Workers over the whole recording" : "Workers over all steps"}>
            <DataTable table="workers" caption="workers" columns={WORKERS} />
          </Panel>
          <Clocks data={data} />
        </>
      )}
    </ToolPage>
  );
}

/** The parts of a worker's step are in the chart above, and among the further columns. */
const WORKERS = [
  "host", "device", "steps", "slowest_in: Slowest in (steps)", "total_ms: Step (ms)", "bottleneck: Largest part", "device_work_ms",
  "waited_for_ms: Others waited for this worker (ms)", "collective_wait_ms: Waited for others (ms)", "collective_transfer_ms: Transferred (ms)",
];

/** Without steps the recording is the one that there is. */
const unstepped = ({ workers }: PodViewerResult) => workers.every((each) => each.steps === 0);

function Summary({ data, words }: { data: PodViewerResult; words: Record<string, string> }) {
  if (data.workers.length === 1)
    return (
      <section class="panel" aria-label="Summary">
        Only one worker was recorded, so there is no comparison.{" "}
        <a href={link({ page: "overview_page" })}>The overview shows this worker</a>
      </section>
    );
  return (
    <section class="panel" aria-label="Summary">
      <p class="verdict">{words.verdict}</p>
      {words.because && <p>{words.because}</p>}
      <p>
        {words.together} Imbalance{" "}
        <Value field="imbalance" title="Imbalance" exact={data.imbalance} shown={data.imbalance === null ? "–" : percent(100 * data.imbalance)} />
        , start skew{" "}
        <Value field="start_skew_ms" title="Start skew" exact={data.start_skew_ms} shown={ms(data.start_skew_ms)} />
        .
      </p>
    </section>
  );
}

/** As short as tells the workers apart: by host, by device, or by both. */
function labels(workers: Worker[]): string[] {
  const hosts = new Set(workers.map((each) => each.host));
  if (hosts.size === workers.length) return workers.map((each) => each.host);
  if (hosts.size === 1) return workers.map((each) => `${each.device ?? each.host}`);
  return workers.map((each) => `${each.host}:${each.device}`);
}

const ORDERS = { rank: "by rank", time: "slowest first" };

function OneStep({ data }: { data: PodViewerResult }) {
  const [under, point] = useState<number | null>(null);
  const wanted = state.value.step;
  const found = data.steps.findIndex((each) => String(each.step ?? each.name) === wanted);
  const index = found < 0 ? firstWhole(data.steps) : found;
  const step = data.steps[index];
  if (!step) return null;
  const byTime = state.value.by === "time";
  const workers = byTime ? [...step.workers].sort((a, b) => b.total_ms - a.total_ms) : step.workers;
  const slow = step.slowest ? workers.findIndex((each) => deviceName(each) === deviceName(step.slowest!)) : -1;
  const shown = workers[under ?? Math.max(slow, 0)] ?? workers[0];
  const short = labels(workers);
  return (
    <Chart
      title={unstepped(data) ? "The whole recording" : `Step ${step.step ?? step.name}`}
      summary={step.slowest ? `Slowest: ${deviceName(step.slowest)}${step.slowest_by ? `: ${CODES.slowest_by![step.slowest_by]}` : ""}.` : ""}
      controls={
        <>
          {data.steps.length > 1 && <label>
            Step{" "}
            <input
              type="range"
              min={0}
              max={data.steps.length - 1}
              value={index}
              aria-valuetext={`step ${step.step ?? step.name}`}
              onInput={(event) => {
                const next = data.steps[Number(event.currentTarget.value)];
                change({ step: String(next?.step ?? next?.name ?? "") });
              }}
            />
          </label>}
          {workers.length > 1 && <Pick label="Order" value={byTime ? "time" : "rank"} of={ORDERS} onPick={(by) => change({ by })} />}
        </>
      }
      table={<DataTable table="steps" caption="worker steps" />}
    >
      {step.slowest && step.fastest && step.fastest.host !== step.slowest.host && (
        <p>
          <a href={link({ page: "trace_viewer", host: step.fastest.host, beside: join([step.slowest.host]), step: String(step.step ?? "") })}>
            Show the slowest host below the fastest in Trace, on one clock
          </a>
        </p>
      )}
      <div class="pod">
        <Card worker={shown} />
        {workers.length > 1 && <Columns
          unit="ms"
          each="worker"
          onPoint={point}
          chosen={slow < 0 ? undefined : slow}
          stacks={workers.map((each, k) => ({ label: short[k]!, parts: each.breakdown_ms }))}
        />}
      </div>
    </Chart>
  );
}

/** A step that every worker has, rather than the first, which a recording often cuts. */
function firstWhole(steps: PodStep[]): number {
  const found = steps.findIndex((each) => each.complete && each.counted && each.workers.length > 1);
  return Math.max(found, 0);
}

const COLLECTIVES = [
  ["collective_wait_ms", "Waiting for others"],
  ["collective_transfer_ms", "Transferring"],
  ["collective_untold_ms", "Waiting or transferring, unknown"],
  ["waited_for_ms", "Others waited for this worker"],
] as const;

function Card({ worker }: { worker: Worker | undefined }) {
  if (!worker) return null;
  const share = (value: number) => (worker.total_ms > 0 ? (100 * value) / worker.total_ms : null);
  return (
    <section class="panel" aria-label="Breakdown of the worker">
      <h3>{deviceName(worker)}</h3>
      <p>{ms(worker.total_ms)} in all; the largest part: {categoryTitle(worker.bottleneck).toLowerCase()}</p>
      <Breakdown
        field="steps.workers.breakdown_ms"
        parts={worker.breakdown_ms}
        percents={Object.fromEntries(Object.entries(worker.breakdown_ms).map(([name, value]) => [name, share(value)]))}
        details={worker.breakdown_detail_ms}
      />
      {COLLECTIVES.some(([name]) => worker[name] !== null) && (
        <Lines caption="In collectives">
          {COLLECTIVES.map(([name, title]) => (
            <Line key={name} field={`steps.workers.${name}`} title={title} exact={worker[name]} shown={ms(worker[name])} />
          ))}
        </Lines>
      )}
    </section>
  );
}

function Clocks({ data }: { data: PodViewerResult }) {
  if (data.clocks.length < 2) return null;
  return (
    <Panel title="Clocks of the hosts">
      {data.collectives_matched + data.collectives_unmatched > 0 && (
        <p>
          {counted(data.collectives_matched, "collective")} matched across hosts, {number(data.collectives_unmatched)} not matched.
          The table shows each offset's uncertainty.
        </p>
      )}
      <DataTable table="clocks" caption="hosts" />
    </Panel>
  );
}
