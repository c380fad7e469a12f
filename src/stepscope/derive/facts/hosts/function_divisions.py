"""Division of the time of a program's functions, and functions that few steps call."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.facts.evidence import Part
from stepscope.derive.host.core_time import thread_identities
from stepscope.derive.host.function_frames import BEGINNINGS, MIN_INTERVAL_SAMPLES
from stepscope.derive.host.function_purposes import work_of_call
from stepscope.derive.intervals.nesting import self_times
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.run_derivation import of_each_host
from stepscope.derive.step_windows.windows import window_bounds
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_S

if TYPE_CHECKING:
    import polars as pl

    from stepscope.array_types import Bools, Int64s
    from stepscope.derive.account.host_waits import HostWaits
    from stepscope.derive.account.time_by_cause import Account
    from stepscope.derive.host.core_time import CoreTime
    from stepscope.derive.host.function_frames import FunctionFrames
    from stepscope.derive.host.function_lines import FunctionLines
    from stepscope.derive.host.function_purposes import FunctionPurposes, KnownWork
    from stepscope.derive.step_time.host_classes import HostClasses
    from stepscope.derive.step_windows.windows import Windows

#: Kinds of library functions that return one element or one row.
_ELEMENTS: Final = ("hands_out_elements", "works_on_rows")


class TimeDivision(Frozen, frozen=True, eq=True):
    """Division of a function's time into lines of code; each part in percent.

    Attributes:
        own: Time in lines of the program, of this function or of functions that it
            calls, without functions on arrays that these lines call.
        elements: Time in library functions that return elements one by one.
        libraries: Time in all other library functions.
        waiting: Time in which the thread did not want a core; None if unknown.
        called: The compiled function that takes half of the time; None without one.
        works: Kinds of work that take half of the time, in library functions or in
            compiled functions.
    """

    own: float
    elements: float
    libraries: float
    waiting: float | None
    called: str | None = None
    works: tuple[KnownWork | None, ...] = ()


class FunctionDivisions(Frozen, frozen=True):
    """Data of one host for dividing the time of the host's functions.

    Attributes:
        purposes: Purposes of known library functions.
        lines: Executed lines; None if not recorded.
        work: Device (None for a host without devices) → when it waited for the host.
        places: Identity of each thread in `clocks`, by row of tracks.
        clocks: CPU times of threads; None if not recorded.
        waits: When the program's thread waits, without devices; None if unknown.
        ops: When ops run; it is unknown whether threads wait in ops.
    """

    frames: FunctionFrames
    purposes: FunctionPurposes
    lines: FunctionLines | None
    work: dict[int | None, Spans]
    places: list[tuple[str, int | None, int]]
    clocks: CoreTime | None
    waits: Spans | None
    ops: Spans

    def division_of_function(
        self, part: Part, device: int | None, *, only: Spans | None = None
    ) -> TimeDivision | None:
        """Divide the time of a function in which a device or host waits for it.

        The result is None if `part` is not a function or line, or has too few samples.

        Args:
            device: The device; None for a host without devices.
            only: Time to which the division is limited; None for all time.
        """
        frames = self.frames
        kinds = [kind for kind, name in frames.names.items() if name.key == part.key]
        calls = np.isin(frames.type, kinds)
        ran = frames.spans(calls)
        if part.lines is not None and self.lines is not None:
            first, last = part.lines
            chosen = np.isin(self.lines.type, kinds)
            chosen &= (self.lines.line >= first) & (self.lines.line <= last)
            ran = ran & self.lines.spans_of_rows(chosen)
        ran = ran & self.work.get(device, Spans.empty())
        ran = ran if only is None else ran & only
        hz = frames.hz
        if ran.length_ps < (1 if hz is None else MIN_INTERVAL_SAMPLES * PS_PER_S / hz):
            return None
        # Self time of each frame.
        time = ran.within(frames.start_ps, frames.end_ps)
        self_ps = np.maximum(self_times(time, frames.parent), 0)
        self_ps = self_ps * (calls | frames.rows_called_from(calls))
        total_ps = max(int(self_ps.sum()), 1)
        libraries = [kind for kind, name in frames.names.items() if name.library]
        of_libraries = np.isin(frames.type, libraries)
        elements = np.isin(frames.type, self.purposes.types_with_work(*_ELEMENTS))
        elements |= frames.rows_called_from(elements) & of_libraries
        elementwise = 100 * int(self_ps[elements].sum()) / total_ps
        library = 100 * int(self_ps[of_libraries & ~elements].sum()) / total_ps
        tracks = np.unique(frames.track[calls]).tolist()
        waiting = self._waiting_percent(ran, tracks, device)
        compiled = {} if self.lines is None else self.lines.compiled_calls(tracks)
        ran_in = {name: ran & spans for name, spans in compiled.items()}
        doing: dict[KnownWork | None, Spans] = defaultdict(Spans.empty)
        for name, spans in ran_in.items():
            doing[work_of_call(name)] |= spans
        on_objects = doing.pop("handles_objects", Spans.empty())
        on_tracks = np.isin(frames.track, tracks)
        in_python = frames.spans(of_libraries & on_tracks)
        on_arrays = Spans.union_of(doing.values()) - on_objects - in_python
        own = 100 - elementwise - library - 100 * on_arrays.length_ps / ran.length_ps
        own = max(own, 0.0)
        for work, types in self.purposes.types_by_work.items():
            of_work = frames.spans(on_tracks & np.isin(frames.type, types))
            doing[work] |= ran & of_work
        longest = max(ran_in, key=lambda name: ran_in[name].length_ps, default=None)
        is_main = longest and 2 * ran_in[longest].length_ps >= ran.length_ps
        return TimeDivision(
            *(own, elementwise, 100 - own - elementwise, waiting),
            called=longest if is_main else None,
            works=tuple(
                work
                for work, spans in doing.items()
                if 2 * spans.length_ps >= ran.length_ps
            ),
        )

    def _waiting_percent(
        self, ran: Spans, tracks: list[int], device: int | None
    ) -> float | None:
        """Return in what percentage of `ran` the threads waited; None if unknown.

        Time in which other threads were awake does not count as waiting, because they
        may have computed for a sleeping thread.
        """
        if self.clocks is None:
            return None
        ids = [self.places[track] for track in tracks]
        threads = [thread for key in ids if (thread := self.clocks.threads.get(key))]
        known = ran & Spans.union_of(time.seen for time in threads)
        if device is None:
            asleep, known = self.waits, known - self.ops
        else:
            asleep = Spans.union_of(time.asleep for time in threads)
            other_clocks = [self.clocks.rest.get(key[:2]) for key in ids]
            asleep = asleep - Spans.union_of(
                clock.awake for clock in other_clocks if clock is not None
            )
        if asleep is None or 2 * known.length_ps < ran.length_ps:
            return None
        return 100 * (known & asleep).length_ps / known.length_ps


@of_each_host
def function_divisions(
    *,
    account: Account,
    function_frames: FunctionFrames,
    function_purposes: FunctionPurposes,
    function_lines: FunctionLines | Unavailable,
    core_time: CoreTime | Unavailable,
    host_waits: dict[str, HostWaits] | Unavailable,
    host_classes: HostClasses | Unavailable,
    windows: Windows,
    tracks: pl.DataFrame,
) -> FunctionDivisions:
    """Collect the data of each host whose function calls were recorded."""
    ops = (
        host_classes
        if isinstance(host_classes, Unavailable)
        else host_classes.host_compute
    )
    lines = None if isinstance(function_lines, Unavailable) else function_lines.known()
    waits = None if isinstance(host_waits, Unavailable) else host_waits.get("wait")
    return FunctionDivisions(
        frames=function_frames,
        purposes=function_purposes,
        lines=lines,
        work={
            device.device: (device.idle["host_compute"] & windows.judged)
            - device.between
            for device in account.devices
        },
        places=thread_identities(tracks),
        clocks=None if isinstance(core_time, Unavailable) else core_time,
        waits=None if waits is None else waits.spans,
        ops=Spans.empty() if isinstance(ops, Unavailable) else ops,
    )


#: A function is rare if its mean time in other steps is at most this fraction of its
#: mean time in the chosen steps. The same fraction limits its mean share of a step.
_MAX_OTHER_STEPS_RATIO: Final = 0.2
#: A function explains slow steps if it has at least this share of their extra time.
_MIN_EXPLAINED_SHARE: Final = 0.5


class RareFunctions(Frozen, frozen=True):
    """Calls of functions on one host, to find functions that few steps call.

    Attributes:
        starts_ps: Start of each judged step.
        ends_ps: End of each judged step.
    """

    frames: FunctionFrames
    starts_ps: Int64s
    ends_ps: Int64s

    def of(self, chosen: Bools, excess_ps: int) -> Part | None:
        """Return the program's function that makes the chosen steps longer than others.

        None if no function runs mostly in the chosen steps and explains most extra
        time. Of nested functions, the innermost with most of the time is returned.

        Args:
            chosen: Whether each judged step is one of the longer steps.
            excess_ps: Extra time of all chosen steps.
        """
        if len(chosen) != len(self.starts_ps) or chosen.all() or not chosen.any():
            return None
        candidates: dict[int, int] = {}
        lengths = np.maximum(self.ends_ps - self.starts_ps, 1)
        for kind, name in self.frames.names.items():
            if name.library is not False or name.function.endswith(BEGINNINGS):
                continue
            spans = self.frames.spans(self.frames.type == kind)
            times = spans.within(self.starts_ps, self.ends_ps)
            # The function's share of each step is compared too: a function that fills
            # every step takes more time in longer steps, but the same share.
            is_rare = all(
                part[~chosen].mean() <= _MAX_OTHER_STEPS_RATIO * part[chosen].mean()
                for part in (times, times / lengths)
            )
            chosen_ps = int(times[chosen].sum())
            if is_rare and chosen_ps >= max(_MIN_EXPLAINED_SHARE * excess_ps, 1):
                candidates[kind] = chosen_ps
        ranked = sorted(candidates, key=lambda kind: -candidates[kind])
        if not ranked:
            return None
        slow = Spans.from_bounds(self.starts_ps[chosen], self.ends_ps[chosen])
        best = ranked[self.frames.innermost_called([[kind] for kind in ranked], slow)]
        total = int((self.ends_ps - self.starts_ps).sum())
        percent = 100 * candidates[best] / total
        return Part.from_function(self.frames.names[best], percent)


@of_each_host
def rare_functions(
    *, function_frames: FunctionFrames, windows: Windows
) -> RareFunctions:
    """Collect the data of each host whose function calls were recorded."""
    return RareFunctions(function_frames, *window_bounds(windows.measured))
