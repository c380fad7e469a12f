// Step time by step: every step that was recorded, and which of them are unusual.
import type { Statistics, Step } from "../data/made/types";
import { counted, ms } from "../format";
import { change, link, state } from "../state/url";
import { Columns } from "./columns";

/** Flags of windows that are in no mean. */
export const OUTSIDE = ["open_end", "unrecorded", "other_kind", "warm_up"];

type Shown = Pick<Step, "step" | "name" | "host" | "flags" | "duration_ms">;

interface Props<T extends Shown> {
  steps: T[];
  /** How many there are, where the answer has fewer. */
  all?: number | undefined;
  times: Statistics;
  each?: string;
  parts: (step: T) => Record<string, number>;
}

export function StepGraph<T extends Shown>({ steps, all, times, each = "step", parts }: Props<T>) {
  if (steps.length < 2) {
    const [only] = steps;
    return <p>{only ? `Only one ${each} was recorded: ${ms(only.duration_ms)}.` : `No ${each} was found.`}</p>;
  }
  const outside = steps.map((step) => step.flags.some((flag) => OUTSIDE.includes(flag)));
  const pale = outside.includes(true) && outside.includes(false);
  const hosts = new Set(steps.map((step) => step.host));
  const { step: wanted, host } = state.value;
  const named = steps.findIndex((step) => nameOf(step) === wanted);
  const own = steps.findIndex((step) => nameOf(step) === wanted && step.host === host);
  const chosen = own < 0 ? named : own;
  const choose = (index: number) => {
    const { host } = steps[index]!;
    change(index === chosen ? { step: "", host: "" } : { step: nameOf(steps[index]!), ...(hosts.size > 1 && { host }) }, { push: true });
  };
  return (
    <>
      <Columns
        unit="ms"
        each={each}
        chosen={chosen < 0 ? undefined : chosen}
        lines={[
          { label: "mean", value: times.mean },
          { label: "p95", value: times.p95 },
        ]}
        onChoose={choose}
        stacks={steps.map((step, index) => ({
          label: nameOf(step),
          outside: pale && outside[index]!,
          parts: parts(step),
          ...(hosts.size > 1 && { group: step.host }),
          ...(step.flags.length > 0 && { remark: `set apart: ${step.flags.join(", ").replace("open_end", "unknown end").replaceAll("_", " ")}` }),
        }))}
      />
      {chosen >= 0 && steps[chosen]!.step !== null && (
        <p>
          <a href={link({ page: "trace_viewer", host: steps[chosen]!.host })}>Step {steps[chosen]!.step} in Trace</a>
        </p>
      )}
      {all !== undefined && <p>These are the first {steps.length} of {counted(all, each)}; the table has all.</p>}
    </>
  );
}

function nameOf(step: Shown): string {
  return String(step.step ?? step.name ?? "");
}
