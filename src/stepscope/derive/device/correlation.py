"""Activities in order of time, and `correlation`: the launch calls they came from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope._core import launches as kernels
from stepscope._core.sweeps import busy_before
from stepscope.derive.columns.arrays import accepted_answer, handles, ints
from stepscope.derive.columns.dense_codes import number_values
from stepscope.frozen import Frozen
from stepscope.trace.quality import QualityNote
from stepscope.trace.reading.nullable import fill_nulls
from stepscope.units import duration_text

if TYPE_CHECKING:
    import polars as pl

    from stepscope.array_types import Bools, Int32s, Int64s


class DeviceRows(Frozen, frozen=True):
    """One device's activities, all streams together.

    Attributes:
        rows: Rows of device_activity by start; equal starts in the table's order.
    """

    device: int
    rows: Int64s
    start_ps: Int64s
    dur_ps: Int64s


class DeviceTimeline(Frozen, frozen=True):
    """All activities, device by device.

    Attributes:
        devices: One entry per device that has activity, ordinals ascending.
    """

    devices: tuple[DeviceRows, ...]
    row_count: int


def device_timeline(*, device_activity: pl.DataFrame) -> DeviceTimeline:
    """Order activities by start within each device."""
    device = handles(device_activity, "device")
    start_ps = ints(device_activity, "start_ps")
    dur_ps = ints(device_activity, "dur_ps")
    ordinals = np.flatnonzero(np.bincount(device)).tolist() if len(device) else []
    alone = len(ordinals) == 1
    found = []
    for ordinal in ordinals:
        # The columns themselves where they are all of one device, in order.
        rows = np.arange(len(device)) if alone else np.flatnonzero(device == ordinal)
        starts, durs = (
            column if alone else column[rows] for column in (start_ps, dur_ps)
        )
        if (starts[1:] < starts[:-1]).any():
            # Streams are in order already: a merge sort only merges them.
            order = np.argsort(starts, kind="stable")
            rows = order if alone else rows[order]
            starts, durs = starts[order], durs[order]
        found.append(DeviceRows(ordinal, rows, starts, durs))
    return DeviceTimeline(tuple(found), len(device))


#: A table over all ids is worth its memory up to this many entries per row.
_ENTRIES_PER_ROW: Final = 8
#: A table of up to this many entries is always worth its memory.
_SMALL_TABLE: Final = 1 << 16


class Correlation(Frozen, frozen=True):
    """Activities and the launch calls they came from.

    Definition:
    docs/definitions/names-and-events.md#launch-calls-and-device-work,
    docs/definitions/device-work.md#launch-latency.

    Attributes:
        launch_of_activity: int32 by row of device_activity; the row of launches with
            the same process and id, -1 where there is none.
        activity_count_of_launch: int32 by row of launches; the number of activities
            that the launch call put on devices.
        queue_empty: By row of device_activity; True where the device did nothing from
            the begin of the launch call until the activity began, so that the
            activity waited for the host alone. False without a launch call.
        latency_ps: int64 by row of device_activity; the time from the end of the
            launch call to the begin of the activity where the queue was empty, else 0.
        notes: Activities without launch calls, and contradictions between the two.
    """

    activity: pl.DataFrame
    launches: pl.DataFrame
    launch_of_activity: Int32s
    activity_count_of_launch: Int32s
    queue_empty: Bools
    latency_ps: Int64s
    notes: tuple[QualityNote, ...]


def correlation(
    *,
    device_activity: pl.DataFrame,
    launches: pl.DataFrame,
    device_timeline: DeviceTimeline,
) -> Correlation:
    """Match activities with launch calls by process and correlation id.

    It is normal that one call has many activities (graphs) or none. Where
    either side recorded no process at all, the id alone decides. Of several calls
    with one id the last row counts, as for the producer.
    """
    launch_of, counts = _match_launches(device_activity, launches)
    rows = len(launch_of)
    queue_empty, latency_ps = np.empty(rows, np.uint8), np.empty(rows, np.int64)
    early = np.zeros(2, np.int64)
    # By activity the latest end on its device of those started before.
    busy_until_ps = np.empty(device_timeline.row_count, np.int64)
    for device in device_timeline.devices:
        until = np.empty(len(device.rows), np.int64)
        order = busy_before(device.start_ps, device.dur_ps, until)
        if order < 0:
            raise ValueError(f"device {device.device} is out of order ({order})")
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
    unmatched = rows - device_activity["correlation"].null_count() - int(counts.sum())
    return Correlation(
        activity=device_activity,
        launches=launches,
        launch_of_activity=launch_of,
        activity_count_of_launch=counts,
        queue_empty=queue_empty.view(np.bool_),
        latency_ps=latency_ps,
        notes=_launch_notes(
            unmatched, early_count=int(early[0]), early_ps=int(early[1])
        ),
    )


def _match_launches(
    activity: pl.DataFrame, launches: pl.DataFrame
) -> tuple[Int32s, Int32s]:
    found = np.full(len(activity), -1, np.int32)
    counts = np.zeros(len(launches), np.int32)
    has_id = activity["correlation"].is_not_null()
    if not has_id.any() or not len(launches):
        return found, counts
    ids: Int64s = fill_nulls(activity["correlation"], 0)
    called = ints(launches, "correlation")
    ids, called = _unite_process_ids(activity, launches, ids, called)
    least, greatest = int(called.min()), int(called.max())
    if greatest - least >= max(_SMALL_TABLE, _ENTRIES_PER_ROW * len(called)):
        # Ids that are spread out or use all bits: number them first.
        numbered = number_values(np.concatenate((ids, called)))
        ids = numbered.code[: len(ids)].astype(np.int64)
        called = numbered.code[len(ids) :].astype(np.int64)
        least, greatest = 0, numbered.count - 1
    table = np.full(greatest - least + 1, -1, np.int32)
    accepted_answer(kernels.match_launches(called, ids, least, table, found, counts))
    if not has_id.all():
        # A missing id was looked up as 0, which some call may have.
        without = np.flatnonzero(~has_id.to_numpy() & (found >= 0))
        np.subtract.at(counts, found[without], 1)
        found[without] = -1
    return found, counts


def _unite_process_ids(
    activity: pl.DataFrame, launches: pl.DataFrame, ids: Int64s, called: Int64s
) -> tuple[Int64s, Int64s]:
    """Map ids of several processes to ids of one, the processes one after the other.

    Ids stay as they are where the processes decide nothing.
    """
    sides = (activity["process"], launches["process"])
    if any(side.null_count() == len(side) for side in sides):
        return ids, called
    processes = number_values(
        np.concatenate([side.fill_null(-1).to_numpy() for side in sides])
    )
    if processes.count == 1:
        return ids, called
    ours, theirs = np.split(processes.code.astype(np.int64), [len(ids)])
    least = min(int(ids.min()), int(called.min()))
    spread = max(int(ids.max()), int(called.max())) - least + 1
    if processes.count * spread >= 2**62:
        numbered = number_values(np.concatenate((ids, called)))
        ids = numbered.code[: len(ids)].astype(np.int64)
        called = numbered.code[len(ids) :].astype(np.int64)
        least, spread = 0, numbered.count
    return ours * spread + (ids - least), theirs * spread + (called - least)


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
