// Time by line of the program, beside the text where the server was told where it lies.
import { useEffect } from "preact/hooks";

import { DataTable } from "../charts/table";
import { Chart, Head } from "../charts/twin";
import { address, useAnswer } from "../data/client";
import type { ModelViewsResult, Row } from "../data/made/types";
import { lasting, number } from "../format";
import { Pick } from "../parts/pick";
import { Prose } from "../parts/prose";
import { Show } from "../parts/unavailable";
import { narrow } from "../state/screen";
import { change, link, state, type State } from "../state/url";

/** Of a longer file only the lines around the costliest one are written. */
const MOST_LINES = 3000;
const TOP = 8;
/** Pixels above the costliest line. */
const ABOVE = 200;
const COLUMNS = [{ name: "self_us", bar: true }, "percent", "name", "host_us", "total_host_us", "device_us", "total_device_us", "op", "library"];
const HEAD = ["Line", "Self (µs)", "With callees (µs)"];
const NO_LINES =
  "No recorded event names a line of the program. Record Python calls with `python_tracer_level=1`, in PyTorch `with_stack=True`.";
/** ƒ: the times of a whole function, which begins here. */
const ofAll = (row: Row) => row.function !== null && row.exact === false;
const own = (row: Row) => Number(row.self_us);
const whole = (row: Row) => Number(row.total_host_us ?? 0) + Number(row.total_device_us ?? 0);
/** Self time of a line and time with all that it called: what it is in several functions adds up. */
const heat = (rows: Row[]) => {
  const exact = rows.filter((row) => !ofAll(row));
  return [(exact.length ? exact : rows).reduce((sum, row) => sum + own(row), 0), Math.max(...rows.map(whole))];
};
const placeOf = (row: Row): State => (row.op ? { op: String(row.op) } : { q: String(row.event ?? "") });
const lineAt = (line: unknown) => document.getElementById(`line-${line}`);
const hrefOf = (row: Row) => link({ page: row.op ? "framework_op_stats" : "trace_viewer", ...placeOf(row) });

export function SourceLines({ data }: { data: ModelViewsResult }) {
  const rows = data.source.filter((row) => row.file !== null);
  const times = new Map<string, number>();
  for (const row of rows) times.set(String(row.file), (times.get(String(row.file)) ?? 0) + own(row));
  const files = [...times.keys()].sort((a, b) => times.get(b)! - times.get(a)!);
  const first = (library: boolean | null) => files.find((file) => rows.some((row) => row.file === file && row.library === library));
  const file = files.find((each) => each === state.value.file) ?? first(false) ?? first(null) ?? files[0];
  const answer = useAnswer<ProgramText>(file === undefined ? null : address("source", { file }));
  const choose = (row: Row) => void (row.file !== null && (location.hash = hrefOf(row)));
  const table = <DataTable table="source" caption="lines" columns={COLUMNS} onChoose={choose} inTrace={placeOf} />;
  if (file === undefined)
    return (
      <>
        <p><Prose text={NO_LINES} /></p>
        {table}
      </>
    );
  // A narrow window has room for the file's own name, which says most.
  const short = (path: string) => (narrow.value ? path.replace(/^.*[\\/]/, "…/") : path);
  const called = Object.fromEntries(files.map((each) => [each, `${short(each)} (${lasting(times.get(each))})`]));
  return (
    <Chart
      title="Time by source line"
      controls={<Pick label="File" value={file} of={called} onPick={(file) => change({ file }, { push: true })} />}
      table={table}
    >
      <Show answer={answer}>
        {({ text, path, changed, reason }) => (
          <>
            <p class="summary"><Prose text={reason ?? `${path}${changed ? ". The file changed after the recording: line numbers may differ" : ""}. ${rows.some(ofAll) ? "ƒ marks the times of a whole function." : "The time of a line without a call is added to the next line that has a call or ends a loop."}`} /></p>
            {text === null ? table : <Text key={file} text={text} rows={rows.filter((row) => row.file === file)} />}
          </>
        )}
      </Show>
    </Chart>
  );
}

/** What the server says of a file: its text, or the reason why there is none. */
type ProgramText = { text: string | null; path: string | null; changed: boolean; reason: string | null };

function Text({ text, rows }: { text: string; rows: Row[] }) {
  const lines = text.split(/\r\n|\r|\n/);
  const heats = new Map([...new Set(rows.map((row) => Number(row.line)))].map((line) => [line, heat(rows.filter((row) => row.line === line))]));
  const top = [...heats].filter(([line, times]) => times[0]! > 0 && line <= lines.length).sort(([, a], [, b]) => b[0]! - a[0]!).slice(0, TOP);
  const first = Math.max(Math.min(Number(top[0]?.[0]) - MOST_LINES / 2, lines.length - MOST_LINES), 0);
  const shown = lines.slice(first, first + MOST_LINES);
  useEffect(() => {
    const row = lineAt(top[0]?.[0])?.closest("tr");
    row?.closest(".scroll")?.scrollTo(0, row.offsetTop - ABOVE);
  }, []);
  const most = [0, 1].map((k) => Math.max(...[...heats.values()].map((times) => times[k]!), 1e-9));
  return (
    <>
      <p class="controls">
        {top.map(([line, times]) => <button key={line} onClick={() => lineAt(line)?.focus()}>{`Line ${line}: ${lasting(times[0])}`}</button>)}
        {shown.length < lines.length && `Lines ${number(first + 1)} to ${number(first + shown.length)} of ${number(lines.length)}`}
      </p>
      <div class="scroll" tabIndex={0} role="group" aria-label="Text of the file, scrolls">
        <table class="source">
          <Head of={[...HEAD, "Text"]} numbers={HEAD} />
          <tbody>{shown.map((code, k) => <OneLine key={k} code={code} line={first + k + 1} row={rows.find((row) => row.line === first + k + 1)} times={heats.get(first + k + 1) ?? []} most={most} />)}</tbody>
        </table>
      </div>
    </>
  );
}

function OneLine({ code, line, row, times, most }: { code: string; line: number; row: Row | undefined; times: number[]; most: number[] }) {
  return (
    <tr>
      <th scope="row" class="number">
        {row ? <a id={`line-${line}`} href={hrefOf(row)} aria-label={`${row.name} in ${row.op ? "Op stats" : "Trace"}`}>{line}</a> : line}
        {row && ofAll(row) && <span title={`All of ${row.function}`}> ƒ</span>}
      </th>
      {most.map((largest, k) =>
        times[k] === undefined ? <td key={k} /> : <td key={k} class="number barred" style={{ "--length": `${(100 * times[k]) / largest}%` }}>{number(times[k], times[k] < 100 ? 1 : 0)}</td>,
      )}
      <td><code>{code}</code></td>
    </tr>
  );
}
