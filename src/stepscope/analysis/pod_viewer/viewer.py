"""`pod_viewer`: every step on every worker, the slowest worker, and waiting times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import polars as pl

from stepscope.analysis.pod_viewer.comparison import (
    SlowestWorker,
    StepComparison,
    compare_steps,
    slowest_worker,
)
from stepscope.analysis.pod_viewer.gaps import pod_gaps, result_parts
from stepscope.analysis.pod_viewer.result import (
    Category,
    Clock,
    PodStep,
    PodViewerResult,
    step_workers,
    worker_summaries,
)
from stepscope.analysis.pod_viewer.rows import (
    WorkerCollectives,
    joined_steps,
    worker_collectives,
    worker_rows,
)
from stepscope.analysis.results.tables import with_every_null
from stepscope.analysis.results.tool import host_tables, rows_read
from stepscope.analysis.steps.measured_hosts import measured_run
from stepscope.analysis.steps.rows import category_columns, why_no_owner
from stepscope.derive.account.time_by_cause import account
from stepscope.derive.account.topics import idle_topics
from stepscope.derive.collectives.calls import collective_calls
from stepscope.derive.columns.arrays import handles
from stepscope.derive.columns.dense_codes import number_values
from stepscope.derive.memory.replay import unrecorded_devices
from stepscope.derive.step_time.owners import CATEGORIES, OWNERS
from stepscope.derive.step_windows.device_spans import first_compute
from stepscope.trace.quality import QualityNote
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_US, in_unit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepscope.analysis.options import PodViewerOptions
    from stepscope.analysis.steps.measured_hosts import StepMatching
    from stepscope.analysis.steps.rows import HostSteps
    from stepscope.derive.profile_data import ProfileData

#: Derived data of each host that the tool reads with its default options.
NEEDS: Final = (
    *(account, collective_calls, first_compute, idle_topics, unrecorded_devices),
)

#: Category → its number in TensorBoard's pod viewer.
#: Definition: docs/tools/pod_viewer.md#how-each-number-is-defined.
_INTERCHANGE: Final = {
    "device_compute_16": 1,
    "device_compute_32": 1,
    "device_to_device": 2,
    "device_collectives": 3,
    "host_compute": 4,
    "kernel_launch": 5,
    "input": 6,
    "output": 7,
    "compilation": 8,
    "other": 9,
}


#: Unchecked clock alignments, with which a late start may be a clock error.
_UNCHECKED: Final = frozenset({"recorded", "steps", "none"})


def analyse(
    profile: ProfileData, options: PodViewerOptions
) -> PodViewerResult | Unavailable:
    """Compare the steps of all workers.

    Definition: docs/tools/pod_viewer.md#how-each-number-is-defined.
    """
    for host in options.hosts:
        profile.trace(host)
    measured = measured_run(profile)
    if isinstance(measured, Unavailable):
        return measured
    hosts, matching = measured.hosts, measured.matching
    slots = joined_steps(hosts, matching)
    collectives = worker_collectives(profile, hosts, slots)
    rows = worker_rows(profile, hosts, slots, collectives)
    shown = [host for host in hosts if not options.hosts or host.host in options.hosts]
    if not shown:
        return measured.absent[options.hosts[0]]
    by_name = {host.host: host for host in hosts}
    any_device = pl.concat(
        host.any_device.select(
            "host", "window", pl.col("device_busy_ps").alias("united_ps")
        )
        for host in hosts
    )
    compared = compare_steps(rows, collectives.clocks, any_device)
    incomplete = _why_incomplete(profile, hosts)
    if incomplete is not None:
        compared = {
            slot: comparison.withhold_work() for slot, comparison in compared.items()
        }
    steps = _pod_steps(rows, by_name, compared, len(hosts), options.hosts)
    slowest = incomplete or _slowest_worker(
        rows, hosts, compared, collectives, matching
    )
    matched = collectives.calls["instance"] >= 0
    counts = [table["processes"][0] for table in host_tables(profile, "environment")]
    processes = max((count for count in counts if count is not None), default=None)
    display_names = {owner.category: owner.display for owner in OWNERS}
    result = PodViewerResult(
        workers=worker_summaries(rows, shown, compared),
        steps=steps,
        slowest=None if isinstance(slowest, Unavailable) else slowest,
        imbalance=_median_of_steps(steps, "imbalance"),
        start_skew_ms=_median_of_steps(steps, "start_skew_ms"),
        hosts_matched_by=matching.by,
        in_lock_step=matching.in_lock_step,
        processes=processes,
        clocks=tuple(
            Clock(
                host=clock.host,
                source=clock.source,
                shift_us=in_unit(clock.shift_ps, PS_PER_US),
                offset_us=in_unit(clock.offset_ps, PS_PER_US),
                doubt_us=in_unit(clock.doubt_ps, PS_PER_US),
                bound_us=in_unit(clock.bound_ps, PS_PER_US),
                samples=clock.samples,
            )
            for clock in collectives.clocks.values()
        ),
        collectives_matched=int(matched.sum()),
        collectives_unmatched=int((~matched).sum()),
        unused_devices=_unused_devices(profile, shown, rows),
        categories=tuple(
            Category(id=_INTERCHANGE[name], category=name, name=display_names[name])
            for name in CATEGORIES
        ),
        quality=(*matching.notes, *_absent_processes(profile, processes)),
        missing=(),
        inputs={host.host: rows_read(profile, host.host) for host in shown},
    )
    known = pod_gaps(
        result, hosts=shown, absent=measured.absent, slowest=slowest, why=collectives
    )
    parts = result_parts(result)
    return msgspec.structs.replace(result, missing=with_every_null(parts, known))


def _pod_steps(
    rows: pl.DataFrame,
    hosts: Mapping[str, HostSteps],
    compared: Mapping[int, StepComparison],
    host_count: int,
    wanted: tuple[str, ...],
) -> tuple[PodStep, ...]:
    workers = step_workers(rows, hosts)
    pod_steps = []
    listed = rows.group_by("slot", maintain_order=True).agg(
        pl.col("step", "name", "shared").first(),
        pl.col("counted").all(),
        pl.col("host").unique(maintain_order=True),
    )
    # This loop runs once per step, not per event: a page shows every step.
    for slot, step, name, shared, counted, names in listed.rows():
        if wanted and not set(wanted) & set(names):
            continue
        pod_steps.append(
            PodStep(
                step=step,
                name=name,
                counted=counted,
                complete=not shared or len(names) == host_count,
                hosts=tuple(names),
                workers=tuple(
                    worker
                    for worker in workers[slot]
                    if not wanted or worker.host in wanted
                ),
                **{
                    field: getattr(compared[slot], field)
                    for field in StepComparison.__struct_fields__
                },
            )
        )
    return tuple(pod_steps)


def _slowest_worker(
    rows: pl.DataFrame,
    hosts: Sequence[HostSteps],
    compared: Mapping[int, StepComparison],
    collectives: WorkerCollectives,
    matching: StepMatching,
) -> SlowestWorker | Unavailable:
    if not matching.in_lock_step:
        return Unavailable(
            code="NO_SAMPLES",
            reason=matching.notes[0].message,
            remedy="Look at one host at a time, because the hosts do not run the same "
            "steps.",
        )
    several_workers = rows.filter(pl.col("counted").all().over("slot"))
    several_workers = several_workers.filter((pl.len() > 1).over("slot"))
    slots = several_workers["slot"].unique(maintain_order=True).to_list()
    categories = category_columns(several_workers, why_no_owner(hosts))
    sources = {clock.source for clock in collectives.clocks.values()}
    return slowest_worker(
        # Causes (owners) named like a category are replaced by the category.
        several_workers.drop(categories.columns, strict=False).hstack(categories),
        [(compared[slot].slowest, compared[slot].slowest_by) for slot in slots],
        [name.removesuffix("_ps") for name in categories.columns],
        on_one_clock=not sources & _UNCHECKED,
    )


def _why_incomplete(run: ProfileData, hosts: Sequence[HostSteps]) -> Unavailable | None:
    """Return why devices cannot be compared (some were not recorded), or None."""
    for host in hosts:
        unrecorded = run.derived(host.host, unrecorded_devices)
        if not isinstance(unrecorded, Unavailable) and unrecorded.silent:
            return Unavailable(
                code="LOST_EVENTS",
                reason=next(unrecorded.quality_notes()).message,
                remedy="Record again, for a shorter time.",
            )
    return None


def _median_of_steps(steps: Sequence[PodStep], field: str) -> float | None:
    values = pl.Series(
        [getattr(step, field) for step in steps if step.counted], dtype=pl.Float64
    )
    middle = values.median()
    return middle if isinstance(middle, float) else None


def _absent_processes(run: ProfileData, processes: int | None) -> list[QualityNote]:
    """Return a warning if the files of some processes of the run are missing."""
    if processes is None or processes <= len(run.hosts):
        return []
    return [
        QualityNote(
            kind="processes_absent",
            severity="warning",
            scope="run",
            message=f"The profile contains {len(run.hosts)} of the {processes} "
            "processes of the run. Waiting for a missing process counts as transfer, "
            "and a missing process may be slower than every process that is shown.",
            count=processes - len(run.hosts),
            remedy="Add the files of all processes.",
        )
    ]


def _unused_devices(
    run: ProfileData, hosts: Sequence[HostSteps], rows: pl.DataFrame
) -> dict[str, tuple[int, ...]]:
    shown = set(rows.select("host", "device").rows())
    unused: dict[str, tuple[int, ...]] = {}
    for host in hosts:
        devices = run.table(host.host, "devices")
        if isinstance(devices, Unavailable):
            continue
        # A device that works only outside the steps has no row in `rows`.
        activity = run.table(host.host, "device_activity")
        worked: set[int] = set()
        if not isinstance(activity, Unavailable):
            device = handles(activity, "device")
            worked.update(device[number_values(device).first].tolist())
        idle = tuple(
            ordinal
            for ordinal in devices["device"].to_list()
            if ordinal not in worked and (host.host, ordinal) not in shown
        )
        unused |= {host.host: idle} if idle else {}
    return unused
