// Overview: where the step went, step by step, the top ops, and what the program ran on.
import { Account } from "../charts/account";
import { Breakdown } from "../charts/bars";
import { Swatch } from "../charts/categories";
import { OUTSIDE, StepGraph } from "../charts/steps";
import { StatisticsTable } from "../charts/statistics";
import { DataTable } from "../charts/table";
import { Chart } from "../charts/twin";
import { address, useAnswer } from "../data/client";
import type { FindingsAnswer } from "../data/findings";
import { CATEGORIES } from "../data/made/categories";
import type { DeviceEntry, OverviewPageResult, Step } from "../data/made/types";
import { SOURCES } from "../data/made/words";
import { counted, decimals, heading, ms, number, percent, size, UNKNOWN } from "../format";
import { Panel } from "../parts/panel";
import { Prose } from "../parts/prose";
import { ToolPage, useAround } from "../parts/tool";
import { Show } from "../parts/unavailable";
import { Card, Line, Lines, reasonFor, Value } from "../parts/value";
import { join, link, state } from "../state/url";
import { opOf } from "../trace/questions";
import { Checklist } from "./findings";
import { Headline } from "./headline";

export function OverviewPage() {
  const findings = useAnswer<FindingsAnswer>(address("findings"));
  return (
    <>
      <Headline answer={findings} />
      <ToolPage tool="overview_page" what="the step-time breakdown, the steps and the top operations">
        {(data, { cut }) => (
          <>
            {data.step_time_ms.mean === null && data.by_host.length > 1 && <Apart data={data} />}
            <Cards data={data} />
            <div class="side-by-side">
              {Object.keys(data.breakdown_ms).length > 0 && <Summary data={data} />}
              <Panel title="Checklist" label="Checklist">
                <Show answer={findings}>{(told) => <Checklist of={told} />}</Show>
              </Panel>
            </div>
            <Steps data={data} all={cut.find((each) => each.table === "steps")?.rows} />
            <TwoSteps data={data} />
            {data.account.length > 0 && <Account entries={data.account} each={data.window === "steps" ? "step" : "recording"} />}
            <TopOps data={data} />
            <div class="side-by-side">
              <Environment data={data} />
              <Placement data={data} />
              <StatisticsTable of={data.step_time_ms} field="step_time_ms" caption="Step time" />
              <StatisticsTable of={data.device_step_time_ms} field="device_step_time_ms" caption="Step time on the device" />
            </div>
          </>
        )}
      </ToolPage>
    </>
  );
}

/** Hosts whose steps cannot be averaged: why, and each of them alone. */
function Apart({ data }: { data: OverviewPageResult }) {
  const why = reasonFor("step_time_ms", useAround().missing);
  return (
    <Panel title="These hosts are not averaged" label="Hosts apart">
      <p>{why?.reason} Choose one:</p>
      <ul>
        {data.by_host.map(({ host, summary }) => (
          <li key={host}>
            <a href={link({ page: "overview_page", hosts: join([host]) })}>{host}</a>:{" "}
            {ms(summary.step_time_ms.mean)} a step, input {percent(summary.input_percent)}
          </li>
        ))}
      </ul>
    </Panel>
  );
}

function Cards({ data }: { data: OverviewPageResult }) {
  const hasSteps = data.window === "steps";
  const several = data.step_count > 1;
  if ([data.step_time_ms.mean, data.device_execution_percent, data.input_percent, data.kernel_launch_percent].every((each) => each === null)) return null;
  const severalBatches = data.steps.some((step) => (step.batches ?? 1) > 1);
  return (
    <ul class="cards">
      {hasSteps && <Card field="step_time_ms.mean" title={several ? "Step time, average" : "Step time"} exact={data.step_time_ms.mean} shown={ms(data.step_time_ms.mean)} />}
      {severalBatches && (
        <Card field="batch_time_ms" title="Time per batch" exact={data.batch_time_ms} shown={ms(data.batch_time_ms)} />
      )}
      {hasSteps && several && <Card name="95th percentile" field="step_time_ms.p95" title="Step time, 95th percentile" exact={data.step_time_ms.p95} shown={ms(data.step_time_ms.p95)} />}
      <Card name={data.breakdown_detail_ms?.transfer_wait ? "Device busy or waiting for transfers" : "Device busy"} field="device_execution_percent" title="Device busy" exact={data.device_execution_percent} />
      <Card field="input_percent" title="Input" exact={data.input_percent} evidence={<a href={link({ page: "input_pipeline_analyzer" })}>Input pipeline</a>} />
      <Card field="kernel_launch_percent" title="Kernel launch" exact={data.kernel_launch_percent} />
    </ul>
  );
}

