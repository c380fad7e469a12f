"""What recording a program costs it: measured by recording it once.

Nothing is predicted from elsewhere. Steps of one run are compared with each other:
those just before its window, of which nothing is kept, and those within.
"""

from __future__ import annotations

from statistics import quantiles
from typing import TYPE_CHECKING, Final, NamedTuple

from stepscope.doctor.check import Check, plain_check, problem_check
from stepscope.units import PS_PER_S, bytes_text, duration_text

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Fewer steps on a side say nothing of how steps differ anyway.
_LEAST_STEPS: Final = 4
#: A recording of this many steps is given as an example.
_EXAMPLE_STEPS: Final = 100
#: Where `stepscope run` records less by default (`--max-slowdown`).
_MAX_SLOWDOWN: Final = 4.0
_LET_IT_RUN: Final = "Let the program run for some more steps than that."
_NO_STEPS: Final = (
    "Annotate the steps: with ss.StepTrace(number), or let it train with a framework "
    "whose steps are found (docs/run.md)."
)

#: Without steps the window opens by time.
_NO_WINDOW: Final = (
    f"{_NO_STEPS.removesuffix('.')}; without steps, let it run for half a minute."
)


class Trial(NamedTuple):
    """One recording of a program, made to see what it costs.

    Attributes:
        program: What ran.
        size: Bytes of the file; None where nothing was stored.
        first: Number of the first recorded step; None without steps.
        last: Number of the last one.
        seconds: How long was recorded where there are no steps; None otherwise.
        unrecorded_s: How long the steps before the window took.
        recorded_s: How long the recorded ones took, but for the first.
        start_s: How long the program waited for the window to open.
        stop_s: How long it waited for the recording to be stored.
        wanted: Step by which the window should have ended.
    """

    program: str
    size: int | None
    first: int | None
    last: int | None
    seconds: float | None
    unrecorded_s: Sequence[float]
    recorded_s: Sequence[float]
    start_s: float
    stop_s: float
    wanted: int


class _Spread(NamedTuple):
    """The middle half of some durations, and their median."""

    low_s: float
    median_s: float
    high_s: float

    @classmethod
    def spread_of_durations(cls, durations_s: Sequence[float]) -> _Spread:
        return cls(*quantiles(durations_s, n=4, method="inclusive"))

    def __str__(self) -> str:
        low, median, high = (duration_text(it * PS_PER_S) for it in self)
        return f"{median} ({low} to {high})"


def cost_checks(trial: Trial) -> tuple[Check, ...]:
    """Say how large recordings of a program are, and how much they slow it down."""
    group = f"recording {trial.program}"
    if trial.size is None:
        return (_unmeasured_check(group, "recording", "nothing was recorded of it"),)
    if trial.first is None or trial.last is None:
        if trial.seconds is None:
            text = "it ended before its window, and no steps were found"
            return (_unmeasured_check(group, "recording", text, _NO_WINDOW),)
        a_second = bytes_text(trial.size / trial.seconds)
        text = f"{bytes_text(trial.size)} in {trial.seconds:g} s: {a_second} a second"
        lacks = "no steps were found, so there is nothing to compare"
        return (
            plain_check(group, "size", text),
            problem_check(group, "slowdown", lacks, _NO_STEPS, state="skip"),
        )
    start, stop = (duration_text(it * PS_PER_S) for it in (trial.start_s, trial.stop_s))
    return (
        _size_check(group, trial, trial.last - trial.first + 1),
        _slowdown_check(group, trial),
        plain_check(
            group,
            "start and stop",
            f"the program waited {start} for the recording to begin, and {stop} for it "
            "to be stored, once each; the first recording of a process takes longest",
        ),
        plain_check(
            group,
            "how it was measured",
            f"steps {trial.first} to {trial.last} of one run were recorded with the "
            "usual options, the steps before them were not; the first "
            "recorded step, which sets profilers up, is left out",
        ),
    )


def _size_check(group: str, trial: Trial, steps: int) -> Check:
    size = trial.size or 0
    text = f"{bytes_text(size)} for {steps} steps: {bytes_text(size / steps)} a step"
    if trial.recorded_s:
        mean_s = sum(trial.recorded_s) / len(trial.recorded_s)
        if mean_s > 0:
            text += f", {bytes_text(size / steps / mean_s)} a second"
    hundred = bytes_text(size / steps * _EXAMPLE_STEPS)
    return plain_check(group, "size", f"{text}; {_EXAMPLE_STEPS} steps about {hundred}")


def _slowdown_check(group: str, trial: Trial) -> Check:
    if min(len(trial.unrecorded_s), len(trial.recorded_s)) < _LEAST_STEPS:
        text = f"it ended after step {trial.last} of {trial.wanted}"
        return _unmeasured_check(group, "slowdown", text)
    other = _Spread.spread_of_durations(trial.unrecorded_s)
    recorded = _Spread.spread_of_durations(trial.recorded_s)
    longer = recorded.median_s / other.median_s - 1 if other.median_s > 0 else 0.0
    text = f"steps took {recorded} while they were recorded, before that {other}: "
    text += f"{longer * 100:+.1f} %"
    if recorded.low_s <= other.high_s and other.low_s <= recorded.high_s:
        text += "; but steps differ by as much anyway"
    elif longer > _MAX_SLOWDOWN:
        text += f"; beyond {_MAX_SLOWDOWN:g} times more stepscope run records less"
        remedy = "Record less: --host-tracer-level 1, or --python-sampling-hz 0."
        return problem_check(group, "slowdown", text, remedy)
    return plain_check(group, "slowdown", text)


def _unmeasured_check(
    group: str, name: str, text: str, remedy: str = _LET_IT_RUN
) -> Check:
    return problem_check(group, name, f"{text}, so this is not known", remedy)
