// The checklist: every rule's verdict, what it costs, what to change and how to refute it.
import { address, useAnswer } from "../data/client";
import {
  STATUS_SIGNS,
  STATUS_WORDS,
  type FindingsAnswer,
  type Place,
  type ToldFinding,
  type ToldStage,
} from "../data/findings";
import type { Action } from "../data/made/types";
import { ms, number, percent } from "../format";
import { Headline } from "../parts/headline";
import { Show } from "../parts/unavailable";
import { change, join, link, state } from "../state/url";
import { hasPage, titleOf } from "./titles";

export function Findings() {
  const answer = useAnswer<FindingsAnswer>(address("findings"));
  return (
    <Show answer={answer}>
      {({ findings, stages }) => (
        <>
          <Headline answer={answer} />
          <Order />
          {state.value.sort === "cost"
            ? <Cards findings={costliest(findings)} />
            : stages.map((each) => <Stage key={each.stage} stage={each} findings={findings} />)}
        </>
      )}
    </Show>
  );
}

function costliest(findings: ToldFinding[]): ToldFinding[] {
  return [...findings].sort((a, b) => (b.ms_per_step ?? -1) - (a.ms_per_step ?? -1));
}

/** A stage of the guides: what fails or is not known in full, the rest folded to one line. */
function Stage({ stage, findings }: { stage: ToldStage; findings: ToldFinding[] }) {
  const mine = findings.filter(({ id }) => stage.findings.includes(id));
  const open = mine.filter(({ status }) => status === "fail" || status === "cannot_tell");
  const settled = mine.filter((each) => !open.includes(each));
  const worst = gravest(stage);
  const noted = worst === "fail" && !stage.fails;
  const title = (
    <h2>
      <span aria-hidden="true">{noted ? "•" : STATUS_SIGNS[worst]}</span> {stage.line}
    </h2>
  );
  const attributes = { "data-stage": stage.stage, "data-worst": noted ? "note" : worst };
  if (open.length === 0) {
    return (
      <details class="stage" {...attributes}>
        <summary>{title}</summary>
        <Cards findings={settled} />
      </details>
    );
  }
  return (
    <section class="stage" {...attributes}>
      {title}
      <Cards findings={open} />
      {settled.length > 0 && (
        <details class="settled">
          <summary>{settled.map(({ id, status }) => `${STATUS_SIGNS[status]} ${id}`).join(" · ")}</summary>
          <Cards findings={settled} />
        </details>
      )}
    </section>
  );
}

/** The server counts the gravest status first. */
function gravest(stage: ToldStage): ToldFinding["status"] {
  return Object.keys(stage.counts)[0] as ToldFinding["status"];
}

function Cards({ findings }: { findings: ToldFinding[] }) {
  return (
    <>
      {findings.map((each) => (
        <Card key={each.id} finding={each} />
      ))}
    </>
  );
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
  const noted = finding.status === "fail" && finding.severity === "info";
  return (
    <article class="finding" data-status={noted ? "note" : finding.status} data-id={finding.id}>
      <header>
        <span class="status">
          <span aria-hidden="true">{noted ? "•" : STATUS_SIGNS[finding.status]}</span>{" "}
          {noted ? "Note" : STATUS_WORDS[finding.status]}
        </span>
        <h3>{words.headline}</h3>
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
      {words.gain && (
        <p class="verdict">
          Gain: {words.gain}
          {finding.explained_by && `, promised by ${finding.explained_by}`}
        </p>
      )}
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
      <h4>What to change</h4>
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

/** Ways to the evidence: ranges by step and op, and the pages with the numbers. */
function Links({ finding }: { finding: ToldFinding }) {
  const places = finding.words.pages.filter(hasPage);
  const ranges = finding.words.evidence;
  if (places.length === 0 && ranges.length === 0) return null;
  return (
    <>
      {ranges.length > 0 && (
        <>
          <h4>Where to see it</h4>
          <ul class="evidence">
            {ranges.map((each) => (
              <Range key={each.text} place={each} />
            ))}
          </ul>
        </>
      )}
      {places.length > 0 && (
        <p>
          Evidence:{" "}
          {places.map((page, index) => (
            <span key={page}>
              {index > 0 && " · "}
              <a href={link({ page })}>{titleOf(page)}</a>
            </span>
          ))}
        </p>
      )}
    </>
  );
}

/** The timeline at a range, with its best span chosen, or all of it. */
function inTrace({ host, track, item, start_ps, dur_ps }: Place): string {
  const sel = track === null || item === null ? `area:${start_ps}:${start_ps + dur_ps}` : `${track}:${item}`;
  const room = Math.round(dur_ps / 4);
  return link({ page: "trace_viewer", host, sel, t0: String(start_ps - room), t1: String(start_ps + dur_ps + room) });
}

/** A range of the timeline, with links to it, to its step and its op. */
function Range({ place }: { place: Place }) {
  const { text, host, op, step } = place;
  return (
    <li>
      {text}
      {" · "}
      <a href={inTrace(place)}>in Trace</a>
      {step !== null && (
        <>
          {" · "}
          <a href={link({ page: "pod_viewer", step: String(step) })}>step {step}</a>
        </>
      )}
      {op !== null && (
        <>
          {" · "}
          <a href={link({ page: "framework_op_stats", op, hosts: join([host]) })}>op {op}</a>
        </>
      )}
    </li>
  );
}

function Basis({ finding }: { finding: ToldFinding }) {
  return (
    <details>
      <summary>Numbers, inputs and what would refute it</summary>
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
