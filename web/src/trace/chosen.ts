// What the reader chose on the timeline. All of it is in the address.
import { computed, signal } from "@preact/signals";

import { change, join, split, state } from "../state/url";
import { hiddenAtFirst, type Arrangement, type Catalogue } from "../timeline/model";
import type { Mark } from "../timeline/ruler";
import type { Extent } from "../timeline/viewport";

export type Choice =
  | { kind: "span"; track: number; item: number }
  | { kind: "folded"; track: number; row: number; at: number }
  | { kind: "gap"; track: number; row: number; at: number }
  | { kind: "counter"; track: number; at: number }
  | { kind: "area"; begin: number; end: number; tracks: number[] | null };

export const TOOLS = ["select", "pan", "zoom", "timing"] as const;
export type Tool = (typeof TOOLS)[number];

export const tool = computed<Tool>(() => TOOLS.find((each) => each === state.value.tool) ?? "select");
export const choice = computed(() => parseChoice(state.value.sel));
export const marks = computed(() => parseMarks(state.value.marks));
/** What the pointer or a key brought about, for everyone who cannot see it. */
export const said = signal("");
/** An interval that was measured. */
export const measured = signal<Extent | null>(null);
/** Whether the chosen gap or stretch is to be explained. */
export const explained = signal(false);

export function parseChoice(text: string | undefined): Choice | null {
  const [kind, ...rest] = (text ?? "").split(":");
  const part = rest.map((each) => (each === "" ? NaN : Number(each)));
  if (kind === "area" && part.slice(0, 2).every(Number.isSafeInteger) && part[1]! >= part[0]!) {
    const tracks = rest[2] ? whole(rest[2].split(".")) : null;
    return { kind, begin: part[0]!, end: part[1]!, tracks };
  }
  if (part.some((each) => !Number.isSafeInteger(each))) return null;
  if ((kind === "gap" || kind === "folded") && part.length === 3) return { kind, track: part[0]!, row: part[1]!, at: part[2]! };
  if (kind === "counter" && part.length === 2) return { kind, track: part[0]!, at: part[1]! };
  const track = Number(kind);
  return kind && part.length === 1 && Number.isSafeInteger(track) ? { kind: "span", track, item: part[0]! } : null;
}

export function choiceText(of: Choice | null): string {
  if (!of) return "";
  if (of.kind === "span") return `${of.track}:${of.item}`;
  if (of.kind === "area") return `area:${Math.round(of.begin)}:${Math.round(of.end)}${of.tracks ? `:${of.tracks.join(".")}` : ""}`;
  if (of.kind === "counter") return `counter:${of.track}:${Math.round(of.at)}`;
  return `${of.kind}:${of.track}:${of.row}:${Math.round(of.at)}`;
}

export function choose(next: Choice | null): void {
  explained.value = false;
  change({ sel: choiceText(next) });
}

/** Marks as `begin-end~note`, with commas between them. */
export function parseMarks(text: string | undefined): Mark[] {
  return split(text).flatMap((each) => {
    const [, begin, end, note] = /^(-?\d+)(?:-(\d+))?(?:~(.*))?$/s.exec(each) ?? [];
    return begin === undefined ? [] : [{ begin: Number(begin), end: Number(end ?? begin), note: note ?? "" }];
  });
}

export function marksText(of: Mark[]): string {
  return join(of.map(({ begin, end, note }) => `${Math.round(begin)}${end > begin ? `-${Math.round(end)}` : ""}${note && `~${note}`}`));
}

export function setMarks(next: Mark[]): void {
  change({ marks: marksText(next) });
}

/** How the reader arranged the tracks. */
export function arrangement(catalogue: Catalogue): Arrangement {
  const { folded, pinned, hidden, tracks } = state.value;
  const away = new Set(hiddenAtFirst(catalogue));
  for (const each of whole(split(hidden))) if (!away.delete(each)) away.add(each);
  return { toggled: new Set(split(folded)), pinned: whole(split(pinned)), hidden: away, named: (tracks ?? "").toLowerCase() };
}

function toggled(list: string[], one: string): string {
  return join(list.includes(one) ? list.filter((each) => each !== one) : [...list, one]);
}

export function toggleFold(key: string): void {
  change({ folded: toggled(split(state.value.folded), key) });
}

export function togglePin(track: number): void {
  change({ pinned: toggled(split(state.value.pinned), String(track)) });
}

/** Hide a track, or show it where it begins hidden. */
export function toggleHidden(tracks: number[]): void {
  let list = state.value.hidden;
  for (const each of tracks) list = toggled(split(list), String(each));
  change({ hidden: list ?? "" });
}

function whole(texts: string[]): number[] {
  return texts.map(Number).filter((each) => Number.isSafeInteger(each) && each >= 0);
}
