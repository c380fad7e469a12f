"""Completeness of a recording: flaws, versions, and time of the profiler itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import handles, ints, wanted_rows
from stepscope.derive.host.function_frames import MIN_RECORDING_SAMPLES
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.names.event_kinds import SYSTEM_CLASSES, HostClass
from stepscope.derive.run_derivation import (
    known_hosts,
    of_each_host,
    of_each_host_or_why,
    of_run,
)
from stepscope.derive.step_windows.windows import window_bounds
from stepscope.frozen import Frozen
from stepscope.thresholds import THRESHOLDS
from stepscope.trace.tables import ACTIVITY_KINDS
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepscope.derive.device.activity_classes import ActivityClasses
    from stepscope.derive.device.correlation import Correlation
    from stepscope.derive.host.function_frames import FunctionFrames
    from stepscope.derive.names.event_kinds import EventKinds
    from stepscope.derive.run_derivation import OfHosts
    from stepscope.derive.step_windows.windows import Windows
    from stepscope.trace.model import TraceData

#: Severity of a flaw → confidence in a recording with it. The worst flaw counts.
_GRADES: Final = {"info": 1.0, "warning": 0.9, "error": 0.6}


@of_run
def record_grade(*, trace: OfHosts[TraceData]) -> float:
    """Return the confidence in the recordings: 1 without flaws, less with flaws."""
    notes = (
        note
        for recorded in known_hosts(trace).values()
        for note in recorded.quality_notes()
    )
    return min((_GRADES[note.severity] for note in notes), default=1.0)


#: Names of copies that a profiler recorded as kernels.
_COPY: Final = r"(?i)^(copy|memcpy)"
#: Names of calls that launch a captured graph in CUDA, ROCm or XLA.
_REPLAY: Final = r"(?i)graph_?(?:exec_?)?launch|command_?buffer"
#: Maximum share of graph launches whose activity may run after the recording.
_MAX_LAUNCHES_WITHOUT_WORK: Final = 0.1
#: Kinds of quality notes in which the profiler reports missing records.
_COUNTERS: Final = frozenset({"dropped_events", "truncated_file"})
#: Kinds of quality notes about a file that is incomplete.
_DAMAGED: Final = frozenset({"damaged_file", "truncated_file"})


class CaptureSignals(Frozen, frozen=True):
    """Contents of the recordings, and what they lack.

    Attributes:
        damaged: Whether a file could be read only in part.
        dropped: Number of lost records that the profiler reported.
        ranks: Number of processes of the job; None if unknown.
        hosts: Number of recorded processes.
        devices: Number of devices listed in one recording.
        computing: Number of these devices that ran kernels.
        copying: Number of these devices that copied within or between devices but ran
            no kernel. Devices that copy also compute, so kernels are missing.
        functions: Whether the program's functions were recorded.
        few_looks: Number of stack samples, if functions are known only from samples and
            samples are too few; else None.
        replays: Whether a graph launch was recorded without its device activity.
        without_launch_percent: Share of device time in activities without a recorded
            launch call; None without recorded device time.
        system_calls: Number of recorded calls of the operating system's libraries.
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


@of_run
def capture_signals(
    *,
    trace: OfHosts[TraceData],
    activity_classes: OfHosts[ActivityClasses],
    correlation: OfHosts[Correlation],
    event_kinds: OfHosts[EventKinds],
    function_frames: OfHosts[FunctionFrames],
) -> CaptureSignals:
    """Describe all recordings; count the devices of the recording with most devices."""
    hosts = known_hosts(trace)
    notes = [note for recorded in hosts.values() for note in recorded.quality_notes()]
    devices, computing, copying = max(
        (
            _device_counts(recorded, activity_classes[host])
            for host, recorded in hosts.items()
        ),
        default=(0, 0, 0),
    )
    environments = [recorded.table("environment") for recorded in hosts.values()]
    ranks = [
        count
        for environment in environments
        if not isinstance(environment, Unavailable)
        for count in environment["processes"].drop_nulls()
    ]
    frames = known_hosts(function_frames).values()
    looks = [host_frames.looks() for host_frames in frames]
    # `looks` is None for a host whose functions were recorded exactly.
    max_samples = max((count for count in looks if count is not None), default=0)
    too_few = bool(looks) and None not in looks and max_samples < MIN_RECORDING_SAMPLES
    system_calls = 0
    for host, kinds in known_hosts(event_kinds).items():
        events = hosts[host].table("events")
        is_call = np.isin(kinds.host_class, SYSTEM_CLASSES)
        if not isinstance(events, Unavailable) and is_call.any():
            system_calls += int(is_call[handles(events, "type")].sum())
    # Host → (device time without a launch call, total device time).
    untied = dict.fromkeys(hosts, (0, 0))
    for host, tied in known_hosts(correlation).items():
        dur_ps = ints(tied.activity, "dur_ps")
        loose_ps = dur_ps[tied.launch_of_activity < 0].sum()
        untied[host] = int(loose_ps), int(dur_ps.sum())
    untied_ps, work_ps = (sum(times[k] for times in untied.values()) for k in (0, 1))
    return CaptureSignals(
        damaged=any(note.kind in _DAMAGED for note in notes),
        dropped=sum(note.count or 1 for note in notes if note.kind in _COUNTERS),
        ranks=max(ranks, default=0) or None,
        hosts=len(hosts),
        devices=devices,
        computing=computing,
        copying=copying,
        functions=bool(frames),
        few_looks=max_samples if too_few else None,
        system_calls=system_calls,
        replays=any(
            _hides_replays(recorded, correlation[host], *untied[host])
            for host, recorded in hosts.items()
        ),
        without_launch_percent=100 * untied_ps / work_ps if work_ps else None,
    )


