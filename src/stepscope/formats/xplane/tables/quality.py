"""Notes on problems that a profile reports about itself, and on contradictions."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec.structs import replace

from stepscope.formats.assemble import IN_DOUBT, doubt_note, overlap_notes, work_notes
from stepscope.formats.declared_texts import quality_note
from stepscope.formats.xplane.decoded.tracks import integer_stat, text_stat
from stepscope.formats.xplane.tables.environment import (
    compared_clock,
    start_unix_ns,
    task_environment,
)
from stepscope.formats.xplane.tables.missing_devices import is_about_devices, why_unused
from stepscope.patterns import Pattern
from stepscope.rundir import is_spool
from stepscope.trace.quality import QualityNote, notes_frame
from stepscope.unavailable import Unavailable
from stepscope.units import bytes_text, duration_text
from stepscope.xspace.vocabulary import END_PLANE, END_STAT

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

    from stepscope.formats.xplane.decoded.recording import Recording
    from stepscope.formats.xplane.tables.device_activity import Activity

_DROPPED: Final = Pattern(r"drop\w*\s+(?P<count>\d+)|(?P<other>\d+)\s+\w*\s*drop")

#: Maximum number of the producer's messages that are repeated.
_MESSAGES: Final = 100
_NS_PER_MS: Final = 1_000_000
#: Maximum clock correction, in ps, that is not reported in a note.
_MAX_SILENT_CORRECTION_PS: Final = 1_000_000_000


def quality_table(
    recording: Recording,
    activity: Activity,
    calls: pl.DataFrame | Unavailable,
    *,
    malformed_programs: int,
) -> pl.DataFrame:
    """Return quality notes, most severe first; `calls` is the table `launches`."""
    notes = [
        *_damage_notes(recording),
        *_reported_notes(recording, activity),
        *_time_notes(recording),
        *recording.shortening.notes(),
        *_capture_notes(recording),
        *_device_notes(recording, activity),
        *_activity_notes(recording, activity, calls),
    ]
    if malformed_programs:
        notes.append(quality_note("xplane.malformed_programs", malformed_programs))
    return notes_frame(tuple(notes))


def _damage_notes(recording: Recording) -> Iterator[QualityNote]:
    damage = recording.space.damage
    if damage:
        first = damage[0]
        lost = sum(part.lost_bytes for part in damage)
        lacks = f"; {bytes_text(lost)} are missing" if lost else ""
        extent = f" ({len(damage):,} damaged places)" if len(damage) > 1 else ""
        yield quality_note(
            "any.damaged_file",
            len(damage),
            what=f"The file is damaged at byte {first.offset:,}: {first.what}{lacks}"
            f"{extent}.",
        )
    if any(is_spool(path.name) for path in recording.paths):
        yield quality_note("xplane.unfinished_recording")
    for plane in recording.space.planes:
        ended_with = text_stat(plane, END_STAT) if plane.name == END_PLANE else None
        if ended_with is not None:
            yield quality_note("xplane.ended_early", ended_with=ended_with)


def _reported_notes(recording: Recording, activity: Activity) -> Iterator[QualityNote]:
    # What is wrong with the tracer of a device does not matter if it was not used.
    unused = why_unused(recording, activity) not in {None, IN_DOUBT}
    for severity, messages in (
        ("error", recording.space.errors),
        ("warning", recording.space.warnings),
    ):
        counted = Counter(messages)
        if len(counted) > _MESSAGES:
            yield quality_note(
                "xplane.many_messages", len(counted), severity=severity, shown=_MESSAGES
            )
        for text, times in islice(counted.items(), _MESSAGES):
            dropped = _DROPPED.search(text.lower())
            if dropped is None:
                note = quality_note(f"xplane.producer_{severity}", times, message=text)
                minor = unused and is_about_devices(text)
                yield replace(note, severity="info") if minor else note
            else:
                count = times * int(dropped["count"] or dropped["other"])
                yield quality_note("xplane.dropped_events", count, message=text)


def _time_notes(recording: Recording) -> Iterator[QualityNote]:
    line, base = recording.timeline, recording.base
    for kind, count in (
        ("negative_durations", line.negative),
        ("impossible_times", line.impossible),
        ("impossible_line_times", base.impossible),
        ("lines_anchored", base.anchored),
    ):
        if count:
            yield quality_note(f"xplane.{kind}", count)
    if line.moved_ps > _MAX_SILENT_CORRECTION_PS:
        yield quality_note("xplane.device_clock", moved=duration_text(line.moved_ps))
    if line.unordered:
        names = ", ".join(recording.tracks[track].name for track in line.unordered[:3])
        yield quality_note("xplane.unordered_tracks", len(line.unordered), scope=names)
    unknown = recording.space.event_types.unknown
    events = int(np.count_nonzero(unknown[line.type])) if unknown.any() else 0
    if events:
        yield quality_note(
            "xplane.unknown_event_names", events, names=int(unknown.sum())
        )


def _capture_notes(recording: Recording) -> Iterator[QualityNote]:
    clock = compared_clock(recording)
    if clock is not None:
        yield quality_note(
            "xplane.clock_compared",
            offset_ms=clock.offset_ns / _NS_PER_MS,
            doubt_ms=clock.doubt_ns / _NS_PER_MS,
        )
    if start_unix_ns(recording) is None:
        yield quality_note("xplane.no_clock")
    task = task_environment(recording)
    if task.levels is not None:
        differ = ""
        if task.asked_levels is not None and task.asked_levels != task.levels:
            differ = " Asked for: host {}, device {}, Python {}.".format(
                *task.asked_levels
            )
        variant = "" if task.levels[0] else ".no_host"
        yield quality_note(
            f"xplane.tracer_levels{variant}", levels=task.levels, asked=differ
        )


def _device_notes(recording: Recording, activity: Activity) -> Iterator[QualityNote]:
    planes = [
        (plane, role)
        for plane, role in zip(recording.space.planes, recording.roles, strict=True)
        if role.core
    ]
    used = {
        recording.tracks[track].role.device
        for track, (begin, end) in activity.by_track.items()
        if end > begin
    }
    listed = {role.device for _, role in planes}
    if len(used) < len(listed):
        yield quality_note(
            "xplane.idle_devices",
            len(listed) - len(used),
            used=len(used),
            listed=len(listed),
            kinds="/".join(sorted({str(role.device_type) for _, role in planes})),
        )
    inferred = [
        plane.name
        for plane, role in planes
        if role.device_type == "GPU"
        and text_stat(plane, "device_vendor") is None
        and integer_stat(plane, "compute_cap_major") is not None
    ]
    if inferred:
        yield quality_note("xplane.vendor_inferred", len(inferred), scope=inferred[0])
    if why_unused(recording, activity) == IN_DOUBT:
        yield doubt_note(IN_DOUBT, len(listed))


def _activity_notes(
    recording: Recording, activity: Activity, calls: pl.DataFrame | Unavailable
) -> Iterator[QualityNote]:
    yield from work_notes(activity.refused, activity.undirected)
    yield from overlap_notes(activity.frame, (track.kind for track in recording.tracks))
    frame = activity.frame
    if isinstance(calls, Unavailable) or frame.is_empty():
        return
    launched = calls["correlation"].to_numpy()
    correlations = frame["correlation"].drop_nulls().to_numpy()
    orphans = int(np.count_nonzero(~np.isin(correlations, launched)))
    orphans += frame["correlation"].null_count()
    if orphans:
        yield quality_note(
            "xplane.activity_without_launch", orphans, activities=frame.height
        )
    idle = int(np.count_nonzero(~np.isin(launched, correlations)))
    if idle:
        yield quality_note(
            "xplane.launches_without_activity", idle, launches=len(launched)
        )
