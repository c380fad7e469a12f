"""The loop of `stepscope try`: one change at a time, measured in turns, kept or not."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, Literal, Protocol

import msgspec

from stepscope.compare.changes import StepTimeChange
from stepscope.compare.promises import (
    Promise,
    Verdict,
    judge_gain,
    promises_of_findings,
)
from stepscope.trials.knobs import knobs_for_rule
from stepscope.trials.measured_changes import (
    LossChange,
    compare_losses,
    compare_turns,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from stepscope.advice.finding import Finding
    from stepscope.compare.timing import RunTimes
    from stepscope.trials.knobs import Change, Knob
    from stepscope.trials.turns import Turn

#: What became of a change. `kept`: it helps, and later changes are added to it.
#: `replaced`: it helps, and a later value of the same knob helps more. `unclear`: the
#: interval contains 0 and gains that matter. `same`: the program has the value already.
#: `not_applied`: the program has nothing that the knob changes.
#: `not_tried`: the budget or the user ended the trials first, or results may differ.
TrialOutcome = Literal[
    "kept",
    "replaced",
    "no_gain",
    "unclear",
    "failed",
    "same",
    "not_applied",
    "not_tried",
]

#: Outcomes that other values of the same knob would have too.
_OF_ALL_VALUES: Final = frozenset({"not_applied", "not_tried"})
#: Minimum and maximum number of turns with a change that is kept, each after a turn
#: without it.
_MIN_TURNS, _MAX_TURNS = 2, 3
#: A gain below this share of the step time is not looked for in a second turn.
_MIN_GAIN: Final = 0.02
#: A turn with a change is ended after this many times the duration of a turn without.
_MAX_TIMES: Final = 4
#: Seconds that every turn may take.
_MIN_LIMIT_S: Final = 60.0
_NO_STEPS: Final = "The program without the change had no steps in a further turn."
_UNKNOWN_LOSS: Final = "The loss is unknown: compare it yourself."


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One change that was tried.

    Attributes:
        knob: Id of the knob.
        change: Name of the change.
        finding: Id of the finding that the change answers.
        outcome: What became of the change.
        promise: Saving that the finding predicts; null if it predicts none, or was
            recorded before a change was kept.
        step_time: Step time without and with the change; null if not measured.
        verdict: Whether the saving is inside the promise; null without a promise.
        numerics: Whether results can differ.
        loss: The loss curves; null if they are unknown, or results cannot differ.
        reason: Why the change was not measured or not kept, as a sentence.
        write: Lines that make the change permanent.
    """

    knob: str
    change: str
    finding: str
    outcome: TrialOutcome
    promise: Promise | None = None
    step_time: StepTimeChange | None = None
    verdict: Verdict | None = None
    numerics: bool = False
    loss: LossChange | None = None
    reason: str | None = None
    write: tuple[str, ...] = ()


class TryAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that `stepscope try` found out.

    Attributes:
        command: The program and its arguments.
        ended: Why no further change was tried: nothing was "left", the "budget" was
            used up, or the user "interrupted" the trials.
        per: Unit of all times. A step that runs several batches counts as several.
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
    per: Literal["batch"] = "batch"
    as_is_ms: float | None
    together: StepTimeChange | None
    trials: tuple[Trial, ...]
    write: tuple[str, ...]
    status: int | None
    stored_in: str | None = None


class Laboratory(Protocol):
    """What runs the program."""

    def time_steps(self, changes: Sequence[Change], limit_s: float) -> Turn:
        """Time a window of steps of the program with these changes."""

    def find_causes(self, changes: Sequence[Change]) -> tuple[Finding, ...]:
        """Record the program with these changes; return its findings in order."""


