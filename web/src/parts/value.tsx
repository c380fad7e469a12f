// A number that explains itself: its definition and its inputs, or why it is not there. It stands
// in a sentence, on a card, or in a row of a table.
import type { ComponentChildren } from "preact";

import { upwards, useDefinition } from "../data/definitions";
import type { Cell, Missing } from "../data/made/types";
import { byName, UNKNOWN, unitOf } from "../format";
import { open } from "./details";
import { Fact } from "./panel";
import { Prose } from "./prose";
import { useAround } from "./tool";

export interface Valued {
  /** Path of the field in the tool's answer. */
  field: string;
  /** Its name on the screen. */
  title: string;
  /** The number in words, as `format` gives it. */
  shown: string;
  /** The exact number. */
  exact?: number | string | null | undefined;
  /** Where the events or rows of the number are shown. */
  evidence?: ComponentChildren;
}

export function Value({ field, title, shown, exact, evidence }: Valued) {
  const { tool, missing } = useAround();
  const why = shown === UNKNOWN ? reasonFor(field, missing) : undefined;
  return (
    <button
      class={shown === UNKNOWN ? "value unknown" : "value"}
      data-field={field}
      data-exact={exact ?? undefined}
      title={why?.reason ?? exact?.toString()}
      onClick={() => open({ title, body: <Explained {...{ field, tool, exact, why, evidence }} /> })}
    >
      {shown}
    </button>
  );
}

/** The entry of a field, or of the part of the answer that it belongs to. */
export function reasonFor(field: string, missing: Missing[]): Missing | undefined {
  const bare = (each: Missing) => each.field.replaceAll(/\[[^\]]*\]/g, "");
  return upwards(field).flatMap((path) => missing.find((each) => bare(each) === path) ?? [])[0];
}

function Explained({ field, tool, exact, why, evidence }: Pick<Valued, "field" | "exact" | "evidence"> & { tool: string; why: Missing | undefined }) {
  const definition = useDefinition(tool, field);
  return (
    <dl>
      <Fact name="Field"><code>{tool}: {field}</code></Fact>
      {definition && <Fact name="Definition">{definition}</Fact>}
      {exact !== undefined && exact !== null && <Fact name="Exact value">{typeof exact === "number" ? `${exact} ${unitOf(field)}`.trim() : exact}</Fact>}
      {why && <Fact name="Not measured"><Prose text={`${why.reason} ${why.remedy}`} /></Fact>}
      {evidence && <Fact name="Evidence">{evidence}</Fact>}
    </dl>
  );
}

type Named = Omit<Valued, "shown" | "exact"> & {
  /** What stands above or beside the number, where it is not the number's title. */
  name?: string;
  exact: Exclude<Cell, boolean>;
  /** The number in words; by the unit in the field's name where absent. */
  shown?: string;
};

export function Card(of: Named) {
  return (
    <li>
      <h2>{of.name ?? of.title}</h2>
      <Value {...of} shown={of.shown ?? byName(of.field, of.exact)} />
    </li>
  );
}

export function Line(of: Named) {
  return (
    <tr>
      <th scope="row">{of.name ?? of.title}</th>
      <td class={typeof of.exact === "string" ? undefined : "number"}>
        <Value {...of} shown={of.shown ?? byName(of.field, of.exact)} />
      </td>
    </tr>
  );
}

/** A small table, mostly of lines. */
export function Lines({ caption, label, children }: { caption?: ComponentChildren; label?: string; children: ComponentChildren }) {
  return (
    <table class="twin" aria-label={label}>
      {caption && <caption>{caption}</caption>}
      <tbody>{children}</tbody>
    </table>
  );
}
