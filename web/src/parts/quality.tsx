import type { Doubt } from "../data/made/types";
import { counted } from "../format";
import { Prose } from "./prose";

/** More hosts of one remark than these are counted. */
const FEW = 3;

interface Told {
  /** As it is said of the first of the hosts. */
  text: string;
  hosts: string[];
  /** Whether each host has numbers of its own. */
  differ: boolean;
}

/** What is said of several hosts is said once, also where only its numbers differ. */
export function together(doubts: Doubt[]): Told[] {
  const found = new Map<string, Told>();
  for (const { message, remedy, host } of doubts) {
    const text = remedy ? `${message} ${remedy}` : message;
    const alike = host ? text.replaceAll(/[\d.,]*\d/g, "0") : text;
    const before = found.get(alike);
    // Two remarks of one host are two.
    const key = before && before.text !== text && before.hosts.includes(host ?? "") ? text : alike;
    const { hosts, ...first } = found.get(key) ?? { text, hosts: [], differ: false };
    const all = [...new Set([...hosts, ...(host ? [host] : [])])];
    found.set(key, { text: first.text, hosts: all, differ: first.differ || (first.text !== text && all.length > 1) });
  }
  return [...found.values()];
}

/** What the capture lost, in one line that unfolds. */
export function Quality({ doubts }: { doubts: Doubt[] }) {
  if (doubts.length === 0) return null;
  const told = together(doubts);
  const worst = together(doubts.filter((each) => each.severity !== "info")).length;
  const others = told.length - worst;
  const beside = worst > 0 && others > 0 ? ` and ${counted(others, "remark")}` : "";
  const text = worst ? `${counted(worst, "doubt")}${beside} about this recording` : `${counted(told.length, "remark")} on this recording`;
  return (
    <details class={worst ? "quality serious" : "quality"}>
      <summary>{text}</summary>
      <ul>
        {told.map(({ text, hosts, differ }) => (
          <li key={text}>
            {hosts.length > 0 && <b>{hosts.length > FEW ? `${hosts.length} hosts` : hosts.join(", ")}: </b>}
            <Prose text={text} />
            {differ && <small> (The numbers are from {hosts[0]}.)</small>}
          </li>
        ))}
      </ul>
    </details>
  );
}
