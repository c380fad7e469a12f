"""What a report says of a recording, as data."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from stepscope.advice.engine import signals_of
from stepscope.advice.finding import Finding
from stepscope.advice.headline import choose_lead_sentence, findings_by_cost
from stepscope.derive.facts.evidence import Part
from stepscope.derive.frameworks import frameworks_used
from stepscope.report.compose import judge_profile
from stepscope.report.words.checks import most_valuable_findings
from stepscope.report.words.findings import fitting_actions
from stepscope.session import open_profile
from stepscope.thresholds import THRESHOLDS

_FUNCTION = re.compile(r"`([^`]+)` \(")
#: Parts of a finding that its sentence is about; it names no more.
_NAMED_PARTS = 2


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
        functions: Functions that the sentence is about, with the callers or workers
            beside them, as the finding's parts name them.
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
    functions: tuple[str, ...] = ()
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
    lead = choose_lead_sentence(found.findings, signals_of(profile), THRESHOLDS)
    costly = findings_by_cost(found.findings)
    head = found.headline
    about = [one for one in found.findings if one.id == head.finding] or costly
    saving = about[0].saving_ms if about else None
    led = [one for one in found.findings if one.id == head.finding]
    parts = [] if led else [*lead.parts[:_NAMED_PARTS]]
    parts += [] if lead.caller is None else [lead.caller]
    for one in led:
        parts += [*one.parts[:_NAMED_PARTS], *one.workers[:_NAMED_PARTS]]
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
        functions=tuple(dict.fromkeys(function_names(parts))),
        advice=first_advice(found.findings, head.finding, frameworks),
    )


def function_names(parts: Iterable[Part]) -> list[str]:
    """Return the names of functions and ops, without classes around them."""
    return [(part.function or part.name).rpartition(".")[2] for part in parts]


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
