// A tree as nested spans, as wide as their cost: from the top as an icicle, from below as a flame.
import { signal } from "@preact/signals";

import { Fitted } from "../parts/axis";
import { lastPart } from "../parts/name";
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
      {flame.value ? "As an icicle" : "As a flame graph"}
    </button>
  );
  return <Fitted class="icicle" above={turn}>{(room) => <Picture {...props} room={room} />}</Fitted>;
}

function Picture({ label, spans, onChoose, room }: Parameters<typeof Icicle>[0] & { room: number }) {
  const placed = laid(spans, room);
  const depth = Math.max(...placed.map((each) => each.level), 0) + 1;
  const y = (level: number) => ROW * (flame.value ? depth - 1 - level : level);
  return (
    <svg viewBox={`0 0 ${room} ${depth * ROW}`} role="img" aria-label={label}>
      {placed.map(({ span, level, x, width }) => (
        <g key={span.id} data-span={span.name} class={onChoose && "choosable"} onClick={() => onChoose?.(span.name)}>
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
