"""Recording of annotations and Python garbage collections, for any program."""

from __future__ import annotations

import gc
from itertools import compress
from typing import TYPE_CHECKING, Final

from stepscope._core import recorder
from stepscope.capture.base.annotate import forget_annotating, note_annotating
from stepscope.capture.base.encoding import Rows, ThreadNames, rows_fragment
from stepscope.capture.base.spool import Fragment
from stepscope.capture.collectors.contract import Collected, Collector
from stepscope.patterns import COLLECTION, RECORDERS_COLLECTION
from stepscope.xspace.vocabulary import FORWARDED_PLANE, HOST_PLANE

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.capture.base.clock import ClockPair
    from stepscope.capture.base.options import ProfilerOptions

#: Maximum number of annotations, and of garbage collections, between two flushes.
_RING_EVENTS: Final = 65_536
_RING_COLLECTIONS: Final = 8_192


class HostCollector(Collector):
    """Collector of annotations (`Trace`) and garbage collections."""

    name = "host"

    def __init__(
        self,
        *,
        ring_events: int = _RING_EVENTS,
        on_rows: Callable[[Rows], object] | None = None,
    ) -> None:
        """Prepare a collector whose `take_fragment` passes annotations to `on_rows`."""
        self._ring_events = ring_events
        self._on_rows = on_rows
        self._clock: ClockPair | None = None
        self._names = ThreadNames()
        self._collections = recorder.Collections(_RING_COLLECTIONS)
        self._reported_lost = 0
        self._opened = 0

    def start_collecting(self, options: ProfilerOptions, clock: ClockPair) -> None:
        """Begin to keep annotations and garbage collections."""
        del options
        self._clock = clock
        # In a forked child the recorder already keeps the child's first annotation.
        if not recorder.is_recording():
            recorder.start_recording(self._ring_events)
        forget_annotating()
        gc.callbacks.append(self._collections)

    def take_fragment(self) -> Fragment:
        """Take the events since the last call."""
        if self._clock is None:
            return Fragment(b"", 0)
        self._names.refresh_names()
        drained = recorder.drain_annotations()
        note_annotating(drained.thread)
        *own, are_forwarded = drained
        forwarded = [list(compress(column, are_forwarded)) for column in own]
        if forwarded[0]:
            are_own = [not is_forwarded for is_forwarded in are_forwarded]
            own = [list(compress(column, are_own)) for column in own]
        own_threads = self._names.own_threads()
        for begin_ns, end_ns, thread, stats in self._collections.take():
            name = RECORDERS_COLLECTION if thread in own_threads else COLLECTION
            row = (name, begin_ns, end_ns, thread, stats)
            for column, value in zip(own, row, strict=True):
                column.append(value)
        if self._on_rows is not None:
            self._on_rows(Rows(*own))
        lost = recorder.count_lost() + self._collections.lost()
        newly_lost, self._reported_lost = lost - self._reported_lost, lost
        return rows_fragment(
            {HOST_PLANE: Rows(*own), FORWARDED_PLANE: Rows(*forwarded)},
            clock=self._clock,
            names=self._names,
            lost=newly_lost,
            why_lost="annotations came faster than they were stored",
        )

    def halt_collecting(self) -> None:
        """Stop keeping events."""
        recorder.end_step()
        self._opened += recorder.stop_recording()
        self.forget_in_child()

    def forget_in_child(self) -> None:
        """Stop listening to garbage collections, which is enough in a forked child."""
        if self._collections in gc.callbacks:
            gc.callbacks.remove(self._collections)

    def hand_over(self) -> Collected:
        """Stop and return the remaining events."""
        self.halt_collecting()
        last = self.take_fragment()
        self._clock = None
        if not self._opened:
            return Collected(last.xspace)
        open_still = (
            f"{self._opened} annotations were open when recording stopped and are not "
            "in the profile"
        )
        return Collected(last.xspace, remarks=(open_still,))
