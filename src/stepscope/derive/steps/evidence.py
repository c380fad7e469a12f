"""What tells a step from a layer: where a program begins or ends one, and calls around.

Layers repeat as well as steps do. A step copies a batch, reads a result back, waits for
the device, computes gradients, updates the weights, serves a request or runs a program
of its own. Layers
lie together inside one call of a module, an op or a program.

Definition: docs/how-steps-are-found.md#steps-that-nobody-announced.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import codes, handles, ints
from stepscope.derive.names.event_kinds import EventFlag, HostClass
from stepscope.derive.repetition.sequences import program_threads
from stepscope.derive.steps.launches import PROGRAM_CALLS, is_outermost
from stepscope.frozen import Frozen
from stepscope.trace.device_activity import ACTIVITY_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from stepscope.derive.names.event_kinds import EventKinds

__all__ = ["StepEvidence"]

#: An edge belongs to the cycle if this share of the segments holds one.
_IN_NEARLY_ALL: Final = 0.9
#: This many repetitions per call that holds them are repetitions inside the call.
_PER_CALL: Final = 1.5
#: Fewer numbered instances are no series.
_LEAST_SERIES: Final = 3
#: Nodes of the graph of gradients, as PyTorch's engine runs them.
_NODE: Final = r"^autograd::engine::evaluate_function: "
#: Names that are numbered by instance.
_INSTANCE: Final = r"^(.*?)[_.# ]*\d+$"
#: A copy of so many bytes brings numbers to the device, not a batch.
_SCALAR_BYTES: Final = 64
#: What numbered ranges of parts of a model are called.
_PART: Final = r"(?i)(?:^|[^a-z])(?:layers?|blocks?|stage|encoder|decoder)[_.# ]*\d+$"


class _Calls(Frozen, frozen=True, eq=True):
    """Calls of one thread, one after another."""

    start_ps: NDArray[np.int64]
    end_ps: NDArray[np.int64]

    def around(self, at_ps: NDArray[np.int64]) -> NDArray[np.intp]:
        """Return the call around each time, -1 for none."""
        call = np.searchsorted(self.start_ps, at_ps, side="right") - 1
        inside = (call >= 0) & (at_ps < np.append(self.end_ps, 0)[call])
        return np.where(inside, call, -1)


_NONE: Final = _Calls(np.empty(0, np.int64), np.empty(0, np.int64))


class StepEvidence(Frozen, frozen=True, dict=True):
    """The tables in which edges of steps and calls around them are looked up."""

    tracks: pl.DataFrame
    events: pl.DataFrame
    event_types: pl.DataFrame
    event_kinds: EventKinds
    device_activity: pl.DataFrame | None
    launches: pl.DataFrame | None
    launch_of_activity: NDArray[np.int32] | None

    def lacks_an_edge(self, start_ps: NDArray[np.int64], *, on_device: bool) -> bool:
        """Return whether no kind of edge lies in nearly every segment.

        Args:
            start_ps: Begins of the segments, ascending; the last one is not looked at.
            on_device: They are times of device work, not of the host.
        """
        segments = len(start_ps) - 1
        if segments < 1:
            return True
        if not on_device and (np.abs(self._runs - len(start_ps)) <= 1).any():
            # Programs that run behind their calls: one call per segment, elsewhere.
            return False
        for at in self._device_edges if on_device else self._host_edges:
            held = np.searchsorted(start_ps, at, side="right") - 1
            held = held[(held >= 0) & (held < segments)]
            if len(np.unique(held)) >= _IN_NEARLY_ALL * segments:
                return False
        return True

    def inside_one_call(
        self, track: NDArray[np.int32], start_ps: NDArray[np.int64]
    ) -> bool:
        """Return whether repetitions share calls of modules, ops or requests.

        Args:
            track: Host thread of each begin.
            start_ps: Host time of each begin.
        """
        for calls in self._calls:
            shared = 0
            for thread in np.unique(track).tolist():
                at = start_ps[track == thread]
                outer = calls.get(thread, _NONE)
                call = np.searchsorted(outer.start_ps, at, side="right") - 1
                held = call >= 0
                held[held] = at[held] < outer.end_ps[call[held]]
                shared += len(np.unique(call[held])) + int((~held).sum())
            if len(start_ps) >= _PER_CALL * shared:
                return True
        return False

    def numbered_instances(self, start_ps: NDArray[np.int64]) -> bool:
        """Return whether each segment belongs to another instance of one module.

        Instances `X_0 … X_n` that were called once each are parts of one step.
        """
        for at in self._series:
            held = np.searchsorted(start_ps, at, side="right")
            held = np.unique(held[held > 0])
            if len(held) >= _IN_NEARLY_ALL * (len(start_ps) - 1) and (
                len(at) <= _PER_CALL * len(start_ps)
            ):
                return True
        return False

    @cached_property
    def _on_program_thread(self) -> NDArray[np.bool_]:
        return program_threads(self.tracks)[handles(self.events, "track")]

    def _rows_of(self, types: NDArray[np.bool_]) -> NDArray[np.int64]:
        if not types.any():
            return np.empty(0, np.int64)
        of_type = handles(self.events, "type")
        return np.flatnonzero(types[of_type] & self._on_program_thread)

    @cached_property
    def _host_edges(self) -> tuple[NDArray[np.int64], ...]:
        """Host times of edges, one array by kind."""
        kinds = self.event_kinds
        named = (
            (kinds.host_class == HostClass.INPUT_WAIT)
            | kinds.has(EventFlag.CONSUMER_WAIT),
            np.isin(kinds.host_class, (HostClass.SYNC, HostClass.READ_BACK))
            | kinds.has(EventFlag.READ_BACK),
            kinds.has(EventFlag.OPTIMIZER),
            kinds.has(EventFlag.SERVING | EventFlag.ENGINE_ITERATION),
        )
        start = ints(self.events, "start_ps")
        rows = [self._rows_of(types) for types in named]
        rows[1] = rows[1][~self._of_scalars(rows[1])]
        found = [start[row] for row in rows]
        for types in (kinds.has(PROGRAM_CALLS), kinds.has(EventFlag.MODULE_CALL)):
            begins = [calls.start_ps for calls in self._outermost(types).values()]
            found.append(np.concatenate([np.empty(0, np.int64), *begins]))
        found.append(self._turns_back())
        if self.launches is not None and self.launch_of_activity is not None:
            called = ints(self.launches, "start_ps")
            for row in self._edges_on_device():
                launch = self.launch_of_activity[row]
                found.append(called[launch[launch >= 0]])
        return tuple(found)

    def _turns_back(self) -> NDArray[np.int64]:
        """Return where threads that run a model turn to the pass of its gradients.

        What a node runs again (recomputed activations) lies in it.
        """
        kinds = self.event_kinds
        ops = kinds.is_op() & ~kinds.has(EventFlag.DATASET)
        of_type = handles(self.events, "type")
        node = self.event_types["name"].str.contains(_NODE).to_numpy()
        found = [np.empty(0, np.int64)]
        if node.any():
            for row in self._outermost_rows(ops).values():
                back = node[of_type[row]]
                turns = np.flatnonzero(back[1:] & ~back[:-1]) + 1
                found.append(ints(self.events, "start_ps")[row[turns]])
        return np.sort(np.concatenate(found))

    @cached_property
    def _device_edges(self) -> tuple[NDArray[np.int64], ...]:
        """Device times of edges, one array by kind."""
        if self.device_activity is None:
            return ()
        start = ints(self.device_activity, "start_ps")
        return tuple(start[row] for row in self._edges_on_device())

    def _edges_on_device(self) -> Iterator[NDArray[np.int64]]:
        """Yield what a step begins or ends with: copies, updates of weights."""
        if self.device_activity is None:
            return
        names = ACTIVITY_KINDS.categories.to_list()
        kind = codes(self.device_activity, "kind")
        yield np.flatnonzero((kind == names.index("h2d")) & ~self._scalars)
        yield np.flatnonzero(kind == names.index("d2h"))
        updates = self.event_kinds.has(EventFlag.OPTIMIZER)
        yield np.flatnonzero(updates[handles(self.device_activity, "type")])

    @cached_property
    def _scalars(self) -> NDArray[np.bool_]:
        """Return which activity copies so few bytes to the device as no batch has."""
        if self.device_activity is None:
            return np.empty(0, np.bool_)
        few = (pl.col("kind") == "h2d") & (pl.col("bytes") <= _SCALAR_BYTES)
        chosen = self.device_activity.select(few.fill_null(value=False)).to_series()
        found: NDArray[np.bool_] = chosen.to_numpy()
        return found

    def _of_scalars(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which events lie in an op that copies a scalar to the device.

        Such an op waits for its copy, in any layer of a model.
        """
        inside = np.zeros(len(rows), np.bool_)
        if self.launches is None or self.launch_of_activity is None:
            return inside
        launch = self.launch_of_activity[self._scalars]
        launch = np.unique(launch[launch >= 0])
        called = ints(self.launches, "start_ps")[launch]
        thread = handles(self.launches, "track")[launch]
        start = ints(self.events, "start_ps")[rows]
        track = handles(self.events, "track")[rows]
        for of_thread, ops in self._calls[1].items():
            copying = ops.around(called[thread == of_thread])
            mine = np.flatnonzero(track == of_thread)
            inside[mine] = np.isin(ops.around(start[mine]), copying[copying >= 0])
        return inside

    @cached_property
    def _calls(self) -> tuple[dict[int, _Calls], ...]:
        """The outermost calls of modules, ops, and requests, by thread."""
        kinds = self.event_kinds
        return (
            self._outermost(kinds.has(EventFlag.MODULE_CALL)),
            self._outermost(kinds.is_op() & ~kinds.has(EventFlag.DATASET)),
            self._outermost(kinds.has(EventFlag.SERVING | EventFlag.ENGINE_ITERATION)),
        )

    def _outermost(self, types: NDArray[np.bool_]) -> dict[int, _Calls]:
        """Return the calls of some types that lie in no other of them, by thread."""
        start, dur = (ints(self.events, name) for name in ("start_ps", "dur_ps"))
        return {
            track: _Calls(start[row], start[row] + dur[row])
            for track, row in self._outermost_rows(types).items()
        }

    def _outermost_rows(self, types: NDArray[np.bool_]) -> dict[int, NDArray[np.int64]]:
        """Return the rows of such calls, by thread."""
        row = self._rows_of(types)
        start, dur = (ints(self.events, name)[row] for name in ("start_ps", "dur_ps"))
        thread, end = handles(self.events, "track")[row], start + dur
        found = {}
        for track in np.unique(thread).tolist():
            mine = np.flatnonzero(thread == track)
            found[track] = row[mine[is_outermost(start[mine], end[mine])]]
        return found

    @cached_property
    def _runs(self) -> NDArray[np.int64]:
        """How often each program was called."""
        row = self._rows_of(self.event_kinds.has(PROGRAM_CALLS))
        return np.bincount(handles(self.events, "type")[row]).astype(np.int64)

    @cached_property
    def _series(self) -> list[NDArray[np.int64]]:
        """Begins of the instances of each numbered name, where each was called once."""
        names = self.event_types.select(
            base=pl.col("name").str.extract(_INSTANCE, 1),
            part=pl.col("name").str.contains(_PART),
        )
        numbered = names["base"].is_not_null().to_numpy() & (
            self.event_kinds.has(EventFlag.MODULE_CALL) | names["part"].to_numpy()
        )
        row = self._rows_of(numbered)
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
            .filter((pl.col("times") == 1) & (pl.col("at").list.len() >= _LEAST_SERIES))
            .sort("base")
        )
        return [at.to_numpy() for at in series["at"]]
