"""`launch_facts`: what launching work costs here, measured on the launches themselves.

The latency and the shortest gap decide which idle time may be blamed on launches; only
they are needed to divide it, so they are a derivation of their own.

Definition: docs/definitions/device-work.md#launch-latency.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope._core import launches as kernels
from stepscope.derive.columns.arrays import (
    ACTIVITY_CODES,
    accepted_answer,
    codes,
    handles,
    ints,
    wanted_rows,
)
from stepscope.frozen import Frozen
from stepscope.trace.reading.by_row import values_by_row
from stepscope.trace.reading.nullable import is_true
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.array_types import Bools, Int32s, Int64s
    from stepscope.derive.device.correlation import Correlation
    from stepscope.derive.intervals.nesting import Nesting

#: The lower end of the 20 to 40 µs that the TensorFlow GPU guide names.
ASSUMED_LATENCY_PS: Final = 20 * PS_PER_US
#: Fewer launches than this have no typical latency.
ENOUGH_SAMPLES: Final = 30
#: A launch into an empty queue explains at most this much of the wait for its activity.
_MOST_PS: Final = 100 * PS_PER_US
#: To queue a whole program takes longer: this many usual latencies.
_OF_PROGRAMS: Final = 2
#: Back-to-back work on one stream is taken to be at least this close.
_ASSUMED_SWITCH_PS: Final = 1 * PS_PER_US
_SWITCH_QUANTILE: Final = 10
#: A longer gap is none that a device cannot avoid, however usual it is in a recording.
_LONGEST_SWITCH_PS: Final = 10 * PS_PER_US
_CLOCK_QUANTILE: Final = 99
#: Where a larger part of the work on an idle device begins before its call, the clocks
#: of host and device differ by about as much as a launch takes.
_MOST_EARLY: Final = 0.1
_LONG_QUANTILE: Final = 95
#: A place whose calls lead to activity at least this often usually has one.
_USUAL: Final = 0.5
#: One row for all the kernels that a replayed graph ran.
_REPLAYED_GRAPH: Final = r"^CudaGraphExec"
#: Calls that return when all work of a device, or of a stream, is done.
_FOR_DEVICE: Final = r"^(?:cuda|hip)DeviceSynchronize|^cuCtxSynchronize"
_FOR_STREAM: Final = r"^(?:cuda|hip|cu)StreamSynchronize"
#: What copies are called that end before their call returns.
_TO_PAGEABLE: Final = "DtoH (Device -> Pageable)"


class LaunchLatency(Frozen, frozen=True):
    """How long work usually takes from its launch to the device, and between works.

    Attributes:
        latency_ps: Median time from the begin of a launch call to its activity, where
            the device was idle with nothing queued; assumed where samples are few, or
            tell of the clocks of host and device rather than of launches.
        latency_samples: Number of launches that `latency_ps` is the median of; 0 where
            it is assumed.
        switch_ps: Longest idle time that is put down to the device itself, which
            switches between activities.
        most_ps: Longest wait for an activity after its call that its launch explains; a
            longer one has another cause.
    """

    latency_ps: int
    latency_samples: int
    switch_ps: int
    most_ps: int


def launch_latency(*, tracks: pl.DataFrame, correlation: Correlation) -> LaunchLatency:
    """Measure the launches that some device activity came from."""
    latency_ps, samples = typical_ps(idle_waits_ps(correlation))
    runs_programs = (tracks["kind"] == "core").any()
    return LaunchLatency(
        latency_ps=latency_ps,
        latency_samples=samples,
        switch_ps=_switch_ps(correlation, latency_ps),
        most_ps=max(_MOST_PS, _OF_PROGRAMS * latency_ps) if runs_programs else _MOST_PS,
    )


def idle_waits_ps(correlation: Correlation) -> Int64s:
    """Return how long activities took from the begin of their launch calls.

    Of those whose device had nothing to do. Below zero are the ones that begin before
    their call, which only clocks that differ can show.
    """
    launch_of = correlation.launch_of_activity
    known = _rows_with_launch(launch_of)
    waited = ints(correlation.activity, "start_ps")[known] - values_by_row(
        ints(correlation.launches, "start_ps"), launch_of[known]
    )
    found: Int64s = waited[correlation.queue_empty[known] | (waited < 0)]
    return found


def typical_ps(waits_ps: Int64s) -> tuple[int, int]:
    """Return the launch latency, and how many launches it is the median of.

    20 µs, of none, where launches are too few, or the clocks too far apart.
    """
    after = waits_ps[waits_ps >= 0]
    early = len(waits_ps) - len(after)
    if len(after) < ENOUGH_SAMPLES or early > _MOST_EARLY * len(waits_ps):
        return ASSUMED_LATENCY_PS, 0
    return int(np.median(after)), len(after)


class LaunchFacts(Frozen, frozen=True):
    """What launching work costs on one host.

    Attributes:
        median_call_ps: Median duration of the calls that launched something; None
            where nothing was launched.
        median_kernel_ps: Median duration of a kernel; None without kernels.
        graph_percent: Share of the kernels' time that lies in replayed graphs, in
            percent; None without kernels.
        clock_error_ps: How far the clocks of host and device differ at least: the time
            by which activities begin before their own launch call, or end after a
            call that waited for them (99th percentile of those that do, the larger of
            both); 0 where none does.
        lost: Number of launches whose activity must have been dropped while recording.
        lost_ps: Device time that these activities may have taken: of each the 95th
            percentile of the durations that such a call usually leads to.
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
    """Measure the launches that some device activity came from."""
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
        # It reorders the durations.
        median_kernel_ps=_median_or_none(of_kernels),
        clock_error_ps=max(
            int(np.percentile(beyond, _CLOCK_QUANTILE)) if len(beyond) else 0
            for beyond in (early, outlasting)
        ),
        lost=len(lost),
        lost_ps=_lost_time_ps(lost, handles(launches, "type"), launch_of, dur_ps),
    )


