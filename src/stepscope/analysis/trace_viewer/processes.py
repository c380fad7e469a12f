"""Numbers of processes and threads in an exported trace, and its one time base.

A viewer of such traces knows processes and threads only: a section becomes a process,
and each lane of a track a thread, so that the spans of a thread nest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import ints
from stepscope.derive.timeline.drawn_rows import trace_timeline
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_NS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.derive.profile_data import ProfileData
    from stepscope.derive.timeline.drawn_rows import TraceTimeline

#: First process number by kind of section; a device with an ordinal has its number,
#: from 1 up. Definition: docs/tools/trace_viewer.md#the-json.
_FIRST: Final = {"device": 501, "host": 701, "other": 801}
#: Hosts of a run are this far apart, where there are several.
_PER_HOST: Final = 1000
_ORDINALS: Final = 500
_LANE_NAMES: Final = {"main": "", "overlap": " · overlap", "undrawn": " · bookkeeping"}


class HostTrace(Frozen, frozen=True):
    """One host's timeline with the numbers that an exported trace gives it.

    Attributes:
        host: Name of the host.
        timeline: What is shown of it.
        process: int32 by row of sections.
        threads: By lane, in the order of `timeline.lanes`: `track`, `lane`,
            `first_row`, `process`, `thread`, `order` (place in its process), `name`.
        offset_ps: What is added to the times of this host, so that all hosts have
            one time 0.
    """

    host: str
    timeline: TraceTimeline
    process: NDArray[np.int32]
    threads: pl.DataFrame
    offset_ps: int

    def places(
        self, track: NDArray[np.int32], row: NDArray[np.int32]
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return process and thread of spans by their track and the row inside it."""
        width = np.int64(2**32)
        lanes = ints(self.threads, "track") * width + ints(self.threads, "first_row")
        wanted = track.astype(np.int64) * width + row
        at = np.searchsorted(lanes, wanted, side="right") - 1
        process = self.threads["process"].to_numpy()
        thread = self.threads["thread"].to_numpy()
        return process[at], thread[at]


def host_traces(
    profile: ProfileData,
) -> tuple[list[HostTrace], dict[str, Unavailable]]:
    """Return the hosts that have a timeline, and why the others have none."""
    offsets = clock_offsets(profile)
    found: list[HostTrace] = []
    absent: dict[str, Unavailable] = {}
    several = len(profile.hosts) > 1
    for number, host in enumerate(profile.hosts, start=1):
        timeline = profile.derived(host, trace_timeline)
        if isinstance(timeline, Unavailable):
            absent[host] = timeline
            continue
        process = _processes(timeline.sections, _PER_HOST * number if several else 0)
        offset = 0 if isinstance(offsets, Unavailable) else offsets[host]
        found.append(
            HostTrace(host, timeline, process, _threads(timeline, process), offset)
        )
    return found, absent


def clock_offsets(profile: ProfileData) -> dict[str, int] | Unavailable:
    """Return by host how long its time 0 is after the earliest host's, in ps.

    Unavailable where there are several hosts and one of them recorded no clock.
    """
    starts: dict[str, int | None] = {}
    for host in profile.hosts:
        environment = profile.table(host, "environment")
        known_ns = (
            []
            if isinstance(environment, Unavailable)
            else environment["start_unix_ns"].drop_nulls().to_list()
        )
        starts[host] = known_ns[0] if known_ns else None
    known = {host: start for host, start in starts.items() if start is not None}
    if len(starts) == 1:
        return dict.fromkeys(starts, 0)
    if len(known) < len(starts):
        return Unavailable(
            code="NO_CLOCK",
            reason="hosts without an absolute start time cannot be aligned: "
            f"{', '.join(sorted(starts.keys() - known.keys()))}.",
            remedy="Compare times within a host only, or record with a profiler that "
            "writes the start time (`stepscope run`).",
        )
    first = min(known.values())
    return {host: (start - first) * PS_PER_NS for host, start in known.items()}


def _processes(sections: pl.DataFrame, base: int) -> NDArray[np.int32]:
    taken: set[int] = set()
    found = []
    for kind, device in sections.select("kind", "device").iter_rows():
        number = _FIRST[kind]
        if kind == "device" and device is not None and device < _ORDINALS:
            number = 1 + device
        while number in taken:
            number += 1
        taken.add(number)
        found.append(base + number)
    return np.array(found, np.int32)


def _threads(timeline: TraceTimeline, process: NDArray[np.int32]) -> pl.DataFrame:
    """Number the lanes in display order within their process, from 1."""
    tracks, lanes = timeline.tracks, timeline.lanes
    of_lane = lanes["track"]
    suffix = lanes["kind"].replace_strict(_LANE_NAMES)
    return lanes.select(
        "track",
        "lane",
        "first_row",
        process=pl.Series(process[ints(tracks, "section")[of_lane.to_numpy()]]),
        name=tracks["name"].gather(of_lane) + suffix,
    ).with_columns(
        thread=pl.int_range(1, pl.len() + 1, dtype=pl.Int32).over("process"),
        order=pl.int_range(0, pl.len(), dtype=pl.Int32).over("process"),
    )
