"""Launch calls of device activities, and the cost of launching.

`device_timeline`: activities in time order. `correlation`: their launch calls.
`launch_facts`: the cost of launching kernels, measured on the recorded launches.
`launch_latency` contains only the launch latency and the shortest gap. With these two
times, idle time is attributed to launches.

Definition: docs/definitions/device-work.md#launch-latency.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope._core import launches as kernels
from stepscope._core.sweeps import busy_before
from stepscope.derive.columns.arrays import (
    ACTIVITY_CODES,
    accepted_answer,
    codes,
    handles,
    ints,
    wanted_rows,
)
from stepscope.derive.columns.dense_codes import number_rows, number_values
from stepscope.frozen import Frozen
from stepscope.trace.quality import QualityNote
from stepscope.trace.reading.by_row import values_by_row
from stepscope.trace.reading.nullable import fill_nulls, is_true
from stepscope.units import PS_PER_US, duration_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.array_types import Bools, Int32s, Int64s
    from stepscope.derive.intervals.nesting import Nesting


class DeviceRows(Frozen, frozen=True):
    """All activities of one device, from all its streams.

    Attributes:
        rows: Rows of device_activity by start; equal starts are in the table's order.
    """

    device: int
    rows: Int64s
    start_ps: Int64s
    dur_ps: Int64s


class DeviceTimeline(Frozen, frozen=True):
    """All activities, grouped by device.

    Attributes:
        devices: One entry per device with activity, by ascending device number.
    """

    devices: tuple[DeviceRows, ...]
    row_count: int


def device_timeline(*, device_activity: pl.DataFrame) -> DeviceTimeline:
    """Sort activities by start within each device."""
    device = handles(device_activity, "device")
    start_ps = ints(device_activity, "start_ps")
    dur_ps = ints(device_activity, "dur_ps")
    ordinals = np.flatnonzero(np.bincount(device)).tolist() if len(device) else []
    single = len(ordinals) == 1
    devices = []
    for ordinal in ordinals:
        # If there is only one device, its columns are used without a copy.
        rows = np.arange(len(device)) if single else np.flatnonzero(device == ordinal)
        starts = start_ps if single else start_ps[rows]
        durs = dur_ps if single else dur_ps[rows]
        if (starts[1:] < starts[:-1]).any():
            # The stable sort merges the streams, each of which is already sorted.
            order = np.argsort(starts, kind="stable")
            rows = order if single else rows[order]
            starts, durs = starts[order], durs[order]
        devices.append(DeviceRows(ordinal, rows, starts, durs))
    return DeviceTimeline(tuple(devices), len(device))


#: Maximum number of entries of the lookup table of correlation ids, per launch call.
_MAX_ENTRIES_PER_CALL: Final = 8
#: The lookup table may always have this number of entries, even for few launch calls.
_MAX_SMALL_TABLE_ENTRIES: Final = 1 << 16


class Correlation(Frozen, frozen=True):
    """Device activities and their launch calls.

    Definition: docs/definitions/names-and-events.md#launch-calls-and-device-work,
    docs/definitions/device-work.md#launch-latency.

    Attributes:
        launch_of_activity: Row of launches with the activity's process and correlation
            id, int32 by row of device_activity; -1 for none.
        activity_count_of_launch: Number of activities that the launch call started,
            int32 by row of launches.
        queue_empty: Whether the device was idle from the start of the launch call until
            the activity began, so that the activity waited only for the host; by row of
            device_activity. False for an activity without a launch call.
        latency_ps: Time from the end of the launch call to the start of the activity if
            the queue was empty, else 0; int64 by row of device_activity.
        notes: Notes on activities without launch calls or that begin before their call.
    """

    activity: pl.DataFrame
    launches: pl.DataFrame
    launch_of_activity: Int32s
    activity_count_of_launch: Int32s
    queue_empty: Bools
    latency_ps: Int64s
    notes: tuple[QualityNote, ...]

    @property
    def launch_events(self) -> Int32s:
        """Row of events of each activity's launch call; -1 for none."""
        called_in = handles(self.launches, "event")
        return values_by_row(called_in, self.launch_of_activity, none=-1)


