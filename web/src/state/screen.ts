// What the window is like: its width, what points at it, and which keys it has.
import { signal, type ReadonlySignal } from "@preact/signals";

/** Narrower than this, the navigation folds into a menu; shell.css has the same width. */
export const narrow = matched("(max-width: 800px)");
/** Fingers point here, which have no keys and do not hover. */
export const touch = matched("(pointer: coarse)");
/** Single-letter keys can be switched off, for readers whose tools send them. */
export const letters = signal(true);

function matched(query: string): ReadonlySignal<boolean> {
  const list = matchMedia(query);
  const now = signal(list.matches);
  list.addEventListener("change", () => (now.value = list.matches));
  return now;
}
