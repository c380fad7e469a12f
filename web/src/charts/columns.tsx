// Stacked columns, one for each step or worker, in the categories' colours.
import type { TargetedKeyboardEvent } from "preact";
import { useState } from "preact/hooks";

import { capital, counted, decimals, number } from "../format";
import { Fitted, Scale, scaled } from "../parts/axis";
import { moveAlong } from "../parts/stops";
import { Hatches, Legend, paint, present } from "./categories";

export interface Stack {
  /** Label under the column. */
  label: string;
  /** Category → height. */
  parts: Record<string, number>;
  /** Columns of one group stand together, under its name; none where all are alike. */
  group?: string;
  /** What else is said of the column. */
  remark?: string;
  /** Drawn pale: it is in no mean. */
  outside?: boolean;
}

interface Props {
  stacks: Stack[];
  /** Of the heights. */
  unit: string;
  /** What a column is: "step". */
  each: string;
  /** Levels to compare with, such as the mean. */
  lines?: Line[];
  chosen?: number | undefined;
  /** For charts one above the other: the largest height and number of columns of all. */
  ruler?: { most: number; count: number };
  onPoint?: (index: number | null) => void;
  onChoose?: (index: number) => void;
}

interface Line {
  label: string;
  value: number | null;
}

/** A column as it is drawn: the worst of as many as share its place. */
interface Drawn extends Stack {
  index: number;
  of: number;
  total: number;
}

const HEIGHT = 220;
const LEFT = 62;
const RIGHT = 76;
/** Where so few pixels are there, the names of lines stand in the picture. */
const NARROW = 480;
const BOTTOM = 22;
const TOP = 22;
const TICKS = 4;
/** The height of a line of text. */
const LINE = 13;
/** Columns up to this width begin and end on whole pixels, or some would look pale. */
const THIN = 12;
const WIDEST = 90;
/** Columns that are narrower can hardly be pointed at. */
const LEAST_WIDTH = 3;
/** A column that is so many times the median leaves the scale, and is marked. */
const BEYOND = 4;

export function Columns(props: Props) {
  return <Fitted>{(room) => <Picture {...props} room={room} />}</Fitted>;
}

