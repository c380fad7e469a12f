"""How functions of the program spend their time, and which only some steps call."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.columns.arrays import ints
from stepscope.derive.facts.evidence import Part
from stepscope.derive.host.core_time import places_of
from stepscope.derive.host.function_frames import FEW_LOOKS
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.run_derivation import of_each_host
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_S

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from stepscope.derive.account.host_waits import HostWaits
    from stepscope.derive.account.owned_time import Account
    from stepscope.derive.host.core_time import CoreTime
    from stepscope.derive.host.function_frames import FunctionFrames
    from stepscope.derive.host.function_lines import FunctionLines
    from stepscope.derive.host.function_purposes import FunctionPurposes
    from stepscope.derive.step_time.host_classes import HostClasses
    from stepscope.derive.step_windows.windows import Windows

#: Functions of libraries that hand out one element, or one row.
_ELEMENTS: Final = ("hands_out_elements", "works_on_rows")


class Way(Frozen, frozen=True, eq=True):
    """What a function's time is, in percent of it.

    Attributes:
        own: In lines of the program: its own, or those of functions that it calls. What
            operators and methods compute in compiled code is theirs.
        elements: In functions of libraries that hand out elements one by one.
        waiting: Where its thread wanted no core; None where no clock tells.
    """

    own: float
    elements: float
    libraries: float
    waiting: float | None


class FunctionWays(Frozen, frozen=True, dict=True):
    """The functions of a host, of which a rule asks one.

    Attributes:
        lines: The lines that ran; None where none were recorded.
        work: Device, None for the host → when the account has the host work for it.
        places: By row of tracks, the thread as its clocks know it.
        clocks: The clocks of threads; None where none were read.
        waits: When the program's own thread waits, on a host without devices; None
            where that is not known.
        ops: When ops run there: whether their threads wait is not known.
    """

    frames: FunctionFrames
    purposes: FunctionPurposes
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
            device: The device; None for a host without any.
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
        self_ps = self._self_ps(ran) * (mine | frames.called_from(mine))
        whole = max(int(self_ps.sum()), 1)
        taken = 100 * int(self_ps[self._of_elements].sum()) / whole
        of_libraries = self._of_libraries & ~self._of_elements
        others = 100 * int(self_ps[of_libraries].sum()) / whole
        tracks = np.unique(frames.track[mine]).tolist()
        waiting = self._waiting(ran, tracks, device)
        return Way(100 - taken - others, taken, others, waiting)

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

    def _self_ps(self, within: Spans) -> NDArray[np.int64]:
        """Return for how long each frame ran within a set while it called no other."""
        frames = self.frames
        time = within.within(frames.start_ps, frames.end_ps)
        below = np.zeros(len(frames.type), np.int64)
        called = frames.parent >= 0
        np.add.at(below, frames.parent[called], time[called])
        own: NDArray[np.int64] = np.maximum(time - below, 0)
        return own

    @cached_property
    def _of_libraries(self) -> NDArray[np.bool_]:
        names = self.frames.names.items()
        kinds = [kind for kind, name in names if name.library]
        return np.isin(self.frames.type, kinds)

    @cached_property
    def _of_elements(self) -> NDArray[np.bool_]:
        """Which frames hand out elements, or are called by one that does."""
        handing = np.isin(self.frames.type, self.purposes.types_of(*_ELEMENTS))
        return handing | (self.frames.called_from(handing) & self._of_libraries)


@of_each_host
def function_ways(
    *,
    account: Account,
    function_frames: FunctionFrames,
    function_purposes: FunctionPurposes,
    function_lines: FunctionLines | Unavailable,
    core_time: CoreTime | Unavailable,
    host_waits: HostWaits | Unavailable,
    host_classes: HostClasses | Unavailable,
    windows: Windows,
    tracks: pl.DataFrame,
) -> FunctionWays:
    """Return the functions of the hosts of which any were recorded."""
    ops = (
        host_classes
        if isinstance(host_classes, Unavailable)
        else host_classes.host_compute
    )
    lines = None if isinstance(function_lines, Unavailable) else function_lines.known()
    return FunctionWays(
        frames=function_frames,
        purposes=function_purposes,
        lines=lines,
        work={
            one.device: (one.idle["host_compute"] & windows.judged) - one.between
            for one in account.devices
        },
        places=places_of(tracks),
        clocks=None if isinstance(core_time, Unavailable) else core_time,
        waits=None if isinstance(host_waits, Unavailable) else host_waits.spans,
        ops=Spans.empty() if isinstance(ops, Unavailable) else ops,
    )


#: In the other steps the function has at most this part of what it has in some: of its
#: time, and of its share of a step.
_ELSEWHERE: Final = 0.2
#: It holds at least this part of what these steps take more than the others.
_MOST: Final = 0.5
#: What a program and its threads begin with holds all that they do.
_BEGINNINGS: Final = ("<module>", "_bootstrap")


class RareFunctions(Frozen, frozen=True):
    """When the program's own functions ran, on one host.

    It is no group of numbers: what a rule asks for is worked out then.

    Attributes:
        starts_ps: Begin of each judged step.
    """

    frames: FunctionFrames
    starts_ps: NDArray[np.int64]
    ends_ps: NDArray[np.int64]

    def of(self, chosen: NDArray[np.bool_], excess_ps: int) -> Part | None:
        """Return the program's function that makes some steps longer than the others.

        Of a function and what it calls the function counts. There is none where no
        function runs mostly in these steps and holds most of what they take more.

        Args:
            chosen: By judged step, whether it is one of them.
        """
        if len(chosen) != len(self.starts_ps) or chosen.all() or not chosen.any():
            return None
        best: tuple[int, int] | None = None
        lengths = np.maximum(self.ends_ps - self.starts_ps, 1)
        for kind, name in self.frames.names.items():
            if name.library is not False or name.function.endswith(_BEGINNINGS):
                continue
            spans = self.frames.spans(self.frames.type == kind)
            times = spans.within(self.starts_ps, self.ends_ps)
            inside, other = times[chosen], times[~chosen]
            if other.mean() > _ELSEWHERE * inside.mean():
                continue
            # What fills every step is longer in a longer one.
            part = times / lengths
            if part[~chosen].mean() > _ELSEWHERE * part[chosen].mean():
                continue
            whole = int(inside.sum())
            if whole >= _MOST * excess_ps and (best is None or whole > best[0]):
                best = whole, kind
        if best is None or not best[0]:
            return None
        name = self.frames.names[best[1]]
        total = int((self.ends_ps - self.starts_ps).sum())
        return Part.of_function(name, 100 * best[0] / total)


@of_each_host
def rare_functions(
    *, function_frames: FunctionFrames, windows: Windows
) -> RareFunctions:
    """Return the functions of the hosts of which any were recorded."""
    measured = windows.measured
    return RareFunctions(
        function_frames, ints(measured, "start_ps"), ints(measured, "end_ps")
    )
