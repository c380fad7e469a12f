import { describe, expect, it } from "vitest";

import { stepShift } from "./model";

const run = (begin_ps: number, ...starts: number[]) => ({
  begin_ps,
  steps: starts.map((start_ps, k) => ({ number: k, kind: "marker", start_ps, end_ps: null, outlier: false })),
});

describe("a run below another one", () => {
  const above = run(0, 100, 200, 350);
  const below = run(0, 1100, 1300, 1400);

  it.each([
    [0, -1000], [100, -1000], [199, -1000], [200, -1100], [349, -1100], [350, -1050], [900, -1050],
  ])("begins the step at %d where the same step begins above", (at, by) =>
    expect(stepShift(above, below, at)).toBe(by));

  it("stays at the last step that both have", () => {
    expect(stepShift(above, run(0, 10, 20), 400)).toBe(180);
    expect(stepShift(run(0, 10, 20), above, 400)).toBe(-180);
  });

  it("begins where the other begins if one has no steps", () => {
    expect(stepShift(run(70), below, 100)).toBe(70);
    expect(stepShift(above, run(30), 100)).toBe(-30);
  });
});
