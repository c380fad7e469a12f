"""What mending several findings gains together, and what holds the step then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.report.words.findings import saving_words
from stepscope.report.words.names import OWNER_WORDS, listed, percent

if TYPE_CHECKING:
    from stepscope.advice.replayed import Together

__all__ = ["together_words"]


def together_words(found: Together) -> str | None:
    """Write one sentence about it, or two; None where no replay can tell."""
    told = [
        sentence for sentence in (_joint(found), _next(found)) if sentence is not None
    ]
    return " ".join(told) or None


def _joint(found: Together) -> str | None:
    saving = found.saving_ms
    if saving is None:
        return None
    names = listed(found.findings)
    return f"Together, {names} may save {saving_words(saving)}."


def _next(found: Together) -> str | None:
    if found.next_owner is None or found.next_percent is None:
        return None
    what = OWNER_WORDS[found.next_owner]
    if found.next_hidden:
        what = f"more {what}, which other work hides so far"
    return (
        f"Without what {found.findings[0]} finds, the longest part of a step would be "
        f"{what} ({percent(found.next_percent)} of its critical path)."
    )
