// Recording running programs: which, how long and how much, and what became of each.
import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";

import { ask } from "../data/client";
import { refresh, runs } from "../data/runs";
import { counted, number, size } from "../format";
import { Dialog } from "../parts/dialog";
import { change } from "../state/url";

interface Host {
  address: string;
  state: "ok" | "empty" | "error";
  text: string;
  bytes: number;
  attempts: number;
  seconds: number;
}
interface Job {
  state: "recording" | "over";
  addresses: string[];
  duration_ms: number;
  delay_ms: number;
  elapsed_ms: number;
  /** Those whose outcome is known. */
  hosts: Host[];
  run: string | null;
  problem: string | null;
}
interface Captures {
  /** Programs that the server may record; none where it was started without any. */
  addresses: string[];
  job: Job | null;
}

const POLL_MS = 400;
const NUMBERS = [
  ["duration_ms", "Duration (ms)", 2000, 1, 600_000],
  ["delay_ms", "Delay before recording (ms)", 0, 0, 60_000],
  ["attempts", "Attempts per program", 3, 1, 10],
] as const;
const LEVELS = [
  ["host_tracer_level", "Host", 2, ["no ops", "critical ops", "all ops", "all ops, verbose"]],
  ["device_tracer_level", "Devices", 1, ["no activity", "all activity"]],
  ["python_tracer_level", "Python", 0, ["no calls", "every function call"]],
] as const;
const STATES = { ok: "recorded", empty: "recorded no events", error: "was not recorded" };

const found = signal<Captures | null>(null);

async function look(): Promise<void> {
  found.value = await ask<Captures>("data/captures").catch(() => found.peek());
}

export function Capture() {
  const [open, show] = useState(false);
  useEffect(() => void look(), []);
  const now = found.value;
  const recording = now?.job?.state === "recording";
  useEffect(() => {
    if (!recording) return undefined;
    const timer = setInterval(look, POLL_MS);
    return () => {
      clearInterval(timer);
      void refresh();
    };
  }, [recording]);
  if (!now || now.addresses.length === 0) return null;
  return (
    <>
      <button onClick={() => show(true)}>{recording ? "Recording …" : "Capture"}</button>
      {open && (
        <Dialog class="capture" label="Capture" onClose={() => show(false)}>
          {(close) => (
            <>
              <h2>Record running programs</h2>
              <Form addresses={now.addresses} recording={recording} />
              {now.job && <Progress job={now.job} onShow={close} />}
              <form method="dialog">
                <button>Close</button>
              </form>
            </>
          )}
        </Dialog>
      )}
    </>
  );
}

function Form({ addresses, recording }: { addresses: string[]; recording: boolean }) {
  const [refused, refuse] = useState("");
  const begin = async (event: SubmitEvent) => {
    event.preventDefault();
    const given = new FormData(event.currentTarget as HTMLFormElement);
    const query = new URLSearchParams([...given].map(([name, value]) => [name, String(value)]));
    try {
      found.value = await ask<Captures>(`data/capture?${query}`, { method: "POST", headers: { "X-Stepscope": "1" } });
      refuse("");
    } catch (error) {
      refuse((error as Error).message);
    }
  };
  return (
    <form onSubmit={begin}>
      <fieldset disabled={recording}>
        <legend>Programs to record together, as one run</legend>
        {addresses.map((each) => (
          <label key={each}>
            <input type="checkbox" name="address" value={each} defaultChecked /> {each}
          </label>
        ))}
      </fieldset>
      <fieldset disabled={recording}>
        <legend>Duration and level of detail</legend>
        {NUMBERS.map(([name, title, value, min, max]) => (
          <label class="field" key={name}>
            <span>{title}</span>
            <input type="number" {...{ name, min, max }} defaultValue={String(value)} required />
          </label>
        ))}
        {LEVELS.map(([name, title, value, levels]) => (
          <label class="field" key={name}>
            <span>{title}</span>
            <select name={name}>
              {levels.map((words, level) => (
                <option key={level} value={level} selected={level === value}>{level}: {words}</option>
              ))}
            </select>
          </label>
        ))}
      </fieldset>
      <button disabled={recording}>Record</button>
      {refused && <p role="alert">{refused}</p>}
    </form>
  );
}

/** How far a recording is, and what became of each program; a part is no success. */
function Progress({ job, onShow }: { job: Job; onShow: () => void }) {
  const whole = job.delay_ms + job.duration_ms;
  const failed = job.hosts.filter((each) => each.state !== "ok").length;
  const run = runs.value?.runs.find((each) => each.name === job.run && each.state === "ready");
  const said = job.problem ?? (failed > 0 ? `${failed} of ${counted(job.hosts.length, "program")} were not recorded.` : "All programs were recorded.");
  return (
    <section aria-label="Recording">
      {job.state === "recording" ? (
        <p>
          <progress max={whole} value={Math.min(job.elapsed_ms, whole)} aria-label="Time recorded" />{" "}
          {job.elapsed_ms < whole ? `${number(Math.round(job.elapsed_ms / 100) / 10)} of ${number(whole / 1000)} s` : "collecting the recorded events"}
        </p>
      ) : (
        <p role="status">{said}</p>
      )}
      <ul>
        {job.hosts.map((each) => (
          <li key={each.address} data-state={each.state}>
            <b>{each.address}</b> {STATES[each.state]}
            {each.state === "ok" ? `: ${size(each.bytes)} in ${number(each.seconds, 1)} s` : `: ${each.text}`}
            {each.attempts > 1 && `, after ${each.attempts} attempts`}
          </li>
        ))}
      </ul>
      {job.state === "over" && job.run && (
        <button
          disabled={!run}
          onClick={() => {
            change({ run: run!.id, hosts: "", host: "", step: "", sel: "", t0: "", t1: "" }, { push: true });
            onShow();
          }}
        >
          {run ? "Show the run" : "The run appears in a moment"}
        </button>
      )}
    </section>
  );
}
