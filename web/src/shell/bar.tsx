import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";

import { useState } from "preact/hooks";

import { base, chosen, runs, type Run } from "../data/runs";
import { copyText } from "../parts/code";
import { Pick } from "../parts/pick";
import { narrow } from "../state/screen";
import { change, hosts, join, page, run, state } from "../state/url";
import { setTheme, theme, type Theme } from "../state/theme";
import { Capture } from "./capture";
import { help } from "./keys";
import { Nav } from "./nav";
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
      {narrow.value || <CopyLink />}
      {narrow.value || <button onClick={() => print()}>Print</button>}
      <button aria-label="Keys and help" onClick={() => (help.value = true)}>
        ?
      </button>
    </>
  );
}

/** In a frame, as in TensorBoard, the window's address is not that of the page. */
function CopyLink() {
  const [said, say] = useState("Copy link");
  return <button onClick={async () => say((await copyText(location.href)) ? "Copied" : "Not copied")}>{said}</button>;
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

const open = signal(false);

/** On a narrow window: what the bar has no room for, and the navigation, behind one button. */
function Menu({ children }: { children: ComponentChildren }) {
  const place = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const { base } = state.value;
  const close = () => void (open.value = false);
  // A page or a run was chosen: show it, unless a dialog of the menu still says something.
  useEffect(() => () => document.querySelector("dialog[open]") || close(), [page.value, run.value, base]);
  // Before the next event, so that no click beside the open menu is missed.
  useLayoutEffect(() => {
    if (!open.value) return undefined;
    const stop = new AbortController();
    const outside = (event: Event) => {
      if (!place.current!.contains(event.target as Element)) close();
    };
    const escape = (event: KeyboardEvent) => {
      if (event.key !== "Escape" || document.querySelector("dialog[open]")) return;
      close();
      button.current!.focus();
    };
    addEventListener("pointerdown", outside, stop);
    addEventListener("keydown", escape, stop);
    return () => stop.abort();
  }, [open.value]);
  const chosen = (event: Event) => {
    if (!(event.target as Element).closest("nav a")) return;
    close();
    document.getElementById("content")?.focus();
    scrollTo(0, 0);
  };
  return (
    <div class="menu" ref={place}>
      <button ref={button} aria-expanded={open.value} aria-controls="menu" onClick={() => (open.value = !open.value)}>
        Menu
      </button>
      <div id="menu" hidden={!open.value} onClick={chosen}>
        <Nav />
        <div class="controls">{children}</div>
      </div>
    </div>
  );
}
