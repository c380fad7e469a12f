"""How functions of the program spend their time, and which only some steps call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.columns.arrays import ints
from stepscope.derive.facts.evidence import Part
from stepscope.derive.host.core_time import thread_places
from stepscope.derive.host.function_frames import BEGINNINGS, FEW_LOOKS
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.run_derivation import of_each_host
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_S

if TYPE_CHECKING:
    import polars as pl

    from stepscope.array_types import Bools, Int64s
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


class FunctionWays(Frozen, frozen=True):
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

    def way_of_function(
        self, part: Part, device: int | None, *, only: Spans | None = None
    ) -> Way | None:
        """Return how a function spends the time for which a device or a host waits.

        None where it is no function, or no line, or was sampled too rarely.

        Args:
            device: The device; None for a host without any.
        """
        frames = self.frames
        kinds = [
            kind
            for kind, name in frames.names.items()
            if (name.function, name.file, name.line) == part.key
        ]
        calls = np.isin(frames.type, kinds)
        ran = frames.spans(calls)
        if part.lines is not None and self.lines is not None:
            first, last = part.lines
            chosen = np.isin(self.lines.type, kinds)
            chosen &= (self.lines.line >= first) & (self.lines.line <= last)
            ran = ran & self.lines.spans_of_rows(chosen)
        ran = ran & self.work.get(device, Spans.empty())
        ran = ran if only is None else ran & only
        looks = ran.length_ps * (frames.hz or 0.0) / PS_PER_S
        if not len(ran) or (frames.hz is not None and looks < FEW_LOOKS):
            return None
        # For how long each frame ran while it called no other.
        time = ran.within(frames.start_ps, frames.end_ps)
        called, below = frames.parent >= 0, np.zeros(len(frames.type), np.int64)
        np.add.at(below, frames.parent[called], time[called])
        self_ps = np.maximum(time - below, 0) * (calls | frames.rows_called_from(calls))
        whole = max(int(self_ps.sum()), 1)
        libraries = [kind for kind, name in frames.names.items() if name.library]
        of_libraries = np.isin(frames.type, libraries)
        elements = np.isin(frames.type, self.purposes.types_with_work(*_ELEMENTS))
        elements |= frames.rows_called_from(elements) & of_libraries
        taken = 100 * int(self_ps[elements].sum()) / whole
        others = 100 * int(self_ps[of_libraries & ~elements].sum()) / whole
        tracks = np.unique(frames.track[calls]).tolist()
        waiting = self._waiting_percent(ran, tracks, device)
        return Way(100 - taken - others, taken, others, waiting)

    def _waiting_percent(
        self, ran: Spans, tracks: list[int], device: int | None
    ) -> float | None:
        """Return in how much of a set some threads waited; None where nobody knows.

        Others may compute for a thread that sleeps.
        """
        if self.clocks is None:
            return None
        places = [self.places[track] for track in tracks]
        threads = [it for place in places if (it := self.clocks.threads.get(place))]
        known = ran & Spans.union_of(time.seen for time in threads)
        if device is None:
            asleep, known = self.waits, known - self.ops
        else:
            asleep = Spans.union_of(time.asleep for time in threads)
            other_threads = [self.clocks.rest.get(place[:2]) for place in places]
            asleep = asleep - Spans.union_of(
                it.awake for it in other_threads if it is not None
            )
        if asleep is None or 2 * known.length_ps < ran.length_ps:
            return None
        return 100 * (known & asleep).length_ps / known.length_ps


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
        places=thread_places(tracks),
        clocks=None if isinstance(core_time, Unavailable) else core_time,
        waits=None if isinstance(host_waits, Unavailable) else host_waits.spans,
        ops=Spans.empty() if isinstance(ops, Unavailable) else ops,
    )


#: In the other steps the function has at most this part of what it has in some: of its
#: time, and of its share of a step.
_ELSEWHERE: Final = 0.2
#: It holds at least this part of what these steps take more than the others.
_MOST: Final = 0.5


class RareFunctions(Frozen, frozen=True):
    """When the program's own functions ran, on one host.

    It is no group of numbers: what a rule asks for is worked out then.

    Attributes:
        starts_ps: Begin of each judged step.
    """

    frames: FunctionFrames
    starts_ps: Int64s
    ends_ps: Int64s

    def of(self, chosen: Bools, excess_ps: int) -> Part | None:
        """Return the program's function that makes some steps longer than the others.

        Of a function and what it calls the function counts. There is none where no
        function runs mostly in these steps and holds most of what they take more.

        Args:
            chosen: By judged step, whether it is one of them.
        """
        if len(chosen) != len(self.starts_ps) or chosen.all() or not chosen.any():
            return None
        best_ps, best = 0, None
        lengths = np.maximum(self.ends_ps - self.starts_ps, 1)
        for kind, name in self.frames.names.items():
            if name.library is not False or name.function.endswith(BEGINNINGS):
                continue
            spans = self.frames.spans(self.frames.type == kind)
            times = spans.within(self.starts_ps, self.ends_ps)
            # What fills every step is longer in a longer one.
            is_rare = all(
                part[~chosen].mean() <= _ELSEWHERE * part[chosen].mean()
                for part in (times, times / lengths)
            )
            whole = int(times[chosen].sum())
            if is_rare and whole >= _MOST * excess_ps and whole > best_ps:
                best_ps, best = whole, name
        total = int((self.ends_ps - self.starts_ps).sum())
        return None if best is None else Part.from_function(best, 100 * best_ps / total)


@of_each_host
def rare_functions(
    *, function_frames: FunctionFrames, windows: Windows
) -> RareFunctions:
    """Return the functions of the hosts of which any were recorded."""
    measured = windows.measured
    return RareFunctions(
        function_frames, ints(measured, "start_ps"), ints(measured, "end_ps")
    )
