"""The timeline track and span that show a time range of a result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from stepscope.analysis.timeline.spans import host_timeline
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from stepscope.analysis.timeline.spans import HostTimeline
    from stepscope.derive.profile_data import ProfileData

#: Number of buckets of a range; of a bucket's short spans, only the longest counts.
_PARTS: Final = 512
_OF_DEVICES: Final = ("stream", "core")
_OF_HOSTS: Final = ("thread",)


class BestSpan(msgspec.Struct, frozen=True, kw_only=True):
    """A time range, and the span that shows it best.

    Attributes:
        track: Row of the timeline's tracks; null if no single track fits.
        item: Span of the track that fills most of the range; spans that the result
            names take precedence. Null if no span fits.
        start_ps: Start of the range.
        dur_ps: Length of the range.
    """

    track: int | None
    item: int | None
    start_ps: int
    dur_ps: int


def best_spot(
    profile: ProfileData,
    host: str,
    *,
    device: int | None,
    track: str | None,
    start_ps: int,
    end_ps: int,
    names: Collection[str] = (),
) -> BestSpan:
    """Find the span that shows a time range best.

    Args:
        device: Ordinal of the device that the range is about; None for threads.
        track: Name of the range's track; None if unknown.
        names: Names of spans that the range is about.
    """
    empty = BestSpan(track=None, item=None, start_ps=start_ps, dur_ps=end_ps - start_ps)
    shown = host_timeline(profile, host)
    if isinstance(shown, Unavailable):
        return empty
    candidates = _candidate_tracks(shown, device, track)
    best = _best_span(shown, candidates, (start_ps, end_ps), names, must_match=False)
    if best is None and names:
        # If the device idles in the range, look for named spans on host threads.
        threads = _candidate_tracks(shown, None, None)
        best = _best_span(shown, threads, (start_ps, end_ps), names, must_match=True)
    if best is None:
        only = candidates[0] if len(candidates) == 1 else None
        return msgspec.structs.replace(empty, track=only)
    return msgspec.structs.replace(empty, track=best[0], item=best[1])


def _candidate_tracks(
    shown: HostTimeline, device: int | None, track: str | None
) -> Sequence[int]:
    """Return recorded tracks by name; without a name, all of the device or host."""
    devices = shown.timeline.sections["device"].to_list()
    rows = shown.timeline.tracks.select("name", "kind", "section", "source").rows()
    recorded = [
        (number, name, kind, devices[section])
        for number, (name, kind, section, source) in enumerate(rows)
        if source is not None
    ]
    if track is not None:
        named = [number for number, name, _, _ in recorded if name == track]
        on_device = [
            number
            for number, name, _, device_of_track in recorded
            if name == track and device is not None and device_of_track == device
        ]
        if named:
            return on_device or named
    kinds = _OF_HOSTS if device is None else _OF_DEVICES
    return [
        number
        for number, _, kind, device_of_track in recorded
        if kind in kinds and (device is None or device_of_track == device)
    ]


def _best_span(
    shown: HostTimeline,
    tracks: Sequence[int],
    window: tuple[int, int],
    names: Collection[str],
    *,
    must_match: bool,
) -> tuple[int, int] | None:
    """Return track and item of the span that fills most of a window, if any does."""
    begin, end = window
    best: tuple[bool, int, int, int] | None = None
    for track in tracks:
        index = shown.lane_index(track)
        slices = index.slices(
            range(len(index.edges) - 1),
            begin_ps=begin,
            end_ps=end,
            bucket_ps=max(1, (end - begin) // _PARTS),
        )
        positions = slices.item - index.first_item
        start, dur = index.start_ps[positions], index.dur_ps[positions]
        shared = np.minimum(start + dur, end) - np.maximum(start, begin)
        named = np.zeros(len(positions), np.bool_)
        if names:
            texts = shown.displayed_names(shown.name_codes(track, slices.item))
            named = texts.is_in(list(names)).fill_null(value=False).to_numpy()
        fits = (shared > 0) & (named | (not must_match))
        for place in np.flatnonzero(fits)[np.lexsort((-shared[fits], ~named[fits]))][
            :1
        ].tolist():
            item = int(slices.item[place])
            key = (bool(named[place]), int(shared[place]), -track, -item)
            best = key if best is None else max(best, key)
    return None if best is None else (-best[2], -best[3])
