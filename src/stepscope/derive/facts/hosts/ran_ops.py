"""The ops that ran in the judged steps, and which of these ops a function calls."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.step_time.host_time import HostCode
from stepscope.frozen import Frozen
from stepscope.patterns import Pattern
from stepscope.unavailable import require_available

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepscope.array_types import Bools, Int64s
    from stepscope.derive.account.host_states import HostStates
    from stepscope.trace.model import TraceData

#: Event of a node of PyTorch's autograd graph; group 1 is the name of the node's op.
_NODE: Final = Pattern(r"^(?:autograd::engine::\w+: )?([A-Za-z]\w*)Backward\d*$")
_ENGINE: Final = "autograd::engine::"
_ATEN: Final = "aten::"
#: A sampled function is assumed to run for at least the time of all steps divided by
#: this number, because samples miss calls of a function that runs rarely.
_MIN_TIME_DIVISOR: Final = 4
#: Maximum forward ops per autograd node: activation checkpointing runs them twice.
_MAX_OPS_PER_NODE: Final = 2


class SampledTime(Frozen, frozen=True):
    """When a function ran, from samples or from recorded calls.

    Attributes:
        ran: When the function certainly ran.
        seen: When the function ran by samples; equal to `ran` for recorded calls.
        of_ps: Length of all steps, if samples are used; 0 for recorded calls.
    """

    ran: Spans
    seen: Spans
    of_ps: int


class RanOps(Frozen, frozen=True, dict=True):
    """The ops of the judged steps on some threads; the first three arrays are by op.

    Attributes:
        start_ps: Start of the op.
        end_ps: End of the op.
        kind: Number of the op's kind. Ops with one name are of one kind, but their
            executions in the backward pass are a separate kind.
        backward: By kind: whether the kind is a node of the autograd graph.
        forward: By kind: whether the autograd graph has a node for it.
        nodes: Number of nodes of the autograd graph that ran.
    """

    start_ps: Int64s
    end_ps: Int64s
    kind: NDArray[np.intp]
    backward: Bools
    forward: Bools
    nodes: int

    @cached_property
    def spans(self) -> Spans:
        """Return when any of the ops ran."""
        return Spans.from_bounds(self.start_ps, self.end_ps)

    def kinds_within(self, time: SampledTime) -> Bools:
        """Return, by kind of op, whether half of its time is within a function.

        The time within the function is extrapolated from when it certainly ran.
        """
        # 1 ps is added so that ops with a duration of 0 also count.
        length = self.end_ps - self.start_ps + 1
        held = np.bincount(
            self.kind, weights=time.ran.within(self.start_ps, self.end_ps + 1)
        )
        total = np.bincount(self.kind, weights=length)
        base_ps = max(time.seen.length_ps, time.of_ps // _MIN_TIME_DIVISOR)
        return (2 * held * base_ps >= total * time.ran.length_ps) & (held > 0)

    def spans_of_other_kinds(self, time: SampledTime) -> Spans:
        """Return the time of the ops whose kinds run mostly outside a function.

        Time in which ops of the function itself ran is not included.
        """
        own = self.kinds_within(time)[self.kind]
        length = self.end_ps - self.start_ps
        other_ops = Spans.from_events(self.start_ps[~own], length[~own])
        return other_ops - Spans.from_events(self.start_ps[own], length[own])

    def run_within(self, time: SampledTime) -> bool:
        """Return whether most kinds of ops have most of their time within a function.

        Kinds are counted instead of ops, because one kind may run any number of times.
        If gradients are computed, only ops with gradients count: most autograd nodes
        and most of their forward ops must run within the function.
        """
        held = self.kinds_within(time)
        if not self.forward.any():
            return _is_majority(held)
        return _is_majority(held[self.forward]) and _is_majority(held[self.backward])

    def pass_runs_within(self, time: SampledTime) -> bool:
        """Return whether the forward pass or the backward pass runs within a function.

        A function that runs many more forward ops than there are autograd nodes does
        not count: it may be a validation, which also runs the model.
        """
        inside = self.kinds_within(time)
        if not self.forward.any():
            return _is_majority(inside)
        if _is_majority(inside[self.backward]):
            return True
        ran = time.ran.within(self.start_ps, self.end_ps + 1) > 0
        forward = int((ran & self.forward[self.kind]).sum())
        return (
            _is_majority(inside[self.forward])
            and forward <= _MAX_OPS_PER_NODE * self.nodes
        )


def _is_majority(flags: Bools) -> bool:
    return 2 * int(flags.sum()) > len(flags)


def rows_of_threads(states: HostStates, threads: Sequence[int]) -> Int64s:
    """Return the rows of the events of some threads."""
    rows = [states.classes.rows.track_rows(track) for track in threads]
    return np.concatenate(
        [np.empty(0, np.int64), *(np.arange(part.start, part.stop) for part in rows)]
    )


def ran_ops(
    trace: TraceData, states: HostStates, threads: Sequence[int], judged: Spans
) -> RanOps:
    """Return the ops that some threads ran in the judged steps."""
    events = require_available(trace.table("events"))
    rows = rows_of_threads(states, threads)
    rows = rows[states.classes.code[rows] == HostCode.HOST_COMPUTE]
    start = ints(events, "start_ps")[rows]
    begun = judged.within(start, start + 1) > 0
    rows, start = rows[begun], start[begun]
    end = start + ints(events, "dur_ps")[rows]
    types, kind = np.unique(handles(events, "type")[rows], return_inverse=True)
    type_names = require_available(trace.table("event_types"))["name"]
    names = [type_names[int(kind_row)] or "" for kind_row in types]
    # Names of the ops that have nodes in PyTorch's autograd graph.
    nodes = [_NODE.match(name) for name in names]
    differentiated = {_bare_name(node[1]) for node in nodes if node is not None}
    backward = np.array([node is not None for node in nodes], bool)
    forward = np.array(
        [
            name.startswith(_ATEN) and _bare_name(name[len(_ATEN) :]) in differentiated
            for name in names
        ],
        bool,
    )
    kind = kind.ravel()
    # PyTorch records two nested events per autograd node; only the outer one counts.
    bare = np.array([not name.startswith(_ENGINE) for name in names], bool) & backward
    count = int((bare if bare.any() else backward)[kind].sum())
    # Ops that run forward and backward get a separate kind for the backward pass.
    node = backward[kind]
    ran = Spans.from_bounds(start[node], end[node])
    kind = kind + len(types) * (forward[kind] & (ran.within(start, start + 1) > 0))
    kinds, kind = np.unique(kind, return_inverse=True)
    first = kinds < len(types)
    kinds = kinds % max(len(types), 1)
    passes = backward[kinds], forward[kinds] & first
    return RanOps(*(start, end, kind.ravel()), *passes, count)


def _bare_name(name: str) -> str:
    """Return a normal form of an op's name, in which `_log_softmax` is `LogSoftmax`."""
    return name.replace("_", "").lower()
