// A flame graph of a chosen time: the calls of its threads, those of one name together.
import { useState } from "preact/hooks";

import { Icicle } from "../charts/icicle";
import { useAnswer } from "../data/client";
import type { Unavailable } from "../data/made/types";
import { counted, oneUnit } from "../format";
import { Show } from "../parts/unavailable";
import { change } from "../state/url";
import type { Choice } from "./chosen";
import { about } from "./questions";

interface CallTree {
  unavailable: Unavailable | null;
  calls: { parent: number | null; name: string; count: number; time_ps: number }[];
  left_out: number;
}

export function Flame({ of }: { of: Extract<Choice, { kind: "area" }> }) {
  const [open, show] = useState(false);
  return (
    <details open={open} onToggle={(event) => show(event.currentTarget.open)}>
      <summary>Flame graph of this time</summary>
      {open && <Calls of={of} />}
    </details>
  );
}

function Calls({ of }: { of: Extract<Choice, { kind: "area" }> }) {
  const answer = useAnswer<CallTree>(about("trace/calls", { begin_ps: of.begin, end_ps: of.end, track: of.tracks ?? undefined }));
  return (
    <Show answer={answer}>
      {({ calls, left_out, unavailable }) => {
        if (unavailable) return <p role="status">{unavailable.reason} {unavailable.remedy}</p>;
        if (calls.length === 0) return <p>No thread has an event in this time.</p>;
        const time = oneUnit(calls.map((each) => each.time_ps));
        const spans = calls.map(({ parent, name, time_ps, count }, id) => ({ id, parent, name, value: time_ps, text: `${time(time_ps)}, ${counted(count, "call")}` }));
        return (
          <>
            <Icicle label="Flame graph of the selected time" spans={spans} onChoose={(name) => change({ q: name })} />
            {left_out > 0 && <p class="hint">Calls that take less than 1/2000 of the time are left out.</p>}
          </>
        );
      }}
    </Show>
  );
}
