// The timeline's table: the events of the chosen time or of the window, one by one or in groups.
import { useState } from "preact/hooks";

import { useAnswer, type Options } from "../data/client";
import { categoryTitle } from "../charts/categories";
import { Head } from "../charts/twin";
import { duration, moment, number, oneUnit } from "../format";
import { Name } from "../parts/name";
import { Pick } from "../parts/pick";
import { Show } from "../parts/unavailable";
import { change, state } from "../state/url";
import type { Catalogue } from "../timeline/model";
import type { Extent } from "../timeline/viewport";
import { choice, choose } from "./chosen";
import { about, type Place } from "./questions";

interface Events {
  total: number;
  events: (Place & { category: number })[];
}
interface Groups {
  spans: number;
  total: number;
  groups: { group: string; count: number; time_ps: number; shortest_ps: number; mean_ps: number; longest_ps: number; track: number; item: number }[];
}

const PAGE = 100;
const NUMBERS = ["Start", "Duration (ps)", "Duration"];
const SUMS = ["Events", "Total", "Mean", "Shortest", "Longest"];
const ROWS = { events: "each event", name: "by name", track: "by track", category: "by category" };
const GROUPS: Record<string, string> = { name: "Name", track: "Track", category: "Category" };

/** Of the chosen time, else of all of it where a text is searched, else of the window. */
export function EventsInView({ catalogue, view, tracks }: { catalogue: Catalogue; view: Extent; tracks: number[] }) {
  const { rows, q } = state.value;
  const area = choice.value?.kind === "area" ? choice.value : null;
  const of = area ?? (q ? { begin: catalogue.begin_ps ?? 0, end: (catalogue.end_ps ?? 0) + 1 } : view);
  const where = area ? "of the selected time" : q ? "" : "in view";
  const given = { begin_ps: of.begin, end_ps: of.end, track: area?.tracks ?? tracks, text: q };
  const what = [where, q && `with “${q}” in the name`].filter(Boolean).join(" ");
  return (
    <section class="table">
      <p class="controls"><Pick label="Rows" value={rows} of={ROWS} onPick={(next) => change({ rows: next })} /></p>
      {rows && rows in GROUPS ? <Grouped key={what} {...{ given, what }} by={rows} /> : <Each key={what} {...{ catalogue, given, what }} />}
    </section>
  );
}

function Each({ catalogue, given, what }: { catalogue: Catalogue; given: Options; what: string }) {
  const [offset, move] = useState(0);
  const answer = useAnswer<Events>(about("trace/events", { ...given, limit: PAGE, offset }));
  return (
    <Show answer={answer}>
      {({ total, events }) => (
        <>
          <div class="scroll whole">
            <table aria-rowcount={total}>
              <caption>
                Events {what}: {number(total)}
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
        </>
      )}
    </Show>
  );
}

function Grouped({ given, what, by }: { given: Options; what: string; by: string }) {
  const answer = useAnswer<Groups>(about("trace/groups", { ...given, by }));
  return (
    <Show answer={answer}>
      {({ spans, total, groups }) => {
        const time = oneUnit(groups.map((each) => each.time_ps));
        return (
          <div class="scroll whole">
            <table aria-rowcount={total}>
              <caption>
                Events {what}: {number(spans)}, nested ones included
                {groups.length < total && `; the ${number(groups.length)} longest of ${number(total)} groups`}
              </caption>
              <Head of={[GROUPS[by]!, ...SUMS]} numbers={SUMS} />
              <tbody>
                {groups.map((each) => (
                  <tr key={each.group}>
                    <th scope="row" title={each.group}><Name text={by === "category" ? categoryTitle(each.group) : each.group} /></th>
                    <td class="number">{number(each.count)}</td>
                    {[each.time_ps, each.mean_ps, each.shortest_ps].map((ps, k) => (
                      <td key={k} class="number" title={`${ps} ps`}>{time(ps)}</td>
                    ))}
                    <td class="number" title={`${each.longest_ps} ps`}>
                      <button class="link" onClick={() => choose({ kind: "span", track: each.track, item: each.item })}>{time(each.longest_ps)}</button>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        );
      }}
    </Show>
  );
}
