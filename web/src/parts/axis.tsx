// What charts with axes share: the room that they have, and round numbers to write at them.
import { useLayoutEffect, useRef, useState } from "preact/hooks";

const NARROWEST = 260;

/**
 * The width that is there, so that text keeps its size on narrow screens; null until it is
 * known, for a chart takes long to draw and should be drawn once.
 */
export function useRoom() {
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

/** The next round number: 1, 2 or 5 times a power of ten. */
export function rounded(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  return power * ([1, 2, 5, 10].find((factor) => factor * power >= value) ?? 10);
}

/** Round numbers from `from` to `to`, about `count` of them. */
export function ticks(from: number, to: number, count: number): number[] {
  const step = rounded((to - from) / count || 1);
  const first = Math.ceil(from / step);
  return Array.from({ length: Math.max(Math.floor(to / step) - first + 1, 0) }, (_, k) => (first + k) * step);
}
