// Light or dark: the system's choice until the reader makes one. Storage may be refused in a
// sandboxed frame; the choice then lasts as long as the page.
import { signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";
const KEY = "stepscope.theme";

export const theme = signal<Theme>(stored());
/** Grows when colours change, for what is drawn on a canvas. */
export const painted = signal(0);

export function setTheme(next: Theme): void {
  theme.value = next;
  try {
    localStorage.setItem(KEY, next);
  } catch {
    // kept in memory
  }
  apply();
}

function stored(): Theme {
  try {
    const value = localStorage.getItem(KEY);
    return value === "light" || value === "dark" ? value : "system";
  } catch {
    return "system";
  }
}

const dark = matchMedia("(prefers-color-scheme: dark)");

function apply(): void {
  const ofSystem = dark.matches ? "dark" : "light";
  document.documentElement.dataset.theme = theme.value === "system" ? ofSystem : theme.value;
  painted.value += 1;
}

/** The colour that a token has now. */
export function colour(token: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${token}`).trim();
}

dark.addEventListener("change", apply);
apply();
