// The runs of the log directory, kept up to date while the page is visible.
import { effect, signal } from "@preact/signals";

import { change, run, state } from "../state/url";
import { address, ask, type Refusal } from "./client";
import type { Unavailable } from "./made/types";

export interface Run {
  id: string;
  name: string;
  recorded_unix_ms: number | null;
  hosts: string[];
  bytes: number;
  /** What its files are: "XSpace", "Kineto", "Nsight Systems" or "Memory snapshot". */
  format: string;
  /** Of its program; null until the run was read once. */
  frameworks: string[] | null;
  /** The first sentence of its findings, and the mean step; null until it was shown. */
  verdict: string | null;
  step_ms: number | null;
  state: "ready" | "writing" | "unreadable";
  /** Why it is unreadable. */
  reason: string | null;
  version: string;
}
export interface Runs {
  runs: Run[];
  refused: { name: string; reason: string }[];
  empty: Unavailable | null;
}
interface Status {
  runs: string;
  work: { run: string; what: string; done: number; of: number; elapsed_ms: number } | null;
}

const POLL_MS = 3000;

export const runs = signal<Runs | null>(null);
export const lost = signal<Refusal | null>(null);
/** A notice that the reader can close; it goes away by itself. */
export const notice = signal<string | null>(null);
/** Tools that have nothing to show of the run, and why, as far as that is known. */
export const absent = signal<Record<string, Unavailable>>({});

let learnt = "";

/** Nothing is known of another run, or of other hosts. */
export function forget(): void {
  learnt = "";
  absent.value = {};
}

/** Which pages hold nothing: asked once a page is there, so that none waits for it. */
export async function learn(seen: typeof absent.value | null): Promise<void> {
  absent.value = { ...absent.value, ...seen };
  const where = address("findings");
  if (where === learnt) return;
  learnt = where;
  const told = await ask<{ absent: typeof absent.value }>(where).catch(() => null);
  if (told && where === learnt) absent.value = { ...absent.value, ...told.absent };
}

const NOTICE_MS = 30_000;
let closing: ReturnType<typeof setTimeout> | undefined;
effect(() => {
  clearTimeout(closing);
  if (notice.value) closing = setTimeout(() => (notice.value = null), NOTICE_MS);
});

let known = "";

/** Look again; the newest ready run is chosen where none is. */
export async function refresh(): Promise<void> {
  try {
    const status = await ask<Status>("data/status");
    if (status.runs !== known) {
      const found = await ask<Runs>("data/runs");
      announce(runs.value, found);
      runs.value = found;
      known = status.runs;
    }
    lost.value = null;
  } catch (error) {
    lost.value = error as Refusal;
  }
}

/** What the server computes at the moment. */
export async function work(): Promise<Status["work"]> {
  return (await ask<Status>("data/status")).work;
}

export function chosen(): Run | undefined {
  const all = runs.value?.runs ?? [];
  return all.find((each) => each.id === run.value) ?? newest(all);
}

/** The run to compare with, if another one is chosen. */
export function base(): Run | undefined {
  const named = runs.value?.runs.find((each) => each.id === state.value.base);
  return named && named.id !== chosen()?.id && named.state === "ready" ? named : undefined;
}

function newest(all: Run[]): Run | undefined {
  return all.find((each) => each.state === "ready") ?? all[0];
}

function announce(before: Runs | null, now: Runs): void {
  const fresh = newest(now.runs);
  if (!before || !fresh || before.runs.some((each) => each.id === fresh.id)) return;
  if (run.value) notice.value = `There is a new run: ${fresh.name}. Choose this run above.`;
  else notice.value = `Showing the new run ${fresh.name}.`;
}

effect(() => {
  const all = runs.value?.runs;
  if (!all || !run.value || all.some((each) => each.id === run.value)) return;
  notice.value = "The run of this link is missing; the newest run is shown.";
  change({ run: "" });
});

// A file that holds memory only is shown where there is something to see.
effect(() => {
  if (chosen()?.format === "Memory snapshot" && !state.value.page) change({ page: "memory_profile" });
});

setInterval(() => document.visibilityState === "visible" && refresh(), POLL_MS);
addEventListener("visibilitychange", () => document.visibilityState === "visible" && refresh());
