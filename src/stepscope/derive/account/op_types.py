"""Time of ops by type: all instances of a type, on all threads of a host.

Definition: docs/where-a-steps-time-goes.md#names.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from stepscope.derive.intervals.nesting import nest_subset
from stepscope.derive.intervals.spans import Spans
from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.array_types import Bools, Int32s, Int64s

#: Number of types, largest first, that get all time in which any thread runs them. In
#: the time of the remaining types, the first thread that runs an op decides.
_MAX_WHOLE_TYPES: Final = 8


class ThreadOps(Frozen, frozen=True, dict=True):
    """The ops that one thread ran, in the order of their starts.

    Attributes:
        spans: The time of the thread in which these ops compute.
        type: Code of the type of each op.
        instance: Row of event_types of each op.
    """

    spans: Spans
    start_ps: Int64s
    dur_ps: Int64s
    type: Int32s
    instance: Int32s

    @cached_property
    def parent(self) -> Int32s:
        """Index of the op around each op, -1 for none."""
        track = np.zeros(len(self.type), np.int32)
        return nest_subset(self.start_ps, self.dur_ps, track=track).parent

    def self_time(self, spans: Spans) -> Int64s:
        """Return the self time of each op in the given spans."""
        time = spans.within(self.start_ps, self.start_ps + self.dur_ps)
        own = time.copy()
        inside = self.parent >= 0
        np.subtract.at(own, self.parent[inside], time[inside])
        return np.maximum(own, 0)

    def spans_of(self, op_type: int) -> Spans:
        """Return when ops of a type run, without the ops of other types in them."""
        ours = self.type == op_type
        nested = ~ours & (self.parent >= 0) & ours[self.parent]
        return (self.spans & self._spans_of_rows(ours)) - self._spans_of_rows(nested)

    def _spans_of_rows(self, chosen: Bools) -> Spans:
        return Spans.from_events(self.start_ps[chosen], self.dur_ps[chosen])


class TypeTime(NamedTuple):
    """The time of all ops of one type.

    Attributes:
        type: Code of the type.
        instance: Row of event_types with more than half of the time; -1 for none.
        is_only: Whether this is the only row with time.
    """

    type: int
    instance: int
    is_only: bool
    time_ps: int


def time_by_op_type(
    threads: Sequence[ThreadOps], spans: Spans, type_of: Int32s
) -> tuple[list[TypeTime], Spans]:
    """Divide time by the types of the ops that run in it.

    If ops of several types run at once, the type with the most self time on all threads
    gets the time, so that the largest type gets all of its time.

    Args:
        type_of: Code of the type by row of event_types.

    Returns:
        The times, and the spans in which no op runs.
    """
    types = len(type_of)
    total_ps, instance_ps = np.zeros(types, np.int64), np.zeros(types, np.int64)
    for ran in threads:
        np.add.at(total_ps, ran.type, ran.self_time(ran.spans))
    ranked = np.argsort(-total_ps, kind="stable")[:_MAX_WHOLE_TYPES]
    time_ps: dict[int, int] = {}
    left = spans
    for op_type in ranked[total_ps[ranked] > 0].tolist() if len(threads) > 1 else ():
        own = left & Spans.union_of(ran.spans_of(op_type) for ran in threads)
        time_ps[op_type] = own.length_ps
        for ran in threads:
            ours = ran.type == op_type
            ends = ran.start_ps[ours] + ran.dur_ps[ours]
            within = own.within(ran.start_ps[ours], ends)
            np.add.at(instance_ps, ran.instance[ours], within)
        left = left - own
    for ran in threads:
        covered = left & ran.spans
        own_ps = ran.self_time(covered)
        np.add.at(instance_ps, ran.instance, own_ps)
        by_type = np.zeros(types, np.int64)
        np.add.at(by_type, ran.type, own_ps)
        for op_type in np.flatnonzero(by_type).tolist():
            time_ps[op_type] = time_ps.get(op_type, 0) + int(by_type[op_type])
        left = left - covered
    total_ps[:] = 0
    np.add.at(total_ps, type_of, instance_ps)
    main = np.flatnonzero(2 * instance_ps > total_ps[type_of])
    only = instance_ps[main] == total_ps[type_of[main]]
    found = zip(type_of[main].tolist(), main.tolist(), only.tolist(), strict=True)
    instances = {kind: (row, is_only) for kind, row, is_only in found}
    times = [
        TypeTime(kind, *instances.get(kind, (-1, False)), time_ps=ps)
        for kind, ps in time_ps.items()
    ]
    return times, left
