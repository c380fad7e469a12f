// Input pipeline: whether the program waits for its input, on which device, and which op.
import { Band } from "../charts/band";
import { StepGraph } from "../charts/steps";
import { StatisticsTable } from "../charts/statistics";
import { DataTable } from "../charts/table";
import { Chart, Twin } from "../charts/twin";
import type { InputPipelineResult, InputStep } from "../data/made/types";
import { INPUT_KINDS, INPUT_STEPS } from "../data/made/words";
import { counted, lasting, ms, percent } from "../format";
import { Panel } from "../parts/panel";
import { Pick } from "../parts/pick";
import { Prose } from "../parts/prose";
import { ToolPage, useAround } from "../parts/tool";
import { Card, Lines, reasonFor, Value } from "../parts/value";
import { change, link, state } from "../state/url";

export function InputPipelineAnalyzer() {
  return (
    <ToolPage tool="input_pipeline_analyzer" what="how much of the step waits for input, and where the input's time is spent">
      {(data) => (
        <>
          <Summary data={data} />
          <DeviceSide data={data} />
          <HostSide data={data} />
          <Workers data={data} />
        </>
      )}
    </ToolPage>
  );
}

function Summary({ data }: { data: InputPipelineResult }) {
  return (
    <section class="panel" aria-label="Summary">
      <p class="verdict" data-verdict={data.verdict}>{data.text}</p>
      <ul class="cards">
        <Card field="input_percent" title={data.steps.length > 0 ? "Input, of the step" : "Input, of the recording"} exact={data.input_percent} />
        <Card field="input_wait_percent" title="Waiting for a batch" exact={data.input_wait_percent} />
        <Card field="input_transfer_percent" title="Copying to the device" exact={data.input_transfer_percent} />
        <li>
          <h2>Largest part of the host's input work</h2>
          {data.largest_category ? (INPUT_KINDS[data.largest_category] ?? data.largest_category) : "not known"}
        </li>
      </ul>
      <details>
        <summary>Why TensorFlow's page may show another share</summary>
        <p>
          Exposed copies to the device count as input under any name; TensorFlow
          recognises one name. A step lasts until the next step starts; TensorFlow uses the span of device work.
          Iterator calls between steps count as input; TensorFlow reports 0 %. Unexplained time does not count;
          TensorFlow calls a program with 3 % of it potentially input-bound.
        </p>
      </details>
      {data.bottleneck_iterator && (
        <p>
          The slowest stage that a batch waits for is <code>{data.bottleneck_iterator}</code>. Parallel work outside the critical path does not count.{" "}
          <a href={link({ page: "tf_data_bottleneck_analysis" })}>Show the stage in the graph</a>
        </p>
      )}
      {data.next_steps.length > 0 && (
        <>
          <h3>{/^(high|moderate)ly/.test(data.verdict) ? "What to do" : "What would make the input cheaper"}</h3>
          <ul>
            {data.next_steps.map((each) => (
              <li key={each.category}>
                <b>
                  {INPUT_STEPS[each.category] ?? each.category}
                  {each.self_time_percent !== null && `, ${percent(each.self_time_percent)}`}:
                </b>{" "}
                <Prose text={each.advice} />
              </li>
            ))}
          </ul>
        </>
      )}
    </section>
  );
}

const WAITING = "waiting";
const PARTS = { all: "all categories", [WAITING]: "waiting and working" };

/** Two parts instead of all: what waits for input, and the rest of the step. */
function parts(step: InputStep): Record<string, number> {
  if (state.value.view !== WAITING) return step.breakdown_ms;
  const { idle_input_ms: waits, device_working_ms: works } = step;
  return { ...(waits !== null && { input: waits }), ...(works !== null && { device_compute_32: works }) };
}

function DeviceSide({ data }: { data: InputPipelineResult }) {
  if (data.steps.length === 0)
    return (
      <Panel title="Device side" label="Device side">
        <p>No steps were found: the shares above are of the whole recording.</p>
      </Panel>
    );
  return (
    <>
      <Chart
        title={data.device_step_time_ms ? "Device side: step time by step" : "Step time by step"}
        controls={
          <Pick label="Parts shown" value={state.value.view ?? "all"} of={PARTS} onPick={(view) => change({ view })} />
        }
        table={<DataTable table="steps" caption="steps" />}
      >
        <StepGraph steps={data.steps} times={data.step_time_ms} parts={parts} />
      </Chart>
      <div class="side-by-side">
        <StatisticsTable of={data.step_time_ms} field="step_time_ms" caption="Step time" />
        <Range data={data} />
      </div>
    </>
  );
}

