// The timeline's keys; they are its own only while it or a button of it has the focus.
import { change } from "../state/url";
import { letters } from "../state/screen";
import { tool, TOOLS } from "./chosen";
import type { Control } from "./control";

/** What the list of keys says. */
export const KEYS: [string, string][] = [
  ["W S", "Zoom in and out at the pointer; also Ctrl with the wheel"],
  ["A D", "Move to earlier and later times; also Shift with the wheel"],
  ["1 2 3 4", "Tools: Select, Pan, Zoom, Timing"],
  ["← →", "Previous and next event on the lane. Pan: earlier, later. Zoom: out, in. Timing: extend the measured time"],
  ["↑ ↓", "The lane above and below; Zoom: in, out"],
  [", .", "Previous and next event of the same name"],
  ["G", "Next gap on the lane; with Shift the previous one"],
  ["E", "Explain the gap or the selected time"],
  ["F", "Fit the window to the selection; 0 or Z: whole trace"],
  ["M", "Set or remove a mark at the selection"],
  ["R", "Sums of the selected or measured time"],
  ["P H", "On the name of a track: pin it, hide it"],
  ["Enter", "In the search: next event; with Shift the previous one"],
];

const ZOOM = 1.6;
const PAN = 0.2;

type Does = (control: Control, shift: boolean) => void;

/** Arrow keys do what the tool says. */
const ARROWS: Record<string, Does> = {
  ArrowLeft: (control, shift) => across(control, false, shift),
  ArrowRight: (control, shift) => across(control, true, shift),
  ArrowUp: (control) => along(control, false),
  ArrowDown: (control) => along(control, true),
};

const LETTERS: Record<string, Does> = {
  w: (control) => control.zoom(1 / ZOOM),
  s: (control) => control.zoom(ZOOM),
  a: (control) => control.pan(-PAN),
  d: (control) => control.pan(PAN),
  ".": (control) => control.instance(true),
  ",": (control) => control.instance(false),
  g: (control, shift) => control.gap(!shift),
  e: (control) => control.explain(),
  f: (control) => control.fit(),
  m: (control) => control.mark(),
  r: (control) => control.sums(),
  z: (control) => control.whole(),
  "0": (control) => control.whole(),
};

function across(control: Control, forward: boolean, shift: boolean): void {
  if (shift || tool.value === "timing") control.stretchTo(forward);
  else if (tool.value === "pan") control.pan(forward ? PAN : -PAN);
  else if (tool.value === "zoom") control.zoom(forward ? 1 / ZOOM : ZOOM);
  else void control.beside(forward);
}

function along(control: Control, down: boolean): void {
  if (tool.value === "zoom") control.zoom(down ? ZOOM : 1 / ZOOM);
  else void control.lane(down);
}

/** To the search: the browser's own would look at the names of tracks only. */
function search(event: KeyboardEvent): boolean {
  const field = (event.currentTarget as Element).closest(".trace")?.querySelector<HTMLElement>("input[type=search]");
  field?.focus();
  return field !== undefined;
}

/** Whether the key was one of the timeline's. */
export function press(control: Control, event: KeyboardEvent): boolean {
  if (event.ctrlKey || event.metaKey || event.altKey) return event.key === "f" && !event.altKey && search(event);
  const does = ARROWS[event.key] ?? (letters.value ? LETTERS[event.key.toLowerCase()] : undefined);
  const chosen = letters.value ? TOOLS[Number(event.key) - 1] : undefined;
  if (does) does(control, event.shiftKey);
  else if (chosen) change({ tool: chosen });
  else if (event.key === "Escape") return control.clear();
  else return false;
  return true;
}
