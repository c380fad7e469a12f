import { base, chosen, runs, type Run } from "../data/runs";
import { change, hosts, join, state } from "../state/url";
import { setTheme, theme, type Theme } from "../state/theme";
import { Capture } from "./capture";
import { help } from "./keys";
import { RunList } from "./runs";

export function Bar() {
  return (
    <header class="bar">
      <strong class="brand">stepscope</strong>
      <RunPicker />
      <BasePicker />
      <RunList />
      <Capture />
      <HostPicker />
      {state.value.step && (
        <button aria-label={`Step ${state.value.step}: back to all steps`} onClick={() => change({ step: "" }, { push: true })}>
          Step {state.value.step} ✕
        </button>
      )}
      <span class="grow" />
      <label>
        Theme{" "}
        <select
          value={theme.value}
          onChange={(event) => setTheme(event.currentTarget.value as Theme)}
        >
          <option value="system">System</option>
          <option value="light">Light</option>
          <option value="dark">Dark</option>
        </select>
      </label>
      <button aria-label="Keys and help" onClick={() => (help.value = true)}>
        ?
      </button>
    </header>
  );
}

/** What belongs to the run that was chosen before. */
const NOTHING = { hosts: "", host: "", t0: "", t1: "", sel: "", marks: "" };

function RunPicker() {
  const all = runs.value?.runs ?? [];
  return (
    <label>
      Run{" "}
      <select
        value={chosen()?.id}
        disabled={all.length === 0}
        onChange={(event) =>
          change({ ...NOTHING, run: event.currentTarget.value }, { push: true })
        }
      >
        {all.map((each) => (
          <option key={each.id} value={each.id} disabled={each.state === "writing"}>
            {titleOf(each)}
          </option>
        ))}
      </select>
    </label>
  );
}

function BasePicker() {
  const others = (runs.value?.runs ?? []).filter((each) => each.id !== chosen()?.id);
  if (others.length === 0) return null;
  return (
    <label>
      Compare with{" "}
      <select
        value={base()?.id ?? ""}
        onChange={(event) => {
          const id = event.currentTarget.value;
          change(id ? { base: id, page: "compare" } : { base: "" }, { push: true });
        }}
      >
        <option value="">–</option>
        {others.map((each) => (
          <option key={each.id} value={each.id} disabled={each.state === "writing"}>
            {titleOf(each)}
          </option>
        ))}
      </select>
    </label>
  );
}

function titleOf(run: Run): string {
  return run.state === "ready" ? run.name : `${run.name} (${run.state === "writing" ? "being written" : "cannot be read"})`;
}

const ALL = "";

function HostPicker() {
  const names = chosen()?.hosts ?? [];
  const one = hosts.value.length === 1 ? hosts.value[0]! : ALL;
  return (
    <label>
      Hosts{" "}
      <select
        value={one}
        onChange={(event) => {
          const name = event.currentTarget.value;
          change({ hosts: name === ALL ? "" : join([name]), host: "", sel: "" }, { push: true });
        }}
      >
        <option value={ALL}>{names.length === 1 ? names[0] : `All ${names.length} hosts`}</option>
        {names.length > 1 && names.map((name) => <option key={name}>{name}</option>)}
      </select>
    </label>
  );
}
