// The checklist: every rule's verdict, what it costs, what to change and how to refute it.
import { useEffect, useRef } from "preact/hooks";

import { address, useAnswer } from "../data/client";
import { STATUS_SIGNS, type FindingsAnswer, type ToldFinding, type ToldStage } from "../data/findings";
import { percent } from "../format";
import { Code } from "../parts/code";
import { Fact } from "../parts/panel";
import { Pick } from "../parts/pick";
import { Prose } from "../parts/prose";
import { Show } from "../parts/unavailable";
import { change, state } from "../state/url";
import { Headline, PageLinks, PlaceLinks } from "./headline";
import { hasPage } from "../parts/titles";

export function Findings() {
  const answer = useAnswer<FindingsAnswer>(address("findings"));
  return (
    <>
      <Headline answer={answer} />
      <Show answer={answer}>
        {(told) => (
          <>
            <p>
              <Pick
                label="Order"
                value={state.value.sort ?? "guide"}
                of={{ guide: "by stage", cost: "largest cost first" }}
                onPick={(sort) => change({ sort })}
              />
            </p>
            {state.value.sort === "cost" ? cards(costliest(told.findings)) : <Checklist of={told} />}
          </>
        )}
      </Show>
    </>
  );
}

/** All checks in the order of the guides, a line for each stage. */
export function Checklist({ of }: { of: FindingsAnswer }) {
  return <>{of.stages.map((each) => <Stage key={each.stage} stage={each} findings={of.findings} />)}</>;
}

const costliest = (findings: ToldFinding[]) => findings.toSorted((a, b) => (b.ms_per_step ?? -1) - (a.ms_per_step ?? -1));

/** A stage of the guides in one line; unfolded, what fails or is not known comes first. */
function Stage({ stage, findings }: { stage: ToldStage; findings: ToldFinding[] }) {
  const mine = findings.filter(({ id }) => stage.findings.includes(id));
  const open = mine.filter(({ status }) => status === "fail" || status === "cannot_tell");
  const settled = mine.filter((each) => !open.includes(each));
  const wanted = stage.findings.includes(state.value.rule ?? "");
  return (
    <details class="stage" data-stage={stage.stage} data-worst={stage.worst} open={wanted}>
      <summary>
        <h2>
          <span aria-hidden="true">{STATUS_SIGNS[stage.worst]}</span> {stage.line}
        </h2>
      </summary>
      {cards(open)}
      {settled.length > 0 && (
        <details class="settled" open={open.length === 0 || settled.some(({ id }) => id === state.value.rule)}>
          <summary>{settled.map(({ id, words }) => `${STATUS_SIGNS[words.shown]} ${id}`).join(" · ")}</summary>
          {cards(settled)}
        </details>
      )}
    </details>
  );
}

const cards = (findings: ToldFinding[]) => findings.map((each) => <Card key={each.id} finding={each} />);

function Card({ finding }: { finding: ToldFinding }) {
  const { words } = finding;
  const place = useRef<HTMLElement>(null);
  const wanted = state.value.rule === finding.id;
  useEffect(() => {
    if (wanted) place.current?.scrollIntoView({ block: "center" });
  }, [wanted]);
  return (
    <article ref={place} class="finding" data-status={words.shown} data-id={finding.id}>
      <header>
        <span class="status">
          <span aria-hidden="true">{STATUS_SIGNS[words.shown]}</span> {words.status}
        </span>
        <h3>{words.headline}</h3>
        <span class="grow" />
        <small>
          <code>{finding.id}</code>
        </small>
      </header>
      {words.remedy && <p>To find out: <Prose text={words.remedy} /></p>}
      {words.gain && (
        <p class="verdict">
          Gain: {words.gain}
        </p>
      )}
      <Actions actions={words.actions} />
      {finding.status === "fail" && <Effect finding={finding} />}
      <Links finding={finding} />
      {finding.status !== "not_applicable" && <Basis finding={finding} />}
    </article>
  );
}

/** How large the effect is, whose time it takes, and how it is spread over the steps. */
function Effect({ finding }: { finding: ToldFinding }) {
  const { words } = finding;
  const told: [string, string | null][] = [
    ["Share of the step", finding.share_percent === null ? null : percent(finding.share_percent)],
    ["Causes of the time", words.owners.join(", ") || null],
    // Some rules tell the pattern in their headline.
    ["Pattern", words.pattern && words.headline.includes(words.pattern) ? null : words.pattern],
    ["Why", words.reasons],
    ["By name", words.names],
    ["Steps and confidence", words.standing],
  ];
  return (
    <dl class="facts effect">
      {told.map(([name, value]) => value !== null && <Fact key={name} name={name}>{value}</Fact>)}
    </dl>
  );
}

/** What to change, as it is done in the frameworks that the profile shows. */
function Actions({ actions }: { actions: ToldFinding["words"]["actions"] }) {
  if (actions.length === 0) return null;
  return (
    <>
      <h4>What to change</h4>
      <ul>
        {actions.map((each, k) => (
          <li key={k}>
            <Prose text={each.text} />
            {(each.code ?? each.env) && <Code text={(each.code ?? each.env)!} />}
            {each.then && <p>Then: <Prose text={each.then} /></p>}
          </li>
        ))}
      </ul>
    </>
  );
}

/** Ways to the evidence: ranges by step and op, and the pages with the numbers. */
function Links({ finding }: { finding: ToldFinding }) {
  const { evidence, pages } = finding.words;
  return (
    <>
      {evidence.length > 0 && (
        <>
          <h4>Where to see the effect</h4>
          <ul class="evidence">
            {evidence.map((each) => (
              <li key={each.text}>
                {each.text}
                <PlaceLinks place={each} />
              </li>
            ))}
          </ul>
        </>
      )}
      {pages.some(hasPage) && (
        <p>
          Evidence
          <PageLinks pages={pages} />
        </p>
      )}
    </>
  );
}

function Basis({ finding }: { finding: ToldFinding }) {
  const { numbers, threshold } = finding.words;
  const told = numbers.length + finding.inputs.length > 0 || threshold || finding.confirm || finding.refute;
  if (!told) return null;
  return (
    <details>
      <summary>Numbers, inputs and how to refute the finding</summary>
      <dl class="facts">
        {numbers.map(([name, value, from]) => (
          <Fact key={name} name={name}>{from ? `${value} (${from})` : value}</Fact>
        ))}
      </dl>
      {threshold && <p>Threshold: {threshold}</p>}
      {finding.confirm && <p>To confirm: <Prose text={finding.confirm} /></p>}
      {finding.refute && <p>To refute: <Prose text={finding.refute} /></p>}
      {finding.inputs.length > 0 && <p>Inputs: <code>{finding.inputs.join(", ")}</code></p>}
    </details>
  );
}
