"""Cost of recording a program, measured by recording the program once.

Nothing is estimated from other programs. Two groups of steps of one run are compared:
the recorded steps, and the steps just before the recording.
"""

from __future__ import annotations

from statistics import quantiles
from typing import TYPE_CHECKING, Final, NamedTuple

from stepscope.doctor.check import Check, plain_check, problem_check
from stepscope.units import PS_PER_S, bytes_text, duration_text

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Minimum steps in each group: fewer do not show how much step times vary.
_MIN_STEPS: Final = 4
#: Number of steps for which the size of a recording is estimated.
_EXAMPLE_STEPS: Final = 100
#: Slowdown above which `stepscope run` records less by default (`--max-slowdown`).
_MAX_SLOWDOWN: Final = 4.0
_LET_IT_RUN: Final = "Let the program run for more steps."
_NO_STEPS: Final = (
    "Annotate the steps with ss.StepTrace(number), or train with a framework whose "
    "steps are detected (docs/run.md)."
)

#: Remedy if recording never began; in programs without steps it begins after a delay.
_NO_WINDOW: Final = (
    f"{_NO_STEPS.removesuffix('.')}; without steps, let the program run for 30 s."
)


class Trial(NamedTuple):
    """A recording that was made to measure what recording costs the program.

    Attributes:
        program: Name of the program.
        size: Size of the file in bytes; None if nothing was stored.
        first: Number of the first recorded step; None without steps.
        last: Number of the last recorded step; None without steps.
        seconds: Length of the recording if there are no steps; None otherwise.
        unrecorded_s: Durations of the steps before the window, in seconds.
        recorded_s: Durations of the recorded steps except the first, in seconds.
        start_s: Seconds that the program waited for the window to open.
        stop_s: Seconds that the program waited for the recording to be stored.
        wanted: Number of the step with which the recording was planned to end.
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
    """First quartile, median and third quartile of durations, in seconds."""

    low_s: float
    median_s: float
    high_s: float

    @classmethod
    def spread_of_durations(cls, durations_s: Sequence[float]) -> _Spread:
        return cls(*quantiles(durations_s, n=4, method="inclusive"))

    def __str__(self) -> str:
        low, median, high = (duration_text(seconds * PS_PER_S) for seconds in self)
        return f"{median} ({low} to {high})"


def cost_checks(trial: Trial) -> tuple[Check, ...]:
    """Return checks of the size of a recording and of the slowdown."""
    group = f"recording {trial.program}"
    if trial.size is None:
        return (_unmeasured_check(group, "recording", "nothing was recorded"),)
    if trial.first is None or trial.last is None:
        if trial.seconds is None:
            text = "the program ended before its window, and no steps were found"
            return (_unmeasured_check(group, "recording", text, _NO_WINDOW),)
        a_second = bytes_text(trial.size / trial.seconds)
        text = f"{bytes_text(trial.size)} in {trial.seconds:g} s: {a_second} a second"
        lacks = "no steps were found, so there is nothing to compare"
        return (
            plain_check(group, "size", text),
            problem_check(group, "slowdown", lacks, _NO_STEPS, state="skip"),
        )
    start, stop = (duration_text(s * PS_PER_S) for s in (trial.start_s, trial.stop_s))
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
    if min(len(trial.unrecorded_s), len(trial.recorded_s)) < _MIN_STEPS:
        text = f"the program ended after step {trial.last} of {trial.wanted}"
        return _unmeasured_check(group, "slowdown", text)
    baseline = _Spread.spread_of_durations(trial.unrecorded_s)
    recorded = _Spread.spread_of_durations(trial.recorded_s)
    longer = recorded.median_s / baseline.median_s - 1 if baseline.median_s > 0 else 0.0
    text = f"recorded steps took {recorded}, the steps before them {baseline}: "
    text += f"{longer * 100:+.1f} %"
    if recorded.low_s <= baseline.high_s and baseline.low_s <= recorded.high_s:
        text += "; but the two ranges overlap"
    elif longer > _MAX_SLOWDOWN:
        text += f"; above +{_MAX_SLOWDOWN:.0%} stepscope run records less"
        remedy = "Record less: --host-tracer-level 1, or --python-sampling-hz 0."
        return problem_check(group, "slowdown", text, remedy)
    return plain_check(group, "slowdown", text)


def _unmeasured_check(
    group: str, name: str, text: str, remedy: str = _LET_IT_RUN
) -> Check:
    return problem_check(group, name, f"{text}, so the cost is unknown", remedy)
