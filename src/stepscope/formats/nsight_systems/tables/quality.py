"""What is doubtful about a recording, and what was left out of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.formats.assemble import doubt_note, overhead_note, work_notes
from stepscope.formats.nsight_systems.database.connection import EXPORT_AGAIN
from stepscope.formats.nsight_systems.database.rows import PRIVATE
from stepscope.formats.nsight_systems.tables.device_activity import (
    CALLS_SEEN,
    IN_DOUBT,
    unused_devices,
)
from stepscope.trace.quality import (
    DEVICE_CALLED,
    DEVICE_IN_DOUBT,
    QualityNote,
    notes_frame,
)
from stepscope.trace.reading.texts import shortened
from stepscope.units import PS_PER_NS, duration_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepscope.formats.assemble import DeviceTables
    from stepscope.formats.nsight_systems.decoded.recording import Recording

#: The most waits that may contradict the times of a device whose clock is right.
_MOST: Final = 0.5
_RECORD_AGAIN: Final = "Record again, with the newest Nsight Systems"
_EXAMPLES: Final = 3
_LONGEST_EXAMPLE: Final = 160
#: A message of Nsight Systems from this severity on is a warning or an error.
_WARNING: Final = 2
#: Calls that put exactly one kernel on a device.
_LAUNCH: Final = re.compile(r"(?:cuda|cu)Launch(?:Cooperative)?Kernel(?:Ex\w*)?\Z")
#: Names of rows about an export that a script changed begin so.
_DERIVED: Final = "DERIVED_"


def device_clock_notes(recording: Recording) -> Iterator[QualityNote]:
    """Note which devices' times were moved, and which run late by an unknown time."""
    for device, clock in recording.clocks.items():
        if clock.late_ns is not None:
            word = "late" if clock.late_ns > 0 else "early"
            by = duration_text(abs(clock.late_ns) * PS_PER_NS)
            yield QualityNote(
                kind="device_clock_moved",
                severity="info",
                count=clock.waits,
                scope="device_activity",
                message=f"The times of device {device} ran {by} {word}: launches and "
                f"{clock.waits:,} waits for a stream agree on it. They were moved by "
                "that.",
                remedy=f"{_RECORD_AGAIN}, if a millisecond matters.",
            )
        elif clock.outlasted > _MOST * clock.waits:
            lateness = duration_text(clock.outlasted_ns * PS_PER_NS)
            yield QualityNote(
                kind="late_device_clock",
                severity="warning",
                count=clock.outlasted,
                scope="device_activity",
                message=f"In {clock.outlasted:,} of {clock.waits:,} waits for a stream "
                f"its work ends after the wait, by up to {lateness}: the times of "
                f"device {device} run late, and what it seems to wait for is not "
                "known.",
                remedy=f"{_RECORD_AGAIN}; times within the device, and within the "
                "host, are right.",
            )


def quality(recording: Recording, activity: DeviceTables) -> pl.DataFrame:
    """Return every doubt about a recording, gravest first."""
    notes = (
        *_damage(recording),
        *_refused(recording),
        *recording.names.notes(),
        *_changed(recording),
        *_messages(recording),
        *_graphs(recording),
        *_without_work(recording),
        *_devices(recording),
        *_in_doubt(recording, activity),
        *_overhead(recording),
        *_clock(recording),
        *device_clock_notes(recording),
        *work_notes(activity.refused, activity.undirected),
        *_private(recording),
    )
    return notes_frame(notes)


def _damage(recording: Recording) -> Iterator[QualityNote]:
    for table, reason in sorted(recording.export.damaged.items()):
        yield QualityNote(
            kind="damaged_file",
            severity="error",
            count=1,
            scope=table,
            message=f"The table {table} can be read in part only ({reason}): what "
            "precedes the damage is shown.",
            remedy=EXPORT_AGAIN,
        )
    if unknown := len(recording.names.unknown()):
        yield QualityNote(
            kind="names_missing",
            severity="warning",
            count=unknown,
            message=f"{unknown:,} names are numbers for which the database holds no "
            "text.",
            remedy=EXPORT_AGAIN,
        )


def _refused(recording: Recording) -> Iterator[QualityNote]:
    for reason, count in sorted(recording.refused.items()):
        yield QualityNote(
            kind="refused_events",
            severity="warning",
            count=count,
            scope=reason,
            message=f"{count:,} events {reason} are left out.",
        )


def _changed(recording: Recording) -> Iterator[QualityNote]:
    names = recording.export.frame("META_DATA_EXPORT")["name"].drop_nulls()
    derived = int(names.str.starts_with(_DERIVED).sum())
    if derived:
        yield QualityNote(
            kind="cut_by_a_script",
            severity="warning",
            count=derived,
            message="A script changed this database after its export: it may show a "
            "part of the recording only.",
            remedy="Open the database that `nsys export` wrote.",
        )


