"""How much of a device's wait for launches is its first use: calls that set it up.

The first calls of a process make contexts, load kernels and reserve memory. They take
milliseconds to minutes, where a launch takes microseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.advice.finding import Part
from stepscope.advice.signals.ranges import SHOWN
from stepscope.advice.signals.signal import signal
from stepscope.derive.account.host_states import long_stretch_ps
from stepscope.derive.account.owned_time import account
from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.device.launch_facts import launch_facts
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.names.event_kinds import HostClass, event_kinds
from stepscope.derive.step_windows.windows import windows
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData
    from stepscope.thresholds import Thresholds

__all__ = ["SetUp", "set_up_signals"]

#: With so many steps what each of them repeats is no first use.
_FEW_STEPS: Final = 3
_OWNERS: Final = ("launch", "host_compute")


class SetUp(Frozen, frozen=True):
    """The long calls of a runtime while a device waits for launches.

    Attributes:
        percent: Their share of the measured windows.
        calls: What they are called, most of it first.
    """

    percent: float
    calls: tuple[Part, ...]


@signal(account, event_kinds, launch_facts, windows)
def set_up_signals(profile: ProfileData, _: Thresholds) -> dict[str, SetUp]:
    """Return what each device waits for so, by `host:device`; without any, nothing."""
    found: dict[str, SetUp] = {}
    for host in profile.hosts:
        found |= _of_host(profile, host)
    return found


def _of_host(profile: ProfileData, host: str) -> dict[str, SetUp]:
    owned = profile.derived(host, account)
    kinds = profile.derived(host, event_kinds)
    facts = profile.derived(host, launch_facts)
    placed = profile.derived(host, windows)
    events = profile.table(host, "events")
    if (
        isinstance(owned, Unavailable)
        or isinstance(kinds, Unavailable)
        or isinstance(facts, Unavailable)
        or isinstance(placed, Unavailable)
        or isinstance(events, Unavailable)
    ):
        return {}
    measured = placed.measured
    if placed.has_steps and measured.height >= _FEW_STEPS:
        return {}
    types = handles(events, "type")
    start, dur = ints(events, "start_ps"), ints(events, "dur_ps")
    long = dur >= long_stretch_ps(facts.latency_ps)
    rows = np.flatnonzero(long & (kinds.host_class == HostClass.API)[types])
    calls = Spans.from_events(start[rows], dur[rows])
    begin, end = ints(measured, "start_ps"), ints(measured, "end_ps")
    judged = Spans.from_events(begin, end - begin)
    whole = judged.length_ps
    if not len(calls) or not whole:
        return {}
    names = profile.table(host, "event_types")
    found = {}
    for device in owned.devices:
        waits = Spans.union_of(device.idle[owner] for owner in _OWNERS) & judged & calls
        if not len(waits) or isinstance(names, Unavailable):
            continue
        held = waits.within(start[rows], start[rows] + dur[rows])
        by_type = np.bincount(types[rows], weights=held).tolist()
        largest = sorted(range(len(by_type)), key=lambda kind: -by_type[kind])[:SHOWN]
        found[f"{host}:{device.device}"] = SetUp(
            percent=100 * waits.length_ps / whole,
            calls=tuple(
                Part(
                    name=names["name"][kind], share_percent=100 * by_type[kind] / whole
                )
                for kind in largest
                if by_type[kind]
            ),
        )
    return found
