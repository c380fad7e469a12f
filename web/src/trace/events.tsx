// The timeline's table: the events in view, with the numbers of the drawing.
import { useState } from "preact/hooks";

import { useAnswer } from "../data/client";
import { categoryTitle } from "../charts/categories";
import { Head } from "../charts/twin";
import { duration, moment, number } from "../format";
import { Name } from "../parts/name";
import { Show } from "../parts/unavailable";
import type { Catalogue } from "../timeline/model";
import type { Extent } from "../timeline/viewport";
import { choose } from "./chosen";
import { about, type Place } from "./questions";

interface Events {
  total: number;
  events: (Place & { category: number })[];
}

const PAGE = 100;
const NUMBERS = ["Start", "Duration (ps)", "Duration"];

export function EventsInView({ catalogue, view, tracks }: { catalogue: Catalogue; view: Extent; tracks: number[] }) {
  const [offset, move] = useState(0);
  const given = { begin_ps: view.begin, end_ps: view.end, track: tracks, limit: PAGE, offset };
  const answer = useAnswer<Events>(about("trace/events", given));
  return (
    <Show answer={answer}>
      {({ total, events }) => (
        <section class="table">
          <div class="scroll whole">
            <table aria-rowcount={total}>
              <caption>
                Events in view: {number(total)}
                {events.length < total && `, of which ${number(offset + 1)} to ${number(offset + events.length)} are shown`}
              </caption>
              <Head of={["Name", "Track", "Category", ...NUMBERS]} numbers={NUMBERS} />
              <tbody>
                {events.map((each) => (
                  <tr key={`${each.track}:${each.item}`}>
                    <th scope="row" title={each.name}>
                      <button class="link" onClick={() => choose({ kind: "span", track: each.track, item: each.item })}><Name text={each.name} /></button>
                    </th>
                    <td>{catalogue.tracks[each.track]?.name}</td>
                    <td>{categoryTitle(catalogue.categories[each.category] ?? "other")}</td>
                    <td class="number" title={`${each.start_ps} ps`}>{moment(each.start_ps)}</td>
                    <td class="number">{number(each.dur_ps)}</td>
                    <td class="number">{duration(each.dur_ps)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
          <p class="controls">
            <button disabled={offset === 0} onClick={() => move(Math.max(offset - PAGE, 0))}>Previous {PAGE}</button>
            <button disabled={offset + events.length >= total} onClick={() => move(offset + PAGE)}>Next {PAGE}</button>
          </p>
        </section>
      )}
    </Show>
  );
}
