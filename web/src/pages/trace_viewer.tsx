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
  const { op, kernel } = state.value;
  return op || kernel ? <Arriving op={op} kernel={kernel} /> : <Timeline />;
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
function Arriving({ op, kernel }: { op: string | undefined; kernel: string | undefined }) {
  const answer = useAnswer<Longest>(address("trace/longest", { op, kernel }));
  useEffect(() => {
    if (answer.state !== "ready") return;
    const { found } = answer.value;
    if (found) change({ ...spotted(found.host, found.place), op: "", kernel: "" });
    else {
      notice.value = `No event of ${op ?? kernel} is on the timeline.`;
      change({ op: "", kernel: "" });
    }
  }, [answer]);
  return <Show answer={answer}>{() => null}</Show>;
}
