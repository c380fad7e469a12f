"""Notes on doubtful or missing data of an Nsight Systems recording."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.formats.assemble import doubt_note, overlap_notes, work_notes
from stepscope.formats.declared_texts import quality_note
from stepscope.formats.nsight_systems.database.rows import PRIVATE
from stepscope.formats.nsight_systems.tables.device_activity import (
    CALLS_RECORDED,
    IN_DOUBT,
    why_unused,
)
from stepscope.trace.quality import (
    DEVICE_CALLED,
    DEVICE_IN_DOUBT,
    QualityNote,
    notes_frame,
)
from stepscope.trace.reading.texts import shorten_text
from stepscope.units import PS_PER_NS, duration_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepscope.formats.assemble import DeviceTables
    from stepscope.formats.nsight_systems.decoded.recording import Recording

#: Share of waits that end before the awaited activity; above, the clock is wrong.
_MAX_EARLY_SHARE: Final = 0.5
_EXAMPLES: Final = 3
_MAX_CHARS: Final = 160
#: Lowest severity of Nsight Systems' messages that is a warning or an error.
_WARNING: Final = 2
#: Matches names of calls that launch exactly one kernel.
_LAUNCH: Final = re.compile(r"(?:cuda|cu)Launch(?:Cooperative)?Kernel(?:Ex\w*)?\Z")
#: Prefix of the metadata that a script adds to a database that it changed.
_DERIVED: Final = "DERIVED_"


def device_clock_notes(recording: Recording) -> Iterator[QualityNote]:
    """Note devices with corrected times, and devices with an unknown clock offset."""
    for device, clock in recording.clocks.items():
        if clock.late_ns is not None:
            yield quality_note(
                "nsight.device_clock_moved",
                clock.waits,
                device=device,
                by=duration_text(abs(clock.late_ns) * PS_PER_NS),
                word="late" if clock.late_ns > 0 else "early",
            )
        elif clock.outlasted > _MAX_EARLY_SHARE * clock.waits:
            yield quality_note(
                "nsight.late_device_clock",
                clock.outlasted,
                waits=clock.waits,
                lateness=duration_text(clock.outlasted_ns * PS_PER_NS),
                device=device,
            )


def quality_table(recording: Recording, activity: DeviceTables) -> pl.DataFrame:
    """Return the quality notes on a recording, most severe first."""
    notes = (
        *_recorder_notes(recording),
        *_gpu_notes(recording, activity),
        *device_clock_notes(recording),
        *work_notes(activity.refused, activity.undirected),
        *overlap_notes(activity.frame, (track.kind for track in recording.tracks)),
    )
    private_tables = [table for table in PRIVATE if table in recording.export.tables]
    if private_tables:
        listed = "; ".join(f"{PRIVATE[table]} ({table})" for table in private_tables)
        notes = (
            *notes,
            quality_note("nsight.private_contents", len(private_tables), listed=listed),
        )
    return notes_frame(notes)


def _recorder_notes(recording: Recording) -> Iterator[QualityNote]:
    for table, reason in sorted(recording.export.damaged.items()):
        yield quality_note("nsight.damaged_file", 1, scope=table, reason=reason)
    if unknown := len(recording.names.unknown()):
        yield quality_note("nsight.names_missing", unknown)
    for reason, count in sorted(recording.refused.items()):
        yield quality_note("nsight.refused_events", count, scope=reason)
    yield from recording.names.notes()
    names = recording.export.frame("META_DATA_EXPORT")["name"].drop_nulls()
    if derived := int(names.str.starts_with(_DERIVED).sum()):
        yield quality_note("nsight.cut_by_a_script", derived)
    messages = recording.export.frame("DIAGNOSTIC_EVENT").filter(
        pl.col("severity") >= _WARNING
    )
    if messages.height:
        texts = messages["text"].drop_nulls().unique(maintain_order=True)[:_EXAMPLES]
        shown = "; ".join(shorten_text(text, _MAX_CHARS) for text in texts.to_list())
        yield quality_note("nsight.recorder_messages", messages.height, shown=shown)
    if recording.graphs:
        yield quality_note("nsight.graphs_as_a_whole", recording.graphs)
    # Count launch calls without a kernel; graphs may have any number of kernels.
    names_of_calls = recording.names.texts()
    launching = [row for row, text in enumerate(names_of_calls) if _LAUNCH.match(text)]
    correlated = pl.col("correlation").is_not_null()
    launches = recording.host.calls.lazy().filter(
        pl.col("name").is_in(launching) & correlated
    )
    calls = launches.select("process", "correlation").collect()
    work = recording.work.select("process", "correlation").filter(correlated)
    # Count launch calls whose correlation id has no device activity in their process.
    work_by_process = _rows_by_process(work)
    unmatched = 0
    for process, own_calls in _rows_by_process(calls).items():
        own_work = work_by_process.get(process)
        if own_work is None or process is None:
            unmatched += own_calls.height
            continue
        is_matched = np.isin(
            own_calls["correlation"].to_numpy(), own_work["correlation"].to_numpy()
        )
        unmatched += int((~is_matched).sum())
    if unmatched and recording.work.height:
        yield quality_note("nsight.work_missing", unmatched, launches=calls.height)


def _rows_by_process(frame: pl.DataFrame) -> dict[int | None, pl.DataFrame]:
    processes = frame["process"].unique().to_list()
    if len(processes) == 1:
        return {processes[0]: frame}
    return {
        process: rows
        for (process,), rows in frame.partition_by("process", as_dict=True).items()
    }


def _gpu_notes(recording: Recording, activity: DeviceTables) -> Iterator[QualityNote]:
    for device in sorted(recording.gpus.ambiguous):
        yield quality_note(
            "nsight.ambiguous_devices", 1, scope=f"/device:GPU:{device}", device=device
        )
    listed = len(recording.gpus.listed)
    used = {track.device for track in recording.tracks if track.device is not None}
    if used and len(used) < listed:
        yield quality_note(
            "nsight.idle_devices", listed - len(used), used=len(used), listed=listed
        )
    reason = why_unused(recording, activity)
    if reason is not None and (reason in IN_DOUBT or reason == CALLS_RECORDED):
        kind = DEVICE_CALLED if reason == CALLS_RECORDED else DEVICE_IN_DOUBT
        yield doubt_note(reason, listed or None, kind)
    overheads = recording.beside.overheads
    if overheads.height:
        yield quality_note(
            "any.profiler_overhead",
            overheads.height,
            spent=duration_text(int(overheads["dur"].sum()) * PS_PER_NS),
            remedy="Record a shorter time, or without call chains.",
        )
    if recording.first("TARGET_INFO_SESSION_START_TIME", "utcEpochNs") is None:
        yield quality_note("nsight.no_clock")
