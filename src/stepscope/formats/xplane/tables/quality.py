"""What a file says about its own recording, and what contradicts itself in it."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.formats.assemble import (
    IN_DOUBT,
    damaged_file,
    doubt_note,
    work_notes,
)
from stepscope.formats.xplane.decoded.tracks import integer, text
from stepscope.formats.xplane.tables.environment import (
    compared_clock,
    start_unix_ns,
    task_environment,
)
from stepscope.formats.xplane.tables.missing_devices import why_unused
from stepscope.patterns import Pattern
from stepscope.remedies import Remedy
from stepscope.rundir import is_spool
from stepscope.trace.quality import ENDED_EARLY, QualityNote, notes_frame
from stepscope.unavailable import Unavailable
from stepscope.units import bytes_text, duration_text
from stepscope.xspace.vocabulary import END_PLANE, END_STAT

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

    from stepscope.formats.xplane.decoded.recording import Recording
    from stepscope.formats.xplane.tables.device_activity import Activity

_DROPPED: Final = Pattern(r"drop\w*\s+(?P<count>\d+)|(?P<other>\d+)\s+\w*\s*drop")

#: So many messages of the producer's are repeated.
_MESSAGES: Final = 100
#: Kernels of one stream run one after the other; clocks of tracers are this coarse.
_OVERLAP_PS: Final = 1_000_000
_NS_PER_MS: Final = 1_000_000
#: Two clocks this far apart place the same event at different places of a step.
_CLOCKS_APART_PS: Final = 1_000_000_000


def quality(
    recording: Recording,
    activity: Activity,
    calls: pl.DataFrame | Unavailable,
    *,
    malformed_programs: int,
) -> pl.DataFrame:
    """Return the doubts about a recording, gravest first; `calls`: table `launches`."""
    notes = (
        *_damage(recording),
        *_unfinished(recording),
        *_early_end(recording),
        *_reported(recording),
        *_times(recording),
        *_names(recording),
        *recording.shortening.notes(),
        *_clock(recording),
        *_levels(recording),
        *_devices(recording, activity),
        *_in_doubt(recording, activity),
        *_activity(recording, activity),
        *_correlation(activity, calls),
        *_programs(malformed_programs),
    )
    return notes_frame(notes)


def _damage(recording: Recording) -> Iterator[QualityNote]:
    damage = recording.space.damage
    if not damage:
        return
    first = damage[0]
    lost = sum(it.lost_bytes for it in damage)
    lacks = f"; {bytes_text(lost)} are missing" if lost else ""
    others = f" ({len(damage):,} damaged places)" if len(damage) > 1 else ""
    yield damaged_file(
        len(damage),
        f"The file is damaged at byte {first.offset:,}: {first.what}{lacks}{others}.",
    )


def _unfinished(recording: Recording) -> Iterator[QualityNote]:
    if not any(is_spool(path.name) for path in recording.paths):
        return
    yield QualityNote(
        kind="unfinished_recording",
        severity="warning",
        message="The recording was not ended: the program was killed, or still runs. "
        "What stepscope itself recorded until a moment (0.2 s) before is here; what a "
        "framework recorded is not.",
        remedy="Let the program end, or stop the recording before it is killed.",
    )


def _early_end(recording: Recording) -> Iterator[QualityNote]:
    for plane in recording.space.planes:
        ended_with = text(plane, END_STAT) if plane.name == END_PLANE else None
        if ended_with is not None:
            yield QualityNote(
                kind=ENDED_EARLY,
                severity="warning",
                message=f"The program ended with {ended_with} before its first step.",
                remedy="Let the program come to its steps, and record again.",
            )


def _reported(recording: Recording) -> Iterator[QualityNote]:
    for severity, messages in (
        ("error", recording.space.errors),
        ("warning", recording.space.warnings),
    ):
        counted = Counter(messages)
        if len(counted) > _MESSAGES:
            yield QualityNote(
                kind="many_messages",
                severity="warning",
                count=len(counted),
                message=f"The producer reports {len(counted):,} different {severity}s; "
                f"the first {_MESSAGES} are shown.",
            )
        for message, times in islice(counted.items(), _MESSAGES):
            dropped = _DROPPED.search(message.lower())
            if dropped is not None:
                yield QualityNote(
                    kind="dropped_events",
                    severity="warning",
                    count=times * int(dropped["count"] or dropped["other"]),
                    message=f"The producer reports lost events: {message}",
                    remedy="Record fewer steps or a lower tracer level.",
                )
            else:
                yield QualityNote(
                    kind=f"producer_{severity}",
                    severity=severity,
                    count=times,
                    message=f"The producer reports: {message}",
                )


def _times(recording: Recording) -> Iterator[QualityNote]:
    line, base = recording.timeline, recording.base
    if line.negative:
        yield QualityNote(
            kind="negative_durations",
            severity="warning",
            count=line.negative,
            message=f"{line.negative:,} events end before they start and are left out.",
        )
    if line.impossible:
        yield QualityNote(
            kind="impossible_times",
            severity="warning",
            count=line.impossible,
            message=f"{line.impossible:,} events lie months away from the others and "
            "are left out.",
        )
    if base.impossible:
        yield QualityNote(
            kind="impossible_line_times",
            severity="warning",
            count=base.impossible,
            message=f"{base.impossible:,} lines start at a time that fits no "
            "recording; they are shown from time 0.",
        )
    if base.anchored:
        yield QualityNote(
            kind="lines_anchored",
            severity="info",
            count=base.anchored,
            message=f"{base.anchored:,} lines have relative times in a file with "
            "absolute ones; they are counted from its first line.",
        )
    if line.moved_ps > _CLOCKS_APART_PS:
        yield QualityNote(
            kind="device_clock",
            severity="info",
            scope="device",
            message="The recorded times of devices differ from the devices' own clock "
            f"by up to {duration_text(line.moved_ps)}; the devices' own are used, "
            "moved by one amount, so that host and device may be apart by as much as "
            "their clocks drift.",
        )
    if line.unordered:
        names = ", ".join(recording.tracks[it].name for it in line.unordered[:3])
        yield QualityNote(
            kind="unordered_tracks",
            severity="info",
            count=len(line.unordered),
            scope=names,
            message=f"The events of {len(line.unordered):,} tracks were out of order "
            "and have been sorted.",
        )


def _names(recording: Recording) -> Iterator[QualityNote]:
    unknown = recording.space.event_types.unknown
    if not unknown.any():
        return
    events = int(np.count_nonzero(unknown[recording.timeline.type]))
    if events:
        yield QualityNote(
            kind="unknown_event_names",
            severity="warning",
            count=events,
            message=f"{events:,} events refer to {int(unknown.sum()):,} names that the "
            "file does not hold; names come after the events, so a cut file loses "
            "them first.",
            remedy=Remedy.COPY_AGAIN,
        )


def _clock(recording: Recording) -> Iterator[QualityNote]:
    clock = compared_clock(recording)
    if clock is not None:
        yield QualityNote(
            kind="clock_compared",
            severity="info",
            message="The clock of this host was "
            f"{clock.offset_ns / _NS_PER_MS:+.3f} ms ahead of that of the machine that "
            f"recorded it, give or take {clock.doubt_ns / _NS_PER_MS:.3f} ms; its "
            "absolute times are by the latter.",
        )
    if start_unix_ns(recording) is None:
        yield QualityNote(
            kind="no_clock",
            severity="info",
            message="The file does not say when recording began, so its times cannot "
            "be compared with those of other hosts, and the options of the capture "
            "are unknown.",
            remedy="Record with TensorFlow 2.16 or later, or JAX.",
        )


def _levels(recording: Recording) -> Iterator[QualityNote]:
    levels = task_environment(recording).levels
    if levels is None:
        return
    host, device, python = levels
    asked = task_environment(recording).asked_levels
    differ = ""
    if asked is not None and asked != levels:
        differ = " Asked for: host {}, device {}, Python {}.".format(*asked)
    yield QualityNote(
        kind="tracer_levels",
        severity="info" if host else "warning",
        message=f"Tracer levels in force: host {host}, device {device}, "
        f"Python {python}.{differ}",
        remedy=None if host else "Record with host_tracer_level 2 to see the host.",
    )


def _devices(recording: Recording, activity: Activity) -> Iterator[QualityNote]:
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
        kinds = "/".join(sorted({str(role.device_type) for _, role in planes}))
        yield QualityNote(
            kind="idle_devices",
            severity="info",
            count=len(listed) - len(used),
            message=f"{len(used)} of {len(listed)} devices ({kinds}) have recorded "
            "activity; the others were not used, or not traced.",
        )
    inferred = [
        plane.name
        for plane, role in planes
        if role.device_type == "GPU"
        and text(plane, "device_vendor") is None
        and integer(plane, "compute_cap_major") is not None
    ]
    if inferred:
        yield QualityNote(
            kind="vendor_inferred",
            severity="info",
            count=len(inferred),
            scope=inferred[0],
            message="The vendor of the devices is not recorded; Nvidia is inferred "
            "from their compute capability.",
        )


def _in_doubt(recording: Recording, activity: Activity) -> Iterator[QualityNote]:
    if why_unused(recording, activity) == IN_DOUBT:
        listed = {role.device for role in recording.roles if role.core}
        yield doubt_note(IN_DOUBT, len(listed))


def _activity(recording: Recording, activity: Activity) -> Iterator[QualityNote]:
    yield from work_notes(activity.refused, activity.undirected)
    overlapping, span = _overlaps(recording, activity)
    if overlapping:
        yield QualityNote(
            kind="overlapping_activity",
            severity="warning",
            count=overlapping,
            scope="device_activity",
            message="Activities that begin before the previous one of their stream "
            f"ended: {overlapping:,}, by up to {duration_text(span)}; sums count that "
            "time twice, busy time does not.",
        )


def _overlaps(recording: Recording, activity: Activity) -> tuple[int, int]:
    """Activities that start too early on their stream, and the longest overlap."""
    count = longest = 0
    frame = activity.frame
    start = frame["start_ps"].to_numpy()
    dur = frame["dur_ps"].to_numpy()
    for track, (begin, end) in activity.by_track.items():
        if recording.tracks[track].kind != "stream" or end - begin < 2:
            continue
        ends = start[begin:end] + dur[begin:end]
        # Only the ends so far count: an early long one may cover several.
        early = np.maximum.accumulate(ends)[:-1] - start[begin + 1 : end]
        early = early[early > _OVERLAP_PS]
        if len(early):
            count += len(early)
            longest = max(longest, int(early.max()))
    return count, longest


def _correlation(
    activity: Activity, calls: pl.DataFrame | Unavailable
) -> Iterator[QualityNote]:
    frame = activity.frame
    if isinstance(calls, Unavailable) or frame.is_empty():
        return
    launched = calls["correlation"].to_numpy()
    ran = frame["correlation"].drop_nulls().to_numpy()
    orphans = int(np.count_nonzero(~np.isin(ran, launched)))
    without = frame["correlation"].null_count()
    if orphans or without:
        yield QualityNote(
            kind="activity_without_launch",
            severity="info",
            count=orphans + without,
            scope="device_activity",
            message=f"{orphans + without:,} of {frame.height:,} device activities have "
            "no recorded launch call.",
        )
    idle = int(np.count_nonzero(~np.isin(launched, ran)))
    if idle:
        yield QualityNote(
            kind="launches_without_activity",
            severity="info",
            count=idle,
            scope="launches",
            message=f"{idle:,} of {len(launched):,} launch calls have no recorded "
            "device activity: it lies outside the recording, or was lost.",
        )


def _programs(malformed: int) -> Iterator[QualityNote]:
    if malformed:
        yield QualityNote(
            kind="malformed_programs",
            severity="warning",
            count=malformed,
            scope="hlo_ops",
            message=f"{malformed:,} HLO modules cannot be read and are left out.",
        )
