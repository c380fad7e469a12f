"""The waits of the program's own thread inside steps, on hosts without devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.finding import Part
from stepscope.advice.signals.running.processors import processor_signals
from stepscope.advice.signals.signal import signal
from stepscope.derive.account.host_waits import host_waits
from stepscope.derive.columns.arrays import ints
from stepscope.derive.step_windows.windows import windows
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable, present

if TYPE_CHECKING:
    from stepscope.advice.signals.running.processors import Processors
    from stepscope.derive.account.naming import Name
    from stepscope.derive.profile_data import ProfileData
    from stepscope.thresholds import Thresholds


class Asleep(Frozen, frozen=True):
    """The time in the judged steps in which the program's own thread sleeps.

    Attributes:
        times_ps: Its time in each judged step.
        share_percent: Its share of all of them.
        function: The function that sleeps most of that time.
        works: Whether another thread of the program works most of it.
        other: What another thread is in meanwhile; None where there is none to name.
        workers: Cores that worker processes of the program use, where they work and no
            thread of its own does; else None.
    """

    times_ps: tuple[int, ...]
    share_percent: float
    function: Part
    works: bool
    other: Part | None
    workers: float | None = None


#: Worker processes that use less than so much of a core wait as well.
_AT_WORK: Final = 0.1


@signal(host_waits, windows, reads=(processor_signals,))
def asleep(
    profile: ProfileData,
    thresholds: Thresholds,
    processors: dict[str, Processors] | Unavailable,
) -> dict[str, Asleep]:
    """Return the waits of each host of which they are known.

    Where all cores are in use, threads of a framework seldom get one: that they hardly
    computed does not say that nobody waited for them.
    """
    cores = {} if isinstance(processors, Unavailable) else processors
    found: dict[str, Asleep] = {}
    for host in profile.hosts:
        waits = profile.derived(host, host_waits)
        if isinstance(waits, Unavailable):
            continue
        if waits.pooled and host in cores and cores[host].are_full(thresholds):
            continue
        measured = present(profile.derived(host, windows)).measured
        starts, ends = ints(measured, "start_ps"), ints(measured, "end_ps")
        times = tuple(waits.spans.within(starts, ends).tolist())
        share = 100 * sum(times) / max(int((ends - starts).sum()), 1)
        other = None
        if waits.thread is not None and waits.running is not None:
            other = _part(waits.running, share, thread=waits.thread)
        function = _part(waits.function, share)
        used = cores[host].workers if host in cores else None
        beside = waits.works and not waits.of_library
        workers = None if beside or (used or 0.0) < _AT_WORK else used
        found[host] = Asleep(times, share, function, waits.works, other, workers)
    return found


def _part(name: Name, share_percent: float, *, thread: str | None = None) -> Part:
    return Part(
        name=name.name or name.function or "",
        detail=name.detail,
        function=name.function,
        file=name.file,
        line=name.line,
        loop=name.loop,
        thread=thread,
        share_percent=share_percent,
    )
