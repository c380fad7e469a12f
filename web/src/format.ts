// Numbers on the screen: one unit in a column, whole numbers grouped, nothing rounded to zero.
import type { Cell } from "./data/made/types";

/** What is shown where nothing was measured; never 0. */
export const UNKNOWN = "–";

/** So many decimals that three figures show, or those before the point. */
function figures(value: number): number {
  // As it is written: what rounds up to the next power of ten has that one's decimals.
  const size = Math.abs(Number(value.toPrecision(4)));
  return size >= 1000 ? 0 : size >= 100 ? 1 : size >= 1 ? 2 : size >= 0.1 ? 3 : size === 0 ? 0 : 4;
}

/** By decimals. Made once: a page writes thousands of numbers, and making one takes long. */
export const MOST_DECIMALS = 4;
const FORMATS = Array.from({ length: MOST_DECIMALS + 1 }, (_, digits) =>
  new Intl.NumberFormat("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }));

/** A number; with the decimals of its column, or with as many as it needs itself. */
export function number(value: number | null | undefined, digits?: number): string {
  if (value === null || value === undefined || Number.isNaN(value)) return UNKNOWN;
  if (value === 0) return "0";
  const own = digits ?? (Number.isInteger(value) ? 0 : figures(value));
  const shown = FORMATS[own]!.format(value).replace("-", "−");
  if (/[1-9]/.test(shown)) return shown;
  // What exists never reads as zero.
  if (digits === undefined) return value.toPrecision(2).replace(/^-/, "−");
  const least = FORMATS[own]!.format(10 ** -own);
  return value > 0 ? `<${least}` : `>−${least}`;
}

/** The decimals with which the numbers of a column are shown. */
export function decimals(largest: number | null): number {
  return largest === null || largest === 0 ? 0 : Math.min(figures(largest), 3);
}

/** A number and what it counts: 1 step, 2 steps, no number where none is known. */
export function counted(value: number | null, one: string, several = `${one}s`): string {
  return `${number(value)} ${value === 1 ? one : several}`;
}

/** The singular of a plural: op, copy, launch. */
export function singular(several: string): string {
  return several.replace(/ies$/, "y").replace(/(ch|sh|x)es$/, "$1").replace(/s$/, "");
}

const withUnit = (unit: string) => (value: number | null | undefined) =>
  value === null || value === undefined ? UNKNOWN : `${number(value)} ${unit}`;

export const ms = withUnit("ms");
export const us = withUnit("µs");

export function percent(value: number | null | undefined): string {
  if (value === null || value === undefined) return UNKNOWN;
  if (value === 0) return "0 %";
  // No share reads as all that is not, but for rounding.
  if (value >= 99.95 && value < 100 - 1e-6) return ">99.9 %";
  if (Math.abs(value) < 0.1) return value > 0 ? "<0.1 %" : ">−0.1 %";
  return `${value.toFixed(1).replace("-", "−")} %`;
}

const SIZES: [number, string][] = [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]];

/** The unit in which sizes up to this many bytes are written. */
export function sizeUnit(largest: number | null): [number, string] {
  return SIZES.find(([bytes]) => Math.abs(largest ?? 0) >= bytes) ?? [1, "B"];
}

/** Bytes in the unit of the largest among those that they stand with. */
export function size(bytes: number | null | undefined, largest: number | null = bytes ?? null): string {
  if (bytes === null || bytes === undefined) return UNKNOWN;
  const [one, unit] = sizeUnit(largest);
  return `${number(bytes / one, one === 1 ? 0 : decimals((largest ?? 0) / one))} ${unit}`;
}

/** A value in the unit that its name ends with. */
export function byName(name: string, value: Cell | undefined, digits?: number): string {
  if (value === null || value === undefined) return UNKNOWN;
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "string") return value;
  if (name === "percent" || name.endsWith("_percent")) return percent(value);
  return number(value, digits);
}

const UNITS: [string, string][] = [
  ["_us", "µs"], ["_ms", "ms"], ["_ps", "ps"], ["_bytes", "bytes"], ["_percent", "%"],
];

/** The unit that a part of a field's name ends with; none where it has none. */
export function unitOf(name: string): string {
  return name.split(".").flatMap((part) => UNITS.find(([ending]) => part.endsWith(ending))?.[1] ?? []).at(-1) ?? "";
}

/** A heading for a column: words, and the unit that a part of the name ends with. */
export function heading(name: string): string {
  const unit = unitOf(name);
  const text = capital(name.replaceAll(/_(us|ms|ps|bytes|percent)(?=\.|$)/g, "").replaceAll(/[._]+/g, " "));
  return unit ? `${text} (${unit})` : text;
}

/** A text that begins with a capital. */
export const capital = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

/** From so many of its own unit on a column of times is written in seconds. */
const LONG = 1e6;

/** By what the times of a column are divided, and its heading with the unit that they have then. */
export function inUnitOf(largest: number | null, name: string, title: string): [number, string] {
  const perSecond = name.endsWith("_us") ? 1e6 : name.endsWith("_ms") ? 1e3 : 1;
  if (perSecond === 1 || largest === null || largest < LONG) return [1, title];
  return [perSecond, title.replace(/\((µs|ms)\)$/, "(s)")];
}

/** A time in microseconds, in the unit that suits it. */
export function lasting(us: number | null | undefined): string {
  return duration(us && us * 1e6);
}

const MOMENTS = new Intl.NumberFormat("en", { minimumFractionDigits: 3, maximumFractionDigits: 6 });

/** A place in time: ms as on the axis, to the nanosecond, however late it is. */
export function moment(ps: number): string {
  return `${MOMENTS.format(ps / 1e9).replace("-", "−")} ms`;
}

/** Units of time and their picoseconds, the largest first. */
export const TIMES: [number, string][] = [[1e12, "s"], [1e9, "ms"], [1e6, "µs"], [1e3, "ns"]];

/** Writes times in picoseconds in the unit and with the decimals of the longest of them. */
export function oneUnit(all: number[]): (ps: number) => string {
  const longest = Math.max(...all, 0);
  const [size, unit] = TIMES.find(([size]) => longest >= size) ?? [1, "ps"];
  const digits = all.every((ps) => ps % size === 0) ? 0 : decimals(longest / size);
  return (ps) => `${number(ps / size, digits)} ${unit}`;
}

/** A time in picoseconds, in the unit that suits it. */
export function duration(ps: number | null | undefined): string {
  if (ps === null || ps === undefined) return UNKNOWN;
  const [size, unit] = TIMES.find(([size]) => Math.abs(ps) >= size) ?? [1, "ps"];
  return `${number(ps / size)} ${ps === 0 ? "s" : unit}`;
}
