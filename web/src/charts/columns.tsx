// Stacked columns, one for each step or worker, in the categories' colours.
import { useLayoutEffect, useRef, useState } from "preact/hooks";

import { number } from "../format";
import { Hatches, Legend, paint, present } from "./categories";

export interface Stack {
  /** Label under the column. */
  label: string;
  /** Category → height. */
  parts: Record<string, number>;
}

interface Props {
  stacks: Stack[];
  /** Of the heights. */
  unit: string;
  /** What a column is: "step". */
  each: string;
  chosen?: number | undefined;
  /** For charts one above the other: the largest height and number of columns of all. */
  ruler?: { most: number; count: number; legend: boolean };
  onPoint?: (index: number | null) => void;
  onChoose?: (index: number) => void;
}

const HEIGHT = 220;
const LEFT = 56;
const BOTTOM = 22;
const TOP = 12;
const NARROWEST = 260;
const TICKS = 4;
const WIDEST = 90;
/** More columns than this could hardly be pointed at, and take long to draw. */
const MOST = 200;

export function Columns(props: Props) {
  const [place, room] = useRoom();
  return (
    <div class="columns" ref={place}>
      {room !== null && <Drawn {...props} room={room} />}
    </div>
  );
}

function Drawn(props: Props & { room: number }) {
  const { stacks, unit, room, ruler } = props;
  const [under, point] = useState<number | null>(null);
  const shown = stacks.slice(0, MOST);
  const categories = present(shown.map((stack) => stack.parts));
  const most = ruler?.most || Math.max(...shown.map((stack) => total(stack)), Number.MIN_VALUE);
  const top = ceiling(most);
  const width = Math.min((room - LEFT) / Math.max(ruler?.count ?? shown.length, 1), WIDEST);
  const y = (value: number) => TOP + (HEIGHT - BOTTOM - TOP) * (1 - value / top);
  const at = (index: number | null) => {
    point(index);
    props.onPoint?.(index);
  };
  return (
    <>
      <Hatches />
      {ruler?.legend !== false && <Legend categories={categories} />}
      <svg viewBox={`0 0 ${room} ${HEIGHT + 4}`} role="list" aria-label={`One column for each ${props.each}`}>
        <Axis top={top} right={room} y={y} unit={unit} />
        {shown.map((stack, index) => (
          <g
            key={index}
            role="listitem"
            tabIndex={0}
            class={index === props.chosen ? "column chosen" : "column"}
            aria-label={`${props.each} ${stack.label}: ${spoken(stack, unit)}`}
            onMouseEnter={() => at(index)}
            onFocus={() => at(index)}
            onClick={() => props.onChoose?.(index)}
            onKeyDown={(event) => event.key === "Enter" && props.onChoose?.(index)}
          >
            <rect class="catch" x={LEFT + index * width} y={0} width={width} height={HEIGHT} />
            {labelled(index, shown.length) && (
              <text x={LEFT + (index + 0.5) * width} y={HEIGHT - 4} text-anchor="middle">
                {stack.label}
              </text>
            )}
          </g>
        ))}
        <Parts stacks={shown} width={width} y={y} />
      </svg>
      <p class="under" aria-live="off">
        {under !== null && shown[under] && (
          <>
            <b>
              {props.each} {shown[under].label}
            </b>{" "}
            {spoken(shown[under], unit)}
          </>
        )}
        {stacks.length > MOST && ` The first ${MOST} of ${stacks.length} are drawn; the table has all.`}
      </p>
    </>
  );
}

interface PartsProps {
  stacks: Stack[];
  width: number;
  y: (value: number) => number;
}

/** All columns' parts, one path for each category: thousands of shapes take long to lay out. */
function Parts({ stacks, width, y }: PartsProps) {
  const gap = Math.min(width * 0.15, 4);
  const across = Math.max(width - gap, 0.5);
  const below = stacks.map(() => 0);
  return (
    <g class="parts">
      {present(stacks.map((stack) => stack.parts)).map((category) => (
        <path
          key={category.name}
          {...paint(category)}
          data-category={category.name}
          d={stacks
            .map((stack, index) => {
              const value = stack.parts[category.name] ?? 0;
              const bottom = y(below[index]!);
              below[index]! += value;
              const top = y(below[index]!);
              const x = LEFT + index * width + gap / 2;
              return bottom > top ? `M${x} ${top}h${across}v${bottom - top}h${-across}z` : "";
            })
            .join("")}
        />
      ))}
    </g>
  );
}

interface AxisProps {
  top: number;
  right: number;
  y: (value: number) => number;
  unit: string;
}

function Axis({ top, right, y, unit }: AxisProps) {
  const ticks = Array.from({ length: TICKS + 1 }, (_, k) => (top * k) / TICKS);
  return (
    <g class="axis" aria-hidden="true">
      {ticks.map((value) => (
        <g key={value}>
          <line x1={LEFT} x2={right} y1={y(value)} y2={y(value)} />
          <text x={LEFT - 6} y={y(value) + 4} text-anchor="end">
            {number(value)}
            {value === top ? ` ${unit}` : ""}
          </text>
        </g>
      ))}
    </g>
  );
}

/**
 * The width that is there, so that text keeps its size on narrow screens; null until it is
 * known, for a chart takes long to draw and should be drawn once.
 */
function useRoom() {
  const place = useRef<HTMLDivElement>(null);
  const [room, measure] = useState<number | null>(null);
  useLayoutEffect(() => {
    const look = () => measure(Math.max(place.current!.clientWidth, NARROWEST));
    look();
    const watch = new ResizeObserver(look);
    watch.observe(place.current!);
    return () => watch.disconnect();
  }, []);
  return [place, room] as const;
}

function total(stack: Stack): number {
  return Object.values(stack.parts).reduce((sum, value) => sum + value, 0);
}

/** The next round number: 1, 2 or 5 times a power of ten. */
function ceiling(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  return power * ([1, 2, 5, 10].find((factor) => factor * power >= value) ?? 10);
}

function labelled(index: number, count: number): boolean {
  return index % Math.ceil(count / 20) === 0;
}

function spoken(stack: Stack, unit: string): string {
  return present([stack.parts])
    .filter((each) => stack.parts[each.name]! > 0)
    .map((each) => `${each.title} ${number(stack.parts[each.name])} ${unit}`)
    .join(", ");
}
