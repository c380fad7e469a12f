import type { Statistics } from "../data/made/types";
import { ms } from "../format";
import { Panel } from "../parts/panel";
import { Line, Lines } from "../parts/value";

const ROWS: [keyof Statistics, string][] = [
  ["mean", "Average"], ["std", "Standard deviation"], ["median", "Median"],
  ["p95", "95th percentile"], ["min", "Shortest"], ["max", "Longest"],
];

/** A sample in milliseconds in six numbers; nothing where none was taken, or one alone. */
export function StatisticsTable({ of, field, caption }: { of: Statistics | null; field: string; caption: string }) {
  if (!of || of.mean === null || of.std === null) return null;
  return (
    <Panel title={caption}>
      <Lines label={caption}>
        {ROWS.map(([name, title]) => (
          <Line key={name} name={title} field={`${field}.${name}`} title={`${caption}: ${title}`} exact={of[name]} shown={ms(of[name])} />
        ))}
      </Lines>
    </Panel>
  );
}
