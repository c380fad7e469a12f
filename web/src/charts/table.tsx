// A table of a tool, sorted, filtered and cut by the server; the page shows what comes back.
import { useEffect, useRef, useState } from "preact/hooks";

import { address, useAnswer, type Options, type TableAnswer } from "../data/client";
import { useDefinition } from "../data/definitions";
import type { Cell } from "../data/made/types";
import { byName, heading, number, UNKNOWN } from "../format";
import { useAround } from "../parts/tool";
import { Absent, Show } from "../parts/unavailable";
import { reasonFor } from "../parts/value";

export interface Column {
  name: string;
  /** Its heading; made from the name when absent. */
  title?: string;
  /** Another way to show its cells than by the unit in the name. */
  show?: (value: Cell) => string;
}

interface Props {
  tool: string;
  table?: string;
  options?: Options;
  /** What a row is, in the plural. */
  caption: string;
  /** Those shown at first, in order; all when absent. The reader may choose others. */
  columns?: Column[];
  sort?: string;
  descending?: boolean;
  /** A row was chosen, by click or Enter. */
  onChoose?: (row: Record<string, Cell>) => void;
}

const PAGE_ROWS = 100;

export function DataTable(props: Props) {
  const { tool, missing, data } = useAround();
  // A table that is null in the answer is not requested.
  const absent = tool === props.tool && (data as Record<string, unknown>)[props.table ?? ""] === null;
  const why = absent ? reasonFor(props.table ?? "", missing) : undefined;
  return why ? <Absent what={props.caption} why={why} /> : <Asked {...props} />;
}

function Asked(props: Props) {
  const [sort, setSort] = useState({ by: props.sort, descending: props.descending ?? false });
  const [filter, setFilter] = useState("");
  const [limit, setLimit] = useState(PAGE_ROWS);
  const q = useSettled(filter, 200);
  const asked = { ...props.options, table: props.table, q };
  const order = { sort: sort.by, descending: sort.by ? sort.descending : undefined };
  const answer = useAnswer<TableAnswer>(
    address(`table/${props.tool}`, { ...asked, ...order, limit }),
  );
  const last = useRef<TableAnswer | null>(null);
  if (answer.state === "ready") last.current = answer.value;
  // While a new order is on its way, the old rows stay.
  const shown =
    answer.state === "waiting" && last.current
      ? ({ state: "ready", value: last.current } as const)
      : answer;
  return (
    <Show answer={shown}>
      {(value) =>
        value.unavailable ? (
          <Absent what={props.caption} why={value.unavailable} />
        ) : (
          <Filled
            {...props}
            value={value}
            sort={sort}
            filter={filter}
            onFilter={setFilter}
            onMore={() => setLimit(limit + 10 * PAGE_ROWS)}
            csv={address(`csv/${props.tool}`, { ...asked, ...order })}
            onSort={(by) =>
              setSort({ by, descending: sort.by === by ? !sort.descending : !isText(value, by) })
            }
          />
        )
      }
    </Show>
  );
}

interface Shown extends Omit<Props, "sort"> {
  value: TableAnswer;
  sort: { by: string | undefined; descending: boolean };
  filter: string;
  csv: string;
  onFilter: (text: string) => void;
  onSort: (by: string) => void;
  onMore: () => void;
}

