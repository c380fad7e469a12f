// A sentence of the answers: what it has in `…` is code, and no number leaves its unit.

const WHOLE = /(`[^`]*`|\d[\d.,]* (?:%|[mµ]?s|[KMG]iB)(?!\w))/;

export function Prose({ text }: { text: string }) {
  return (
    <>
      {text.split(WHOLE).map((part, k) => (k % 2 === 0 ? part : part[0] === "`" ? <code key={k}>{part.slice(1, -1)}</code> : <span key={k} class="whole">{part}</span>))}
    </>
  );
}
