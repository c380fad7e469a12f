// A chart and its table: the same numbers, one click or the T key apart.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

import { Prose } from "../parts/prose";

interface Props {
  title: string;
  /** What the chart shows, for screen readers. */
  summary?: string;
  /** The chart's numbers as a table. */
  table: ComponentChildren;
  /** Choices that belong to the chart. */
  controls?: ComponentChildren;
  children: ComponentChildren;
}

export function Chart({ title, summary, table, controls, children }: Props) {
  const [asTable, show] = useState(false);
  return (
    <figure class="chart">
      <figcaption>
        <h2>{title}</h2>
        <span class="grow" />
        {controls}
        <button data-twin aria-pressed={asTable} onClick={() => show(!asTable)}>
          {asTable ? "As a chart" : "As a table"}
        </button>
      </figcaption>
      {summary && <p class="summary"><Prose text={summary} /></p>}
      {asTable ? table : children}
    </figure>
  );
}

/** Names of columns; those of numbers stand above their right ends. */
export function Head({ of, numbers = [] }: { of: readonly string[]; numbers?: readonly string[] }) {
  return (
    <thead>
      <tr>
        {of.map((text) => (
          text === "" ? <td key={text} /> : <th key={text} scope="col" class={numbers.includes(text) ? "number" : undefined}>{text}</th>
        ))}
      </tr>
    </thead>
  );
}

/** A small table of what a chart shows, for numbers that are no table of the tool. */
export function Twin(props: { caption: string; head: string[]; rows: (string | number)[][] }) {
  return (
    <table class="twin">
      <caption>{props.caption}</caption>
      <Head of={props.head} />
      <tbody>
        {props.rows.map((row, index) => (
          <tr key={index}>
            {row.map((cell, k) => (k === 0 ? <th key={k} scope="row">{cell}</th> : <td key={k} class="number">{cell}</td>))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
