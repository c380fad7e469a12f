"""Signals about the recording itself: what of the program it does not hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.advice.signals.signal import signal
from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.device.activity_classes import activity_classes
from stepscope.derive.device.correlation import correlation
from stepscope.derive.host.function_frames import LEAST_LOOKS, function_frames
from stepscope.derive.names.event_kinds import SYSTEM_CLASSES, event_kinds
from stepscope.frozen import Frozen
from stepscope.trace.device_activity import ACTIVITY_KINDS
from stepscope.unavailable import Unavailable, present

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData
    from stepscope.thresholds import Thresholds

#: Names of copies that a recording lists among the kernels.
_COPY: Final = r"(?i)^(copy|memcpy)"
#: Calls that replay a graph of launches, of CUDA, ROCm and XLA.
_REPLAY: Final = r"(?i)graph_?(?:exec_?)?launch|command_?buffer"
#: So many of these calls may have no work of the device: it may lie after the end.
_WITHOUT_WORK: Final = 0.1
#: Doubts about a recording by which its producer says that records are missing.
_COUNTERS: Final = frozenset({"dropped_events", "truncated_file"})
#: Doubts about a file of which a part is missing.
_DAMAGED: Final = frozenset({"damaged_file", "truncated_file"})


class CaptureSignals(Frozen, frozen=True):
    """What the recording holds, and what it does not.

    Attributes:
        damaged: Whether a file could be read in part only.
        dropped: Number of records that the producer says were lost; 0 where it says
            nothing.
        ranks: Number of processes of the job; None where it is not known.
        hosts: Number of processes that were recorded.
        devices: Number of devices that one recording lists.
        computing: How many of these ran kernels.
        copying: How many of these copied within or between devices, and ran no kernel:
            a program sends data only where it is computed on.
        functions: Whether the program's functions were recorded.
        few_looks: How many looks at the program's stack a recording holds that knows
            functions from these alone, where they are too few; else None.
        replays: Whether a call that replays a graph was recorded, and not what the
            device did for it.
        without_launch_percent: Share of the device work of which no launch call was
            recorded; None where either side was not recorded.
        system_calls: How many calls of the operating system's libraries were recorded.
    """

    damaged: bool
    dropped: int
    ranks: int | None
    hosts: int
    devices: int
    computing: int
    copying: int
    functions: bool
    few_looks: int | None
    replays: bool
    without_launch_percent: float | None
    system_calls: int = 0


@signal(
    activity_classes,
    correlation,
    event_kinds,
    function_frames,
    "devices",
    "environment",
    "launches",
    "quality",
)
def capture_signals(profile: ProfileData, thresholds: Thresholds) -> CaptureSignals:
    """Look at every recording; the one with most devices gives their numbers."""
    dropped = 0
    damaged = False
    ranks: int | None = None
    most = (0, 0, 0)
    alone = work = system_calls = 0
    functions = replays = False
    looks: list[int | None] = []
    for host in profile.hosts:
        for note in profile.trace(host).quality_notes():
            damaged |= note.kind in _DAMAGED
            if note.kind in _COUNTERS:
                dropped += note.count or 1
        environment = profile.table(host, "environment")
        if not isinstance(environment, Unavailable):
            jobs = environment["processes"].drop_nulls().to_list()
            ranks = max([ranks or 0, *jobs]) or None
        most = max(most, _devices(profile, host))
        frames = profile.derived(host, function_frames)
        if not isinstance(frames, Unavailable):
            functions = True
            looks.append(frames.looks())
        system_calls += _system_calls(profile, host)
        untied, all_of_it = _untied(profile, host)
        # Where work has no launch call, a graph's may be among it, and be incomplete.
        loose = 100 * untied > thresholds.without_launch.value * all_of_it
        replays |= _replays(profile, host) and (loose or _without_work(profile, host))
        alone, work = alone + untied, work + all_of_it
    return CaptureSignals(
        damaged=damaged,
        dropped=dropped,
        ranks=ranks,
        hosts=len(profile.hosts),
        devices=most[0],
        computing=most[1],
        copying=most[2],
        functions=functions,
        few_looks=_too_few_looks(looks),
        system_calls=system_calls,
        replays=replays,
        without_launch_percent=100 * alone / work if work else None,
    )


def _system_calls(profile: ProfileData, host: str) -> int:
    """Return how many calls of the operating system's libraries were recorded."""
    kinds = profile.derived(host, event_kinds)
    events = profile.table(host, "events")
    if isinstance(kinds, Unavailable) or isinstance(events, Unavailable):
        return 0
    are = np.isin(kinds.host_class, SYSTEM_CLASSES)
    return int(are[handles(events, "type")].sum()) if are.any() else 0


