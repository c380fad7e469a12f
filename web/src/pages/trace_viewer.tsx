// Trace: what ran when, on which thread and which stream.
import { useEffect } from "preact/hooks";

import { address, useAnswer } from "../data/client";
import type { Unavailable } from "../data/made/types";
import { notice } from "../data/runs";
import { Absent, Show } from "../parts/unavailable";
import { change, state } from "../state/url";
import type { Catalogue } from "../timeline/model";
import { Pane } from "../trace/pane";
import { about, spotted, type Longest } from "../trace/questions";

export function TraceViewer() {
  const { op, kernel, side, grid, block, unnamed } = state.value;
  return op || kernel ? <Arriving of={{ op, kernel, side, grid, block, unnamed }} /> : <Timeline />;
}

function Timeline() {
  const answer = useAnswer<Catalogue & { unavailable: Unavailable | null }>(about("trace/catalogue"));
  return (
    <Show answer={answer}>
      {(catalogue) =>
        catalogue.unavailable ? (
          <Absent what="every event on a timeline, by thread and by stream" why={catalogue.unavailable} />
        ) : (
          <Pane key={catalogue.host} catalogue={catalogue} />
        )
      }
    </Show>
  );
}

/** Goes on to the longest event of an op or a kernel as soon as it is known where that is. */
function Arriving({ of }: { of: Record<string, string | undefined> }) {
  const answer = useAnswer<Longest>(address("trace/longest", of));
  useEffect(() => {
    if (answer.state !== "ready") return;
    const { found } = answer.value;
    if (!found) notice.value = `No event of ${of.kernel ?? of.op} is on the timeline.`;
    change({ ...(found && spotted(found.host, found.place)), ...Object.fromEntries(Object.keys(of).map((name) => [name, ""])) });
  }, [answer]);
  return <Show answer={answer}>{() => null}</Show>;
}
