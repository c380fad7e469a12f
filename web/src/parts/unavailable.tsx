// A page never shows a blank: what would be here, what is missing, and what to do.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";

import type { Answer, Refusal } from "../data/client";
import type { Missing, Unavailable } from "../data/made/types";
import { notice, work } from "../data/runs";
import { capital } from "../format";
import { reset, state } from "../state/url";
import { Fact } from "./panel";
import { Prose } from "./prose";

export function Absent({ what, why }: { what: string; why: Unavailable }) {
  return (
    <section class="panel absent" data-code={why.code}>
      <h2>Nothing to show</h2>
      <dl>
        <Fact name="This page shows">{what}</Fact>
        {/* Reasons are parts of sentences, too: alone they begin with a capital. */}
        <Fact name="Missing"><Prose text={capital(why.reason)} /></Fact>
        <Fact name="What to do"><Prose text={why.remedy} /></Fact>
      </dl>
    </section>
  );
}

export function Refused({ error }: { error: Refusal }) {
  return (
    <section class="panel refused" role="alert">
      <h2>This could not be shown</h2>
      <p>{error.message}</p>
    </section>
  );
}

/** Fields of an answer that are null, and why. */
export function MissingFields({ missing }: { missing: Missing[] }) {
  const reasons = Map.groupBy(missing, ({ reason, remedy }) => `${reason}\n${remedy}`);
  if (reasons.size === 0) return null;
  return (
    <details class="missing">
      <summary>What could not be seen, and why ({reasons.size})</summary>
      <ul>
        {[...reasons.values()].map((group) => (
          <li key={group[0]!.field}>
            <Prose text={capital(group[0]!.reason)} /> <em><Prose text={group[0]!.remedy} /></em>{" "}
            <small>({group.map((each) => each.field).join(", ")})</small>
          </li>
        ))}
      </ul>
    </details>
  );
}

const QUIET_MS = 150;
const PATIENCE_MS = 2000;
const POLL_MS = 1000;

/** Quiet for a moment, then an outline, then what is being computed. */
export function Waiting() {
  const [text, setText] = useState<string | null>(null);
  useEffect(() => {
    const outline = setTimeout(() => setText("Loading"), QUIET_MS);
    let poll: ReturnType<typeof setInterval> | undefined;
    const patience = setTimeout(() => {
      poll = setInterval(async () => {
        const now = await work().catch(() => null);
        if (now) setText(`${now.what} (${now.done} of ${now.of})`);
      }, POLL_MS);
    }, PATIENCE_MS);
    return () => [outline, patience, poll].forEach(clearTimeout);
  }, []);
  if (text === null) return null;
  return (
    <section class="panel outline" role="status" aria-busy="true">
      {text} …
    </section>
  );
}

/** Codes of a link's bad parts: they are left out with a notice. */
const FORGIVEN = ["bad_parameter", "unknown_host"];
/** Parts of a link that are no parameters of a page. */
const KEPT = ["page", "run"];

/** An answer in all its states. */
export function Show<T>(props: {
  answer: Answer<T>;
  children: (value: T) => ComponentChildren;
}) {
  const { answer } = props;
  const error = answer.state === "refused" ? answer.error : undefined;
  const bad = error && FORGIVEN.includes(error.code) && Object.keys(state.value).some((name) => !KEPT.includes(name));
  useEffect(() => {
    if (!bad) return;
    notice.value = `A part of this link is not valid here and is ignored: ${error.message}.`;
    reset({ hosts: error.code !== "unknown_host" });
  }, [error]);
  if (answer.state === "waiting" || bad) return <Waiting />;
  if (answer.state === "refused") return <Refused error={answer.error} />;
  return <>{props.children(answer.value)}</>;
}
