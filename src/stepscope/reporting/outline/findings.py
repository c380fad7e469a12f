"""Sections on findings: the checklist, and checks without a verdict."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from stepscope.reporting.envelope import result_doubts
from stepscope.reporting.outline.parts import (
    Bullets,
    Check,
    Code,
    Item,
    Items,
    Labelled,
    Paragraph,
)
from stepscope.reporting.outline.step_time import unrecorded_text
from stepscope.reporting.outline.tools import memory_gaps
from stepscope.reporting.words.checks import advises_without_fault, stage_line
from stepscope.reporting.words.findings import (
    UNCONFIRMED,
    causes_text,
    evidence_basis_text,
    evidence_text,
    finding_headline,
    fitting_actions,
    gain_text,
    part_shares,
    sort_by_urgency,
)
from stepscope.reporting.words.names import as_sentence, join_phrases
from stepscope.reporting.words.predictions import predicted_gain, prediction_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepscope.advice.finding import Finding, ShownStatus
    from stepscope.reporting.document import Document
    from stepscope.reporting.envelope import Doubt
    from stepscope.reporting.outline.parts import Part
    from stepscope.reporting.page import Role
    from stepscope.unavailable import Unavailable

_MARKS: Final[dict[str, tuple[str, Role]]] = {
    "critical": ("✗ critical", "bad"),
    "warn": ("✗ warning", "warn"),
    "info": ("• note", "dim"),
}
#: Worst status of a stage's checks → mark of the stage.
_STAGE_MARKS: Final[dict[ShownStatus, tuple[str, Role]]] = {
    "fail": ("✗", "bad"),
    "cannot_tell": ("?", "warn"),
    "pass": ("✓", "good"),
    "note": ("•", "dim"),
    "unconfirmed": ("○", "dim"),
    "not_applicable": ("–", "dim"),
}
#: Maximum number of list items on missing data; further items are only counted.
_MAX_POINTS: Final = 5
#: Maximum number of reasons and of check names in one item; the JSON lists all.
_MAX_REASONS: Final = 2
_MAX_NAMES: Final = 4
#: Maximum number of hosts that a doubt names.
_MAX_HOSTS: Final = 2
#: Checks of memory that a framework manages. Without devices that is memory of the
#: host, for which no step waits.
_ON_MEMORY: Final = frozenset({"mem.peak", "mem.fragmentation", "mem.leak", "mem.oom"})
#: The only framework that records failed allocations.
_NOTES_FAILURES: Final = "PyTorch"
#: Checks of input pipeline stages, and the frameworks whose pipelines have stages.
_OF_STAGES: Final = frozenset({"input.stage", "multi.input"})
_HAVE_STAGES: Final = frozenset({"TensorFlow", "PyTorch"})
#: Codes of values missing because no device exists, as the breakdown already says.
_NO_DEVICE: Final = frozenset({"NO_DEVICE_PLANE", "NO_DEVICE_EVENTS"})
#: Number of the checklist stage about several devices.
_STAGE_OF_SEVERAL_DEVICES: Final = 8
#: Prefix of checks for which each kernel must be measured separately; worth the effort
#: only if most step time is kernel time.
_OF_KERNELS: Final = "kernel."


def checklist_parts(document: Document) -> Iterator[Part]:
    """Write a line for each stage of the checklist, with the failed checks below it."""
    items = []
    for stage in document.checklist:
        findings = [
            finding for finding in document.findings if finding.id in stage.findings
        ]
        mark, role = _STAGE_MARKS[stage.worst]
        below = (
            part
            for finding in sort_by_urgency(findings)
            if finding.status == "fail"
            for part in _failing_parts(finding, document)
        )
        items.append(Item(mark, role, stage_line(stage, findings), tuple(below)))
    yield Items(tuple(items))
    yield Paragraph(
        "To see how a check reached its verdict: stepscope report PATH --explain RULE",
        role="dim",
    )
    if any(stage.unconfirmed for stage in document.checklist):
        yield Paragraph(
            "Not confirmed: nothing was found, but the rule has not yet failed on a "
            "recorded program.",
            role="dim",
        )


def _failing_parts(
    finding: Finding, document: Document
) -> Iterator[Check | Paragraph | Labelled | Code]:
    yield Check(*_MARKS[finding.severity], finding.id, finding.title)
    yield Paragraph(finding_headline(finding), indent=4)
    actions = fitting_actions(finding, document.frameworks)
    gain = predicted_gain(finding, actions) or gain_text(finding)
    labelled = {
        "causes": causes_text(finding),
        "parts": part_shares(finding),
        "gain": gain,
        "basis": evidence_basis_text(finding),
    }
    if finding.severity == "info":
        # Most notes are shown with sentence and gain only; `--explain` shows the rest.
        basis = None if finding.calibrated else UNCONFIRMED
        labelled = {"gain": gain, "basis": basis}
    yield from (Labelled(label, text) for label, text in labelled.items() if text)
    if finding.severity == "info" and not advises_without_fault(finding):
        return
    for number, evidence in enumerate(finding.evidence):
        yield Labelled(
            "worst", evidence_text(evidence), again=number > 0, shortened=True
        )
    for number, action in enumerate(actions):
        framework = "" if action.framework == "any" else f" ({action.framework})"
        yield Labelled("change", f"{action.text}{framework}", again=number > 0)
        for text in (action.code, action.env):
            if text is not None:
                yield Code(text, indent=13)
        predicted = prediction_text(finding, action)
        if predicted is not None:
            yield Labelled("then", predicted)
    if finding.refute:
        yield Labelled("verify", finding.refute)


def doubt_parts(document: Document) -> Iterator[Part]:
    """Write doubts and remedies that might change the diagnosis; count all others."""
    doubts = (*document.quality, *result_doubts(document.overview))
    # The top of the page already shows errors. Several hosts may have the same doubt.
    alike: dict[tuple[str, str | None], list[Doubt]] = defaultdict(list)
    for doubt in doubts:
        if doubt.severity == "warning":
            alike[doubt.message, doubt.remedy].append(doubt)
    grave = list(alike.values())
    unsure = [
        finding for finding in document.findings if finding.status == "cannot_tell"
    ]
    checks: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for finding in unsure:
        why = finding.unavailable
        if why is not None and _matters_here(finding, why, document):
            checks[as_sentence(why.remedy)][as_sentence(why.reason)].append(finding.id)
    by_remedy = sorted(
        checks.items(),
        key=lambda checks_of_remedy: _remedy_rank(checks_of_remedy[1], document),
    )
    # Doubts may take all items of the list but one, which is for a remedy.
    doubted = grave[: _MAX_POINTS - (1 if by_remedy else 0)]
    shown = by_remedy[: _MAX_POINTS - len(doubted)]
    if doubted:
        points = tuple(_doubt_sentence(same, document) for same in doubted)
        yield Bullets(points, role="warn")
    if shown:
        yield Bullets(
            tuple(_remedy_point(reasons, remedy) for remedy, reasons in shown)
        )
    listed = {name for _, names in shown for ids in names.values() for name in ids}
    listed_reasons = {gap.reason for gap in memory_gaps(document)}
    listed_reasons |= {
        finding.unavailable.reason
        for finding in unsure
        if finding.id in listed and finding.unavailable is not None
    }
    remarks = len(doubts) - sum(map(len, doubted))
    left = _left_out_sentence(
        checks=sum(finding.id not in listed for finding in unsure),
        reasons=len(
            {
                entry.reason
                for result in document.tools.values()
                for entry in getattr(result, "missing", ())
            }
            - listed_reasons
        ),
        remarks=remarks - sum(doubt.severity == "error" for doubt in doubts),
    )
    if left:
        yield Paragraph(left, role="dim")


def unknown_in_short(document: Document) -> Iterator[Part]:
    """Summarise in at most three paragraphs what could not be seen."""
    unrecorded = unrecorded_text(document)
    if unrecorded:
        yield Paragraph(unrecorded, role="dim")
    names = [
        finding.id
        for finding in document.findings
        if finding.status == "cannot_tell"
        and finding.unavailable is not None
        and _matters_here(finding, finding.unavailable, document)
    ]
    if names:
        count = "1 check" if len(names) == 1 else f"{len(names)} checks"
        text = f"{count} without a verdict: {_few_names(names)}."
        yield Paragraph(text, role="dim")
    warnings = [
        doubt.message
        for doubt in (*document.quality, *result_doubts(document.overview))
        if doubt.severity == "warning"
    ]
    if warnings:
        yield Labelled("doubt", as_sentence(warnings[0]))


def _doubt_sentence(same: Sequence[Doubt], document: Document) -> str:
    several = len(document.profile.hosts) > 1
    doubt = same[0]
    named = [host_doubt.host for host_doubt in same if host_doubt.host is not None]
    host = ""
    if several and named:
        few_hosts = len(named) <= _MAX_HOSTS
        host = f"{join_phrases(named) if few_hosts else f'{len(named)} hosts'}: "
    remedy = f" {doubt.remedy}" if doubt.remedy else ""
    return f"{host}{as_sentence(doubt.message)}{remedy}"


def _remedy_rank(reasons: dict[str, list[str]], document: Document) -> tuple[bool, int]:
    names = [name for ids in reasons.values() for name in ids]
    of_kernels = all(name.startswith(_OF_KERNELS) for name in names)
    return of_kernels and document.headline.owner != "busy", -len(names)


def _matters_here(finding: Finding, why: Unavailable, document: Document) -> bool:
    """Return whether the unknown verdict of a check could matter to this program."""
    frameworks = document.frameworks
    if document.silent_device is None and not document.profile.devices:
        # The breakdown already says that no device was recorded.
        if why.code in _NO_DEVICE or finding.id in _ON_MEMORY:
            return False
        if (
            finding.stage == _STAGE_OF_SEVERAL_DEVICES
            and len(document.profile.hosts) == 1
        ):
            return False
    if finding.id == "mem.oom":
        return not frameworks or _NOTES_FAILURES in frameworks
    if finding.id in _OF_STAGES:
        waits = any(
            check.id == "input.bound" and check.status in {"fail", "cannot_tell"}
            for check in document.findings
        )
        return waits and (not frameworks or not _HAVE_STAGES.isdisjoint(frameworks))
    return True


def _remedy_point(reasons: dict[str, list[str]], remedy: str) -> str:
    names = [name for ids in reasons.values() for name in ids]
    # A reason is left out if another reason begins with its text.
    distinct = [
        reason
        for reason in reasons
        if not any(
            longer != reason and longer.startswith(reason.rstrip("."))
            for longer in reasons
        )
    ]
    text = " ".join([*distinct[:_MAX_REASONS], remedy])
    return f"{text} ({_few_names(names)})"


def _few_names(names: Sequence[str]) -> str:
    more = len(names) - _MAX_NAMES
    if more > 1:
        return f"{', '.join(names[:_MAX_NAMES])} and {more} more"
    return join_phrases(names)


def _left_out_sentence(*, checks: int, reasons: int, remarks: int) -> str:
    counts = [
        f"{number} {what}{'' if number == 1 else 's'} {which}"
        for number, what, which in (
            (checks, "check", "without a verdict"),
            (reasons, "reason", "for unknown values"),
            (remarks, "remark", "on the recording"),
        )
        if number
    ]
    sentence = (
        f"Not listed here: {join_phrases(counts)}. --format json lists them; stepscope "
        "doctor PATH shows which tables were recorded."
    )
    return sentence if counts else ""