def _messages(recording: Recording) -> Iterator[QualityNote]:
    rows = recording.export.frame("DIAGNOSTIC_EVENT").filter(
        pl.col("severity") >= _WARNING
    )
    if rows.height:
        texts = rows["text"].drop_nulls().unique(maintain_order=True)[:_EXAMPLES]
        shown = "; ".join(shortened(text, _LONGEST_EXAMPLE) for text in texts.to_list())
        yield QualityNote(
            kind="recorder_messages",
            severity="warning",
            count=rows.height,
            message=f"Nsight Systems itself warns {rows.height:,} times: {shown}",
        )


def _graphs(recording: Recording) -> Iterator[QualityNote]:
    graphs = recording.graphs
    if graphs:
        yield QualityNote(
            kind="graphs_as_a_whole",
            severity="warning",
            count=graphs,
            scope="device_activity",
            message=f"{graphs:,} launches of CUDA graphs were recorded as a whole: "
            "each is one piece of work, and which kernels it holds is not known.",
            remedy="Record with `nsys profile --cuda-graph-trace=node`.",
        )


def _without_work(recording: Recording) -> Iterator[QualityNote]:
    """Count launches of kernels whose kernel is not there; graphs have many or none."""
    texts = recording.names.texts()
    launching = [at for at, text in enumerate(texts) if _LAUNCH.match(text)]
    correlated = pl.col("correlation").is_not_null()
    launches = recording.host.calls.lazy().filter(
        pl.col("name").is_in(launching) & correlated
    )
    calls = launches.select("process", "correlation").collect()
    work = recording.work.select("process", "correlation").filter(correlated)
    alone = _alone(calls, work)
    if alone and recording.work.height:
        yield QualityNote(
            kind="work_missing",
            severity="warning",
            count=alone,
            scope="device_activity",
            message=f"{alone:,} of {calls.height:,} launches of kernels have no kernel "
            "in the database: the device was idle for less time than it seems.",
            remedy="Wait for the device before the recorded window ends, and end it "
            "some seconds later.",
        )


def _alone(calls: pl.DataFrame, work: pl.DataFrame) -> int:
    """Return how many calls no work of their process came from."""
    work_of = _by_process(work)
    found = 0
    for process, mine in _by_process(calls).items():
        theirs = work_of.get(process)
        if theirs is None or process is None:
            found += mine.height
            continue
        led = np.isin(mine["correlation"].to_numpy(), theirs["correlation"].to_numpy())
        found += int((~led).sum())
    return found


def _by_process(frame: pl.DataFrame) -> dict[int | None, pl.DataFrame]:
    processes = frame["process"].unique().to_list()
    if len(processes) == 1:
        return {processes[0]: frame}
    return {
        process: rows
        for (process,), rows in frame.partition_by("process", as_dict=True).items()
    }


def _devices(recording: Recording) -> Iterator[QualityNote]:
    for device in sorted(recording.gpus.ambiguous):
        yield QualityNote(
            kind="ambiguous_devices",
            severity="warning",
            count=1,
            scope=f"/device:GPU:{device}",
            message=f"Several processes used a device that they call {device}; the "
            "database does not say whether it is one, and it is shown as one.",
            remedy="Export the report again with the newest Nsight Systems.",
        )
    listed = len(recording.gpus.listed)
    used = {it.device for it in recording.tracks if it.device is not None}
    if used and len(used) < listed:
        yield QualityNote(
            kind="idle_devices",
            severity="info",
            count=listed - len(used),
            message=f"{len(used)} of the {listed} devices (GPU) of this machine did "
            "work of the recorded processes; other processes may have used the others.",
        )


def _in_doubt(recording: Recording, activity: DeviceTables) -> Iterator[QualityNote]:
    why = None if activity.frame.height else unused_devices(recording)
    if why is not None and (why in IN_DOUBT or why == CALLS_SEEN):
        kind = DEVICE_CALLED if why == CALLS_SEEN else DEVICE_IN_DOUBT
        yield doubt_note(why, len(recording.gpus.listed) or None, kind)


def _overhead(recording: Recording) -> Iterator[QualityNote]:
    rows = recording.beside.overheads
    if rows.height:
        spent_ps = int(rows["dur"].sum()) * PS_PER_NS
        remedy = "Record a shorter time, or without call chains."
        yield overhead_note(rows.height, spent_ps, remedy)


def _clock(recording: Recording) -> Iterator[QualityNote]:
    if recording.first("TARGET_INFO_SESSION_START_TIME", "utcEpochNs") is None:
        yield QualityNote(
            kind="no_clock",
            severity="info",
            message="The database does not say when recording began, so its times "
            "cannot be compared with those of other processes.",
        )


def _private(recording: Recording) -> Iterator[QualityNote]:
    held = [table for table in PRIVATE if table in recording.export.tables]
    if held:
        listed = "; ".join(f"{PRIVATE[table]} ({table})" for table in held)
        yield QualityNote(
            kind="private_contents",
            severity="info",
            count=len(held),
            message=f"The database also holds what is not read here: {listed}.",
            remedy="Drop these tables from a copy before you pass it on; the text of "
            "some remains in StringIds.",
        )
