// One op or scope looked at closely: its share of the step, its cause, its kernels and calls.
import { DataTable } from "../charts/table";
import type { OpDetailResult } from "../data/made/types";
import { counted, lasting } from "../format";
import { ToolPage } from "../parts/tool";
import { Card, Line } from "../parts/value";
import { change, link, state } from "../state/url";
import { kernelOf } from "../trace/questions";

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

export function OpDetail() {
  const { op, scope } = state.value;
  const options = op ? { op } : { scope };
  return (
    <section class="panel detail" aria-label="Op in detail">
      <p>
        <button onClick={() => change({ op: "", scope: "" }, { push: true })}>All ops</button>{" "}
        <a href={link({ page: "trace_viewer", q: op || (scope ?? "") })}>Events of this op in Trace</a>
      </p>
      <ToolPage tool="framework_op_stats" what="the calls of this op, with their kernels and copies" options={options}>
        {(data) => <Detail data={data as OpDetailResult} options={options} />}
      </ToolPage>
    </section>
  );
}

function Detail({ data, options }: { data: OpDetailResult; options: { op?: string; scope?: string | undefined } }) {
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
      <table class="twin">
        <caption>Device time of the op by cause</caption>
        <tbody>
          {PARTS.filter(([name]) => cause[name] !== 0).map(([name, title]) => (
            <Line key={name} field={`cause.${name}`} title={title} exact={cause[name]} shown={lasting(cause[name])} />
          ))}
        </tbody>
      </table>
      {TABLES.filter((name) => data[name] && data[name].length > 0).map((name) => (
        <details key={name} open={name === "kernels"}>
          <summary>{name.charAt(0).toUpperCase() + name.slice(1)}</summary>
          <DataTable tool="framework_op_stats" table={name} caption={name} options={options} {...(name === "kernels" && { inTrace: kernelOf })} />
        </details>
      ))}
    </>
  );
}
