// The runs of the log directory in a list: found by name or date, with what cannot be shown.
import { useState } from "preact/hooks";

import { Head } from "../charts/twin";
import { chosen, runs, type Run } from "../data/runs";
import { counted, ms, size, UNKNOWN } from "../format";
import { Dialog } from "../parts/dialog";
import { change } from "../state/url";

export function RunList() {
  const [open, show] = useState(false);
  const [text, search] = useState("");
  const all = runs.value?.runs ?? [];
  const refused = runs.value?.refused.length ?? 0;
  if (all.length + refused < 2) return null;
  const words = text.toLowerCase().split(/\s+/);
  const found = all.filter((run) => words.every((word) => told(run).join(" ").toLowerCase().includes(word)));
  return (
    <>
      <button onClick={() => show(true)}>Find a run</button>
      {open && (
        <Dialog class="runs" label="Runs" onClose={() => show(false)}>
          {(close) => (
            <>
              <form method="dialog">
                <input
                  type="search"
                  placeholder="Name, date, host, framework"
                  aria-label="Search runs"
                  value={text}
                  onInput={(event) => search(event.currentTarget.value)}
                />{" "}
                <button>Close</button>
              </form>
              <table>
                <caption>
                  {found.length === all.length ? counted(all.length, "run") : `${found.length} of ${counted(all.length, "run")}`}
                </caption>
                <Head of={["Run", "Recorded", "Framework", "Step", "Verdict", "Hosts", "Format", "Size", "State"]} />
                <tbody>
                  {found.map((run) => (
                    <Line key={run.id} run={run} onChoose={close} />
                  ))}
                </tbody>
              </table>
              <Unshown />
            </>
          )}
        </Dialog>
      )}
    </>
  );
}

function Line({ run, onChoose }: { run: Run; onChoose: () => void }) {
  const [name, ...others] = told(run);
  const choose = () => {
    change({ run: run.id, hosts: "", step: "" }, { push: true });
    onChoose();
  };
  return (
    <tr data-state={run.state} aria-current={run.id === chosen()?.id ? "true" : undefined}>
      <th scope="row">
        <button class="link" disabled={run.state === "writing"} onClick={choose}>{name}</button>
      </th>
      {others.map((cell, k) => (
        <td key={k} class={cell === run.verdict ? "verdict" : undefined}>{cell}</td>
      ))}
    </tr>
  );
}

const STATES = { ready: "", writing: "being written", unreadable: "cannot be read" };

/** What is written of a run, which is also what it is found by. */
function told(run: Run): string[] {
  const date = run.recorded_unix_ms === null ? UNKNOWN : new Date(run.recorded_unix_ms).toLocaleString("sv");
  const hosts = run.hosts.length === 1 ? run.hosts[0]! : counted(run.hosts.length, "host");
  return [run.name, date, run.frameworks?.join(", ") || UNKNOWN, ms(run.step_ms), run.verdict ?? UNKNOWN, hosts, run.format, size(run.bytes), run.reason ?? STATES[run.state]];
}

/** What lies in the log directory and cannot be shown, each with its reason. */
export function Unshown() {
  const refused = runs.value?.refused ?? [];
  if (refused.length === 0) return null;
  return (
    <>
      <h3>Not shown</h3>
      <ul>
        {refused.map((each) => (
          <li key={each.name}>
            <b>{each.name}</b>: {each.reason}
          </li>
        ))}
      </ul>
    </>
  );
}
