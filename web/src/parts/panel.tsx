// What pages are made of: parts in a frame below their heading, and lists of facts.
import type { ComponentChildren } from "preact";

export function Panel({ title, label, children }: { title: ComponentChildren; label?: string; children: ComponentChildren }) {
  return (
    <section class="panel" aria-label={label}>
      <h2>{title}</h2>
      {children}
    </section>
  );
}

/** A name and what is known under it, in a list of such. */
export function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </>
  );
}
