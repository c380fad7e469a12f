// A number with its name: on a card, in a row of a table, or in a list.
import type { ComponentChildren } from "preact";

import type { Cell } from "../data/made/types";
import { byName } from "../format";
import { Value, type Valued } from "./value";

type Named = Omit<Valued, "shown" | "exact"> & {
  /** What stands above or beside the number, where it is not the number's title. */
  name?: string;
  exact: Exclude<Cell, boolean>;
  /** The number in words; by the unit in the field's name where absent. */
  shown?: string;
};

export function Card(of: Named) {
  return (
    <li>
      <h2>{of.name ?? of.title}</h2>
      <Value {...of} shown={of.shown ?? byName(of.field, of.exact)} />
    </li>
  );
}

export function Line(of: Named) {
  return (
    <tr>
      <th scope="row">{of.name ?? of.title}</th>
      <td class={typeof of.exact === "string" ? undefined : "number"}>
        <Value {...of} shown={of.shown ?? byName(of.field, of.exact)} />
      </td>
    </tr>
  );
}

/** A name and what is known under it, in a list of such. */
export function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </>
  );
}
