// Dense series over time, drawn on a canvas by uPlot in the theme's colours.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";

import { colour, painted } from "../state/theme";

export interface Line {
  label: string;
  token: string;
  values: (number | null)[];
  scale: string;
  /** Filled down to the line below it. */
  filled?: boolean;
  dashed?: boolean;
}

interface Props {
  label: string;
  times: number[];
  lines: Line[];
  axes: { scale: string; label: string; right?: boolean }[];
  timeLabel: string;
  onPoint?: (index: number | null) => void;
  onChoose?: (index: number) => void;
}

const HEIGHT = 260;

export function Series(props: Props) {
  const place = useRef<HTMLDivElement>(null);
  const asked = useRef(props);
  asked.current = props;
  useEffect(() => {
    const box = place.current!;
    const plot = new uPlot(
      options(asked.current, box.clientWidth, () => asked.current),
      [props.times, ...props.lines.map((each) => each.values)],
      box,
    );
    const watch = new ResizeObserver(() => plot.setSize({ width: box.clientWidth, height: HEIGHT }));
    watch.observe(box);
    return () => {
      watch.disconnect();
      plot.destroy();
    };
  }, [props.times, props.lines, painted.value]);
  return <div ref={place} class="series" role="img" aria-label={props.label} />;
}

function options(props: Props, width: number, now: () => Props): uPlot.Options {
  const ink = colour("ink");
  const grid = { stroke: colour("line"), width: 1 };
  return {
    width,
    height: HEIGHT,
    scales: { x: { time: false } },
    axes: [
      { label: props.timeLabel, stroke: ink, grid },
      ...props.axes.map((axis) => ({
        scale: axis.scale,
        label: axis.label,
        side: axis.right ? (1 as const) : (3 as const),
        stroke: ink,
        grid: axis.right ? { show: false } : grid,
        size: 64,
      })),
    ],
    series: [
      { label: props.timeLabel },
      ...props.lines.map((line) => ({
        label: line.label,
        scale: line.scale,
        stroke: colour(line.token),
        width: 1,
        paths: uPlot.paths.stepped!({ align: 1 }),
        points: { show: false },
        ...(line.filled && { fill: colour(line.token) }),
        ...(line.dashed && { dash: [6, 4] }),
      })),
    ],
    hooks: {
      setCursor: [(plot) => now().onPoint?.(plot.cursor.idx ?? null)],
      ready: [
        (plot) =>
          plot.over.addEventListener("click", () => {
            if (typeof plot.cursor.idx === "number") now().onChoose?.(plot.cursor.idx);
          }),
      ],
    },
  };
}