class Trials:
    """The state of the loop; its rows are valid at any time, for an interruption.

    Attributes:
        rows: Changes that were tried, in order.
        kept: Changes that help, in the order in which they were kept.
        first: First turn of the unchanged program; None before its end.
        last: Last turn of the program as it is kept.
    """

    def __init__(
        self,
        laboratory: Laboratory,
        *,
        environment: Mapping[str, str],
        temporary: str,
        budget_s: float,
        numerics: bool = False,
        tell: Callable[[Trial], None] = lambda _: None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare the loop.

        Args:
            environment: The program's environment.
            temporary: Folder for knobs that need one.
            budget_s: Seconds after which no further turn begins.
            numerics: Whether to try changes with which results may differ.
            tell: Called with each row.
        """
        self.rows: list[Trial] = []
        self.kept: list[Change] = []
        self.first: Turn | None = None
        self.last: Turn | None = None
        self._laboratory = laboratory
        self._environment = environment
        self._temporary = temporary
        self._numerics = numerics
        self._tell = tell
        self._now_s = now_s
        self._ends_s = now_s() + budget_s
        self._tried: set[str] = set()
        #: Number of kept changes with which the current findings were recorded.
        self._recorded = 0

    def answer(self, command: Sequence[str], *, interrupted: bool) -> TryAnswer:
        """Summarise what is known now."""
        first = self.first and self.first.times
        last = self.last and self.last.times
        together = compare_turns([first], [last]) if first and last else None
        ended: Literal["left", "budget"] = "budget" if self._is_late() else "left"
        return TryAnswer(
            command=tuple(command),
            ended="interrupted" if interrupted else ended,
            as_is_ms=first.mean_ms if first else None,
            together=together if self.kept else None,
            trials=tuple(self.rows),
            write=tuple(line for change in self.kept for line in change.write),
            status=self.last.status if self.last else None,
        )

    def begin(self) -> Turn:
        """Time the unchanged program."""
        limit_s = max(self._ends_s - self._now_s(), _MIN_LIMIT_S)
        self.first = self.last = self._laboratory.time_steps((), limit_s)
        return self.first

    def try_findings(self, findings: Sequence[Finding]) -> None:
        """Try what answers the findings, in their order, until nothing is left.

        After a change is kept, the changed program is recorded, because the findings
        and their promises are those of the program before the change.
        """
        while not self._tried_all(findings):
            self._recorded = len(self.kept)
            findings = [
                finding
                for finding in self._laboratory.find_causes(self.kept)
                if finding.status == "fail"
            ]

    def _tried_all(self, findings: Sequence[Finding]) -> bool:
        """Try what answers the findings; return False once a change is kept."""
        kept = list(self.kept)
        for finding in findings:
            for knob in self._untried_knobs(finding):
                self._try_knob(knob, finding)
                if self.kept != kept and not self._is_late():
                    return False
        return True

    def try_finding(self, finding: Finding) -> None:
        """Try each knob that answers a finding."""
        for knob in self._untried_knobs(finding):
            self._try_knob(knob, finding)

    def _untried_knobs(self, finding: Finding) -> tuple[Knob, ...]:
        frameworks = self.first.frameworks if self.first else frozenset()
        knobs = knobs_for_rule(finding.id, frameworks)
        return tuple(knob for knob in knobs if knob.id not in self._tried)

    def _try_knob(self, knob: Knob, finding: Finding) -> None:
        """Try the values of a knob; a further value replaces the one that was kept."""
        self._tried.add(knob.id)
        # A finding that was recorded before a change was kept promises nothing more.
        is_old = len(self.kept) != self._recorded
        promises = () if is_old else promises_of_findings((finding,))
        promise = promises[0] if promises else None
        current: Change | None = None
        for change in knob.changes(self._environment, self._temporary):
            row = self._measure_change(change, finding.id, promise, current)
            self.rows.append(row)
            self._tell(row)
            if row.outcome == "kept":
                if current is not None:
                    self.kept.remove(current)
                    self._mark_replaced(current)
                self.kept.append(change)
                current, promise = change, None
            elif row.outcome != "same" and (
                current is not None or row.outcome in _OF_ALL_VALUES
            ):
                return

    def _mark_replaced(self, change: Change) -> None:
        for index, row in enumerate(self.rows):
            if row.change == change.name and row.outcome == "kept":
                self.rows[index] = msgspec.structs.replace(row, outcome="replaced")

    def _measure_change(
        self,
        change: Change,
        finding: str,
        promise: Promise | None,
        instead_of: Change | None,
    ) -> Trial:
        row = Trial(
            knob=change.knob,
            change=change.name,
            finding=finding,
            outcome="not_tried",
            promise=promise,
            numerics=change.numerics,
            write=change.write,
        )
        if change.numerics and not self._numerics:
            reason = "Results may differ: --allow-numerics tries it."
            return msgspec.structs.replace(row, reason=reason)
        if self._is_late() or self.last is None:
            reason = "The budget was used up: a larger --budget tries it."
            return msgspec.structs.replace(row, reason=reason)
        others = [other for other in self.kept if other is not instead_of]
        return self._take_turns(row, self.last, [*others, change])

    def _take_turns(self, row: Trial, last: Turn, changes: Sequence[Change]) -> Trial:
        """Run turns with and without the change until it is clear whether it helps.

        Args:
            last: Last turn without the change.
            changes: The changes that are kept, and the change.
        """
        limit_s = max(_MAX_TIMES * last.seconds, _MIN_LIMIT_S)
        before: list[RunTimes] = []
        after: list[RunTimes] = []
        while True:
            turn = self._laboratory.time_steps(changes, limit_s)
            problem = _problem_of(turn, row.knob, expected=last.status)
            if problem is not None or turn.times is None or last.times is None:
                outcome, reason = problem or ("not_tried", _NO_STEPS)
                return msgspec.structs.replace(row, outcome=outcome, reason=reason)
            before.append(last.times)
            after.append(turn.times)
            change = compare_turns(before, after)
            is_clear = change.verdict == "faster" and len(after) >= _MIN_TURNS
            is_over = len(after) == _MAX_TURNS or self._is_late()
            if is_clear or is_over or not _may_help(change):
                break
            self.last = last = self._laboratory.time_steps(self.kept, limit_s)
        row = _judged_row(row, change, is_repeated=len(after) >= _MIN_TURNS)
        if row.numerics:
            loss = compare_losses(last.losses, turn.losses)
            row = msgspec.structs.replace(
                row, loss=loss, reason=None if loss else _UNKNOWN_LOSS
            )
        if row.outcome == "kept":
            self.last = turn
        return row

    def _is_late(self) -> bool:
        """Return whether one more turn would exceed the budget."""
        turn_s = self.last.seconds if self.last else 0.0
        return self._now_s() + turn_s >= self._ends_s


def _problem_of(
    turn: Turn, knob: str, *, expected: int | None
) -> tuple[TrialOutcome, str] | None:
    """Return why a turn with a change measures nothing, or None.

    Args:
        expected: Exit status without the change; it may not be 0.
    """
    failure = None
    if knob in turn.faults:
        failure = f"It could not be set: {turn.faults[knob]}."
    elif turn.status and turn.status != expected:
        error = turn.output.last_error()
        failure = f"The program ended with status {turn.status}: {error}"
    elif turn.times is None:
        late = "did not reach its steps in time" if turn.is_late else "ended too early"
        failure = f"The program {late}: fewer than three steps were timed."
    if failure is not None:
        return "failed", failure
    if knob in turn.changed:
        return None
    if knob in turn.same:
        return "same", f"The program has it already: {turn.same[knob]}."
    return "not_applied", "The program has nothing that this changes."


def _judged_row(row: Trial, change: StepTimeChange, *, is_repeated: bool) -> Trial:
    """Return the row with the measured change, and whether the promise holds."""
    outcome: TrialOutcome = "unclear" if _may_help(change) else "no_gain"
    if change.verdict == "faster" and is_repeated:
        outcome = "kept"
    verdict: Verdict | None = None
    if row.promise is not None:
        judged = judge_gain((row.promise,), change).verdict
        # Gains that may be zero or large fulfil and break any promise.
        verdict = "not_comparable" if outcome == "unclear" else judged
    return msgspec.structs.replace(
        row, outcome=outcome, step_time=change, verdict=verdict
    )


def _may_help(change: StepTimeChange) -> bool:
    return change.low_ms <= -_MIN_GAIN * change.base_ms
