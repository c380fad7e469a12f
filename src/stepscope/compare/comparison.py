"""`Comparison`: two runs side by side, as numbers.

Definition: docs/compare.md.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec

from stepscope.advice.finding import Severity, Status
from stepscope.compare.changes import (
    Change,
    StepTimeChange,
    breakdown_changes,
    kernel_changes,
    op_changes,
    owner_changes,
    step_time_change,
    with_shares,
)
from stepscope.compare.parity import Parity, parity_of
from stepscope.compare.promises import Outcome, answers_to, promises_of
from stepscope.compare.synthetic import SyntheticInput, synthetic_input
from stepscope.derive.step_time.host_time import CATEGORIES, owners_of
from stepscope.unavailable import Missing, Unavailable
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stepscope.advice.finding import Finding
    from stepscope.compare.measured import Measured
    from stepscope.compare.timing import RunTimes
    from stepscope.compare.work import Work
    from stepscope.thresholds import Thresholds


class StepColumns(msgspec.Struct, frozen=True, kw_only=True):
    """The steps of a run one after the other, as columns of a chart.

    Attributes:
        steps_per_column: Steps that are put together in one column, as their mean.
        breakdown_ms: Category → its time in each column, without the recording's own.
    """

    steps_per_column: int
    breakdown_ms: dict[str, tuple[float, ...]]


class RunOfTwo(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two runs by itself.

    Attributes:
        run: Name of the run.
        hosts: Names of its hosts.
        steps: Number of measured steps.
        mean_ms: Mean step; null without steps.
        median_ms: Median step; null without steps.
        recording_ms: What the recording itself took of a mean step, which is left out
            of both; null without steps.
        columns: Its steps for a chart, in as many columns as fit both runs; null
            without steps.
    """

    run: str
    hosts: tuple[str, ...]
    steps: int
    mean_ms: float | None
    median_ms: float | None
    recording_ms: float | None
    columns: StepColumns | None


