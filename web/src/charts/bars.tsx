// A breakdown as labelled bars: category, bar, time and share.
import { CATEGORIES, DETAILS } from "../data/made/categories";
import { OWNERS } from "../data/made/words";
import { decimals, number, percent, UNKNOWN } from "../format";
import { Value } from "../parts/value";
import { Hatches, paint, Swatch } from "./categories";

interface Props {
  field: string;
  /** Category → time. */
  parts: Record<string, number>;
  percents: Record<string, number | null>;
  /** Owner → time. */
  details?: Record<string, number>;
}

/** Titles of what a category is made of, in the tool's detail. */
function detailsOf(category: string, details: Record<string, number>): [string, string][] {
  const seen = (DETAILS[category] ?? []).filter((owner) => (details[owner] ?? 0) > 0);
  return seen.map((owner) => [owner, OWNERS[owner] ?? owner]);
}

/** What is seen at all has a bar that can be seen. */
const length = (share: number | null | undefined) => (share ? Math.max(share, 0.4) : 0);

export function Breakdown({ field, parts, percents, details = {} }: Props) {
  // One column of numbers: all have the decimals that the largest needs.
  const digits = decimals(Math.max(...Object.values(parts), 0));
  const ms = (value: number | null | undefined) => (value == null ? UNKNOWN : `${number(value, digits)} ms`);
  return (
    <div class="bars">
      <Hatches />
      {CATEGORIES.filter((each) => each.name in parts).flatMap((each) => [
        <span key={each.name} title={each.sentence}>
          <Swatch category={each} /> {each.title}
        </span>,
        <svg key={`${each.name} bar`} class="length" aria-hidden="true">
          <rect width={`${length(percents[each.name])}%`} height="14" {...paint(each)} />
        </svg>,
        <span key={`${each.name} ms`} class="number">
          <Value field={`${field}.${each.name}`} title={each.title} exact={parts[each.name] ?? null} evidence={each.sentence} shown={ms(parts[each.name])} />
        </span>,
        <span key={`${each.name} percent`} class="number">
          {percent(percents[each.name])}
        </span>,
        ...detailsOf(each.name, details).flatMap(([name, title]) => [
          <span key={name} class="detail">
            {title}
          </span>,
          <span key={`${name} ms`} class="number detail">
            {ms(details[name])}
          </span>,
          <span key={`${name} percent`} />,
        ]),
      ])}
    </div>
  );
}
