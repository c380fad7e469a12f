// A line of code to copy, and the copying of any text.
import { useState } from "preact/hooks";

/** Put a text on the clipboard; return whether the browser did. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Only pages of https and of this machine have a clipboard: copy a selected text.
    const held = document.createElement("textarea");
    held.value = text;
    document.body.append(held);
    held.select();
    const done = document.execCommand("copy");
    held.remove();
    return done;
  }
}

export function Code({ text }: { text: string }) {
  const [said, say] = useState("");
  const copy = async () => say((await copyText(text)) ? "Copied" : "The browser refused to copy.");
  return (
    <div class="to-copy">
      <code>{text}</code>
      <button aria-label={`Copy ${text}`} onClick={copy}>Copy</button>
      <span role="status">{said}</span>
    </div>
  );
}
