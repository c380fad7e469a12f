"""`device_timeline`: activities in time order. `correlation`: their launch calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope._core import launches as kernels
from stepscope._core.sweeps import busy_before
from stepscope.derive.columns.arrays import accepted_answer, handles, ints
from stepscope.derive.columns.dense_codes import number_rows, number_values
from stepscope.frozen import Frozen
from stepscope.trace.quality import QualityNote
from stepscope.trace.reading.by_row import values_by_row
from stepscope.trace.reading.nullable import fill_nulls
from stepscope.units import duration_text

if TYPE_CHECKING:
    import polars as pl

    from stepscope.array_types import Bools, Int32s, Int64s


class DeviceRows(Frozen, frozen=True):
    """All activities of one device, from all its streams.

    Attributes:
        rows: Rows of device_activity by start; equal starts are in the table's order.
    """

    device: int
    rows: Int64s
    start_ps: Int64s
    dur_ps: Int64s


class DeviceTimeline(Frozen, frozen=True):
    """All activities, grouped by device.

    Attributes:
        devices: One entry per device with activity, by ascending device number.
    """

    devices: tuple[DeviceRows, ...]
    row_count: int


def device_timeline(*, device_activity: pl.DataFrame) -> DeviceTimeline:
    """Sort activities by start within each device."""
    device = handles(device_activity, "device")
    start_ps = ints(device_activity, "start_ps")
    dur_ps = ints(device_activity, "dur_ps")
    ordinals = np.flatnonzero(np.bincount(device)).tolist() if len(device) else []
    single = len(ordinals) == 1
    devices = []
    for ordinal in ordinals:
        # If there is only one device, its columns are used without a copy.
        rows = np.arange(len(device)) if single else np.flatnonzero(device == ordinal)
        starts = start_ps if single else start_ps[rows]
        durs = dur_ps if single else dur_ps[rows]
        if (starts[1:] < starts[:-1]).any():
            # The stable sort merges the streams, each of which is already sorted.
            order = np.argsort(starts, kind="stable")
            rows = order if single else rows[order]
            starts, durs = starts[order], durs[order]
        devices.append(DeviceRows(ordinal, rows, starts, durs))
    return DeviceTimeline(tuple(devices), len(device))


#: Maximum number of entries of the lookup table of correlation ids, per launch call.
_MAX_ENTRIES_PER_CALL: Final = 8
#: The lookup table may always have this number of entries, even for few launch calls.
_MAX_SMALL_TABLE_ENTRIES: Final = 1 << 16


class Correlation(Frozen, frozen=True):
    """Device activities and their launch calls.

    Definition: docs/definitions/names-and-events.md#launch-calls-and-device-work,
    docs/definitions/device-work.md#launch-latency.

    Attributes:
        launch_of_activity: Row of launches with the activity's process and correlation
            id, int32 by row of device_activity; -1 for none.
        activity_count_of_launch: Number of activities that the launch call started,
            int32 by row of launches.
        queue_empty: Whether the device was idle from the start of the launch call until
            the activity began, so that the activity waited only for the host; by row of
            device_activity. False for an activity without a launch call.
        latency_ps: Time from the end of the launch call to the start of the activity if
            the queue was empty, else 0; int64 by row of device_activity.
        notes: Notes on activities without launch calls or that begin before their call.
    """

    activity: pl.DataFrame
    launches: pl.DataFrame
    launch_of_activity: Int32s
    activity_count_of_launch: Int32s
    queue_empty: Bools
    latency_ps: Int64s
    notes: tuple[QualityNote, ...]

    @property
    def launch_events(self) -> Int32s:
        """Row of events of each activity's launch call; -1 for none."""
        called_in = handles(self.launches, "event")
        return values_by_row(called_in, self.launch_of_activity, none=-1)