function Picture(props: Props & { room: number }) {
  const { unit, room, each, ruler, lines = [] } = props;
  const [under, point] = useState<number | null>(null);
  const roomy = room > NARROW;
  const right = room - (lines.length > 0 && roomy ? RIGHT : 0);
  const places = Math.floor((right - LEFT) / LEAST_WIDTH);
  const shown = binned(props.stacks, places);
  const alone = unlike(shown);
  const own = scale(shown.map((column) => column.total));
  const top = 1.04 * (ruler?.most ?? 0) || Math.max(own, 1.04 * (lines[0]?.value ?? 0));
  const width = Math.min((right - LEFT) / Math.max(Math.min(ruler?.count ?? 0, places), shown.length, 1), WIDEST);
  const y = (value: number) => TOP + (HEIGHT - BOTTOM - TOP) * (1 - Math.min(value / top, 1));
  const at = (index: number | null) => {
    point(index);
    props.onPoint?.(index === null ? null : shown[index]!.index);
  };
  // Groups of one column each are told apart by their names, not by the label that all share.
  const named = (column: Drawn) => (alone && column.group) || column.label;
  const beyond = shown.filter((column) => column.total > top);
  const pointed = under === null ? undefined : shown[under];
  return (
    <>
      <Hatches />
      {!ruler && <Legend categories={present(shown.map((column) => column.parts))} />}
      <svg viewBox={`0 0 ${room} ${HEIGHT + 16}`} role="list" aria-label={`One column for each ${each}`}>
        <g class="axis" aria-hidden="true">
          <Scale
            left={LEFT}
            right={right}
            at={scaled(0, top, TICKS).map(([value, text]) => [y(value), text])}
            title={`Time of a ${each} (${unit})`}
            middle={(HEIGHT - BOTTOM + TOP) / 2}
          />
        </g>
        {!alone && (
          <text aria-hidden="true" x={LEFT + (shown.length * width) / 2} y={HEIGHT + 12} text-anchor="middle">
            {capital(each)}
          </text>
        )}
        {shown.map((column, index) => (
          <g
            key={index}
            role="listitem"
            tabindex={index === 0 ? 0 : -1}
            class={column.index === props.chosen ? "column chosen" : "column"}
            aria-label={`${titled(column, each)}: ${said(column, unit)}`}
            onMouseEnter={() => at(index)}
            onFocus={() => at(index)}
            onClick={() => props.onChoose?.(column.index)}
            onKeyDown={(event) => (event.key === "Enter" ? props.onChoose?.(column.index) : toNeighbour(event))}
          >
            <rect class="catch" x={LEFT + index * width} y={0} width={width} height={HEIGHT} />
            {column.total > top && (
              <path class="beyond" d={`M${LEFT + (index + 0.5) * width} ${TOP - 9}l4 7h-8z`} />
            )}
            {labelled(index, shown.map(named), width) && (
              <text x={LEFT + (index + 0.5) * width} y={HEIGHT - 4} text-anchor="middle">
                {named(column)}
              </text>
            )}
          </g>
        ))}
        <Parts stacks={shown} width={width} y={y} />
        {shown.map((column, index) =>
          column.outside && <rect key={index} class="outside" x={LEFT + index * width} y={TOP} width={width} height={HEIGHT - BOTTOM - TOP} />)}
        {alone || <Groups columns={shown} width={width} />}
        <Levels lines={lines.filter(({ value }) => value !== null && value <= top)} {...{ right, roomy, y }} />
      </svg>
      <p class="under" aria-live="off">
        {pointed && (
          <>
            <b>{titled(pointed, each)}</b> {said(pointed, unit)}
          </>
        )}
      </p>
      <p class="summary">
        {beyond.length > 0 &&
          `▲ above the scale: ${counted(beyond.length, each)}, up to ${number(Math.max(...beyond.map((one) => one.total)))} ${unit}. `}
        {shown.some((column) => column.outside) && "The mean excludes pale columns. "}
        {lines.map(({ label, value }) => value !== null && value > top && `${label} ${number(value)} ${unit}. `)}
        {shown.length < props.stacks.length &&
          `${number(props.stacks.length)} ${each}s share ${number(shown.length)} columns; each shows the longest of its ${each}s.`}
      </p>
    </>
  );
}

/** Lines across the columns, named beside them, or above them where there is no room beside. */
function Levels({ lines, right, roomy, y }: { lines: Line[]; right: number; roomy: boolean; y: (value: number) => number }) {
  const heights = lines.map(({ value }) => y(value!));
  const together = !roomy && heights.length > 1 && Math.max(...heights) - Math.min(...heights) < LINE;
  const text = ({ label, value }: Line) => `${label} ${number(value)}`;
  return (
    <>
      {lines.map((each, k) => (
        <g key={each.label} class="level" data-level={each.label}>
          <line x1={LEFT} x2={right} y1={heights[k]} y2={heights[k]} />
          {roomy && <text x={right + 4} y={heights[k]! + (k === 0 ? 12 : 0)}>{text(each)}</text>}
          {!roomy && !together && <text x={right - 2} y={heights[k]! - 4} text-anchor="end">{text(each)}</text>}
        </g>
      ))}
      {together && (
        <g class="level">
          <text x={right - 2} y={Math.min(...heights) - 4} text-anchor="end">{lines.map(text).join(" · ")}</text>
        </g>
      )}
    </>
  );
}

