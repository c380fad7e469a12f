// Model views: cost by name scope, graph, op type, source line or the program's own ranges.
import { useEffect, useState } from "preact/hooks";

import { Icicle } from "../charts/icicle";
import { Tree, type TreeNode } from "../charts/tree";
import { DataTable } from "../charts/table";
import { Chart, Twin } from "../charts/twin";
import type { AnnotationDetailResult, ModelViewsResult, Row } from "../data/made/types";
import { counted, decimals, heading, lasting, number, percent, size, us } from "../format";
import { Pick } from "../parts/pick";
import { ToolPage } from "../parts/tool";
import { Card, Value } from "../parts/value";
import { change, link, state } from "../state/url";
import { SourceLines } from "../details/source_lines";

const VIEWS = {
  scope: "by name scope",
  graph: "by graph",
  op: "by op type",
  code: "by line and its callers",
  source: "by source line",
  annotation: "by annotation",
};
const PRESETS: Record<string, string> = {
  "": "none",
  time_and_memory: "time and memory",
  trainable_variables_parameter: "trainable variables' parameters",
  float_operation: "float operations",
};
/** What `order_by` calls it → what it is. */
const ORDERS = {
  micros: "time", accelerator_micros: "time on the device", cpu_micros: "time on the host", bytes: "memory", params: "parameters",
  float_ops: "float operations", occurrence: "occurrences", name: "name", depth: "depth",
};
const COLUMNS = ["total_us", "percent", "self_us", "total_device_us", "occurrences", "parameters", "flops", "allocated_bytes"];

/** Headings that a name does not give. */
const HEADS: Record<string, string> = { flops: "FLOPs", allocated_bytes: "Allocated" };

/** Columns of the ranges that the program named. */
const RANGES = ["total_us", "percent", "self_us", "total_device_us", "device_us", "device_busy_us", "occurrences", "launches", "step_us"];

type View = keyof typeof VIEWS;
type Largest = { value: number; whole: boolean };

export function ModelViews() {
  const view = (state.value.view && state.value.view in VIEWS ? state.value.view : "scope") as View;
  // A program without ops has ranges or lines only: what came in the place of scopes.
  const [instead, tell] = useState<View>(view);
  const { preset, sort, find, at, step, op } = state.value;
  const options = {
    view,
    ...(view === "annotation" && { op }),
    preset,
    step,
    order_by: sort,
    min_micros: at,
    show_name_regexes: find ? [`.*${find}.*`] : undefined,
  };
  return (
    <>
      <Controls view={view === "scope" ? instead : view} />
      <ToolPage tool="model_views" what="cost by name scope, op type, source line and annotation" options={options}>
        {(data) => <Filled data={data} view={data.view as View} asked={view} onView={tell} />}
      </ToolPage>
    </>
  );
}

function Controls({ view }: { view: View }) {
  return (
    <p class="controls">
      <Pick label="View" value={view} of={VIEWS} onPick={(value) => change({ view: value }, { push: true })} />
      <Pick label="Preset" value={state.value.preset ?? ""} of={PRESETS} onPick={(preset) => change({ preset })} />
      <Pick
        label="Order"
        value={state.value.sort ?? ""}
        of={{ "": "order of the preset", ...ORDERS }}
        onPick={(sort) => change({ sort })}
      />
      <Typed label="Name matches" value={state.value.find ?? ""} onType={(find) => change({ find })} />
      <Typed label="At least (µs)" value={state.value.at ?? ""} onType={(at) => change({ at })} />
    </p>
  );
}

/** Applied when the reader has finished typing. */
function Typed(props: { label: string; value: string; onType: (value: string) => void }) {
  const [text, setText] = useState(props.value);
  useEffect(() => setText(props.value), [props.value]);
  return (
    <label>
      {props.label}{" "}
      <input
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onChange={(event) => props.onType(event.currentTarget.value.trim())}
      />
    </label>
  );
}

function Filled({ data, view, asked, onView }: { data: ModelViewsResult; view: View; asked: View; onView: (view: View) => void }) {
  useEffect(() => onView(asked === "scope" ? view : "scope"), [view, asked]);
  const ranges = view === "annotation";
  const columns = ranges ? RANGES : COLUMNS;
  if (view === "source") return <SourceLines data={data} />;
  const largest = Object.fromEntries(columns.map((name) => [name, largestOf(data[view].map((row) => row[name]))]));
  const choose = {
    scope: (scope: string) => void (location.hash = link({ page: "framework_op_stats", scope })),
    annotation: (op: string) => change({ op }, { push: true }),
  }[view as string];
  return (
    <>
      {ranges ? <OfRanges data={data} /> : data[view].length > 0 && <OfCosts data={data} />}
      {ranges && "detail" in data && <AnnotationDetail data={data as AnnotationDetailResult} />}
      <Chart title={`Cost ${VIEWS[view]}`} table={<DataTable table={view} caption="nodes" />}>
        {data[view].length === 0 ? (
          <p>No data of this kind was recorded, or the filters hide all of it.</p>
        ) : (
          <Tree
            label={`Cost ${VIEWS[view]}`}
            nodes={data[view].map((row) => node(row, columns, largest))}
            head={columns.map((name) => HEADS[name] ?? heading(name))}
            {...(choose && { onChoose: choose })}
          />
        )}
      </Chart>
      {NESTED.includes(view) && <Nested rows={data[view]} onChoose={choose} />}
    </>
  );
}