/** The share waiting for input: over the steps, and per step from device to device. */
function Range({ data }: { data: InputPipelineResult }) {
  const of = data.input_percent_stats;
  const shares = data.steps.flatMap(({ step, name, input_percent_min: low, input_percent_avg: mean, input_percent_max: high }) =>
    low === null || mean === null || high === null ? [] : [{ label: String(step ?? name ?? ""), low, mean, high }],
  );
  // Steps of several hosts are no course.
  const course = shares.length > 1 && new Set(shares.map(({ label }) => label)).size === shares.length;
  const several = shares.some(({ low, high }) => low < high);
  if (of.mean === null) return null;
  return (
    <Chart
      title="Share of the step that is input"
      summary={course && several ? "The line is the mean of the devices; the band is their range." : ""}
      table={
        <DataTable
          table="steps"
          caption="steps"
          columns={[
            "step", "input_percent_avg: Average of devices (%)", "input_percent_min: Minimum (%)", "input_percent_max: Maximum (%)",
          ]}
        />
      }
    >
      {course && <Band label="Share of each step that is input" each="Step" shares={shares} />}
      <Twin
        caption="Over the steps, each with the same weight"
        head={["Average", "Standard deviation", "Minimum", "Maximum"]}
        rows={[[of.mean, of.std, of.min, of.max].map(percent)]}
      />
      {data.devices.length > 1 && <DataTable table="devices" caption="workers" />}
    </Chart>
  );
}

function HostSide({ data }: { data: InputPipelineResult }) {
  const { between_steps: between } = data;
  const { missing } = useAround();
  const why = data.input_ops.length === 0 && reasonFor("host_breakdown_us", missing);
  return (
    <Panel title="Host side: input processing time" label="Host side">
      {why ? (
        <p><Prose text={`${why.reason} ${why.remedy}`} /></p>
      ) : (
        <>
          <p>Summed work of the host's threads, not the time that a step waits. Shares are of this sum.</p>
          <Lines>
            {Object.entries(INPUT_KINDS).map(([name, title]) => (
              <tr key={name}>
                <th scope="row">{title}</th>
                <td class="number">
                  <Value field={`host_breakdown_us.${name}`} title={title} exact={data.host_breakdown_us[name] ?? null} shown={lasting(data.host_breakdown_us[name])} />
                </td>
                <td class="number">{percent(data.host_breakdown_percent[name])}</td>
              </tr>
            ))}
          </Lines>
        </>
      )}
      <Waits of={data.consumer_wait} />
      {!why && between?.outside_markers && (
        <p>The iterator ran between the steps, outside their annotation: {ms(between.wait_ms)} counted as input.</p>
      )}
      {!why && (
        <details open>
          <summary>Input op statistics</summary>
          <DataTable
            table="input_ops"
            caption="input ops"
            columns={[
              { name: "self_time_us", bar: true },
              "self_time_percent", "name: Input op", "host", "category", "count", "total_time_us", "total_time_percent",
            ]}
          />
        </details>
      )}
    </Panel>
  );
}

/** What worker processes do: their time is none of a step's. */
function Workers({ data }: { data: InputPipelineResult }) {
  const { missing } = useAround();
  const awaited = data.input_ops.some(({ category }) => category === "waiting_for_workers");
  const why = data.worker_functions.length === 0 && reasonFor("worker_functions", missing);
  // A program without worker processes lacks nothing.
  if (data.worker_functions.length === 0 && !(why && awaited)) return null;
  return (
    <Panel title="Worker processes" label="Worker processes">
      {why ? (
        <p><Prose text={`${why.reason} ${why.remedy}`} /></p>
      ) : (
        <>
          <p>Work in parallel with the steps, as shares of the workers' sampled time.</p>
          <DataTable
            table="worker_functions"
            caption="functions of worker processes"
            columns={[
              { name: "time_percent", bar: true },
              "state", "function", "inside: Most of it in", "file", "line", "hot_line: Most of its time at line", "time_ms", "workers", "host",
            ]}
          />
        </>
      )}
    </Panel>
  );
}

/** How long the step threads waited, and what of it the steps lost. */
function Waits({ of }: { of: InputPipelineResult["consumer_wait"] }) {
  if (!of || of.waits === 0) return null;
  return (
    <p>
      The step threads waited {ms(of.per_step_ms)} per step, in {counted(of.waits, "wait")}; the longest took {ms(of.longest_ms)}
      {of.hidden_ms !== null && of.hidden_ms > 0 &&
        `; ${ms(of.exposed_per_step_ms)} of this time count as input of the step; otherwise the device was busy, or idle for another reason`}.
    </p>
  );
}
