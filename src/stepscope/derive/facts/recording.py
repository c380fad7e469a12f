"""What a recording holds and what it lacks: its flaws, versions, and its own work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import handles, ints, wanted_rows
from stepscope.derive.host.function_frames import LEAST_LOOKS
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.names.event_kinds import SYSTEM_CLASSES, HostClass
from stepscope.derive.run_derivation import (
    known_hosts,
    of_each_host,
    of_each_host_or_why,
    of_run,
)
from stepscope.frozen import Frozen
from stepscope.thresholds import THRESHOLDS
from stepscope.trace.tables import ACTIVITY_KINDS
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.derive.device.activity_classes import ActivityClasses
    from stepscope.derive.device.correlation import Correlation
    from stepscope.derive.host.function_frames import FunctionFrames
    from stepscope.derive.names.event_kinds import EventKinds
    from stepscope.derive.run_derivation import OfHosts
    from stepscope.derive.step_windows.windows import Windows
    from stepscope.trace.model import TraceData

#: Severity of a flaw → the confidence that it leaves; of several the smallest counts.
_GRADES: Final = {"info": 1.0, "warning": 0.9, "error": 0.6}


@of_run
def record_grade(*, trace: OfHosts[TraceData]) -> float:
    """Return 1 where the record shows no flaw, less where it does."""
    notes = (
        note
        for recorded in known_hosts(trace).values()
        for note in recorded.quality_notes()
    )
    return min((_GRADES[note.severity] for note in notes), default=1.0)


#: Names of copies that a recording lists among the kernels.
_COPY: Final = r"(?i)^(copy|memcpy)"
#: Calls that replay a graph of launches, of CUDA, ROCm and XLA.
_REPLAY: Final = r"(?i)graph_?(?:exec_?)?launch|command_?buffer"
#: This many of these calls may have no work of the device: it may lie after the end.
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


@of_run
def capture_signals(
    *,
    trace: OfHosts[TraceData],
    activity_classes: OfHosts[ActivityClasses],
    correlation: OfHosts[Correlation],
    event_kinds: OfHosts[EventKinds],
    function_frames: OfHosts[FunctionFrames],
) -> CaptureSignals:
    """Look at every recording; the one with most devices gives their numbers."""
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
    # Of a host whose functions are exact there are none.
    most_looks = max((count for count in looks if count is not None), default=0)
    too_few = bool(looks) and None not in looks and most_looks < LEAST_LOOKS
    system_calls = 0
    for host, kinds in known_hosts(event_kinds).items():
        events = hosts[host].table("events")
        is_call = np.isin(kinds.host_class, SYSTEM_CLASSES)
        if not isinstance(events, Unavailable) and is_call.any():
            system_calls += int(is_call[handles(events, "type")].sum())
    # Time of device work without a launch call, and of all of it.
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
        few_looks=most_looks if too_few else None,
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
    """Return how many devices are listed, run kernels, and only copy."""
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
    # Far fewer than activities, whose names would be searched one by one.
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
    """Return whether a graph was replayed, and maybe not recorded on the device."""
    launches, types = trace.table("launches"), trace.table("event_types")
    if isinstance(types, Unavailable):
        return False
    replaying = types["name"].str.contains(_REPLAY)
    if not replaying.any():
        return False
    # Where work has no launch call, a graph's may be among it, and be incomplete.
    loose = 100 * untied_ps > THRESHOLDS.without_launch.value * work_ps
    if loose or isinstance(launches, Unavailable) or isinstance(tied, Unavailable):
        return True
    # Where nodes are traced one by one, each has the number of the call.
    calls = replaying.gather(launches["type"]).to_numpy()
    working = np.zeros(launches.height, bool)
    working[tied.launch_of_activity[tied.launch_of_activity >= 0]] = True
    without = int((calls & ~working).sum())
    return not calls.any() or without > _WITHOUT_WORK * calls.sum()


class HostVersions(Frozen, frozen=True):
    """What one host runs.

    Attributes:
        runtime: Version of the CUDA runtime, 1000 × major + 10 × minor; null where not
            recorded.
        driver: Newest CUDA version that its driver supports; null likewise.
        newest: Compute capability of the newest device that did work; null where not
            recorded.
        device: Product name of that device; null where not recorded.
        vendors: Vendors of the devices that did work.
    """

    runtime: int | None
    driver: int | None
    newest: tuple[int, int] | None
    device: str | None
    vendors: frozenset[str]


@of_each_host_or_why
def version_signals(
    *, devices: pl.DataFrame, environment: pl.DataFrame
) -> HostVersions | None:
    """Return what each host runs; hosts without devices are left out."""
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
        vendors=frozenset(used["vendor"].drop_nulls().to_list()),
    )


#: Names of the recording's own work on buffers; all else is its start and stop.
_BUFFERS: Final = r"(?i)buffer|^Instrumentation$"


class RecorderTime(Frozen, frozen=True):
    """The recording's own work on the threads of one host.

    Attributes:
        start_stop_ps: Time of starting and stopping, in the whole recording.
        buffers_ps: Time of handing on and writing buffers, in the whole recording.
        judged_ps: The part of both that lies in judged steps.
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
    """Sum the recording's own events of each host; hosts without events are left out.

    Events that run in parallel count once.
    """
    own = event_kinds.host_class == HostClass.PROFILER
    on_buffers = event_types["name"].str.contains(_BUFFERS).to_numpy()
    rows = wanted_rows(handles(events, "type"), own)
    start, dur = ints(events, "start_ps")[rows], ints(events, "dur_ps")[rows]
    is_buffer = on_buffers[handles(events, "type")[rows]]
    buffers = Spans.from_events(start[is_buffer], dur[is_buffer])
    others = Spans.from_events(start[~is_buffer], dur[~is_buffer]) - buffers
    measured = windows.measured
    inside = (buffers | others).within(
        ints(measured, "start_ps"), ints(measured, "end_ps")
    )
    return RecorderTime(
        start_stop_ps=others.length_ps,
        buffers_ps=buffers.length_ps,
        buffers=int(is_buffer.sum()),
        judged_ps=int(inside.sum()),
    )