/** At most so many columns: neighbours of one group share one, which shows the worst of them. */
export function binned(stacks: Stack[], most: number): Drawn[] {
  const groups = [...new Set(stacks.map((each) => each.group))];
  const together = groups.flatMap((group) =>
    stacks.map((stack, index) => ({ ...stack, index, of: 1, total: total(stack) })).filter((each) => each.group === group),
  );
  const room = Math.max(most - groups.length, 1);
  const places = Math.min(room / together.length, 1);
  const found: Drawn[] = [];
  for (const [k, each] of together.entries()) {
    const last = found[found.length - 1];
    const moved = Math.floor(k * places) > Math.floor((k - 1) * places);
    if (!last || moved || last.group !== each.group) found.push(each);
    else found[found.length - 1] = { ...(each.total > last.total ? each : last), of: last.of + 1 };
  }
  return found;
}

/** The top of the axis: the tallest column, unless a few are many times the others. */
export function scale(totals: number[]): number {
  const sorted = totals.toSorted((a, b) => a - b);
  const most = sorted.at(-1) || 1;
  const middle = sorted[Math.floor(sorted.length / 2)] ?? most;
  return 1.04 * (sorted.findLast((each) => each <= BEYOND * middle) || most);
}

/** Names of the groups above their columns, with a line where one begins. */
function Groups({ columns, width }: { columns: Drawn[]; width: number }) {
  const starts = columns.map((_, index) => index).filter((k) => columns[k]!.group !== columns[k - 1]?.group);
  if (starts.length < 2) return null;
  return (
    <g class="groups">
      {starts.map((k, at) => (
        <g key={k}>
          <line x1={LEFT + k * width} x2={LEFT + k * width} y1={0} y2={HEIGHT - BOTTOM} />
          {7 * (columns[k]!.group ?? "").length + 6 < width * ((starts[at + 1] ?? Infinity) - k) && (
            <text x={LEFT + k * width + 3} y={9}>
              {columns[k]!.group}
            </text>
          )}
        </g>
      ))}
    </g>
  );
}

/** All columns' parts, one path for each category: thousands of shapes take long to lay out. */
function Parts({ stacks, width, y }: { stacks: Drawn[]; width: number; y: (value: number) => number }) {
  const thin = width < THIN;
  const gap = thin ? Math.min(Math.floor(width / LEAST_WIDTH), 1) : Math.min(width * 0.15, 4);
  const edge = (index: number) => (thin ? Math.round(LEFT + index * width) : LEFT + index * width + gap / 2);
  const below = stacks.map(() => 0);
  return (
    <g class={thin ? "parts thin" : "parts"}>
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
              const x = edge(index);
              const across = Math.max(edge(index + 1) - x - gap, 1);
              return bottom > top ? `M${x} ${top}h${across}v${bottom - top}h${-across}z` : "";
            })
            .join("")}
        />
      ))}
    </g>
  );
}

/** Whether each column is one of another group, such as the hosts of one step. */
function unlike(columns: Drawn[]): boolean {
  return columns.length > 1 && new Set(columns.map((each) => each.group)).size === columns.length;
}

export function total(stack: Stack): number {
  return Object.values(stack.parts).reduce((sum, value) => sum + value, 0);
}

/** Labels stand apart from each other by at least their own width. */
function labelled(index: number, labels: string[], width: number): boolean {
  const widest = Math.max(...labels.map((each) => each.length));
  return index % Math.ceil((7 * widest + 8) / width) === 0;
}

function titled(column: Drawn, each: string): string {
  return column.of > 1 ? `${each} ${column.label}, the longest of ${column.of}` : `${each} ${column.label}`;
}

function said(column: Drawn, unit: string): string {
  const digits = decimals(column.total);
  const parts = present([column.parts])
    .filter((each) => column.parts[each.name]! > 0)
    .map((each) => `${each.title} ${number(column.parts[each.name], digits)} ${unit}`);
  return [column.group, `${number(column.total)} ${unit} in all`, ...parts, column.remark].filter(Boolean).join(", ");
}

/** All columns are one stop of the Tab key. */
function toNeighbour(event: TargetedKeyboardEvent<SVGGElement>): void {
  moveAlong(event, [...event.currentTarget.parentElement!.querySelectorAll<SVGElement>("[role=listitem]")], "ArrowLeft", "ArrowRight");
}
