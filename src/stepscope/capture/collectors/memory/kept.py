"""Containers of the program that grow during a recording, and by how much.

Containers are examined at the start and the end of the recording, which gives the size
of their arrays and the name by which the program keeps them. The memory use of the
process cannot show such growth, because the recording uses memory too. A dictionary of
arrays may be a cache, and a queue a buffer, so in dictionaries and queues only autograd
graphs count.

Definition: docs/formats/xplane.md#what-the-program-keeps.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from stepscope._core import recorder
from stepscope.capture.collectors.contract import Collected, Collector
from stepscope.capture.collectors.memory.containers import (
    MAX_CPU_S,
    growth_since,
    is_container,
    reachable_containers,
)
from stepscope.capture.collectors.memory.graphs import Added
from stepscope.capture.collectors.process import counters_space
from stepscope.xspace.vocabulary import KEPT_KINDS, KeptCounter

if TYPE_CHECKING:
    from stepscope.capture.base.clock import ClockPair
    from stepscope.capture.base.options import ProfilerOptions
    from stepscope.capture.collectors.memory.containers import Container

#: Maximum number of containers in the profile: those that grew most, in that order.
_MAX_CONTAINERS: Final = 5
#: Minimum members at the start of a recording: a container with fewer may be a buffer
#: that fills in the first steps and does not grow forever.
_MIN_MEMBERS: Final = 5


class KeptCollector(Collector):
    """Collector that compares containers at the start and the end of a recording."""

    name = "kept"

    def __init__(self) -> None:
        self._clock: ClockPair | None = None
        self._began_ns = 0
        #: (path, function) → `id`, length and graph bytes at the start.
        self._before: dict[tuple[str, str], tuple[int, int, int]] = {}

    def start_collecting(self, options: ProfilerOptions, clock: ClockPair) -> None:
        """Examine the containers for the first time, unless `counters_hz` is 0."""
        if not options.counters_hz:
            return
        self._before = {
            (container.path, container.function): (
                identity,
                container.length,
                container.graph_bytes,
            )
            for identity, container in reachable_containers().items()
        }
        self._clock, self._began_ns = clock, recorder.clock_ns()

    def drop_events(self) -> None:
        """Forget the containers without a second search."""
        self._clock, self._before = None, {}

    def hand_over(self) -> Collected:
        """Examine the containers again, and return the growth of each."""
        clock, before = self._clock, self._before
        self._clock, self._before = None, {}
        if clock is None:
            return Collected(b"")
        ended_ns = recorder.clock_ns()
        grown: list[tuple[Added, str, str]] = []
        reached, until_s = reachable_containers(), time.thread_time() + MAX_CPU_S
        for identity, container in reached.items():
            if time.thread_time() > until_s:
                break
            place = container.path, container.function
            if place in before:
                added = _find_growth(identity, container, *before[place])
                if added is not None:
                    grown.append((added, *place))
        grown.sort(key=lambda growth: -(growth[0].graph_bytes + growth[0].array_bytes))
        if not grown:
            return Collected(b"")
        rows = [
            (KeptCounter.name(kind, path, function), at_ns, value)
            for added, path, function in grown[:_MAX_CONTAINERS]
            # The fields of `Added` are in the order of `KEPT_KINDS`.
            for kind, count in zip(KEPT_KINDS, added, strict=True)
            for at_ns, value in ((self._began_ns, 0.0), (ended_ns, float(count)))
        ]
        return Collected(counters_space(rows, clock))


def _find_growth(
    identity: int, now: Container, was: int, length: int, graph_bytes: int
) -> Added | None:
    if now.length <= length:
        return None
    if now.graph_bytes:
        # Each step computes a new tensor, whose graph continues the previous one.
        added_bytes = now.graph_bytes - graph_bytes
        grew = graph_bytes > 0 and added_bytes > 0
        return Added(now.length - length, 0, added_bytes) if grew else None
    if identity != was or not length or not is_container(now.value):
        return None
    added = growth_since(now, length)
    # A small container may be a buffer, unless it holds autograd graphs.
    if length < _MIN_MEMBERS and not added.graph_bytes:
        return None
    is_kept = added.graph_bytes or (added.array_bytes and isinstance(now.value, list))
    return added if is_kept else None
