// Asks the server. The page computes nothing: it shows what comes back.
import { useEffect, useState } from "preact/hooks";

import { hosts, run } from "../state/url";
import { decode, type Frame } from "./frame";
import type { Cell, Cut, Envelope, Missing, Results, Unavailable } from "./made/types";

/** A tool's answer, sentences about it, and which of its tables were cut. */
export interface ToolAnswer<T> extends Envelope {
  data: T | null;
  words: Record<string, string>;
  cut: Cut[];
}
export interface TableColumn {
  name: string;
  type: "text" | "integer" | "number" | "boolean";
  /** The largest number, sign aside; null where there is none. */
  largest: number | null;
  /** Whether all rows have the same value. */
  same: boolean;
}
export interface TableAnswer {
  table: string;
  columns: TableColumn[];
  total: number;
  matching: number;
  offset: number;
  rows: Cell[][];
  unavailable: Unavailable | null;
  missing: Missing[];
  /** Present where the answer has fewer rows than were asked for. */
  cut?: Cut[];
}

/** What the server says when it cannot: one line with the reason and the way out. */
export class Refusal extends Error {
  constructor(
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

export type Options = Record<string, string | number | boolean | (string | number)[] | undefined>;
export type Answer<T> =
  | { state: "waiting" }
  | { state: "ready"; value: T }
  | { state: "refused"; error: Refusal };

/** An address below the page, with the chosen run and hosts. */
export function address(path: string, options: Options = {}): string {
  return addressOf(path, { run: run.value, hosts: hosts.value, ...options });
}

/** An address below the page; options without a value are left out. */
export function addressOf(path: string, options: Options): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(options)) {
    for (const one of [value].flat()) if (one !== undefined && one !== "") query.append(name, String(one));
  }
  const text = query.toString();
  return `data/${path}${text && `?${text}`}`;
}

export async function ask<T>(where: string, init?: RequestInit): Promise<T> {
  return (await (await answered(where, init)).json()) as T;
}

/** A table in columns. */
export async function askFrame(where: string, signal: AbortSignal): Promise<Frame> {
  return patiently(async () => decode(await (await answered(where, { signal })).arrayBuffer()), signal);
}

/** Save what an address answers as a file; throws a `Refusal` where the server refuses. */
export async function save(where: string, name: string): Promise<void> {
  const held = document.createElement("a");
  held.href = URL.createObjectURL(await (await answered(where)).blob());
  held.download = name;
  held.click();
  URL.revokeObjectURL(held.href);
}

/** An answer in JSON, however long the server takes. */
export function askPatiently<T>(where: string, signal: AbortSignal): Promise<T> {
  return patiently(() => ask<T>(where, { signal }), signal);
}

async function answered(where: string, init?: RequestInit): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(where, init);
  } catch (error) {
    if ((error as Error).name === "AbortError") throw error;
    throw new Refusal("offline", "The server does not answer. Is `stepscope serve` still running?");
  }
  if (answer.ok) return answer;
  const error = await answer.json().then((told) => told?.error, () => undefined) as { code: string; message: string } | undefined;
  throw error ? new Refusal(error.code, error.message) : new Refusal("defect", `The server answered ${answer.status}.`);
}

const RETRY_MS = 1500;

/** What passes: the run is being written, the server computes for others or starts again. */
const PASSING = ["writing", "busy", "offline"];

/** Ask, and ask again while what is in the way may pass. */
async function patiently<T>(question: () => Promise<T>, signal: AbortSignal): Promise<T> {
  for (;;) {
    try {
      return await question();
    } catch (error) {
      const code = error instanceof Refusal ? error.code : "";
      if (signal.aborted || !PASSING.includes(code)) throw error;
      await new Promise((done) => setTimeout(done, RETRY_MS));
    }
  }
}

/** The answer at an address; requested again when the address changes. */
export function useAnswer<T>(where: string | null): Answer<T> {
  return useAsked(where, (signal) => askPatiently<T>(where!, signal));
}

/** The answer to a question; asked again when its name changes, and not at all without one. */
export function useAsked<T>(name: string | null, question: (signal: AbortSignal) => Promise<T>): Answer<T> {
  const [held, hold] = useState<{ name: string; answer: Answer<T> }>();
  useEffect(() => {
    if (name === null) return undefined;
    const stop = new AbortController();
    question(stop.signal).then(
      (value) => hold({ name, answer: { state: "ready", value } }),
      (error) => {
        if (stop.signal.aborted) return;
        const known = error instanceof Refusal ? error : new Refusal("defect", (error as Error).message);
        hold({ name, answer: { state: "refused", error: known } });
      },
    );
    return () => stop.abort();
  }, [name]);
  return held && held.name === name ? held.answer : { state: "waiting" };
}

export function useTool<T extends keyof Results>(
  tool: T,
  options: Options = {},
): Answer<ToolAnswer<Results[T]>> {
  return useAnswer(address(`tool/${tool}`, options));
}
