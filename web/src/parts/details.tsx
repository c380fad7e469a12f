// One drawer for all pages: what a number is, and where its evidence is.
import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

interface Details {
  title: string;
  body: ComponentChildren;
}

const details = signal<Details | null>(null);

let opener: Element | null = null;

export function open(next: Details): void {
  if (!details.value) opener = document.activeElement;
  details.value = next;
}

/** The focus goes back to what opened the drawer. */
export function close(): void {
  if (!details.value) return;
  details.value = null;
  (opener as HTMLElement | null)?.focus?.();
}

export function Drawer() {
  const shown = details.value;
  const place = useRef<HTMLElement>(null);
  useEffect(() => {
    if (shown) place.current?.focus({ preventScroll: true });
  }, [shown]);
  if (!shown) return null;
  return (
    <aside ref={place} class="drawer" tabIndex={-1} aria-label="Details">
      <button class="close" onClick={close}>Close</button>
      <h2>{shown.title}</h2>
      {shown.body}
    </aside>
  );
}
