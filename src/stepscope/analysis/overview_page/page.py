"""`overview_page`: how long a step takes, where its time goes, and what ran where."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

import msgspec
import polars as pl

from stepscope.analysis.overview_page.account import AccountEntry, account_entries
from stepscope.analysis.overview_page.collectives import (
    Collective,
    collective_kinds,
    described_parameters,
    missing_of_collectives,
)
from stepscope.analysis.overview_page.environment import RunEnvironment, run_environment
from stepscope.analysis.overview_page.ops import (
    Eager,
    Functions,
    Placement,
    PlacementOfRun,
    PrecisionShares,
    TopOp,
    graph_functions,
    missing_of_precision,
    op_placements,
    precision_shares,
    top_ops_of,
)
from stepscope.analysis.results.result import ToolResult
from stepscope.analysis.results.statistics import Statistics
from stepscope.analysis.results.tables import package_reasons, with_every_null
from stepscope.analysis.results.tool import derived_by_host, rows_read
from stepscope.analysis.steps.measured_hosts import MeasuredRun, measured_run
from stepscope.analysis.steps.summary import (
    AnyDevice,
    Step,
    StepSummary,
    StepTimes,
    bottleneck_side,
    judged_input,
    step_list,
    step_summary,
)
from stepscope.derive.account.parts import account_parts
from stepscope.derive.collectives.calls import collectives
from stepscope.derive.host.function_calls import function_calls
from stepscope.derive.ops.costs import op_costs
from stepscope.derive.ops.database import op_placement
from stepscope.derive.phases import PHASES, phases
from stepscope.derive.step_time.host_classes import host_classes
from stepscope.derive.steps.chosen import step_candidates
from stepscope.derive.verdicts.input_verdict import INPUT_VERDICT_NEEDS
from stepscope.trace.quality import QualityNote
from stepscope.unavailable import Missing, Unavailable
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.analysis.options import OverviewPageOptions
    from stepscope.analysis.steps.rows import HostSteps
    from stepscope.derive.profile_data import ProfileData
    from stepscope.derive.steps.candidates import Candidate

_WHY: Final = package_reasons("overview_page")

#: Derived data of each host that the tool reads with its default options.
NEEDS: Final = (
    *INPUT_VERDICT_NEEDS,
    account_parts,
    collectives,
    function_calls,
    op_costs,
    op_placement,
    phases,
)


class CandidateEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One possible division of the profile into steps.

    Attributes:
        source: `marker`, `device_line`, `launch` or `period`.
        what: Name of the marker, op or launch that repeats.
        n: Number of steps in the division.
        period_ms: Median time between starts of steps; null for fewer than two steps.
        coverage: Share of the activity inside similar steps; null for markers.
        cv: Coefficient of variation of the work of the steps; null for markers.
        confidence: Confidence in the candidate, from 0 to 1.
        accepted: Whether steps may be based on the candidate.
        why_not: Why the candidate was not accepted; empty if it was accepted.
    """

    source: str
    what: str
    n: int
    period_ms: float | None
    coverage: float | None
    cv: float | None
    confidence: float
    accepted: bool
    why_not: str


class StepDetection(msgspec.Struct, frozen=True, kw_only=True):
    """How the steps were found, and with which confidence.

    Attributes:
        source: What the steps are based on: `marker`, `device_line`, `launch` or
            `period`; null without steps.
        confidence: Confidence in the steps, from 0 to 1; null without steps.
        inferred: Whether unmarked steps were inferred from repetition.
        anchor: What determines the starts of the windows: `host`, `device`, `executor`
            (host threads that run compiled programs) or `profile`.
        candidates: Every division into steps that was tried, preferred ones first.
    """

    source: str | None = None
    confidence: float | None = None
    inferred: bool = False
    anchor: str
    candidates: tuple[CandidateEntry, ...]


class HostSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The summary of one host.

    Attributes:
        host: Name of the host.
        step_detection: How the host's steps were found.
        summary: Means and shares of the host.
    """

    host: str
    step_detection: StepDetection
    summary: StepSummary


class OverviewPageResult(ToolResult, frozen=True, kw_only=True):
    """Overview of a run; `missing` explains nulls.

    `StepSummary` defines the fields that come from the summary.

    Attributes:
        window: `steps`, or `profile` for numbers of the whole recording (no steps).
        compat: Producer whose rules the step times and categories follow; empty for
            stepscope's own rules.
        steps: Every step of every host.
        account: Step time by cause on every device, with named parts; empty if another
            producer's rules are followed.
        step_detection: How steps were found, on the host with the lowest confidence.
        precision: Kernel time by precision; null if unknown.
        top_ops: The ops with the most self time.
        phases_ms: Mean time of a step by phase; null if no op shows a phase.
        environment: Hosts, devices and files of the run.
        op_placement: On which side ops ran, host or device.
        eager: Share of op time that ran eagerly; null if unknown.
        collectives: Collectives between devices, by kind; null if unknown.
        tf_function: Calls of graph functions.
        is_training: Whether gradients or parameter updates were seen; null if unknown.
        hosts_matched_by: How the steps of several hosts were matched: `step_num`,
            `time` or `none`; `one_host` for a single host.
        by_host: Summary of each host.
        quality: Doubts that follow from comparing all hosts.
        missing: Null fields and left-out categories with their reasons.
        inputs: Host → number of rows read from each table.
    """

    DEFINED_BY: ClassVar = StepSummary

    window: str
    compat: str
    steps: tuple[Step, ...]
    step_count: int
    left_out: dict[str, int]
    step_time_ms: Statistics
    host_period_ms: Statistics | None
    batch_time_ms: float | None
    device_step_time_ms: Statistics | None
    breakdown_ms: dict[str, float]
    breakdown_std_ms: dict[str, float | None]
    breakdown_percent: dict[str, float | None]
    breakdown_detail_ms: dict[str, float]
    account: tuple[AccountEntry, ...]
    overlapped_ms: dict[str, float] | None
    device_execution_percent: float | None
    kernel_launch_percent: float | None
    input_percent: float | None
    any_device: AnyDevice | None
    step_detection: StepDetection
    precision: PrecisionShares | None
    top_ops: tuple[TopOp, ...] | None
    phases_ms: dict[str, float | None] | None
    environment: RunEnvironment
    op_placement: Placement | None
    eager: Eager | None
    collectives: tuple[Collective, ...] | None
    tf_function: Functions | None
    is_training: bool | None
    bottleneck: str
    hosts_matched_by: str
    by_host: tuple[HostSummary, ...]
    quality: tuple[QualityNote, ...]
    missing: tuple[Missing, ...]
    inputs: dict[str, dict[str, int | None]]


def analyse(
    profile: ProfileData, options: OverviewPageOptions
) -> OverviewPageResult | Unavailable:
    """Compute the overview of all hosts of a run, or of one host.

    A host that could not be measured is left out with its reason. The page is
    unavailable only if no host could be measured.
    """
    measured = measured_run(profile, host=options.host, marker=options.marker)
    if isinstance(measured, Unavailable):
        return measured
    steps = tuple(
        step
        for host in measured.hosts
        if host.windows.has_steps
        for step in step_list(measured.run, host)
    )
    summary, missing = _run_summary(measured, options)
    times = StepTimes(steps, summary, missing)
    placed = op_placements(measured.run)
    account = account_entries(measured.run, measured.hosts, options.exclude_flags)
    return compose_page(measured, options, times=times, account=account, placed=placed)


def compose_page(
    measured: MeasuredRun,
    options: OverviewPageOptions,
    *,
    times: StepTimes,
    account: tuple[AccountEntry, ...],
    placed: PlacementOfRun,
) -> OverviewPageResult:
    """Combine all parts of the page."""
    run, hosts, matching = measured.run, measured.hosts, measured.matching
    by_host = _each_host(measured, options.exclude_flags)
    detection = min(
        (host.step_detection for host in by_host),
        key=lambda detected: -1 if detected.confidence is None else detected.confidence,
    )
    environment, unknown = run_environment(run)
    top_ops, no_ops = top_ops_of(run)
    missing = [
        *(
            why.missing_field(f"by_host[{name}]")
            for name, why in measured.absent.items()
        ),
        *times.missing,
        # If a host has no steps, its numbers refer to the whole recording.
        *(
            host.steps.missing_field("step_detection.source")
            for host in hosts
            if isinstance(host.steps, Unavailable)
        ),
        *unknown,
        *no_ops,
        *placed.missing,
    ]
    if account:
        missing.append(_WHY["not_named"].missing_field("account.parts"))
        missing.append(_WHY["not_divided"].missing_field("account.between_ms"))
    missing += [
        _WHY["announced"].missing_field(f"step_detection.candidates.{field}")
        for field in ("coverage", "cv", "period_ms")
        if any(getattr(candidate, field) is None for candidate in detection.candidates)
    ]
    collectives = _run_collectives(measured, options)
    phased, _ = derived_by_host(run, phases, measured.names)
    classes, _ = derived_by_host(run, host_classes, measured.names)
    page = OverviewPageResult(
        window="profile" if detection.source is None else "steps",
        compat="",
        steps=times.steps,
        **{name: getattr(times.summary, name) for name in _OF_SUMMARY},
        account=account,
        step_detection=detection,
        precision=_value_or_none(missing, "precision", precision_shares(run)),
        top_ops=top_ops,
        phases_ms=_phase_times(measured, missing),
        environment=environment,
        op_placement=placed.placement,
        eager=placed.eager,
        collectives=_value_or_none(missing, "collectives", collectives),
        tf_function=_value_or_none(missing, "tf_function", graph_functions(run)),
        # Op names show training; if ops are named after instructions, phases show it.
        is_training=any(host_phases.seen & _TRAINING for host_phases in phased.values())
        or placed.is_training,
        hosts_matched_by=matching.by,
        by_host=by_host,
        quality=matching.notes,
        missing=(),
        inputs={
            host.host: rows_read(run, host.host)
            | {
                "windows": host.windows.rows.height,
                "step_threads": len(classes[host.host].threads.driving_tracks())
                if host.host in classes
                else None,
            }
            for host in hosts
        },
    )
    return msgspec.structs.replace(page, missing=_every_missing(page, missing))


def _every_missing(
    page: OverviewPageResult, missing: Sequence[Missing]
) -> tuple[Missing, ...]:
    parts = [
        (name, getattr(page, name))
        for name in page.__struct_fields__
        if name not in ("missing", "inputs", "quality")
    ]
    known = [
        *missing,
        *missing_of_collectives(page.collectives),
        *missing_of_precision(page.precision),
    ]
    return with_every_null(parts, known, repeats=("by_host.summary", "by_host"))


#: Fields that the page has in common with the summary.
_OF_SUMMARY: Final = tuple(
    name
    for name in StepSummary.__struct_fields__
    if name in OverviewPageResult.__struct_fields__
)
_Value = TypeVar("_Value")


def _value_or_none(
    missing: list[Missing], field: str, value: _Value | Unavailable
) -> _Value | None:
    """Return the value; if it is unavailable, keep its reason and return None."""
    if isinstance(value, Unavailable):
        missing.append(value.missing_field(field))
        return None
    return value


def _each_host(
    measured: MeasuredRun, excluded_flags: tuple[str, ...]
) -> tuple[HostSummary, ...]:
    return tuple(
        HostSummary(
            host=host.host,
            step_detection=_step_detection(measured.run, host),
            summary=step_summary(measured.run, [host], excluded_flags=excluded_flags)[
                0
            ],
        )
        for host in measured.hosts
    )


def _run_summary(
    measured: MeasuredRun, options: OverviewPageOptions
) -> tuple[StepSummary, tuple[Missing, ...]]:
    matching, flags = measured.matching, options.exclude_flags
    if matching.in_lock_step:
        return step_summary(measured.run, measured.hosts, excluded_flags=flags)
    fields = (
        "step_time_ms",
        "batch_time_ms",
        "device_step_time_ms",
        "breakdown_ms",
        "overlapped_ms",
        "device_execution_percent",
        "kernel_launch_percent",
        "input_percent",
        "any_device",
    )
    judged = judged_input(measured.run, measured.hosts, flags)
    summary = StepSummary(bottleneck=bottleneck_side(judged.word))
    return summary, tuple(map(matching.why_no_means.missing_field, fields))


def _step_detection(run: ProfileData, host: HostSteps) -> StepDetection:
    chosen: dict[str, Any] = {}
    candidates: Sequence[Candidate] = ()
    if not isinstance(host.steps, Unavailable):
        candidates = host.steps.candidates
        for name in ("source", "confidence", "inferred"):
            chosen[name] = getattr(host.steps, name)
    elif not isinstance(tried := run.derived(host.host, step_candidates), Unavailable):
        candidates = [rejected.candidate for rejected in tried.found]
    entries = tuple(
        CandidateEntry(
            period_ms=None
            if candidate.period_ps is None
            else candidate.period_ps / PS_PER_MS,
            **{
                name: getattr(candidate, name)
                for name in CandidateEntry.__struct_fields__
                if name != "period_ms"
            },
        )
        for candidate in candidates
    )
    return StepDetection(**chosen, anchor=host.windows.anchor, candidates=entries)


def _phase_times(
    measured: MeasuredRun, missing: list[Missing]
) -> dict[str, float | None] | None:
    """Return each phase's mean time per step; None if no op shows the phase."""
    if not measured.matching.in_lock_step:
        missing.append(measured.matching.why_no_means.missing_field("phases_ms"))
        return None
    frames = []
    seen_phases: set[str] = set()
    for host in measured.hosts:
        host_phases = measured.run.derived(host.host, phases)
        if isinstance(host_phases, Unavailable):
            return _value_or_none(missing, "phases_ms", host_phases)
        frames.append(host.windows.rows_of_measured(host_phases.rows))
        seen_phases |= host_phases.seen
    rows = pl.concat(frames)
    times: dict[str, float | None] = {}
    for phase in PHASES:
        times[phase] = int(rows[f"{phase}_ps"].sum()) / rows.height / PS_PER_MS
        if phase not in seen_phases and phase != "unknown":
            times[phase] = None
            missing.append(_WHY["no_such_phase"].missing_field(f"phases_ms.{phase}"))
    return times


_TRAINING: Final = frozenset({"backward", "optimizer"})


def _run_collectives(
    measured: MeasuredRun, options: OverviewPageOptions
) -> tuple[Collective, ...] | Unavailable:
    window_rows = [
        host.windows.rows for host in measured.hosts if host.windows.has_steps
    ]
    return collective_kinds(
        measured.run,
        measured.names,
        step_count=max(map(len, window_rows), default=None),
        parameters=options.parameters
        if options.parameters is not None
        else described_parameters(measured.run, measured.names),
        gib_per_s=options.bandwidth_gib_per_s,
    )
