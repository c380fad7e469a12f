// A name cut in its middle: the last part of a scope says most, and stays.

/** Names up to this long are never cut. */
const SHORT = 30;
/** What stays of a name without scopes, and at most of one with them. */
const TAIL = 14;
const LONGEST_TAIL = 42;

export function Name({ text }: { text: string }) {
  const [head, tail] = parted(text);
  if (head === "") return <>{text}</>;
  return (
    <span class="name">
      <span class="head" style={{ maxWidth: `max(5ch, var(--name) - ${0.85 * tail.length}ch)` }}>{head}</span>
      <span class="tail">{tail}</span>
    </span>
  );
}

/** Where a name may be cut: before as many of its last parts as there is room for. */
export function parted(text: string): [string, string] {
  if (text.length <= SHORT) return ["", text];
  const last = text.slice(-LONGEST_TAIL);
  const found = /(\/|::)(?!$)/.exec(last);
  const kept = found ? last.slice(found.index + found[0].length) : text.slice(-TAIL);
  return [text.slice(0, text.length - kept.length), kept];
}

/** The last part of a scope. */
export function lastPart(text: string): string {
  return text.slice(text.replace(/\/$/, "").lastIndexOf("/") + 1);
}
