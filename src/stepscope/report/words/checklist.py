"""A stage of the checklist in one line."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.advice.checklist import CheckedStage
    from stepscope.advice.finding import Finding, Severity, Status

__all__ = ["stage_line"]

_STATUS_WORDS: Final[dict[Status, str]] = {
    "cannot_tell": "cannot tell",
    "pass": "pass",
    "not_applicable": "not applicable",
}
#: Severity of a fail → the words for one and for several.
_SEVERITY_WORDS: Final[dict[Severity, tuple[str, str]]] = {
    "critical": ("critical", "critical"),
    "warn": ("warning", "warnings"),
    "info": ("note", "notes"),
}


def stage_line(stage: CheckedStage, findings: Sequence[Finding]) -> str:
    """Write how many checks of a stage came to which verdict.

    Checks that could not tell are named, since they are what is left to do.
    """
    parts = []
    mine = [one for one in findings if one.id in stage.findings]
    for status, count in stage.counts.items():
        if status == "fail":
            parts += _fails(mine)
            continue
        checks = "check" if count == 1 else "checks"
        number = f"({count} {checks})" if status == "pass" else f"{count}"
        if status == "cannot_tell":
            unsure = (one.id for one in mine if one.status == status)
            number += f" ({', '.join(unsure)})"
        parts.append(f"{_STATUS_WORDS[status]} {number}")
    return f"{stage.title}: {' · '.join(parts)}"


def _fails(findings: Sequence[Finding]) -> list[str]:
    """Count the checks that fail by how much they matter."""
    counts = Counter(one.severity for one in findings if one.status == "fail")
    return [
        f"{word if counts[severity] == 1 else several} {counts[severity]}"
        for severity, (word, several) in _SEVERITY_WORDS.items()
        if counts[severity]
    ]
