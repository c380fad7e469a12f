"""Which containers of the program grow while it is recorded, and by how much.

They are looked at when the recording begins and when it ends: what an array takes is
known then, and by which name the program keeps it. Memory of the process cannot say it:
what is recorded takes memory too. A dictionary of arrays may be a cache that fills, and
a queue a buffer: of these only graphs of gradients count.

Definition: docs/formats/xplane.md#what-the-program-keeps.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from stepscope._core import recorder
from stepscope.capture.collectors.contract import Collected, Collector
from stepscope.capture.collectors.memory.containers import (
    MOST_S,
    growth_since,
    is_container,
    reachable_containers,
)
from stepscope.capture.collectors.memory.held import Added
from stepscope.capture.collectors.process import counters_space
from stepscope.xspace.vocabulary import KEPT_KINDS, KeptCounter

if TYPE_CHECKING:
    from stepscope.capture.collectors.memory.containers import Container
    from stepscope.capture.ground.clock import ClockPair
    from stepscope.capture.ground.options import ProfilerOptions

#: Containers that are written down, those first to which most was added.
_MOST: Final = 5
#: Members that a container has when the recording begins, if it grew before: a buffer
#: that fills in the first steps is none that grows for ever.
_BEFORE: Final = 5


class KeptCollector(Collector):
    """Compares the lengths of containers at the two ends of a recording."""

    name = "kept"

    def __init__(self) -> None:
        self._clock: ClockPair | None = None
        self._began_ns = 0
        #: Those of the beginning, by path and function; without what they hold.
        self._before: dict[tuple[str, str], tuple[int, int, int]] = {}

    def start_collecting(self, options: ProfilerOptions, clock: ClockPair) -> None:
        """Look at the containers for the first time, where counters are read."""
        if not options.counters_hz:
            return
        self._before = {
            (one.path, one.function): (identity, one.length, one.graph_bytes)
            for identity, one in reachable_containers().items()
        }
        self._clock, self._began_ns = clock, recorder.clock_ns()

    def drop_events(self) -> None:
        """Look at nothing again."""
        self._clock, self._before = None, {}

    def hand_over(self) -> Collected:
        """Look again, and write down what was added to which container."""
        clock, before = self._clock, self._before
        self._clock, self._before = None, {}
        if clock is None:
            return Collected(b"")
        ended_ns = recorder.clock_ns()
        grown: list[tuple[Added, str, str]] = []
        reached, until_s = reachable_containers(), time.thread_time() + MOST_S
        for identity, container in reached.items():
            if time.thread_time() > until_s:
                break
            place = container.path, container.function
            if place in before:
                added = _find_growth(identity, container, *before[place])
                if added is not None:
                    grown.append((added, *place))
        grown.sort(key=lambda one: -(one[0].graph_bytes + one[0].array_bytes))
        if not grown:
            return Collected(b"")
        rows = [
            (KeptCounter.name(kind, path, function), at_ns, value)
            for added, path, function in grown[:_MOST]
            # `Added` is in the order of kinds.
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
        # Each step makes a new tensor, whose graph goes on from the one before.
        more = now.graph_bytes - graph_bytes
        grew = graph_bytes > 0 and more > 0
        return Added(now.length - length, 0, more) if grew else None
    if identity != was or not length or not is_container(now.value):
        return None
    added = growth_since(now, length)
    # No buffer of batches holds graphs of gradients.
    if length < _BEFORE and not added.graph_bytes:
        return None
    is_kept = added.graph_bytes or (added.array_bytes and isinstance(now.value, list))
    return added if is_kept else None
