// A share in percent, step by step: its mean as a line, its range over the devices as a band.
import { percent } from "../format";
import { Fitted, Scale, ticks } from "../parts/axis";

export interface Share {
  label: string;
  low: number;
  mean: number;
  high: number;
}

const HEIGHT = 150;
const LEFT = 62;
const TOP = 8;
const BOTTOM = 34;

export function Band({ label, shares, each }: { label: string; shares: Share[]; each: string }) {
  return <Fitted>{(room) => <Picture {...{ label, shares, each, room }} />}</Fitted>;
}

function Picture({ label, shares, each, room }: { label: string; shares: Share[]; each: string; room: number }) {
  const top = Math.min(Math.max(...shares.map((one) => one.high), 1) * 1.04, 100);
  const x = (index: number) => LEFT + ((room - LEFT - 8) * index) / Math.max(shares.length - 1, 1);
  const y = (value: number) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top);
  const line = (values: number[]) => values.map((value, k) => `${x(k)} ${y(value)}`).join("L");
  const back = shares.map((one, k) => `L${x(k)} ${y(one.low)}`).reverse().join("");
  const few = Math.ceil(shares.length / Math.max(Math.floor((room - LEFT) / 60), 1));
  return (
    <svg viewBox={`0 0 ${room} ${HEIGHT}`} role="img" aria-label={label}>
      <g class="axis">
        <Scale left={LEFT} right={room - 8} at={ticks(0, top, 3).map((value) => [y(value), percent(value)])} />
        {shares.map(
          (one, k) =>
            k % few === 0 && (
              <text key={k} x={x(k)} y={HEIGHT - 18} text-anchor="middle">
                {one.label}
              </text>
            ),
        )}
        <text x={(LEFT + room) / 2} y={HEIGHT - 3} text-anchor="middle">
          {each}
        </text>
      </g>
      <path class="band fill-input" d={`M${line(shares.map((one) => one.high))}${back}z`} />
      <path class="mean" d={`M${line(shares.map((one) => one.mean))}`} />
    </svg>
  );
}
