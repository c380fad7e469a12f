// The page's state lives in the address's fragment, so that every view can be sent as a link.
import { computed, signal } from "@preact/signals";

import { SHORT_NAMES } from "../data/made/tools";

/** What a fragment may hold; any other name is ignored. */
const NAMES = [
  "page", "run", "base", "hosts", "op", "kernel", "side", "grid", "block", "unnamed", "scope", "view", "sort", "descending", "q", "idle", "mem",
  "dev", "step", "pipe", "rank", "host", "by", "find", "preset", "table", "at", "rule", "tables",
  "t0", "t1", "sel", "tool", "marks", "folded", "pinned", "hidden", "tracks", "rows", "beside", "file", "same_work",
] as const;
export type Name = (typeof NAMES)[number];
export type State = Partial<Record<Name, string>>;

export const state = signal<State>(parse(location.hash));
/** The page of a tool, by its name or by its short name on the command line. */
export const page = computed(() => {
  const named = state.value.page ?? "findings";
  return SHORT_NAMES.get(named) ?? named;
});
export const run = computed(() => state.value.run);
/** Chosen hosts; none means all. */
export const hosts = computed(() => split(state.value.hosts));

/** The state that a fragment of an address holds. */
export function parse(fragment: string): State {
  const found: State = {};
  for (const [name, value] of new URLSearchParams(fragment.replace(/^#/, ""))) {
    if ((NAMES as readonly string[]).includes(name) && value !== "") found[name as Name] = value;
  }
  return found;
}

/** The fragment of a state, names in a fixed order. */
export function fragment(of: State): string {
  const parts = new URLSearchParams();
  for (const name of NAMES) {
    const value = of[name];
    if (value !== undefined && value !== "") parts.set(name, value);
  }
  return `#${parts}`;
}

/** Go elsewhere: runs, hosts and step stay, what belongs to one page does not. */
export function link(to: State): string {
  const { run, base, hosts, step } = state.value;
  return fragment({ ...(run && { run }), ...(base && { base }), ...(hosts && { hosts }), ...(step && { step }), ...to });
}

/** Leave out all but the page, the run and, if they are known, the hosts. */
export function reset({ hosts }: { hosts: boolean }): void {
  const kept = hosts ? ["page", "run", "hosts"] : ["page", "run"];
  const gone = Object.keys(state.value).filter((name) => !kept.includes(name));
  change(Object.fromEntries(gone.map((name) => [name, ""])));
}

/** Change part of the state; `push` makes it a step that Back undoes. */
export function change(part: State, { push = false } = {}): void {
  const next = fragment({ ...state.value, ...part });
  if (next === location.hash) return;
  if (push) history.pushState(null, "", next);
  else history.replaceState(history.state, "", next);
  state.value = parse(next);
}

/** Names may hold commas, so the parts of a list are escaped once more. */
export function join(parts: string[]): string {
  return parts.map(encodeURIComponent).join(",");
}

export function split(text: string | undefined): string[] {
  return text ? text.split(",").map(decoded) : [];
}

export function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

for (const event of ["hashchange", "popstate"]) {
  addEventListener(event, () => (state.value = parse(location.hash)));
}
