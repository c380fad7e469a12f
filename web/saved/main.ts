// Answers what the page fetches from the data in its file. Runs before the page's own script.
import { arrange, asCsv, type Table } from "./tables";
import { Timeline } from "./timeline";

type Answers = Record<string, unknown>;
/** An answer, or bytes of a frame. */
type Answer = object | ArrayBuffer;

/** What of an address tells no two answers of a file apart. */
const LEFT_OUT = ["run", "version"];
/** What a table is asked in, which is done here. */
const ORDER = ["sort", "descending", "q", "offset", "limit"];
const NO_TEXT = "The file has no program text: `stepscope serve LOGDIR --source DIR` shows it.";
const NOT_HERE = "This file does not contain it. Open the recording itself with `stepscope serve`.";

class NotHere extends Error {}

async function unpack(name: string): Promise<ArrayBuffer> {
  const text = document.getElementById(`data-${name}`)!.textContent!;
  const packed = Uint8Array.from(atob(text), (each) => each.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

const answers = unpack("answers").then((bytes) => JSON.parse(new TextDecoder().decode(bytes)) as Answers);
const timelines = new Map<string, Promise<Timeline>>();

/** The timeline of a host. */
async function timelineOf(host: string): Promise<Timeline> {
  const known = await answers;
  let found = timelines.get(host);
  if (!found) {
    const catalogue = known[`data/trace/catalogue?${new URLSearchParams({ host })}`];
    if (!catalogue) throw new NotHere(NOT_HERE);
    const number = hostsOf(known).indexOf(host);
    found = Promise.all([unpack(`slices-${number}`), unpack(`counters-${number}`)]).then(
      ([slices, counters]) => new Timeline(catalogue as Timeline["catalogue"], slices, counters),
    );
    timelines.set(host, found);
  }
  return found;
}

function hostsOf(known: Answers): string[] {
  return (known["data/runs"] as { runs: [{ hosts: string[] }] }).runs[0].hosts;
}

/** The address in the form in which it is stored. */
function stored(path: string, given: URLSearchParams, without: string[] = []): string {
  const kept = [...given].filter(([name]) => !without.includes(name)).sort(([one], [other]) => (one < other ? -1 : 1));
  const query = new URLSearchParams(kept).toString();
  return query ? `${path}?${query}` : path;
}

async function answer(path: string, given: URLSearchParams): Promise<Answer> {
  const known = await answers;
  for (const name of LEFT_OUT) given.delete(name);
  if (hostsOf(known).every((each) => given.getAll("hosts").includes(each))) given.delete("hosts");
  if (/\/(trace\/(?!longest)|explain)/.test(path) && !given.has("host")) given.set("host", hostsOf(known)[0]!);
  const view = given.get("view");
  if (path.endsWith("/model_views") && !given.has("op")) given.delete("view");
  const exact = known[stored(path, given)];
  if (exact) return viewed(exact as Viewed, view);
  if (path.startsWith("data/table/")) {
    const table = known[stored(path, given, ORDER)];
    if (table) return arrange(table as Table, given);
  }
  if (path === "data/source") return { file: given.get("file"), text: null, path: null, changed: false, reason: NO_TEXT };
  if (path.startsWith("data/trace/") && given.has("host")) {
    const told = (await timelineOf(given.get("host")!)).answer(path.replace("data/trace/", ""), given);
    if (told) return told;
  }
  throw new NotHere(NOT_HERE);
}

/** An answer that has all views of a model, and the chosen one. */
interface Viewed {
  data?: { view?: string } | null;
}

function viewed(told: Viewed, view: string | null): Viewed {
  return view && view !== "scope" && told.data?.view ? { ...told, data: { ...told.data, view } } : told;
}

/** Path and options of an address of the page; null for any other address. */
function split(where: string): [string, URLSearchParams] | null {
  const [path, query] = where.split("?");
  const own = /(^|\/)(data\/.*|definitions\.json)$/.exec(path ?? "");
  return own ? [own[2]!, new URLSearchParams(query)] : null;
}

window.fetch = async (where) => {
  const asked = split(String(where));
  try {
    if (!asked) throw new NotHere(NOT_HERE);
    const told = await answer(...asked);
    return new Response(told instanceof ArrayBuffer ? told : JSON.stringify(told));
  } catch (error) {
    if (!(error instanceof NotHere)) throw error;
    return new Response(JSON.stringify({ error: { code: "not_in_file", message: error.message } }), { status: 404 });
  }
};

// A table is exported from the file; its link names an address of a server.
addEventListener("click", async (event) => {
  const link = (event.target as Element).closest?.("a[download]");
  const asked = link && split(link.getAttribute("href") ?? "");
  if (!asked?.[0].startsWith("data/csv/")) return;
  event.preventDefault();
  const [path, given] = asked;
  const table = (await answer(path.replace("/csv/", "/table/"), given)) as Table;
  const held = document.createElement("a");
  held.href = URL.createObjectURL(new Blob([asCsv(table)], { type: "text/csv" }));
  held.download = `${table.tool}-${table.table || "table"}.csv`;
  held.click();
  URL.revokeObjectURL(held.href);
}, true);

// In a notebook the page is a document without an address, which has a fragment only: links
// and entries of the history would lead to the notebook.
if (location.protocol === "about:") {
  addEventListener("click", (event) => {
    const to = (event.target as Element).closest?.("a")?.getAttribute("href");
    if (!to?.startsWith("#")) return;
    event.preventDefault();
    location.hash = to;
  });
  const go = (_: unknown, __: string, to?: string | URL | null) => void (location.hash = String(to));
  history.pushState = go;
  history.replaceState = go;
}
