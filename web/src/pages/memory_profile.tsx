// Memory: what each allocator held over time, its peak, and what was alive at the peak.
import { Legend } from "../charts/categories";
import { Series, type Level } from "../charts/series";
import { DataTable } from "../charts/table";
import { Chart } from "../charts/twin";
import type { Cell, Memory, MemoryProfileResult, Row } from "../data/made/types";
import { ms, percent, size, sizeUnit } from "../format";
import { Panel } from "../parts/panel";
import { Pick } from "../parts/pick";
import { ToolPage, useAround } from "../parts/tool";
import { Card, Line, Lines } from "../parts/value";
import { change, state } from "../state/url";

export function MemoryProfile() {
  const at = state.value.at;
  const chosen = state.value.mem;
  // An instant belongs to one memory.
  const options = at && chosen ? { memory: chosen, at_ms: at } : {};
  return (
    <ToolPage tool="memory_profile" what="allocations over time, and the blocks at the peak" options={options}>
      {(data) => <Memories data={data} />}
    </ToolPage>
  );
}

function Memories({ data }: { data: MemoryProfileResult }) {
  const atPeak = useAround().options.at_ms === undefined;
  const names = Object.keys(data.memories);
  const id = names.find((each) => each === state.value.mem) ?? names[0] ?? "";
  const memory = data.memories[id];
  if (!memory) return null;
  const inColumn = sizes(memory.breakdown);
  return (
    <>
      <p>
        <Pick label="Memory ID" value={id} of={names} onPick={(mem) => change({ mem, at: "" }, { push: true })} />
      </p>
      <Summary id={id} memory={memory} />
      {memory.level === "one_instant" ? (
        <p>The file has data of only one instant of the program.</p>
      ) : (
        <Timeline id={id} memory={memory} />
      )}
      {memory.lines.length > 0 && <ByLine id={id} rows={memory.lines} />}
      <section class="panel" aria-label="Memory breakdown">
        <h2>
          Allocated blocks at {ms(memory.breakdown_time_ms)}
          {atPeak && ", the peak"}
        </h2>
        {!atPeak && <button onClick={() => change({ at: "" })}>Back to the peak</button>}
        <DataTable
          table={`memories.${id}.breakdown`}
          caption="ops"
          columns={[
            { name: "allocation_bytes", title: "Allocation size", show: inColumn, bar: true },
            { name: "requested_bytes", title: "Requested size", show: inColumn },
            "op_name", "occurrences", "region_type", "data_type", "tensor_shape: Shape", "source: Line of the program",
          ]}
        />
      </section>
    </>
  );
}

/** Which lines of the program asked for what was alive, with the stack that holds most. */
function ByLine({ id, rows }: { id: string; rows: Row[] }) {
  return (
    <Panel title="Lines that allocated this memory" label="Memory by line of the program">
      <DataTable
        table={`memories.${id}.lines`}
        caption="program lines"
        columns={[
          { name: "allocation_bytes", title: "Allocation size", show: sizes(rows), bar: true },
          "share_percent: Share", "source: Line of the program", "occurrences", "stacks",
        ]}
      />
    </Panel>
  );
}

/** Bytes in the unit of the largest of some rows, and GiB in MiB, which hide less. */
function sizes(rows: Row[]): (bytes: Cell) => string {
  const most = Math.max(...rows.map((row) => cell(row, "allocation_bytes") ?? 0), 0);
  return (bytes) => size(Number(bytes), most < 2 ** 30 ? most : 2 ** 20);
}

function Summary({ id, memory }: { id: string; memory: Memory }) {
  const of = `memories.${id}`;
  const { peak, peak_heap_lifetime_bytes: lifetime } = memory;
  const shared = peak?.fragmentation ?? null;
  return (
    <>
      <ul class="cards">
        <Card field={`${of}.allocations`} title="Allocations" exact={memory.allocations} />
        <Card field={`${of}.deallocations`} title="Deallocations" exact={memory.deallocations} />
        <Card field={`${of}.capacity_bytes`} title="Memory capacity" exact={memory.capacity_bytes} shown={size(memory.capacity_bytes)} />
        <Card field={`${of}.peak_heap_lifetime_bytes`} title="Peak heap usage (lifetime)" exact={lifetime} shown={size(lifetime)} />
        <Card field={`${of}.peak.memory_in_use_bytes`} title="Peak memory usage" exact={peak?.memory_in_use_bytes ?? null} shown={size(peak?.memory_in_use_bytes)} />
      </ul>
      <Panel title="At the peak of the recording" label="Peak memory usage">
        <Lines>
          <Line title="Time" field={`${of}.peak.time_ms`} exact={peak?.time_ms ?? null} shown={ms(peak?.time_ms)} />
          <Line title="Stack reservation" field={`${of}.peak.stack_bytes`} exact={peak?.stack_bytes ?? null} shown={size(peak?.stack_bytes, peak?.memory_in_use_bytes)} />
          <Line title="Heap allocation" field={`${of}.peak.heap_bytes`} exact={peak?.heap_bytes ?? null} shown={size(peak?.heap_bytes, peak?.memory_in_use_bytes)} />
          <Line title={partly(memory) ? "Free part of reserved memory" : "Free memory"} field={`${of}.peak.free_bytes`} exact={peak?.free_bytes ?? null} shown={size(peak?.free_bytes)} />
          <Line title="Fragmentation (lower is better)" field={`${of}.peak.fragmentation`} exact={shared} shown={percent(shared && 100 * shared)} />
        </Lines>
      </Panel>
    </>
  );
}

