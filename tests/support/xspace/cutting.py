"""Copies of recorded XSpaces from which stretches of time are taken out.

A stretch vanishes from all lines at once: what began later begins earlier, and what ran
through it is shorter. So what a copy lost is known to the picosecond.
"""

from __future__ import annotations

import gzip
from bisect import bisect_right
from typing import TYPE_CHECKING, Any

from tests.support.xspace.proto import XSpaceMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

PS_PER_NS = 1000


def message_of(path: Path) -> Any:
    """The message of a recorded file."""
    data = path.read_bytes()
    found = XSpaceMessage()
    found.ParseFromString(gzip.decompress(data) if path.suffix == ".gz" else data)
    return found


def middles(
    message: Any, chosen: Callable[[str, str], bool], *, at_least_ps: int
) -> list[int]:
    """The middle of every event of a plane and a name that lasts so long, in ps."""
    found = []
    for plane in message.planes:
        names = {key: one.name.decode() for key, one in plane.event_metadata.items()}
        for line in plane.lines:
            for event in line.events:
                name = names.get(event.metadata_id, "")
                if event.duration_ps >= at_least_ps and chosen(
                    plane.name.decode(), name
                ):
                    start = line.timestamp_ns * PS_PER_NS + event.offset_ps
                    found.append(start + event.duration_ps // 2)
    return sorted(found)


def without(message: Any, begins: Sequence[int], length_ps: int) -> bytes:
    """The file's bytes without the stretches of a length that begin at these times."""

    def moved(time: int) -> int:
        at = bisect_right(begins, time)
        inside = max(begins[at - 1] + length_ps - time, 0) if at else 0
        return time - at * length_ps + inside

    for plane in message.planes:
        for line in plane.lines:
            base = line.timestamp_ns * PS_PER_NS
            for event in line.events:
                start = base + event.offset_ps
                end = moved(start + event.duration_ps)
                event.offset_ps = moved(start) - base
                event.duration_ps = end - moved(start)
    written: bytes = message.SerializeToString()
    return written
