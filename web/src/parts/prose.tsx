// A sentence of the answers: what it has in `…` is code, and no number leaves its unit.

const WHOLE = /(`[^`]*`|\d[\d.,]* (?:%|[mµ]?s|[KMG]iB|bits?)(?!\w))/;

export function Prose({ text }: { text: string }) {
  return (
    <>
      {text.split(WHOLE).map((part, k) => (k % 2 === 0 ? part : part[0] === "`" ? <Code key={k} text={part.slice(1, -1)} /> : <span key={k} class="whole">{part}</span>))}
    </>
  );
}

/** Words of this length fit on a phone; only longer ones are broken. */
const SHORT = 30;

/** Code breaks between its words, and not at the hyphens of an option. */
export function Code({ text }: { text: string }) {
  const words = text.split(/( +)/);
  if (words.length === 1) return <code>{text}</code>;
  return <code>{words.map((each, k) => (k % 2 === 1 || each.length > SHORT ? each : <span key={k} class="whole">{each}</span>))}</code>;
}
