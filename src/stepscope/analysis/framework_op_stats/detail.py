"""Details of an op or a scope: its calls, their work, share of the step, and cause."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import numpy as np
import polars as pl

from stepscope.analysis.framework_op_stats.calls import (
    CALL_ROWS,
    COPY_ROWS,
    KERNEL_ROWS,
    LAUNCH_ROWS,
    call_rows,
    copy_rows,
    kernel_rows,
    launch_rows,
)
from stepscope.analysis.framework_op_stats.cause import (
    Cause,
    device_time_parts,
    dominant_cause,
    kernel_fill,
)
from stepscope.analysis.framework_op_stats.result import FrameworkOpStatsResult
from stepscope.analysis.framework_op_stats.shapes import (
    SHAPE_ROWS,
    call_shapes,
    shape_rows,
)
from stepscope.analysis.framework_op_stats.work import OpWork, op_work
from stepscope.analysis.ops.rows import NO_COSTS, without_steps
from stepscope.analysis.results.statistics import percent_of
from stepscope.analysis.results.tables import (
    declared_reasons,
    missing_columns,
    missing_fields,
    package_reasons,
)
from stepscope.analysis.results.tool import derived_by_host
from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.device.correlation import device_timeline
from stepscope.derive.device.kernels import kernels
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.step_windows.windows import windows
from stepscope.remedies import Remedy
from stepscope.trace.tables import DEVICES
from stepscope.unavailable import Missing, Unavailable, require_available

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.analysis.ops.selection import OpSelection
    from stepscope.derive.profile_data import ProfileData
    from stepscope.derive.step_windows.windows import Windows

_WHY: Final = package_reasons("framework_op_stats")

_OF_KERNELS: Final = declared_reasons(
    KERNEL_ROWS,
    dict.fromkeys(
        (
            *("grid_dim", "block_dim", "blocks", "multiprocessors", "registers"),
            *("shared_memory_bytes", "occupancy_percent", "occupancy_limiter"),
        ),
        ("NO_KERNEL_DETAILS", Remedy.OTHER_DEVICE_TRACER),
    ),
)
_OF_COPIES: Final = declared_reasons(
    COPY_ROWS,
    dict.fromkeys(("bytes", "gib_per_s"), ("NOT_RECORDED", Remedy.OTHER_DEVICE_TRACER)),
)
_OF_LAUNCHES: Final = declared_reasons(
    LAUNCH_ROWS,
    {
        "median_wait_us": (
            "NO_SAMPLES",
            "Nothing to do: each launch was queued behind other work.",
        )
    },
)


class StepShare(msgspec.Struct, frozen=True, kw_only=True):
    """Share of the step that the op takes; in complete windows if there are any.

    Attributes:
        steps: Number of steps in the shares, over all hosts; null without steps.
        device_percent: Share of the step in which work of the op's calls ran on the
            device, averaged over the devices with activity; overlapping work counts
            once. Null if unknown.
        exposed_percent: Share of the step in which only work of the op ran on the
            device: what the step could save if the op took no time. Null if unknown.
        host_percent: Share of the step in which at least one thread was inside a call
            of the op, averaged over the hosts; null if unknown.
    """

    steps: int | None
    device_percent: float | None
    exposed_percent: float | None
    host_percent: float | None


class OpDetailResult(FrameworkOpStatsResult, frozen=True, kw_only=True):
    """The rows of the selected ops, and their calls with all work inside the calls.

    The percentages of the rows, and the distributions, refer to all ops.

    Attributes:
        selected: The selection as text: `op NAME` or `scope PREFIX`.
        call_count: Number of calls, listed or not; null if no calls were recorded.
        calls: Calls of the selected ops, by time on devices, then on hosts.
        kernels: Kernels and collectives that the calls launched; null if no device
            could be analysed.
        copies: Copies and memsets that the calls launched; null if unknown.
        launches: Launch calls of the driver made inside the calls; null if unknown.
        shapes: Calls by op and operand shapes; null if no shape was recorded.
        share: Share of the step that the selected ops take.
        cause: Dominant part of the op's device time: transfer, utilisation or compute.
    """

    selected: str
    call_count: int | None
    calls: Annotated[pl.DataFrame, CALL_ROWS]
    kernels: Annotated[pl.DataFrame, KERNEL_ROWS] | None
    copies: Annotated[pl.DataFrame, COPY_ROWS] | None
    launches: Annotated[pl.DataFrame, LAUNCH_ROWS] | None
    shapes: Annotated[pl.DataFrame, SHAPE_ROWS] | None
    share: StepShare
    cause: Cause


def op_detail(
    profile: ProfileData,
    stats: FrameworkOpStatsResult,
    selection: OpSelection,
    *,
    most_calls: int | None,
) -> OpDetailResult:
    """Compute the details of the selected ops on all hosts.

    Args:
        selection: Ops that exist in the profile.
        most_calls: Maximum number of calls to list; None lists all.
    """
    works = [op_work(profile, host, selection) for host in profile.hosts]
    shapes = [call_shapes(profile, work) for work in works]
    with_device = [work for work in works if "device_activity" not in work.absent]
    with_launches = [work for work in works if "launches" not in work.absent]
    fills = {}
    for work in with_device:
        launched = require_available(profile.derived(work.host, kernels))
        devices = profile.table(work.host, "devices")
        if isinstance(devices, Unavailable):
            devices = pl.DataFrame(schema=DEVICES.dtypes())
        fills[work.host] = kernel_fill(launched.rows, devices)
    parts = [
        device_time_parts(profile, work, fills[work.host])
        for work in with_device
        if len(work.activity)
    ]
    no_device = _first_reason(works, "device_activity")
    cause, missing = dominant_cause(parts, None if with_device else no_device)
    share, of_share = _step_share(profile, works, with_device)
    shaped = shape_rows(profile, works, shapes)
    detail = OpDetailResult(
        **msgspec.structs.asdict(stats),
        selected=selection.words,
        # The selected ops did run: if no call is known, calls were not recorded.
        call_count=sum(len(work.calls) for work in works) or None,
        calls=call_rows(profile, works, shapes, max_calls=most_calls),
        kernels=kernel_rows(profile, with_device, fills) if with_device else None,
        copies=copy_rows(profile, with_device) if with_device else None,
        launches=launch_rows(profile, with_launches) if with_launches else None,
        shapes=shaped if len(shaped) else None,
        share=share,
        cause=cause,
    )
    more = (*missing, *of_share, *_missing_entries(profile, detail, works))
    return msgspec.structs.replace(detail, missing=(*stats.missing, *more))


def _first_reason(works: Sequence[OpWork], part: str) -> Unavailable | None:
    return next((work.absent[part] for work in works if part in work.absent), None)


def _step_share(
    profile: ProfileData, works: Sequence[OpWork], with_device: Sequence[OpWork]
) -> tuple[StepShare, list[Missing]]:
    shares: dict[str, Any] = dict.fromkeys(StepShare.__struct_fields__)
    by_host, _ = derived_by_host(profile, windows)
    stepped = {host: found for host, found in by_host.items() if found.has_steps}
    if not stepped:
        why = without_steps(profile)
        return StepShare(**shares), [why.missing_field("share")]
    shares["steps"] = sum(len(found.measured) for found in stepped.values())
    missing = []
    devices = [work for work in with_device if work.host in stepped]
    times = [_device_share(profile, work, stepped[work.host]) for work in devices]
    steps_ps, busy, exposed = map(sum, zip((0, 0, 0), *times, strict=True))
    if steps_ps:
        shares["device_percent"] = 100.0 * busy / steps_ps
        shares["exposed_percent"] = 100.0 * exposed / steps_ps
    else:
        why = _first_reason(works, "device_activity") or without_steps(profile)
        names = ("device_percent", "exposed_percent")
        missing += [why.missing_field(f"share.{name}") for name in names]
    steps_ps, inside = 0, 0
    for work in works:
        if not work.executions or work.host not in stepped:
            continue
        steps = _measured_spans(stepped[work.host])
        calls = work.calls.head(work.executions)
        spans = Spans.from_events(ints(calls, "start_ps"), ints(calls, "host_ps"))
        inside += (spans & steps).length_ps
        steps_ps += steps.length_ps
    shares["host_percent"] = percent_of(inside, steps_ps)
    if shares["host_percent"] is None:
        why = _first_reason(works, "host_op_events") or _WHY["no_host_event"]
        missing.append(why.missing_field("share.host_percent"))
    return StepShare(**shares), missing


def _device_share(
    profile: ProfileData, work: OpWork, windows: Windows
) -> tuple[int, int, int]:
    """Return the time of the steps, with the op, and with only the op."""
    steps = _measured_spans(windows)
    activity = require_available(profile.table(work.host, "device_activity"))
    chosen = np.zeros(len(activity), np.bool_)
    chosen[work.activity] = True
    device = handles(activity, "device")
    start_ps, dur_ps = ints(activity, "start_ps"), ints(activity, "dur_ps")
    busy, exposed = 0, 0
    timeline = require_available(profile.derived(work.host, device_timeline))
    for timeline_device in timeline.devices:
        on_device = device == timeline_device.device
        of_op = on_device & chosen
        inside = Spans.from_events(start_ps[of_op], dur_ps[of_op]) & steps
        of_other_ops = on_device & ~chosen
        busy += inside.length_ps
        exposed += (
            inside - Spans.from_events(start_ps[of_other_ops], dur_ps[of_other_ops])
        ).length_ps
    return steps.length_ps * len(timeline.devices), busy, exposed


def _measured_spans(windows: Windows) -> Spans:
    rows = windows.measured
    start_ps = ints(rows, "start_ps")
    return Spans.from_events(start_ps, ints(rows, "end_ps") - start_ps)


def _missing_entries(
    profile: ProfileData, detail: OpDetailResult, works: Sequence[OpWork]
) -> list[Missing]:
    no_device = _first_reason(works, "device_activity") or _WHY["no_host_event"]
    no_launches = _first_reason(works, "launches") or no_device
    no_event = _first_reason(works, "host_op_events") or _WHY["no_host_event"]
    missing = []
    if detail.call_count is None:
        missing += [no_event.missing_field(name) for name in ("call_count", "calls")]
    sides = {"host_us": no_event, "device_us": no_device}
    sides |= dict.fromkeys(("measured_flop_rate", "measured_memory_bw"), NO_COSTS)
    tables = {
        "kernels": (no_device, _OF_KERNELS),
        "copies": (no_device, _OF_COPIES),
        "launches": (no_launches, _OF_LAUNCHES),
        "shapes": (_WHY["no_shapes"], sides),
    }
    missing += missing_fields(detail, {name: why for name, (why, _) in tables.items()})
    on_device = ("device_us", "kernels", "collectives", "copies", "devices")
    reasons = dict.fromkeys(on_device, no_device)
    no_bytes = _OF_COPIES["bytes"]
    reasons["copy_bytes"] = no_bytes if detail.copies is not None else no_device
    reasons["waiting_us"] = no_launches
    reasons["launches"] = no_launches
    reasons |= dict.fromkeys(("host_us", "host_self_us"), no_event)
    reasons["shape"] = _WHY["no_shapes"]
    with_steps = detail.share.steps is not None
    reasons["step"] = _WHY["no_step"] if with_steps else without_steps(profile)
    missing += missing_columns(detail.calls, reasons, prefix="calls.")
    for name in ("shapes", "kernels", "copies", "launches"):
        rows = getattr(detail, name)
        if rows is not None:
            missing += missing_columns(rows, tables[name][1], prefix=f"{name}.")
    return missing
