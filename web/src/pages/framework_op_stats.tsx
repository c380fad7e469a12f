// Op stats: shares of self time on host and device, and one row for each op.
import { LargestPie, slicesOf } from "../charts/pie";
import { DataTable, type Columns } from "../charts/table";
import type { FrameworkOpStatsResult, OpDetailResult, Pie } from "../data/made/types";
import { capital, counted, lasting } from "../format";
import { Check } from "../parts/pick";
import { ToolPage, useAround } from "../parts/tool";
import { Card, Line, Lines, reasonFor, Value } from "../parts/value";
import { change, link, state } from "../state/url";
import { kernelOf, opOf } from "../trace/questions";

const COLUMNS: Columns = [
  "rank", { name: "total_self_time_us", bar: true }, "device_self_percent", "host_self_percent", "name", "type",
  "host_or_device", "occurrences", "total_time_us", "avg_time_us", "avg_self_time_us", "device_cumulative_percent",
  "host_cumulative_percent",
];

/** A share of the time of devices is none where there is no device. */
const ON_THE_HOST = COLUMNS.filter((column) => !String(column).startsWith("device_"));

const PIES: [keyof FrameworkOpStatsResult["pies"], string][] = [
  ["host_by_type", "On the host, by type"],
  ["host_by_op", "On the host, by op"],
  ["device_by_type", "On the device, by type"],
  ["device_by_op", "On the device, by op"],
];

export function FrameworkOpStats() {
  const idle = state.value.idle === "true";
  if (state.value.op ?? state.value.scope) return <OpDetail />;
  return (
    <ToolPage tool="framework_op_stats" what="time by op, on the host and on the device" options={{ include_idle: idle || undefined }}>
      {(data) => (
        <>
          <p><Check label="Include idle time" on={idle} onToggle={(on) => change({ idle: on ? "true" : "" })} /></p>
          <div class="side-by-side">
            {PIES.map(([name, title]) => (
              <Shares key={name} field={`pies.${name}`} title={title} pie={data.pies[name]} idle={idle} />
            ))}
          </div>
          <p>
            Device idle{" "}
            <Value field="device_idle_us" title="Device idle" exact={data.device_idle_us} shown={lasting(data.device_idle_us)} />
            , host idle{" "}
            <Value field="host_idle_us" title="Host idle" exact={data.host_idle_us} shown={lasting(data.host_idle_us)} />
            .
            {data.device_idle_us !== null && (
              <>
                {" "}
                Ops on the device are small if an execution takes less than twice the launch latency of{" "}
                <span class="whole">
                  <Value field="launch_latency_us" title="Launch latency" exact={data.launch_latency_us} shown={lasting(data.launch_latency_us)} />
                  {data.launch_latency_samples === 0 && " (assumed)"}.
                </span>
              </>
            )}
          </p>
          <DataTable
            table="rows"
            caption="ops"
            columns={data.device_idle_us === null ? ON_THE_HOST : COLUMNS}
            inTrace={opOf}
            onChoose={(row) => change({ op: String(row.name), scope: "" }, { push: true })}
          />
        </>
      )}
    </ToolPage>
  );
}

function Shares(props: { title: string; field: string; pie: Pie | null; idle: boolean }) {
  const { missing } = useAround();
  const slices = props.idle ? props.pie?.with_idle : props.pie?.without_idle;
  if (!slices || slices.length === 0) {
    const why = reasonFor(props.field, missing);
    return (
      <section class="panel absent">
        <h2>{props.title}</h2>
        <p>{why ? `${why.reason} ${why.remedy}` : "No op ran here."}</p>
      </section>
    );
  }
  return (
    <LargestPie
      title={props.title}
      unit="Self time (µs)"
      inTrace={props.field.endsWith("by_op") ? (name) => opOf({ name, host_or_device: props.field.includes("host") ? "Host" : "Device" }) : undefined}
      slices={slicesOf(slices, "self_time_us")}
    />
  );
}

const DOMINANT: Record<string, string> = {
  transfer: "Transfer dominates: copies and collectives take most of the device time.",
  utilisation: "Low utilisation dominates: the device waits, or the kernels do not fill the device.",
  compute: "Compute dominates: kernels fill the device for most of the time.",
  mixed: "No single cause dominates.",
};

const PARTS = [
  ["transfer_us", "Copies, memsets and collectives"],
  ["waiting_us", "The device is idle and waits for the op"],
  ["small_grid_us", "Kernels with too few blocks"],
  ["low_occupancy_us", "Kernels with low occupancy"],
  ["compute_us", "Kernels that fill the device"],
  ["unknown_us", "Kernels with unknown utilisation"],
  ["untested_us", "Occupancy unknown"],
] as const;

const TABLES = ["kernels", "copies", "launches", "shapes", "calls"] as const;

/** One op or scope looked at closely: its share of the step, its cause, its kernels and calls. */
function OpDetail() {
  const { op, scope } = state.value;
  const options = op ? { op } : { scope };
  return (
    <section class="panel detail" aria-label="Op in detail">
      <p>
        <button onClick={() => change({ op: "", scope: "" }, { push: true })}>All ops</button>{" "}
        <a href={link({ page: "trace_viewer", q: op || (scope ?? "") })}>Events of this op in Trace</a>
      </p>
      <ToolPage tool="framework_op_stats" what="the calls of this op, with their kernels and copies" options={options}>
        {(data) => <Detail data={data as OpDetailResult} />}
      </ToolPage>
    </section>
  );
}

function Detail({ data }: { data: OpDetailResult }) {
  const { cause, share } = data;
  return (
    <>
      <h2>
        <code>{data.selected}</code>, {counted(data.call_count, "call")}
      </h2>
      <ul class="cards">
        <Card field="share.device_percent" title="Share of the step, on the device" exact={share.device_percent} />
        <Card field="share.exposed_percent" title="Share of the step, alone on the device" exact={share.exposed_percent} />
        <Card field="share.host_percent" title="Share of the step, on the host" exact={share.host_percent} />
      </ul>
      <p class="verdict" data-cause={cause.dominant ?? "unknown"}>
        {cause.dominant ? DOMINANT[cause.dominant] : "The cause is not known."}
      </p>
      <Lines caption="Device time of the op by cause">
        {PARTS.filter(([name]) => cause[name] !== 0).map(([name, title]) => (
          <Line key={name} field={`cause.${name}`} title={title} exact={cause[name]} shown={lasting(cause[name])} />
        ))}
      </Lines>
      {TABLES.filter((name) => data[name]?.length).map((name) => (
        <details key={name} open={name === "kernels"}>
          <summary>{capital(name)}</summary>
          <DataTable table={name} caption={name} {...(name === "kernels" && { inTrace: kernelOf })} />
        </details>
      ))}
    </>
  );
}
