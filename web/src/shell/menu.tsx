// On a narrow window: what the bar has no room for, and the navigation, behind one button.
import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";

import { page, run, state } from "../state/url";
import { Nav } from "./nav";

const open = signal(false);

export function Menu({ children }: { children: ComponentChildren }) {
  const place = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const { base } = state.value;
  const close = () => void (open.value = false);
  // A page or a run was chosen: show it, unless a dialog of the menu still says something.
  useEffect(() => () => document.querySelector("dialog[open]") || close(), [page.value, run.value, base]);
  // Before the next event, so that no click beside the open menu is missed.
  useLayoutEffect(() => {
    if (!open.value) return undefined;
    const stop = new AbortController();
    const outside = (event: Event) => {
      if (!place.current!.contains(event.target as Element)) close();
    };
    const escape = (event: KeyboardEvent) => {
      if (event.key !== "Escape" || document.querySelector("dialog[open]")) return;
      close();
      button.current!.focus();
    };
    addEventListener("pointerdown", outside, stop);
    addEventListener("keydown", escape, stop);
    return () => stop.abort();
  }, [open.value]);
  const chosen = (event: Event) => {
    if (!(event.target as Element).closest("nav a")) return;
    close();
    document.getElementById("content")?.focus();
    scrollTo(0, 0);
  };
  return (
    <div class="menu" ref={place}>
      <button ref={button} aria-expanded={open.value} aria-controls="menu" onClick={() => (open.value = !open.value)}>
        Menu
      </button>
      <div id="menu" hidden={!open.value} onClick={chosen}>
        <Nav />
        <div class="controls">{children}</div>
      </div>
    </div>
  );
}
