"""The table `quality`: dropped, truncated, contradictory or missing data."""

from __future__ import annotations

from typing import Final

import msgspec
import polars as pl

from stepscope.trace.tables import QUALITY

#: Kind of the note about a listed device without any record: it is unknown whether the
#: program used the device.
DEVICE_IN_DOUBT: Final = "device_in_doubt"
#: Kind of the note about a device whose only records are the program's calls.
DEVICE_CALLED: Final = "device_called"
#: Kind of the note that the program ended before its first step.
ENDED_EARLY: Final = "ended_early"

_SEVERITIES: Final = QUALITY.categories("severity").categories


class QualityNote(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table `quality`, with the columns of the table as fields."""

    kind: str
    severity: str
    scope: str = "file"
    message: str
    count: int | None = None
    remedy: str | None = None


def notes_frame(notes: tuple[QualityNote, ...]) -> pl.DataFrame:
    """Convert notes to the table `quality`, most severe first."""
    order = {severity: rank for rank, severity in enumerate(_SEVERITIES)}
    ranked = sorted(notes, key=lambda note: -order[note.severity])
    return pl.DataFrame(
        [msgspec.structs.asdict(note) for note in ranked], schema=QUALITY.dtypes()
    )
