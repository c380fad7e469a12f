// Levels over time, one on top of the other, with a cursor that the pointer and the arrows move.
import type { TargetedKeyboardEvent, TargetedMouseEvent } from "preact";
import { useState } from "preact/hooks";

import { Fitted, Scale, scaled } from "../parts/axis";

export interface Level {
  label: string;
  token: string;
  values: number[];
}

interface Props {
  label: string;
  times: number[];
  timeLabel: string;
  /** Stacked, the lowest first. */
  levels: Level[];
  /** The top of the axis, in what the levels are given in. */
  top: number;
  unitLabel: string;
  /** A share of 0 to 100, on an axis of its own. */
  share?: { label: string; values: (number | null)[] } | undefined;
  mark: { index: number; label: string } | null;
  /** The moment that is told of elsewhere. */
  chosen?: number | null;
  /** What is said of a moment. */
  said: (index: number) => string;
  onChoose?: (index: number) => void;
}

const HEIGHT = 260;
const LEFT = 62;
const RIGHT = 52;
const TOP = 18;
const BOTTOM = 40;

export function Series(props: Props) {
  return <Fitted class="series">{(room) => props.times.length > 0 && <Picture {...props} room={room} />}</Fitted>;
}

function Picture(props: Props & { room: number }) {
  const { times, levels, top, share, mark, room } = props;
  const [at, point] = useState<number | null>(null);
  const last = times.length - 1;
  const right = room - (share ? RIGHT : 12);
  const [first, span] = [times[0]!, times[last]! - times[0]! || 1];
  const x = (index: number) => LEFT + ((right - LEFT) * (times[index]! - first)) / span;
  const y = (part: number) => TOP + (HEIGHT - BOTTOM - TOP) * (1 - Math.min(part, 1));
  const nearest = (event: TargetedMouseEvent<SVGSVGElement>) => {
    const box = event.currentTarget.getBoundingClientRect();
    const time = first + (span * (((event.clientX - box.left) * room) / box.width - LEFT)) / (right - LEFT);
    return times.reduce((best, each, k) => (Math.abs(each - time) < Math.abs(times[best]! - time) ? k : best), 0);
  };
  const move = (event: TargetedKeyboardEvent<SVGSVGElement>) => {
    const now = at ?? mark?.index ?? 0;
    const to = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: last, PageDown: now + 10, PageUp: now - 10 }[event.key];
    if (event.key === "Enter" && at !== null) props.onChoose?.(at);
    if (to === undefined) return;
    event.preventDefault();
    point(Math.min(Math.max(to, 0), last));
  };
  return (
    <>
      <svg
        viewBox={`0 0 ${room} ${HEIGHT}`}
        role="slider"
        tabindex={0}
        aria-label={props.label}
        aria-valuemin={0}
        aria-valuemax={last}
        aria-valuenow={at ?? mark?.index ?? 0}
        aria-valuetext={props.said(at ?? mark?.index ?? 0)}
        onMouseMove={(event) => point(nearest(event))}
        onClick={(event) => props.onChoose?.(nearest(event))}
        onKeyDown={move}
      >
        <g class="axis" aria-hidden="true">
          <Scale
            left={LEFT}
            right={right}
            at={scaled(0, top, 4).map(([value, text]) => [y(value / top), text])}
            title={props.unitLabel}
            middle={HEIGHT / 2}
          />
          {scaled(first, first + span, (right - LEFT) / 110).map(([value, text]) => (
            <text key={value} x={LEFT + ((right - LEFT) * (value - first)) / span} y={HEIGHT - 22} text-anchor="middle">
              {text}
            </text>
          ))}
          <text x={(LEFT + right) / 2} y={HEIGHT - 4} text-anchor="middle">
            {props.timeLabel}
          </text>
          {share && (
            <>
              {[0, 50, 100].map((value) => (
                <text key={value} x={right + 6} y={y(value / 100) + 4}>
                  {value} %
                </text>
              ))}
              <text transform={`translate(${room - 6} ${HEIGHT / 2}) rotate(-90)`} text-anchor="middle">
                {share.label}
              </text>
            </>
          )}
        </g>
        {stacked(levels).map(({ label, token, low, high }) => (
          <path
            key={label}
            class={`fill-${token}`}
            data-level={label}
            d={`${outline(high, x, (value) => y(value / top))}${outline(low, x, (value) => y(value / top), true)}z`}
          />
        ))}
        {share && <path class="share" d={broken(share.values, x, (value) => y(value / 100))} />}
        {mark && <Mark x={x(mark.index)} label={mark.label} toLeft={x(mark.index) > (LEFT + right) / 2} />}
        {props.chosen != null && (
          <line class="cursor chosen" x1={x(props.chosen)} x2={x(props.chosen)} y1={TOP - 6} y2={HEIGHT - BOTTOM} />
        )}
        {at !== null && <line class="cursor" x1={x(at)} x2={x(at)} y1={TOP} y2={HEIGHT - BOTTOM} />}
      </svg>
      <p class="under" aria-live="off">{at !== null && props.said(at)}</p>
    </>
  );
}

function Mark({ x, label, toLeft }: { x: number; label: string; toLeft: boolean }) {
  return (
    <g class="level">
      <line x1={x} x2={x} y1={TOP - 6} y2={HEIGHT - BOTTOM} />
      <text x={toLeft ? x - 4 : x + 4} y={TOP - 7} text-anchor={toLeft ? "end" : "start"}>
        {label}
      </text>
    </g>
  );
}

/** Where each level begins and ends, on top of those before it. */
export function stacked(levels: Level[]): { label: string; token: string; low: number[]; high: number[] }[] {
  let below: number[] = (levels[0]?.values ?? []).map(() => 0);
  return levels.map(({ label, token, values }) => {
    const low = below;
    below = low.map((value, k) => value + (values[k] ?? 0));
    return { label, token, low, high: below };
  });
}

/** A line in steps: a value holds until the next one. */
function outline(values: number[], x: (index: number) => number, y: (value: number) => number, back = false): string {
  const points = values.map((value, k) => [x(k), y(value), x(Math.min(k + 1, values.length - 1))] as const);
  if (!back) return points.map(([from, level, to], k) => `${k === 0 ? "M" : "L"}${from} ${level}H${to}`).join("");
  return points.reverse().map(([from, level, to]) => `L${to} ${level}H${from}`).join("");
}

/** The same for what is unknown at times: no line there, rather than one at zero. */
export function broken(values: (number | null)[], x: (index: number) => number, y: (value: number) => number): string {
  const end = (k: number) => x(Math.min(k + 1, values.length - 1));
  const known = (k: number) => values[k] !== null && values[k] !== undefined;
  return values.map((value, k) => (value === null ? "" : `${known(k - 1) ? "L" : "M"}${x(k)} ${y(value)}H${end(k)}`)).join("");
}
