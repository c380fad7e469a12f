import type { Doubt } from "../data/made/types";
import { counted } from "../format";
import { Prose } from "./prose";

/** More hosts of one remark than these are counted. */
const FEW = 3;

/** What is said of several hosts is said once: message → hosts. */
function together(doubts: Doubt[]): Map<string, string[]> {
  const found = new Map<string, string[]>();
  for (const { message, remedy, host } of doubts) {
    const text = remedy ? `${message} ${remedy}` : message;
    found.set(text, [...(found.get(text) ?? []), ...(host ? [host] : [])]);
  }
  return found;
}

/** What the capture lost, in one line that unfolds. */
export function Quality({ doubts }: { doubts: Doubt[] }) {
  if (doubts.length === 0) return null;
  const told = together(doubts);
  const worst = together(doubts.filter((each) => each.severity !== "info")).size;
  const text = worst ? `${counted(worst, "doubt")} about this recording` : `${counted(told.size, "remark")} on this recording`;
  return (
    <details class={worst ? "quality serious" : "quality"}>
      <summary>{text}</summary>
      <ul>
        {[...told].map(([message, hosts]) => (
          <li key={message}>
            {hosts.length > 0 && <b>{hosts.length > FEW ? `${hosts.length} hosts` : hosts.join(", ")}: </b>}
            <Prose text={message} />
          </li>
        ))}
      </ul>
    </details>
  );
}
