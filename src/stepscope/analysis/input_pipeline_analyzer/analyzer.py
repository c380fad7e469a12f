"""`input_pipeline_analyzer`: does the program wait for its input, and for what?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Final

import msgspec
import polars as pl

from stepscope.analysis.input_pipeline_analyzer.device_side import (
    DeviceSide,
    device_side,
    reasons_of_share,
)
from stepscope.analysis.input_pipeline_analyzer.host_side import (
    INPUT_OPS,
    WORKER_FUNCTIONS,
    HostSide,
    host_side,
    waiting_us,
    worker_side,
)
from stepscope.analysis.input_pipeline_analyzer.next_steps import (
    NextStep,
    next_steps,
    verdict_text,
)
from stepscope.analysis.input_pipeline_analyzer.steps import (
    DEVICE_ROWS,
    BetweenSteps,
    ConsumerWait,
    InputStep,
    between_steps,
)
from stepscope.analysis.results.result import ToolResult
from stepscope.analysis.results.statistics import Statistics
from stepscope.analysis.results.tables import distinct_entries, missing_fields
from stepscope.analysis.results.tool import host_tables, rows_read
from stepscope.analysis.steps.measured_hosts import (
    MeasuredRun,
    measured_rows,
    measured_run,
)
from stepscope.derive.input_pipeline.calls import pipeline_calls
from stepscope.derive.input_pipeline.input_ops import WAITING_FOR_WORKERS, input_ops
from stepscope.derive.input_pipeline.worker_functions import worker_functions
from stepscope.derive.step_time.input_between_steps import input_between_steps
from stepscope.derive.verdicts.input_verdict import INPUT_VERDICT_NEEDS
from stepscope.trace.quality import QualityNote
from stepscope.unavailable import Missing, Unavailable
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.analysis.options import InputPipelineOptions
    from stepscope.derive.profile_data import ProfileData

#: Derived data of each host that the tool reads with its default options.
NEEDS: Final = (
    *(*INPUT_VERDICT_NEEDS, input_between_steps, input_ops, pipeline_calls),
    worker_functions,
)


class InputPipelineResult(ToolResult, frozen=True, kw_only=True):
    """How input-bound a run is and where its input time goes; `missing` explains nulls.

    Attributes:
        verdict: `not_input_bound`, `moderately_input_bound`, `highly_input_bound` or
            `unknown`; decided in the same way as the check `input.bound`.
        text: The verdict in words.
        window: `steps`, or `profile` if shares refer to the whole recording (no steps).
        compat: Producer whose rules the numbers follow; empty for stepscope's rules.
        compat_verdict: Verdict on the page of the producer in `compat`; null if the
            numbers follow stepscope's own rules.
        input_percent: Share of the device time spent waiting for input or transferring
            it: a ratio of sums over the counted windows and their devices. A lower
            bound if a part could not be measured; null if nothing is known.
        input_at_most_percent: Upper bound of the share of input: it includes time of
            unknown cause that may be input; null if unknown.
        input_wait_percent: Share of the device time in which the device is idle and
            waits for input. If no batch fetch was recorded, idle time before the copy
            of a batch is included. Null if unknown.
        input_transfer_percent: Share of the device time in input transfers that do not
            overlap with other device work; null if unknown.
        largest_category: Host-side input category with the most time; null if unknown.
        bottleneck_iterator: Slowest stage on the critical path of the input pipeline;
            null if no pipeline was recorded.
        step_time_ms: Wall time of a step, until the next step begins.
        device_step_time_ms: Time from the first to the last device activity of a step;
            null without device activity.
        input_percent_stats: Statistics of the share of input in each step.
        steps: Every step of every host, with the time of its input.
        devices: One row per host and device, with the device's shares of input.
        host_breakdown_us: Host-side category → self time of its ops, summed over
            threads. The time is that of the work, not a delay of the steps.
        host_breakdown_percent: Host-side category → share of all input ops' self time.
        consumer_wait: How long the program waited for batches; null if unknown.
        between_steps: Waiting for input between the markers of the steps; null if no
            step markers were recorded.
        input_ops: One row per host and input op.
        worker_functions: What worker processes did during steps (functions or other
            states), by host; empty if the workers were not sampled.
        next_steps: Advice by category, first on what steps wait for, then by time.
        hosts_matched_by: How the steps of several hosts were matched: `step_num`,
            `time` or `none`; `one_host` for a single host.
        by_host: Verdict and shares of each host.
        quality: Doubts that follow from comparing all hosts.
        missing: Null fields with their reasons.
        inputs: Host → number of rows read from each table.
    """

    verdict: str
    text: str
    window: str
    compat: str
    compat_verdict: str | None
    input_percent: float | None
    input_at_most_percent: float | None
    input_wait_percent: float | None
    input_transfer_percent: float | None
    largest_category: str | None
    bottleneck_iterator: str | None
    step_time_ms: Statistics
    device_step_time_ms: Statistics | None
    input_percent_stats: Statistics
    steps: tuple[InputStep, ...]
    devices: Annotated[pl.DataFrame, DEVICE_ROWS]
    host_breakdown_us: dict[str, float | None]
    host_breakdown_percent: dict[str, float | None]
    consumer_wait: ConsumerWait | None
    between_steps: BetweenSteps | None
    input_ops: Annotated[pl.DataFrame, INPUT_OPS]
    worker_functions: Annotated[pl.DataFrame, WORKER_FUNCTIONS]
    next_steps: tuple[NextStep, ...]
    hosts_matched_by: str
    by_host: tuple[HostInput, ...]
    quality: tuple[QualityNote, ...]
    missing: tuple[Missing, ...]
    inputs: dict[str, dict[str, int | None]]


class HostInput(msgspec.Struct, frozen=True, kw_only=True):
    """Verdict and shares of one host; shares are defined as for all hosts.

    Attributes:
        host: Name of the host.
        verdict: `not_input_bound`, `moderately_input_bound`, `highly_input_bound` or
            `unknown`; as the check `input.bound` would decide for this host alone.
        step_count: Number of steps in the shares; 0 if there are no steps, so that
            shares refer to the whole recording.
    """

    DEFINED_BY: ClassVar = InputPipelineResult

    host: str
    verdict: str
    input_percent: float | None
    input_at_most_percent: float | None = None
    input_wait_percent: float | None = None
    input_transfer_percent: float | None = None
    largest_category: str | None
    step_count: int


def analyse(
    profile: ProfileData, options: InputPipelineOptions
) -> InputPipelineResult | Unavailable:
    """Measure how input-bound the hosts of a run are.

    A host without any recorded input is left out with its reason. The tool is
    unavailable only if no host has recorded input.

    Definition: docs/tools/input_pipeline_analyzer.md.
    """
    measured = measured_run(profile, host=options.host, marker=options.marker)
    if isinstance(measured, Unavailable):
        return measured
    steps = device_side(measured, excluded_flags=options.exclude_flags)
    work = host_side(measured.run)
    by_host = []
    for host in measured.hosts:
        counted = measured_rows(host, options.exclude_flags)["window"].n_unique()
        by_host.append(
            HostInput(
                host=host.host,
                verdict=steps.decided_by_host[host.host].word,
                **steps.shares[host.host].percents(),
                largest_category=work.largest_by_host.get(host.host),
                step_count=counted if host.windows.has_steps else 0,
            )
        )
    return combine_sides(measured, steps, work, tuple(by_host))


def combine_sides(
    measured: MeasuredRun,
    steps: DeviceSide,
    work: HostSide,
    by_host: tuple[HostInput, ...],
) -> InputPipelineResult | Unavailable:
    """Combine device side and host side; unavailable if neither shows any input."""
    run, hosts = measured.run, measured.hosts
    lacks = [host.account.missing for host in hosts]
    if not work.calls and all({"input", "copy_in"} <= lack.keys() for lack in lacks):
        return lacks[0]["input"]
    between = between_steps(run, hosts)
    workers = worker_side(run)
    has_steps = all(host.windows.has_steps for host in hosts)
    known = None if isinstance(between, Unavailable) else between
    sending = work.input_ops.filter(pl.col("category") == "enqueue")
    text = verdict_text(
        steps.verdict,
        steps.input_percent,
        steps.input_at_most_percent,
        has_steps=has_steps,
        decided=steps.decided,
    )
    times = [
        table.filter(pl.col("kind") == "h2d")["dur_ps"]
        for table in host_tables(run, "device_activity")
    ]
    count = sum(map(len, times))
    return InputPipelineResult(
        **{name: getattr(steps, name) for name in _OF_STEPS},
        text=text,
        window="steps" if has_steps else "profile",
        compat="",
        compat_verdict=None,
        **{name: getattr(work, name) for name in _OF_WORK},
        between_steps=known,
        worker_functions=workers.functions,
        next_steps=next_steps(
            work.host_breakdown_us | {WAITING_FOR_WORKERS: waiting_us(work.input_ops)},
            leading=None if steps.decided is None else steps.decided.leading,
            outside_markers=known is not None and known.outside_markers,
            sends=int(sending["count"].sum()),
            copy_us=sum(int(durations.sum()) for durations in times) / count / PS_PER_US
            if count
            else 0.0,
            slowest=work.bottleneck_iterator,
            workers_idle=workers.idle,
            workers_in=workers.most,
        ),
        hosts_matched_by=measured.matching.by,
        by_host=by_host,
        quality=measured.matching.notes,
        missing=(
            *_missing_entries(measured, steps, work, between, by_host),
            *workers.missing,
        ),
        inputs={
            host.host: rows_read(run, host.host, _TABLES_READ)
            | {
                "windows": host.windows.rows.height,
                "input_op_calls": work.calls.get(host.host),
            }
            for host in hosts
        },
    )


def _missing_entries(
    measured: MeasuredRun,
    steps: DeviceSide,
    work: HostSide,
    between: BetweenSteps | Unavailable,
    by_host: Sequence[HostInput],
) -> tuple[Missing, ...]:
    missing = [*steps.missing, *work.missing]
    missing += [
        why.missing_field(f"by_host[{host}]") for host, why in measured.absent.items()
    ]
    if isinstance(between, Unavailable):
        missing.append(between.missing_field("between_steps"))
    missing += [
        host.steps.missing_field("steps")
        for host in measured.hosts
        if isinstance(host.steps, Unavailable)
    ]
    for host_input in by_host:
        reasons = {"largest_category": work.why_no_category}
        if host_input.host in steps.shares:
            reasons |= reasons_of_share(steps.shares[host_input.host])
        missing += missing_fields(host_input, reasons, prefix="by_host.")
    return distinct_entries(missing)


_TABLES_READ: Final = ("tracks", "events", "iterators", "device_activity", "launches")
#: Fields of the result that `DeviceSide` provides, and those that `HostSide` provides.
_OF_STEPS, _OF_WORK = (
    [
        name
        for name in InputPipelineResult.__struct_fields__
        if name in side.__struct_fields__ and name != "missing"
    ]
    for side in (DeviceSide, HostSide)
)
