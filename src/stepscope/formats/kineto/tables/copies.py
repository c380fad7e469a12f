"""What a copy moved between: from its name, else from what its arguments say."""

from __future__ import annotations

from typing import Final

from stepscope.patterns import Pattern
from stepscope.trace.reading.activity_names import (
    NOT_ACTIVITY,
    SOME_COPY,
    copy_kind,
    kind_of_name,
)

#: `Memcpy HtoD (Pageable -> Device)`: the kinds of memory on both sides.
_SIDES: Final = Pattern(r"\((?P<source>\w+) -> (?P<destination>\w+)\)")
#: What ROCm's tracer writes beside the name: `DtoH`, `HostToDevice`, `PtoP`.
_WORDS: Final = Pattern(
    r"(?:hip)?(?:mem)?(?:copy|cpy)?(?P<source>h|d|p|host|device|peer)(?:to|2)"
    r"(?P<destination>h|d|p|host|device|peer)\Z"
)


def kind_of_copy(name: str, words: str | None) -> str | None:
    """Return the kind of a copy: `NOT_ACTIVITY` within the host, None if not recorded.

    Args:
        name: Of the event.
        words: Its argument `kind`, where there is one.
    """
    found: str | None = kind_of_name(name)
    if found not in (SOME_COPY, "kernel", "collective"):
        return found
    sides = _SIDES.search(name)
    found = copy_kind(sides["source"], sides["destination"]) if sides else None
    return found or _of_words(words or "") or _of_words(name)


def _of_words(words: str) -> str | None:
    found = _WORDS.match(words.replace(" ", "").replace("_", "").lower())
    if found is None:
        return None
    sides = found["source"][0], found["destination"][0]
    if "p" in sides:
        return "p2p_copy"
    return {
        ("h", "d"): "h2d",
        ("d", "h"): "d2h",
        ("d", "d"): "local_copy",
        ("h", "h"): NOT_ACTIVITY,
    }[sides]
