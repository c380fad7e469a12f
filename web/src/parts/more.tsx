// Long lists show their first rows until the others are asked for.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

import { number } from "../format";

/** The rows that are shown, and a button for the others where there are any. */
export function useFirst<T>(rows: T[], most: number): [T[], ComponentChildren] {
  const [all, show] = useState(false);
  if (rows.length <= most) return [rows, null];
  const button = (
    <button class="link" aria-expanded={all} onClick={() => show(!all)}>
      {all ? `only the ${most} largest` : `${number(rows.length - most)} more`}
    </button>
  );
  return [all ? rows : rows.slice(0, most), button];
}