/** Whether the allocator has reserved a part of the memory only, so that its free space is not all that is free. */
function partly({ capacity_bytes: capacity, peak }: Memory): boolean {
  if (capacity === null || !peak || peak.free_bytes === null) return false;
  return (peak.stack_bytes ?? 0) + (peak.heap_bytes ?? 0) + peak.free_bytes < 0.99 * capacity;
}

/** Below this share of the capacity, what is used has a scale of its own. */
const SMALL = 0.5;
const SCALES = { used: "used memory", capacity: "the whole memory" };

function Timeline({ id, memory }: { id: string; memory: Memory }) {
  const rows = memory.timeline;
  const used = rows.map((row) => (cell(row, "stack_bytes") ?? 0) + (cell(row, "heap_bytes") ?? 0));
  const most = Math.max(...used, memory.peak?.memory_in_use_bytes ?? 0, 1);
  // Where the size of the memory is not recorded, what the allocator holds is the whole.
  const reserved = Math.max(...rows.map((row) => cell(row, "reserved_bytes") ?? 0));
  const capacity = memory.capacity_bytes ?? (reserved || null);
  const small = capacity === null || most < SMALL * capacity;
  const whole = capacity !== null && (state.value.view ?? (small ? "used" : "capacity")) === "capacity";
  const [one, unit] = sizeUnit(whole ? capacity : most);
  const level = (label: string, name: string): Level => ({
    label,
    token: label.toLowerCase(),
    values: rows.map((row) => (cell(row, name) ?? 0) / one),
  });
  const stack = rows.some((row) => cell(row, "stack_bytes") !== null);
  const levels = [...(stack ? [level("Stack", "stack_bytes")] : []), level("Heap", "heap_bytes"), ...(whole ? [level("Free", "free_bytes")] : [])];
  const fromPeak = (row: Row | undefined) => Math.abs((cell(row ?? {}, "time_ms") ?? 0) - (memory.peak?.time_ms ?? 0));
  const peakAt = rows.reduce((best, row, k) => (fromPeak(row) < fromPeak(rows[best]) ? k : best), 0);
  const shares = rows.map((row) => cell(row, "fragmentation"));
  const chosen = state.value.at ? rows.findIndex((row) => String(row.time_ms) === state.value.at) : -1;
  // At a single event it is no line.
  const line = shares.filter((each) => each !== null).length > 1;
  return (
    <Chart
      title="Memory over time"
      summary={`${stack ? "Stack plus heap" : "The heap"}${whole ? ", and free memory" : ""}${line ? "; the dashed line is fragmentation" : ""}. Click or press Enter to list the blocks of a time.`}
      controls={
        capacity !== null && (
          <Pick
            label="Scale of"
            value={whole ? "capacity" : "used"}
            of={memory.capacity_bytes === null ? { ...SCALES, capacity: "reserved memory" } : SCALES}
            onPick={(view) => change({ view })}
          />
        )
      }
      table={<DataTable table={`memories.${id}.timeline`} caption="memory events" options={{}} />}
    >
      <Legend categories={levels.map(({ label, token }) => ({ name: label, title: label, token, hatched: false, sentence: label }))} />
      <Series
        label={`Memory of ${id} over time`}
        times={rows.map((row) => cell(row, "time_ms") ?? 0)}
        levels={levels}
        top={(1.04 * (whole ? capacity : most)) / one}
        timeLabel="Time (ms)"
        unitLabel={`Memory (${unit})`}
        share={
          line ? { label: "Fragmentation", values: shares.map((each) => (each === null ? null : 100 * each)) } : undefined
        }
        mark={memory.peak === null ? null : { index: peakAt, label: `peak ${size(memory.peak.memory_in_use_bytes)}` }}
        chosen={chosen < 0 ? null : chosen}
        said={(index) => (rows[index] ? hover(rows[index]) : "")}
        onChoose={(index) => change({ mem: id, at: String(rows[index]?.time_ms ?? "") }, { push: true })}
      />
    </Chart>
  );
}

function cell(row: Row, name: string): number | null {
  const value = row[name];
  return typeof value === "number" ? value : null;
}

/** What happened at a moment, and what each kind of memory held by itself. */
function hover(row: Row): string {
  const bytes = (name: string) => size(cell(row, name));
  const share = cell(row, "fragmentation");
  const told: [string, unknown][] = [
    ["op", row.op_name], ["step", row.step_id], ["region", row.region_type], ["type", row.data_type], ["shape", row.tensor_shape],
  ];
  return [
    `${ms(cell(row, "time_ms"))}: ${row.event} of ${bytes("allocation_bytes")} (requested ${bytes("requested_bytes")})`,
    ...told.filter(([, value]) => value !== null && value !== undefined && value !== "").map(([name, value]) => `${name} ${value}`),
    `in use ${bytes("memory_in_use_bytes")}: stack ${bytes("stack_bytes")}, heap ${bytes("heap_bytes")}`,
    `free ${bytes("free_bytes")}`,
    `fragmentation ${percent(share === null ? null : 100 * share)}`,
  ].join(" · ");
}
