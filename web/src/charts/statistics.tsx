import type { Statistics } from "../data/made/types";
import { ms } from "../format";
import { Line } from "../parts/fact";

const ROWS: [keyof Statistics, string][] = [
  ["mean", "Average"], ["std", "Standard deviation"], ["median", "Median"],
  ["p95", "95th percentile"], ["min", "Shortest"], ["max", "Longest"],
];

/** A sample in milliseconds in six numbers. */
export function StatisticsTable({ of, field, caption }: { of: Statistics; field: string; caption: string }) {
  return (
    <table class="twin">
      <caption>{caption}</caption>
      <tbody>
        {ROWS.map(([name, title]) => (
          <Line key={name} name={title} field={`${field}.${name}`} title={`${caption}: ${title}`} exact={of[name]} shown={ms(of[name])} />
        ))}
      </tbody>
    </table>
  );
}
