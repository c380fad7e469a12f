// The timeline of one host: folds stored slices into tiles, and answers about its events.
import { decode, numbers, type Frame, type Values } from "../src/data/frame";
import type { Details, Place } from "../src/trace/questions";
import type { Catalogue } from "../src/timeline/model";
import { encode, type Columns } from "./frames";

/** Slices by track, row and time, as in a tile; see `serve/saved/slices.py`. */
interface Slices {
  track: ArrayLike<number>;
  row: ArrayLike<number>;
  start: Float64Array;
  stop: Float64Array;
  busy: Float64Array;
  count: ArrayLike<number>;
  item: Float64Array;
  first: Float64Array;
  name: ArrayLike<number>;
  /** The recorded name. */
  fullName: ArrayLike<number>;
  category: ArrayLike<number>;
}
/** A part of the slices: those of one row of a track. */
interface Lane {
  from: number;
  to: number;
}

const TILE_BUCKETS = 1024;
const NOT_STORED = {
  code: "not_in_file",
  reason: "The file has all details of the longest events only.",
  remedy: "Open the recording itself with `stepscope serve`.",
};
const REGEX = /^\/(.*)\/$/;

export class Timeline {
  private readonly slices: Slices;
  private readonly names: string[];
  private readonly counters: Frame;
  private readonly folded: boolean;
  /** Track → its rows. */
  private readonly lanes = new Map<number, Lane[]>();
  /** Slices by their start. */
  private readonly events: Uint32Array;

  constructor(readonly catalogue: Catalogue & { host: string }, slices: ArrayBuffer, counters: ArrayBuffer) {
    const frame = decode(slices);
    this.names = frame.names;
    this.folded = frame.meta.level !== 0;
    this.slices = restored(frame);
    this.counters = decode(counters);
    const { track, row, start } = this.slices;
    for (let from = 0; from < start.length; ) {
      let to = from;
      while (to < start.length && track[to] === track[from] && row[to] === row[from]) to++;
      const rows = this.lanes.get(track[from]!) ?? [];
      while (rows.length < row[from]!) rows.push({ from, to: from });
      rows.push({ from, to });
      this.lanes.set(track[from]!, rows);
      from = to;
    }
    this.events = Uint32Array.from(start, (_, k) => k).sort((one, other) => start[one]! - start[other]!);
  }

  /** The answer to a question of the page; null where the file has none. */
  answer(path: string, given: URLSearchParams): object | ArrayBuffer | null {
    const number = (name: string, unknown = 0) => Number(given.get(name) ?? unknown);
    const tracks = given.getAll("track").map(Number);
    const begin = number("begin_ps", -Infinity);
    const end = number("end_ps", Infinity);
    if (path === "tiles") return this.tile(tracks, number("level"), number("index"), given.has("all"));
    if (path === "counters") return this.counterTile(tracks, number("level"), number("index"));
    if (path === "unfold") return this.unfold(tracks[0]!, number("first"), number("count"));
    // Where events are stored together, their names and number are not known.
    if (this.folded) return null;
    if (path === "details") return this.details(tracks[0]!, number("item"));
    if (path === "search") return this.search(given.get("text") ?? "");
    if (path === "find") return { place: this.find(given), unavailable: null };
    if (path === "events") return this.inView(begin, end, tracks, given.get("text"), number("offset"), number("limit", 200));
    return null;
  }

  private nameOf(k: number): string {
    return this.names[this.slices.name[k]!]!;
  }

  private place(k: number): Place {
    const { track, item, row, start, stop } = this.slices;
    return { track: track[k]!, item: item[k]!, row: row[k]!, name: this.nameOf(k), start_ps: start[k]!, dur_ps: stop[k]! - start[k]! };
  }

