// Points by intensity and rate on two logarithmic axes, under the roofs of a device.
import type { TargetedKeyboardEvent } from "preact";
import { useState } from "preact/hooks";

import { Fitted, Scale } from "../parts/axis";

export interface Point {
  /** FLOP per byte, above 0. */
  x: number;
  /** 10^9 operations per second, above 0. */
  y: number;
  /** Share of the time, 0 to 100: the area of its circle. */
  percent: number;
  measured: boolean;
  said: string;
}

export interface Roof {
  label: string;
  /** 10^9 operations per second. */
  peak: number;
  /** 10^9 bytes per second; null where unknown. */
  memory: number | null;
}

interface Props {
  label: string;
  /** Those that hold most time first. */
  points: Point[];
  roofs: Roof[];
  onChoose?: (index: number) => void;
}

const HEIGHT = 380;
/** Height of a label. */
const LABEL = 13;
/** Between a label and the line below it. */
const ABOVE = 4;
const LEFT = 78;
const RIGHT = 26;
const TOP = 14;
const BOTTOM = 44;
const SMALLEST = 3.5;
const LARGEST = 16;

export function Roofline(props: Props) {
  return <Fitted class="series roofline">{(room) => props.points.length > 0 && <Picture {...props} room={room} />}</Fitted>;
}

function Picture({ label, points, roofs, onChoose, room }: Props & { room: number }) {
  const [at, choose] = useState<number | null>(null);
  const now = at ?? 0;
  const ridges = roofs.flatMap(({ peak, memory }) => (memory ? [peak / memory] : []));
  const across = decades([...points.map(({ x }) => x), ...ridges]);
  const up = decades([...points.map(({ y }) => y), ...roofs.map(({ peak }) => peak)]);
  const right = room - RIGHT;
  const x = (value: number) => LEFT + ((right - LEFT) * (Math.log10(value) - across[0])) / (across[1] - across[0]);
  const y = (value: number) => HEIGHT - BOTTOM - ((HEIGHT - BOTTOM - TOP) * (Math.log10(value) - up[0])) / (up[1] - up[0]);
  const move = (event: TargetedKeyboardEvent<SVGSVGElement>) => {
    const last = points.length - 1;
    const to = { ArrowRight: now + 1, ArrowDown: now + 1, ArrowLeft: now - 1, ArrowUp: now - 1, Home: 0, End: last }[event.key];
    if (event.key === "Enter") onChoose?.(now);
    if (to === undefined) return;
    event.preventDefault();
    choose(at === null && to > 0 && to < last ? 0 : Math.min(Math.max(to, 0), last));
  };
  return (
    <>
      <svg
        viewBox={`0 0 ${room} ${HEIGHT}`}
        role="slider"
        tabindex={0}
        aria-label={label}
        aria-valuemin={0}
        aria-valuemax={points.length - 1}
        aria-valuenow={now}
        aria-valuetext={points[now]!.said}
        onKeyDown={move}
      >
        <g class="axis" aria-hidden="true">
          <Scale
            left={LEFT}
            right={right}
            at={powers(up, (HEIGHT - BOTTOM - TOP) / 34).map((power) => [y(10 ** power), written(power)])}
            title="GFLOP/s"
            middle={(HEIGHT - BOTTOM) / 2}
          />
          {powers(across, (right - LEFT) / 60).map((power) => (
            <g key={power}>
              <line x1={x(10 ** power)} x2={x(10 ** power)} y1={TOP} y2={HEIGHT - BOTTOM} />
              <text x={x(10 ** power)} y={HEIGHT - 26} text-anchor="middle">
                {written(power)}
              </text>
            </g>
          ))}
          <text x={(LEFT + right) / 2} y={HEIGHT - 6} text-anchor="middle">
            Operations per byte (FLOP/byte)
          </text>
        </g>
        {roofs.map((roof) => (
          <path key={roof.label} class="roof" d={outline(roof, across, up, x, y)} />
        ))}
        {besides(roofs.map((roof) => y(roof.peak))).map((at, k) => (
          <text key={k} class="roof" x={right} y={at} text-anchor="end">
            {roofs[k]!.label}
          </text>
        ))}
        {/* The small ones last, on top of the large. */}
        {points.map((point, index) => (
          <circle
            key={index}
            class={`${point.measured ? "measured" : "worked-out"} ${index === at ? "chosen" : ""}`}
            data-point={index}
            cx={x(point.x)}
            cy={y(point.y)}
            r={Math.max(SMALLEST, LARGEST * Math.sqrt(point.percent / 100))}
            onMouseEnter={() => choose(index)}
            onClick={() => onChoose?.(index)}
          />
        ))}
      </svg>
      <p class="under" aria-live="off">
        {at !== null && points[at]?.said}
      </p>
    </>
  );
}

/** The powers of ten around some values: at least one apart. */
export function decades(values: number[]): [number, number] {
  const logs = values.map((value) => Math.log10(value));
  const low = Math.floor(Math.min(...logs) - 0.1);
  return [low, Math.max(Math.ceil(Math.max(...logs) + 0.1), low + 1)];
}

/** Whole powers from one to another, at most about so many. */
function powers([from, to]: [number, number], most: number): number[] {
  const step = Math.max(1, Math.ceil((to - from) / Math.max(most, 1)));
  return Array.from({ length: Math.floor((to - from) / step) + 1 }, (_, k) => from + k * step);
}

function written(power: number): string {
  return (10 ** power).toLocaleString("en", { maximumFractionDigits: 6 });
}

/** A roof within the axes: up with the memory's rate, then flat; flat alone without one. */
function outline(
  { peak, memory }: Roof,
  across: [number, number],
  up: [number, number],
  x: (value: number) => number,
  y: (value: number) => number,
): string {
  const [first, last] = across.map((power) => 10 ** power) as [number, number];
  if (!memory) return `M${x(first)} ${y(peak)}H${x(last)}`;
  const begin = Math.max(first, 10 ** up[0] / memory);
  return `M${x(begin)} ${y(begin * memory)}L${x(peak / memory)} ${y(peak)}H${x(last)}`;
}

/**
 * Where the labels of some lines stand: above each. Of lines with no room between them the first has
 * its label above and the others have theirs below the last, in their order.
 */
export function besides(lines: number[]): number[] {
  const places = [...lines];
  const down = lines.map((_, k) => k).sort((a, b) => lines[a]! - lines[b]!);
  let group: number[] = [];
  const place = () => {
    const last = lines[group.at(-1) ?? 0]!;
    group.forEach((k, nth) => (places[k] = nth === 0 ? lines[k]! - ABOVE : last + LABEL * nth));
  };
  for (const k of down) {
    // Labels that stand below a group leave as much less room.
    if (group.length > 0 && lines[k]! - lines[group.at(-1)!]! > LABEL * group.length + ABOVE) {
      place();
      group = [];
    }
    group.push(k);
  }
  place();
  return places;
}
