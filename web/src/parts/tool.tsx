// A tool's page around its data: waiting, refused, unavailable, and what is missing.
import { createContext, type ComponentChildren } from "preact";
import { useContext, useEffect } from "preact/hooks";

import { useTool, type Options, type ToolAnswer } from "../data/client";
import type { Missing, Results } from "../data/made/types";
import { learn } from "../data/runs";
import { Absent, MissingFields, Show } from "./unavailable";

interface Around {
  tool: keyof Results;
  options: Options;
  missing: Missing[];
  data: unknown;
}

const Context = createContext<Around>({ tool: "overview_page", options: {}, missing: [], data: null });

/** The tool whose answer is being shown, and which of its fields are null and why. */
export const useAround = () => useContext(Context);

export function ToolPage<T extends keyof Results>(props: {
  tool: T;
  /** What would be here, for a profile that lacks it. */
  what: string;
  options?: Options;
  children: (data: Results[T], envelope: ToolAnswer<Results[T]>) => ComponentChildren;
}) {
  const options = props.options ?? {};
  const answer = useTool(props.tool, options);
  const why = answer.state === "ready" && Object.keys(options).length === 0 ? answer.value.unavailable : null;
  // The navigation marks all pages without data, whichever is visited first.
  useEffect(() => {
    if (answer.state === "ready") void learn(why && { [props.tool]: why });
  }, [answer]);
  return (
    <Show answer={answer}>
      {(envelope) =>
        envelope.data === null ? (
          <Absent what={props.what} why={envelope.unavailable!} />
        ) : (
          <Context.Provider value={{ tool: props.tool, options, missing: envelope.missing, data: envelope.data }}>
            {props.children(envelope.data, envelope)}
            <MissingFields missing={envelope.missing} />
          </Context.Provider>
        )
      }
    </Show>
  );
}