function Filled(props: Shown) {
  const { value } = props;
  const [picked, pick] = useState<string[] | null>(null);
  const known = new Map((props.columns ?? []).map((each) => [each.name, each]));
  const first = props.columns?.map((each) => each.name) ?? value.columns.map((each) => each.name);
  const names = (picked ?? first).filter((name) => value.columns.some((c) => c.name === name));
  const columns = names.map((name) => known.get(name) ?? { name });
  return (
    <section class="table" role="group" aria-label={props.caption}>
      <Tools {...props} names={names} pick={pick} />
      <div class="scroll" tabIndex={0} role="group" aria-label={`${props.caption}, scrolls`}>
        <table aria-rowcount={value.matching}>
          <caption>{counted(value, props.caption)}</caption>
          <thead>
            <tr>
              {columns.map((column) => (
                <Heading {...props} key={column.name} column={column} />
              ))}
            </tr>
          </thead>
          <tbody>
            {value.rows.map((row, index) => (
              <Line {...props} key={index} row={row} columns={columns} />
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
        These are the first {number(value.rows.length)} rows only: the texts of all are too long for one answer.
        A filter brings others.
      </p>
    );
  if (value.rows.length < value.matching) return <button onClick={onMore}>Show more rows</button>;
  return null;
}

function Tools(props: Shown & { names: string[]; pick: (names: string[]) => void }) {
  const { value, names, pick } = props;
  return (
    <div class="tools">
      <input
        type="search"
        placeholder="Filter"
        aria-label={`Filter ${props.caption}`}
        value={props.filter}
        onInput={(event) => props.onFilter(event.currentTarget.value)}
      />
      <details class="choose">
        <summary>Columns</summary>
        <fieldset>
          <legend>Columns shown</legend>
          {value.columns.map(({ name }) => (
            <label key={name}>
              <input
                type="checkbox"
                checked={names.includes(name)}
                onChange={() =>
                  pick(names.includes(name) ? names.filter((n) => n !== name) : [...names, name])
                }
              />{" "}
              {heading(name)}
            </label>
          ))}
        </fieldset>
      </details>
      <button onClick={() => void copy(value, names)}>Copy</button>
      <a class="button" href={props.csv} download>
        Export as CSV
      </a>
    </div>
  );
}

function Heading({ column, sort, tool, table, value, onSort }: Shown & { column: Column }) {
  const sorted = sort.by === column.name;
  const type = value.columns.find((each) => each.name === column.name)?.type;
  const [pointed, point] = useState(false);
  const path = table ? `${table}.${column.name}` : column.name;
  const about = useDefinition(tool, pointed ? path : null);
  return (
    <th
      scope="col"
      onPointerEnter={() => point(true)}
      onFocusIn={() => point(true)}
      class={type === "integer" || type === "number" ? "number" : undefined}
      aria-sort={sorted ? (sort.descending ? "descending" : "ascending") : "none"}
      title={about}
    >
      <button onClick={() => onSort(column.name)}>
        {column.title ?? heading(column.name)}
        <span aria-hidden="true">{sorted ? (sort.descending ? " ▾" : " ▴") : ""}</span>
      </button>
    </th>
  );
}

function Line({ row, columns, value, onChoose, table }: Shown & { row: Cell[]; columns: Column[] }) {
  const place = new Map(value.columns.map((each, index) => [each.name, index]));
  const cells = Object.fromEntries(value.columns.map(({ name }, k) => [name, row[k] ?? null]));
  const choose = onChoose && (() => onChoose(cells));
  return (
    <tr
      class={choose && "choosable"}
      onClick={choose}
      tabIndex={choose ? 0 : undefined}
      onKeyDown={(event) => event.key === "Enter" && choose?.()}
    >
      {columns.map((column) => {
        const index = place.get(column.name)!;
        const cell = row[index] ?? null;
        const type = value.columns[index]!.type;
        const text = column.show && cell !== null ? column.show(cell) : byName(column.name, cell, type !== "number");
        const why =
          text === UNKNOWN ? reasonFor(`${table ?? value.table}.${column.name}`, value.missing) : null;
        return (
          <td
            key={column.name}
            class={type === "integer" || type === "number" ? "number" : undefined}
            data-column={column.name}
            title={why ? `${why.reason} ${why.remedy}` : cell === null ? undefined : String(cell)}
          >
            {text}
          </td>
        );
      })}
    </tr>
  );
}

function counted(value: TableAnswer, caption: string): string {
  const all = value.total.toLocaleString("en");
  if (value.matching === value.total) return `${all} ${caption}`;
  return `${value.matching.toLocaleString("en")} of ${all} ${caption}`;
}

function isText(value: TableAnswer, name: string): boolean {
  return value.columns.find((each) => each.name === name)?.type === "text";
}

async function copy(value: TableAnswer, names: string[]): Promise<void> {
  const places = names.map((name) => value.columns.findIndex((each) => each.name === name));
  const lines = value.rows.map((row) => places.map((k) => row[k] ?? "").join("\t"));
  await navigator.clipboard.writeText([names.join("\t"), ...lines].join("\n"));
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
