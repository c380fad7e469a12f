// Roofline: how close ops and kernels come to what the device allows, and which roof holds them.
import { Roofline, type Point } from "../charts/roofline";
import { DataTable, type Column } from "../charts/table";
import { Chart } from "../charts/twin";
import type { Cell, Row, RooflineModelResult } from "../data/made/types";
import { CODES } from "../data/made/words";
import { ms, number, percent } from "../format";
import { ToolPage } from "../parts/tool";
import { Value } from "../parts/value";
import { change, link, state } from "../state/url";

/** Further circles would hide each other; the table has every row. */
const MOST_POINTS = 300;
const TABLES: Record<string, string> = { ops: "ops", kernels: "kernels" };
/** By itself: numbers of a logarithmic axis have no decimals in common. */
const figures = (cell: Cell) => number(Number(cell));
const COLUMNS: Column[] = [
  { name: "rank" },
  { name: "name" },
  { name: "kernel_name" },
  { name: "op_name", title: "Op that launched it" },
  { name: "time_percent", bar: true },
  { name: "evidence", title: "Work known by" },
  { name: "of_roof_percent", title: "Of the roof" },
  { name: "bound_by" },
  { name: "operational_intensity", title: "FLOP per byte", show: figures },
  { name: "gflops_per_s", title: "GFLOP/s", show: figures },
  { name: "roof_gflops_per_s", title: "Roof, GFLOP/s" },
  { name: "gb_per_s", title: "GB/s", show: figures },
  { name: "occurrences" },
  { name: "total_us" },
  { name: "lacks", title: "Not known" },
];

const ROOFS: Column[] = [
  { name: "device" },
  { name: "unit" },
  { name: "peak_gflops_per_s", title: "Peak (GFLOP/s)" },
  { name: "memory_gb_per_s", title: "Memory (GB/s)" },
  { name: "ridge_flops_per_byte", title: "Ridge (FLOP/byte)" },
  { name: "source" },
];

export function RooflineModel() {
  return (
    <ToolPage tool="roofline_model" what="ops and kernels under the roofs of the device">
      {(data) => <Model data={data} />}
    </ToolPage>
  );
}

function Model({ data }: { data: RooflineModelResult }) {
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
      tool="roofline_model"
      table={by}
      caption={TABLES[by]!}
      columns={COLUMNS.filter(({ name }) => rows[0] === undefined || name in rows[0])}
      onChoose={choose}
    />
  );
  return (
    <>
      <p>
        For{" "}
        <Value field={`unknown_${by}_percent`} title="Time without a known place" exact={unknown} shown={percent(unknown)} />{" "}
        of the time of {TABLES[by]} it is not known how much was computed or moved. {number(drawn.length)} of {number(rows.length)} are
        drawn; the table holds the others too, such as those that compute nothing.
      </p>
      <p>
        <label>
          Show{" "}
          <select value={by} onChange={(event) => change({ by: event.currentTarget.value })}>
            {Object.entries(TABLES).map(([name, title]) => (
              <option key={name} value={name}>
                {title}
              </option>
            ))}
          </select>
        </label>
      </p>
      <Chart
        title="Operations per second by operations per byte"
        summary="A circle is an op or kernel, its area the share of the time; full: measured by counters, hollow: from shapes and bytes. The lines are what the device allows."
        table={table}
      >
        <Roofline
          label={`Roofline of ${TABLES[by]}`}
          points={drawn.map((row): Point => pointOf(row, nameOf(row)))}
          roofs={roofs}
          onChoose={(index) => choose(drawn[index])}
        />
        {table}
      </Chart>
      <section class="panel" aria-label="Roofs">
        <h2>What the device allows</h2>
        <DataTable tool="roofline_model" table="roofs" caption="roofs" columns={ROOFS} />
      </section>
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
      `${ms(Number(row.total_us) / 1000)}, ${percent(Number(row.time_percent))} of the time`,
      row.evidence === "measured" ? "measured" : "from shapes and bytes",
    ].join(" · "),
  };
}
