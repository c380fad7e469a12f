// Shares as bars, or as a pie for those who want one: names and numbers stand beside both.
import { signal } from "@preact/signals";

import type { Row } from "../data/made/types";
import { number, percent } from "../format";
import { Name } from "../parts/name";
import { link, type State } from "../state/url";
import { Chart, Twin } from "./twin";

export interface Slice {
  label: string;
  value: number;
  percent: number;
  /** Everything without a slice of its own. */
  rest?: boolean;
}

/** Rows of a tool as slices by one of their times. */
export const slicesOf = (rows: Row[], time: string): Slice[] =>
  rows.map((each) => ({ label: String(each.name), value: Number(each[time]), percent: Number(each.percent) }));

/** One choice for all charts of shares. */
const round = signal(false);

interface Props {
  title: string;
  slices: Slice[];
  unit: string;
  /** What of a slice is looked for on the timeline. */
  inTrace?: ((label: string) => State) | undefined;
}

const RADIUS = 80;
/** Shares of their own; all others are one. */
const MOST = 10;
/** Lightness steps of one hue: what has no category has no category's colour. */
const SHADES = 10;

function Pie({ title, slices, unit, inTrace }: Props) {
  let turned = 0;
  return (
    <Chart
      title={title}
      controls={
        <button aria-pressed={round.value} onClick={() => (round.value = !round.value)}>
          {round.value ? "As bars" : "As a pie"}
        </button>
      }
      table={<Twin caption={title} head={["Name", unit, "Share"]} rows={slices.map((each) => [each.label, number(each.value), percent(each.percent)])} />}
    >
      <div class="pie">
        {round.value && <svg viewBox={`${-RADIUS - 2} ${-RADIUS - 2} ${2 * RADIUS + 4} ${2 * RADIUS + 4}`} aria-hidden="true">
          {slices.map((each, index) => {
            const from = turned;
            turned += each.percent / 100;
            return (
              <path key={index} class={`mark ${shade(each, index)}`} d={sector(from, turned)}>
                <title>{`${each.label}: ${percent(each.percent)}`}</title>
              </path>
            );
          })}
        </svg>}
        <ol class="slices">
          {slices.map((each, index) => (
            <li
              key={index}
              title={each.label}
              class={round.value || each.rest ? undefined : "barred"}
              style={{ "--length": `${each.percent}%` }}
            >
              {round.value && <span class={`swatch ${shade(each, index)}`} aria-hidden="true" />}
              {inTrace && !each.rest ? (
                <a class="what" href={link({ page: "trace_viewer", ...inTrace(each.label) })}>
                  <Name text={each.label} />
                </a>
              ) : (
                <span class="what">
                  <Name text={each.label} />
                </span>
              )}
              <span class="share">{percent(each.percent)}</span>
            </li>
          ))}
        </ol>
      </div>
    </Chart>
  );
}

function shade(slice: Slice, index: number): string {
  return slice.rest ? "shade-rest" : `shade-${index % SHADES}`;
}

function sector(from: number, to: number): string {
  // A whole circle has no chord: an arc must stop short of its beginning.
  const end = Math.min(to, from + 0.99999);
  const [x1, y1] = onCircle(from);
  const [x2, y2] = onCircle(end);
  const large = end - from > 0.5 ? 1 : 0;
  return `M0 0L${x1} ${y1}A${RADIUS} ${RADIUS} 0 ${large} 1 ${x2} ${y2}Z`;
}

function onCircle(turn: number): [number, number] {
  const angle = 2 * Math.PI * turn - Math.PI / 2;
  return [RADIUS * Math.cos(angle), RADIUS * Math.sin(angle)];
}

/** The largest shares, and the rest in one slice, so that the circle is whole. */
export function LargestPie(props: Props) {
  const named = props.slices.slice(0, MOST);
  const left = 100 - named.reduce((sum, each) => sum + each.percent, 0);
  const valued = named.find((each) => each.percent > 0);
  if (!valued) return null;
  const whole = (100 * valued.value) / valued.percent;
  // A rest that is not larger than this gets no slice.
  const rest = left > 0.05 ? [{ label: "All other parts", value: (whole * left) / 100, percent: left, rest: true }] : [];
  return <Pie {...props} slices={[...named, ...rest]} key={`${props.title} ${percent(left)}`} />;
}
