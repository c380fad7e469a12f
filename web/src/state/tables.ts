// How each table of a page is arranged, kept in the address.
import { change, decoded, join, split, state } from "./url";

export interface Arranged {
  sort: string;
  descending: boolean;
  filter: string;
  /** Those shown; null for the table's own choice. */
  columns: string[] | null;
}

/** How the reader arranged a table; nothing where it stands as it came. */
export function arranged(table: string): Arranged | undefined {
  const found = entries().find(([name]) => name === table);
  if (!found) return undefined;
  const [, sort = "", descending, filter = "", columns = ""] = found;
  return { sort, descending: descending === "1", filter, columns: columns ? split(columns) : null };
}

export function arrange(table: string, { sort, descending, filter, columns }: Arranged): void {
  const others = entries().filter(([name]) => name !== table);
  const mine = [table, sort, descending ? "1" : "", filter, columns ? join(columns) : ""];
  const kept = mine.slice(1).some((part) => part !== "") ? [...others, mine] : others;
  change({ tables: kept.map((parts) => parts.map(encodeURIComponent).join(";")).join(",") });
}

/** The state in which a table shows the rows that hold a text. */
export function holding(table: string, text: string): string {
  return [table, "", "", text, ""].map(encodeURIComponent).join(";");
}

/** The parts of each table's entry; they are escaped, so no part holds a separator. */
function entries(): string[][] {
  const text = state.value.tables ?? "";
  return text === "" ? [] : text.split(",").map((each) => each.split(";").map(decoded));
}
