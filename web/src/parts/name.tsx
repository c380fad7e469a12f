// A name cut in its middle: the last part of a scope says most, and stays.

/** Names up to this long are never cut. */
const SHORT = 30;
/** Up to this length they fit on a phone, too. */
const PLAIN = 18;
/** What stays of a name without scopes, and at most of one with them. */
const TAIL = 14;
const LONGEST_TAIL = 42;

/** Namespaces of C++ without a name say nothing, and take the room of the function's. */
const UNNAMED = /\(anonymous namespace\)::|<unnamed>::/g;

export function Name({ text }: { text: string }) {
  const [head, tail] = parted(shown(text));
  if (head === "") return tail.length > PLAIN ? <span class="plain">{tail}</span> : <>{tail}</>;
  return (
    <span class="name">
      <span class="head" style={{ maxWidth: `max(5ch, var(--name) - ${0.85 * tail.length}ch)` }}>{head}</span>
      <span class="tail"><bdi>{tail}</bdi></span>
    </span>
  );
}

/** What is shown of a name that may have to be cut. */
export const shown = (text: string) => (text.length > SHORT ? text.replace(UNNAMED, "") : text);

/** Where a name may be cut: before as many of its last parts as there is room for. */
export function parted(text: string): [string, string] {
  if (text.length <= SHORT) return ["", text];
  const last = text.slice(-LONGEST_TAIL);
  const found = /(\/|::)(?!$)/.exec(last);
  if (found) return cut(text, last.length - found.index - found[0].length);
  // Words stay whole where there are any.
  const words = /\s(\S.{0,24})$/.exec(text);
  return cut(text, words ? words[1]!.length : TAIL);
}

const cut = (text: string, kept: number): [string, string] => [text.slice(0, text.length - kept), text.slice(text.length - kept)];

/** What tells a track or a section from its like stands at its end: a number, a device. */
export function numbered(text: string): [string, string] {
  const found = /(#\d+|[/:][^/:\s]{1,12}(:\d+)?)$/.exec(text) ?? /\d{5}$/.exec(text);
  return found && found.index > 0 ? cut(text, found[0].length) : [text, ""];
}

/** The last part of a scope. */
export function lastPart(text: string): string {
  return text.slice(text.replace(/\/$/, "").lastIndexOf("/") + 1);
}

/** What a device is called, or the host itself where there is none. */
export function deviceName({ host, device }: { host: string; device: number | null }): string {
  return device === null ? host : `${host}, device ${device}`;
}
