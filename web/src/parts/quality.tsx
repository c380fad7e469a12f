import type { Doubt } from "../data/made/types";

/** What the capture lost, in one line that unfolds. */
export function Quality({ doubts }: { doubts: Doubt[] }) {
  if (doubts.length === 0) return null;
  const worst = doubts.filter((each) => each.severity !== "info").length;
  const text = worst
    ? `${worst} ${worst === 1 ? "doubt" : "doubts"} about this recording`
    : `${doubts.length} ${doubts.length === 1 ? "remark" : "remarks"} on this recording`;
  return (
    <details class={worst ? "quality serious" : "quality"}>
      <summary>{text}</summary>
      <ul>
        {doubts.map((each, index) => (
          <li key={index}>
            {each.host && <b>{each.host}: </b>}
            {each.message} {each.remedy && <em>{each.remedy}</em>}
          </li>
        ))}
      </ul>
    </details>
  );
}
