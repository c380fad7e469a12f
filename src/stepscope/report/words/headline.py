"""The first sentence of a report, made from what the advice puts first."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from stepscope.report.words.findings import lead_sentence, part_words
from stepscope.report.words.names import OWNER_WORDS, percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.advice.finding import Finding
    from stepscope.advice.headline import Lead

__all__ = ["first_sentence"]

#: What distinguishes one node of a graph from another of the same op.
_NUMBER: Final = re.compile(r"_\d+$")


def first_sentence(lead: Lead, findings: Sequence[Finding]) -> str:
    """Write what a report says first, in one sentence."""
    if lead.kind == "finding":
        (finding,) = (one for one in findings if one.id == lead.finding)
        return lead_sentence(finding)
    if lead.percent is None or lead.owner is None:
        reason = "" if lead.unavailable is None else f" {lead.unavailable.reason}"
        return f"There is no step time to explain.{reason}"
    size = percent(lead.percent)
    whole = "the step" if lead.steps else "the recording"
    if lead.kind == "device":
        return f"Compute-bound: the device is busy {size} of {whole}."
    told = f"{OWNER_WORDS[lead.owner]}{_names(lead)}"
    if lead.kind == "idle":
        return f"{size} of {whole} is {told}, and no check explains it."
    if lead.kind == "host":
        return f"{size} of {whole} is {told}."
    return f"The largest part of {whole}, {size}, is {told}."


def _names(lead: Lead) -> str:
    if not lead.parts:
        return ""
    largest, caller = lead.parts[0], lead.caller
    name = _NUMBER.sub("", largest.name.rpartition("/")[2])
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