/** Views in which the parts of a node add up to it. */
const NESTED: View[] = ["scope", "graph"];
const MEASURES: Record<string, [string, (value: number) => string]> = {
  total_us: ["time", us],
  allocated_bytes: ["memory", size],
  flops: ["float operations", (value) => `${number(value)} FLOPs`],
};

function Nested({ rows, onChoose }: { rows: Row[]; onChoose: ((name: string) => void) | undefined }) {
  const known = Object.keys(MEASURES).filter((name) => rows.some((row) => Number(row[name]) > 0));
  const by = known.find((name) => name === state.value.by) ?? known[0];
  if (by === undefined || rows.length < 2) return null;
  const [title, written] = MEASURES[by]!;
  const spans = rows.map((row) => ({
    id: Number(row.id),
    parent: row.parent === null ? null : Number(row.parent),
    name: String(row.name),
    value: Number(row[by] ?? 0),
    text: written(Number(row[by] ?? 0)),
  }));
  return (
    <Chart
      title="Nested by scope"
      summary={`The width of a scope is its ${title}, including everything inside the scope.`}
      controls={
        <Pick
          label="Width"
          value={by}
          of={Object.fromEntries(known.map((name) => [name, MEASURES[name]![0]]))}
          onPick={(name) => change({ by: name })}
        />
      }
      table={<Twin caption={`${title} by scope`} head={["Scope", title]} rows={spans.map((each) => [each.name, each.text])} />}
    >
      <Icicle label={`Scopes by ${title}`} spans={spans} onChoose={onChoose} />
    </Chart>
  );
}

function OfCosts({ data }: { data: ModelViewsResult }) {
  return (
    <p>
      In total{" "}
      <Value field="total_us" title="Total" exact={data.total_us} shown={lasting(data.total_us)} />{" "}
      of self time; operations are known for{" "}
      <Value field="flops_known_percent" title="Time with known operations" exact={data.flops_known_percent} shown={percent(data.flops_known_percent)} />{" "}
      of the time.
    </p>
  );
}

function OfRanges({ data }: { data: ModelViewsResult }) {
  const outside = data.unannotated_device_us;
  return (
    <p>
      Host time in annotated ranges, and device time of the work launched in them. Work launched outside
      all ranges:{" "}
      <span class="whole">
        <Value field="unannotated_device_us" title="Device time outside all ranges" exact={outside} shown={lasting(outside)} />.
      </span>
    </p>
  );
}

/** The largest number of a column, by which all of it is written. */
function largestOf(cells: (Row[string] | undefined)[]): Largest {
  const known = cells.filter((each) => typeof each === "number");
  return { value: known.reduce((most, each) => Math.max(most, each), 0), whole: known.every(Number.isInteger) };
}

function node(row: Row, columns: string[], largest: Record<string, Largest>): TreeNode {
  return {
    id: Number(row.id),
    parent: row.parent === null ? null : Number(row.parent),
    name: String(row.name),
    cells: columns.map((name) => {
      const value = row[name];
      const known = typeof value === "number" ? value : null;
      const { value: most, whole } = largest[name]!;
      if (name === "percent") return percent(known);
      return name === "allocated_bytes" ? size(known, most) : number(known, whole ? 0 : decimals(most));
    }),
  };
}

/** Name, title, and what a row is. */
const TABLES = [
  ["calls", "Calls", "calls"],
  ["by_step", "By step", "steps"],
  ["ops", "Ops inside, on its thread", "ops"],
  ["kernels", "Kernels launched inside", "kernels"],
] as const;

/** One range of the program looked at closely: its calls, its steps, and what it holds. */
function AnnotationDetail({ data: { detail } }: { data: AnnotationDetailResult }) {
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
      {TABLES.filter(([name]) => detail[name]?.length).map(([name, title, caption]) => (
        <details key={name} open={name === "calls"}>
          <summary>{title}</summary>
          <DataTable table={`detail.${name}`} caption={caption} />
        </details>
      ))}
    </section>
  );
}
