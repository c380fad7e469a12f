"""The ops that ran in the judged steps, and which of them a function calls."""

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

#: A node of PyTorch's graph of gradients, and the op that it is of.
_NODE: Final = Pattern(r"^(?:autograd::engine::\w+: )?([A-Za-z]\w*)Backward\d*$")
_ENGINE: Final = "autograd::engine::"
_ATEN: Final = "aten::"
#: Of a function that takes less than this part of all steps, looks find some calls
#: only: ops of a kind that run far more densely within these looks are its own.
_SELDOM: Final = 4
#: A pass that is run again for its gradients, to save memory, runs twice for each.
_FAR_MORE: Final = 2


class SampledTime(Frozen, frozen=True):
    """When a function ran, and of how much time that was found by samples.

    Attributes:
        ran: When it surely ran.
        seen: When samples say that it ran; `ran` for exact calls.
        of_ps: The time of all steps, where it is known from samples; 0 for exact calls.
    """

    ran: Spans
    seen: Spans
    of_ps: int


class RanOps(Frozen, frozen=True, dict=True):
    """The ops of the judged steps on some threads, one entry each.

    Attributes:
        start_ps: When each began.
        end_ps: When it ended.
        kind: Number of its kind: ops of one name are of one kind.
        backward: Of each kind, whether it is a node of the graph of gradients.
        forward: Of each kind, whether it has such a node.
        nodes: How many nodes of that graph ran.
    """

    start_ps: Int64s
    end_ps: Int64s
    kind: NDArray[np.intp]
    backward: Bools
    forward: Bools
    nodes: int

    @cached_property
    def spans(self) -> Spans:
        """Return when any of them ran."""
        return Spans.from_events(self.start_ps, self.end_ps - self.start_ps)

    def kinds_within(self, time: SampledTime) -> Bools:
        """Return of each kind whether at least half of its time lies within a function.

        What runs while it surely ran stands for all the time that it was seen.
        """
        # An op of no length counts too.
        length = self.end_ps - self.start_ps + 1
        held = np.bincount(
            self.kind, weights=time.ran.within(self.start_ps, self.end_ps + 1)
        )
        every = np.bincount(self.kind, weights=length)
        seen_ps = max(time.seen.length_ps, time.of_ps // _SELDOM)
        within: Bools = (2 * held * seen_ps >= every * time.ran.length_ps) & (held > 0)
        return within

    def spans_of_other_kinds(self, time: SampledTime) -> Spans:
        """Return when ops run whose kinds mostly run at other times than a function.

        A call of the framework around an op that is the function's own is its own too.
        """
        own = self.kinds_within(time)[self.kind]
        length = self.end_ps - self.start_ps
        others = Spans.from_events(self.start_ps[~own], length[~own])
        return others - Spans.from_events(self.start_ps[own], length[own])

    def run_within(self, time: SampledTime) -> bool:
        """Return whether most kinds mostly run within a function.

        By kinds, since one of them may run any number of times. Where gradients are
        computed the model is what has them: most of them, and most of the ops that
        they belong to, begin within it.
        """
        inside = self.kinds_within(time)
        if not self.forward.any():
            return _is_majority(inside)
        return _is_majority(inside[self.forward]) and _is_majority(
            inside[self.backward]
        )

    def pass_runs_within(self, time: SampledTime) -> bool:
        """Return whether a pass of the model, or all of it, runs within a function.

        What runs far more of the forward pass than has gradients is no pass: a
        validation runs the model too, and may run it more often than the training.
        """
        inside = self.kinds_within(time)
        if not self.forward.any():
            return _is_majority(inside)
        if _is_majority(inside[self.backward]):
            return True
        ran = time.ran.within(self.start_ps, self.end_ps + 1) > 0
        forward = int((ran & self.forward[self.kind]).sum())
        return _is_majority(inside[self.forward]) and forward <= _FAR_MORE * self.nodes


def _is_majority(flags: Bools) -> bool:
    return 2 * int(flags.sum()) > len(flags)


def rows_of_threads(states: HostStates, threads: Sequence[int]) -> Int64s:
    """Return the rows of the events of some threads."""
    rows = [states.classes.rows.track_rows(track) for track in threads]
    return np.concatenate(
        [np.empty(0, np.int64), *(np.arange(it.start, it.stop) for it in rows)]
    )


def ran_ops(
    trace: TraceData, states: HostStates, threads: Sequence[int], judged: Spans
) -> RanOps:
    """Return what some threads ran in the judged steps."""
    events = require_available(trace.table("events"))
    rows = rows_of_threads(states, threads)
    rows = rows[states.classes.code[rows] == HostCode.HOST_COMPUTE]
    start = ints(events, "start_ps")[rows]
    begun = judged.within(start, start + 1) > 0
    rows, start = rows[begun], start[begun]
    end = start + ints(events, "dur_ps")[rows]
    types, kind = np.unique(handles(events, "type")[rows], return_inverse=True)
    every = require_available(trace.table("event_types"))["name"]
    names = [every[int(it)] or "" for it in types]
    # Which ops PyTorch's graph of gradients names, and which these belong to.
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
    # The engine's own event of a node lies around the node's.
    bare = np.array([not name.startswith(_ENGINE) for name in names], bool) & backward
    count = int((bare if bare.any() else backward)[kind].sum())
    # The same ops run in both passes: those of the backward one are kinds of their own.
    node = backward[kind]
    ran = Spans.from_events(start[node], (end - start)[node])
    kind = kind + len(types) * (forward[kind] & (ran.within(start, start + 1) > 0))
    kinds, kind = np.unique(kind, return_inverse=True)
    first = kinds < len(types)
    kinds = kinds % max(len(types), 1)
    passes = backward[kinds], forward[kinds] & first
    return RanOps(*(start, end, kind.ravel()), *passes, count)


def _bare_name(name: str) -> str:
    """Return an op's name as both spellings have it: `_log_softmax`, `LogSoftmax`."""
    return name.replace("_", "").lower()