def correlation(
    *,
    device_activity: pl.DataFrame,
    launches: pl.DataFrame,
    device_timeline: DeviceTimeline,
) -> Correlation:
    """Match activities with launch calls by process and correlation id.

    One call may have many activities (a graph) or none. If activities or calls have no
    process ids, only correlation ids are compared. If several calls have the same id,
    the last row is used, as in the writer of the profile.
    """
    launch_of, counts = _match_launches(device_activity, launches)
    rows = len(launch_of)
    queue_empty, latency_ps = np.empty(rows, np.uint8), np.empty(rows, np.int64)
    early = np.zeros(2, np.int64)
    # By activity: latest end of all earlier activities on the same device.
    busy_until_ps = np.empty(device_timeline.row_count, np.int64)
    for device in device_timeline.devices:
        until = np.empty(len(device.rows), np.int64)
        accepted_answer(busy_before(device.start_ps, device.dur_ps, until))
        busy_until_ps[device.rows] = until
    accepted_answer(
        kernels.find_idle_waits(
            launch_of,
            ints(device_activity, "start_ps"),
            busy_until_ps,
            ints(launches, "start_ps"),
            ints(launches, "dur_ps"),
            queue_empty,
            latency_ps,
            early,
        )
    )
    orphans = rows - device_activity["correlation"].null_count() - int(counts.sum())
    return Correlation(
        activity=device_activity,
        launches=launches,
        launch_of_activity=launch_of,
        activity_count_of_launch=counts,
        queue_empty=queue_empty.view(np.bool_),
        latency_ps=latency_ps,
        notes=_launch_notes(orphans, early_count=int(early[0]), early_ps=int(early[1])),
    )


def _match_launches(
    activity: pl.DataFrame, launches: pl.DataFrame
) -> tuple[Int32s, Int32s]:
    launch = np.full(len(activity), -1, np.int32)
    counts = np.zeros(len(launches), np.int32)
    has_id = activity["correlation"].is_not_null()
    if not has_id.any() or not len(launches):
        return launch, counts
    ids: Int64s = fill_nulls(activity["correlation"], 0)
    called = ints(launches, "correlation")
    ids, called = _unite_process_ids(activity, launches, ids, called)
    lowest, greatest = int(called.min()), int(called.max())
    if greatest - lowest >= max(
        _MAX_SMALL_TABLE_ENTRIES, _MAX_ENTRIES_PER_CALL * len(called)
    ):
        # If ids have a wide range, they are numbered first, for a small lookup table.
        numbered = number_values(np.concatenate((ids, called)))
        ids = numbered.code[: len(ids)].astype(np.int64)
        called = numbered.code[len(ids) :].astype(np.int64)
        lowest, greatest = 0, numbered.count - 1
    table = np.full(greatest - lowest + 1, -1, np.int32)
    accepted_answer(kernels.match_launches(called, ids, lowest, table, launch, counts))
    if not has_id.all():
        # A missing id was looked up as 0, which may be the id of a call.
        without = np.flatnonzero(~has_id.to_numpy() & (launch >= 0))
        np.subtract.at(counts, launch[without], 1)
        launch[without] = -1
    return launch, counts


def _unite_process_ids(
    activity: pl.DataFrame, launches: pl.DataFrame, ids: Int64s, called: Int64s
) -> tuple[Int64s, Int64s]:
    """Make correlation ids unique by giving each process a separate range of ids.

    Ids do not change if one table has no process ids, or if all process ids are equal.
    """
    sides = (activity["process"], launches["process"])
    if any(side.null_count() == len(side) for side in sides):
        return ids, called
    processes = np.concatenate([side.fill_null(-1).to_numpy() for side in sides])
    if processes.min() == processes.max():
        return ids, called
    united = number_rows((processes, np.concatenate((ids, called)))).code
    of_activity, of_launch = np.split(united.astype(np.int64), [len(ids)])
    return of_activity, of_launch


def _launch_notes(
    unmatched: int, *, early_count: int, early_ps: int
) -> tuple[QualityNote, ...]:
    notes = []
    if unmatched:
        notes.append(
            QualityNote(
                kind="launch_missing",
                severity="info",
                count=unmatched,
                scope="device activity",
                message=f"{unmatched:,} activities have no launch call in the profile: "
                "they were launched before it began, or their calls were not kept.",
            )
        )
    if early_count:
        notes.append(
            QualityNote(
                kind="clock_skew",
                severity="warning",
                count=early_count,
                scope="device activity",
                message=f"{early_count:,} activities begin before the host call that "
                f"launched them, by up to {duration_text(early_ps)}: the clocks of "
                "host and device differ.",
                remedy="Compare times of host and device with this error in mind.",
            )
        )
    return tuple(notes)


