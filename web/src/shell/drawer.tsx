// One details drawer for all pages: what a number is, and where its evidence stands.
import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

import { Help } from "./keys";

export interface Details {
  title: string;
  body: ComponentChildren;
}

export const drawer = signal<Details | null>(null);

let opener: Element | null = null;

export function open(details: Details): void {
  if (!drawer.value) opener = document.activeElement;
  drawer.value = details;
}

export function Drawer() {
  const shown = drawer.value;
  const place = useRef<HTMLElement>(null);
  useEffect(() => {
    if (shown) place.current?.focus({ preventScroll: true });
    else (opener as HTMLElement | null)?.focus?.();
  }, [shown]);
  return (
    <>
      {shown && (
        <aside ref={place} class="drawer" tabIndex={-1} aria-label="Details">
          <button class="close" onClick={() => (drawer.value = null)}>
            Close
          </button>
          <h2>{shown.title}</h2>
          {shown.body}
        </aside>
      )}
      <Help />
    </>
  );
}
