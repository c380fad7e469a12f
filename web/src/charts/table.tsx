// A table of a tool, sorted, filtered and cut by the server; the page shows what comes back.
import { useEffect, useRef, useState } from "preact/hooks";

import { categoryTitle } from "./categories";
import { address, useAnswer, type Options, type TableAnswer, type TableColumn } from "../data/client";
import { useDefinition } from "../data/definitions";
import type { Cell } from "../data/made/types";
import { CODES } from "../data/made/words";
import { byName, decimals, heading, inUnitOf, number, singular, UNKNOWN } from "../format";
import { copyText } from "../parts/code";
import { Checks } from "../parts/pick";
import { moveAlong } from "../parts/stops";
import { useAround } from "../parts/tool";
import { Absent, Show } from "../parts/unavailable";
import { reasonFor } from "../parts/value";
import { arrange, arranged, type Arranged } from "../state/tables";
import { link, type State } from "../state/url";
import { Name } from "../parts/name";

export interface Column {
  name: string;
  /** Its heading; made from the name when absent. */
  title?: string;
  /** Another way to show its cells than by the unit in the name. */
  show?: (value: Cell) => string;
  /** Drawn behind the number, against the largest of the column or 100 %. */
  bar?: boolean;
}

/** More of a column, or its name alone, with its heading after a colon. */
export type Columns = (Column | string)[];

interface Props {
  /** Its place in the answer of the tool around it. */
  table: string;
  /** Those of the tool around it, when absent. */
  options?: Options;
  /** What a row is, in the plural. */
  caption: string;
  /** Those shown at first, in order; all when absent. The reader may choose others. */
  columns?: Columns;
  sort?: string;
  descending?: boolean;
  /** A row was chosen, by click or Enter. */
  onChoose?: (row: Record<string, Cell>) => void;
  /** What of a row is looked for on the timeline, where anything is. */
  inTrace?: (row: Record<string, Cell>) => State;
}

const PAGE_ROWS = 100;

export function DataTable(props: Props) {
  const { tool, options, missing, data } = useAround();
  const key = props.table;
  // A table that is null in the answer is not requested.
  const why = (data as Record<string, unknown>)[key] === null ? reasonFor(key, missing) : undefined;
  const first: Arranged = { sort: props.sort ?? "", descending: props.descending ?? false, filter: "", columns: null };
  const kept = arranged(key) ?? first;
  const [filter, setFilter] = useState(kept.filter);
  const [limit, setLimit] = useState(PAGE_ROWS);
  const q = useSettled(filter, 200);
  useEffect(() => {
    if (q !== kept.filter) arrange(key, { ...kept, filter: q });
  }, [q]);
  const asked = { ...(props.options ?? options), table: key, q };
  const order = { sort: kept.sort, descending: kept.sort ? kept.descending : undefined };
  const answer = useAnswer<TableAnswer>(why ? null : address(`table/${tool}`, { ...asked, ...order, limit }));
  // While a new order is on its way, the old rows stay.
  const shown = useRef(answer);
  if (answer.state !== "waiting" || shown.current.state !== "ready") shown.current = answer;
  if (why) return <Absent what={props.caption} why={why} />;
  return (
    <Show answer={shown.current}>
      {(value) =>
        value.unavailable ? (
          <Absent what={props.caption} why={value.unavailable} />
        ) : (
          <Filled
            {...props}
            value={value}
            kept={kept}
            filter={filter}
            onFilter={setFilter}
            onMore={() => setLimit(limit + 10 * PAGE_ROWS)}
            csv={address(`csv/${tool}`, { ...asked, ...order })}
            onArrange={(part) => arrange(key, { ...kept, ...part })}
          />
        )
      }
    </Show>
  );
}

/** A column with its place in the rows. */
type Placed = Column & TableColumn & { index: number };

interface Shown extends Omit<Props, "sort" | "columns"> {
  value: TableAnswer;
  kept: Arranged;
  filter: string;
  csv: string;
  onFilter: (text: string) => void;
  onArrange: (part: Partial<Arranged>) => void;
  onMore: () => void;
}

/** Parts of a step have their own names. */
function titleOf({ name, title }: Column, largest: number | null = null): string {
  const part = /^breakdown_ms\.(.*)/.exec(name)?.[1];
  return inUnitOf(largest, name, title ?? (part === undefined ? heading(name) : `${categoryTitle(part)} (ms)`))[1];
}

/** Columns that a table shows where its rows differ in them. */
const PLACES = ["host", "device"];

