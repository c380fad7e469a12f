// What is asked about the timeline of one host, and what comes back.
import { addressOf, askFrame, askPatiently, type Options } from "../data/client";
import type { Missing } from "../data/made/types";
import { chosen } from "../data/runs";
import { hosts, state, type State } from "../state/url";
import { samplesOf } from "../timeline/counters";
import type { Catalogue } from "../timeline/model";
import type { Sources } from "../timeline/scene";
import { split } from "../timeline/tiles";
import { tileWidth } from "../timeline/viewport";

/** One span, with the place where it is drawn. */
export interface Place {
  track: number;
  item: number;
  row: number;
  name: string;
  start_ps: number;
  dur_ps: number;
}
export interface Details extends Place {
  section: string;
  track_name: string;
  full_name: string;
  category: string;
  /** Of a derived span: how long the work takes that it stands for. */
  busy_ps: number | null;
  self_ps: number | null;
  parent: Place | null;
  children: Place[] | null;
  children_count: number | null;
  step: number | null;
  arguments: Record<string, string | number> | null;
  /** Of a derived span: the event that the arguments belong to. */
  arguments_of: Place | null;
  launched_by: Place | null;
  launched: Place[] | null;
  launched_count: number | null;
  source: string | null;
  links: { op: string | null; kernel: string | null; step: number | null };
  same_name: {
    count: number;
    total_ps: number;
    percentile: number;
    previous: Place | null;
    next: Place | null;
  };
  missing: Missing[];
}
/** The state that chooses a span, or a stretch of time where there is none, with room around it. */
export function spotted(host: string, of: { track: number | null; item: number | null; start_ps: number; dur_ps: number }): State {
  const { track, item, start_ps, dur_ps } = of;
  const room = Math.round(dur_ps / 4);
  const sel = track === null || item === null ? `area:${start_ps}:${start_ps + dur_ps}` : `${track}:${item}`;
  return { host, sel, t0: String(start_ps - room), t1: String(start_ps + dur_ps + room) };
}

/** What of a row of kernels finds its events: all that tells it from other rows. */
export function kernelOf(row: Record<string, unknown>): State {
  const { kernel_name: kernel, op_name: op, grid_dim: grid, block_dim: block } = row;
  const known = { kernel, op: op || undefined, unnamed: op === "" ? "true" : undefined, grid: grid ?? undefined, block: block ?? undefined };
  return known as State;
}

/** What of a row of ops finds its events: its name, and the side that it ran on. */
export function opOf(row: Record<string, unknown>): State {
  return { op: String(row.name), side: String(row.host_or_device) };
}

/** The longest execution of an op or a kernel. */
export interface Longest {
  found: { host: string; place: Place } | null;
}
export interface Found {
  count: number;
  names: { name: string; count: number }[];
}

/** Whose timeline an address is about. */
export interface Of {
  run?: string | undefined;
  host?: string | undefined;
  /** From its catalogue: with it answers never change. */
  version?: string | undefined;
}

/** Version of what is shown, from the catalogue. */
let version: string | undefined;

export function shown(catalogue: Catalogue): void {
  version = catalogue.version;
}

/** The chosen run and host. */
function here(): Of {
  const host = state.value.host ?? (hosts.value.length === 1 ? hosts.value[0] : undefined);
  return { run: chosen()?.id, host, version };
}

/** An address about a run and a host, by default the chosen ones. */
export function about(path: string, given: Options = {}, { run, host, version }: Of = here()): string {
  const kept = path.startsWith("trace/") && path !== "trace/catalogue" ? version : undefined;
  const rounded = Object.entries(given).map(([name, value]) => [name, typeof value === "number" ? Math.round(value) : value]);
  return addressOf(path, { run, version: kept, host, ...Object.fromEntries(rounded) });
}

export function question<T>(path: string, given: Options): Promise<T> {
  return askPatiently<T>(about(path, given), new AbortController().signal);
}

/** Where the timeline's tiles come from; `all` names tracks whose every row is wanted. */
export function sources(all: ReadonlySet<number>, of?: Of): Sources {
  return {
    spans: async (tracks, level, index, signal) => {
      const begin = index * tileWidth(level);
      const groups = [tracks.filter((each) => !all.has(each)), tracks.filter((each) => all.has(each))];
      const tiles = await Promise.all(
        groups.map(async (track, every) => {
          if (track.length === 0) return [];
          const given = { track, level, index, ...(every && { all: 1 }) };
          const frame = await askFrame(about("trace/tiles", given, of), signal);
          return [...split(frame, track, begin, begin + tileWidth(level))];
        }),
      );
      return new Map(tiles.flat());
    },
    counters: async (track, level, index, signal) => {
      const found = samplesOf(await askFrame(about("trace/counters", { track, level, index }, of), signal), 2 ** level);
      const none = new Float64Array();
      for (const each of track) if (!found.has(each)) found.set(each, { start: none, least: none, most: none, last: none, bucket: 1 });
      return found;
    },
  };
}
