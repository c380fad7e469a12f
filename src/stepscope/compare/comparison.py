"""`Comparison`: the comparison of two runs, as numbers.

Definition: docs/compare.md.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from stepscope.advice.finding import Severity, Status
from stepscope.compare.changes import (
    Change,
    StepTimeChange,
    breakdown_changes,
    changes_with_shares,
    kernel_changes,
    op_changes,
    owner_changes,
    step_time_change,
)
from stepscope.compare.parity import Parity, check_parity
from stepscope.compare.promises import Outcome, judge_promises, promises_of_findings
from stepscope.compare.synthetic import SyntheticInput, synthetic_input
from stepscope.derive.step_time.owners import CATEGORIES, category_owners
from stepscope.unavailable import Missing, Unavailable
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.advice.finding import Finding
    from stepscope.compare.measured import MeasuredSteps
    from stepscope.compare.timing import RunTimes
    from stepscope.thresholds import Thresholds


class StepColumns(msgspec.Struct, frozen=True, kw_only=True):
    """The steps of a run in order, as columns of a chart.

    Attributes:
        steps_per_column: Number of steps that are averaged in one column.
        breakdown_ms: Category → time in each column, excluding recording cost.
    """

    steps_per_column: int
    breakdown_ms: dict[str, tuple[float, ...]]


class RunOfTwo(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two compared runs.

    Attributes:
        run: Name of the run.
        hosts: Names of the run's hosts.
        steps: Number of measured steps.
        mean_ms: Mean step time; null without steps.
        median_ms: Median step time; null without steps.
        recording_ms: Mean cost of the recording per step, which mean and median
            exclude; null without steps.
        columns: The run's steps for a chart, with the same number of steps per column
            as in the other run; null without steps.
    """

    run: str
    hosts: tuple[str, ...]
    steps: int
    mean_ms: float | None
    median_ms: float | None
    recording_ms: float | None
    columns: StepColumns | None


class FindingChange(msgspec.Struct, frozen=True, kw_only=True):
    """Change of a finding that fails in at least one of the runs.

    Attributes:
        id: Id of the rule.
        title: The problem in a few words.
        change: "gone", "came" or "stayed"; "unknown" if one of the runs cannot tell.
        base: Status in the base run; null if the rule gave no finding.
        new: Status in the new run; null if the rule gave no finding.
        severity: Severity of the failed finding; of the new run's, if both failed.
        base_ms: Lost time per step of the base run; null if unknown.
        new_ms: Lost time per step of the new run; null if unknown.
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
    """Comparison of two runs; `missing` explains nulls.

    Attributes:
        base: The run to compare with.
        new: The run that is examined.
        per: Unit of all times: "step", or "batch" if steps contain several batches.
        parity: Whether both runs do the same work.
        step_time: Step time of both runs; null if the runs are not comparable.
        breakdown: The ten categories of the step time, in their order; null if the runs
            are not comparable.
        synthetic_input: Whether the base run's steps wait for input; null unless the
            new run is declared to use synthetic data.
        owners: Step time by cause, largest change first; null if unknown.
        ops: Ops by self time, largest change first; null if unknown.
        kernels: Kernels by time, largest change first; null if unknown.
        findings: Changes of the findings that fail in at least one of the runs.
        promises: Outcomes of the savings that the base run's findings predicted.
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


