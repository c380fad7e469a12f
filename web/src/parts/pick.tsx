// A choice among a few, with its name before it.

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