const PRECISIONS = [
  ["16bit", "in 16 bits or fewer", ""],
  ["32bit", "in 32 bits or more", ", "],
  ["tf32", "as TF32", "; including "],
  ["64bit", "in 64 bits", " and "],
] as const;

function Summary({ data }: { data: OverviewPageResult }) {
  const { precision } = data;
  const { missing } = useAround();
  return (
    <Panel title={data.window === "steps" ? "Step-time breakdown" : "Breakdown of the recorded time"} label="Performance summary">
      {data.window !== "steps" && <p>No steps were found: times and shares are of the whole recording.</p>}
      {data.step_count > 0 && (
        <p>
          Of {counted(data.step_count, data.window === "steps" ? "step" : "window")}; the parts add up to {data.step_count > 1 ? "the average" : "its time"}.{leftOut(data)}
        </p>
      )}
      <Breakdown
        field="breakdown_ms"
        parts={data.breakdown_ms}
        percents={data.breakdown_percent}
      />
      <h3>Device compute precision</h3>
      <p>
        {precision && PRECISIONS.some(([bits]) => precision[`compute_${bits}_percent`] !== null) ? (
          PRECISIONS.map(([bits, words, before]) => (
            <span key={bits}>
              {before}
              <Value field={`precision.compute_${bits}_percent`} title={words} exact={precision[`compute_${bits}_percent`]} shown={percent(precision[`compute_${bits}_percent`])} />{" "}
              {words}
            </span>
          ))
        ) : (
          <><Value field="precision" title="Device compute precision" shown="–" /> <Prose text={reasonFor("precision.compute_16bit_percent", missing)?.reason ?? ""} /></>
        )}
      </p>
    </Panel>
  );
}

/** The windows that are in no mean, by their flag. */
function leftOut(data: OverviewPageResult): string {
  const open = data.steps.length > data.step_count ? data.steps.filter((each) => each.flags.includes("open_end")).length : 0;
  const all = Object.entries({ ...data.left_out, ...(open > 0 && { unknown_end: open }) });
  return all.length > 0 ? ` Left out: ${all.map(([flag, count]) => `${count} ${flag.replaceAll("_", " ")}`).join(", ")}.` : "";
}

function Steps({ data, all }: { data: OverviewPageResult; all: number | undefined }) {
  const found = data.step_detection;
  const how = found.source
    ? `Steps ${(SOURCES[found.source] ?? found.source).replace(/^inferred:/, "inferred,")}, timed on the ${found.anchor}, confidence ${percent(100 * (found.confidence ?? 0))}.`
    : "No steps were found; the whole recording is one window.";
  if (data.steps.length === 0) return null;
  return (
      <Chart
        title="Step-time graph"
        summary={how}
        table={<DataTable table="steps" caption="steps" />}
      >
        <StepGraph
          steps={data.steps}
          all={all}
          times={data.step_time_ms}
          each={data.window === "steps" ? "step" : "window"}
          parts={(step) => step.breakdown_ms}
        />
      </Chart>
  );
}

/** The step of median length beside the one that is chosen, else beside the slowest. */
function TwoSteps({ data }: { data: OverviewPageResult }) {
  const counted = data.steps.filter((each) => each.step !== null && !each.flags.some((flag) => OUTSIDE.includes(flag)));
  const [typical] = [...counted].sort((one, other) => offMedian(one) - offMedian(other));
  const chosen = data.steps.find((each) => String(each.step) === state.value.step && (!state.value.host || each.host === state.value.host));
  const [slowest] = [...counted].sort((one, other) => other.duration_ms - one.duration_ms);
  const other = chosen ?? slowest;
  function offMedian(step: Step): number {
    return Math.abs(step.duration_ms - (data.step_time_ms.median ?? 0));
  }
  if (!typical || !other || typical === other) return null;
  const digits = decimals(Math.max(typical.duration_ms, other.duration_ms));
  const parts = CATEGORIES.filter(({ name }) => typical.breakdown_ms[name] || other.breakdown_ms[name])
    .map((category) => {
      const [before, after] = [typical.breakdown_ms[category.name], other.breakdown_ms[category.name]];
      return { category, before, after, more: before === undefined || after === undefined ? undefined : after - before };
    })
    .sort((one, two) => (two.more ?? 0) - (one.more ?? 0));
  const time = (value: number | undefined) => <td class="number" title={String(value)}>{value === undefined ? UNKNOWN : `${number(value, digits)} ms`}</td>;
  const named = (step: Step) => <th scope="col" class="number"><a href={link({ page: "pod_viewer", step: String(step.step) })}>{step === typical ? "Typical" : step === chosen ? "Chosen" : "Slowest"} step {step.step}</a></th>;
  return (
    <Panel title={<>What makes step {other.step} {other.duration_ms < typical.duration_ms ? "shorter" : "longer"}</>} label="Two steps">
      <table class="twin">
        <thead><tr><td />{named(typical)}{named(other)}<th scope="col" class="number">Difference</th></tr></thead>
        <tbody>
          {parts.map(({ category, before, after, more }) => (
            <tr key={category.name} data-category={category.name}>
              <th scope="row"><Swatch category={category} /> {category.title}</th>
              {time(before)}{time(after)}{time(more)}
            </tr>
          ))}
          <tr><th scope="row">Step time</th>{time(typical.duration_ms)}{time(other.duration_ms)}{time(other.duration_ms - typical.duration_ms)}</tr>
        </tbody>
      </table>
    </Panel>
  );
}

