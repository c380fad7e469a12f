// GPU kernels: which take the time, with what geometry, and whether they use Tensor Cores.
import { LargestPie } from "../charts/pie";
import { DataTable, type Column } from "../charts/table";
import { ms, number } from "../format";
import { Pick } from "../parts/pick";
import { ToolPage } from "../parts/tool";
import { Value } from "../parts/value";
import { change, link, state } from "../state/url";

const COLUMNS: Column[] = [
  { name: "rank" },
  { name: "total_us", bar: true },
  { name: "device_time_percent" },
  { name: "kernel_name" },
  { name: "op_name", title: "Op that launched it" },
  ...["occurrences", "avg_us", "min_us", "max_us"].map((name) => ({ name })),
  { name: "registers", title: "Registers per thread" },
  { name: "shared_memory_bytes" },
  { name: "block_dim", title: "Block dimension" },
  { name: "grid_dim", title: "Grid dimension" },
  ...["occupancy_percent", "occupancy_limiter"].map((name) => ({ name })),
  { name: "tensor_core_eligible", title: "Op eligible for Tensor Cores" },
  { name: "uses_tensor_core", title: "Kernel uses Tensor Cores" },
];

/** What Nsight Compute measured, where its table was given. */
const MEASURED_COLUMNS: Column[] = [
  { name: "bound" },
  { name: "compute_percent" },
  { name: "memory_percent" },
  { name: "achieved_occupancy_percent" },
  { name: "load_sectors_per_request" },
  { name: "bank_conflict_percent" },
  { name: "stall_reason" },
  { name: "match_confidence" },
];

const PAIR_COLUMNS: Column[] = [...COLUMNS.slice(0, 8), { name: "launch_shapes" }, ...COLUMNS.slice(-2)];

const TABLES: Record<string, string> = { rows: "by kernel, op and geometry", by_pair: "by kernel and op" };
const MEASURED_TABLES: Record<string, string> = { measured: "measured by Nsight Compute", nvidia_rules: "NVIDIA's rules" };

const LAUNCH_COLUMNS: Column[] = ["rank", "kernel_name", "ops", "found", "launches", "measured_us", "grid_dim", "block_dim"].map(
  (name) => ({ name }),
);
const NVIDIA_COLUMNS: Column[] = ["kernel_name", "op_name", "rule", "kind", "speedup_percent", "text", "launches"].map((name) => ({
  name,
}));

function columnsOf(table: string, measured: boolean): Column[] {
  if (table === "measured") return LAUNCH_COLUMNS;
  if (table === "nvidia_rules") return NVIDIA_COLUMNS;
  if (table === "by_pair") return PAIR_COLUMNS;
  return measured ? [...COLUMNS, ...MEASURED_COLUMNS] : COLUMNS;
}

export function KernelStats() {
  return (
    <ToolPage tool="kernel_stats" what="every GPU kernel with its time, geometry and Tensor Core use">
      {(data) => {
        const measured = data.measured.length > 0;
        const tables = measured ? { ...TABLES, ...MEASURED_TABLES } : TABLES;
        const table = state.value.by && state.value.by in tables ? state.value.by : "rows";
        return (
          <>
            <p>
              <Value field="kernel_count" title="Kernels" exact={data.kernel_count} shown={number(data.kernel_count)} />{" "}
              kernel executions took{" "}
              <Value field="kernel_time_us" title="Kernel time" exact={data.kernel_time_us} shown={ms(data.kernel_time_us / 1000)} />
              .
            </p>
            <LargestPie
              title="Kernels with the highest total time"
              unit="Total time (µs)"
              inTrace={(kernel) => ({ kernel })}
              slices={data.pie.map((each) => ({
                label: String(each.name),
                value: Number(each.total_us),
                percent: Number(each.percent),
              }))}
            />
            <p>
              <Pick label="One row" value={table} of={tables} onPick={(by) => change({ by })} />
            </p>
            <DataTable
              key={table}
              tool="kernel_stats"
              table={table}
              caption="kernels"
              columns={columnsOf(table, measured)}
              inTrace={(row) => ({ kernel: String(row.kernel_name) })}
              onChoose={(row) => {
                if (row.op_name) location.hash = link({ page: "framework_op_stats", op: String(row.op_name) });
              }}
            />
          </>
        );
      }}
    </ToolPage>
  );
}