  /** Slices narrower than a bucket that begin in the same one become one slice. */
  private tile(tracks: number[], level: number, index: number, all: boolean): ArrayBuffer {
    const { start, stop, busy, count, item, first, name, category } = this.slices;
    const bucket = 2 ** level;
    const begin = index * bucket * TILE_BUCKETS;
    const end = begin + bucket * TILE_BUCKETS;
    const out: Record<string, number[]> = Object.fromEntries(
      ["track", "row", "start_ps", "end_ps", "busy_ps", "count", "item", "first", "name", "category"].map((each) => [each, []]),
    );
    for (const track of tracks) {
      const rows = this.lanes.get(track) ?? [];
      rows.slice(0, all ? rows.length : this.catalogue.tracks[track]!.drawn_rows).forEach((lane, row) => {
        for (let k = firstAt(stop, lane, begin); k < lane.to && start[k]! < end; ) {
          let longest = k;
          let [last, spans, work] = [stop[k]!, count[k]!, busy[k]!];
          let next = k + 1;
          if (last - start[k]! < bucket && start[k]! >= begin) {
            const edge = (Math.floor(start[k]! / bucket) + 1) * bucket;
            for (; next < lane.to && start[next]! < edge && stop[next]! - start[next]! < bucket; next++) {
              if (stop[next]! - start[next]! > stop[longest]! - start[longest]!) longest = next;
              last = stop[next]!;
              spans += count[next]!;
              work += busy[next]!;
            }
          }
          const values = [track, row, start[k]!, last, work, spans, item[longest]!, first[k]!, name[longest]!, category[longest]!];
          Object.values(out).forEach((column, at) => column.push(values[at]!));
          k = next;
        }
      });
    }
    return this.encoded(out, { track: "i4", row: "i4", name: "text", category: "u1" });
  }

  private encoded(out: Record<string, number[]>, types: Record<string, string>): ArrayBuffer {
    const columns: Columns = Object.entries(out).map(([name, values]) => [name, types[name] ?? "f8", values]);
    return encode(columns, this.names);
  }

  /** What counters reached in each bucket; their first row is the value before the tile. */
  private counterTile(tracks: number[], level: number, index: number): ArrayBuffer {
    const column = (name: string) => numbers<Values>(this.counters, name) as ArrayLike<number>;
    const [track, start, least, most, last, count] = ["track", "start_ps", "min", "max", "last", "count"].map(column) as [ArrayLike<number>, ...ArrayLike<number>[]] as ArrayLike<number>[];
    const bucket = 2 ** level;
    const begin = index * bucket * TILE_BUCKETS;
    const out: Record<string, number[]> = { track: [], start_ps: [], min: [], max: [], last: [], count: [] };
    let open = NaN;
    for (let k = 0; k < this.counters.length; k++) {
      const own = track![k]!;
      if (!tracks.includes(own) || start![k]! >= begin + bucket * TILE_BUCKETS) continue;
      const before = start![k]! < begin;
      const at = before ? -1 : Math.floor(start![k]! / bucket);
      const end = out.track!.length - 1;
      const joins = end >= 0 && out.track![end] === own && open === at;
      if (joins && !before) {
        out.min![end] = Math.min(out.min![end]!, least![k]!);
        out.max![end] = Math.max(out.max![end]!, most![k]!);
        out.last![end] = last![k]!;
        out.count![end]! += count![k]!;
      } else {
        const values = before ? [own, start![k]!, last![k]!, last![k]!, last![k]!, 1] : [own, start![k]!, least![k]!, most![k]!, last![k]!, count![k]!];
        Object.values(out).forEach((each, place) => (joins ? (each[end] = values[place]!) : each.push(values[place]!)));
      }
      open = at;
    }
    return this.encoded(out, { track: "i4" });
  }

  /** The single events of a slice; those that the file has folded are left out. */
  private unfold(of: number, from: number, spans: number): object {
    const { track, row, start, stop, busy, count, item, first, category } = this.slices;
    const found = [];
    for (let k = 0; k < start.length; k++) {
      if (track[k] !== of || count[k] !== 1 || first[k]! < from || first[k]! >= from + spans) continue;
      found.push({ row: row[k], start_ps: start[k], end_ps: stop[k], busy_ps: busy[k], count: 1, item: item[k], first: first[k], name: this.nameOf(k), category: category[k] });
    }
    return { host: this.catalogue.host, track: of, categories: this.catalogue.categories, spans: found, left_out: spans - found.length, unavailable: null };
  }

  /** What the slices tell of an event whose details the file has not. */
  private details(track: number, item: number): (Details & { unavailable: null }) | null {
    const { slices } = this;
    const k = this.events.find((each) => slices.track[each] === track && slices.item[each] === item);
    if (k === undefined) return null;
    const place = this.place(k);
    const equals = [...this.events].filter((each) => slices.name[each] === slices.name[k]);
    const lengths = equals.map((each) => slices.stop[each]! - slices.start[each]!);
    const at = equals.indexOf(k);
    const other = (by: number) => (at >= 0 && equals[at + by] !== undefined ? this.place(equals[at + by]!) : null);
    const about = this.catalogue.tracks[track]!;
    const fields = ["self_ps", "parent", "children", "step", "arguments", "launched_by", "source"];
    return {
      ...place,
      section: this.catalogue.sections[about.section]?.name ?? "",
      track_name: about.name ?? "",
      full_name: this.names[slices.fullName[k]!]!,
      category: this.catalogue.categories[slices.category[k]!] ?? "other",
      ...{ busy_ps: null, self_ps: null, parent: null, children: null, children_count: null, step: null, arguments: null },
      ...{ arguments_of: null, launched_by: null, launched: null, launched_count: null, source: null },
      links: { op: null, kernel: null, step: null },
      same_name: {
        count: equals.length,
        total_ps: lengths.reduce((sum, each) => sum + each, 0),
        percentile: (100 * lengths.filter((each) => each <= place.dur_ps).length) / Math.max(equals.length, 1),
        previous: other(-1),
        next: other(1),
      },
      missing: fields.map((field) => ({ field, ...NOT_STORED })),
      unavailable: null,
    };
  }