#: Latency if it cannot be measured: TensorFlow's GPU guide says 20 to 40 µs.
ASSUMED_LATENCY_PS: Final = 20 * PS_PER_US
#: Minimum number of launches or gaps from which their typical length is computed.
MIN_TYPICAL_SAMPLES: Final = 30
#: Maximum launch latency: the time from a launch into an empty queue to its activity.
_MAX_LAUNCH_WAIT_PS: Final = 100 * PS_PER_US
#: The same maximum for the launch of a whole program, in usual launch latencies.
_MAX_PROGRAM_WAIT_LATENCIES: Final = 2
#: Assumed gap between consecutive activities on one stream if it cannot be measured.
_ASSUMED_SWITCH_PS: Final = 1 * PS_PER_US
_SWITCH_PERCENTILE: Final = 10
#: Maximum gap attributed to the switch between two activities on a stream.
_MAX_SWITCH_PS: Final = 10 * PS_PER_US
_CLOCK_PERCENTILE: Final = 99
#: Maximum share of activities on an idle device that begin before their launch call. A
#: larger share shows that the clock offset to the host is about as long as a launch.
_MAX_EARLY_SHARE: Final = 0.1
_LONG_PERCENTILE: Final = 95
#: If this share of similar calls has activity, the activity of the other calls is lost.
_MIN_CALLS_WITH_ACTIVITY: Final = 0.5
#: Name of the one activity that is recorded for all kernels of a replayed graph.
_REPLAYED_GRAPH: Final = r"^CudaGraphExec"
#: Calls that return when all activities of a device, or of a stream, have finished.
_FOR_DEVICE: Final = r"^(?:cuda|hip)DeviceSynchronize|^cuCtxSynchronize"
_FOR_STREAM: Final = r"^(?:cuda|hip|cu)StreamSynchronize"
#: Names of copies whose launch call returns after the copy ends.
_TO_PAGEABLE: Final = "DtoH (Device -> Pageable)"


class LaunchLatency(Frozen, frozen=True):
    """Usual time from a launch call to its activity, and between two activities.

    Attributes:
        latency_ps: Median time from the start of a launch call to its activity, if the
            device was idle with an empty queue. Assumed with few samples, or if the
            clock offset between host and device is too large.
        latency_samples: Number of launches in the median `latency_ps`; 0 if assumed.
        switch_ps: Maximum idle time attributed to switching between activities.
        max_wait_ps: Maximum wait from a launch call to its activity that the launch
            explains; a longer wait has another cause.
    """

    latency_ps: int
    latency_samples: int
    switch_ps: int
    max_wait_ps: int


def launch_latency(*, tracks: pl.DataFrame, correlation: Correlation) -> LaunchLatency:
    """Measure launch latency and gaps between activities."""
    latency_ps, samples = typical_ps(idle_waits_ps(correlation))
    runs_programs = (tracks["kind"] == "core").any()
    return LaunchLatency(
        latency_ps=latency_ps,
        latency_samples=samples,
        switch_ps=_switch_ps(correlation, latency_ps),
        max_wait_ps=max(_MAX_LAUNCH_WAIT_PS, _MAX_PROGRAM_WAIT_LATENCIES * latency_ps)
        if runs_programs
        else _MAX_LAUNCH_WAIT_PS,
    )


def idle_waits_ps(correlation: Correlation) -> Int64s:
    """Return the times from launch calls to their activities on an idle device.

    A negative time shows a clock offset: the activity begins before its call.
    """
    launch_of = correlation.launch_of_activity
    known = _rows_with_launch(launch_of)
    waited = ints(correlation.activity, "start_ps")[known] - values_by_row(
        ints(correlation.launches, "start_ps"), launch_of[known]
    )
    return waited[correlation.queue_empty[known] | (waited < 0)]


def typical_ps(waits_ps: Int64s) -> tuple[int, int]:
    """Return the median launch latency, and the number of launches in the median.

    If launches are too few or the clock offset is too large: 20 µs, 0 launches.
    """
    after = waits_ps[waits_ps >= 0]
    early = len(waits_ps) - len(after)
    if len(after) < MIN_TYPICAL_SAMPLES or early > _MAX_EARLY_SHARE * len(waits_ps):
        return ASSUMED_LATENCY_PS, 0
    return int(np.median(after)), len(after)


