"""How functions of the program spend their time: own lines, libraries, or waiting."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.advice.signals.signal import signal
from stepscope.derive.account.host_waits import host_waits
from stepscope.derive.account.owned_time import account
from stepscope.derive.host.called_below import called_by
from stepscope.derive.host.core_time import core_time, places_of
from stepscope.derive.host.function_frames import FEW_LOOKS, function_frames
from stepscope.derive.host.function_lines import function_lines
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.step_time.host_classes import host_classes
from stepscope.derive.step_windows.windows import windows
from stepscope.frozen import Frozen
from stepscope.patterns import Pattern
from stepscope.unavailable import Unavailable, present
from stepscope.units import PS_PER_S

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.advice.finding import Part
    from stepscope.derive.host.core_time import CoreTime
    from stepscope.derive.host.function_frames import FunctionFrames
    from stepscope.derive.host.function_lines import FunctionLines
    from stepscope.derive.profile_data import ProfileData
    from stepscope.thresholds import Thresholds

#: Functions of libraries that hand out one element, or one row.
_ELEMENTS: Final = Pattern(
    r"(?:^|\.)(?:__iter__|__next__|__getitem__|__setitem__|item)$"
)


class Way(Frozen, frozen=True, eq=True):
    """What a function's time is, in percent of it.

    Attributes:
        own: In lines of the program: its own, or those of functions that it calls. What
            operators and methods compute in compiled code is theirs.
        elements: In functions of libraries that hand out elements one by one.
        libraries: In other functions of libraries.
        waiting: Where its thread wanted no core; None where no clock tells.
    """

    own: float
    elements: float
    libraries: float
    waiting: float | None


class FunctionWays(Frozen, frozen=True, dict=True):
    """The functions of a host, of which a rule asks one.

    Attributes:
        frames: The functions that ran.
        lines: The lines that ran; None where none were recorded.
        work: Device, None for the host → when the account has the host work for it.
        places: By row of tracks, the thread as its clocks know it.
        clocks: The clocks of threads; None where none were read.
        waits: When the program's own thread waits, on a host without devices; None
            where that is not known.
        ops: When ops run there: whether their threads wait is not known.
    """

    frames: FunctionFrames
    lines: FunctionLines | None
    work: dict[int | None, Spans]
    places: list[tuple[str, int | None, int]]
    clocks: CoreTime | None
    waits: Spans | None
    ops: Spans

    def of(
        self, part: Part, device: int | None, *, only: Spans | None = None
    ) -> Way | None:
        """Return how a function spends the time for which a device or a host waits.

        None where it is no function, or no line, or was seen too seldom.

        Args:
            part: It.
            device: The device; None for a host without any.
            only: When the part counts, if not whenever it ran.
        """
        frames = self.frames
        kinds = [
            kind
            for kind, name in frames.names.items()
            if (name.function, name.file, name.line) == part.key
        ]
        mine = np.isin(frames.type, kinds)
        ran = Spans.from_events(
            frames.start_ps[mine], (frames.end_ps - frames.start_ps)[mine]
        )
        if part.lines is not None:
            ran = ran & self._at_lines(kinds, *part.lines)
        ran = ran & self.work.get(device, Spans.empty())
        ran = ran if only is None else ran & only
        looks = ran.length_ps * (frames.hz or 0.0) / PS_PER_S
        if not len(ran) or (frames.hz is not None and looks < FEW_LOOKS):
            return None
        inside = mine | called_by(mine, frames.parent)
        whole = self._own_ps(inside, ran)
        taken = self._own_ps(inside & self._of_elements, ran)
        others = self._own_ps(inside & self._of_libraries & ~self._of_elements, ran)
        own = whole - taken - others
        tracks = np.unique(frames.track[mine]).tolist()
        percent = 100 / max(whole, 1)
        waiting = self._waiting(ran, tracks, device)
        return Way(own * percent, taken * percent, others * percent, waiting)

    def _at_lines(self, kinds: list[int], first: int, last: int) -> Spans:
        """Return when functions of some types were at some of their lines."""
        lines = self.lines
        if lines is None:
            return Spans.empty()
        chosen = np.isin(lines.type, kinds)
        chosen &= (lines.line >= first) & (lines.line <= last)
        start = lines.start_ps[chosen]
        return Spans.from_events(start, lines.end_ps[chosen] - start)

    def _waiting(
        self, ran: Spans, tracks: list[int], device: int | None
    ) -> float | None:
        """Return in how much of a set some threads waited; None where nobody knows.

        Others may compute for a thread that sleeps.
        """
        if self.clocks is None:
            return None
        places = [self.places[track] for track in tracks]
        threads = [it for at in places if (it := self.clocks.threads.get(at))]
        known = ran & Spans.union_of(time.seen for time in threads)
        if device is None:
            asleep, known = self.waits, known - self.ops
        else:
            asleep = Spans.union_of(time.asleep for time in threads)
            rest = [self.clocks.rest.get(at[:2]) for at in places]
            asleep = asleep - Spans.union_of(it.awake for it in rest if it is not None)
        if asleep is None or 2 * known.length_ps < ran.length_ps:
            return None
        return 100 * (known & asleep).length_ps / known.length_ps

    def _own_ps(self, chosen: NDArray[np.bool_], within: Spans) -> int:
        """Return for how long frames ran within a set while they called no other."""
        frames = self.frames
        rows = np.flatnonzero(chosen)
        time = within.within(frames.start_ps, frames.end_ps)
        below = np.zeros(len(frames.type), np.int64)
        called = frames.parent >= 0
        np.add.at(below, frames.parent[called], time[called])
        return int(np.maximum(time - below, 0)[rows].sum())

    @cached_property
    def _of_libraries(self) -> NDArray[np.bool_]:
        names = self.frames.names.items()
        kinds = [kind for kind, name in names if name.library]
        return np.isin(self.frames.type, kinds)

    @cached_property
    def _of_elements(self) -> NDArray[np.bool_]:
        """Which frames hand out elements, or are called by one that does."""
        names = self.frames.names.items()
        kinds = [
            kind
            for kind, name in names
            if name.library and _ELEMENTS.search(name.function)
        ]
        found = np.isin(self.frames.type, kinds)
        return found | (called_by(found, self.frames.parent) & self._of_libraries)


@signal(
    *(account, function_frames, function_lines),
    *(core_time, host_waits, host_classes, windows, "tracks"),
    seldom=True,
)
def function_ways(profile: ProfileData, _: Thresholds) -> dict[str, FunctionWays]:
    """Return the functions of the hosts of which any were recorded."""
    found = {}
    for host in profile.hosts:
        accounted = profile.derived(host, account)
        frames = profile.derived(host, function_frames)
        if isinstance(accounted, Unavailable) or isinstance(frames, Unavailable):
            continue
        judged = present(profile.derived(host, windows)).judged
        lines = profile.derived(host, function_lines)
        clocks = profile.derived(host, core_time)
        waits = profile.derived(host, host_waits)
        classes = profile.derived(host, host_classes)
        ops = classes if isinstance(classes, Unavailable) else classes.host_compute
        found[host] = FunctionWays(
            frames=frames,
            lines=None if isinstance(lines, Unavailable) else lines.known(),
            work={
                one.device: (one.idle["host_compute"] & judged) - one.between
                for one in accounted.devices
            },
            places=places_of(present(profile.table(host, "tracks"))),
            clocks=None if isinstance(clocks, Unavailable) else clocks,
            waits=None if isinstance(waits, Unavailable) else waits.spans,
            ops=Spans.empty() if isinstance(ops, Unavailable) else ops,
        )
    return found
