// Trace: what ran when, on which thread and which stream.
import { useAnswer } from "../data/client";
import type { Unavailable } from "../data/made/types";
import { Absent, Show } from "../parts/unavailable";
import type { Catalogue } from "../timeline/model";
import { Pane } from "../trace/pane";
import { about } from "../trace/questions";

export function TraceViewer() {
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
