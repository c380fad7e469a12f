"""What is doubtful about a recording, and what was left out of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.formats.assemble import (
    IN_DOUBT,
    damaged_file,
    doubt_note,
    overhead_note,
    work_notes,
)
from stepscope.formats.kineto.columns.categories import EventClass
from stepscope.formats.kineto.tables.missing_devices import (
    foreign_notes,
    foreign_work,
    pairing,
    unused_devices,
)
from stepscope.patterns import Pattern
from stepscope.trace.quality import QualityNote, notes_frame

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

    from stepscope.formats.kineto.decoded.recording import Recording
    from stepscope.formats.kineto.tables.device_activity import Activity

_EXAMPLES: Final = 3
#: A rank in a file's name: `rank-3`, `rank3`, `worker3_step_12`.
_RANK: Final = Pattern(r"(?:rank|worker)[-_]?(\d+)", re.IGNORECASE)
_VERSIONS: Final = (
    "cuda_runtime_version",
    "cuda_driver_version",
    "cupti_version",
    "hip_runtime_version",
    "hip_driver_version",
    "roctracer_version",
    "schemaVersion",
)


def quality(recording: Recording, activity: Activity) -> pl.DataFrame:
    """Return every doubt about a recording, gravest first."""
    notes = (
        *_damage(recording),
        *_refused(recording),
        *recording.columns.shortening.notes(),
        *_times(recording),
        *_unknown(recording),
        *foreign_notes(recording),
        *_overhead(recording),
        *_in_doubt(recording, activity),
        *_devices(recording),
        *_activity(activity),
        *_ops(recording),
        *_memory(recording),
        *_origin(recording),
    )
    return notes_frame(notes)


def _damage(recording: Recording) -> Iterator[QualityNote]:
    columns = recording.columns
    if columns.cut_at is not None:
        yield QualityNote(
            kind="truncated_file",
            severity="error",
            count=1,
            message=f"The file ends too early, at byte {columns.cut_at:,}: everything "
            "up to the last whole event is shown.",
            remedy="Let the program finish writing its trace, or copy the whole file "
            "again.",
        )
    broken = columns.refused.get("not readable as an event", 0)
    if columns.bad_place is not None and broken:
        yield damaged_file(
            broken,
            f"The file is damaged from byte {columns.bad_place:,} on, in {broken:,} "
            "places.",
        )
    if columns.lenient:
        yield QualityNote(
            kind="invalid_json",
            severity="info",
            count=columns.lenient,
            message=f"{columns.lenient:,} events break the rules of JSON (NaN, bytes "
            "that are not UTF-8, a comma too many) but could be read; a value in them "
            "that is no number is unknown.",
        )


def _refused(recording: Recording) -> Iterator[QualityNote]:
    columns = recording.columns
    far = recording.timeline.far
    lost = np.flatnonzero(recording.placement.track < 0)
    names = recording.names
    refused = dict(columns.refused)
    examples = dict(columns.examples)
    for reason, places in (
        ("weeks away from the others", far),
        ("without a device", lost),
    ):
        if len(places):
            refused[reason] = len(places)
            chosen = columns.events.name[places[:_EXAMPLES]].tolist()
            examples[reason] = [names[number][:80] for number in chosen]
    for reason, count in sorted(refused.items()):
        shown = "; ".join(text for text in examples.get(reason, ()) if text)
        yield QualityNote(
            kind="refused_events",
            severity="warning",
            count=count,
            scope=reason,
            message=f"{count:,} events {reason} are left out. First: {shown}",
        )


def _times(recording: Recording) -> Iterator[QualityNote]:
    columns, line = recording.columns, recording.timeline
    if len(line.place) and not columns.decimals:
        ranges = ~np.isin(line.kind, (EventClass.MEMORY, EventClass.INSTANT))
        empty = int(np.count_nonzero(ranges & (line.dur_ps == 0)))
        yield QualityNote(
            kind="resolution_1_us",
            severity="info",
            count=empty,
            message="Times are whole microseconds: "
            f"{empty:,} of {int(np.count_nonzero(ranges)):,} events seem to take no "
            "time, and sums of short ones are too small.",
            remedy="Record with PyTorch 2.3 or later, which records nanoseconds.",
        )
    if len(line.place) and recording.start_unix_ns is None:
        yield QualityNote(
            kind="no_clock",
            severity="info",
            message="The file does not say when recording began, so its times cannot "
            "be compared with those of other processes.",
        )


def _unknown(recording: Recording) -> Iterator[QualityNote]:
    columns = recording.columns
    for what, counts, effect in (
        ("categories", columns.categories, "are shown on tracks of their own"),
        ("phases", columns.phases, "are left out"),
    ):
        if counts:
            most = sorted(counts.items(), key=lambda it: -it[1])[:_EXAMPLES]
            listed = ", ".join(f"{name[:40]} ({count:,})" for name, count in most)
            total = sum(counts.values())
            yield QualityNote(
                kind=f"unknown_{what}",
                severity="info",
                count=total,
                message=f"{total:,} events of {len(counts)} unknown {what} {effect}: "
                f"{listed}.",
            )


def _overhead(recording: Recording) -> Iterator[QualityNote]:
    line = recording.timeline
    rows = np.flatnonzero(line.kind == EventClass.OVERHEAD)
    if len(rows):
        spent_ps = int(line.dur_ps[rows].sum())
        remedy = "Record fewer steps, or without stacks and shapes."
        yield overhead_note(len(rows), spent_ps, remedy)


def _in_doubt(recording: Recording, activity: Activity) -> Iterator[QualityNote]:
    listed = len(pairing(recording))
    if activity.frame.height or not listed or foreign_work(recording) is not None:
        return
    if unused_devices(recording) == IN_DOUBT:
        yield doubt_note(IN_DOUBT, listed)


def _devices(recording: Recording) -> Iterator[QualityNote]:
    listed = {it.id for it in recording.device_properties}
    used = {track.device for track in recording.tracks if track.device is not None}
    shown = pairing(recording)
    if used and len(used) < len(shown):
        size = recording.distributed.world_size or 1
        yield QualityNote(
            kind="idle_devices",
            severity="info",
            count=len(shown) - len(used),
            message=f"{len(used)} of the {len(shown)} devices (GPU) of this machine "
            + (
                f"did work of this process, one of {size}; what the others did is in "
                "the files of other processes."
                if size > 1
                else "have recorded activity; the others were used by other processes, "
                "or not at all."
            ),
        )
    strange = sorted(used - listed)
    if not strange or not listed:
        return
    paired = len(used) == 1 and len(listed) == 1
    yield QualityNote(
        kind="device_ids_differ",
        severity="info" if paired else "warning",
        count=len(strange),
        scope=", ".join(f"device {device}" for device in strange[:_EXAMPLES]),
        message=f"The activity of device {strange[0]} is that of the one listed "
        f"device, whose id is {next(iter(listed))}."
        if paired
        else f"{len(strange):,} devices with activity are not among the "
        f"{len(listed):,} that are listed, so their properties are unknown.",
    )


def _activity(activity: Activity) -> Iterator[QualityNote]:
    total = activity.frame.height
    yield from work_notes(activity.refused, activity.undirected)
    if activity.unmatched:
        yield QualityNote(
            kind="activity_without_launch",
            severity="info",
            count=activity.unmatched,
            scope="device_activity",
            message=f"{activity.unmatched:,} of {total:,} device activities have no "
            "recorded launch call: it was made before recording began, or cut away.",
        )


def _ops(recording: Recording) -> Iterator[QualityNote]:
    repeated = recording.links.repeated
    if repeated:
        yield QualityNote(
            kind="external_ids_repeat_correlation",
            severity="info",
            count=repeated,
            message=f"{repeated:,} calls and activities carry their correlation id in "
            "the place of their operator's; the innermost operator around the launch "
            "call is taken.",
        )


def _memory(recording: Recording) -> Iterator[QualityNote]:
    memory = recording.columns.memory.frame
    if memory.height and memory["address"].null_count() == memory.height:
        yield QualityNote(
            kind="allocations_without_address",
            severity="info",
            count=memory.height,
            scope="allocations",
            message="Allocations carry neither address nor totals, so that blocks "
            "cannot be matched with what freed them.",
            remedy="Record with PyTorch 1.12 or later.",
        )


def _origin(recording: Recording) -> Iterator[QualityNote]:
    said = recording.distributed
    guess = _RANK.search(recording.path.name)
    if said.rank is not None:
        others = f" of {said.world_size}" if said.world_size is not None else ""
        backend = f" ({said.backend})" if said.backend else ""
        yield QualityNote(
            kind="distributed_rank",
            severity="info",
            message=f"This is rank {said.rank}{others}{backend}.",
        )
    elif guess is not None:
        yield QualityNote(
            kind="rank_guessed",
            severity="info",
            message=f"This is taken for rank {int(guess[1])} because of the file's "
            "name; the file itself names no rank.",
        )
    versions = [
        f"{name.replace('_', ' ')} {recording.field(name)}"
        for name in _VERSIONS
        if recording.field(name) is not None
    ]
    if versions:
        yield QualityNote(
            kind="recorded_versions",
            severity="info",
            message=f"Recorded with {', '.join(versions)}.",
        )
