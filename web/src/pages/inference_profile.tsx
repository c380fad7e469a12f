// Inference: how long requests took, by batch size, and what the slow ones waited for.
import { DataTable } from "../charts/table";
import { Chart, Twin } from "../charts/twin";
import type { InferenceProfileResult, Latency } from "../data/made/types";
import { decimals, heading, ms, number } from "../format";
import { Panel } from "../parts/panel";
import { ToolPage } from "../parts/tool";
import { Card } from "../parts/value";

const PERCENTILES: [keyof Latency, string][] = [
  ["mean", "Average"], ["p50", "50th percentile"], ["p90", "90th percentile"],
  ["p95", "95th percentile"], ["p99", "99th percentile"], ["max", "Longest"],
];

export function InferenceProfile() {
  return (
    <ToolPage tool="inference_profile" what="the latency of every request, by batch size, and what slow requests waited for">
      {(data, { words }) => (
        <>
          <ul class="cards">
            <Card field="request_count" title="Requests" exact={data.request_count} />
            {PERCENTILES.map(([name, title]) => (
              <Card key={name} title={`Latency, ${title.toLowerCase()}`} field={`latency_ms.${name}`} exact={data.latency_ms[name]} shown={ms(data.latency_ms[name])} />
            ))}
            <Card name="Requests per second" field="throughput_per_s" title="Throughput" exact={data.throughput_per_s} />
          </ul>
          <Slow data={data} words={words.slow ?? ""} />
          <Histogram data={data} words={words.latencies ?? ""} />
          <Panel title="By batch size">
            <DataTable
              table="by_batch_size"
              caption="batch sizes"
              columns={[
                "batch_size", "requests",
                ...["p50", "p90", "p95", "p99", "max", "mean"].map((name) => ({ name: `latency_ms.${name}`, bar: true })),
                "per_item_ms",
              ]}
            />
          </Panel>
          <Panel title="Every request">
            <DataTable table="requests" caption="requests" sort="latency_ms" descending />
          </Panel>
        </>
      )}
    </ToolPage>
  );
}

const BINS = 20;
/** Percentiles that are written at their bin. */
const MARKED = ["p50", "p95", "p99"] as const;

/** How many requests took how long, with the percentiles that the tool gives. */
function Histogram({ data, words }: { data: InferenceProfileResult; words: string }) {
  const { min, max } = data.latency_ms;
  const times = data.requests.map((row) => Number(row.latency_ms));
  if (times.length < 2 || max <= min) return null;
  const width = (max - min) / BINS;
  const binOf = (time: number) => Math.min(Math.floor((time - min) / width), BINS - 1);
  const counts = Array.from({ length: BINS }, (_, k) => times.filter((time) => binOf(time) === k).length);
  const edge = (k: number) => number(min + k * width, decimals(max));
  const rows = counts.map((count, k) => [`${edge(k)} to ${edge(k + 1)} ms`, count] as [string, number]);
  const most = Math.max(...counts);
  return (
    <Chart
      title="Latencies"
      summary={`${words}${times.length < data.request_count ? ` The first ${times.length} requests are drawn.` : ""}`}
      table={<Twin caption="Requests by latency" head={["Latency", "Requests"]} rows={rows} />}
    >
      <ol class="slices histogram">
        {rows.map(([label, count], k) => (
          <li key={label} class="barred" style={{ "--length": `${(100 * count) / most}%` }} data-count={count}>
            <span class="what">{label}</span>
            <span>{MARKED.filter((name) => binOf(data.latency_ms[name]) === k).join(" ")}</span>
            <span class="share">{number(count)}</span>
          </li>
        ))}
      </ol>
    </Chart>
  );
}

function Slow({ data, words }: { data: InferenceProfileResult; words: string }) {
  const of = data.slow;
  if (!of) return null;
  return (
    <Panel title="What slow requests waited for" label="Slow requests">
      <p>{words}</p>
      <Twin
        caption="Mean times of parts"
        head={["Part", "Slow requests", "More than other requests"]}
        rows={Object.entries(of.breakdown_ms).map(([name, value]) => [heading(name), ms(value), ms(of.excess_ms[name])])}
      />
    </Panel>
  );
}