  /** Whether a name of a slice contains a text, in any case, or matches a `/pattern/`. */
  private wanted(text: string): (k: number) => boolean {
    const pattern = REGEX.exec(text)?.[1];
    const regex = pattern === undefined ? null : new RegExp(pattern);
    const lower = text.toLowerCase();
    const matches = this.names.map((name) => (regex ? regex.test(name) : name.toLowerCase().includes(lower)));
    return (k) => matches[this.slices.name[k]!]! || matches[this.slices.fullName[k]!]!;
  }

  private search(text: string): object {
    const wanted = this.wanted(text);
    const counts = new Map<string, number>();
    let count = 0;
    for (const k of this.events) {
      if (!wanted(k)) continue;
      counts.set(this.nameOf(k), (counts.get(this.nameOf(k)) ?? 0) + 1);
      count += 1;
    }
    const names = [...counts].map(([name, each]) => ({ name, count: each })).sort((one, other) => other.count - one.count);
    return { host: this.catalogue.host, text, count, names, unavailable: null };
  }

  /** The next or previous event whose name contains a text. */
  private find(given: URLSearchParams): Place | null {
    const { start, track, item } = this.slices;
    const wanted = this.wanted(given.get("text") ?? "");
    const forward = given.get("direction") !== "previous";
    const order = forward ? this.events : [...this.events].reverse();
    const chosen = given.has("item") ? order.findIndex((k) => track[k] === Number(given.get("track")) && item[k] === Number(given.get("item"))) : -1;
    const from = Number(given.get("from_ps") ?? 0);
    const found = [...order].find((k, at) =>
      wanted(k) && (chosen >= 0 ? at > chosen : forward ? start[k]! >= from : start[k]! < from));
    return found === undefined ? null : this.place(found);
  }

  /** Slices that overlap a time, by their start: those of some tracks and with a text. */
  private inView(begin: number, end: number, tracks: number[], text: string | null, offset: number, limit: number): object {
    const { start, stop, track } = this.slices;
    const wanted = text ? this.wanted(text) : () => true;
    const found = [...this.events].filter((k) =>
      start[k]! < end && stop[k]! > begin && (tracks.length === 0 || tracks.includes(track[k]!)) && wanted(k));
    const events = found.slice(offset, offset + limit).map((k) => ({ ...this.place(k), category: this.slices.category[k] }));
    return { total: found.length, events, unavailable: null };
  }
}

/** The slices of a frame, whose times and items are differences. */
function restored(frame: Frame): Slices {
  const column = (name: string) => numbers<Values>(frame, name) as ArrayLike<number>;
  const [track, count, length, idle] = ["track", "count", "dur_ps", "idle_ps"].map(column) as [ArrayLike<number>, ArrayLike<number>, ArrayLike<number>, ArrayLike<number>];
  const start = summed(column("start_ps"));
  const first = new Float64Array(frame.length);
  for (let k = 1; k < frame.length; k++) first[k] = track[k] === track[k - 1] ? first[k - 1]! + count[k - 1]! : 0;
  return {
    track,
    row: column("row"),
    start,
    stop: start.map((each, k) => each + length[k]!),
    busy: Float64Array.from(length, (each, k) => each - idle[k]!),
    count,
    item: summed(column("item")),
    first,
    name: column("name"),
    fullName: column("full_name"),
    category: column("category"),
  };
}

function summed(differences: ArrayLike<number>): Float64Array {
  let sum = 0;
  return Float64Array.from(differences, (each) => (sum += each));
}

/** The first slice of a row that ends after a time. */
function firstAt(stop: Float64Array, { from, to }: Lane, ps: number): number {
  while (from < to) {
    const middle = (from + to) >> 1;
    if (stop[middle]! > ps) to = middle;
    else from = middle + 1;
  }
  return from;
}
