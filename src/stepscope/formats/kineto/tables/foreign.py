"""Work of devices that this version does not understand, and what is said of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.trace.quality import QualityNote
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepscope.formats.kineto.decoded.recording import Recording

_MOST: Final = 3
_REMEDY: Final = (
    "Its events are on the timeline. For numbers, ask the profiler of the device's "
    "vendor, and report the file's kind."
)


def foreign_work(recording: Recording) -> Unavailable | None:
    """Return why the work of a device is not known; None where none is foreign."""
    if not _counts(recording):
        return None
    return Unavailable(
        code="UNKNOWN_DEVICE",
        reason=f"The trace holds work of a device that is not understood: "
        f"{_listed(recording)}.",
        remedy=_REMEDY,
    )


def foreign_notes(recording: Recording) -> Iterator[QualityNote]:
    """Say that the numbers leave a device out."""
    foreign = _counts(recording)
    if foreign:
        yield QualityNote(
            kind="device_not_understood",
            severity="warning",
            count=sum(foreign.values()),
            scope="file",
            message="Work of a device is not understood and in no number: "
            f"{_listed(recording)}.",
            remedy=_REMEDY,
        )


def _counts(recording: Recording) -> dict[str, int]:
    """Return how many events there are of each category of a foreign device.

    Calls of a runtime are understood where the work that they launch is.
    """
    foreign = recording.columns.foreign
    if not len(recording.columns.activity.place):
        return foreign
    calls = ("_runtime", "_driver")
    return {
        name: count
        for name, count in foreign.items()
        if not name.lower().endswith(calls)
    }


def _listed(recording: Recording) -> str:
    most = sorted(_counts(recording).items(), key=lambda it: (-it[1], it[0]))
    return ", ".join(
        f"{count:,} events of the category {name[:40]}" for name, count in most[:_MOST]
    )