class LaunchFacts(Frozen, frozen=True):
    """The cost of launching kernels on one host.

    Attributes:
        median_call_ps: Median duration of calls that launched; None without such calls.
        median_kernel_ps: Median duration of a kernel; None without kernels.
        graph_percent: Percentage of kernel time in replayed graphs, or None.
        clock_error_ps: Smallest possible clock offset between host and device: the time
            by which activities begin before their launch call, or end after a call that
            waited for them (the larger 99th percentile); 0 without such activities.
        lost: Number of launches whose activity was dropped while recording.
        lost_ps: Estimated device time of the dropped activities: for each, the 95th
            percentile of the durations after calls of the same name.
    """

    latency_ps: int
    latency_samples: int
    median_call_ps: int | None
    median_kernel_ps: int | None
    kernels: int
    graph_percent: float | None
    clock_error_ps: int
    lost: int
    lost_ps: int


def launch_facts(
    *,
    correlation: Correlation,
    launch_latency: LaunchLatency,
    events: pl.DataFrame,
    event_types: pl.DataFrame,
    event_nesting: Nesting,
) -> LaunchFacts:
    """Measure the cost of the launches that have device activity."""
    device_activity, launches = correlation.activity, correlation.launches
    launch_of = correlation.launch_of_activity
    start_ps = ints(device_activity, "start_ps")
    dur_ps = ints(device_activity, "dur_ps")
    called_ps = ints(launches, "start_ps")
    known = _rows_with_launch(launch_of)
    waited = start_ps[known] - called_ps[launch_of[known]]
    kernel = codes(device_activity, "kind") == ACTIVITY_CODES["kernel"]
    of_kernels = dur_ps[kernel]
    early = -waited[waited < 0]
    outlasting = _outlasting_ps(
        device_activity,
        launch_of,
        called_ps + ints(launches, "dur_ps"),
        events,
        event_types,
    )
    used = correlation.activity_count_of_launch > 0
    lost = _lost_launches(launches, events, event_nesting, used)
    total = int(of_kernels.sum())
    if not total:
        graph_percent = None
    else:
        replayed = event_types["name"].str.contains(_REPLAYED_GRAPH).to_numpy()
        rows = wanted_rows(handles(device_activity, "type"), replayed)
        replayed_ps = ints(device_activity, "dur_ps")[rows[kernel[rows]]]
        graph_percent = 100 * int(replayed_ps.sum()) / total
    return LaunchFacts(
        latency_ps=launch_latency.latency_ps,
        latency_samples=launch_latency.latency_samples,
        median_call_ps=_median_or_none(ints(launches, "dur_ps")[used]),
        kernels=len(of_kernels),
        graph_percent=graph_percent,
        # This median reorders `of_kernels`, so it is computed last.
        median_kernel_ps=_median_or_none(of_kernels),
        clock_error_ps=max(
            int(np.percentile(beyond, _CLOCK_PERCENTILE)) if len(beyond) else 0
            for beyond in (early, outlasting)
        ),
        lost=len(lost),
        lost_ps=_lost_time_ps(lost, handles(launches, "type"), launch_of, dur_ps),
    )


def _rows_with_launch(launch_of: Int32s) -> NDArray[np.intp] | slice:
    """Return the rows of activities with a known launch, as a slice if all have one."""
    known = launch_of >= 0
    return slice(None) if known.all() else np.flatnonzero(known)


def _outlasting_ps(
    device_activity: pl.DataFrame,
    launch_of: Int32s,
    returned_ps: Int64s,
    events: pl.DataFrame,
    event_types: pl.DataFrame,
) -> Int64s:
    """Return by how much activities end after the return of calls that waited for them.

    A call that waits for a device waits for all earlier launches. A call that waits for
    a stream counts only if there is one stream. A call that copies to pageable host
    memory returns when the copy has finished.
    """
    # By how much copies to pageable memory end after the return of their calls.
    named = is_true(event_types["name"].str.contains(_TO_PAGEABLE, literal=True))
    late_rows = wanted_rows(handles(device_activity, "type"), named)
    late_rows = late_rows[launch_of[late_rows] >= 0]
    late_ps = (
        ints(device_activity, "start_ps")[late_rows]
        + ints(device_activity, "dur_ps")[late_rows]
    )
    late_by_ps = late_ps - returned_ps[launch_of[late_rows]]
    copied: Int64s = late_by_ps[late_by_ps > 0]
    known = _rows_with_launch(launch_of)
    if not len(launch_of[known]) or not _all_equal(handles(device_activity, "device")):
        return copied
    waits = _FOR_DEVICE
    if _all_equal(handles(device_activity, "track")):
        waits = f"{_FOR_DEVICE}|{_FOR_STREAM}"
    is_wait = event_types["name"].str.contains(waits).fill_null(value=False).to_numpy()
    rows = wanted_rows(handles(events, "type"), is_wait)
    if not len(rows):
        return copied
    begin = ints(events, "start_ps")[rows]
    end = begin + ints(events, "dur_ps")[rows]
    returned = returned_ps[launch_of[known]]
    ended = (
        ints(device_activity, "start_ps")[known]
        + ints(device_activity, "dur_ps")[known]
    )
    # Activities are usually recorded in the order of their launch calls.
    if (returned[1:] < returned[:-1]).any():
        order = np.argsort(returned, kind="stable")
        returned, ended = returned[order], ended[order]
    latest = np.maximum.accumulate(ended, out=ended)
    launched = np.searchsorted(returned, begin, side="right") - 1
    has_launch = launched >= 0
    beyond = latest[launched[has_launch]] - end[has_launch]
    return np.concatenate((copied, beyond[beyond > 0]))


