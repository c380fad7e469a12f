// The checklist: every rule's verdict, what it costs, what to change and how to refute it.
import { address, useAnswer } from "../data/client";
import { STATUS_SIGNS, STATUS_WORDS, type FindingsAnswer, type ToldFinding } from "../data/findings";
import type { Action } from "../data/made/types";
import { RULE_PAGES } from "../data/made/rules";
import { ms, number, percent } from "../format";
import { Headline } from "../parts/headline";
import { Show } from "../parts/unavailable";
import { change, link, state } from "../state/url";
import { hasPage, titleOf } from "./titles";

export function Findings() {
  const answer = useAnswer<FindingsAnswer>(address("findings"));
  return (
    <Show answer={answer}>
      {({ findings }) => (
        <>
          <Headline answer={answer} />
          <Order />
          {ordered(findings).map((each) => (
            <Card key={each.id} finding={each} />
          ))}
        </>
      )}
    </Show>
  );
}

/** Findings in the order of the guides, as the server sends them, or costliest first. */
function ordered(findings: ToldFinding[]): ToldFinding[] {
  if (state.value.sort !== "cost") return findings;
  return [...findings].sort((a, b) => (b.ms_per_step ?? -1) - (a.ms_per_step ?? -1));
}

function Order() {
  return (
    <p>
      <label>
        Order{" "}
        <select
          value={state.value.sort ?? "guide"}
          onChange={(event) => change({ sort: event.currentTarget.value })}
        >
          <option value="guide">as the guide goes</option>
          <option value="cost">costliest first</option>
        </select>
      </label>
    </p>
  );
}

function Card({ finding }: { finding: ToldFinding }) {
  const { words } = finding;
  return (
    <article class="finding" data-status={finding.status} data-id={finding.id}>
      <header>
        <span class="status">
          <span aria-hidden="true">{STATUS_SIGNS[finding.status]}</span> {STATUS_WORDS[finding.status]}
        </span>
        <h2>{words.headline}</h2>
        <span class="grow" />
        <small>
          <code>{finding.id}</code>
        </small>
      </header>
      {finding.unavailable && (
        <p>
          {finding.unavailable.reason} <em>{finding.unavailable.remedy}</em>
        </p>
      )}
      {words.gain && <p class="verdict">Gain: {words.gain}</p>}
      {finding.status === "fail" && <Effect finding={finding} />}
      {words.standing && <p>Basis: {words.standing}</p>}
      <Actions actions={words.actions} />
      <Links finding={finding} />
      <Basis finding={finding} />
    </article>
  );
}

/** How large the effect is, whose time it takes, and how it is spread over the steps. */
function Effect({ finding }: { finding: ToldFinding }) {
  const { words } = finding;
  const told: [string, string | null][] = [
    ["Share of the step", finding.share_percent === null ? null : percent(finding.share_percent)],
    ["Whose time", words.owners.join(", ") || null],
    // Some rules tell the pattern in their headline.
    ["Pattern", words.pattern && words.headline.includes(words.pattern) ? null : words.pattern],
    ["Why", words.reasons],
    ["By name", words.names],
  ];
  return (
    <dl class="facts effect">
      {told.map(([name, value]) => value !== null && <Fact key={name} name={name} value={value} />)}
    </dl>
  );
}

/** What to change, as it is done in the frameworks that the profile shows. */
function Actions({ actions }: { actions: Action[] }) {
  if (actions.length === 0) return null;
  return (
    <>
      <h3>What to change</h3>
      <ul>
        {actions.map((each) => (
          <li key={each.text}>
            {each.text}
            {(each.code ?? each.env) && <pre>{each.code ?? each.env}</pre>}
          </li>
        ))}
      </ul>
    </>
  );
}

/** Links to the pages with the numbers that a rule rests on. */
function Links({ finding }: { finding: ToldFinding }) {
  const places = (RULE_PAGES[finding.id] ?? []).filter(hasPage);
  if (places.length === 0) return null;
  return (
    <p>
      Evidence:{" "}
      {places.map((page, index) => (
        <span key={page}>
          {index > 0 && " · "}
          <a href={link({ page })}>{titleOf(page)}</a>
        </span>
      ))}
    </p>
  );
}

function Basis({ finding }: { finding: ToldFinding }) {
  const { words } = finding;
  return (
    <details>
      <summary>Evidence, inputs and what would refute it</summary>
      {words.evidence.length > 0 && (
        <ul>
          {words.evidence.map((text) => (
            <li key={text}>{text}</li>
          ))}
        </ul>
      )}
      <dl class="facts">
        <Fact name="Cost per step" value={ms(finding.ms_per_step)} />
        <Fact name="Confidence" value={percent(100 * finding.confidence)} />
        <Fact name="Steps hit, of those judged" value={`${number(finding.steps_hit)} of ${number(finding.steps_clean)}`} />
        {finding.threshold &&
          Object.entries(finding.threshold).map(([name, value]) => (
            <Fact key={name} name={`Threshold: ${name.replaceAll("_", " ")}`} value={String(value)} />
          ))}
        {finding.facts.map((each) => (
          <Fact key={each.name} name={each.name.replaceAll("_", " ")} value={`${number(each.value)} ${each.unit === "count" ? "" : each.unit}`} />
        ))}
      </dl>
      {finding.confirm && <p>To confirm: {finding.confirm}</p>}
      {finding.refute && <p>What would refute it: {finding.refute}</p>}
      <p>
        Read from: <code>{finding.inputs.join(", ")}</code>
      </p>
    </details>
  );
}

function Fact({ name, value }: { name: string; value: string }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </>
  );
}
