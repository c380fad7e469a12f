"""Signals about launching: what it costs here, and how often it is done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.advice.signals.device import NO_KERNELS
from stepscope.advice.signals.signal import signal
from stepscope.derive.columns.arrays import codes, handles, ints, picked
from stepscope.derive.device.correlation import correlation
from stepscope.derive.device.launch_facts import launch_facts
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.names.event_kinds import EventFlag, event_kinds
from stepscope.derive.step_windows.windows import windows
from stepscope.frozen import Frozen
from stepscope.trace.device_activity import ACTIVITY_KINDS
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.derive.device.launch_facts import LaunchFacts
    from stepscope.derive.profile_data import ProfileData
    from stepscope.thresholds import Thresholds

#: A step is one program if its calls of compiled programs hold this share of the
#: kernels' launches.
_HELD: Final = 0.8
_KERNELS: Final = [
    ACTIVITY_KINDS.categories.to_list().index(kind) for kind in ("kernel", "collective")
]


class LaunchSignals(Frozen, frozen=True):
    """What launching costs.

    Attributes:
        latency_ps: Median time from a launch call to its kernel on an idle device.
        latency_samples: Number of launches that the latency was measured on; 0 where
            the latency is assumed.
        median_kernel_ps: Median duration of a kernel.
        median_call_ps: Median duration of a launch call; None where nothing was
            launched.
        kernels_per_step: Mean number of kernels in a step; None without steps.
        graph_percent: Share of device time replayed from graphs without a row for
            each of their nodes.
        one_program: Whether every step launches all of its kernels by one call, or
            calls one compiled program that launches nearly all of them; None where
            steps or launches are not known.
    """

    latency_ps: int
    latency_samples: int
    median_kernel_ps: int
    median_call_ps: int | None
    kernels_per_step: float | None
    graph_percent: float
    one_program: bool | None


@signal(launch_facts, windows, correlation, event_kinds)
def launch_signals(profile: ProfileData, _: Thresholds) -> LaunchSignals | Unavailable:
    """Take the launches of the host with most kernels."""
    facts: list[tuple[LaunchFacts, str]] = []
    reasons: list[Unavailable] = []
    steps = 0
    for host in profile.hosts:
        found = profile.derived(host, launch_facts)
        if isinstance(found, Unavailable):
            reasons.append(found)
            continue
        facts.append((found, host))
        placed = profile.derived(host, windows)
        if not isinstance(placed, Unavailable) and placed.has_steps:
            steps += placed.rows.height
    measured = [one for one in facts if one[0].median_kernel_ps is not None]
    if not measured:
        return reasons[0] if reasons else NO_KERNELS
    most, host = max(measured, key=lambda one: one[0].kernels)
    kernels = sum(one.kernels for one, _ in facts)
    return LaunchSignals(
        latency_ps=most.latency_ps,
        latency_samples=most.latency_samples,
        median_kernel_ps=most.median_kernel_ps or 0,
        median_call_ps=most.median_call_ps,
        kernels_per_step=kernels / steps if steps else None,
        graph_percent=most.graph_percent or 0.0,
        one_program=_is_one_program(profile, host),
    )


def _is_one_program(profile: ProfileData, host: str) -> bool | None:
    """Return whether a step launches its work in one call of a compiled program."""
    placed = profile.derived(host, windows)
    found = profile.derived(host, correlation)
    kinds = profile.derived(host, event_kinds)
    launches = profile.table(host, "launches")
    activity = profile.table(host, "device_activity")
    events = profile.table(host, "events")
    if (
        isinstance(placed, Unavailable)
        or isinstance(found, Unavailable)
        or isinstance(kinds, Unavailable)
        or isinstance(launches, Unavailable)
        or isinstance(activity, Unavailable)
        or isinstance(events, Unavailable)
        or not placed.has_steps
    ):
        return None
    programs = kinds.has(EventFlag.PJIT | EventFlag.EXECUTABLE)
    rows = picked(handles(events, "type"), programs)
    calls = Spans.from_events(
        ints(events, "start_ps")[rows], ints(events, "dur_ps")[rows]
    )
    start_ps = ints(launches, "start_ps")
    # A read-back has a call of its own, whatever is compiled.
    kernels = np.isin(codes(activity, "kind"), _KERNELS)
    led = _chosen(found.launch_of_activity[kernels], len(start_ps))
    if not len(calls):
        # Without compiled programs one launch a step is a graph.
        return bool(0 < led.sum() <= placed.rows.height)
    held = calls.holding(start_ps[led])
    if not len(held):
        return None
    using = calls.holding(start_ps[found.activity_count_of_launch > 0])
    used = _chosen(using, len(calls)).sum()
    return bool((held >= 0).mean() >= _HELD and used <= placed.rows.height)


def _chosen(rows: NDArray[np.signedinteger], of: int) -> NDArray[np.bool_]:
    """Return which of so many rows occur; -1 is none."""
    # None has the last place.
    found = np.zeros(of + 1, np.bool_)
    found[rows] = True
    return found[:-1]
