// Filters, sorts and cuts a stored table as the server does.
import type { TableAnswer } from "../src/data/client";
import type { Cell } from "../src/data/made/types";

export type Table = TableAnswer & { tool: string };

const PAGE_ROWS = 200;

/** One page of the rows that contain a text, in the order of a column. */
export function arrange(table: Table, given: URLSearchParams): Table {
  const texts = table.columns.flatMap(({ type }, k) => (type === "text" ? [k] : []));
  const text = (given.get("q") ?? "").toLowerCase();
  const rows = table.rows.filter((row) => !text || texts.some((k) => String(row[k] ?? "").toLowerCase().includes(text)));
  const by = table.columns.findIndex(({ name }) => name === given.get("sort"));
  if (by >= 0) {
    const sign = given.get("descending") === "true" ? -1 : 1;
    rows.sort((one, other) => order(one[by] ?? null, other[by] ?? null, sign));
  }
  const offset = Number(given.get("offset") ?? 0);
  const limit = Number(given.get("limit") ?? PAGE_ROWS);
  const left = table.total - table.rows.length;
  return { ...table, matching: text ? rows.length : rows.length + left, offset, rows: rows.slice(offset, offset + limit) };
}

/** Unknown values come last in both orders; equal ones keep theirs. */
function order(one: Cell, other: Cell, sign: number): number {
  if (one === null || other === null) return Number(one === null) - Number(other === null);
  return one === other ? 0 : sign * (one < other ? -1 : 1);
}

const FORMULA = /^[=+\-@\t\r]/;
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/;

/** The rows as CSV; no text becomes a formula of a spreadsheet. */
export function asCsv({ columns, rows }: Table): string {
  const quoted = (text: string) => (text === "" || /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const written = (cell: Cell | undefined, k: number) => {
    if (cell === null || cell === undefined) return "";
    if (typeof cell === "string") return quoted(FORMULA.test(cell) && !NUMBER.test(cell) ? `'${cell}` : cell);
    return columns[k]!.type === "number" && Number.isInteger(cell) ? `${cell}.0` : String(cell);
  };
  const head = columns.map(({ name }) => quoted(name)).join(",");
  return [head, ...rows.map((row) => row.map(written).join(","))].join("\r\n") + "\r\n";
}
