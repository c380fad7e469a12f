"""Cost and number of kernel launches, and the length of a device's launch queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.columns.arrays import (
    ACTIVITY_CODES,
    codes,
    handles,
    ints,
    wanted_rows,
)
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.names.event_kinds import EventFlag
from stepscope.derive.run_derivation import (
    first_reason,
    known_hosts,
    of_each_device,
    of_run,
)
from stepscope.derive.step_windows.windows import windows_of_times
from stepscope.derive.verdicts.recorded_devices import NO_KERNELS
from stepscope.frozen import Frozen
from stepscope.thresholds import THRESHOLDS

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from stepscope.array_types import Bools, Int64s
    from stepscope.derive.device.correlation import Correlation, LaunchFacts
    from stepscope.derive.names.event_kinds import EventKinds
    from stepscope.derive.run_derivation import OfHosts
    from stepscope.derive.step_windows.windows import Windows
    from stepscope.unavailable import Unavailable

#: A step is one program if compiled programs issue at least this share of its launches.
_MIN_PROGRAM_SHARE: Final = 0.8
_KERNELS: Final = (ACTIVITY_CODES["kernel"], ACTIVITY_CODES["collective"])


class LaunchSignals(Frozen, frozen=True):
    """Number and cost of kernel launches.

    Attributes:
        latency_ps: Median time from a launch call to its kernel on an idle device.
        latency_samples: Number of launches in the median; 0 if the latency is assumed.
        median_call_ps: Median duration of a launch call; None without launches.
        kernels_per_step: Mean number of kernels in a step; None without steps.
        graph_percent: Share of device time in replayed graphs whose nodes have no rows.
        one_program: Whether every step launches all of its kernels by one call, or
            calls one compiled program that launches nearly all; None if unknown.
    """

    latency_ps: int
    latency_samples: int
    median_kernel_ps: int
    median_call_ps: int | None
    kernels_per_step: float | None
    graph_percent: float
    one_program: bool | None


@of_run
def launch_signals(
    *,
    launch_facts: OfHosts[LaunchFacts],
    windows: OfHosts[Windows],
    launches_one_program: OfHosts[bool | None],
) -> LaunchSignals | Unavailable:
    """Return the cost of launches on the host with most kernels."""
    facts = known_hosts(launch_facts)
    placed = known_hosts(windows)
    steps = sum(
        placed[host].rows.height
        for host in facts
        if host in placed and placed[host].has_steps
    )
    measured = [host for host in facts if facts[host].median_kernel_ps is not None]
    if not measured:
        return first_reason(launch_facts) or NO_KERNELS
    host = max(measured, key=lambda name: facts[name].kernels)
    kernels = sum(fact.kernels for fact in facts.values())
    return LaunchSignals(
        latency_ps=facts[host].latency_ps,
        latency_samples=facts[host].latency_samples,
        median_kernel_ps=facts[host].median_kernel_ps or 0,
        median_call_ps=facts[host].median_call_ps,
        kernels_per_step=kernels / steps if steps else None,
        graph_percent=facts[host].graph_percent or 0.0,
        one_program=known_hosts(launches_one_program).get(host),
    )


def launches_one_program(
    *,
    windows: Windows,
    correlation: Correlation,
    event_kinds: EventKinds,
    events: pl.DataFrame,
) -> bool | None:
    """Return whether each step launches its kernels in one call.

    One call for all kernels runs a compiled program or launches a graph. The result is
    None without steps or kernel launches.
    """
    if not windows.has_steps:
        return None
    programs = event_kinds.has(EventFlag.PJIT | EventFlag.EXECUTABLE)
    rows = wanted_rows(handles(events, "type"), programs)
    calls = Spans.from_rows(events, rows)
    start_ps = ints(correlation.launches, "start_ps")
    # Only kernels count, because copies of results have separate launch calls.
    kernels = np.isin(codes(correlation.activity, "kind"), _KERNELS)
    led = _mark_rows(correlation.launch_of_activity[kernels], len(start_ps))
    if not len(calls):
        # If there are no compiled programs, a single launch per step is a graph launch.
        return bool(0 < led.sum() <= windows.rows.height)
    held = calls.holding(start_ps[led])
    if not len(held):
        return None
    using = calls.holding(start_ps[correlation.activity_count_of_launch > 0])
    used = _mark_rows(using, len(calls)).sum()
    return bool(
        (held >= 0).mean() >= _MIN_PROGRAM_SHARE and used <= windows.rows.height
    )


def _mark_rows(rows: NDArray[np.signedinteger], count: int) -> Bools:
    """Return, for each row number below `count`, whether it is in `rows`; skip -1."""
    # The extra last entry takes the marks of row -1.
    marked = np.zeros(count + 1, np.bool_)
    marked[rows] = True
    return marked[:-1]


#: Number of equal parts into which a step is divided to average its queue length.
PARTS: Final = 10


class Queue(Frozen, frozen=True):
    """The launch queue of one device in the judged steps.

    Attributes:
        lengths: Mean number of queued activities in each tenth of a step.
        longest: Largest number of queued activities when one of them began.
        slow_calls: Mean number of long launch calls in a step.
        late_starts: Mean number of activities in a step that began long after their
            call returned, although the device was idle.
    """

    lengths: tuple[float, ...]
    longest: int
    slow_calls: float
    late_starts: float


@of_each_device
def queue_signals(
    *, correlation: Correlation, windows: Windows
) -> dict[int | None, Queue]:
    """Measure the launch queue of each device whose launches were recorded."""
    of_device = handles(correlation.activity, "device")
    known = np.flatnonzero(correlation.launch_of_activity >= 0)
    return {
        device: _device_queue(
            known[of_device[known] == device], correlation, windows.measured
        )
        for device in np.unique(of_device[known]).tolist()
    }


def _device_queue(
    rows: NDArray[np.intp], tied: Correlation, measured: pl.DataFrame
) -> Queue:
    """Measure a device's launch queue; `rows` are its activities with a launch call."""
    starts, ends = ints(measured, "start_ps"), ints(measured, "end_ps")
    call = tied.launch_of_activity[rows]
    calls = np.unique(call)
    launches = tied.launches
    called, begun = ints(launches, "start_ps"), ints(tied.activity, "start_ps")[rows]
    slow = ints(launches, "dur_ps")[calls] > THRESHOLDS.slow_launch_call.value
    late = tied.latency_ps[rows] > THRESHOLDS.late_start.value
    into, out_of = np.sort(called[call]), np.sort(begun)
    inside = windows_of_times(measured, out_of) >= 0
    waiting = np.searchsorted(into, out_of, side="right") - np.arange(len(out_of))
    # Mean length of the queue in each part of a step, averaged over the steps.
    offsets = (ends - starts)[:, None] * np.linspace(0.0, 1.0, PARTS + 1)
    edges = starts[:, None] + offsets.astype(np.int64)
    # Queue time of all activities together, up to the end of each part of the step.
    held = _elapsed_time(into, edges) - _elapsed_time(out_of, edges)
    mean = np.diff(held, axis=1) / np.maximum(np.diff(edges, axis=1), 1)

    def count_per_step(times: Int64s) -> float:
        return float((windows_of_times(measured, times) >= 0).sum()) / len(measured)

    return Queue(
        lengths=tuple(np.maximum(mean.mean(axis=0), 0.0).tolist()),
        longest=int(waiting[inside].max(initial=0)),
        slow_calls=count_per_step(called[calls[slow]]),
        late_starts=count_per_step(begun[late]),
    )


def _elapsed_time(since: Int64s, until: Int64s) -> NDArray[np.float64]:
    """Return, for each `until`, the sum of `until - since` over all earlier `since`."""
    total = np.concatenate(([0], np.cumsum(since - since[0]))).astype(np.float64)
    count = np.searchsorted(since, until, side="right")
    times: NDArray[np.float64] = count * (until - since[0]).astype(float) - total[count]
    return times
