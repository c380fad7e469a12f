"""The ops that ran in the judged steps, and which of them a function calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.step_time.host_time import HostCode
from stepscope.frozen import Frozen
from stepscope.patterns import Pattern
from stepscope.unavailable import present

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepscope.derive.account.host_states import HostStates
    from stepscope.trace.model import TraceData

#: A node of PyTorch's graph of gradients, and the op that it is of.
_NODE: Final = Pattern(r"^(?:autograd::engine::\w+: )?([A-Za-z]\w*)Backward\d*$")
_ENGINE: Final = "autograd::engine::"
_ATEN: Final = "aten::"
#: Ops of a kind that run so many times as densely within a function's looks as they do
#: in all steps are called by it, however few of its calls were looked at.
_DENSELY: Final = 2
#: A pass that is run again for its gradients, to save memory, runs twice for each.
_FAR_MORE: Final = 2


class Looks(Frozen, frozen=True):
    """When a function ran, and of how much time that was found by looks.

    Attributes:
        ran: When it ran.
        of_ps: The time of all steps, where it is known from samples; 0 for exact calls.
        seen: When looks say that it ran; `ran` is what is sure of it.
        near: When it may have run, up to half a look around that.
    """

    ran: Spans
    of_ps: int
    seen: Spans = Spans.empty()
    near: Spans = Spans.empty()


class RanOps(Frozen, frozen=True):
    """The ops of the judged steps on some threads, one entry each.

    Attributes:
        start_ps: When each began.
        end_ps: When it ended.
        kind: Number of its kind: ops of one name are of one kind.
        backward: Of each kind, whether it is a node of the graph of gradients.
        forward: Of each kind, whether it has such a node.
        nodes: How many nodes of that graph ran.
    """

    start_ps: NDArray[np.int64]
    end_ps: NDArray[np.int64]
    kind: NDArray[np.intp]
    backward: NDArray[np.bool_]
    forward: NDArray[np.bool_]
    nodes: int

    def mostly_in(self, spans: Looks) -> NDArray[np.bool_]:
        """Return of each kind whether at least half of its time lies within a set.

        Of what looks found, the time in which it surely ran need not be half: a look
        comes seldom in each call. There ops that run far more densely count too, and
        those of which more runs while it was seen than while it surely did not, as far
        as the sure time of both tells.
        """
        # An op of no length counts too.
        length = self.end_ps - self.start_ps + 1
        held = np.bincount(
            self.kind, weights=spans.ran.within(self.start_ps, self.end_ps + 1)
        )
        every = np.bincount(self.kind, weights=length)
        found = 2 * held >= every
        if spans.of_ps:
            found |= held * spans.of_ps >= _DENSELY * every * spans.ran.length_ps
            found |= self._more_within(spans, held, every)
        return found

    def _more_within(
        self, spans: Looks, held: NDArray[Any], every: NDArray[Any]
    ) -> NDArray[np.bool_]:
        """Return of each kind whether more of it runs within looks than beside them.

        What lies around the begin and the end of looks tells nothing: the sure time
        within speaks for all of it that was seen, that beside it for the rest.

        Args:
            spans: When a function ran.
            held: Time of each kind that surely lies within.
            every: Time of each kind.
        """
        sure, seen, beside = (
            *(spans.ran.length_ps, spans.seen.length_ps),
            spans.of_ps - spans.near.length_ps,
        )
        if sure <= 0 or beside <= 0:
            return np.zeros(len(held), np.bool_)
        near = np.bincount(
            self.kind, weights=spans.near.within(self.start_ps, self.end_ps + 1)
        )
        within = held / sure * seen
        outside = np.maximum(every - near, 0) / beside * (spans.of_ps - seen)
        more: NDArray[np.bool_] = (held > 0) & (within >= outside)
        return more

    def of_kinds_elsewhere(self, spans: Looks) -> Spans:
        """Return when ops run whose kinds mostly run at other times than a function.

        A call of the framework around an op that is the function's own is its own too.
        """
        own = self.mostly_in(spans)[self.kind]
        length = self.end_ps - self.start_ps
        others = Spans.from_events(self.start_ps[~own], length[~own])
        return others - Spans.from_events(self.start_ps[own], length[own])

    def are_of(self, spans: Looks) -> bool:
        """Return whether most kinds mostly run within a set.

        By kinds, since one of them may run any number of times. Where gradients are
        computed the model is what has them: most of them, and most of the ops that
        they belong to, begin within the set.
        """
        inside = self.mostly_in(spans)
        if not self.forward.any():
            return _most(inside)
        return _most(inside[self.forward]) and _most(inside[self.backward])

    def are_partly_of(self, spans: Looks) -> bool:
        """Return whether a pass of the model, or all of it, runs within a set."""
        inside = self.mostly_in(spans)
        if not self.forward.any():
            return _most(inside)
        if _most(inside[self.backward]):
            return True
        return _most(inside[self.forward]) and not self._ask_within(spans)

    def _ask_within(self, spans: Looks) -> bool:
        """Return whether a set holds far more of the forward pass than has gradients.

        A validation runs the model too, and may run it more often than the training.
        """
        ran = spans.ran.within(self.start_ps, self.end_ps + 1) > 0
        return int((ran & self.forward[self.kind]).sum()) > _FAR_MORE * self.nodes


def _most(flags: NDArray[np.bool_]) -> bool:
    return 2 * int(flags.sum()) > len(flags)


def rows_of(states: HostStates, threads: Sequence[int]) -> NDArray[np.int64]:
    """Return the rows of the events of some threads."""
    mine = [states.classes.rows.track_rows(track) for track in threads]
    return np.concatenate(
        [np.empty(0, np.int64), *(np.arange(it.start, it.stop) for it in mine)]
    )


def ran_ops(
    trace: TraceData,
    states: HostStates,
    threads: Sequence[int],
    judged: Spans,
) -> RanOps:
    """Return what some threads ran in the judged steps."""
    events = present(trace.table("events"))
    rows = rows_of(states, threads)
    rows = rows[states.classes.code[rows] == HostCode.HOST_COMPUTE]
    start = ints(events, "start_ps")[rows]
    begun = judged.within(start, start + 1) > 0
    rows, start = rows[begun], start[begun]
    types, kind = np.unique(handles(events, "type")[rows], return_inverse=True)
    every = present(trace.table("event_types"))["name"]
    names = [every[int(one)] or "" for one in types]
    backward, forward = _passes(names)
    # The engine's own event of a node lies around the node's.
    bare = np.array([not name.startswith(_ENGINE) for name in names], bool) & backward
    count = int((bare if bare.any() else backward)[kind.ravel()].sum())
    end = start + ints(events, "dur_ps")[rows]
    kind = kind.ravel()
    # The same ops run in both passes: those of the backward one are kinds of their own.
    node = backward[kind]
    nodes = Spans.from_events(start[node], (end - start)[node])
    kind = kind + len(types) * (forward[kind] & (nodes.within(start, start + 1) > 0))
    kinds, kind = np.unique(kind, return_inverse=True)
    first = kinds < len(types)
    kinds = kinds % max(len(types), 1)
    passes = backward[kinds], forward[kinds] & first
    return RanOps(*(start, end, kind.ravel()), *passes, count)


def _passes(names: list[str]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which ops PyTorch's graph of gradients names, and which it belongs to."""
    nodes = [_NODE.match(name) for name in names]
    differentiated = {_bare(node[1]) for node in nodes if node is not None}
    return (
        np.array([node is not None for node in nodes], bool),
        np.array(
            [
                name.startswith(_ATEN) and _bare(name[len(_ATEN) :]) in differentiated
                for name in names
            ],
            bool,
        ),
    )


def _bare(name: str) -> str:
    """Return an op's name as both spellings have it: `_log_softmax`, `LogSoftmax`."""
    return name.replace("_", "").lower()
