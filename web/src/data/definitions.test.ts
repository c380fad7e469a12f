import { beforeAll, describe, expect, it, vi } from "vitest";

type Module = typeof import("./definitions");
let definitions: Module;

beforeAll(async () => {
  // What the module's neighbours read of a window when they are loaded.
  vi.stubGlobal("location", { hash: "" });
  vi.stubGlobal("addEventListener", () => undefined);
  definitions = await import("./definitions");
});

const ALL = {
  shared: ["Greatest value."],
  tools: { page: { step: "Time of a step.", "step.max": 0 } },
};

describe("a definition", () => {
  it("is that of the nearest part that has one", () => {
    expect(definitions.definition(ALL, "page", "step.mean.nothing")).toBe("Time of a step.");
    expect(definitions.definition(ALL, "page", "step")).toBe("Time of a step.");
  });

  it("may be shared by many fields", () => {
    expect(definitions.definition(ALL, "page", "step.max")).toBe("Greatest value.");
  });

  it("is absent for what nobody defined", () => {
    expect(definitions.definition(ALL, "page", "other")).toBeUndefined();
    expect(definitions.definition(ALL, "nowhere", "step")).toBeUndefined();
  });
});
