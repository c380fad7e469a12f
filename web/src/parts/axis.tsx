// What charts with axes share: the room that they have, and round numbers to write at them.
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

import { MOST_DECIMALS, number } from "../format";

const NARROWEST = 260;

/**
 * A chart in the width that is there, so that text keeps its size on narrow screens; drawn once
 * that is known, for a chart takes long to draw.
 */
export function Fitted(props: { class?: string; above?: ComponentChildren; children: (room: number) => ComponentChildren }) {
  const place = useRef<HTMLDivElement>(null);
  const [room, measure] = useState<number | null>(null);
  useLayoutEffect(() => {
    const look = () => measure(Math.max(place.current!.clientWidth, NARROWEST));
    look();
    const watch = new ResizeObserver(look);
    watch.observe(place.current!);
    return () => watch.disconnect();
  }, []);
  return (
    <div class={`columns ${props.class ?? ""}`} ref={place}>
      {props.above}
      {room !== null && props.children(room)}
    </div>
  );
}

/** Where a scale is written: lines from left to right, each with its text before it. */
interface ScaleProps {
  left: number;
  right: number;
  /** Height and text of each line. */
  at: [number, string][];
  title?: string;
  middle?: number;
}

export function Scale({ left, right, at, title, middle = 0 }: ScaleProps) {
  return (
    <>
      {at.map(([y, text]) => (
        <g key={y}>
          <line x1={left} x2={right} y1={y} y2={y} />
          <text x={left - 6} y={y + 4} text-anchor="end">{text}</text>
        </g>
      ))}
      {title && <text transform={`translate(11 ${middle}) rotate(-90)`} text-anchor="middle">{title}</text>}
    </>
  );
}

/** The next round number: 1, 2 or 5 times a power of ten. */
export function rounded(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  return power * ([1, 2, 5, 10].find((factor) => factor * power >= value) ?? 10);
}

/** Finer steps than asked for that are tried so that no mark stands alone. */
const FINER = 4;

/** Round numbers from `from` to `to`, about `count` of them, and not one alone: it tells no scale. */
export function ticks(from: number, to: number, count: number): number[] {
  const marks = (step: number) => {
    const first = Math.ceil(from / step);
    return Array.from({ length: Math.max(Math.floor(to / step) - first + 1, 0) }, (_, k) => (first + k) * step);
  };
  let step = rounded((to - from) / count || 1);
  // A little more than 2.5 times finer: the next of 1, 2 and 5, whatever the last bit is.
  for (let k = 0; k < FINER && to > from && marks(step).length < 2; k++) step = rounded(step / 2.6);
  return marks(step);
}

/** Round numbers as they are written on their axis: all with the decimals that tell them apart. */
export function written(marks: number[]): string[] {
  const step = marks.length > 1 ? marks[1]! - marks[0]! : (marks[0] ?? 1);
  const digits = Math.max(-Math.floor(Math.log10(Math.abs(step) || 1) + 1e-9), 0);
  return marks.map((each) => number(each, digits <= MOST_DECIMALS ? digits : undefined));
}

/** Round numbers from `from` to `to`, about `count` of them, each as it is written. */
export function scaled(from: number, to: number, count: number): [number, string][] {
  const marks = ticks(from, to, count);
  return written(marks).map((text, k) => [marks[k]!, text]);
}