class FindingChange(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a finding that fails in one of the runs.

    Attributes:
        id: Id of the rule.
        title: The problem in a few words.
        change: "gone", "came" or "stayed"; "unknown" where one of the runs cannot tell.
        base: Status in the base run; null where the rule said nothing.
        new: Status in the new run; null likewise.
        severity: How much it matters where it fails, in the new run if it fails there.
        base_ms: Effect of a step of the base run; null where unknown.
        new_ms: Effect of a step of the new run; null where unknown.
    """

    id: str
    title: str
    change: Literal["gone", "came", "stayed", "unknown"]
    base: Status | None
    new: Status | None
    severity: Severity
    base_ms: float | None
    new_ms: float | None


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two runs side by side; a null is explained in `missing`.

    Attributes:
        base: The run to compare with.
        new: The run that is looked at.
        per: What all times are of: "step", or "batch" where steps hold several.
        parity: Whether both do the same work.
        step_time: The step before and now; null where the runs are not comparable.
        breakdown: The ten categories of the step's time, in their order; null likewise.
        synthetic_input: Whether the base run's steps wait for their input; null unless
            the new run is stated to have synthetic data.
        owners: Owners of the step's time, the largest change first; null likewise.
        ops: Ops by self time, the largest change first; null likewise.
        kernels: Kernels by time, the largest change first; null likewise.
        findings: What became of the findings that fail in one of the runs.
        promises: What became of the gains that the base run's findings promised.
        missing: Null fields with their reasons.
    """

    base: RunOfTwo
    new: RunOfTwo
    per: Literal["step", "batch"]
    parity: Parity
    step_time: StepTimeChange | None
    breakdown: tuple[Change, ...] | None
    synthetic_input: SyntheticInput | None
    owners: tuple[Change, ...] | None
    ops: tuple[Change, ...] | None
    kernels: tuple[Change, ...] | None
    findings: tuple[FindingChange, ...]
    promises: tuple[Outcome, ...]
    missing: tuple[Missing, ...]


def compare(
    base: Measured,
    new: Measured,
    *,
    thresholds: Thresholds,
    same_work: bool = False,
    synthetic: bool = False,
) -> Comparison:
    """Compare two runs; times are compared only if both do the same work.

    Args:
        base: The run to compare with.
        new: The run that is looked at.
        thresholds: How much of the work must be the same.
        same_work: Whether somebody states that both do the same work.
        synthetic: Whether somebody states that the new run has synthetic data.
    """
    parity = parity_of(base.work, new.work, thresholds=thresholds, same_work=same_work)
    batches = _batch_divisors(base.work, new.work)
    time = time_between(base.times, new.times, parity, batches)
    note = _Notes()
    tables: dict[str, tuple[Change, ...] | None] = {}
    for name, work_out in _TABLES.items():
        found = time if isinstance(time, Unavailable) else work_out(base, new, batches)
        changes = note.present(name, found)
        if changes is not None and not isinstance(time, Unavailable):
            changes = with_shares(changes, time)
        tables[name] = changes
    group = _steps_per_column(base, new)
    return Comparison(
        base=_run_of_two(base, batches[0], group),
        new=_run_of_two(new, batches[1], group),
        per="step" if batches == (1.0, 1.0) else "batch",
        parity=parity,
        step_time=note.present("step_time", time),
        synthetic_input=synthetic_input(time, tables["owners"], thresholds=thresholds)
        if synthetic
        else None,
        **tables,
        findings=_compare_findings(base.findings, new.findings),
        promises=answers_to(
            promises_of(base.findings, batches[0]),
            new.findings,
            time,
            thresholds=thresholds,
            batches=batches[1],
        ),
        missing=tuple(note.missing),
    )


def time_between(
    base: RunTimes | Unavailable,
    new: RunTimes | Unavailable,
    parity: Parity,
    batches: tuple[float, float] = (1.0, 1.0),
) -> StepTimeChange | Unavailable:
    """Return the change of the step's time, or why nothing can be said of it."""
    if parity.unavailable is not None:
        return parity.unavailable
    if isinstance(base, Unavailable):
        return base
    if isinstance(new, Unavailable):
        return new
    return step_time_change(base.per(batches[0]), new.per(batches[1]))


class _Notes:
    """Collects why fields are null."""

    def __init__(self) -> None:
        self.missing: list[Missing] = []

    def present(self, field: str, found: Any) -> Any:
        """Return a value, or None with a note of the reason."""
        if isinstance(found, Unavailable):
            self.missing.append(found.for_field(field))
            return None
        return found


def _batch_divisors(base: Work, new: Work) -> tuple[float, float]:
    """Return by what times are divided: batches where both runs say how many."""
    if base.batches is None or new.batches is None:
        return 1.0, 1.0
    return base.batches, new.batches


def _run_of_two(one: Measured, batches: float, group: int) -> RunOfTwo:
    times = None if isinstance(one.times, Unavailable) else one.times.per(batches)
    return RunOfTwo(
        run=one.run,
        hosts=one.hosts,
        steps=0 if times is None else len(times.window_ps),
        mean_ms=None if times is None else times.mean_ms,
        median_ms=None if times is None else times.median_ms,
        recording_ms=None
        if times is None
        else times.recording_ps / len(times.window_ps) / batches / PS_PER_MS,
        columns=None if times is None else _compared_columns(times, group),
    )


#: Columns of a run in a chart.
_MOST_COLUMNS: Final = 200


def _steps_per_column(base: Measured, new: Measured) -> int:
    """Return how many steps a column holds, so that both runs fit on one ruler."""
    counts = [
        len(one.times.window_ps) // one.times.hosts
        for one in (base, new)
        if not isinstance(one.times, Unavailable)
    ]
    return max(math.ceil(max(counts, default=1) / _MOST_COLUMNS), 1)


def _compared_columns(times: RunTimes, group: int) -> StepColumns:
    found: dict[str, tuple[float, ...]] = {}
    for category in CATEGORIES:
        series = [
            times.in_order(times.owners_ps[owner])
            for owner in owners_of(category)
            if owner in times.owners_ps
        ]
        if series:
            summed = [sum(of_step) / PS_PER_MS for of_step in zip(*series, strict=True)]
            parts = [summed[at : at + group] for at in range(0, len(summed), group)]
            found[category] = tuple(sum(part) / len(part) for part in parts)
    return StepColumns(steps_per_column=group, breakdown_ms=found)


_Table: TypeAlias = tuple[Change, ...] | Unavailable


def _compare_times(
    compared: Callable[[RunTimes, RunTimes], tuple[Change, ...]],
) -> Callable[[Measured, Measured, tuple[float, float]], _Table]:
    def table(base: Measured, new: Measured, batches: tuple[float, float]) -> _Table:
        if isinstance(base.times, Unavailable) or isinstance(new.times, Unavailable):
            return _NO_TIMES
        return compared(base.times.per(batches[0]), new.times.per(batches[1]))

    return table


_NO_TIMES: Final = Unavailable(
    code="NO_STEPS",
    reason="The steps of one of the runs have no time.",
    remedy="Mark the steps of both programs.",
)


def _compare_ops(base: Measured, new: Measured, batches: tuple[float, float]) -> _Table:
    if isinstance(base.ops, Unavailable):
        return base.ops
    if isinstance(new.ops, Unavailable):
        return new.ops
    return op_changes(base.ops, new.ops, batches)


def _compare_kernels(
    base: Measured, new: Measured, batches: tuple[float, float]
) -> _Table:
    if isinstance(base.kernels, Unavailable):
        return base.kernels
    if isinstance(new.kernels, Unavailable):
        return new.kernels
    return kernel_changes(base.kernels, new.kernels, batches)


_TABLES: Final[
    dict[str, Callable[[Measured, Measured, tuple[float, float]], _Table]]
] = {
    "breakdown": _compare_times(breakdown_changes),
    "owners": _compare_times(owner_changes),
    "ops": _compare_ops,
    "kernels": _compare_kernels,
}


def _compare_findings(
    base: Sequence[Finding], new: Sequence[Finding]
) -> tuple[FindingChange, ...]:
    """List the findings that fail in one of the runs, in the order of the guides."""
    before, now = ({one.id: one for one in found} for found in (base, new))
    changes = []
    for name in (*before, *(one for one in now if one not in before)):
        old, other = before.get(name), now.get(name)
        failed = [one for one in (other, old) if one is not None]
        failed = [one for one in failed if one.status == "fail"]
        if not failed:
            continue
        changes.append(
            FindingChange(
                id=name,
                title=failed[0].title,
                change=_finding_change(old, other),
                base=None if old is None else old.status,
                new=None if other is None else other.status,
                severity=failed[0].severity,
                base_ms=None if old is None else old.ms_per_step,
                new_ms=None if other is None else other.ms_per_step,
            )
        )
    return tuple(changes)


def _finding_change(
    old: Finding | None, new: Finding | None
) -> Literal["gone", "came", "stayed", "unknown"]:
    if old is None or new is None or "cannot_tell" in (old.status, new.status):
        return "unknown"
    if old.status == new.status:
        return "stayed"
    return "gone" if old.status == "fail" else "came"
