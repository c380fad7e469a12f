// Roofline: how close ops and kernels come to what the device allows, and which roof holds them.
import { Roofline, type Point } from "../charts/roofline";
import { DataTable, toColumn, type Columns } from "../charts/table";
import { Chart } from "../charts/twin";
import type { Cell, Row, RooflineModelResult } from "../data/made/types";
import { CODES } from "../data/made/words";
import { ms, number, percent } from "../format";
import { Panel } from "../parts/panel";
import { Pick } from "../parts/pick";
import { Prose } from "../parts/prose";
import { ToolPage, useAround } from "../parts/tool";
import { reasonFor, Value } from "../parts/value";
import { change, link, state } from "../state/url";

/** Further circles would hide each other; the table has every row. */
const MOST_POINTS = 300;
const TABLES: Record<string, string> = { ops: "ops", kernels: "kernels" };
/** By itself: numbers of a logarithmic axis have no decimals in common. */
const figures = (cell: Cell) => number(Number(cell));
const SUMMARY =
  "Each circle is an op or kernel; its area is its share of self time. Filled circles are measured by counters, hollow circles follow from shapes. The lines are the device's limits.";

const COLUMNS: Columns = [
  "rank", { name: "self_us", title: "Self time (µs)", bar: true }, { name: "time_percent", title: "Self time (%)", bar: true }, "name", "kernel_name", "op_name: Launching op",
  "evidence: Source of the work", "of_roof_percent: Of the roof", "bound_by",
  { name: "operational_intensity", title: "FLOP per byte", show: figures },
  { name: "gflops_per_s", title: "GFLOP/s", show: figures },
  "roof_gflops_per_s: Roof, GFLOP/s", { name: "gb_per_s", title: "GB/s", show: figures },
  "total_us: Total time (µs)", "occurrences", "lacks: Not known",
];

const ROOFS: Columns = [
  "device", "unit", "peak_gflops_per_s: Peak (GFLOP/s)", "memory_gb_per_s: Memory (GB/s)",
  "ridge_flops_per_byte: Ridge (FLOP/byte)", "source",
];

export function RooflineModel() {
  return (
    <ToolPage tool="roofline_model" what="ops and kernels under the roofs of the device">
      {(data) => <Model data={data} />}
    </ToolPage>
  );
}

function Model({ data }: { data: RooflineModelResult }) {
  const why = reasonFor("roofs", useAround().missing);
  const first = data.ops.length || !data.kernels.length ? "ops" : "kernels";
  const by = state.value.by && state.value.by in TABLES ? state.value.by : first;
  const rows = by === "ops" ? data.ops : data.kernels;
  const unknown = by === "ops" ? data.unknown_ops_percent : data.unknown_kernels_percent;
  const drawn = rows.filter((row) => real(row.operational_intensity) && real(row.gflops_per_s)).slice(0, MOST_POINTS);
  const roofs = data.roofs.map((row) => ({
    label: `${CODES.unit?.[String(row.unit)] ?? row.unit}: ${number(Number(row.peak_gflops_per_s) / 1000, 1)} TFLOP/s`,
    peak: Number(row.peak_gflops_per_s),
    memory: row.memory_gb_per_s === null ? null : Number(row.memory_gb_per_s),
  }));
  const nameOf = (row: Row) => String(row.name ?? row.kernel_name);
  const choose = (row: Row | undefined) => {
    const op = row?.op_name ?? row?.name;
    if (op) location.hash = link({ page: "framework_op_stats", op: String(op) });
  };
  const table = (
    <DataTable
      key={by}
      table={by}
      caption={TABLES[by]!}
      columns={COLUMNS.map(toColumn).filter(({ name }) => (rows[0] === undefined || name in rows[0]) && (name !== "total_us" || data.ops_on === "host"))}
      onChoose={choose}
    />
  );
  return (
    <>
      <p>
        For{" "}
        <Value field={`unknown_${by}_percent`} title="Time without a point in the chart" exact={unknown} shown={percent(unknown)} />{" "}
        of the self time of {TABLES[by]} operations or bytes are unknown.{" "}
        {drawn.length > 0
          ? `${number(drawn.length)} of ${number(rows.length)} rows are drawn; the table has all.`
          : "No row has a point in the chart."}
      </p>
      <p>
        <Pick label="Show" value={by} of={TABLES} onPick={(by) => change({ by })} />
      </p>
      {drawn.length > 0 ? (
        <Chart title="Operations per second by operations per byte" summary={SUMMARY} table={table}>
          <Roofline
            label={`Roofline of ${TABLES[by]}`}
            points={drawn.map((row): Point => pointOf(row, nameOf(row)))}
            roofs={roofs}
            onChoose={(index) => choose(drawn[index])}
          />
          {table}
        </Chart>
      ) : (
        table
      )}
      <Panel title="Limits of the device" label="Roofs">
        {data.roofs.length > 0 ? (
          <DataTable table="roofs" caption="roofs" columns={ROOFS} />
        ) : (
          <p><Prose text={why ? `${why.reason} ${why.remedy}` : "No device was recorded, or its rates are not known."} /></p>
        )}
      </Panel>
    </>
  );
}

const real = (value: unknown) => typeof value === "number" && value > 0;

function pointOf(row: Row, name: string): Point {
  const share = row.of_roof_percent === null ? "its roof is not known" : `${percent(Number(row.of_roof_percent))} of its roof (${row.bound_by})`;
  return {
    x: Number(row.operational_intensity),
    y: Number(row.gflops_per_s),
    percent: Number(row.time_percent ?? 0),
    measured: row.evidence === "measured",
    said: [
      name,
      `${number(Number(row.gflops_per_s))} GFLOP/s at ${number(Number(row.operational_intensity))} FLOP per byte`,
      share,
      `${ms(Number(row.self_us) / 1000)} self time, ${percent(Number(row.time_percent))} of all`,
      row.evidence === "measured" ? "measured" : "from shapes and bytes",
    ].join(" · "),
  };
}
