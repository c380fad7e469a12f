import { percent } from "../format";
import { Pie, type Slice } from "./pie";

const MOST = 10;

/** The largest shares, and the rest in one slice, so that the circle is whole. */
export function LargestPie(props: {
  title: string;
  slices: Slice[];
  unit: string;
  onChoose?: (label: string) => void;
}) {
  const named = props.slices.slice(0, MOST);
  const left = 100 - named.reduce((sum, each) => sum + each.percent, 0);
  const valued = named.find((each) => each.percent > 0);
  if (!valued) return null;
  const whole = (100 * valued.value) / valued.percent;
  // A rest that is not larger than this gets no slice.
  const rest = left > 0.05 ? [{ label: "All others", value: (whole * left) / 100, percent: left, rest: true }] : [];
  return <Pie {...props} slices={[...named, ...rest]} key={`${props.title} ${percent(left)}`} />;
}
