"""Comparison of predicted with measured savings, in sentences and as an outline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.reporting.outline.parts import Bullets, Heading, Paragraph, outlined
from stepscope.reporting.words.names import join_phrases, ms, range_ms

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepscope.compare.promises import Outcome
    from stepscope.compare.store import RunOutcomes
    from stepscope.reporting.outline.parts import Part

_VERDICT_TEXTS: Final = {
    "inside": "as predicted",
    "below": "less than predicted",
    "above": "more than predicted",
}


def promise_lines(
    outcomes: Sequence[Outcome], per: str, *, reasons: bool = True
) -> Iterator[str]:
    """Write a sentence about each predicted saving.

    Args:
        outcomes: Outcomes of the predictions.
        per: "step" or "batch".
        reasons: Whether to write why runs are not comparable.
    """
    for outcome in outcomes:
        what = join_phrases(list(outcome.findings))
        together = " together" if len(outcome.findings) > 1 else ""
        size = f"{range_ms(outcome.low_ms, outcome.high_ms)} a {per}"
        if not outcome.high_ms:
            size = "no gain by itself"
        promised = f"{size} predicted{together}"
        yield f"{what}: {promised}; {_outcome_text(outcome, reasons=reasons)}"


def _outcome_text(outcome: Outcome, *, reasons: bool) -> str:
    measured = ""
    if outcome.measured_ms is not None:
        measured = (
            f"{_gain_text(outcome.measured_ms)} measured (95 % interval "
            f"{_gain_text(outcome.measured_low_ms or 0.0)} to "
            f"{_gain_text(outcome.measured_high_ms or 0.0)})"
        )
    if outcome.verdict in _VERDICT_TEXTS:
        return f"{measured}: {_VERDICT_TEXTS[outcome.verdict]}."
    if outcome.verdict == "untried":
        return "not tried: the cause still exists."
    if outcome.verdict == "joint":
        return "changed together with other causes: a joint prediction covers them."
    why = f" {outcome.reason}" if reasons and outcome.reason else ""
    return f"{measured}{': ' if measured else ''}not comparable.{why}"


def _gain_text(value: float) -> str:
    return ms(value) if value >= 0 else f"−{ms(-value)}"


@outlined
def answers_outline(answers: Sequence[RunOutcomes], kept_in: str) -> Iterator[Part]:
    """Write outcomes of earlier predictions, and the file of this run's predictions."""
    yield Heading("Predicted gains of earlier runs")
    comparable = [answer for answer in answers if answer.outcomes]
    for answer in comparable:
        yield Paragraph(f"Predictions of run {answer.run}:")
        yield Bullets(tuple(promise_lines(answer.outcomes, "step")))
    not_comparable = [answer for answer in answers if not answer.outcomes]
    if not_comparable:
        yield Paragraph("Runs that are not comparable with this run:")
        yield Bullets(
            tuple(
                f"{answer.run}: {answer.unavailable.reason}"
                for answer in not_comparable
                if answer.unavailable is not None
            )
        )
    if not answers:
        yield Paragraph("No earlier run has predictions.")
    yield Paragraph(f"The predictions of this run are stored in {kept_in}.")
