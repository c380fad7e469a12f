// All that is known of one span.
import { Swatch, categoryTitle } from "../charts/categories";
import { CATEGORIES } from "../data/made/categories";
import { duration, moment, number, percent, UNKNOWN } from "../format";
import { absent } from "../data/runs";
import { Fact } from "../parts/fact";
import { MissingFields } from "../parts/unavailable";
import { holding } from "../state/tables";
import { link } from "../state/url";
import type { Control } from "./control";
import type { Details, Place } from "./questions";

export function Span({ span, control }: { span: Details; control: Control }) {
  const category = CATEGORIES.find((each) => each.name === span.category);
  const equals = span.same_name;
  return (
    <>
      <header>
        <h2 title={span.full_name}>
          {category && <Swatch category={category} />} {span.name}
        </h2>
        <span class="tools">
          <button title="Key ," disabled={!equals.previous} onClick={() => control.instance(false)}>‹ Previous</button>
          <button title="Key ." disabled={!equals.next} onClick={() => control.instance(true)}>Next ›</button>
          <button title="Key F" onClick={() => control.fit()}>Fit</button>
          <button title="Key M" onClick={() => control.mark()}>Mark</button>
        </span>
      </header>
      <div class="columns-of-facts">
        <dl class="facts">
          <Time name="Duration" ps={span.dur_ps} />
          {span.busy_ps === null ? <Time name="Self time" ps={span.self_ps} /> : <Time name="Busy" ps={span.busy_ps} />}
          <Time name="Start" ps={span.start_ps} written={moment} />
          <Fact name="Category">{categoryTitle(span.category)}</Fact>
          <Fact name="Track">{span.section} · {span.track_name}</Fact>
          <Fact name="Step">
            {span.step === null ? UNKNOWN : <a href={link({ page: "pod_viewer", step: String(span.step) })}>{span.step}</a>}
          </Fact>
          <Fact name="Events with this name">
            {number(equals.count)}, together {duration(equals.total_ps)}
          </Fact>
          <Fact name="Percentile">{percent(equals.percentile)}</Fact>
          {span.full_name !== span.name && <Fact name="Recorded as">{span.full_name}</Fact>}
          {span.source && <Fact name="Source"><code>{span.source}</code></Fact>}
        </dl>
        <Relatives span={span} control={control} />
        {span.arguments && Object.keys(span.arguments).length > 0 && (
          <section>
            <h3>
              Arguments
              {span.arguments_of && <small> of its first event, <button class="link" onClick={() => control.go(span.arguments_of)}>{span.arguments_of.name}</button></small>}
            </h3>
            <dl class="facts">
              {Object.entries(span.arguments).map(([name, value]) => (
                <Fact key={name} name={name}>
                  <span title={String(value)}>{typeof value === "number" ? number(value) : value}</span>
                </Fact>
              ))}
            </dl>
          </section>
        )}
      </div>
      <p class="controls">
        {span.links.op && <a href={link({ page: "framework_op_stats", op: span.links.op })}>This op in Op stats</a>}
        {span.links.kernel && (
          <a href={link({ page: "kernel_stats", tables: holding("rows", span.links.kernel) })}>This kernel in Kernels</a>
        )}
        {!absent.value.memory_profile && (
          <a href={link({ page: "memory_profile", at: String(span.start_ps / 1e9) })}>Memory at this time</a>
        )}
      </p>
      <MissingFields missing={span.missing} />
    </>
  );
}

/** Of more launches than these, only the arrows are shown. */
const MOST_LISTED = 100;

function Relatives({ span, control }: { span: Details; control: Control }) {
  const { parent, children, launched, launched_by: launcher } = span;
  const none = !parent && !launcher && !children?.length && !launched?.length;
  if (none) return null;
  return (
    <section>
      <h3>Related events</h3>
      <ul class="relatives">
        {launcher && <Relative as="launched by" place={launcher} control={control} />}
        {parent && <Relative as="inside" place={parent} control={control} />}
        {launched?.slice(0, MOST_LISTED).map((each) => <Relative key={each.item} as="launches" place={each} control={control} />)}
        {(span.launched_count ?? 0) > MOST_LISTED && <li>and {number(span.launched_count! - MOST_LISTED)} more</li>}
        {children?.map((each) => <Relative key={each.item} as="contains" place={each} control={control} />)}
        {(span.children_count ?? 0) > (children?.length ?? 0) && <li>and {number(span.children_count! - children!.length)} more</li>}
      </ul>
    </section>
  );
}

function Relative({ as, place, control }: { as: string; place: Place; control: Control }) {
  return (
    <li>
      <small>{as}</small>{" "}
      <button class="link" onClick={() => control.go(place)}>{place.name}</button>{" "}
      <small>{duration(place.dur_ps)}</small>
    </li>
  );
}

/** A time in a suitable unit; its tooltip has all picoseconds. */
export function Time({ name, ps, written = duration }: { name: string; ps: number | null; written?: (ps: number) => string }) {
  return (
    <Fact name={name}>
      <span title={ps === null ? undefined : `${ps} ps`} data-ps={ps ?? undefined}>{ps === null ? UNKNOWN : written(ps)}</span>
    </Fact>
  );
}