def _rows_with_launch(launch_of: Int32s) -> NDArray[np.intp] | slice:
    """Return the activities whose launch is known: mostly all, without a copy."""
    known = launch_of >= 0
    return slice(None) if known.all() else np.flatnonzero(known)


def _outlasting_ps(
    device_activity: pl.DataFrame,
    launch_of: Int32s,
    returned_ps: Int64s,
    events: pl.DataFrame,
    event_types: pl.DataFrame,
) -> Int64s:
    """Return by how much work ends after calls that had to wait for it.

    A call that waits for a device waits for all that was launched before; one that
    waits for a stream does where only one stream was used. A call that copies to
    pageable memory of the host returns when the copy is done.
    """
    # By how much copies to pageable memory end after their call returned.
    pageable = event_types["name"].str.contains(_TO_PAGEABLE, literal=True)
    named = is_true(pageable)
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
    # Mostly work is recorded in the order of its calls.
    if (returned[1:] < returned[:-1]).any():
        order = np.argsort(returned, kind="stable")
        returned, ended = returned[order], ended[order]
    latest = np.maximum.accumulate(ended, out=ended)
    launched = np.searchsorted(returned, begin, side="right") - 1
    some = launched >= 0
    beyond = latest[launched[some]] - end[some]
    return np.concatenate((copied, beyond[beyond > 0]))


def _all_equal(values: Int32s) -> bool:
    return bool(values.min() == values.max())


def _lost_launches(
    launches: pl.DataFrame, events: pl.DataFrame, nesting: Nesting, used: Bools
) -> NDArray[np.intp]:
    """Return the calls without activity at places that usually have one.

    A place is the name of a call in the innermost event around it, on one thread: a
    call that clears no bytes never leads to activity, wherever it is repeated. Work
    that was still queued when recording stopped is not lost: those calls come after the
    last one of their thread that has activity. Nor is work from before the device's
    records begin: those calls come before the first one.
    """
    if not used.any() or used.all():
        return np.empty(0, np.intp)
    track, type_ = handles(launches, "track"), handles(launches, "type")
    unused = np.zeros(int(type_.max()) + 1, np.bool_)
    unused[type_[~used]] = True
    # What always has activity lost none.
    rows = np.flatnonzero(unused[type_])
    last = np.full(int(track.max()) + 1, np.iinfo(np.int64).min)
    first = np.full(len(last), np.iinfo(np.int64).max)
    called = ints(launches, "start_ps")
    np.maximum.at(last, track[used], called[used])
    np.minimum.at(first, track[used], called[used])
    track, called, used = track[rows], called[rows], used[rows]
    # The innermost event around each call; -1 for none.
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
        pl.col("used").mean().over("track", "type", "around") >= _USUAL
    ).to_series()
    within = (first[track] < called) & (called < last[track])
    lost: NDArray[np.intp] = rows[~used & usual.to_numpy() & within]
    return lost


def _lost_time_ps(
    lost: NDArray[np.intp], type_: Int32s, launch_of: Int32s, dur_ps: Int64s
) -> int:
    """Return the 95th percentile of what calls of the same name led to, summed."""
    if not len(lost):
        return 0
    known = np.flatnonzero(launch_of >= 0)
    led_by = type_[launch_of[known]]
    total = 0
    for kind, count in zip(*np.unique(type_[lost], return_counts=True), strict=True):
        like = dur_ps[known][led_by == kind]
        total += int(count) * int(np.percentile(like, _LONG_QUANTILE))
    return total


def _switch_ps(correlation: Correlation, latency_ps: int) -> int:
    """Return the 10th percentile of the gaps on a stream that no launch can cause.

    No device needs long between activities: where all gaps are, they have a cause.
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
    if count < ENOUGH_SAMPLES:
        return _ASSUMED_SWITCH_PS
    usual = int(np.percentile(out[:count], _SWITCH_QUANTILE, overwrite_input=True))
    return min(usual, _LONGEST_SWITCH_PS)


def _median_or_none(values: Int64s) -> int | None:
    return int(np.median(values, overwrite_input=True)) if len(values) else None