/** Columns that are left out until they are asked for: one place for all rows, or unknown in each. */
function idleOf({ columns, rows, matching }: TableAnswer): Set<string> {
  const unknown = (k: number) => rows.length === matching && rows.every((row) => row[k] === null);
  const idle = columns.filter(({ name, type, same, largest }, k) =>
    same && (PLACES.includes(name) || (isNumber(type) ? largest === null : unknown(k))));
  return new Set(rows.length > 0 ? idle.map(({ name }) => name) : []);
}

/** Where the numbers before a name would push it out of sight. */
const PHONE = "(max-width: 500px)";
const SIZE = /_(ms|us|percent|bytes)\b/;

/** Name and place, then times and shares; a page that lists its columns has them in order. */
function forPhone(all: string[], listed: boolean): string[] {
  const name = all.find((each) => /name$/.test(each)) ?? all[0];
  const rank = (each: string) =>
    each === name ? 0 : PLACES.includes(each) && !listed ? 1 : each === "rank" ? 4 : listed || SIZE.test(each) ? 2 : 3;
  return [...all].sort((one, other) => rank(one) - rank(other));
}

export function toColumn(each: Column | string): Column {
  const [name, title] = typeof each === "string" ? each.split(": ") : [];
  return typeof each === "string" ? { name: name!, ...(title && { title }) } : each;
}

function Filled(props: Shown & Pick<Props, "columns">) {
  const { value } = props;
  const asked = (props.columns ?? value.columns.map(({ name }) => name)).map(toColumn);
  const known = new Map(value.columns.map((each, index) => [each.name, { ...each, ...asked.find(({ name }) => name === each.name), index }]));
  const idle = idleOf(value);
  const first = asked.map(({ name }) => name).filter((name) => !idle.has(name));
  const names = props.kept.columns ?? (matchMedia(PHONE).matches ? forPhone(first, Boolean(props.columns)) : first);
  const columns = names.flatMap((name) => known.get(name) ?? []);
  if (value.total === 0) return <p>No {props.caption}.</p>;
  return (
    <section class="table" role="group" aria-label={props.caption}>
      <Tools {...props} columns={columns} titled={(name) => titleOf(known.get(name)!)} />
      <div class="scroll" tabIndex={0} role="group" aria-label={`${props.caption}, scrolls`}>
        <table aria-rowcount={value.matching}>
          <caption>{rowCount(value, props.caption)}</caption>
          <thead>
            <tr>
              {columns.map((column) => (
                <Heading {...props} key={column.name} column={column} />
              ))}
            </tr>
          </thead>
          {/* All rows are one stop of the Tab key; arrows go from row to row. */}
          <tbody onKeyDown={(event) => moveAlong(event, [...event.currentTarget.rows])}>
            {value.rows.map((row, index) => (
              <Line {...props} key={index} row={row} columns={columns} reached={index === 0} />
            ))}
          </tbody>
        </table>
      </div>
      <Rest value={value} onMore={props.onMore} />
    </section>
  );
}

/** What the rows shown leave out, and how to see it. */
function Rest({ value, onMore }: Pick<Shown, "value" | "onMore">) {
  if (value.cut)
    return (
      <p class="cut">
        Only the first {number(value.rows.length)} rows are shown: their texts are too long for one answer.
        A filter brings others.
      </p>
    );
  if (value.rows.length < value.matching) return <button onClick={onMore}>Show more rows</button>;
  return null;
}

function Tools(props: Shown & { columns: Placed[]; titled: (name: string) => string }) {
  const { value, columns, titled } = props;
  const [copied, say] = useState("");
  const names = columns.map(({ name }) => name);
  const toggle = (name: string) =>
    props.onArrange({ columns: names.includes(name) ? names.filter((each) => each !== name) : [...names, name] });
  return (
    <div class="tools">
      <input
        type="search"
        placeholder="Filter"
        aria-label={`Filter ${props.caption}`}
        value={props.filter}
        onInput={(event) => props.onFilter(event.currentTarget.value)}
      />
      <Checks
        title="Columns"
        legend="Columns shown"
        of={value.columns.map(({ name }) => [name, titled(name), names.includes(name)])}
        onToggle={toggle}
      />
      <button onClick={async () => say(await copy(value, columns))}>Copy</button>
      <a class="button" href={props.csv} download>Export as CSV</a>
      <span role="status">{copied}</span>
    </div>
  );
}

