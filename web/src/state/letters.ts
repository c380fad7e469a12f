// Single-letter keys can be switched off, for readers whose tools send them.
import { signal } from "@preact/signals";

export const letters = signal(true);