function TopOps({ data }: { data: OverviewPageResult }) {
  const sides = new Set(data.top_ops?.map((each) => each.host_or_device));
  return (
    <Panel title={<>Top 10 operations{sides.has("Device") ? " on the device" : sides.has("Host") && " on the host"}</>}>
      <p>Shares are of the self time of all named ops{sides.has("Host") && ", without those of the input pipeline"}.</p>
      <DataTable
        table="top_ops"
        caption="operations"
        inTrace={opOf}
        columns={[
          "rank", { name: "self_time_us", bar: true }, "self_time_percent", "name: Operation",
          ...(data.top_ops?.every((each) => each.category === each.name) ? [] : ["category"]), "cumulative_percent: Cumulative (%)", "occurrences: Runs", "tensor_core_eligible: Can use Tensor Cores", "tensor_core_used: Uses Tensor Cores",
        ]}
      />
      <a href={link({ page: "framework_op_stats" })}>All operations</a>
    </Panel>
  );
}

function Environment({ data }: { data: OverviewPageResult }) {
  const of = data.environment;
  return (
    <Panel title="Run environment" label="Run environment">
      <Lines>
        <Line title="Hosts" field="environment.hosts" exact={of.hosts} />
        <Line title="Device type" field="environment.device_type" exact={of.device_type} />
        <Line title="Devices listed" field="environment.device_count" exact={of.device_count} />
        <Line title="Devices used" field="environment.used_device_count" exact={of.used_device_count} />
        {[...Map.groupBy(of.devices, kindOf)].map(([kind, devices]) => (
          <tr key={kind}>
            <th scope="row" colSpan={used(devices) ? 1 : 2}>{at(devices)} × {kind}</th>
            {used(devices) && <td>{used(devices)}</td>}
          </tr>
        ))}
      </Lines>
    </Panel>
  );
}

/** Devices of one kind are one line. */
function kindOf({ type, memory_bytes, compute_capability }: DeviceEntry): string {
  const capability = compute_capability && `compute capability ${compute_capability}`;
  return [type ?? "device", memory_bytes && size(memory_bytes), capability].filter(Boolean).join(", ");
}

/** How many worked; all, where the recording holds work of none. */
const at = (devices: DeviceEntry[]) => devices.filter((each) => each.used).length || devices.length;

function used(devices: DeviceEntry[]): string {
  if (devices.every((each) => each.used)) return "";
  return devices.some((each) => each.used) ? `at work, of ${devices.length} listed` : "no recorded work";
}

/** Phases whose name says too little. */
const PHASES: Record<string, string> = { unknown: "Phase not known" };

function Placement({ data }: { data: OverviewPageResult }) {
  const of = data.op_placement;
  const phases = Object.entries(data.phases_ms ?? {});
  const digits = decimals(Math.max(...phases.map(([, value]) => value ?? 0), 0));
  return (
    <Panel title="Where the ops ran" label="Op placement">
      <Lines>
        <Line title="Ops on the host" field="op_placement.host_op_percent" exact={of?.host_op_percent ?? null} />
        <Line title="Ops on the device" field="op_placement.device_op_percent" exact={of?.device_op_percent ?? null} />
        <Line title="Eager, on the host" field="eager.host_percent" exact={data.eager?.host_percent ?? null} />
        <Line title="Eager, on the device" field="eager.device_percent" exact={data.eager?.device_percent ?? null} />
        <Line title="Waiting for launches" field="kernel_launch_percent" exact={data.kernel_launch_percent} />
      </Lines>
      {phases.some(([phase, value]) => phase !== "unknown" && value !== null) && (
        <Lines caption={`Phases of ${data.window === "steps" ? "a step" : "the recording"}, on the ${data.environment.device_count === 0 ? "host" : "device"}`}>
          {phases.map(([phase, value]) => (
            <Line key={phase} title={PHASES[phase] ?? heading(phase)} field={`phases_ms.${phase}`} exact={value} shown={value === null ? UNKNOWN : `${number(value, digits)} ms`} />
          ))}
        </Lines>
      )}
    </Panel>
  );
}
