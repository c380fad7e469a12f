// Step-time categories, drawn in one order and with one colour and stripes on every page.
import { CATEGORIES, type Category } from "../data/made/categories";

/** Patterns of the hatched categories; drawn once on a page that has charts. */
export function Hatches() {
  return (
    <svg class="defs" aria-hidden="true">
      <defs>
        {CATEGORIES.filter((each) => each.hatched).map((each) => (
          <pattern
            key={each.name}
            id={`hatch-${each.token}`}
            width="6"
            height="6"
            patternUnits="userSpaceOnUse"
            patternTransform="rotate(45)"
          >
            <rect width="6" height="6" class={`fill-${each.token}`} />
            <rect width="2" height="6" class="stripe" />
          </pattern>
        ))}
      </defs>
    </svg>
  );
}

/** Attributes that give a mark its category's colour. */
export function paint(category: Category): { class: string; fill?: string } {
  return category.hatched
    ? { class: "mark", fill: `url(#hatch-${category.token})` }
    : { class: `mark fill-${category.token}` };
}

export function Swatch({ category }: { category: Category }) {
  return (
    <svg class="swatch" viewBox="0 0 12 12" aria-hidden="true">
      <rect width="12" height="12" {...paint(category)} />
    </svg>
  );
}

export const categoryNamed = (name: string | null) => CATEGORIES.find((each) => each.name === name);

/** What a category is called. */
export const categoryTitle = (name: string) => categoryNamed(name)?.title ?? name;

/** Names of the categories that are in any of the breakdowns, in drawing order. */
export function present(breakdowns: Record<string, number>[]): Category[] {
  return CATEGORIES.filter((each) => breakdowns.some((parts) => each.name in parts));
}

export function Legend({ categories }: { categories: Category[] }) {
  return (
    <ul class="legend">
      {categories.map((each) => (
        <li key={each.name} title={each.sentence}>
          <Swatch category={each} /> {each.title}
        </li>
      ))}
    </ul>
  );
}
