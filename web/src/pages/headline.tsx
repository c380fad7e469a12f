// What is said first of a profile, and what to do about it.
import { useEffect } from "preact/hooks";

import type { Answer } from "../data/client";
import type { FindingsAnswer, Place, Verdict } from "../data/findings";
import { absent } from "../data/runs";
import { Code } from "../parts/code";
import { Prose } from "../parts/prose";
import { Show } from "../parts/unavailable";
import { spotted } from "../trace/questions";
import { join, link, page } from "../state/url";
import { hasPage, titleOf } from "../parts/titles";

export function Headline({ answer }: { answer: Answer<FindingsAnswer> }) {
  useEffect(() => {
    if (answer.state === "ready") absent.value = answer.value.absent;
  }, [answer]);
  return (
    <Show answer={answer}>
      {({ headline, verdict, nothing_to_fix, together, findings }) => (
        <section class="headline" aria-label="Headline">
          <p class="verdict" data-owner={headline.owner} data-finding={headline.finding}><Prose text={headline.text} /></p>
          {nothing_to_fix && <p class="healthy"><Prose text={nothing_to_fix} /></p>}
          {verdict.length > 0 && (
            <ol class="first" aria-label="Recommendation for next steps">
              {verdict.map((each) => <Change key={each.finding} of={each} severity={findings.find(({ id }) => id === each.finding)?.severity} />)}
            </ol>
          )}
          {together !== null && <p class="together"><Prose text={together} /></p>}
        </section>
      )}
    </Show>
  );
}

/** A change in one line, with its gain, its code and the way to the evidence; the rest is folded. */
function Change({ of, severity }: { of: Verdict; severity: string | undefined }) {
  const { finding, label, found, action, gain, promise, code, place } = of;
  const reason = { page: "findings", rule: finding };
  const pages = place ? of.pages.filter((name) => name !== "trace_viewer") : of.pages;
  return (
    <li data-finding={finding} data-severity={severity}>
      <header>
        <p><b>{label}:</b> <Prose text={action || found} /></p>
        {gain && <span class="badge">{gain}</span>}
      </header>
      {code && <Code text={code} />}
      <div class="controls">
        <a class="main" href={link(place ? { page: "trace_viewer", ...spotted(place.host, place) } : reason)}>See it</a>
        <details>
          <summary>Why, and how certain</summary>
          {action && found && <p><Prose text={found} /></p>}
          {promise && <p class="promise"><Prose text={promise} /></p>}
          <small>
            <a href={link(reason)}>Reason and instructions</a>
            {place && <PlaceLinks place={place} />}
            <PageLinks pages={pages} />
          </small>
        </details>
      </div>
    </li>
  );
}

/** Ways from a range to the timeline, its step and its op. */
export function PlaceLinks({ place }: { place: Place }) {
  const { host, op, step } = place;
  return (
    <>
      {" · "}
      <a href={link({ page: "trace_viewer", ...spotted(host, place) })}>in Trace</a>
      {step !== null && <> · <a href={link({ page: "pod_viewer", step: String(step) })}>step {step}</a></>}
      {op !== null && <> · <a href={link({ page: "framework_op_stats", op, hosts: join([host]) })}>op {op}</a></>}
    </>
  );
}

/** Ways to the pages with a finding's numbers, but for the page that is shown and those without any. */
export function PageLinks({ pages }: { pages: string[] }) {
  return (
    <>
      {pages
        .filter((each) => hasPage(each) && each !== page.value && !(each in absent.value))
        .map((each) => <span key={each}> · <a href={link({ page: each })}>{titleOf(each)}</a></span>)}
    </>
  );
}
