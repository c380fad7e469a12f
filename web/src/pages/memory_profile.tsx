// Memory: what each allocator held over time, its peak, and what was alive at the peak.
import { useMemo, useState } from "preact/hooks";

import { Series, type Line } from "../charts/series";
import { DataTable } from "../charts/table";
import { Chart } from "../charts/twin";
import type { Memory, MemoryProfileResult, Row } from "../data/made/types";
import { gib, inGib, ms, number, percent } from "../format";
import { ToolPage } from "../parts/tool";
import { Value } from "../parts/value";
import { change, state } from "../state/url";

export function MemoryProfile() {
  const at = state.value.at;
  const chosen = state.value.mem;
  // An instant belongs to one memory.
  const options = at && chosen ? { memory: chosen, at_ms: at } : {};
  return (
    <ToolPage tool="memory_profile" what="allocations over time, the peak, and what was alive at it" options={options}>
      {(data) => <Memories data={data} options={options} />}
    </ToolPage>
  );
}

function Memories({ data, options }: { data: MemoryProfileResult; options: Record<string, string> }) {
  const names = Object.keys(data.memories);
  const id = names.find((each) => each === state.value.mem) ?? names[0];
  const memory = id === undefined ? undefined : data.memories[id];
  if (id === undefined || !memory) return null;
  return (
    <>
      <p>
        <label>
          Memory ID{" "}
          <select value={id} onChange={(event) => change({ mem: event.currentTarget.value, at: "" }, { push: true })}>
            {names.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
      </p>
      <Summary id={id} memory={memory} />
      <Timeline id={id} memory={memory} />
      <section class="panel" aria-label="Memory breakdown">
        <h2>
          What was alive at {ms(memory.breakdown_time_ms)}
          {options.at_ms ? "" : ", the peak"}
        </h2>
        {options.at_ms && <button onClick={() => change({ at: "" })}>Back to the peak</button>}
        <DataTable
          tool="memory_profile"
          table={`memories.${id}.breakdown`}
          caption="ops"
          options={options}
          columns={[
            { name: "op_name" },
            { name: "allocation_bytes", title: "Allocation size (GiB)", show: (cell) => gib(Number(cell)) },
            { name: "requested_bytes", title: "Requested size (GiB)", show: (cell) => gib(Number(cell)) },
            { name: "occurrences" },
            { name: "region_type" },
            { name: "data_type" },
            { name: "tensor_shape", title: "Shape" },
          ]}
        />
      </section>
    </>
  );
}

function Summary({ id, memory }: { id: string; memory: Memory }) {
  const of = `memories.${id}`;
  const { peak } = memory;
  return (
    <>
      <ul class="cards">
        <Card field={`${of}.allocations`} title="#Allocation" exact={memory.allocations} shown={number(memory.allocations)} />
        <Card field={`${of}.deallocations`} title="#Deallocation" exact={memory.deallocations} shown={number(memory.deallocations)} />
        <Card field={`${of}.capacity_bytes`} title="Memory capacity" exact={memory.capacity_bytes} shown={gib(memory.capacity_bytes)} />
        <Card
          field={`${of}.peak_heap_lifetime_bytes`}
          title="Peak heap usage (lifetime)"
          exact={memory.peak_heap_lifetime_bytes}
          shown={gib(memory.peak_heap_lifetime_bytes)}
        />
        <Card
          field={`${of}.peak.memory_in_use_bytes`}
          title="Peak memory usage"
          exact={peak?.memory_in_use_bytes ?? null}
          shown={gib(peak?.memory_in_use_bytes)}
        />
      </ul>
      <section class="panel" aria-label="Peak memory usage">
        <h2>At the peak of the recording</h2>
        <table class="twin">
          <tbody>
            <Line title="Timestamp" field={`${of}.peak.time_ms`} exact={peak?.time_ms ?? null} shown={ms(peak?.time_ms)} />
            <Line title="Stack reservation" field={`${of}.peak.stack_bytes`} exact={peak?.stack_bytes ?? null} shown={gib(peak?.stack_bytes)} />
            <Line title="Heap allocation" field={`${of}.peak.heap_bytes`} exact={peak?.heap_bytes ?? null} shown={gib(peak?.heap_bytes)} />
            <Line title="Free memory" field={`${of}.peak.free_bytes`} exact={peak?.free_bytes ?? null} shown={gib(peak?.free_bytes)} />
            <Line
              title="Fragmentation (lower is better)"
              field={`${of}.peak.fragmentation`}
              exact={peak?.fragmentation ?? null}
              shown={percent(peak?.fragmentation == null ? null : 100 * peak.fragmentation)}
            />
          </tbody>
        </table>
      </section>
    </>
  );
}

interface Shown {
  field: string;
  title: string;
  exact: number | null;
  shown: string;
}

function Card({ field, title, exact, shown }: Shown) {
  return (
    <li>
      <h2>{title}</h2>
      <Value {...{ field, title, exact }}>{shown}</Value>
    </li>
  );
}

function Line({ field, title, exact, shown }: Shown) {
  return (
    <tr>
      <th scope="row">{title}</th>
      <td class="number">
        <Value {...{ field, title, exact }}>{shown}</Value>
      </td>
    </tr>
  );
}

function Timeline({ id, memory }: { id: string; memory: Memory }) {
  const rows = memory.timeline;
  const [under, point] = useState<number | null>(null);
  const { times, lines } = useMemo(() => series(rows), [rows]);
  const row = under === null ? undefined : rows[under];
  return (
    <Chart
      title="Memory over time"
      summary="Stack, heap and free memory on top of each other; the dashed line is fragmentation. Click for what was alive at that moment."
      table={
        <DataTable
          tool="memory_profile"
          table={`memories.${id}.timeline`}
          caption="allocations and deallocations"
        />
      }
    >
      <Series
        label={`Memory of ${id} over time`}
        times={times}
        lines={lines}
        timeLabel="Time (ms)"
        axes={[
          { scale: "gib", label: "GiB" },
          { scale: "share", label: "Fragmentation (%)", right: true },
        ]}
        onPoint={point}
        onChoose={(index) => change({ mem: id, at: String(rows[index]?.time_ms ?? "") }, { push: true })}
      />
      <p class="under" aria-live="off">
        {row && hover(row)}
      </p>
    </Chart>
  );
}

function cell(row: Row, name: string): number | null {
  const value = row[name];
  return typeof value === "number" ? value : null;
}

/** Stacked from the top, since each filled line covers what lies below it. */
function series(rows: Row[]): { times: number[]; lines: Line[] } {
  const stack = rows.map((row) => inGib(cell(row, "stack_bytes") ?? 0));
  const heap = rows.map((row, k) => (stack[k] ?? 0) + inGib(cell(row, "heap_bytes") ?? 0));
  const knowsFree = rows.some((row) => cell(row, "free_bytes") !== null);
  const free = rows.map((row, k) => {
    const bytes = cell(row, "free_bytes");
    return bytes === null ? null : (heap[k] ?? 0) + inGib(bytes);
  });
  const share = rows.map((row) => {
    const value = cell(row, "fragmentation");
    return value === null ? null : 100 * value;
  });
  const lines: Line[] = [
    ...(knowsFree ? [{ label: "Free", token: "free", values: free, scale: "gib", filled: true }] : []),
    { label: "Heap", token: "heap", values: heap, scale: "gib", filled: true },
    { label: "Stack", token: "stack", values: stack, scale: "gib", filled: true },
    { label: "Fragmentation (%)", token: "ink", values: share, scale: "share", dashed: true },
  ];
  return { times: rows.map((row) => cell(row, "time_ms") ?? 0), lines };
}

function hover(row: Row): string {
  const size = (name: string) => gib(cell(row, name));
  const text = (name: string) => (row[name] === null || row[name] === undefined ? "–" : String(row[name]));
  return [
    `${ms(cell(row, "time_ms"))}: ${text("event")} of ${size("allocation_bytes")} (requested ${size("requested_bytes")})`,
    `op ${text("op_name")}`,
    `step ${text("step_id")}`,
    `region ${text("region_type")}`,
    `${text("data_type")} ${text("tensor_shape")}`,
    `in use ${size("memory_in_use_bytes")}`,
    `fragmentation ${percent(cell(row, "fragmentation") === null ? null : 100 * cell(row, "fragmentation")!)}`,
  ].join(" · ");
}
