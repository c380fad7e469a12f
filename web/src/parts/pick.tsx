// Choices: of one or of several among a few, and of yes or no.
import type { ComponentChildren } from "preact";

interface Props {
  label: string;
  value: string | undefined;
  /** Value → how it is called; or texts that are both. */
  of: Record<string, string> | readonly string[];
  /** Values that are listed and cannot be chosen. */
  off?: readonly string[];
  onPick: (value: string) => void;
}

export function Pick({ label, value, of, off = [], onPick }: Props) {
  const entries = Array.isArray(of) ? of.map((each) => [each, each] as const) : Object.entries(of);
  return (
    <label>
      {label}{" "}
      <select value={value} disabled={entries.length === 0} onChange={(event) => onPick(event.currentTarget.value)}>
        {entries.map(([name, title]) => (
          <option key={name} value={name} disabled={off.includes(name)}>{title}</option>
        ))}
      </select>
    </label>
  );
}

/** A choice to make or not. */
export function Check({ label, on, onToggle }: { label: string; on: boolean; onToggle: (on: boolean) => void }) {
  return (
    <label>
      <input type="checkbox" checked={on} onChange={(event) => onToggle(event.currentTarget.checked)} /> {label}
    </label>
  );
}

interface ChecksProps<T> {
  title: string;
  legend: string;
  /** Key, name, and whether it is chosen. */
  of: readonly (readonly [T, string, boolean])[];
  onToggle: (key: T) => void;
  children?: ComponentChildren;
}

/** Which of them are chosen, in a list that unfolds. */
export function Checks<T extends string | number>({ title, legend, of, onToggle, children }: ChecksProps<T>) {
  return (
    <details class="choose">
      <summary>{title}</summary>
      <fieldset>
        <legend>{legend}</legend>
        {children}
        {of.map(([key, name, on]) => <Check key={key} label={name} on={on} onToggle={() => onToggle(key)} />)}
      </fieldset>
    </details>
  );
}
