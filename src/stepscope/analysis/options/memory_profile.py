"""Options of `memory_profile`."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

#: Points of a timeline that a screen can tell apart (docs/tools/memory_profile.md).
_POINTS: Final = 2000
#: The last time, in ms, that picoseconds can count.
_LAST_MS: Final = 9.2e9


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What to show.

    Attributes:
        memory: Only the memory with this id.
        points: Most points of a timeline; none for every event, as in an export.
        at_ms: Take the breakdown after the last event by this time, in ms, instead
            of at the peak.
    """

    memory: Annotated[str, msgspec.Meta(title="ID")] | None = None
    points: Annotated[int, msgspec.Meta(ge=3)] | None = _POINTS
    at_ms: Annotated[float, msgspec.Meta(ge=0, le=_LAST_MS, title="T")] | None = None