def compare_runs(
    base: MeasuredSteps,
    new: MeasuredSteps,
    *,
    thresholds: Thresholds,
    same_work: bool = False,
    synthetic: bool = False,
) -> Comparison:
    """Compare two runs; times are compared only if both do the same work.

    The caller can state that the work is the same (`same_work`), or that the new run
    uses synthetic data (`synthetic`).
    """
    parity = check_parity(
        base.work, new.work, thresholds=thresholds, same_work=same_work
    )
    batches = 1.0, 1.0
    if base.work.batches is not None and new.work.batches is not None:
        batches = base.work.batches, new.work.batches
    times = comparable_times(base.times, new.times, parity, batches)
    time: StepTimeChange | Unavailable
    compared: dict[str, Any]
    if isinstance(times, Unavailable):
        time = times
        compared = dict.fromkeys(("breakdown", "owners", "ops", "kernels"), times)
    else:
        time = step_time_change(*times)
        tables = {
            "breakdown": breakdown_changes(*times),
            "owners": owner_changes(*times),
            "ops": op_changes(base.ops, new.ops, batches),
            "kernels": kernel_changes(base.kernels, new.kernels, batches),
        }
        compared = {
            name: changes_with_shares(changes, time) for name, changes in tables.items()
        }
    compared["step_time"] = time
    missing = tuple(
        result.missing_field(field)
        for field, result in compared.items()
        if isinstance(result, Unavailable)
    )
    compared |= dict.fromkeys(note.field for note in missing)
    # Both runs get the same number of steps per chart column, so that the charts align.
    steps = max(_steps_of_a_host(base), _steps_of_a_host(new))
    group = max(math.ceil(steps / _MAX_COLUMNS), 1)
    return Comparison(
        base=_describe_run(base, batches[0], group),
        new=_describe_run(new, batches[1], group),
        per="step" if batches == (1.0, 1.0) else "batch",
        parity=parity,
        synthetic_input=synthetic_input(time, compared["owners"], thresholds=thresholds)
        if synthetic
        else None,
        **compared,
        findings=_finding_changes(base.findings, new.findings),
        promises=judge_promises(
            promises_of_findings(base.findings, batches[0]),
            new.findings,
            time,
            thresholds=thresholds,
            batches=batches[1],
        ),
        missing=missing,
    )


def comparable_times(
    base: RunTimes | Unavailable,
    new: RunTimes | Unavailable,
    parity: Parity,
    batches: tuple[float, float] = (1.0, 1.0),
) -> tuple[RunTimes, RunTimes] | Unavailable:
    """Return the times per batch of both runs, or why they cannot be compared."""
    if parity.unavailable is not None:
        return parity.unavailable
    if isinstance(base, Unavailable):
        return base
    if isinstance(new, Unavailable):
        return new
    return base.times_per_batch(batches[0]), new.times_per_batch(batches[1])


#: Maximum number of columns of a run in a chart.
_MAX_COLUMNS: Final = 200


def _steps_of_a_host(run: MeasuredSteps) -> int:
    if isinstance(run.times, Unavailable):
        return 0
    return len(run.times.window_ps) // run.times.hosts


def _describe_run(run: MeasuredSteps, batches: float, group: int) -> RunOfTwo:
    if isinstance(run.times, Unavailable):
        return RunOfTwo(
            run=run.run,
            hosts=run.hosts,
            steps=0,
            mean_ms=None,
            median_ms=None,
            recording_ms=None,
            columns=None,
        )
    times = run.times.times_per_batch(batches)
    steps = len(times.window_ps)
    return RunOfTwo(
        run=run.run,
        hosts=run.hosts,
        steps=steps,
        mean_ms=times.mean_ms,
        median_ms=times.median_ms,
        recording_ms=times.recording_ps / steps / batches / PS_PER_MS,
        columns=_step_columns(times, group),
    )


def _step_columns(times: RunTimes, group: int) -> StepColumns:
    breakdown_ms: dict[str, tuple[float, ...]] = {}
    for category in CATEGORIES:
        series = [
            times.values_by_step(times.owners_ps[owner])
            for owner in category_owners(category)
            if owner in times.owners_ps
        ]
        if series:
            summed = [sum(of_step) / PS_PER_MS for of_step in zip(*series, strict=True)]
            parts = [summed[i : i + group] for i in range(0, len(summed), group)]
            breakdown_ms[category] = tuple(sum(part) / len(part) for part in parts)
    return StepColumns(steps_per_column=group, breakdown_ms=breakdown_ms)


def _finding_changes(
    base: Sequence[Finding], new: Sequence[Finding]
) -> tuple[FindingChange, ...]:
    """Return the changes of findings that fail in either run, in the guides' order."""
    before, now = (
        {finding.id: finding for finding in findings} for findings in (base, new)
    )
    changes = []
    for name in before | now:
        old, current = before.get(name), now.get(name)
        failed = [check for check in (current, old) if check and check.status == "fail"]
        if not failed:
            continue
        change: Literal["gone", "came", "stayed", "unknown"] = "unknown"
        if old and current and "cannot_tell" not in (old.status, current.status):
            change = "gone" if old.status == "fail" else "came"
            change = "stayed" if old.status == current.status else change
        changes.append(
            FindingChange(
                id=name,
                title=failed[0].title,
                change=change,
                base=old.status if old else None,
                new=current.status if current else None,
                severity=failed[0].severity,
                base_ms=old.ms_per_step if old else None,
                new_ms=current.ms_per_step if current else None,
            )
        )
    return tuple(changes)
