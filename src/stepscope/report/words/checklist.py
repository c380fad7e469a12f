"""A stage of the checklist in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.advice.checklist import CheckedStage
    from stepscope.advice.finding import Finding, Status

__all__ = ["stage_line"]

_STATUS_WORDS: Final[dict[Status, str]] = {
    "cannot_tell": "cannot tell",
    "pass": "pass",
    "not_applicable": "not applicable",
}


def stage_line(stage: CheckedStage, findings: Sequence[Finding]) -> str:
    """Write how many checks of a stage came to which verdict.

    Checks that could not tell are named, since they are what is left to do.
    """
    parts = []
    for status, count in stage.counts.items():
        if status == "fail":
            parts += _fails(count - stage.notes, stage.notes)
            continue
        checks = "check" if count == 1 else "checks"
        number = f"({count} {checks})" if status == "pass" else f"{count}"
        if status == "cannot_tell":
            mine = (one.id for one in findings if one.id in stage.findings)
            unsure = {one.id for one in findings if one.status == status}
            number += f" ({', '.join(one for one in mine if one in unsure)})"
        parts.append(f"{_STATUS_WORDS[status]} {number}")
    return f"{stage.title}: {' · '.join(parts)}"


def _fails(grave: int, notes: int) -> list[str]:
    """Tell what fails from what is no more than a note."""
    told = [f"fail {grave}"] if grave else []
    return [*told, f"{'note' if notes == 1 else 'notes'} {notes}"] if notes else told