def _too_few_looks(looks: list[int | None]) -> int | None:
    """Return the most looks of any host, where they tell too little.

    Args:
        looks: Of each host with functions; None where its functions are exact.
    """
    if not looks or None in looks:
        return None
    most = max(one for one in looks if one is not None)
    return most if most < LEAST_LOOKS else None


def _devices(profile: ProfileData, host: str) -> tuple[int, int, int]:
    """Return how many devices are listed, run kernels, and only copy."""
    listed = profile.table(host, "devices")
    activity = profile.table(host, "device_activity")
    types = profile.table(host, "event_types")
    if (
        isinstance(listed, Unavailable)
        or isinstance(activity, Unavailable)
        or isinstance(types, Unavailable)
    ):
        return 0, 0, 0
    classes = present(profile.derived(host, activity_classes)).rows
    kind = pl.col("kind")
    named_copy = pl.col("name").str.contains(_COPY)
    computes = kind.is_in(["kernel", "collective"]) & ~named_copy
    copies = kind.is_in(["local_copy", "p2p_copy"]) | ((kind == "kernel") & named_copy)
    # Far fewer than activities, whose names would be searched one by one.
    by_device = (
        classes.select(
            "device",
            kind=ACTIVITY_KINDS.categories.gather(classes["kind"]),
            name=types["name"].gather(classes["type"]),
        )
        .group_by("device")
        .agg(computes=computes.any(), copies=copies.any())
    )
    kernels = by_device["computes"]
    return (
        listed.height,
        int(kernels.sum()),
        int((by_device["copies"] & ~kernels).sum()),
    )


def _replays(profile: ProfileData, host: str) -> bool:
    """Return whether a call that replays a graph was recorded."""
    types = profile.table(host, "event_types")
    return not isinstance(types, Unavailable) and bool(
        types["name"].str.contains(_REPLAY).any()
    )


def _without_work(profile: ProfileData, host: str) -> bool:
    """Return whether of replayed graphs the device's work may not be recorded.

    Where nodes are traced one by one, each has the number of the call.
    """
    launches = profile.table(host, "launches")
    found = profile.derived(host, correlation)
    types = profile.table(host, "event_types")
    if (
        isinstance(launches, Unavailable)
        or isinstance(found, Unavailable)
        or isinstance(types, Unavailable)
    ):
        return True
    replaying = types["name"].str.contains(_REPLAY)
    calls = replaying.gather(launches["type"]).to_numpy()
    working = np.zeros(launches.height, bool)
    working[found.launch_of_activity[found.launch_of_activity >= 0]] = True
    without = int((calls & ~working).sum())
    return not calls.any() or without > _WITHOUT_WORK * calls.sum()


def _untied(profile: ProfileData, host: str) -> tuple[int, int]:
    """Return the time of device work without a launch call, and of all of it."""
    found = profile.derived(host, correlation)
    activity = profile.table(host, "device_activity")
    if isinstance(found, Unavailable) or isinstance(activity, Unavailable):
        return 0, 0
    dur_ps = ints(activity, "dur_ps")
    return int(dur_ps[found.launch_of_activity < 0].sum()), int(dur_ps.sum())
