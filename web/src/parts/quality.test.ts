import { describe, expect, it } from "vitest";

import type { Doubt } from "../data/made/types";
import { together } from "./quality";

const doubt = (host: string | null, message: string) => ({ host, message, remedy: null, severity: "info" }) as unknown as Doubt;

describe("remarks on several hosts", () => {
  it("are one where only their numbers differ", () => {
    const told = together([doubt("a", "420 of 2,462 events."), doubt("b", "393 of 2,529 events."), doubt("b", "Cut.")]);
    expect(told).toEqual([
      { text: "420 of 2,462 events.", hosts: ["a", "b"], differ: true },
      { text: "Cut.", hosts: ["b"], differ: false },
    ]);
  });

  it("are said alike where nothing differs", () => {
    expect(together([doubt("a", "Cut."), doubt("b", "Cut.")])).toEqual([{ text: "Cut.", hosts: ["a", "b"], differ: false }]);
  });

  it("stay apart without a host, and on one host", () => {
    expect(together([doubt(null, "1 gap."), doubt(null, "2 gaps.")])).toHaveLength(2);
    expect(together([doubt("a", "1 lost."), doubt("a", "2 lost.")])).toHaveLength(2);
  });
});
