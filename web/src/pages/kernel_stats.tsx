// GPU kernels: which take the time, with what geometry, and whether they use Tensor Cores.
import { LargestPie, slicesOf } from "../charts/pie";
import { DataTable, type Columns } from "../charts/table";
import { lasting, number } from "../format";
import { Pick } from "../parts/pick";
import { ToolPage } from "../parts/tool";
import { Value } from "../parts/value";
import { change, link, state } from "../state/url";
import { kernelOf } from "../trace/questions";

const COLUMNS: Columns = [
  "rank", { name: "total_us", bar: true }, "device_time_percent", "kernel_name", "op_name: Launching op",
  "occurrences", "avg_us", "min_us", "max_us", "registers: Registers per thread", "shared_memory_bytes",
  "block_dim: Block dimension", "grid_dim: Grid dimension", "occupancy_percent", "occupancy_limiter",
  "tensor_core_eligible: Op eligible for Tensor Cores", "uses_tensor_core: Kernel uses Tensor Cores",
];

/** What Nsight Compute measured, where its table was given. */
const MEASURED_COLUMNS: Columns = [
  "bound", "compute_percent", "memory_percent", "achieved_occupancy_percent", "load_sectors_per_request",
  "bank_conflict_percent", "stall_reason", "match_confidence",
];

const PAIR_COLUMNS: Columns = [...COLUMNS.slice(0, 8), "launch_shapes", ...COLUMNS.slice(-2)];

const TABLES: Record<string, string> = { rows: "by kernel, op and launch shape", by_pair: "by kernel and op" };
const MEASURED_TABLES: Record<string, string> = { measured: "measured by Nsight Compute", nvidia_rules: "NVIDIA's rules" };

const LAUNCH_COLUMNS: Columns = ["rank", "kernel_name", "ops", "found", "launches", "measured_us", "grid_dim", "block_dim"];
const NVIDIA_COLUMNS: Columns = ["kernel_name", "op_name", "rule", "kind", "speedup_percent", "text", "launches"];

function columnsOf(table: string, measured: boolean): Columns {
  if (table === "measured") return LAUNCH_COLUMNS;
  if (table === "nvidia_rules") return NVIDIA_COLUMNS;
  if (table === "by_pair") return PAIR_COLUMNS;
  return measured ? [...COLUMNS, ...MEASURED_COLUMNS] : COLUMNS;
}

export function KernelStats() {
  return (
    <ToolPage tool="kernel_stats" what="every GPU kernel with its time, launch shape and Tensor Core use">
      {(data) => {
        const measured = data.measured.length > 0;
        const tables = measured ? { ...TABLES, ...MEASURED_TABLES } : TABLES;
        const table = state.value.by && state.value.by in tables ? state.value.by : "rows";
        return (
          <>
            <p>
              <Value field="kernel_count" title="Kernels" exact={data.kernel_count} shown={number(data.kernel_count)} />{" "}
              kernel executions took{" "}
              <Value field="kernel_time_us" title="Kernel time" exact={data.kernel_time_us} shown={lasting(data.kernel_time_us)} />
              .
            </p>
            <LargestPie
              title="Kernels with the highest total time"
              unit="Total time (µs)"
              inTrace={(kernel) => ({ kernel })}
              slices={slicesOf(data.pie, "total_us")}
            />
            <p>
              <Pick label="One row" value={table} of={tables} onPick={(by) => change({ by })} />
            </p>
            <DataTable
              key={table}
              table={table}
              caption={table === "nvidia_rules" ? "rules" : "kernels"}
              columns={columnsOf(table, measured)}
              inTrace={kernelOf}
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
