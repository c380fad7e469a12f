"""The loop of `stepscope try`: one change at a time, measured in turns, kept or not."""

from __future__ import annotations

import math
import time
from itertools import chain
from statistics import fmean, variance
from typing import TYPE_CHECKING, Final, Literal, Protocol

import msgspec

from stepscope.compare.changes import StepTimeChange, step_time_change
from stepscope.compare.promises import (
    Promise,
    Verdict,
    judge_gain,
    promises_of_findings,
)
from stepscope.compare.timing import RunTimes
from stepscope.trials.knobs import knob_changes, knobs_for_rule
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from stepscope.advice.finding import Finding
    from stepscope.trials.knobs import Change
    from stepscope.trials.turns import Turn

#: What became of a change. `kept`: it helps, and later changes are added to it.
#: `replaced`: it helps, and a later value helps more. `unclear`: the interval contains
#: 0 and gains that matter. `not_applied`: there is nothing to change, or it has the
#: value. `not_tried`: budget, user or --allow-numerics did not allow it.
TrialOutcome = Literal[
    "kept", "replaced", "no_gain", "unclear", "failed", "not_applied", "not_tried"
]

#: Turns with and without a change → 97.5 % quantile of Student's t for their means,
#: which have 2n − 2 degrees of freedom. A change is kept after two turns at least.
_T_QUANTILES: Final = {2: 4.303, 3: 2.776}
#: A gain below this share of the step time is not looked for in a second turn, and no
#: reason to change a program: of many changes, some seem to gain a little by chance.
_MIN_GAIN: Final = 0.02
#: A recorded step that lasts this many times as long as others has more batches.
_MAX_TIMES_RECORDED: Final = 1.5
#: Rules about time that recording lengthens: collections visit the recorder's objects.
_LENGTHENED: Final = frozenset({"gap.gc"})
#: A turn with a change ends after this many times the duration of one without, but not
#: before some seconds.
_MAX_TIMES: Final = 4
_MIN_LIMIT_S: Final = 60.0
#: Losses at the end of two curves whose means are compared; fewer are no curve.
_LAST_LOSSES, _MIN_LOSSES = 10, 3
_NEEDS_NUMERICS: Final = "Results may differ: --allow-numerics tries it."
_NEEDS_BUDGET: Final = "The budget was used up: a larger --budget tries it."


class LossChange(msgspec.Struct, frozen=True, kw_only=True):
    """Losses without and with a change, as far as both turns printed them.

    Attributes:
        losses: Number of losses compared, from the first on.
        before: Mean of the last ten of them without the change.
        after: Mean of the same ones with the change.
    """

    losses: int
    before: float
    after: float


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One change that was tried.

    Attributes:
        knob: Id of the knob.
        change: Name of the change.
        finding: Id of the finding that the change answers.
        outcome: What became of the change.
        promise: Saving that the finding predicts of the change or, without a model of
            it, of its actions; null if it predicts none, or was recorded before a
            change was kept.
        step_time: Step time without and with the change; null if not measured.
        verdict: Whether the saving is inside the promise; null without a promise.
        numerics: Whether results can differ.
        loss: The losses; null if they are unknown, or results cannot differ.
        reason: Why the change was not measured, as a sentence.
        write: Lines that make the change permanent.
    """

    knob: str
    change: str
    finding: str
    outcome: TrialOutcome = "not_tried"
    promise: Promise | None = None
    step_time: StepTimeChange | None = None
    verdict: Verdict | None = None
    numerics: bool = False
    loss: LossChange | None = None
    reason: str | None = None
    write: tuple[str, ...] = ()


class TryAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that `stepscope try` found out; times are per batch.

    Attributes:
        command: The program and its arguments.
        ended: Why no further change was tried: nothing was "left", the "budget" was
            used up, or the user "interrupted" the trials.
        as_is_ms: Mean step time of the unchanged program; null if not measured.
        together: Step time of the unchanged program and with all kept changes; null if
            none is kept.
        trials: The changes, in the order in which they were tried.
        write: Lines that make the kept changes permanent.
        status: Exit status of the last turn; null if stepscope ended that turn.
        stored_in: File of promises; null if they were not stored.
    """

    command: tuple[str, ...]
    ended: Literal["left", "budget", "interrupted"]
    as_is_ms: float | None
    together: StepTimeChange | None
    trials: tuple[Trial, ...]
    write: tuple[str, ...]
    status: int | None
    stored_in: str | None = None


class TrialProgram(Protocol):
    """The program that is tried."""

    def time_steps(self, changes: Sequence[Change], limit_s: float) -> Turn:
        """Time a window of steps of the program with these changes."""

    def find_causes(self, changes: Sequence[Change]) -> tuple[Finding, ...]:
        """Record the program with these changes; return its failing findings."""


