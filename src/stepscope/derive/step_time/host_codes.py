"""Code of each host event: what a thread does, even if the thread drives no step.

The name of an event decides its code first, then the events nested in it and its
values. `host_classes` turns the codes into disjoint spans.

Definition: docs/definitions/host-time.md#classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from stepscope._core import rows as kernels
from stepscope.derive.columns.arrays import (
    ACTIVITY_CODES,
    accepted_answer,
    are_host_threads,
    codes,
    handles,
    ints,
    wanted_rows,
)
from stepscope.derive.host.values import host_stats, traced_calls
from stepscope.derive.intervals.nesting import nearest_above
from stepscope.derive.names.event_kinds import EventFlag, HostClass
from stepscope.derive.step_time.device_sets import NO_DEVICE_EVENTS
from stepscope.derive.step_time.host_time import (
    CODE_OF_CLASS,
    CODE_OF_SYSTEM_CLASS,
    HostCode,
)
from stepscope.frozen import Frozen
from stepscope.trace.reading.by_row import values_by_row
from stepscope.trace.reading.stat_keys import StatKey
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    import polars as pl

    from stepscope.array_types import Bools, Int32s, Int64s, UInt8s
    from stepscope.derive.columns.stat_values import StatRows
    from stepscope.derive.device.correlation import Correlation, LaunchLatency
    from stepscope.derive.intervals.nesting import Nesting
    from stepscope.derive.names.event_kinds import EventKinds
    from stepscope.derive.step_time.unseen_device import UnseenDevice
    from stepscope.trace.model import TraceData

#: An op that launches nothing counts as dispatch if its self time is shorter than this,
#: in ps, for example if it creates an empty tensor. Used only if there is a device.
SHORT_OP_PS: Final = 100 * PS_PER_US


#: Rows of host events, and the step group that the producer stored for each.
EventGroups: TypeAlias = "tuple[Int32s, Int64s]"
_NO_ROWS: Final = np.empty(0, np.int32)


class Launching(Frozen, frozen=True):
    """The host events that launch work on a device, as far as they are known.

    Attributes:
        rows: Rows of `events` that launch work; empty if `why_not` is set.
        reading: Rows that launch a copy to the host and wait for it. Calls that wait
            last longer than the copy plus the launch latency.
        feeding: Rows that launch a copy from the host and wait for it.
        waiting: Rows that wait for a device whose work was not recorded.
        why_not: Why it is unknown which events launch work; None if this is known.
    """

    no_device: bool
    why_not: Unavailable | None
    rows: Int32s = _NO_ROWS
    reading: Int32s = _NO_ROWS
    feeding: Int32s = _NO_ROWS
    waiting: Int32s = _NO_ROWS

    @classmethod
    def collect_launches(
        cls,
        correlation: Correlation | Unavailable,
        device_activity: pl.DataFrame | Unavailable,
        latency: LaunchLatency | Unavailable,
        unseen: UnseenDevice | None = None,
    ) -> Launching:
        """Collect the host events that launched device activity."""
        if unseen is not None:
            why = device_activity
            why = why if isinstance(why, Unavailable) else NO_DEVICE_EVENTS
            # Recorded calls show which ops launch, even if the work was not recorded.
            why_not = None if len(unseen.calls) else why
            return cls(
                no_device=False,
                why_not=why_not,
                rows=unseen.calls,
                waiting=unseen.waits,
            )
        if isinstance(device_activity, Unavailable):
            no_device = device_activity.code == "NO_DEVICE_PLANE"
            return cls(no_device, device_activity)
        if isinstance(correlation, Unavailable):
            return cls(no_device=False, why_not=correlation)
        if not device_activity.height:
            return cls(no_device=False, why_not=NO_DEVICE_EVENTS)
        event = handles(correlation.launches, "event")
        waiting = {}
        for kind in ("d2h", "h2d"):
            # Find launches that last longer than their copies plus the launch latency.
            if isinstance(latency, Unavailable):
                waits = np.empty(0, np.intp)
            else:
                activity, launches = correlation.activity, correlation.launches
                copies = np.flatnonzero(codes(activity, "kind") == ACTIVITY_CODES[kind])
                launch = correlation.launch_of_activity[copies]
                copies, launch = copies[launch >= 0], launch[launch >= 0]
                own = np.zeros(launches.height, np.int64)
                np.add.at(own, launch, ints(activity, "dur_ps")[copies])
                dur = ints(launches, "dur_ps")
                waits = np.flatnonzero((own > 0) & (dur > own + latency.latency_ps))
            waiting[kind] = event[waits]
        return cls(
            no_device=False,
            why_not=None,
            rows=event[correlation.activity_count_of_launch > 0],
            reading=waiting["d2h"],
            feeding=waiting["h2d"],
        )


class HostEvents(Frozen, frozen=True):
    """The host's events, and the computation of their codes."""

    trace: TraceData
    tracks: pl.DataFrame
    events: pl.DataFrame
    kinds: EventKinds
    stats: pl.DataFrame
    values: dict[str, StatRows]

    def mark_codes(self, nesting: Nesting, launching: Launching) -> UInt8s:
        """Return the code of every event; 0 for events outside host threads."""
        code = self._codes_by_name(launching)
        enclosing = self._mark_launches(code, nesting, launching)
        self._block_calls_of_graphs(code, nesting, launching)
        # A function call waits for other threads, but a plain op runs on the calling
        # thread. A waiting call inside a plain op is therefore part of that op.
        plain_ops = np.flatnonzero(code == HostCode.BLOCKED)
        types = handles(self.events, "type")
        is_op = self.kinds.host_class == HostClass.OP
        is_function = self.kinds.has(EventFlag.FUNCTION_CALL)
        decides = values_by_row(is_op | is_function, types)
        around = nearest_above(nesting.parent, plain_ops, decides)
        code[plain_ops[(around >= 0) & is_op[types[around]]]] = HostCode.NOTHING
        # Calls of collectives that launch nothing on a device wait for other workers.
        exchanging = wanted_rows(types, self.kinds.has(EventFlag.COLLECTIVE))
        on_thread = are_host_threads(self.tracks)[
            handles(self.events, "track")[exchanging]
        ]
        exchanging = exchanging[on_thread]
        code[exchanging[~enclosing[exchanging]]] = HostCode.PEER
        # Mark instructions of compiled programs that ran on the host.
        rows = self.values[StatKey.HLO_OP].owner
        is_end = self.kinds.has(EventFlag.END_THUNK)
        rows = rows[~is_end[handles(self.events, "type")[rows]]]
        self._set_codes(code, rows, HostCode.HOST_COMPUTE)
        # Mark input stages and traced calls, which only their values identify.
        self._set_codes(code, self.values[StatKey.STAGE_NAME].owner, HostCode.OWN_INPUT)
        calls, traced = traced_calls(self.trace, self.values)
        self._set_codes(code, calls[traced], HostCode.TRACING)
        if launching.no_device:
            self._set_codes(code, calls[~traced], HostCode.HOST_COMPUTE)
        self._mark_new_functions(code, nesting)
        self._mark_pipelines(code)
        self._mark_system_calls(code, nesting)
        return code

    def step_groups(self) -> EventGroups | None:
        """Step groups of host events; None if the producer stored no groups."""
        environment = self.trace.table("environment")
        if isinstance(environment, Unavailable) or not environment["grouped"].any():
            return None
        values = self._host_values(StatKey.GROUP_ID)
        kept = values.value >= 0
        rows = values.owner[kept]
        on_thread = are_host_threads(self.tracks)[handles(self.events, "track")[rows]]
        return rows[on_thread], values.value[kept][on_thread]

    def _host_values(self, key: StatKey) -> StatRows:
        return host_stats(self.trace.strings, self.tracks, self.stats, (key,))[key]

    def _codes_by_name(self, launching: Launching) -> UInt8s:
        known = launching.no_device or launching.why_not is None
        of_class = np.zeros(256, np.uint8)
        for host_class, of_name in CODE_OF_CLASS.items():
            of_class[host_class] = of_name
        of_class[HostClass.OP] = (
            HostCode.HOST_COMPUTE if known else HostCode.LAUNCH_OR_COMPUTE
        )
        # If the host has a device, executors and executables only dispatch work to it.
        handing_out = HostCode.HOST_COMPUTE if launching.no_device else HostCode.LAUNCH
        of_class[[HostClass.EXECUTOR, HostClass.EXECUTABLE]] = handing_out
        # If there is a device, all other runtime calls prepare the next launch.
        if not launching.no_device:
            of_class[HostClass.API] = HostCode.LAUNCH
        # If there is no device, the program runs on the host; dispatching is work too.
        of_class[HostClass.DISPATCH] = (
            HostCode.HOST_COMPUTE if launching.no_device else HostCode.DISPATCH
        )
        of_class[HostClass.BLOCKING] = HostCode.BLOCKED
        of_type = of_class[self.kinds.host_class]
        of_type[self.kinds.has(EventFlag.CONSUMER_WAIT)] = HostCode.INPUT_WAIT
        # Find root iterators: according to the names, no other recorded iterator
        # encloses them. A consumer calls the root iterator. If an iterator below the
        # root runs on a separate thread, that thread works ahead.
        types = np.flatnonzero(self.kinds.has(EventFlag.DATASET))
        names = [name or "" for name in self.kinds.op_name.gather(types).to_list()]
        recorded = set(names)
        roots = [not _enclosing_names(name) & recorded for name in names]
        of_type[types[np.array(roots, np.bool_)]] = HostCode.ITERATOR
        code = values_by_row(of_type, handles(self.events, "type"))
        begins, ends = self.tracks["event_begin"], self.tracks["event_end"]
        for track in np.flatnonzero(~are_host_threads(self.tracks)).tolist():
            code[begins[track] : ends[track]] = HostCode.NOTHING
        return code

    def _mark_launches(
        self, code: UInt8s, nesting: Nesting, launching: Launching
    ) -> Bools:
        is_plain = np.zeros(256, np.uint8)
        is_plain[[HostCode.NOTHING, HostCode.HOST_COMPUTE, HostCode.LAUNCH]] = 1
        # A call that waits for its own copy does not count as launching.
        for rows, host_code in (
            (launching.reading, HostCode.COPY_OUT),
            (launching.feeding, HostCode.COPY_IN),
        ):
            code[rows[is_plain[code[rows]] > 0]] = host_code
        enclosing = np.zeros(len(code), np.uint8)
        accepted_answer(
            kernels.mark_calls(
                launching.rows,
                nesting.parent,
                handles(self.events, "type"),
                (self.kinds.host_class == HostClass.OP).view(np.uint8),
                is_plain,
                HostCode.LAUNCH,
                HostCode.DISPATCH,
                code,
                enclosing,
            )
        )
        if len(launching.rows):
            # Ops that launch nothing and have little self time count as dispatch.
            ops = np.flatnonzero(code == HostCode.HOST_COMPUTE)
            own = nesting.self_ps[ops]
            long = own >= SHORT_OP_PS
            if long.any():
                # An op that only calls ops has a little self time between calls.
                long_rows = ops[long]
                chosen = np.zeros(len(nesting.parent), np.uint8)
                chosen[long_rows] = 1
                count = np.zeros(len(nesting.parent), np.int32)
                accepted_answer(kernels.count_children(nesting.parent, chosen, count))
                calls: Int32s = count[long_rows]
                long[long] = own[long] // (calls + 1) >= SHORT_OP_PS
            code[ops[~long]] = HostCode.DISPATCH
        code[launching.waiting] = HostCode.SYNC
        return enclosing.view(np.bool_)

    def _block_calls_of_graphs(
        self, code: UInt8s, nesting: Nesting, launching: Launching
    ) -> None:
        """Mark calls that run a graph as waiting, if most of their time is self time.

        Pool threads then run the graph's ops, as far as recorded. If there is a device,
        the pool threads launch the ops, and the call counts as dispatch.
        """
        if not launching.no_device:
            return
        types = handles(self.events, "type")
        rows = wanted_rows(types, self.kinds.has(EventFlag.EAGER_WRAPPER))
        rows = rows[code[rows] == HostCode.HOST_COMPUTE]
        rows = rows[2 * nesting.self_ps[rows] > ints(self.events, "dur_ps")[rows]]
        around = nesting.parent[rows]
        rows, around = rows[around >= 0], around[around >= 0]
        rows = rows[self.kinds.has(EventFlag.FUNCTION_CALL)[types[around]]]
        # Keep only calls during which other threads start ops or executors.
        start, thread = ints(self.events, "start_ps"), handles(self.events, "track")
        ends = start[rows] + ints(self.events, "dur_ps")[rows]
        runs = np.isin(self.kinds.host_class, (HostClass.OP, HostClass.EXECUTOR))
        work = wanted_rows(handles(self.events, "type"), runs)
        has_work = np.zeros(len(rows), np.bool_)
        for track in np.unique(thread[rows]).tolist():
            on_thread = thread[rows] == track
            begun = np.sort(start[work[thread[work] != track]])
            first, last = (
                np.searchsorted(begun, time[on_thread]) for time in (start[rows], ends)
            )
            has_work[on_thread] = last > first
        code[rows[has_work]] = HostCode.BLOCKED

    def _mark_new_functions(self, code: UInt8s, nesting: Nesting) -> None:
        """Mark the creation of functions if an enclosing call traced the function.

        The call that first runs a traced graph also optimises the graph and creates its
        kernels. Running the graph is a separate event inside the call.
        """
        types = handles(self.events, "type")
        is_call = self.kinds.has(EventFlag.FUNCTION_CALL)
        is_call &= self.kinds.host_class == HostClass.DISPATCH
        rows = wanted_rows(types, is_call)
        rows = rows[are_host_threads(self.tracks)[handles(self.events, "track")[rows]]]
        around = nearest_above(nesting.parent, rows, code == HostCode.TRACING)
        code[rows[around >= 0]] = HostCode.TRACING

    def _set_codes(self, code: UInt8s, rows: Int32s, value: HostCode) -> None:
        on_thread = are_host_threads(self.tracks)[handles(self.events, "track")[rows]]
        code[rows[on_thread & (code[rows] == HostCode.NOTHING)]] = value

    def _mark_pipelines(self, code: UInt8s) -> None:
        """Mark functions of an input pipeline as work of the pipeline, not of a step.

        The executor may run both kinds of work on one thread; ids distinguish them.

        Definition: docs/definitions/names-and-events.md#functions-of-input-pipelines.
        """
        captured = self.kinds.has(EventFlag.CAPTURED_FUNCTION)
        if not captured.any():
            return
        types = handles(self.events, "type")
        self._set_codes(
            code, wanted_rows(types, captured).astype(np.int32), HostCode.PIPELINE
        )
        runs = self.kinds.has(
            EventFlag.EXECUTOR | EventFlag.FUNCTION_RUN | EventFlag.CONSUMER_WAIT
        )
        ids = self._host_values(StatKey.ID)
        type_of = values_by_row(types, ids.owner)
        asking = values_by_row(runs, type_of)
        inside = np.isin(ids.value[asking], ids.value[captured[type_of]])
        code[ids.owner[asking][inside]] = HostCode.PIPELINE

    def _mark_system_calls(self, code: UInt8s, nesting: Nesting) -> None:
        """Mark long system calls that no runtime call or computing op encloses.

        A system call inside a device runtime call, a compilation or a computing op is
        part of that event. A system call inside an op that only dispatches is marked.
        """
        of_class = np.zeros(256, np.uint8)
        for host_class, of_call in CODE_OF_SYSTEM_CLASS.items():
            of_class[host_class] = of_call
        of_type = of_class[self.kinds.host_class]
        if not of_type.any():
            return
        types = handles(self.events, "type")
        long = ints(self.events, "dur_ps") >= SHORT_OP_PS
        rows = np.flatnonzero(long & (of_type[types] > 0))
        rows = rows[are_host_threads(self.tracks)[handles(self.events, "track")[rows]]]
        around = nearest_above(nesting.parent, rows, code != HostCode.NOTHING)
        marked = rows[(around < 0) | (code[around] == HostCode.DISPATCH)]
        code[marked] = of_type[types[marked]]


def _enclosing_names(name: str) -> set[str]:
    parts = name.split("::")
    return {"::".join(parts[:count]) for count in range(2, len(parts))}
