"""Signals about waiting for launches, from blame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
import polars as pl

from stepscope.advice.finding import Evidence
from stepscope.advice.signals.clean_steps import clean_rows, excess_ps, step_basis
from stepscope.advice.signals.device import NO_KERNELS
from stepscope.advice.signals.ranges import SHOWN, event_label
from stepscope.advice.signals.signal import signal
from stepscope.advice.signals.step_series import StepSeries
from stepscope.derive.columns.arrays import ints
from stepscope.derive.device.launch_facts import launch_facts
from stepscope.derive.step_time.blame import blame
from stepscope.derive.step_time.breakdown import breakdown
from stepscope.derive.step_windows.windows import windows
from stepscope.unavailable import Unavailable, present

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.derive.device.launch_facts import LaunchFacts
    from stepscope.derive.intervals.spans import Spans
    from stepscope.derive.profile_data import ProfileData
    from stepscope.derive.step_time.blame import DeviceBlame
    from stepscope.derive.step_windows.windows import Windows
    from stepscope.thresholds import Thresholds

__all__ = ["LaunchSignals", "launch_signals"]

#: Cause of the signal → cause of blame.
_PARTS: Final = {"latency": "latency", "launch_call": "launch", "python": "python"}


class LaunchSignals(msgspec.Struct, frozen=True, kw_only=True):
    """How long devices wait for launches inside a step.

    Attributes:
        series: One series per device, with the parts "latency", "launch_call" and
            "python".
        latency_ps: Median time from a launch call to its kernel on an idle device.
        latency_samples: Number of launches that the latency was measured on; 0 where
            the latency is assumed.
        median_kernel_ps: Median duration of a kernel.
        median_call_ps: Median duration of a launch call.
        kernels_per_step: Mean number of kernels in a step; null without steps.
        drained_percent: Share of the starved intervals that a synchronisation
            precedes.
        graph_percent: Share of device time replayed from graphs without a row for
            each of their nodes.
        evidence: The longest starved intervals of each series, by its label.
    """

    series: tuple[StepSeries, ...]
    latency_ps: int
    latency_samples: int
    median_kernel_ps: int
    median_call_ps: int | None
    kernels_per_step: float | None
    drained_percent: float | None
    graph_percent: float
    evidence: dict[str, tuple[Evidence, ...]] = {}


@signal(blame, breakdown)
def launch_signals(
    profile: ProfileData, thresholds: Thresholds
) -> LaunchSignals | Unavailable:
    """Measure how long each device was starved in each clean step."""
    compile_percent = thresholds.dirty_compile.value
    series: list[StepSeries] = []
    evidence: dict[str, tuple[Evidence, ...]] = {}
    drained: list[pl.Series] = []
    facts: list[LaunchFacts] = []
    steps = 0
    reasons: list[Unavailable] = []
    for host in profile.hosts:
        blamed = profile.derived(host, blame)
        if isinstance(blamed, Unavailable):
            reasons.append(blamed)
            continue
        facts.append(present(profile.derived(host, launch_facts)))
        for device in blamed.devices:
            one = _series(profile, host, device, facts[-1], compile_percent)
            series.append(one)
            steps += _closed_windows(profile, host)
            drained.append(device.starved["after_sync"])
            evidence[one.label] = _evidence(profile, host, device)
    measured = [one for one in facts if one.median_kernel_ps is not None]
    if not series or not measured:
        return reasons[0] if reasons else NO_KERNELS
    most = max(measured, key=lambda one: one.kernels)
    starved = pl.concat(drained)
    kernels = sum(one.kernels for one in facts)
    return LaunchSignals(
        series=tuple(series),
        latency_ps=most.latency_ps,
        latency_samples=most.latency_samples,
        median_kernel_ps=most.median_kernel_ps or 0,
        median_call_ps=most.median_call_ps,
        kernels_per_step=kernels / steps if steps else None,
        drained_percent=100 * int(starved.sum()) / len(starved)
        if len(starved)
        else None,
        graph_percent=most.graph_percent or 0.0,
        evidence=evidence,
    )


def _series(
    profile: ProfileData,
    host: str,
    device: DeviceBlame,
    facts: LaunchFacts,
    compile_percent: float,
) -> StepSeries:
    step_windows = present(profile.derived(host, windows))
    charged = present(profile.derived(host, breakdown))
    mine = charged.rows.filter(pl.col("device") == device.device)
    judged = clean_rows(mine, step_windows, compile_percent=compile_percent)
    rows = judged.clean
    starts, ends = _bounds(step_windows, rows)
    all_starts, all_ends = _bounds(step_windows, judged.all)
    begun = np.searchsorted(np.sort(ints(device.starved, "start_ps")), starts)
    over = np.searchsorted(np.sort(ints(device.starved, "start_ps")), ends)
    basis = step_basis(profile, host)
    return StepSeries(
        host=host,
        device=device.device,
        step_source=basis.source,
        step_confidence=basis.confidence,
        closed=judged.closed,
        window_ps=tuple(rows["window_ps"]),
        parts_ps={
            name: _within(device.inside[cause], starts, ends)
            for name, cause in _PARTS.items()
        },
        unknown_ps=_within(device.inside["unknown"], starts, ends),
        doubt_ps=facts.clock_error_ps * int(np.median(over - begun)),
        excess_ps=excess_ps(profile, host, steps=judged.all.height),
        working_ps=tuple(rows["device_busy_ps"] - rows["collective_ps"]),
        total_window_ps=int(judged.all["window_ps"].sum()),
        total_parts_ps={
            name: sum(_within(device.inside[cause], all_starts, all_ends))
            for name, cause in _PARTS.items()
        },
        total_steps=judged.all.height,
    )


def _bounds(
    windows: Windows, rows: pl.DataFrame
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    at = rows["window"].to_numpy()
    return ints(windows.rows, "start_ps")[at], ints(windows.rows, "end_ps")[at]


def _within(
    spans: Spans, starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> tuple[int, ...]:
    return tuple(spans.within(starts, ends).tolist())


def _closed_windows(profile: ProfileData, host: str) -> int:
    step_windows = present(profile.derived(host, windows))
    return step_windows.rows.height if step_windows.has_steps else 0


def _evidence(
    profile: ProfileData, host: str, device: DeviceBlame
) -> tuple[Evidence, ...]:
    """Return the longest starved intervals, each with the launch that ended it."""
    activity = profile.table(host, "device_activity")
    launches = profile.table(host, "launches")
    if isinstance(activity, Unavailable) or isinstance(launches, Unavailable):
        return ()
    lengths = pl.col("end_ps") - pl.col("start_ps")
    found = []
    for row in (
        device.starved.sort(lengths, descending=True).head(SHOWN).rows(named=True)
    ):
        kernel = activity.row(row["activity"], named=True)
        call = launches.row(row["launch"], named=True)
        named = [
            event_label(profile, host, one["event"])
            for one in (kernel, call)
            if one["event"] is not None
        ]
        found.append(
            Evidence(
                host=host,
                device=device.device,
                track=named[0][0] if named else None,
                start_ps=row["start_ps"],
                end_ps=row["end_ps"],
                ops=tuple(name for _, name in named),
            )
        )
    return tuple(found)