class Trials:
    """The state of the loop, which is valid at any time, for an interruption.

    Attributes:
        rows: Changes that were tried, in order.
        kept: Changes that help, in the order in which they were kept.
        first: First turn of the unchanged program.
        last: Last turn of the program as it is kept.
    """

    def __init__(
        self,
        program: TrialProgram,
        *,
        environment: Mapping[str, str],
        folder: str,
        budget_s: float,
        numerics: bool = False,
        tell: Callable[[Trial], None] = lambda _: None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Time the unchanged program.

        Args:
            environment: The program's environment.
            folder: Temporary folder, for knobs that need one.
            budget_s: Seconds after which no further turn begins.
            numerics: Whether to try changes with which results may differ.
            tell: Called with each row.
        """
        self.rows: list[Trial] = []
        self.kept: list[Change] = []
        self._program = program
        self._environment = environment
        self._folder = folder
        self._numerics = numerics
        self._tell = tell
        self._now_s = now_s
        self._ends_s = now_s() + budget_s
        self._tried: set[str] = set()
        #: Number of kept changes with which the current findings were recorded.
        self._recorded = 0
        self.first = program.time_steps((), max(budget_s, _MIN_LIMIT_S))
        self.last = self.first

    def summarise_rows(self, command: Sequence[str], *, interrupted: bool) -> TryAnswer:
        """Return the answer with what is known now."""
        first, last = self.first.times, self.last.times
        ended: Literal["left", "budget"] = "budget" if self._is_late() else "left"
        return TryAnswer(
            command=tuple(command),
            ended="interrupted" if interrupted else ended,
            as_is_ms=first.mean_ms if first else None,
            together=compare_turns([first], [last])
            if first and last and self.kept
            else None,
            trials=tuple(self.rows),
            write=tuple(line for change in self.kept for line in change.write),
            status=self.last.status,
        )

    def try_findings(self, findings: Sequence[Finding]) -> None:
        """Try what answers the findings, in their order, until nothing is left.

        After a change is kept, the changed program is recorded, because findings and
        their promises are those of the program before the change.
        """
        while not self._tried_all(findings):
            self._recorded = len(self.kept)
            findings = self._program.find_causes(self.kept)

    def _tried_all(self, findings: Sequence[Finding]) -> bool:
        """Try what answers the findings; return False once a change is kept."""
        kept = list(self.kept)
        for finding in findings:
            for knob in knobs_for_rule(finding.id, self.first.frameworks):
                if knob not in self._tried:
                    self._tried.add(knob)
                    self._try_knob(knob, finding)
                if self.kept != kept and not self._is_late():
                    return False
        return True

    def _try_knob(self, knob: str, finding: Finding) -> None:
        """Try the values of a knob; a further value replaces the one that was kept."""
        is_old = len(self.kept) != self._recorded
        others = list(self.kept)
        for change in knob_changes(knob, self._environment, self._folder):
            is_promised = not is_old and self.kept == others
            row = self._measure_change(change, finding, others, is_promised=is_promised)
            if row.outcome == "kept":
                if len(self.kept) > len(others):
                    self._mark_replaced(self.kept[-1])
                self.kept = [*others, change]
            self.rows.append(row)
            self._tell(row)
            is_worse = len(self.kept) > len(others) and row.outcome != "kept"
            if is_worse or row.outcome == "not_tried":
                return

    def _mark_replaced(self, change: Change) -> None:
        for index, row in enumerate(self.rows):
            if row.change == change.name and row.outcome == "kept":
                self.rows[index] = msgspec.structs.replace(row, outcome="replaced")

    def _measure_change(
        self,
        change: Change,
        finding: Finding,
        others: Sequence[Change],
        *,
        is_promised: bool,
    ) -> Trial:
        """Measure a change in turns; `is_promised` if the finding is about its base."""
        as_is_ms = self.last.times.mean_ms if self.last.times else None
        promise = None
        if is_promised and as_is_ms is not None:
            promise = promised_gain(finding, change, as_is_ms)
        row = Trial(
            knob=change.knob,
            change=change.name,
            finding=finding.id,
            promise=promise,
            numerics=change.numerics,
            write=change.write,
        )
        if change.numerics and not self._numerics:
            return msgspec.structs.replace(row, reason=_NEEDS_NUMERICS)
        if self._is_late():
            return msgspec.structs.replace(row, reason=_NEEDS_BUDGET)
        limit_s = max(_MAX_TIMES * self.last.seconds, _MIN_LIMIT_S)
        before: list[RunTimes] = []
        after: list[RunTimes] = []
        while True:
            last = self.last
            turn = self._program.time_steps([*others, change], limit_s)
            problem = problem_of_turn(turn, change.knob, expected=last.status)
            if problem is not None or turn.times is None or last.times is None:
                return msgspec.structs.replace(
                    row,
                    outcome="failed" if problem else "not_applied",
                    reason=problem or None,
                )
            before.append(last.times)
            after.append(turn.times)
            step_time = compare_turns(before, after)
            matters_ms = -_MIN_GAIN * step_time.base_ms
            is_known = step_time.verdict == "faster" and len(after) in _T_QUANTILES
            is_clear = is_known and step_time.change_ms <= matters_ms
            is_over = len(after) == max(_T_QUANTILES) or self._is_late()
            may_help = step_time.low_ms <= matters_ms
            if is_clear or is_over or not may_help:
                break
            self.last = self._program.time_steps(self.kept, limit_s)
        if is_clear:
            self.last = turn
        noise: TrialOutcome = "unclear" if may_help and not is_known else "no_gain"
        verdict: Verdict | None = None
        if is_promised:
            # The turns without the change are what it is compared with.
            promise = promised_gain(finding, change, step_time.base_ms)
        if promise is not None:
            judged = judge_gain((promise,), step_time).verdict
            # Gains that may be zero or large fulfil and break any promise.
            verdict = judged if is_clear or not may_help else "not_comparable"
        return msgspec.structs.replace(
            row,
            outcome="kept" if is_clear else noise,
            promise=promise,
            step_time=step_time,
            verdict=verdict,
            loss=compare_losses(last.losses, turn.losses) if row.numerics else None,
        )

    def _is_late(self) -> bool:
        """Return whether one more turn would exceed the budget."""
        return self._now_s() + self.last.seconds >= self._ends_s


def problem_of_turn(turn: Turn, knob: str, *, expected: int | None) -> str | None:
    """Return why the changed program failed; "" if nothing was changed; else None.

    Args:
        expected: Exit status without the change; it may not be 0.
    """
    fault = next((text for text in turn.faults if text.startswith(f"{knob} ")), None)
    if fault is not None:
        return f"It could not be set: {fault.removeprefix(knob).strip()}."
    if turn.status and turn.status != expected:
        return f"The program ended with status {turn.status}: {turn.last_error}"
    if turn.times is None:
        return "The program had fewer than three steps in its turn."
    return None if knob in turn.applied else ""


def promised_gain(finding: Finding, change: Change, as_is_ms: float) -> Promise | None:
    """Return the gain that a finding predicts: of this change, else of any action.

    Args:
        as_is_ms: Mean step time without the change, not recorded.
    """
    recorded_ms = finding.mean_step_ms
    if recorded_ms is None:
        return None
    # A recorded step may last longer than others: most likely in the rest, whose ops
    # are recorded, but possibly in what a change removes. Or it has several batches.
    scale = as_is_ms / recorded_ms
    has_more_batches = not 1 / _MAX_TIMES_RECORDED < scale < _MAX_TIMES_RECORDED
    least, most = (scale, scale) if has_more_batches else sorted((scale, 1.0))
    added_ms = 0.0 if has_more_batches else max(recorded_ms - as_is_ms, 0.0)
    likely = most if finding.id in _LENGTHENED else scale
    for prediction in finding.predictions:
        parameter, step_ms = prediction.parameter, prediction.step_ms
        fits = parameter is None or parameter.value == change.settings[0].value
        if prediction.action in change.actions and fits and step_ms.high is not None:
            mid_ms = (step_ms.mid or step_ms.high) * likely
            least_ms = step_ms.low * least
            return Promise(
                finding=finding.id,
                title=finding.title,
                low_ms=as_is_ms - step_ms.high * most,
                high_ms=max(as_is_ms - min(step_ms.low - added_ms, least_ms), 0.0),
                basis="model",
                effect_ms=(finding.ms_per_step or 0.0) * scale or None,
                mid_ms=max(as_is_ms - mid_ms, 0.0),
            )
    return next(iter(promises_of_findings((finding,), 1 / scale)), None)


def compare_turns(
    before: Sequence[RunTimes], after: Sequence[RunTimes]
) -> StepTimeChange:
    """Compare as many turns without a change as with it.

    Steps of one turn resemble each other more than those of two turns. So the interval
    is the wider one of two: the 95 % interval of the steps (block bootstrap), and that
    of the turns' means (Student's t), which needs two turns each.
    """
    # Processes in lock step are not independent: a step is their mean.
    steps = [
        [[round(ps) for ps in turn.values_by_step(turn.window_ps)] for turn in turns]
        for turns in (before, after)
    ]
    change = step_time_change(
        *(RunTimes(window_ps=tuple(chain.from_iterable(turns))) for turns in steps)
    )
    if len(before) not in _T_QUANTILES:
        return change
    means_ms = [[fmean(turn) / PS_PER_MS for turn in turns] for turns in steps]
    spread_ms = math.sqrt(fmean(variance(turns) for turns in means_ms))
    half_ms = _T_QUANTILES[len(before)] * spread_ms * math.sqrt(2 / len(before))
    low_ms = min(change.low_ms, change.change_ms - half_ms)
    high_ms = max(change.high_ms, change.change_ms + half_ms)
    is_certain = low_ms > 0 or high_ms < 0
    return msgspec.structs.replace(
        change,
        low_ms=low_ms,
        high_ms=high_ms,
        verdict=change.verdict if is_certain else "noise",
    )


def compare_losses(
    before: Sequence[float], after: Sequence[float]
) -> LossChange | None:
    """Compare the losses of two turns; None if one of them is unknown."""
    count = min(len(before), len(after))
    if count < _MIN_LOSSES:
        return None
    first = max(count - _LAST_LOSSES, 0)
    old, new = (fmean(losses[first:count]) for losses in (before, after))
    return LossChange(losses=count, before=old, after=new)
