import { beforeEach, describe, expect, it, vi } from "vitest";

type Url = typeof import("./url");

/** A window of which the module needs only its address and its history. */
async function opened(hash = ""): Promise<{ url: Url; steps: string[]; fire: (hash: string) => void }> {
  vi.resetModules();
  const steps: string[] = [];
  const place = { hash };
  const listeners: Record<string, () => void> = {};
  vi.stubGlobal("location", place);
  vi.stubGlobal("history", {
    state: null,
    pushState: (_: unknown, __: string, next: string) => {
      steps.push(`push ${next}`);
      place.hash = next;
    },
    replaceState: (_: unknown, __: string, next: string) => {
      steps.push(`replace ${next}`);
      place.hash = next;
    },
  });
  vi.stubGlobal("addEventListener", (name: string, does: () => void) => (listeners[name] = does));
  const url = await import("./url");
  return {
    url,
    steps,
    fire: (next) => {
      place.hash = next;
      listeners.popstate!();
    },
  };
}

describe("the state in the address", () => {
  let url: Url;
  beforeEach(async () => ({ url } = await opened()));

  it("is the same after a way there and back", () => {
    const state = { page: "ops", run: "0123456789ab", op: "a/b c&d=e#f%", q: "<b>", idle: "true" };
    expect(url.parse(url.fragment(state))).toEqual(state);
  });

  it("ignores names that it does not know, and empty values", () => {
    expect(url.parse("#page=ops&colour=red&q=&constructor=x&__proto__=y")).toEqual({ page: "ops" });
  });

  it("does not fail on text that is no state", () => {
    for (const text of ["", "#", "#&&&", "#=", "#%ff", "#page", "###page=ops"]) {
      expect(() => url.parse(text)).not.toThrow();
    }
  });

  it("has one form, whatever the order", () => {
    expect(url.fragment({ run: "r", page: "p" })).toBe(url.fragment({ page: "p", run: "r" }));
    expect(url.fragment({})).toBe("#");
    expect(url.fragment({ page: "p", q: "" })).toBe("#page=p");
  });
});

describe("hosts in the address", () => {
  it.each([[["a"]], [["a", "b"]], [["a,b", "c"]], [["100%", "é ü"]], [["%2C"]]])("keeps %j", async (names) => {
    const { url } = await opened();
    expect(url.split(url.join(names))).toEqual(names);
    const { url: again } = await opened(url.fragment({ hosts: url.join(names) }));
    expect(again.hosts.value).toEqual(names);
  });

  it("reads names that were never escaped", async () => {
    const { url } = await opened();
    expect(url.split("100%,b")).toEqual(["100%", "b"]);
    expect(url.split(undefined)).toEqual([]);
  });
});

describe("going elsewhere", () => {
  it("begins with the findings", async () => {
    expect((await opened()).url.page.value).toBe("findings");
  });

  it.each([
    ["kernel_stats", "kernel_stats"],
    ["kernels", "kernel_stats"],
    ["tfdata", "tf_data_bottleneck_analysis"],
    ["findings", "findings"],
    ["constructor", "constructor"],
  ])("finds %s by the name of its tool or a short one", async (named, page) => {
    expect((await opened(`#page=${named}`)).url.page.value).toBe(page);
  });

  it("keeps run and hosts, and drops what belongs to one page", async () => {
    const { url } = await opened("#page=ops&run=r&hosts=a&op=x&q=y");
    expect(url.parse(url.link({ page: "kernels" }))).toEqual({ page: "kernels", run: "r", hosts: "a" });
  });

  it("is a step for Back only when asked to be", async () => {
    const { url, steps } = await opened("#page=ops");
    url.change({ q: "a" });
    url.change({ op: "x" }, { push: true });
    expect(steps).toEqual(["replace #page=ops&q=a", "push #page=ops&op=x&q=a"]);
    expect(url.state.value).toEqual({ page: "ops", op: "x", q: "a" });
  });

  it("takes away what is set to nothing, and does nothing twice", async () => {
    const { url, steps } = await opened("#page=ops&q=a");
    url.change({ q: "" });
    url.change({ q: "" });
    expect(steps).toEqual(["replace #page=ops"]);
  });

  it("follows the reader's Back", async () => {
    const { url, fire } = await opened("#page=framework_op_stats");
    fire("#page=kernel_stats");
    expect(url.page.value).toBe("kernel_stats");
  });
});
