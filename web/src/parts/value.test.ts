import { beforeAll, describe, expect, it, vi } from "vitest";

type Module = typeof import("./value");
let value: Module;

beforeAll(async () => {
  // What the module's neighbours read of a window when they are loaded.
  vi.stubGlobal("location", { hash: "" });
  vi.stubGlobal("addEventListener", () => undefined);
  vi.stubGlobal("localStorage", { getItem: () => null });
  vi.stubGlobal("matchMedia", () => ({ addEventListener: () => undefined }));
  vi.stubGlobal("document", { documentElement: { dataset: {} } });
  value = await import("./value");
});

function entry(field: string) {
  return { field, code: "C", reason: `why ${field}`, remedy: "do" };
}

describe("the reason of a missing field", () => {
  it("is its own before that of the part it belongs to", () => {
    const missing = [entry("peak"), entry("peak.free_bytes")];
    expect(value.reasonFor("peak.free_bytes", missing)?.reason).toBe("why peak.free_bytes");
    expect(value.reasonFor("peak.time_ms", missing)?.reason).toBe("why peak");
  });

  it("covers every row of a list", () => {
    expect(value.reasonFor("rows.occupancy", [entry("rows[3].occupancy")])?.reason).toBe("why rows[3].occupancy");
  });

  it("is not another field's whose name begins alike", () => {
    expect(value.reasonFor("peak_ms", [entry("peak")])).toBeUndefined();
    expect(value.reasonFor("peak", [entry("peak.free")])).toBeUndefined();
  });
});
