"""Waits for launches outside normal steps: set-up, graph capture and program end.

The first calls of a process create contexts, load kernels and reserve memory. The first
calls take milliseconds to minutes; a launch takes microseconds. An op that chooses its
kernels is slow only in its first execution. Kernels launched while a stream is captured
become part of a graph and do not run. After a device's last kernel the program ends.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from stepscope.derive.account.host_states import min_work_gap_ps
from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.facts.evidence import MAX_RANGES_SHOWN, Part
from stepscope.derive.host.function_purposes import FunctionPurpose
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.names.event_kinds import HostClass
from stepscope.derive.run_derivation import of_each_device
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable, require_available

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.array_types import Int32s, Int64s
    from stepscope.derive.account.time_by_cause import Account
    from stepscope.derive.device.correlation import LaunchFacts
    from stepscope.derive.host.function_frames import FunctionFrames
    from stepscope.derive.host.function_purposes import FunctionPurposes
    from stepscope.derive.names.event_kinds import EventKinds
    from stepscope.derive.step_windows.windows import Windows
    from stepscope.trace.model import TraceData

Kind = Literal["set_up", "first_runs", "captured", "over"]

#: Waits in at least this number of steps are normal, not set-up.
_MIN_STEPS: Final = 3
_OWNERS: Final = ("launch", "host_compute")
#: The first execution of an op is long if it takes at least this factor times the
#: median later execution. At least `_MIN_LATER_RUNS` later executions are needed.
_MIN_FIRST_TO_LATER_RATIO: Final = 20
_MIN_LATER_RUNS: Final = 3
_BEGIN_CAPTURE: Final = r"^(?:cuda|cu|hip)StreamBeginCapture"
_END_CAPTURE: Final = r"^(?:cuda|cu|hip)StreamEndCapture"


class SetUp(Frozen, frozen=True):
    """The longest kind of wait of a device that faster launching would not shorten.

    Attributes:
        kind: `set_up` for long runtime calls and long first executions of ops;
            `first_runs` if first executions are most of this time; `captured` for
            launches into a captured graph; `over` for time after the last device
            activity.
        percent: Share of the time of the measured windows.
        calls: The long calls in this time, most time first.
    """

    kind: Kind
    percent: float
    calls: tuple[Part, ...]


class _Calls(Frozen, frozen=True):
    """Long calls of a device's runtime; the arrays have one entry per call.

    Attributes:
        name: Row of `names`.
    """

    start_ps: Int64s
    dur_ps: Int64s
    name: Int32s
    names: Sequence[str]

    def spans(self) -> Spans:
        """Return when any of the calls ran."""
        return Spans.from_events(self.start_ps, self.dur_ps)

    def time_by_name(self, spans: Spans) -> dict[str, int]:
        """Return, by name of call, the time of `spans` inside the calls, in ps."""
        within = spans.within(self.start_ps, self.start_ps + self.dur_ps)
        by_name = np.bincount(self.name, weights=within)
        return {
            self.names[row]: int(by_name[row])
            for row in np.flatnonzero(by_name).tolist()
        }


@of_each_device
def set_up_signals(
    *,
    trace: TraceData,
    account: Account,
    launch_facts: LaunchFacts,
    windows: Windows,
    event_kinds: EventKinds,
    function_frames: FunctionFrames | Unavailable,
    function_purposes: FunctionPurposes | Unavailable,
) -> dict[int | None, SetUp]:
    """Return, by device, the longest wait that faster launching would not shorten."""
    measured = windows.measured
    if windows.has_steps and measured.height >= _MIN_STEPS:
        return {}
    min_call_ps = min_work_gap_ps(launch_facts.latency_ps)
    samples = function_frames, function_purposes
    calls = (
        _recorded_calls(trace, event_kinds, min_call_ps, ops=False),
        _sampled_calls(*samples, min_call_ps),
        _recorded_calls(trace, event_kinds, min_call_ps, ops=True),
    )
    judged = windows.judged
    judged_ps = judged.length_ps
    captured = _capture_spans(trace)
    set_up_by_device: dict[int | None, SetUp] = {}
    for device in account.devices:
        if device.device is None:
            continue
        waits = Spans.union_of(device.idle[owner] for owner in _OWNERS) & judged
        over = Spans.empty()
        worked = (judged - Spans.union_of(device.idle.values())).time_range
        # `over`: waits after the last activity; empty if there is no activity.
        if (
            not windows.has_steps
            and worked is not None
            and judged.time_range is not None
        ):
            over = waits & judged.clip(worked[1], judged.time_range[1])
        into_graph = (waits - over) & captured
        first = waits - over - into_graph
        long_ps, by_name = _held_ps(first, calls)
        # Time in runtime calls; first executions of ops are not included.
        called_ps, _ = _held_ps(first, calls[:-1])
        lengths: dict[Kind, int] = {
            "set_up" if 2 * called_ps >= long_ps else "first_runs": long_ps,
            "captured": into_graph.length_ps,
            "over": over.length_ps,
        }
        kind = max(lengths, key=lambda kind: lengths[kind])
        if not lengths[kind]:
            continue
        if kind == "over":
            # A program makes many short calls while it ends.
            short = (
                _recorded_calls(trace, event_kinds, 0, ops=False),
                _sampled_calls(*samples, 0),
            )
            _, by_name = _held_ps(over, (*short, calls[-1]))
        elif kind == "captured":
            by_name = Counter()
        set_up_by_device[device.device] = SetUp(
            kind=kind,
            percent=100 * lengths[kind] / judged_ps,
            calls=tuple(
                Part(name=name, share_percent=100 * held / judged_ps)
                for name, held in by_name.most_common(MAX_RANGES_SHOWN)
            ),
        )
    return set_up_by_device


def _held_ps(waits: Spans, calls: Sequence[_Calls | None]) -> tuple[int, Counter[str]]:
    """Return the part of `waits` that long calls cover, in total and by call name."""
    by_name: Counter[str] = Counter()
    waited_ps = waits.length_ps
    # Time that is both recorded and sampled is counted once.
    for recorded in filter(None, calls):
        by_name.update(recorded.time_by_name(waits))
        waits = waits - recorded.spans()
    return waited_ps - waits.length_ps, by_name


def _capture_spans(trace: TraceData) -> Spans:
    events = require_available(trace.table("events"))
    types = require_available(trace.table("event_types"))
    begins, ends = (
        np.sort(
            ints(events, "start_ps")[
                types["name"].str.contains(call).to_numpy()[handles(events, "type")]
            ]
        )
        for call in (_BEGIN_CAPTURE, _END_CAPTURE)
    )
    end = np.searchsorted(ends, begins)
    known = end < len(ends)
    return Spans.from_bounds(begins[known], ends[end[known]])


def _recorded_calls(
    trace: TraceData, kinds: EventKinds, min_call_ps: int, *, ops: bool
) -> _Calls:
    """Return the long calls of a runtime, or the long first executions of ops."""
    events = require_available(trace.table("events"))
    names = require_available(trace.table("event_types"))["name"]
    types, dur = handles(events, "type"), ints(events, "dur_ps")
    start, track = ints(events, "start_ps"), handles(events, "track")
    wanted = kinds.is_op() if ops else kinds.host_class == HostClass.API
    rows = np.flatnonzero((dur >= min_call_ps) & wanted[types])
    if ops:
        firsts = []
        for kind in np.unique(types[rows]).tolist():
            runs = np.flatnonzero(types == kind)
            first = runs[np.argmin(start[runs])]
            later = dur[runs[runs != first]]
            if len(later) >= _MIN_LATER_RUNS and dur[first] >= max(
                min_call_ps, _MIN_FIRST_TO_LATER_RATIO * float(np.median(later))
            ):
                firsts.append(int(first))
        rows = _inner_rows(np.array(firsts, np.int64), track, start, dur)
    return _Calls(start[rows], dur[rows], types[rows], names.to_list())


def _inner_rows(
    rows: Int64s, track: Int32s, start_ps: Int64s, dur_ps: Int64s
) -> Int64s:
    """Return the calls that do not enclose any other of the calls."""
    order = rows[np.lexsort((-dur_ps[rows], start_ps[rows], track[rows]))]
    ends = start_ps[order] + dur_ps[order]
    holds = (track[order][1:] == track[order][:-1]) & (start_ps[order][1:] < ends[:-1])
    innermost: Int64s = order[~np.append(holds, np.False_)[: len(order)]]
    return innermost


def _sampled_calls(
    frames: FunctionFrames | Unavailable,
    purposes: FunctionPurposes | Unavailable,
    min_call_ps: int,
) -> _Calls | None:
    """Return the long calls that samples of the program's functions found."""
    if isinstance(frames, Unavailable) or isinstance(purposes, Unavailable):
        return None
    dur = frames.end_ps - frames.start_ps
    rows = (dur >= min_call_ps) & (purposes.purpose == FunctionPurpose.CALL)
    types, name = np.unique(frames.type[rows], return_inverse=True)
    names = [frames.names[row].function for row in types.tolist()]
    return _Calls(frames.start_ps[rows], dur[rows], name.astype(np.int32), names)
