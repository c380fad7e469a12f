"""Who owns a stretch of time, as an outline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.words import OWNER_WORDS
from stepscope.report.outline.parts import Bullets, Heading, Paragraph, Table
from stepscope.report.words.gaps import gap_words, named_words, where_words
from stepscope.report.words.names import percent
from stepscope.units import duration_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepscope.analysis.gaps.result import GapExplanation
    from stepscope.report.outline.parts import Outline, Part

#: Names that a page gives of one owner, and the share of the stretch from which on.
_MOST_NAMES: Final = 4
_LEAST: Final = 0.5
_MOST_WORK: Final = 10


def gap_outline(found: GapExplanation) -> Outline:
    """Write the sentence, then the owners by name, then what ran meanwhile."""
    return (
        Heading(where_words(found), 1),
        Paragraph(gap_words(found), strong=True),
        *_owners(found),
        *_meanwhile(found),
        *_sureness(found),
    )


def _owners(found: GapExplanation) -> Iterator[Part]:
    rows = []
    for one in found.owners:
        rows.append(
            (OWNER_WORDS[one.owner], duration_text(one.ps), percent(one.percent))
        )
        named = [part for part in one.parts if part.name is not None]
        rows += [
            (f"  {named_words(part)}", duration_text(part.ps), percent(part.percent))
            for part in named[:_MOST_NAMES]
            if part.percent >= _LEAST
        ]
    if rows:
        yield Heading("Whose time it is")
        yield Table(("owner", "time", "share"), tuple(rows))


def _meanwhile(found: GapExplanation) -> Iterator[Part]:
    rows = tuple(
        (
            f"{one.name} × {one.count:,}" if one.count > 1 else one.name,
            f"{one.thread}, launching" if one.launching else one.thread,
            duration_text(one.ps),
            percent(one.percent),
        )
        for one in found.meanwhile[:_MOST_WORK]
    )
    if rows:
        yield Heading("What the host's threads did meanwhile")
        header = ("event", "thread", "time of its own", "share")
        yield Table(header, rows, frozenset({1}))


def _sureness(found: GapExplanation) -> Iterator[Part]:
    yield Heading("How sure this is")
    yield Bullets(
        (
            f"Confidence: {found.confidence}.",
            f"Not explained: {percent(found.not_explained_percent)}.",
        )
    )
