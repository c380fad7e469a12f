"""Which databases were recorded together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.errors import BadInput
from stepscope.formats.nsight_systems.database.rows import read_tables
from stepscope.formats.workers import grouped_by_name, grouped_by_time

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_SESSION: Final = "TARGET_INFO_SESSION_START_TIME"
_ANALYSIS: Final = "ANALYSIS_DETAILS"
_PACKED: Final = ".gz"


def recorded_together(files: Sequence[Path]) -> list[tuple[Path, ...]]:
    """Group databases whose sessions overlap, or whose names say the rank.

    A packed one is not unpacked to know that.
    """
    recorded = {
        file: span
        for file in files
        if file.suffix != _PACKED and (span := _session_ns(file)) is not None
    }
    others = [file for file in files if file not in recorded]
    return [*grouped_by_time(recorded), *grouped_by_name(others)]


def _session_ns(file: Path) -> tuple[int, int] | None:
    """Return start and end of a recording since 1970; None where it does not say."""
    try:
        frames = read_tables(file, (_SESSION, _ANALYSIS))
    except BadInput:
        return None
    session, analysis = (frames.get(name) for name in (_SESSION, _ANALYSIS))
    if session is None or analysis is None or not len(session) or not len(analysis):
        return None
    start, duration = session["utcEpochNs"][0], analysis["duration"][0]
    return None if start is None or duration is None else (start, start + duration)
