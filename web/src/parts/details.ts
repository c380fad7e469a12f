// What the drawer shows: what a number is, and where its evidence is.
import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";

export interface Details {
  title: string;
  body: ComponentChildren;
}

export const details = signal<Details | null>(null);

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
