"""What mending several findings gains together, and what holds the step then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.registry import RULES
from stepscope.advice.words import OWNER_WORDS
from stepscope.report.words.findings import saving_words
from stepscope.report.words.names import listed, percent

if TYPE_CHECKING:
    from stepscope.advice.replayed import Together

_TITLES: Final = {rule.item.id: f"“{rule.item.title}”" for rule in RULES}


def together_words(found: Together, *, by_title: bool = False) -> str | None:
    """Write one sentence about it, or two; None where no replay can tell.

    Args:
        found: The findings, and what holds the step without them.
        by_title: Call findings by their titles, where their ids are not in sight.
    """
    told = [
        sentence
        for sentence in (
            _joint(found, by_title=by_title),
            _next(found, by_title=by_title),
        )
        if sentence is not None
    ]
    return " ".join(told) or None


def _joint(found: Together, *, by_title: bool) -> str | None:
    saving = found.saving_ms
    if saving is None:
        return None
    names = listed([_TITLES[one] if by_title else one for one in found.findings])
    mended = f"mending {names}" if by_title else names
    return f"Together, {mended} may save {saving_words(saving)}."


def _next(found: Together, *, by_title: bool) -> str | None:
    if found.next_owner is None or found.next_percent is None:
        return None
    what = OWNER_WORDS[found.next_owner]
    if found.next_hidden:
        what = f"more {what}, which other work hides so far"
    first = found.findings[0]
    without = f"Without what {first} finds"
    if by_title:
        told = found.saving_ms is not None  # the sentence before names it
        without = f"Once {'the first' if told else _TITLES[first]} is mended"
    return (
        f"{without}, the longest part of a step would be {what} "
        f"({percent(found.next_percent)} of its critical path)."
    )
