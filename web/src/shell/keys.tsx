// The page's keys. Single letters can be switched off, for readers whose tools send them.
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";

import { close } from "../parts/details";
import { Dialog } from "../parts/dialog";
import { Check } from "../parts/pick";
import { letters } from "../state/screen";
import { page } from "../state/url";
import { KEYS as TIMELINE } from "../trace/keys";

export const help = signal(false);

const KEYS: [string, string][] = [
  ["?", "Show this list"],
  ["/", "Go to the page's first filter"],
  ["T", "Show the first chart as a table, or again as a chart"],
  ["Esc", "Close the open dialog"],
];

export function useKeys(): void {
  useEffect(() => {
    const stop = new AbortController();
    addEventListener("keydown", pressed, stop);
    addEventListener("beforeprint", () => unfold(true), stop);
    addEventListener("afterprint", () => unfold(false), stop);
    addEventListener("pointerdown", (event) => closeLists(event.target as Element), stop);
    return () => stop.abort();
  }, []);
}

function pressed(event: KeyboardEvent): void {
  if (event.defaultPrevented) return;
  if (event.key === "Escape" && !closeLists(null)) close();
  const inField = (event.target as Element).closest("input, select, textarea");
  if (inField || !letters.value || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "?") help.value = true;
  else if (event.key === "/") {
    event.preventDefault();
    document.querySelector<HTMLInputElement>("main input[type=search]")?.focus();
  } else if (event.key === "t" || event.key === "T") {
    document.querySelector<HTMLButtonElement>("main button[data-twin]")?.click();
  }
}

let folded: HTMLDetailsElement[] = [];

/** Paper cannot be unfolded: what is folded is printed too, and folded again afterwards. */
function unfold(open: boolean): void {
  if (open) folded = [...document.querySelectorAll<HTMLDetailsElement>("main details:not([open], .choose)")];
  for (const each of folded) each.open = open;
}

/** Close the lists that unfold over the page, but for the one around an element; whether there was one. */
function closeLists(around: Element | null): boolean {
  const open = [...document.querySelectorAll<HTMLDetailsElement>("details.choose[open]")].filter((list) => !list.contains(around));
  for (const list of open) {
    if (list.contains(document.activeElement)) list.querySelector("summary")!.focus();
    list.open = false;
  }
  return open.length > 0;
}

export function Help() {
  return (
    <Dialog label="Keys" onClose={() => (help.value = false)}>
      <h2>Keys</h2>
      <dl>
        {[...KEYS, ...(page.value === "trace_viewer" ? TIMELINE : [])].map(([key, does]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
      <Check label="Single-letter keys" on={letters.value} onToggle={(on) => (letters.value = on)} />
      <p>
        Click a number to see its definition. “–” means not measured:
        click “–” to see the reason.
      </p>
      <form method="dialog">
        <button>Close</button>
      </form>
    </Dialog>
  );
}