def correlation(
    *,
    device_activity: pl.DataFrame,
    launches: pl.DataFrame,
    device_timeline: DeviceTimeline,
) -> Correlation:
    """Match activities with launch calls by process and correlation id.

    One call may have many activities (a graph) or none. If activities or calls have no
    process ids, only correlation ids are compared. If several calls have the same id,
    the last row is used, as in the writer of the profile.
    """
    launch_of, counts = _match_launches(device_activity, launches)
    rows = len(launch_of)
    queue_empty, latency_ps = np.empty(rows, np.uint8), np.empty(rows, np.int64)
    early = np.zeros(2, np.int64)
    # By activity: latest end of all earlier activities on the same device.
    busy_until_ps = np.empty(device_timeline.row_count, np.int64)
    for device in device_timeline.devices:
        until = np.empty(len(device.rows), np.int64)
        accepted_answer(busy_before(device.start_ps, device.dur_ps, until))
        busy_until_ps[device.rows] = until
    accepted_answer(
        kernels.find_idle_waits(
            launch_of,
            ints(device_activity, "start_ps"),
            busy_until_ps,
            ints(launches, "start_ps"),
            ints(launches, "dur_ps"),
            queue_empty,
            latency_ps,
            early,
        )
    )
    orphans = rows - device_activity["correlation"].null_count() - int(counts.sum())
    return Correlation(
        activity=device_activity,
        launches=launches,
        launch_of_activity=launch_of,
        activity_count_of_launch=counts,
        queue_empty=queue_empty.view(np.bool_),
        latency_ps=latency_ps,
        notes=_launch_notes(orphans, early_count=int(early[0]), early_ps=int(early[1])),
    )


def _match_launches(
    activity: pl.DataFrame, launches: pl.DataFrame
) -> tuple[Int32s, Int32s]:
    launch = np.full(len(activity), -1, np.int32)
    counts = np.zeros(len(launches), np.int32)
    has_id = activity["correlation"].is_not_null()
    if not has_id.any() or not len(launches):
        return launch, counts
    ids: Int64s = fill_nulls(activity["correlation"], 0)
    called = ints(launches, "correlation")
    ids, called = _unite_process_ids(activity, launches, ids, called)
    lowest, greatest = int(called.min()), int(called.max())
    if greatest - lowest >= max(
        _MAX_SMALL_TABLE_ENTRIES, _MAX_ENTRIES_PER_CALL * len(called)
    ):
        # If ids have a wide range, they are numbered first, for a small lookup table.
        numbered = number_values(np.concatenate((ids, called)))
        ids = numbered.code[: len(ids)].astype(np.int64)
        called = numbered.code[len(ids) :].astype(np.int64)
        lowest, greatest = 0, numbered.count - 1
    table = np.full(greatest - lowest + 1, -1, np.int32)
    accepted_answer(kernels.match_launches(called, ids, lowest, table, launch, counts))
    if not has_id.all():
        # A missing id was looked up as 0, which may be the id of a call.
        without = np.flatnonzero(~has_id.to_numpy() & (launch >= 0))
        np.subtract.at(counts, launch[without], 1)
        launch[without] = -1
    return launch, counts


def _unite_process_ids(
    activity: pl.DataFrame, launches: pl.DataFrame, ids: Int64s, called: Int64s
) -> tuple[Int64s, Int64s]:
    """Make correlation ids unique by giving each process a separate range of ids.

    Ids do not change if one table has no process ids, or if all process ids are equal.
    """
    sides = (activity["process"], launches["process"])
    if any(side.null_count() == len(side) for side in sides):
        return ids, called
    processes = np.concatenate([side.fill_null(-1).to_numpy() for side in sides])
    if processes.min() == processes.max():
        return ids, called
    united = number_rows((processes, np.concatenate((ids, called)))).code
    of_activity, of_launch = np.split(united.astype(np.int64), [len(ids)])
    return of_activity, of_launch


def _launch_notes(
    unmatched: int, *, early_count: int, early_ps: int
) -> tuple[QualityNote, ...]:
    notes = []
    if unmatched:
        notes.append(
            QualityNote(
                kind="launch_missing",
                severity="info",
                count=unmatched,
                scope="device activity",
                message=f"{unmatched:,} activities have no launch call in the profile: "
                "they were launched before it began, or their calls were not kept.",
            )
        )
    if early_count:
        notes.append(
            QualityNote(
                kind="clock_skew",
                severity="warning",
                count=early_count,
                scope="device activity",
                message=f"{early_count:,} activities begin before the host call that "
                f"launched them, by up to {duration_text(early_ps)}: the clocks of "
                "host and device differ.",
                remedy="Compare times of host and device with this error in mind.",
            )
        )
    return tuple(notes)
