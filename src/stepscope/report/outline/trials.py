"""What `stepscope try` found out, as an outline: a table, and the lines to write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.report.outline.parts import (
    Bullets,
    Code,
    Heading,
    Paragraph,
    Table,
    outlined,
)
from stepscope.report.words.names import ms, percent, range_ms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepscope.compare.changes import StepTimeChange
    from stepscope.report.outline.parts import Part
    from stepscope.trials.trying import Trial, TryAnswer

_OUTCOME_TEXTS: Final = {
    "kept": "yes",
    "replaced": "no: replaced",
    "no_gain": "no: no gain",
    "unclear": "no: unclear",
    "failed": "no: failed",
    "same": "no: set already",
    "not_applied": "no: nothing to change",
    "not_tried": "not tried",
}
_VERDICT_TEXTS: Final = {
    "inside": "as promised",
    "below": "less than promised",
    "above": "more than promised",
    "not_comparable": "too noisy to judge the promise",
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
    yield Paragraph(" ".join(_summary_sentences(answer)), strong=True)
    if answer.trials:
        rows = tuple(
            (
                trial.change,
                trial.finding,
                _promise_cell(trial),
                _gain_text(trial.step_time),
                _OUTCOME_TEXTS[trial.outcome],
            )
            for trial in answer.trials
        )
        header = ("change", "finding", "promised", "measured", "kept")
        yield Table(header, rows, words=frozenset({1, 4}), expendable=("finding",))
    notes = tuple(_trial_notes(answer))
    if notes:
        yield Bullets(notes)
    if answer.write:
        yield Heading("Write into the program")
        for line in dict.fromkeys(answer.write):
            yield Code(line, indent=2)
    if answer.stored_in is not None:
        yield Paragraph(
            f"Promises and measured gains are stored in {answer.stored_in}."
        )


def outcome_text(trial: Trial) -> str:
    """Write what became of a change in a few words."""
    kept = "kept" if trial.outcome == "kept" else _OUTCOME_TEXTS[trial.outcome]
    if trial.step_time is None:
        return kept.removeprefix("no: ")
    times = f"{ms(trial.step_time.base_ms)} to {ms(trial.step_time.new_ms)} a step"
    return f"{times}, {kept.removeprefix('no: ')}"


def _summary_sentences(answer: TryAnswer) -> Iterator[str]:
    kept = sum(trial.outcome == "kept" for trial in answer.trials)
    change = answer.together
    if change is not None:
        saved = percent(abs(change.change_percent))
        word = "less" if change.change_ms < 0 else "more"
        yield (
            f"{kept} of {len(answer.trials)} changes help: {ms(change.base_ms)} a step "
            f"became {ms(change.new_ms)} ({saved} {word})."
        )
    elif answer.trials:
        yield "No change helps."
    else:
        yield "There is no change to try: no knob answers a finding of this program."
    yield _ENDED_TEXTS[answer.ended]


def _promise_cell(trial: Trial) -> str:
    if trial.promise is None:
        return "–"
    return range_ms(trial.promise.low_ms, trial.promise.high_ms)


def _gain_text(change: StepTimeChange | None) -> str:
    if change is None:
        return "–"
    gain, low, high = (
        _signed_ms(-value)
        for value in (change.change_ms, change.high_ms, change.low_ms)
    )
    unit = f" {gain.rpartition(' ')[2]}"
    if low.endswith(unit) and high.endswith(unit):
        low, high = low.removesuffix(unit), high.removesuffix(unit)
        return f"{gain.removesuffix(unit)} ({low} to {high}){unit}"
    return f"{gain} ({low} to {high})"


def _signed_ms(value: float) -> str:
    return ms(value) if value >= 0 else f"−{ms(-value)}"


def _trial_notes(answer: TryAnswer) -> Iterator[str]:
    """Write about promises, losses and problems; equal sentences are joined."""
    by_text: dict[str, list[str]] = {}
    for trial in answer.trials:
        for text in _notes_of(trial):
            by_text.setdefault(text, []).append(trial.change)
    for text, changes in by_text.items():
        yield f"{', '.join(changes)}: {text}"


def _notes_of(trial: Trial) -> Iterator[str]:
    if trial.verdict is not None:
        yield f"{_VERDICT_TEXTS[trial.verdict]}."
    if trial.loss is not None:
        loss = trial.loss
        yield (
            f"the mean of the last losses of {loss.losses} is {loss.after:.4g}, and "
            f"{loss.before:.4g} without the change."
        )
    if trial.reason is not None and trial.outcome not in {"not_applied", "same"}:
        yield f"{trial.reason[0].lower()}{trial.reason[1:]}"
