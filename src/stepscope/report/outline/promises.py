"""Comparison of promised gains with measured gains, in sentences and as an outline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.report.outline.parts import Bullets, Heading, Paragraph, outlined
from stepscope.report.words.names import join_words, ms, range_ms

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepscope.compare.promises import Outcome
    from stepscope.compare.store import Answer
    from stepscope.report.outline.parts import Part

_KEPT: Final = {
    "inside": "as promised",
    "below": "less than promised",
    "above": "more than promised",
}


def promise_lines(
    outcomes: Sequence[Outcome], per: str, *, reasons: bool = True
) -> Iterator[str]:
    """Write a sentence about each promise.

    Args:
        outcomes: Outcomes of the promises.
        per: "step" or "batch".
        reasons: Whether to write why runs are not comparable.
    """
    for one in outcomes:
        what = join_words(list(one.findings))
        together = " together" if len(one.findings) > 1 else ""
        size = f"{range_ms(one.low_ms, one.high_ms)} a {per}"
        if not one.high_ms:
            size = "no gain by itself"
        promised = f"{size} promised{together}"
        yield f"{what}: {promised}; {_outcome_words(one, reasons=reasons)}"


def _outcome_words(one: Outcome, *, reasons: bool) -> str:
    measured = ""
    if one.measured_ms is not None:
        measured = (
            f"{_gain_text(one.measured_ms)} measured (95 % interval "
            f"{_gain_text(one.measured_low_ms or 0.0)} to "
            f"{_gain_text(one.measured_high_ms or 0.0)})"
        )
    if one.verdict in _KEPT:
        return f"{measured}: {_KEPT[one.verdict]}."
    if one.verdict == "untried":
        return "not tried: the cause still exists."
    if one.verdict == "joint":
        return "changed together with other causes: see their joint promise."
    why = f" {one.reason}" if reasons and one.reason else ""
    return f"{measured}{': ' if measured else ''}not comparable.{why}"


def _gain_text(value: float) -> str:
    return ms(value) if value >= 0 else f"−{ms(-value)}"


@outlined
def answers_outline(answers: Sequence[Answer], kept_in: str) -> Iterator[Part]:
    """Write the outcomes of earlier promises, and where this run's are kept."""
    yield Heading("Promises of earlier runs")
    told = [one for one in answers if one.outcomes]
    for one in told:
        yield Paragraph(f"Promises of run {one.run}:")
        yield Bullets(tuple(promise_lines(one.outcomes, "step")))
    apart = [one for one in answers if not one.outcomes]
    if apart:
        yield Paragraph("Runs that are not comparable with this run:")
        yield Bullets(
            tuple(
                f"{one.run}: {one.unavailable.reason}"
                for one in apart
                if one.unavailable is not None
            )
        )
    if not answers:
        yield Paragraph("No earlier run has promises.")
    yield Paragraph(f"The promises of this run are stored in {kept_in}.")
