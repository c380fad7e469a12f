import { base, chosen, runs, type Run } from "../data/runs";
import { Pick } from "../parts/pick";
import { narrow } from "../state/screen";
import { change, hosts, join, state } from "../state/url";
import { setTheme, theme, type Theme } from "../state/theme";
import { Capture } from "./capture";
import { help } from "./keys";
import { Menu } from "./menu";
import { RunList } from "./runs";

export function Bar() {
  return (
    <header class="bar">
      <strong class="brand">stepscope</strong>
      <RunPicker />
      {narrow.value || <Others />}
      {state.value.step && (
        <button aria-label={`Step ${state.value.step}: back to all steps`} onClick={() => change({ step: "" }, { push: true })}>
          Step {state.value.step} ✕
        </button>
      )}
      <span class="grow" />
      {narrow.value ? <Menu><Others /><Settings /></Menu> : <Settings />}
    </header>
  );
}

/** Which part of the run, and which other runs. */
function Others() {
  return (
    <>
      <BasePicker />
      <RunList />
      <Capture />
      <HostPicker />
    </>
  );
}

function Settings() {
  return (
    <>
      <Pick
        label="Theme"
        value={theme.value}
        of={{ system: "System", light: "Light", dark: "Dark" }}
        onPick={(name) => setTheme(name as Theme)}
      />
      <button onClick={() => print()}>Print</button>
      <button aria-label="Keys and help" onClick={() => (help.value = true)}>
        ?
      </button>
    </>
  );
}

/** What belongs to the run that was chosen before. */
const NOTHING = { hosts: "", host: "", t0: "", t1: "", sel: "", marks: "" };

const titles = (of: Run[]) => Object.fromEntries(of.map((each) => [each.id, titleOf(each)]));
const written = (of: Run[]) => of.filter((each) => each.state === "writing").map((each) => each.id);

function RunPicker() {
  const all = runs.value?.runs ?? [];
  const pick = (run: string) => change({ ...NOTHING, run }, { push: true });
  return <Pick label="Run" value={chosen()?.id} of={titles(all)} off={written(all)} onPick={pick} />;
}

function BasePicker() {
  const others = (runs.value?.runs ?? []).filter((each) => each.id !== chosen()?.id);
  if (others.length === 0) return null;
  const pick = (base: string) => change(base ? { base, page: "compare" } : { base }, { push: true });
  return <Pick label="Compare with" value={base()?.id ?? ""} of={{ "": "–", ...titles(others) }} off={written(others)} onPick={pick} />;
}

function titleOf(run: Run): string {
  return run.state === "ready" ? run.name : `${run.name} (${run.state === "writing" ? "being written" : "cannot be read"})`;
}

function HostPicker() {
  const names = chosen()?.hosts ?? [];
  const one = (hosts.value.length === 1 && hosts.value[0]) || "";
  const pick = (name: string) => change({ hosts: name && join([name]), host: "", sel: "" }, { push: true });
  const each = names.length > 1 ? names.map((name) => [name, name]) : [];
  const all = names.length === 1 ? names[0]! : `All ${names.length} hosts`;
  return <Pick label="Hosts" value={one} of={{ "": all, ...Object.fromEntries(each) }} onPick={pick} />;
}