function Heading({ column, kept, table, onArrange }: Shown & { column: Placed }) {
  const { type, largest } = column;
  const sorted = kept.sort === column.name;
  const descending = sorted ? !kept.descending : type !== "text";
  const [pointed, point] = useState(false);
  const about = useDefinition(useAround().tool, pointed ? `${table}.${column.name}` : null);
  return (
    <th
      scope="col"
      onPointerEnter={() => point(true)}
      onFocusIn={() => point(true)}
      class={isNumber(type) ? "number" : undefined}
      aria-sort={sorted ? (kept.descending ? "descending" : "ascending") : "none"}
      title={about}
    >
      <button onClick={() => onArrange({ sort: column.name, descending })}>
        {titleOf(column, largest)}
        <span aria-hidden="true">{sorted ? (kept.descending ? " ▾" : " ▴") : ""}</span>
      </button>
    </th>
  );
}

const isNumber = (type: string) => type === "integer" || type === "number";

function Line(props: Shown & { row: Cell[]; columns: Placed[]; reached: boolean }) {
  const { row, columns, value, onChoose, reached } = props;
  const cells = Object.fromEntries(value.columns.map(({ name }, k) => [name, row[k] ?? null]));
  const choose = onChoose && (() => onChoose(cells));
  const named = columns.find((each) => each.type === "text");
  return (
    <tr
      class={choose && "choosable"}
      onClick={choose}
      tabIndex={choose ? (reached ? 0 : -1) : undefined}
      aria-label={choose && named ? String(cells[named.name] ?? "") : undefined}
      onKeyDown={(event) => event.key === "Enter" && choose?.()}
    >
      {columns.map((column) => (
        <OneCell {...props} key={column.name} column={column} to={column === named ? props.inTrace?.(cells) : undefined} />
      ))}
    </tr>
  );
}

function OneCell({ value, table, row, column, to }: Shown & { row: Cell[]; column: Placed; to: State | undefined }) {
  const { type, largest } = column;
  const cell = row[column.index] ?? null;
  const text = shown(column, cell);
  const why = text === UNKNOWN ? reasonFor(`${table}.${column.name}`, value.missing) : null;
  const whole = column.name.endsWith("percent") ? 100 : largest;
  const bar = (column.bar ?? column.name.endsWith("percent")) && typeof cell === "number" && whole;
  return (
    <td
      class={isNumber(type) ? (bar ? "number barred" : "number") : undefined}
      data-column={column.name}
      title={why ? `${why.reason} ${why.remedy}` : cell === null ? undefined : String(cell)}
      style={bar ? { "--length": `${Math.min((100 * Number(cell)) / whole, 100)}%` } : undefined}
    >
      {type === "text" ? <Name text={text} /> : text}
      {to && (
        <a
          class="to-trace"
          href={link({ page: "trace_viewer", ...to })}
          aria-label={`${text} in Trace`}
          title="Show the longest of these events in Trace"
          onClick={(event) => event.stopPropagation()}
          onKeyDown={(event) => event.key === "Enter" && event.stopPropagation()}
        />
      )}
    </td>
  );
}

/** The numbers of a column have the decimals that its largest needs. */
function shown({ name, type, largest, show }: Placed, cell: Cell): string {
  if (show && cell !== null) return show(cell);
  const [one] = inUnitOf(largest, name, "");
  if (one !== 1 && typeof cell === "number") return number(cell / one, decimals(largest! / one));
  return CODES[name]?.[String(cell)] ?? byName(name, cell, type === "number" ? decimals(largest) : 0);
}

function rowCount(value: TableAnswer, caption: string): string {
  const what = value.total === 1 ? singular(caption) : caption;
  if (value.matching === value.total) return `${number(value.total)} ${what}`;
  return `${number(value.matching)} of ${number(value.total)} ${what}`;
}

/** Copy the rows that are shown; what came of it, in words. */
async function copy(value: TableAnswer, columns: Placed[]): Promise<string> {
  const lines = value.rows.map((row) => columns.map(({ index }) => asText(row[index] ?? "")).join("\t"));
  const text = [columns.map(({ name }) => name).join("\t"), ...lines].join("\n");
  if (!(await copyText(text))) return "The browser refused to copy: use Export as CSV.";
  return `Copied ${number(lines.length)} ${lines.length === 1 ? "row" : "rows"}.`;
}

/** A cell as a spreadsheet takes it in: no text becomes a formula, or another cell. */
function asText(cell: Cell): Cell {
  if (typeof cell !== "string") return cell;
  const text = cell.replace(/[\t\r\n]+/g, " ");
  return /^[=+\-@]/.test(text) ? `'${text}` : text;
}

/** A value that has not changed for a while. */
function useSettled<T>(value: T, ms: number): T {
  const [settled, settle] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => settle(value), ms);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}
