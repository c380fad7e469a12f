// A tree as nested spans, as wide as their cost: from the top as an icicle, from below as a flame.
import { signal } from "@preact/signals";
import type { TargetedKeyboardEvent } from "preact";
import { useState } from "preact/hooks";

import { Fitted } from "../parts/axis";
import { lastPart } from "../parts/name";
import { moveTo } from "../parts/stops";
import { byParent } from "./tree";

export interface Span {
  id: number;
  parent: number | null;
  name: string;
  value: number;
  /** What is said of it. */
  text: string;
}

const ROW = 20;
/** Narrower spans are not drawn. */
const LEAST_WIDTH = 1.5;
const DEEPEST = 24;
const flame = signal(false);

export function Icicle(props: { label: string; spans: Span[]; onChoose?: ((name: string) => void) | undefined }) {
  const turn = (
    <button aria-pressed={flame.value} onClick={() => (flame.value = !flame.value)}>
      {flame.value ? "Root above" : "Root below"}
    </button>
  );
  return <Fitted class="icicle" above={turn}>{(room) => <Picture {...props} room={room} />}</Fitted>;
}

function Picture({ label, spans, onChoose, room }: Parameters<typeof Icicle>[0] & { room: number }) {
  const placed = laid(spans, room);
  const depth = Math.max(...placed.map((each) => each.level), 0) + 1;
  const y = (level: number) => ROW * (flame.value ? depth - 1 - level : level);
  const [reached, reach] = useState("");
  // All spans are one stop of the Tab key; arrows go to neighbours, to the span around and to its parts.
  const pressed = (event: TargetedKeyboardEvent<SVGSVGElement>) => {
    const next = (at: number, by: number, level: number) => {
      const others = placed.map((each, k) => (each.level === level ? k : -1)).filter((k) => k >= 0 && (by > 0 ? k > at : k < at));
      return others.at(by > 0 ? 0 : -1) ?? -1;
    };
    moveTo(event, [...event.currentTarget.querySelectorAll("g")], (at) => {
      const { level } = placed[at]!;
      const inner = placed[at + 1]?.level === level + 1 ? at + 1 : -1;
      const [up, down] = flame.value ? [inner, next(at, -1, level - 1)] : [next(at, -1, level - 1), inner];
      return { ArrowLeft: next(at, -1, level), ArrowRight: next(at, 1, level), ArrowUp: up, ArrowDown: down, Home: 0, End: placed.length - 1 };
    });
  };
  return (
    <>
      <svg viewBox={`0 0 ${room} ${depth * ROW}`} role="list" aria-label={label} onKeyDown={pressed}>
        {placed.map(({ span, level, x, width }, place) => (
          <g
            key={span.id}
            data-span={span.name}
            class={onChoose && "choosable"}
            role="listitem"
            aria-label={`${span.name}: ${span.text}`}
            tabindex={place === 0 ? 0 : -1}
            onFocus={() => reach(`${span.name}: ${span.text}`)}
            onClick={() => onChoose?.(span.name)}
            onKeyDown={(event) => event.key === "Enter" && onChoose?.(span.name)}
          >
            <title>{`${span.name}: ${span.text}`}</title>
            <rect class={`mark shade-${level % 5}`} x={x} y={y(level)} width={width} height={ROW - 1} />
            {width > 40 && (
              <text class={`on-shade-${level % 5}`} x={x + 4} y={y(level) + 14}>
                {shortened(lastPart(span.name), Math.floor((width - 8) / 7))}
              </text>
            )}
          </g>
        ))}
      </svg>
      {reached && <p class="hint">{reached}</p>}
    </>
  );
}

const shortened = (text: string, most: number) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

/** Where each span lies: the parts of one side by side within it, the largest first. */
export function laid(spans: Span[], room: number) {
  const parts = byParent(spans);
  const found: { span: Span; level: number; x: number; width: number }[] = [];
  const place = (parent: number | null, level: number, from: number, width: number, whole: number) => {
    const mine = [...(parts.get(parent) ?? [])].sort((a, b) => b.value - a.value);
    // Parts that run side by side may take more than the whole.
    const sum = Math.max(whole, mine.reduce((all, each) => all + each.value, 0));
    let x = from;
    for (const span of mine) {
      const size = sum > 0 ? (width * span.value) / sum : 0;
      if (size >= LEAST_WIDTH && level < DEEPEST) {
        found.push({ span, level, x, width: size });
        place(span.id, level + 1, x, size, span.value);
      }
      x += size;
    }
  };
  place(null, 0, 0, room, 0);
  return found;
}
