"""The first sentence of a report, made from what the advice puts first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.words import OWNER_WORDS
from stepscope.patterns import Pattern
from stepscope.report.words.findings import lead_sentence, of_recording
from stepscope.report.words.names import percent, plain_name
from stepscope.report.words.parts import part_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.advice.finding import Finding
    from stepscope.advice.headline import Lead

#: What distinguishes one node of a graph from another of the same op.
_NUMBER: Final = Pattern(r"_\d+$")


def first_sentence(lead: Lead, findings: Sequence[Finding]) -> str:
    """Write what a report says first, in one sentence."""
    if lead.kind == "finding":
        (finding,) = (one for one in findings if one.id == lead.finding)
        return _placed(lead_sentence(finding), lead if finding.owners else None)
    said = _placed(_of_time(lead), lead)
    return said if lead.stepped else of_recording(said)


def _placed(said: str, lead: Lead | None) -> str:
    """Name the host or the device that a sentence is about where there are several."""
    if lead is None or lead.host is None:
        return said
    if lead.hosts > 1:
        where = f"{lead.host}, of {lead.hosts} hosts"
    elif lead.devices > 1 and lead.device is not None:
        where = f"device {lead.device}, of {lead.devices} at work"
    else:
        return said
    return f"{said.removesuffix('.')} ({where})."


def _of_time(lead: Lead) -> str:
    """Write a sentence about time that no finding is about."""
    if lead.percent is None or lead.owner is None:
        why = lead.unavailable
        told = "" if why is None else f" {why.reason} {why.remedy}"
        return f"There is no time to explain.{told}"
    size = percent(lead.percent)
    whole = "the step" if lead.steps else "the recording"
    if lead.owner == "between":
        # No part of a step lies between steps.
        whole = "the time"
    if lead.kind == "device":
        return f"Compute-bound: the device is busy {size} of {whole}."
    what = OWNER_WORDS[lead.owner]
    if lead.kind == "host" and not lead.steps and _is_function(lead):
        # Whether they work or wait is not known.
        what = "time in functions of the program"
    told = f"{what}{_names(lead)}"
    if lead.kind == "idle" and lead.owner == "compile" and not lead.stepped:
        # The first call of a program and one that is traced again look the same.
        return (
            f"{size} of {whole} is {told}: a recording of more steps, begun after the "
            "first ones, shows whether it comes back."
        )
    if lead.kind == "idle" and not _is_function(lead):
        return f"{size} of {whole} is {told}, and no check explains it."
    if lead.kind in {"host", "idle"}:
        return f"{size} of {whole} is {told}."
    return f"The largest part of {whole}, {size}, is {told}."


def _is_function(lead: Lead) -> bool:
    return bool(lead.parts) and lead.parts[0].function is not None


def _names(lead: Lead) -> str:
    if not lead.parts:
        return ""
    largest, caller = lead.parts[0], lead.caller
    name = plain_name(_NUMBER.sub("", largest.name.rpartition("/")[2]))
    if largest.function is not None:
        name = part_words(largest)
    size = percent(largest.share_percent)
    if lead.percent is None or largest.share_percent >= lead.percent / 2:
        # An op is what a function of the program called.
        if caller is not None and largest.function is None:
            name += f" in {part_words(caller)}"
        return f", mostly {name}"
    if caller is not None and caller.function != largest.function:
        return f", mostly in {part_words(caller)}: the largest part is {name} ({size})"
    return f", the largest part of it {name} ({size})"
