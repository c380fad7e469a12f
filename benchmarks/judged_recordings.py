"""What a report says of a recording, as data."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stepscope.advice.engine import signals_of
from stepscope.advice.finding import Finding
from stepscope.advice.headline import choose_lead_sentence, findings_by_cost
from stepscope.derive.facts.evidence import Part
from stepscope.derive.frameworks import frameworks_used
from stepscope.reporting.compose import judge_profile
from stepscope.reporting.words.checks import most_valuable_findings
from stepscope.reporting.words.findings import fitting_actions
from stepscope.session import open_profile

_FUNCTION = re.compile(r"`([^`]+)` \(")


@dataclass(frozen=True)
class Advice:
    """The first change that a report advises.

    Attributes:
        rule: Id of its finding.
        cause: Which cause it removes, as the action says; None without an action.
        framework: For which framework it is; None without an action.
        text: The sentence, for people; nothing is decided by it.
    """

    rule: str
    cause: str | None
    framework: str | None
    text: str


@dataclass(frozen=True)
class Said:
    """What the report said of one run.

    Attributes:
        text: The first sentence.
        finding: Id of the finding that it is about; None for none.
        owner: Owner of the time that it is about; None for none.
        failing: Ids of the findings that fail at a warning or above, the costliest
            first; those that another explains are left out.
        fired: Ids of all findings that fail.
        saving_ms: The promised gain per step, from and to, of the finding that the
            sentence is about, else of the costliest; None where nothing was promised.
        open_above: Whether more may be gained than that.
        percent: Share of the steps that the sentence tells; None for none.
        causes: The causes that the finding tells, the largest first.
        functions: Functions that the sentence is about, with what takes most of their
            time, their caller, or what workers run.
        shares: Function of the finding, or of the sentence → its share in percent.
        advice: The first advice; None where nothing is advised.
    """

    text: str
    finding: str | None
    owner: str | None
    failing: tuple[str, ...]
    fired: tuple[str, ...]
    saving_ms: tuple[float, float] | None
    open_above: bool = False
    percent: float | None = None
    causes: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    shares: Mapping[str, float] = field(default_factory=dict)
    advice: Advice | None = None

    @property
    def function(self) -> str | None:
        """The first function that the sentence names, with a file beside it."""
        found = _FUNCTION.search(self.text)
        return found and found[1]


def said_of(path: Path) -> Said:
    """Judge a recording as a report does."""
    profile = open_profile(path)
    found = judge_profile(profile)
    lead = choose_lead_sentence(found.findings, signals_of(profile))
    costly = findings_by_cost(found.findings)
    head = found.headline
    about = [one for one in found.findings if one.id == head.finding] or costly
    saving = about[0].saving_ms if about else None
    led = [one for one in found.findings if one.id == head.finding]
    parts = led[0].parts if led else lead.parts
    workers = led[0].workers if led else ()
    caller = () if lead.caller is None else (lead.caller,)
    frameworks = profile.of_run(frameworks_used)
    return Said(
        text=head.text,
        finding=head.finding,
        owner=head.owner,
        failing=tuple(one.id for one in costly),
        fired=tuple(one.id for one in found.findings if one.status == "fail"),
        saving_ms=None if saving is None else (saving.low, saving.high),
        open_above=saving is not None and saving.open_above,
        percent=head.percent,
        causes=tuple(one.cause for finding in led for one in finding.causes),
        functions=tuple(
            dict.fromkeys(function_names((*named_parts(parts), *workers[:1], *caller)))
        ),
        shares={function_names([part])[0]: part.share_percent for part in parts},
        advice=first_advice(found.findings, head.finding, frameworks),
    )


def named_parts(parts: Sequence[Part]) -> Sequence[Part]:
    """Return the parts that a sentence names.

    They are the first one, the next one if the first is the loop of the steps, and what
    another thread does meanwhile.
    """
    first = parts[:2] if parts and parts[0].loop else parts[:1]
    threads = [part for part in parts if part.thread is not None]
    return [*first, *threads[:1]]


def function_names(parts: Iterable[Part]) -> list[str]:
    """Return names of functions and ops, without classes around them, and details."""
    names = []
    for part in parts:
        names += [part.function or part.name, *([part.detail] if part.detail else [])]
    return [name.rpartition(".")[2] for name in names]


def first_advice(
    findings: Sequence[Finding], first: str | None, frameworks: Collection[str]
) -> Advice | None:
    """Return what a report says under "Do first", or "First"."""
    valuable = most_valuable_findings(findings, first=first, frameworks=frameworks)
    if not valuable:
        return None
    best = valuable[0]
    (finding,) = (one for one in findings if one.id == best.finding)
    actions = fitting_actions(finding, frameworks)
    return Advice(
        rule=best.finding,
        cause=actions[0].cause if actions else None,
        framework=actions[0].framework if actions else None,
        text=best.text,
    )
