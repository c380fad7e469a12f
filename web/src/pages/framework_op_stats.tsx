// Op stats: shares of self time on host and device, and one row for each op.
import { LargestPie, slicesOf } from "../charts/pie";
import { DataTable, type Columns } from "../charts/table";
import type { FrameworkOpStatsResult, Pie } from "../data/made/types";
import { lasting } from "../format";
import { ToolPage, useAround } from "../parts/tool";
import { reasonFor, Value } from "../parts/value";
import { change, state } from "../state/url";
import { opOf } from "../trace/questions";
import { OpDetail } from "../details/op_detail";

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
    <>
      <ToolPage tool="framework_op_stats" what="time by op, on the host and on the device" options={{ include_idle: idle || undefined }}>
        {(data) => (
          <>
            <p>
              <label>
                <input
                  type="checkbox"
                  checked={idle}
                  onChange={(event) => change({ idle: event.currentTarget.checked ? "true" : "" })}
                />{" "}
                Include idle time
              </label>
            </p>
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
              tool="framework_op_stats"
              table="rows"
              caption="ops"
              options={{ include_idle: idle || undefined }}
              columns={data.device_idle_us === null ? ON_THE_HOST : COLUMNS}
              inTrace={opOf}
              onChoose={(row) => change({ op: String(row.name), scope: "" }, { push: true })}
            />
          </>
        )}
      </ToolPage>
    </>
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