def _all_equal(values: Int32s) -> bool:
    return bool(values.min() == values.max())


def _lost_launches(
    launches: pl.DataFrame, events: pl.DataFrame, nesting: Nesting, used: Bools
) -> NDArray[np.intp]:
    """Return the calls without activity whose similar calls have activity.

    Calls are similar if thread, name and innermost enclosing event are equal. (A call
    that clears 0 bytes never leads to activity, wherever it is repeated.) Calls before
    the first or after the last one with activity on their thread are not lost: the
    device's records began later, or recording stopped earlier.
    """
    if not used.any() or used.all():
        return np.empty(0, np.intp)
    track, type_ = handles(launches, "track"), handles(launches, "type")
    unused = np.zeros(int(type_.max()) + 1, np.bool_)
    unused[type_[~used]] = True
    # If all calls of one name have activity, none is lost.
    rows = np.flatnonzero(unused[type_])
    last = np.full(int(track.max()) + 1, np.iinfo(np.int64).min)
    first = np.full(len(last), np.iinfo(np.int64).max)
    called = ints(launches, "start_ps")
    np.maximum.at(last, track[used], called[used])
    np.minimum.at(first, track[used], called[used])
    track, called, used = track[rows], called[rows], used[rows]
    # Innermost event around each call; -1 for none.
    parent = nesting.parent[handles(launches[rows], "event")]
    name = handles(events, "type")[np.maximum(parent, 0)]
    place = pl.DataFrame(
        {
            "track": track,
            "type": type_[rows],
            "around": pl.Series(np.where(parent >= 0, name, -1)),
            "used": used,
        }
    )
    usual = place.select(
        pl.col("used").mean().over("track", "type", "around")
        >= _MIN_CALLS_WITH_ACTIVITY
    ).to_series()
    within = (first[track] < called) & (called < last[track])
    lost: NDArray[np.intp] = rows[~used & usual.to_numpy() & within]
    return lost


def _lost_time_ps(
    lost: NDArray[np.intp], type_: Int32s, launch_of: Int32s, dur_ps: Int64s
) -> int:
    """Estimate the device time of lost calls from other calls of the same name.

    The 95th percentile of their activities' durations is used.
    """
    if not len(lost):
        return 0
    known = np.flatnonzero(launch_of >= 0)
    led_by = type_[launch_of[known]]
    total = 0
    for kind, count in zip(*np.unique(type_[lost], return_counts=True), strict=True):
        like = dur_ps[known][led_by == kind]
        total += int(count) * int(np.percentile(like, _LONG_PERCENTILE))
    return total


def _switch_ps(correlation: Correlation, latency_ps: int) -> int:
    """Return the 10th percentile of a stream's gaps that no launch can have caused.

    The result is clipped, because longer gaps have another cause.
    """
    device_activity, launches = correlation.activity, correlation.launches
    out = np.empty(len(device_activity), np.int64)
    count = accepted_answer(
        kernels.find_unlaunched_gaps(
            handles(device_activity, "track"),
            ints(device_activity, "start_ps"),
            ints(device_activity, "dur_ps"),
            correlation.launch_of_activity,
            ints(launches, "start_ps"),
            ints(launches, "dur_ps"),
            2 * latency_ps,
            out,
        )
    )
    if count < MIN_TYPICAL_SAMPLES:
        return _ASSUMED_SWITCH_PS
    usual = int(np.percentile(out[:count], _SWITCH_PERCENTILE, overwrite_input=True))
    return min(usual, _MAX_SWITCH_PS)


def _median_or_none(values: Int64s) -> int | None:
    return int(np.median(values, overwrite_input=True)) if len(values) else None
