"""What is missing from the profile: each reason once, with the way to record it."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from stepscope.report.page import Piece, line, wrapped
from stepscope.report.to_json import doubts_of
from stepscope.report.words.names import sentence
from stepscope.unavailable import Missing, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepscope.report.document import Document, Doubt
    from stepscope.report.page import Line, Role

__all__ = ["unseen"]

#: Largest number of fields named for one reason; the JSON names all.
_MOST_FIELDS: Final = 2

#: Tools of which the page shows only some fields → these fields. Of other tools it
#: names every missing field. A program without a pipeline of stages or without requests
#: is not incomplete.
_TOLD: Final[dict[str, tuple[str, ...]]] = {
    "input_pipeline_analyzer": ("host_breakdown_us",),
    "memory_profile": ("rows.peak_bytes", "rows.peak_capacity", "rows.capacity"),
    "tf_data_bottleneck_analysis": (),
    "inference_profile": (),
}


#: Parts of the names of fields that the page shows with what they lack.
_TOLD_ELSEWHERE: Final = ("step_detection.", "account.")

#: What fields begin with that no section of the page shows: they are counted.
_COUNTED: Final = (
    *("environment.", "breakdown_std_ms", "by_host.", "eager.", "tf_function"),
    *("phases_ms.", "is_training", "rows.eager", "rows.module", "rows.source"),
)


def unseen(document: Document, width: int) -> list[Line]:
    """Write doubts about the recording, then what is missing from the results."""
    lines: list[Line] = []
    doubts = (*document.quality, *doubts_of(document.overview))
    for doubt in doubts:
        # Errors lead the page.
        if doubt.severity == "warning":
            lines += _doubt(doubt, document, width)
    grouped: dict[str, set[str]] = defaultdict(set)
    remedies: dict[str, str] = {}
    counted: set[str] = set()
    for one in _missing(document):
        if one.field.startswith(_COUNTED):
            counted.add(one.field)
            continue
        reason = sentence(one.reason)
        grouped[reason].add(one.field)
        # A check may know a remedy of its own; --explain tells it.
        remedies.setdefault(reason, sentence(one.remedy))
    for reason, fields in grouped.items():
        text = f"{reason} {remedies[reason]} ({_told(fields)})"
        lines += _bulleted(text, width, "plain")
    if counted:
        number = (
            "1 more value is"
            if len(counted) == 1
            else f"{len(counted)} more values are"
        )
        text = f"{number} unknown, with the reason in --format json."
        lines += wrapped(text, width, indent=2, role="dim")
    quiet = sum(doubt.severity == "info" for doubt in doubts)
    if quiet:
        notes = (
            "1 remark about the recording is"
            if quiet == 1
            else f"{quiet} remarks about the recording are"
        )
        lines.append(line(Piece(f"  {notes} in --format json.", "dim")))
    return lines


def _doubt(doubt: Doubt, document: Document, width: int) -> list[Line]:
    several = len(document.profile.hosts) > 1
    host = f"{doubt.host}: " if several and doubt.host is not None else ""
    remedy = f" {doubt.remedy}" if doubt.remedy else ""
    text = f"{host}{sentence(doubt.message)}{remedy}"
    return _bulleted(text, width, "warn")


def _missing(document: Document) -> Iterator[Missing]:
    """What no other section explains; that of the steps says what it knows of them."""
    # Ops and their memory, which frameworks alone have, are not missing from others.
    tools = {} if document.is_plain else document.tools
    for name, result in tools.items():
        told = _TOLD.get(name, ("",))
        if isinstance(result, Unavailable):
            if told:
                yield result.for_field(name)
            continue
        for one in getattr(result, "missing", ()):
            if one.code == "NO_STEPS" or any(
                part in one.field for part in _TOLD_ELSEWHERE
            ):
                continue
            if one.field.startswith(told):
                yield one
    # The checklist names these checks; here is why they could not tell.
    for finding in document.findings:
        if finding.status == "cannot_tell" and finding.unavailable is not None:
            yield finding.unavailable.for_field(finding.id)


def _told(fields: set[str]) -> str:
    if len(fields) > _MOST_FIELDS:
        return f"{len(fields)} values"
    return ", ".join(sorted(fields))


def _bulleted(text: str, width: int, role: Role) -> list[Line]:
    first, *rest = wrapped(text, width, indent=4, role=role)
    return [line("  • ", first[1]), *rest]
