"""Signals about launching: what it costs here, and how often it is done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.advice.signals.device import NO_KERNELS
from stepscope.advice.signals.signal import signal
from stepscope.derive.device.launch_facts import launch_facts
from stepscope.derive.step_windows.windows import windows
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.derive.device.launch_facts import LaunchFacts
    from stepscope.derive.profile_data import ProfileData
    from stepscope.thresholds import Thresholds

__all__ = ["LaunchSignals", "launch_signals"]


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
    """

    latency_ps: int
    latency_samples: int
    median_kernel_ps: int
    median_call_ps: int | None
    kernels_per_step: float | None
    graph_percent: float


@signal(launch_facts, windows)
def launch_signals(profile: ProfileData, _: Thresholds) -> LaunchSignals | Unavailable:
    """Take the launches of the host with most kernels."""
    facts: list[LaunchFacts] = []
    reasons: list[Unavailable] = []
    steps = 0
    for host in profile.hosts:
        found = profile.derived(host, launch_facts)
        if isinstance(found, Unavailable):
            reasons.append(found)
            continue
        facts.append(found)
        placed = profile.derived(host, windows)
        if not isinstance(placed, Unavailable) and placed.has_steps:
            steps += placed.rows.height
    measured = [one for one in facts if one.median_kernel_ps is not None]
    if not measured:
        return reasons[0] if reasons else NO_KERNELS
    most = max(measured, key=lambda one: one.kernels)
    kernels = sum(one.kernels for one in facts)
    return LaunchSignals(
        latency_ps=most.latency_ps,
        latency_samples=most.latency_samples,
        median_kernel_ps=most.median_kernel_ps or 0,
        median_call_ps=most.median_call_ps,
        kernels_per_step=kernels / steps if steps else None,
        graph_percent=most.graph_percent or 0.0,
    )
