// One range of the program looked at closely: its calls, its steps, and what it holds.
import { DataTable } from "../charts/table";
import type { Options } from "../data/client";
import type { AnnotationDetailResult } from "../data/made/types";
import { counted, lasting, number } from "../format";
import { Card } from "../parts/value";
import { change } from "../state/url";

/** Title, and what a row is. */
const TABLES = {
  calls: ["Calls", "calls"],
  by_step: ["By step", "steps"],
  ops: ["Ops inside, on its thread", "ops"],
  kernels: ["Kernels launched inside", "kernels"],
} as const;

export function AnnotationDetail({ data, options }: { data: AnnotationDetailResult; options: Options }) {
  const { detail } = data;
  const tables = Object.keys(TABLES) as (keyof typeof TABLES)[];
  return (
    <section class="panel detail" aria-label="Annotation in detail">
      <p>
        <button onClick={() => change({ op: "" }, { push: true })}>All annotations</button>
      </p>
      <h2>
        <code>{detail.name}</code>, {counted(detail.call_count, "call")}
      </h2>
      <ul class="cards">
        <Card field="detail.host_us" title="On the host" exact={detail.host_us} shown={lasting(detail.host_us)} />
        <Card field="detail.device_us" title="Device time of work launched inside" exact={detail.device_us} shown={lasting(detail.device_us)} />
        <Card field="detail.launches" title="Launches" exact={detail.launches} shown={number(detail.launches)} />
      </ul>
      {tables
        .filter((name) => (detail[name]?.length ?? 0) > 0)
        .map((name) => (
          <details key={name} open={name === "calls"}>
            <summary>{TABLES[name][0]}</summary>
            <DataTable tool="model_views" table={`detail.${name}`} caption={TABLES[name][1]} options={options} />
          </details>
        ))}
    </section>
  );
}