def _device_counts(
    trace: TraceData, classes: ActivityClasses | Unavailable
) -> tuple[int, int, int]:
    """Return the numbers of devices that are listed, run kernels, or only copy."""
    listed = trace.table("devices")
    types = trace.table("event_types")
    if (
        isinstance(listed, Unavailable)
        or isinstance(classes, Unavailable)
        or isinstance(types, Unavailable)
    ):
        return 0, 0, 0
    kind = pl.col("kind")
    named_copy = pl.col("name").str.contains(_COPY)
    computes = kind.is_in(["kernel", "collective"]) & ~named_copy
    copies = kind.is_in(["local_copy", "p2p_copy"]) | ((kind == "kernel") & named_copy)
    # Names are searched by class of activities: there are far fewer classes.
    rows = classes.rows
    by_device = (
        rows.select(
            "device",
            kind=ACTIVITY_KINDS.categories.gather(rows["kind"]),
            name=types["name"].gather(rows["type"]),
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


def _hides_replays(
    trace: TraceData, tied: Correlation | Unavailable, untied_ps: int, work_ps: int
) -> bool:
    """Return whether a graph was launched whose device activity may be missing."""
    launches, types = trace.table("launches"), trace.table("event_types")
    if isinstance(types, Unavailable):
        return False
    replaying = types["name"].str.contains(_REPLAY)
    if not replaying.any():
        return False
    # Activities without a recorded launch call may belong to a graph.
    loose = 100 * untied_ps > THRESHOLDS.without_launch.value * work_ps
    if loose or isinstance(launches, Unavailable) or isinstance(tied, Unavailable):
        return True
    # If graph nodes were recorded one by one, they have the call's correlation id.
    calls = replaying.gather(launches["type"]).to_numpy()
    working = np.zeros(launches.height, bool)
    working[tied.launch_of_activity[tied.launch_of_activity >= 0]] = True
    without = int((calls & ~working).sum())
    return not calls.any() or without > _MAX_LAUNCHES_WITHOUT_WORK * calls.sum()


class HostVersions(Frozen, frozen=True):
    """Versions and devices of one host.

    Attributes:
        runtime: CUDA runtime version, 1000 × major + 10 × minor; null if unknown.
        driver: Newest CUDA version of the driver, as `runtime`; null if unknown.
        newest: Compute capability of the newest used device; null if unknown.
        device: Product name of the newest used device; null if not recorded.
        libraries: Version of each framework and library, as far as recorded.
        names: Names of the types of events.
    """

    runtime: int | None
    driver: int | None
    newest: tuple[int, int] | None
    device: str | None
    libraries: Mapping[str, str] = {}
    names: tuple[str, ...] | pl.Series = ()


@of_each_host_or_why
def version_signals(
    *, devices: pl.DataFrame, environment: pl.DataFrame, event_types: pl.DataFrame
) -> HostVersions | None:
    """Return the versions of each host; hosts without used devices are left out."""
    used = devices.filter(pl.col("activities") > 0)
    if not used.height:
        return None
    known = used.drop_nulls(["cc_major", "cc_minor"]).sort("cc_major", "cc_minor")
    newest = known[["cc_major", "cc_minor", "name"]].rows()[-1:]
    row = environment.row(0, named=True)
    return HostVersions(
        runtime=row["cuda_runtime"],
        driver=row["cuda_driver"],
        newest=(newest[0][0], newest[0][1]) if newest else None,
        device=newest[0][2] if newest else None,
        libraries=dict(
            listed.split(" ", 1)
            for listed in (row["libraries"] or "").split(", ")
            if " " in listed
        ),
        names=event_types["name"],
    )


#: The profiler's own events that handle buffers; its other events are start and stop.
_BUFFERS: Final = r"(?i)buffer|^Instrumentation$"


class RecorderTime(Frozen, frozen=True):
    """Time of the profiler itself on the threads of one host.

    Attributes:
        start_stop_ps: Time of starting and stopping, in the whole recording.
        buffers_ps: Time of passing on and writing buffers, in the whole recording.
        judged_ps: Part of both times that is in judged steps.
    """

    start_stop_ps: int
    buffers_ps: int
    buffers: int
    judged_ps: int


@of_each_host
def recorder_signals(
    *,
    events: pl.DataFrame,
    event_types: pl.DataFrame,
    event_kinds: EventKinds,
    windows: Windows,
) -> RecorderTime:
    """Sum the profiler's own time on each host; parallel events count once.

    Hosts without events of the profiler are left out.
    """
    own = event_kinds.host_class == HostClass.PROFILER
    on_buffers = event_types["name"].str.contains(_BUFFERS).to_numpy()
    rows = wanted_rows(handles(events, "type"), own)
    start, dur = ints(events, "start_ps")[rows], ints(events, "dur_ps")[rows]
    is_buffer = on_buffers[handles(events, "type")[rows]]
    buffers = Spans.from_events(start[is_buffer], dur[is_buffer])
    start_stop = Spans.from_events(start[~is_buffer], dur[~is_buffer]) - buffers
    inside = (buffers | start_stop).within(*window_bounds(windows.measured))
    return RecorderTime(
        start_stop_ps=start_stop.length_ps,
        buffers_ps=buffers.length_ps,
        buffers=int(is_buffer.sum()),
        judged_ps=int(inside.sum()),
    )
