"""A stage of the checklist in one line."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepscope.advice.checklist import CheckedStage
    from stepscope.advice.finding import Finding, Severity, Status

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
    unsure = [one.id for one in _of(stage, findings) if one.status == "cannot_tell"]
    names: dict[Status, str] = {"cannot_tell": f" ({', '.join(unsure)})"}
    return _line(stage, findings, names)


def stage_counts(stage: CheckedStage, findings: Sequence[Finding]) -> str:
    """Write the same without names, for where the checks unfold below the line."""
    return _line(stage, findings, {})


def _line(
    stage: CheckedStage, findings: Sequence[Finding], names: Mapping[Status, str]
) -> str:
    parts = []
    for status, count in stage.counts.items():
        if status == "fail":
            parts += _fails(_of(stage, findings))
        else:
            parts.append(f"{count} {_STATUS_WORDS[status]}{names.get(status, '')}")
    return f"{stage.title}: {' · '.join(parts)}"


def _of(stage: CheckedStage, findings: Sequence[Finding]) -> list[Finding]:
    return [one for one in findings if one.id in stage.findings]


def _fails(findings: Sequence[Finding]) -> list[str]:
    """Count the checks that fail by how much they matter."""
    counts = Counter(one.severity for one in findings if one.status == "fail")
    return [
        f"{counts[severity]} {word if counts[severity] == 1 else several}"
        for severity, (word, several) in _SEVERITY_WORDS.items()
        if counts[severity]
    ]
