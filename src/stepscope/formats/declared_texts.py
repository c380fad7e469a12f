"""Declared texts of readers: why a recording lacks a table, and notes on its quality.

The texts are rows of `reasons.md` and `notes.md`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from stepscope.frozen import Frozen
from stepscope.remedies import Remedy
from stepscope.trace.quality import QualityNote
from stepscope.trace.schema import read_reasons, read_rows
from stepscope.unavailable import Unavailable


class _NoteTexts(Frozen, frozen=True):
    severity: str
    scope: str
    message: str
    remedy: str


_FOLDER: Final = Path(__file__).parent
_REASONS: Final = read_reasons(_FOLDER / "reasons.md")
_NOTES: Final = {
    key: _NoteTexts(*cells)
    for key, *cells in read_rows((_FOLDER / "notes.md").read_text("utf-8"))
}


def why_absent(key: str, **values: object) -> Unavailable:
    """Return a declared reason; values replace the placeholders in its texts."""
    declared = _REASONS[key]
    if not values:
        return declared
    remedy = declared.remedy
    given = values.get("remedy")
    if isinstance(given, Remedy) and not isinstance(remedy, Remedy):
        remedy = given
    return Unavailable(
        code=declared.code,
        reason=declared.reason.format_map(values),
        # A remedy id is not formatted here: its text depends on the recording.
        remedy=remedy if isinstance(remedy, Remedy) else remedy.format_map(values),
    )


def quality_note(
    key: str, count: int | None = None, *, scope: str = "", **values: object
) -> QualityNote:
    """Return a declared note; values replace the placeholders in its texts."""
    row = _NOTES[key]
    values |= {"count": count, "scope": scope}
    remedy = row.remedy
    return QualityNote(
        kind=key.split(".")[1],
        severity=row.severity,
        scope=scope or row.scope or "file",
        message=row.message.format_map(values),
        count=count,
        remedy=Remedy[remedy]
        if remedy.isupper()
        else remedy.format_map(values) or None,
    )
