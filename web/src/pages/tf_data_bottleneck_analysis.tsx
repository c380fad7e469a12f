// tf.data: is a pipeline slow, which stage holds it up, and what to do about it.
import { Graph as Drawing } from "../charts/graph";
import { DataTable } from "../charts/table";
import { Chart } from "../charts/twin";
import type { Graph, Node, TfDataBottleneckAnalysisResult } from "../data/made/types";
import { counted, lasting } from "../format";
import { open } from "../parts/details";
import { Fact, Panel } from "../parts/panel";
import { Pick } from "../parts/pick";
import { ToolPage } from "../parts/tool";
import { Value } from "../parts/value";
import { change, state } from "../state/url";

export function TfDataBottleneckAnalysis() {
  const { pipe, rank } = state.value;
  return (
    <ToolPage
      tool="tf_data_bottleneck_analysis"
      what="the input pipelines as graphs, and the stage that delays them"
      options={{ pipeline: pipe, rank }}
    >
      {(data) => (
        <>
          <Summary data={data} />
          <Panel title="Summary of all input pipelines" label="All input pipelines">
            <DataTable table="pipelines" caption="pipelines" options={{}} />
          </Panel>
          <PipelineGraph data={data} />
        </>
      )}
    </ToolPage>
  );
}

function Summary({ data }: { data: TfDataBottleneckAnalysisResult }) {
  const of = data.summary;
  return (
    <section class="panel" aria-label="Performance analysis summary">
      <p class="verdict" data-verdict={of.verdict}>{of.text}</p>
      {of.bottleneck && (
        <p>
          On host <b>{of.host}</b>, pipeline <b>{of.pipeline}</b>, the slowest call took{" "}
          <Value field="summary.max_latency_us" title="Maximum latency" exact={of.max_latency_us} shown={lasting(of.max_latency_us)} />
          . The bottleneck is <b>{of.bottleneck.type}</b>, the slowest stage that the call waited for: <code>{of.bottleneck.long_name}</code>
        </p>
      )}
      {of.suggestion && <p>{of.suggestion}</p>}
      <details>
        <summary>How to read a long name</summary>
        <p>
          In <code>Iterator::A::B::C</code> the last part, C, is the stage itself. The parts before C
          are the downstream stages, which request elements: A is nearest to the program.
        </p>
      </details>
    </section>
  );
}

function PipelineGraph({ data }: { data: TfDataBottleneckAnalysisResult }) {
  const hosts = [...new Set(data.graphs.map((each) => each.host))];
  const pipelines = [...new Set(data.graphs.map((each) => each.pipeline))];
  const { host = data.summary.host, pipe = data.summary.pipeline } = state.value;
  const onHost = data.graphs.filter((each) => each.host === host);
  // At first the graph that the summary is about.
  const shown = onHost.find((each) => each.pipeline === pipe) ?? onHost[0] ?? data.graphs[0];
  if (!shown) return null;
  return (
    <Chart
      title="Input pipeline graph"
      summary={`Bold outline: on the critical path. Red outline: longest self time on this path. Dashed outline: other stages.${passing(shown)}`}
      controls={
        <>
          <Pick label="Host" value={shown.host} of={hosts} onPick={(host) => change({ host })} />
          <Pick label="Input pipeline" value={shown.pipeline} of={pipelines} onPick={(pipe) => change({ pipe })} />
          <label>
            Rank{" "}
            <input
              type="number"
              min="0"
              value={shown.rank}
              onChange={(event) => change({ rank: event.currentTarget.value })}
            />
          </label>
        </>
      }
      table={<DataTable table="stages" caption="stages" />}
    >
      <p>One call, which took {lasting(shown.latency_us)}. {shown.suggestion !== data.summary.suggestion && shown.suggestion}</p>
      <Stages graph={shown} />
    </Chart>
  );
}

/** Stages that took longer than the bottleneck and yet are none. */
function passing({ nodes }: Graph): string {
  const most = nodes.find((node) => node.bottleneck)?.self_us ?? Infinity;
  const longer = nodes.filter((node) => node.critical && node.transparent && node.self_us > most).map(({ type }) => type);
  if (longer.length === 0) return "";
  return ` These stages only pass elements on, and are not bottlenecks: ${[...new Set(longer)].join(", ")}.`;
}

function Stages({ graph }: { graph: Graph }) {
  const byId = new Map(graph.nodes.map((each) => [each.id, each]));
  return (
    <Drawing
      label={`Stages of ${graph.pipeline}`}
      nodes={graph.nodes.map((node) => ({
        id: node.id,
        kind: node.bottleneck ? "bottleneck" : node.critical ? "critical" : "plain",
        body: <Stage node={node} />,
      }))}
      start={graph.nodes.find((node) => node.bottleneck)?.id}
      edges={graph.edges.map((each) => ({ from: each.producer, to: each.consumer }))}
      onChoose={(id) => open({ title: byId.get(id)!.type, body: <Details node={byId.get(id)!} /> })}
    />
  );
}

function Stage({ node }: { node: Node }) {
  return (
    <>
      <b>{node.type}</b>
      {node.bottleneck && <strong>bottleneck</strong>}
      <div>Start {lasting(node.start_us)}</div>
      <div>Total {lasting(node.total_us)}</div>
      <div>Self {lasting(node.self_us)}</div>
      <div>{counted(node.calls, "call")}</div>
    </>
  );
}

function Details({ node }: { node: Node }) {
  return (
    <dl>
      <Fact name="Long name"><code>{node.name}</code></Fact>
      <Fact name="Self time, without its children">{lasting(node.self_us)}</Fact>
      <Fact name="Total duration of all calls">{lasting(node.total_us)}</Fact>
      {Object.entries(node.parameters ?? {}).map(([name, value]) => <Fact key={name} name={name.replaceAll("_", " ")}>{String(value)}</Fact>)}
    </dl>
  );
}
