// A number that explains itself: its definition and its inputs, or why it is not there.
import type { ComponentChildren } from "preact";

import { useDefinition } from "../data/definitions";
import type { Missing } from "../data/made/types";
import { UNKNOWN } from "../format";
import { open } from "./details";
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
  exact?: number | string | null;
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
      title={why ? why.reason : exact === undefined || exact === null ? undefined : String(exact)}
      onClick={() =>
        open({ title, body: <Explained {...{ field, tool, exact, why, evidence }} /> })
      }
    >
      {shown}
    </button>
  );
}

/** The entry of a field, or of the part of the answer that it belongs to. */
export function reasonFor(field: string, missing: Missing[]): Missing | undefined {
  const parts = field.split(".");
  for (let length = parts.length; length > 0; length--) {
    const path = parts.slice(0, length).join(".");
    const found = missing.find((each) => bare(each.field) === path);
    if (found) return found;
  }
  return undefined;
}

function bare(field: string): string {
  return field.replaceAll(/\[[^\]]*\]/g, "");
}

function Explained(props: {
  field: string;
  tool: string;
  exact?: number | string | null | undefined;
  why?: Missing | undefined;
  evidence?: ComponentChildren;
}) {
  const definition = useDefinition(props.tool, props.field);
  return (
    <dl>
      <dt>Field</dt>
      <dd>
        <code>{props.tool}: {props.field}</code>
      </dd>
      {definition && (
        <>
          <dt>Definition</dt>
          <dd>{definition}</dd>
        </>
      )}
      {props.exact !== undefined && props.exact !== null && (
        <>
          <dt>Exactly</dt>
          <dd>{String(props.exact)}</dd>
        </>
      )}
      {props.why && (
        <>
          <dt>Not measured</dt>
          <dd>
            <Prose text={`${props.why.reason} ${props.why.remedy}`} />
          </dd>
        </>
      )}
      {props.evidence && (
        <>
          <dt>Evidence</dt>
          <dd>{props.evidence}</dd>
        </>
      )}
    </dl>
  );
}
