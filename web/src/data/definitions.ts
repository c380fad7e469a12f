// What every field means: a file beside the page, fetched when a reader first asks.
import { useEffect, useState } from "preact/hooks";

import { ask } from "./client";

/** Sentences by tool and field; a number is a place among the shared ones. */
export interface Definitions {
  shared: string[];
  tools: Record<string, Record<string, string | number>>;
}

let held: Promise<Definitions> | undefined;

/**
 * The sentence of a field; undefined until it is there, and where nobody wrote one. Without
 * a field nothing is fetched.
 */
export function useDefinition(tool: string, field: string | null): string | undefined {
  const [found, find] = useState<string>();
  useEffect(() => {
    if (field === null) return;
    held ??= ask<Definitions>("definitions.json");
    held.then(
      (all) => find(definition(all, tool, field)),
      // The next question asks the server again.
      () => (held = undefined),
    );
  }, [tool, field]);
  return found;
}

/** The sentence of a field, or of the nearest part above that has one. */
export function definition(all: Definitions, tool: string, field: string): string | undefined {
  const known = all.tools[tool] ?? {};
  const text = upwards(field).map((path) => known[path]).find((found) => found !== undefined);
  return typeof text === "number" ? all.shared[text] : text;
}

/** The path of a field, then those of the parts of the answer that hold it. */
export function upwards(field: string): string[] {
  const parts = field.split(".");
  return parts.map((_, k) => parts.slice(0, parts.length - k).join("."));
}
