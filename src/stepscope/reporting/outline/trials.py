"""What `stepscope try` found out, as an outline: a table, and the lines to write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.reporting.outline.parts import (
    Bullets,
    Code,
    Heading,
    Paragraph,
    Table,
    outlined,
)
from stepscope.reporting.words.names import ms, percent, range_ms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepscope.compare.changes import StepTimeChange
    from stepscope.reporting.outline.parts import Part
    from stepscope.trials.trying import Trial, TryAnswer

_OUTCOME_TEXTS: Final = {
    "kept": "yes",
    "replaced": "no: replaced",
    "no_gain": "no: no gain",
    "unclear": "no: unclear",
    "failed": "no: failed",
    "not_applied": "no: nothing to change",
    "not_tried": "not tried",
}
_VERDICT_TEXTS: Final = {
    "inside": "as promised.",
    "below": "less than promised.",
    "above": "more than promised.",
    "not_comparable": "too noisy to judge the promise.",
}
_ENDED_TEXTS: Final = {
    "left": "Nothing is left to try.",
    "budget": "The budget is used up.",
    "interrupted": "The trials were interrupted.",
}


@outlined
def trials_outline(answer: TryAnswer) -> Iterator[Part]:
    """Write the changes in the order in which they were tried."""
    yield Heading("Tried changes")
    sentence = "No change helps." if answer.trials else "There is no change to try."
    if (change := answer.together) is not None:
        kept = sum(trial.outcome == "kept" for trial in answer.trials)
        less = percent(abs(change.change_percent))
        sentence = (
            f"{kept} of {len(answer.trials)} changes help: {ms(change.base_ms)} a step "
            f"became {ms(change.new_ms)} "
            f"({less} {'less' if change.change_ms < 0 else 'more'})."
        )
    yield Paragraph(f"{sentence} {_ENDED_TEXTS[answer.ended]}", strong=True)
    if answer.trials:
        rows = tuple(
            (
                trial.change,
                trial.finding,
                range_ms(trial.promise.low_ms, trial.promise.high_ms)
                if trial.promise
                else "–",
                gain_cell(trial.step_time),
                _OUTCOME_TEXTS[trial.outcome],
            )
            for trial in answer.trials
        )
        header = ("change", "finding", "promised", "measured", "kept")
        yield Table(header, rows, words=frozenset({1, 4}), expendable=("finding",))
    changes_by_note: dict[str, list[str]] = {}
    for trial in answer.trials:
        for note in _trial_notes(trial):
            changes_by_note.setdefault(note, []).append(trial.change)
    if changes_by_note:
        yield Bullets(
            tuple(
                f"{', '.join(changes)}: {note}"
                for note, changes in changes_by_note.items()
            )
        )
    if answer.write:
        yield Heading("Write into the program")
        for line in answer.write:
            yield Code(line, indent=2)
    if answer.stored_in is not None:
        yield Paragraph(f"Promises are stored in {answer.stored_in}.")


def outcome_text(trial: Trial) -> str:
    """Write what became of a change in a few words."""
    text = "kept" if trial.outcome == "kept" else _OUTCOME_TEXTS[trial.outcome]
    short = text.removeprefix("no: ")
    change = trial.step_time
    if change is None:
        return short
    return f"{ms(change.base_ms)} to {ms(change.new_ms)} a step, {short}"


def gain_cell(change: StepTimeChange | None) -> str:
    """Write a gain and its interval: `9.5 (4.7 to 14.3) ms`."""
    if change is None:
        return "–"
    gain, low, high = (
        ms(-value) if value <= 0 else f"−{ms(value)}"
        for value in (change.change_ms, change.high_ms, change.low_ms)
    )
    unit = f" {gain.rpartition(' ')[2]}"
    if low.endswith(unit) and high.endswith(unit):
        gain, low = gain.removesuffix(unit), low.removesuffix(unit)
        return f"{gain} ({low} to {high.removesuffix(unit)}){unit}"
    return f"{gain} ({low} to {high})"


def _trial_notes(trial: Trial) -> Iterator[str]:
    if trial.verdict is not None:
        yield _VERDICT_TEXTS[trial.verdict]
    if trial.loss is not None:
        yield (
            f"of {trial.loss.losses} printed losses, the mean of the last ten is "
            f"{trial.loss.after:.4g}, and {trial.loss.before:.4g} without the change."
        )
    elif trial.numerics and trial.step_time is not None:
        yield "the program prints no loss: compare the results yourself."
    if trial.reason is not None:
        yield f"{trial.reason[0].lower()}{trial.reason[1:]}"
