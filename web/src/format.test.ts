import { describe, expect, it } from "vitest";

import { byName, counted, decimals, heading, inUnitOf, moment, ms, number, percent, singular, size, UNKNOWN, unitOf, us } from "./format";

const GIB = 2 ** 30;

describe("what was not measured", () => {
  it.each([
    ["number", number], ["ms", ms], ["us", us], ["percent", percent], ["size", size],
  ] as const)("is never a number: %s", (_, show) => {
    expect(show(null)).toBe(UNKNOWN);
    expect(show(undefined)).toBe(UNKNOWN);
    expect(show(0)).not.toBe(UNKNOWN);
  });

  it("has its own sign in a table too", () => {
    for (const name of ["total_us", "percent", "name", "bytes"]) expect(byName(name, null)).toBe(UNKNOWN);
  });
});

describe("places in time", () => {
  it.each([
    [3.42e9, "3.420 ms"], [25_494_972_013_000, "25,494.972013 ms"], [1000, "0.000001 ms"], [0, "0.000 ms"], [-1.5e9, "−1.500 ms"],
  ])("%d ps are at %s", (ps, text) => expect(moment(ps)).toBe(text));
});

describe("numbers", () => {
  it.each([
    [0, "0"], [1, "1"], [1234567, "1,234,567"], [-12, "−12"],
    [1234.5, "1,235"], [123.45, "123.5"], [12.345, "12.35"], [0.12345, "0.123"], [0.012345, "0.0123"], [0.0999999, "0.100"], [99.9999, "100.0"],
    [0.00001, "0.000010"], [-0.00001, "−0.000010"],
  ])("%d reads %s", (value, text) => expect(number(value)).toBe(text));

  it("never rounds to zero what is not", () => {
    for (let power = -12; power <= 12; power++) {
      expect(Number(number(1.5 * 10 ** power).replaceAll(",", ""))).not.toBe(0);
    }
  });

  it.each([
    [800, 1, "800.0"], [0, 2, "0"], [0.0000076, 2, "<0.01"], [-0.0000076, 2, ">−0.01"], [25.02, 2, "25.02"],
    [3, 0, "3"], [0.2, 0, "<1"],
  ])("%d with the %d decimals of its column reads %s", (value, digits, text) =>
    expect(number(value, digits)).toBe(text));

  it("gives a column the decimals that its largest needs, at most three", () => {
    expect([null, 0, 0.5, 25, 500, 5000].map(decimals)).toEqual([0, 0, 3, 2, 1, 0]);
  });

  it("counts in the singular and in the plural", () => {
    expect([0, 1, 2].map((n) => counted(n, "step"))).toEqual(["0 steps", "1 step", "2 steps"]);
    expect(["ops", "copies", "launches", "batch sizes"].map(singular)).toEqual(["op", "copy", "launch", "batch size"]);
  });

  it("carries its unit", () => {
    expect(ms(1.5)).toBe("1.50 ms");
    expect(us(1500)).toBe("1,500 µs");
  });
});

describe("shares", () => {
  it.each([
    [0, "0 %"], [0.04, "<0.1 %"], [0.1, "0.1 %"], [99.96, ">99.9 %"], [100, "100.0 %"], [-0.04, ">−0.1 %"], [63, "63.0 %"],
  ])("%d reads %s", (value, text) => expect(percent(value)).toBe(text));
});

describe("sizes", () => {
  it.each([
    [0, "0 B"], [1, "1 B"], [1536, "1.50 KiB"], [GIB, "1.00 GiB"], [-GIB / 4, "−256.0 MiB"], [15466496, "14.75 MiB"],
  ])("%d reads %s", (value, text) => expect(size(value)).toBe(text));

  it.each([
    [0, "0 MiB"], [1, "<0.01 MiB"], [-1, ">−0.01 MiB"], [2 ** 19, "0.50 MiB"], [null, "–"],
  ])("%d beside 15 MiB reads %s", (value, text) => expect(size(value, 15 * 2 ** 20)).toBe(text));
});

describe("a cell by the name of its column", () => {
  it.each([
    ["self_percent", 12.34, "12.3 %"], ["total_us", 800, "800"], ["uses_tensor_core", true, "yes"],
    ["uses_tensor_core", false, "no"], ["name", "<b>", "<b>"], ["name", "", ""],
  ])("%s %s reads %s", (name, value, text) => expect(byName(name, value)).toBe(text));
});

describe("headings", () => {
  it.each([
    ["kernel_name", "Kernel name"],
    ["total_us", "Total (µs)"],
    ["shared_memory_bytes", "Shared memory (bytes)"],
    ["self_percent", "Self (%)"],
    ["breakdown_ms.input", "Breakdown input (ms)"],
    ["latency_ms.p99", "Latency p99 (ms)"],
  ])("%s reads %s", (name, text) => expect(heading(name)).toBe(text));
});

describe("long times of a column", () => {
  it.each([
    ["total_us", 77_773_216, [1e6, "Total (s)"]], ["total_us", 999_999, [1, "Total (µs)"]], ["total_us", null, [1, "Total (µs)"]],
    ["latency_ms", 2_000_000, [1e3, "Latency (s)"]], ["occurrences", 5e9, [1, "Occurrences"]],
  ])("%s up to %s", (name, largest, found) => expect(inUnitOf(largest, name, heading(name))).toEqual(found));
});

describe("the unit of a field", () => {
  it.each([
    ["step_time_ms.mean", "ms"], ["breakdown_percent.input", "%"], ["memories.cpu.peak.heap_bytes", "bytes"], ["occurrences", ""],
  ])("%s has %s", (field, unit) => expect(unitOf(field)).toBe(unit));
});
