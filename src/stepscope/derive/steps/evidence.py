"""Evidence that separates steps from layers: step edges, and the calls around segments.

Layers repeat just as steps do, but only a step has edges. An edge is an event with
which a step begins or ends: copying a batch, reading a result back, waiting for the
device, computing gradients, updating weights, serving a request or running a program.
Unlike steps, several layers are inside one call of a module, op or program.

Definition: docs/how-steps-are-found.md#steps-without-markers.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import ACTIVITY_CODES, codes, handles, ints
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.names.event_kinds import EventFlag, HostClass
from stepscope.derive.sequences import op_sequences
from stepscope.derive.steps.launches import (
    PROGRAM_CALLS,
    outermost_by_thread,
    program_rows,
    program_runs,
)
from stepscope.derive.steps.periods import MIN_STEPS
from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from stepscope.array_types import Bools, Int32s, Int64s
    from stepscope.derive.device.correlation import Correlation
    from stepscope.derive.names.event_kinds import EventKinds
    from stepscope.derive.sequences import SymbolSequence

#: Segments count as steps if at least this share of them contains one kind of edge.
_MIN_SEGMENTS_WITH_EDGE: Final = 0.9
#: Minimum repetitions per enclosing call, to conclude that a call contains several.
_MIN_REPETITIONS_PER_CALL: Final = 1.5
#: Maximum number of instructions of a program that counts as a single op.
_MAX_OPS_PER_PROGRAM: Final = 2
#: Maximum number of different ops in one layer, for example product, sum, activation.
_MAX_OPS_OF_LAYER: Final = 4
#: Minimum number of numbered instances of one module (`X_0 … X_n`).
_MIN_SERIES_LENGTH: Final = 3
#: Pattern of names that end in the number of an instance.
_INSTANCE: Final = r"^(.*?)[_.# ]*\d+$"
#: Maximum size, in bytes, of a copy to the device that counts as scalars, not a batch.
_MAX_SCALAR_BYTES: Final = 64
#: Pattern of the event in which PyTorch executes a node of the backward graph.
_NODE: Final = r"^autograd::engine::evaluate_function: "
#: Pattern of names of numbered model parts.
_PART: Final = r"(?i)(?:^|[^a-z])(?:layers?|blocks?|stage|encoder|decoder)[_.# ]*\d+$"


class _Calls(Frozen, frozen=True, eq=True):
    """Calls of one thread in time order; no call overlaps another."""

    start_ps: Int64s
    end_ps: Int64s
    type: Int32s

    def calls_around(self, times_ps: Int64s) -> NDArray[np.intp]:
        """Return the call around each time, or -1 if there is none."""
        return Spans(self.start_ps, self.end_ps).holding(times_ps)


_NONE: Final = _Calls(
    np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int32)
)


class StepEvidence(Frozen, frozen=True, dict=True):
    """The tables that are searched for step edges and for the calls around segments."""

    tracks: pl.DataFrame
    events: pl.DataFrame
    event_types: pl.DataFrame
    event_kinds: EventKinds
    device_activity: pl.DataFrame | None
    correlation: Correlation | None

    @cached_property
    def ops(self) -> dict[int, SymbolSequence]:
        """Ops by row of tracks; the key -1 has the ops of all threads together."""
        return op_sequences(self.tracks, self.events, self.event_kinds)

    @cached_property
    def runs(self) -> dict[int, Spans]:
        """Spans in which programs ran, by host thread."""
        return program_runs(self.tracks, self.events, self.event_kinds)

    def lacks_an_edge(
        self, start_ps: Int64s, *, on_device: bool, programs: bool = True
    ) -> bool:
        """Return True if no kind of step edge is in nearly all segments.

        Args:
            start_ps: Start of each segment, ascending; the last segment is ignored.
            on_device: Whether the starts are times of device work, not host times.
            programs: Whether running a program counts as an edge.
        """
        segments = len(start_ps) - 1
        if segments < 1:
            return True
        edges = self._device_edges if on_device else self._host_edges
        if not on_device:
            edges = (*edges, self._program_calls) if programs else edges
            counts = self._runs if programs else self._waits
            if any(abs(count - len(start_ps)) <= 1 for count in counts):
                # A program runs after its call, and may run in a later segment.
                return False
        for edge_ps in edges:
            held = np.searchsorted(start_ps, edge_ps, side="right") - 1
            held = held[(held >= 0) & (held < segments)]
            if len(np.unique(held)) >= _MIN_SEGMENTS_WITH_EDGE * segments:
                return False
        return True

    def runs_op_by_op(self, segments: int, *, executed: float) -> bool:
        """Return whether each segment is a few ops, and each op is a compiled program.

        A step usually calls one program, or a few programs of many ops each. Two to
        four programs with about one op each can be a step or only one of its layers.

        Args:
            segments: Number of segments. Calls are counted over all segments together,
                because a program may run in a later segment than its call.
            executed: Number of entries in a typical segment.
        """
        of_program = self._compiled_calls
        often = of_program[2 * of_program >= segments]
        enough = executed * segments / _MAX_OPS_PER_PROGRAM
        is_few = 1 < len(often) <= _MAX_OPS_OF_LAYER
        return is_few and int(of_program.sum()) >= _MIN_SEGMENTS_WITH_EDGE * enough

    @cached_property
    def _compiled_calls(self) -> Int64s:
        calls = self._top_calls(self.event_kinds.has(EventFlag.PJIT)).values()
        kinds = [np.empty(0, np.int32), *(call.type for call in calls)]
        return np.bincount(np.concatenate(kinds)).astype(np.int64)

    @cached_property
    def _program_calls(self) -> Int64s:
        by_thread = self._top_calls(self.event_kinds.has(PROGRAM_CALLS)).values()
        return np.concatenate(
            [np.empty(0, np.int64), *(calls.start_ps for calls in by_thread)]
        )

    def equal_passes(self) -> tuple[int, Int64s] | None:
        """Return the busiest thread and the starts of its passes; None without passes.

        All outermost ops of the thread are one sequence that repeats as a whole.
        """
        track = next(iter(self.ops), -1)
        calls = self._calls[1].get(track, _NONE)
        passes = int(np.gcd.reduce(np.bincount(calls.type), initial=0))
        for number in range(passes, MIN_STEPS - 1, -1):
            if passes % number == 0:
                kinds = calls.type.reshape(number, -1)
                if (kinds == kinds[0]).all():
                    return track, calls.start_ps[:: kinds.shape[1]]
        return None

    def may_be_layers(self, track: int, start_ps: Int64s) -> bool:
        """Return whether passes may be layers: few kinds of ops, or one range around.

        Before or after the layers of a model, other ops usually run.
        """
        kinds = np.unique(self._calls[1][track].type)
        ranges = self._top_calls(self.event_kinds.has(EventFlag.ANNOTATION))
        held = ranges.get(track, _NONE).calls_around(start_ps)
        held = held[held >= 0]
        return len(kinds) <= _MAX_OPS_OF_LAYER or len(np.unique(held)) < len(held)

    def inside_one_call(self, track: Int32s, start_ps: Int64s) -> bool:
        """Return whether several segments are inside one module, op or request call."""
        for calls in self._calls:
            shared = 0
            for thread in np.unique(track).tolist():
                call = calls.get(thread, _NONE).calls_around(start_ps[track == thread])
                shared += len(np.unique(call[call >= 0])) + int((call < 0).sum())
            if len(start_ps) >= _MIN_REPETITIONS_PER_CALL * shared:
                return True
        return False

    def numbered_instances(self, start_ps: Int64s) -> bool:
        """Return whether segments belong to different numbered instances of a module.

        If instances `X_0 … X_n` are called once each, they are parts of one step.
        """
        for begins in self._series:
            held = np.searchsorted(start_ps, begins, side="right")
            held = np.unique(held[held > 0])
            if len(held) >= _MIN_SEGMENTS_WITH_EDGE * (len(start_ps) - 1) and (
                len(begins) <= _MIN_REPETITIONS_PER_CALL * len(start_ps)
            ):
                return True
        return False

    def _program_rows(self, types: Bools) -> Int64s:
        return program_rows(self.tracks, self.events, types)

    @cached_property
    def _host_edges(self) -> tuple[Int64s, ...]:
        kinds = self.event_kinds
        named = (
            (kinds.host_class == HostClass.INPUT_WAIT)
            | kinds.has(EventFlag.CONSUMER_WAIT),
            self._waiting,
            kinds.has(EventFlag.OPTIMIZER),
            kinds.has(EventFlag.SERVING | EventFlag.ENGINE_ITERATION),
        )
        start = ints(self.events, "start_ps")
        rows = [self._program_rows(types) for types in named]
        rows[1] = rows[1][~self._copies_scalars(rows[1])]
        edges = [start[row] for row in rows]
        edges.append(self._backward_passes)
        modules = self._top_calls(kinds.has(EventFlag.MODULE_CALL)).values()
        begins = [calls.start_ps for calls in modules]
        edges.append(np.concatenate([np.empty(0, np.int64), *begins]))
        if self.correlation is not None:
            called = ints(self.correlation.launches, "start_ps")
            for row in self._edges_on_device(self.correlation.activity):
                launch = self.correlation.launch_of_activity[row]
                edges.append(called[launch[launch >= 0]])
        return tuple(edges)

    @cached_property
    def _device_edges(self) -> tuple[Int64s, ...]:
        if self.device_activity is None:
            return ()
        activity = self.device_activity
        start = ints(activity, "start_ps")
        edges = tuple(start[row] for row in self._edges_on_device(activity))
        if self.correlation is None:
            return edges
        launch = self.correlation.launch_of_activity
        # On the device, a backward pass begins with the first work that it launches.
        row = np.flatnonzero(launch >= 0)
        called = ints(self.correlation.launches, "start_ps")[launch[row]]
        order = np.argsort(called, kind="stable")
        first = np.searchsorted(called[order], self._backward_passes)
        return (*edges, start[row[order[first[first < len(row)]]]])

    @cached_property
    def _backward_passes(self) -> Int64s:
        """Host times at which a backward pass begins.

        Within a pass, no op of the program is between two gradient nodes.
        """
        is_node = self.event_types["name"].str.contains(_NODE)
        node = self._program_rows(is_node.fill_null(value=False).to_numpy())
        if not len(node):
            return np.empty(0, np.int64)
        start, dur = (ints(self.events, name) for name in ("start_ps", "dur_ps"))
        running = Spans.from_events(start[node], dur[node])
        op = self._program_rows(self.event_kinds.is_op())
        op = op[running.within(start[op], start[op] + 1) == 0]
        thread = handles(self.events, "track")[op]
        # Use only the program's own thread; other threads may run ops at any time.
        busiest = np.bincount(thread).argmax() if len(op) else -1
        op = op[thread == busiest]
        begins = np.concatenate([start[op], start[node]])
        order = np.argsort(begins, kind="stable")
        of_node = order >= len(op)
        passes: Int64s = begins[order[of_node & np.append([True], ~of_node[:-1])]]
        return passes

    def _edges_on_device(self, activity: pl.DataFrame) -> Iterator[Int64s]:
        """Yield the device activities that mark steps: copies and weight updates."""
        kind = codes(activity, "kind")
        yield np.flatnonzero(
            (kind == ACTIVITY_CODES["h2d"]) & ~_scalar_copies(activity)
        )
        yield np.flatnonzero(kind == ACTIVITY_CODES["d2h"])
        updates = self.event_kinds.has(EventFlag.OPTIMIZER)
        yield np.flatnonzero(updates[handles(activity, "type")])

    def _copies_scalars(self, rows: Int64s) -> Bools:
        """Return which events are inside an op that copies a scalar to the device.

        An op that copies a scalar waits for the copy. Any layer may contain scalar
        copies.
        """
        inside = np.zeros(len(rows), np.bool_)
        if self.correlation is None:
            return inside
        launches = self.correlation.launches
        scalars = _scalar_copies(self.correlation.activity)
        launch = self.correlation.launch_of_activity[scalars]
        launch = np.unique(launch[launch >= 0])
        called = ints(launches, "start_ps")[launch]
        thread = handles(launches, "track")[launch]
        start = ints(self.events, "start_ps")[rows]
        track = handles(self.events, "track")[rows]
        for of_thread, ops in self._calls[1].items():
            copying = ops.calls_around(called[thread == of_thread])
            own_rows = np.flatnonzero(track == of_thread)
            inside[own_rows] = np.isin(
                ops.calls_around(start[own_rows]), copying[copying >= 0]
            )
        return inside

    @cached_property
    def _calls(self) -> tuple[dict[int, _Calls], ...]:
        kinds = self.event_kinds
        return (
            self._top_calls(kinds.has(EventFlag.MODULE_CALL)),
            self._top_calls(kinds.is_op() & ~kinds.has(EventFlag.DATASET)),
            self._top_calls(kinds.has(EventFlag.SERVING | EventFlag.ENGINE_ITERATION)),
        )

    def _top_calls(self, types: Bools) -> dict[int, _Calls]:
        start, kind = ints(self.events, "start_ps"), handles(self.events, "type")
        end = start + ints(self.events, "dur_ps")
        outermost = outermost_by_thread(self.events, self._program_rows(types))
        return {
            track: _Calls(start[rows], end[rows], kind[rows])
            for track, rows in outermost.items()
        }

    @cached_property
    def _runs(self) -> frozenset[int]:
        return self._call_counts(self.event_kinds.has(PROGRAM_CALLS))

    @cached_property
    def _waits(self) -> frozenset[int]:
        """Set of counts: how often each type of wait or read-back event occurred."""
        return self._call_counts(self._waiting)

    @cached_property
    def _waiting(self) -> Bools:
        kinds = self.event_kinds
        waits = np.isin(kinds.host_class, (HostClass.SYNC, HostClass.READ_BACK))
        # A wait for the end of a program counts as running the program.
        return (waits | kinds.has(EventFlag.READ_BACK)) & ~kinds.has(PROGRAM_CALLS)

    def _call_counts(self, types: Bools) -> frozenset[int]:
        of_type = handles(self.events, "type")[self._program_rows(types)]
        return frozenset(np.unique(np.bincount(of_type)).tolist())

    @cached_property
    def _series(self) -> list[Int64s]:
        """Call starts of instances `X_0 … X_n` that are called once each, by `X`."""
        names = self.event_types.select(
            base=pl.col("name").str.extract(_INSTANCE, 1),
            part=pl.col("name").str.contains(_PART),
        )
        numbered = names["base"].is_not_null().to_numpy() & (
            self.event_kinds.has(EventFlag.MODULE_CALL) | names["part"].to_numpy()
        )
        row = self._program_rows(numbered)
        if not len(row):
            return []
        called = pl.DataFrame(
            {
                "type": handles(self.events, "type")[row],
                "at": ints(self.events, "start_ps")[row],
            }
        ).with_columns(base=names["base"].gather(handles(self.events, "type")[row]))
        series = (
            called.group_by("base", "type")
            .agg(pl.len().alias("times"), pl.col("at").min())
            .group_by("base")
            .agg(pl.col("times").max(), pl.col("at").sort())
            .filter(pl.col("times") == 1, pl.col("at").list.len() >= _MIN_SERIES_LENGTH)
            .sort("base")
        )
        return [begins.to_numpy() for begins in series["at"]]


def _scalar_copies(activity: pl.DataFrame) -> Bools:
    """Return which device activities copy only scalars to the device."""
    scalars = (pl.col("kind") == "h2d") & (pl.col("bytes") <= _MAX_SCALAR_BYTES)
    return activity.select(scalars.fill_null(value=False)).to_series().to_numpy()
