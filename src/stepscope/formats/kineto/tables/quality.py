"""Notes on doubtful or missing data of a Kineto recording."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.formats.assemble import IN_DOUBT, doubt_note, overlap_notes, work_notes
from stepscope.formats.declared_texts import quality_note
from stepscope.formats.kineto.columns.categories import EventClass
from stepscope.formats.kineto.tables.missing_devices import (
    foreign_work,
    listed_foreign_events,
    pair_devices,
    why_unused,
)
from stepscope.patterns import Pattern
from stepscope.trace.quality import QualityNote, notes_frame
from stepscope.units import duration_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

    from stepscope.formats.kineto.decoded.recording import Recording
    from stepscope.formats.kineto.tables.device_activity import Activity

_MAX_EXAMPLES: Final = 3
#: Matches the rank in a file name, as in `rank-3`, `rank3` or `worker3_step_12`.
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


def quality_table(recording: Recording, activity: Activity) -> pl.DataFrame:
    """Return the quality notes on a recording, most severe first."""
    notes = (
        *_damage_notes(recording),
        *recording.columns.shortening.notes(),
        *_event_notes(recording),
        *_device_notes(recording, activity),
        *_activity_notes(recording, activity),
        *_origin_notes(recording),
    )
    return notes_frame(notes)


def _damage_notes(recording: Recording) -> Iterator[QualityNote]:
    columns = recording.columns
    if columns.cut_at is not None:
        yield quality_note("kineto.truncated_file", 1, cut_at=columns.cut_at)
    refused = dict(columns.refused)
    broken = refused.get("not readable as an event", 0)
    if columns.bad_place is not None and broken:
        extent = f"from byte {columns.bad_place:,} on, in {broken:,} places."
        yield quality_note(
            "any.damaged_file", broken, what=f"The file is damaged {extent}"
        )
    if columns.lenient:
        yield quality_note("kineto.invalid_json", columns.lenient)
    examples = dict(columns.examples)
    for reason, events in (
        ("weeks away from all other events", recording.timeline.far),
        ("without a device", np.flatnonzero(recording.placement.track < 0)),
    ):
        if len(events):
            refused[reason] = len(events)
            numbers = columns.events.name[events[:_MAX_EXAMPLES]].tolist()
            examples[reason] = [recording.names[number][:80] for number in numbers]
    for reason, count in sorted(refused.items()):
        shown = "; ".join(text for text in examples.get(reason, ()) if text)
        yield quality_note("kineto.refused_events", count, scope=reason, shown=shown)


def _event_notes(recording: Recording) -> Iterator[QualityNote]:
    columns, line = recording.columns, recording.timeline
    if len(line.place) and not columns.decimals:
        ranges = ~np.isin(line.kind, (EventClass.MEMORY, EventClass.INSTANT))
        yield quality_note(
            "kineto.resolution_1_us",
            int(np.count_nonzero(ranges & (line.dur_ps == 0))),
            ranges=int(np.count_nonzero(ranges)),
        )
    if len(line.place) and recording.start_unix_ns is None:
        yield quality_note("kineto.no_clock")
    for noun, counts in (
        ("categories", columns.categories),
        ("phases", columns.phases),
    ):
        if counts:
            top = sorted(counts.items(), key=lambda item: -item[1])[:_MAX_EXAMPLES]
            listed = ", ".join(f"{name[:40]} ({count:,})" for name, count in top)
            yield quality_note(
                f"kineto.unknown_{noun}",
                sum(counts.values()),
                kinds=len(counts),
                listed=listed,
            )


def _device_notes(recording: Recording, activity: Activity) -> Iterator[QualityNote]:
    foreign, listed_events = listed_foreign_events(recording)
    if foreign:
        yield quality_note(
            "kineto.device_not_understood", foreign, listed=listed_events
        )
    overhead = recording.timeline.kind == EventClass.OVERHEAD
    if overhead.any():
        yield quality_note(
            "any.profiler_overhead",
            int(np.count_nonzero(overhead)),
            spent=duration_text(int(recording.timeline.dur_ps[overhead].sum())),
            remedy="Record fewer steps, or without stacks and shapes.",
        )
    shown = pair_devices(recording)
    is_in_doubt = why_unused(recording, activity) == IN_DOUBT
    if is_in_doubt and foreign_work(recording) is None:
        yield doubt_note(IN_DOUBT, len(shown))
    listed = {device.id for device in recording.device_properties}
    used = {track.device for track in recording.tracks if track.device is not None}
    if used and len(used) < len(shown):
        processes = recording.distributed.world_size or 1
        yield quality_note(
            "kineto.idle_devices.several_processes"
            if processes > 1
            else "kineto.idle_devices",
            len(shown) - len(used),
            used=len(used),
            listed=len(shown),
            processes=processes,
        )
    strange = sorted(used - listed)
    if not strange or not listed:
        return
    scope = ", ".join(f"device {device}" for device in strange[:_MAX_EXAMPLES])
    if len(used) == len(listed) == 1:
        yield quality_note(
            "kineto.device_ids_differ.paired",
            1,
            scope=scope,
            used=strange[0],
            listed=next(iter(listed)),
        )
    else:
        yield quality_note(
            "kineto.device_ids_differ", len(strange), scope=scope, listed=len(listed)
        )


def _activity_notes(recording: Recording, activity: Activity) -> Iterator[QualityNote]:
    yield from work_notes(activity.refused, activity.undirected)
    yield from overlap_notes(activity.frame, (track.kind for track in recording.tracks))
    if activity.unmatched:
        yield quality_note(
            "kineto.activity_without_launch",
            activity.unmatched,
            activities=activity.frame.height,
        )
    if repeated := recording.links.repeated:
        yield quality_note("kineto.external_ids_repeat_correlation", repeated)
    memory = recording.columns.memory.frame
    if memory.height and memory["address"].null_count() == memory.height:
        yield quality_note("kineto.allocations_without_address", memory.height)


def _origin_notes(recording: Recording) -> Iterator[QualityNote]:
    job = recording.distributed
    guess = _RANK.search(recording.path.name)
    if job.rank is not None:
        yield quality_note(
            "kineto.distributed_rank",
            rank=job.rank,
            others="" if job.world_size is None else f" of {job.world_size}",
            backend=f" ({job.backend})" if job.backend else "",
        )
    elif guess is not None:
        yield quality_note("kineto.rank_guessed", rank=int(guess[1]))
    versions = [
        f"{name.replace('_', ' ')} {recording.field(name)}"
        for name in _VERSIONS
        if recording.field(name) is not None
    ]
    if versions:
        yield quality_note("kineto.recorded_versions", versions=", ".join(versions))
