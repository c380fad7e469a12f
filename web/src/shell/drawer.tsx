// One details drawer for all pages.
import { useEffect, useRef } from "preact/hooks";

import { close, details } from "../parts/details";

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
