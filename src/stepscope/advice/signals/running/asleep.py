"""The waits of the program's own thread inside steps, on hosts without devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.advice.finding import Part
from stepscope.advice.signals.signal import signal
from stepscope.derive.account.host_waits import host_waits
from stepscope.derive.columns.arrays import ints
from stepscope.derive.step_windows.windows import windows
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable, present

if TYPE_CHECKING:
    from stepscope.derive.account.naming import Name
    from stepscope.derive.profile_data import ProfileData
    from stepscope.thresholds import Thresholds

__all__ = ["Asleep", "asleep"]


class Asleep(Frozen, frozen=True):
    """The time in the judged steps in which the program's own thread sleeps.

    Attributes:
        times_ps: Its time in each judged step.
        share_percent: Its share of all of them.
        function: The function that sleeps most of that time.
        works: Whether another thread of the program works most of it.
        other: What another thread is in meanwhile; None where there is none to name.
    """

    times_ps: tuple[int, ...]
    share_percent: float
    function: Part
    works: bool
    other: Part | None


@signal(host_waits, windows)
def asleep(profile: ProfileData, _: Thresholds) -> dict[str, Asleep]:
    """Return the waits of each host of which they are known."""
    found: dict[str, Asleep] = {}
    for host in profile.hosts:
        waits = profile.derived(host, host_waits)
        if isinstance(waits, Unavailable):
            continue
        measured = present(profile.derived(host, windows)).measured
        starts, ends = ints(measured, "start_ps"), ints(measured, "end_ps")
        times = tuple(waits.spans.within(starts, ends).tolist())
        share = 100 * sum(times) / max(int((ends - starts).sum()), 1)
        other = None
        if waits.thread is not None and waits.running is not None:
            other = _part(waits.running, share, thread=waits.thread)
        function = _part(waits.function, share)
        found[host] = Asleep(times, share, function, waits.works, other)
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
