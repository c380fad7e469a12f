import { beforeAll, describe, expect, it, vi } from "vitest";

type Module = typeof import("./chosen");
let chosen: Module;

beforeAll(async () => {
  // What the module's neighbours read of a window when they are loaded.
  vi.stubGlobal("location", { hash: "" });
  vi.stubGlobal("addEventListener", () => undefined);
  chosen = await import("./chosen");
});

describe("a choice", () => {
  it("is the same after a way through the address", () => {
    const all = [
      { kind: "span", track: 3, item: 1200 },
      { kind: "gap", track: 3, row: 0, at: 123456789012 },
      { kind: "folded", track: 1, row: 2, at: 5 },
      { kind: "counter", track: 7, at: 5 },
      { kind: "area", begin: 10, end: 20, tracks: [1, 4] },
      { kind: "area", begin: 10, end: 20, tracks: null },
    ] as const;
    for (const each of all) expect(chosen.parseChoice(chosen.choiceText(each as never))).toEqual(each);
  });

  it("is none where the address is damaged", () => {
    for (const text of [undefined, "", "x", "3", "3:", "3:x", "gap:1:2", "counter:1", "area:20:10", "area:1", "area:1:1e400", "3:1e400", "constructor:1"]) {
      expect(chosen.parseChoice(text), text).toBeNull();
    }
  });
});

describe("marks", () => {
  it("are the same after a way through the address, whatever the note says", () => {
    const marks = [
      { begin: 5, end: 5, note: "" },
      { begin: 10, end: 90, note: "slow, ~20 % more; see a-b" },
    ];
    expect(chosen.parseMarks(chosen.marksText(marks))).toEqual(marks);
  });

  it("that are damaged are left out", () => {
    expect(chosen.parseMarks("x,5,~note,7-9~a")).toEqual([
      { begin: 5, end: 5, note: "" },
      { begin: 7, end: 9, note: "a" },
    ]);
  });
});
