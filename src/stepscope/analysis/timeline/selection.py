"""The spans of some tracks in a window, as a list and as totals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import numpy as np
import polars as pl

from stepscope.analysis.timeline.search import names_with_text
from stepscope.analysis.timeline.spans import host_timeline, typed_frame
from stepscope.derive.account.time_by_cause import account, charged_rows
from stepscope.derive.columns.arrays import codes, handles, ints
from stepscope.derive.device.attribution import OpEvidence, activity_ops
from stepscope.derive.host.op_events import host_op_events
from stepscope.derive.step_time.device_sets import device_sets
from stepscope.derive.step_time.owners import CATEGORIES, OWNERS
from stepscope.derive.step_windows.windows import windows
from stepscope.errors import BadUsage
from stepscope.trace.tables import ACTIVITY_KINDS
from stepscope.unavailable import Missing, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from stepscope.analysis.timeline.spans import HostTimeline
    from stepscope.array_types import Int32s, Int64s
    from stepscope.derive.profile_data import ProfileData

#: Columns of `SpansInView.events`.
EVENT_COLUMNS: Final[dict[str, pl.DataType]] = {
    "track": pl.Int32(),
    "item": pl.Int64(),
    "row": pl.Int32(),
    "name": pl.String(),
    "start_ps": pl.Int64(),
    "dur_ps": pl.Int64(),
    "category": pl.UInt8(),
}

#: Maximum number of names in a list of sums; all other names share one unnamed row.
MAX_NAMES: Final = 100
#: Columns of `WindowTotals.owners`.
OWNER_TOTALS: Final[dict[str, pl.DataType]] = {
    "device": pl.Int32(),  # null for the step threads of a host without devices
    "owner": pl.String(),
    "category": pl.String(),
    "time_ps": pl.Int64(),  # null if unknown
}
#: Columns of the lists of sums by name.
SUMS: Final[dict[str, pl.DataType]] = {
    "name": pl.String(),  # null for the sum of names beyond `MAX_NAMES`
    "count": pl.Int64(),
    "time_ps": pl.Int64(),
}
_KERNELS: Final = [
    code
    for code, kind in enumerate(ACTIVITY_KINDS.categories)
    if kind in ("kernel", "collective")
]
_NO_OP: Final = [int(OpEvidence.COPY), int(OpEvidence.NONE)]


class TrackSelection(NamedTuple):
    """Spans of one track that overlap with a window, by item; arrays of equal length.

    Attributes:
        track: Row of the timeline's tracks.
        items: int64.
        start_ps: int64.
        dur_ps: int64.
        inside_ps: int64; part of the duration inside the window.
        name: int32; codes of names.
    """

    track: int
    items: Int64s
    start_ps: Int64s
    dur_ps: Int64s
    inside_ps: Int64s
    name: Int32s


class SpansInView(msgspec.Struct, frozen=True, kw_only=True):
    """One page of the list of spans in a window.

    Attributes:
        host: Host of the timeline.
        begin_ps: Start of the window.
        end_ps: End of the window.
        total: Number of all spans in the window, on the requested tracks.
        offset: Number of spans before this page.
        events: Columns `EVENT_COLUMNS`, by start, then by track, then by item.
        categories: Names of the categories by number.
    """

    host: str
    begin_ps: int
    end_ps: int
    total: int
    offset: int
    events: pl.DataFrame
    categories: tuple[str, ...] = CATEGORIES


def chosen_spans(
    shown: HostTimeline,
    *,
    begin_ps: int,
    end_ps: int,
    tracks: Sequence[int] = (),
    all_rows: bool = True,
    text: str | None = None,
) -> Iterator[TrackSelection]:
    """Yield, track by track, the spans that begin in a window or extend into it.

    Args:
        tracks: Rows of the timeline's tracks; empty for all.
        all_rows: Whether to include folded and hidden events.
        text: Text in the names of the spans, as for `count_spans`; None for all names.

    Raises:
        BadUsage: A track does not exist, or the text is empty or a wrong pattern.
    """
    wanted = None if text is None else names_with_text(shown, text)
    type_ = handles(shown.events, "type")
    drawn = shown.timeline.tracks["drawn_rows"].to_list()
    for track in sorted(set(tracks) or range(shown.timeline.tracks.height)):
        index, line = shown.lane_index(track), shown.timeline.line(track)
        end = index.start_ps + index.dur_ps
        touched = (index.start_ps < end_ps) & (
            (end > begin_ps) | (index.start_ps >= begin_ps)
        )
        positions = np.flatnonzero(touched)
        items = positions + index.first_item
        if not all_rows:
            is_drawn = shown.item_rows(track, items) < drawn[track]
            positions, items = positions[is_drawn], items[is_drawn]
        code = type_[items] if line is None else line.spans.name[positions]
        if wanted is not None:
            is_wanted = wanted[code]
            positions, items = positions[is_wanted], items[is_wanted]
            code = code[is_wanted]
        start, dur = index.start_ps[positions], index.dur_ps[positions]
        inside = np.minimum(start + dur, end_ps) - np.maximum(start, begin_ps)
        yield TrackSelection(track, items, start, dur, np.maximum(inside, 0), code)


def spans_in_view(
    profile: ProfileData,
    host: str,
    *,
    begin_ps: int,
    end_ps: int,
    tracks: Sequence[int],
    offset: int,
    limit: int,
    all_rows: bool,
    text: str | None = None,
) -> SpansInView | Unavailable:
    """Return one page of the list of spans in a window.

    Args:
        tracks: Rows of the timeline's tracks; empty for all.
        offset: Number of spans to skip, at least 0.
        limit: Maximum number of spans to return, at least 0.
        all_rows: Whether to include folded and hidden events.
        text: As for `chosen_spans`.

    Raises:
        BadUsage: As for `chosen_spans`, or a number is negative.
    """
    if offset < 0 or limit < 0:
        raise BadUsage("offset and limit must not be negative")
    shown = host_timeline(profile, host)
    if isinstance(shown, Unavailable):
        return shown
    chosen = [
        (spans.track, spans.items, spans.start_ps)
        for spans in chosen_spans(
            shown,
            begin_ps=begin_ps,
            end_ps=end_ps,
            tracks=tracks,
            all_rows=all_rows,
            text=text,
        )
    ]
    lengths = [len(items) for _, items, _ in chosen]
    start = np.concatenate(
        [np.empty(0, np.int64), *(starts for _, _, starts in chosen)]
    )
    # Spans are in order of track and item, which a stable sort by start keeps.
    if not limit or offset >= len(start):
        place = np.empty(0, np.int64)
    else:
        last = min(offset + limit, len(start)) - 1
        early = np.flatnonzero(start <= np.partition(start, last)[last])
        place = early[np.argsort(start[early], kind="stable")][offset : last + 1]
    first = np.cumsum([0, *lengths])
    part = np.searchsorted(first, place, side="right") - 1
    items = np.empty(len(place), np.int64)
    for number in np.unique(part).tolist():
        in_part = part == number
        items[in_part] = chosen[number][1][place[in_part] - first[number]]
    numbers = np.array([track for track, _, _ in chosen], np.int64)
    return SpansInView(
        host=host,
        begin_ps=begin_ps,
        end_ps=end_ps,
        total=len(start),
        offset=offset,
        events=_span_columns(shown, numbers[part], items),
    )


def _span_columns(shown: HostTimeline, track: Int64s, items: Int64s) -> pl.DataFrame:
    row, code = np.empty((2, len(items)), np.int32)
    start, dur = np.empty((2, len(items)), np.int64)
    category = np.empty(len(items), np.uint8)
    for number in np.unique(track).tolist():
        on_track, index = track == number, shown.lane_index(number)
        wanted = items[on_track]
        positions = wanted - index.first_item
        row[on_track] = shown.item_rows(number, wanted)
        start[on_track], dur[on_track] = (
            index.start_ps[positions],
            index.dur_ps[positions],
        )
        code[on_track] = shown.name_codes(number, wanted)
        category[on_track] = shown.item_categories(number, wanted)
    columns: dict[str, NDArray[np.integer] | pl.Series] = {
        "track": track,
        "item": items,
        "row": row,
        "name": shown.displayed_names(code),
        "start_ps": start,
        "dur_ps": dur,
        "category": category,
    }
    return typed_frame(columns, EVENT_COLUMNS)


class WindowTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Totals of some tracks in a window.

    Attributes:
        host: Host of the timeline.
        begin_ps: Start of the window.
        end_ps: End of the window.
        account_ps: Length of the part of the window from the start of the first step to
            the end of the last one; the causes of time on each device add up to it.
        owners: Columns `OWNER_TOTALS`: time by cause on the devices that the tracks
            belong to; on all devices if no track belongs to a device.
        spans: Number of spans that begin in the window or extend into it.
        ops: Sums of device activity by op, columns `SUMS`. A span that extends beyond
            the window counts with its part inside.
        host_ops: Total times of ops on host threads, columns `SUMS`.
        kernels: Sums by kernel, columns `SUMS`.
        names: Sums by displayed name over all spans, including nested and derived ones.
        missing: Values that could not be determined, with their reasons.
    """

    host: str
    begin_ps: int
    end_ps: int
    account_ps: int
    owners: pl.DataFrame
    spans: int
    ops: pl.DataFrame
    host_ops: pl.DataFrame
    kernels: pl.DataFrame
    names: pl.DataFrame
    missing: tuple[Missing, ...]


def window_totals(
    profile: ProfileData,
    host: str,
    *,
    begin_ps: int,
    end_ps: int,
    tracks: Sequence[int] = (),
) -> WindowTotals | Unavailable:
    """Add up the spans, and the time by cause, in [begin_ps, end_ps).

    Args:
        end_ps: End of the window; not before its start.
        tracks: Rows of the timeline's tracks; empty for all.

    Raises:
        BadUsage: A track does not exist.
    """
    shown = host_timeline(profile, host)
    if isinstance(shown, Unavailable):
        return shown
    end_ps = max(begin_ps, end_ps)
    names, spans = [], 0
    inside = np.full(len(shown.events), -1, np.int64)
    # Add up one track at a time, because all spans of a large run need much memory.
    for chosen in chosen_spans(shown, begin_ps=begin_ps, end_ps=end_ps, tracks=tracks):
        spans += len(chosen.items)
        names.append(_sum_by_code(chosen.name, chosen.inside_ps, shown.timeline.names))
        if shown.timeline.line(chosen.track) is None:
            inside[chosen.items] = chosen.inside_ps
    sections = shown.timeline.tracks["section"]
    of_sections = shown.timeline.sections["device"]
    shown_devices = {of_sections[sections[track]] for track in tracks}
    owned = _owner_totals(
        profile, host, begin_ps, end_ps, devices=frozenset(shown_devices - {None})
    )
    missing: tuple[Missing, ...] = ()
    if isinstance(owned, Unavailable):
        missing = (owned.missing_field("owners"),)
        owned = 0, pl.DataFrame(schema=OWNER_TOTALS)
    return WindowTotals(
        host=host,
        begin_ps=begin_ps,
        end_ps=end_ps,
        account_ps=owned[0],
        owners=owned[1],
        spans=spans,
        ops=_device_ops(profile, host, inside),
        host_ops=_host_ops(profile, host, inside),
        kernels=_kernel_sums(profile, host, shown, inside),
        names=_largest_sums(names),
        missing=missing,
    )


def _owner_totals(
    run: ProfileData, host: str, begin_ps: int, end_ps: int, *, devices: frozenset[int]
) -> tuple[int, pl.DataFrame] | Unavailable:
    """Return the length of the window's part in the steps, and this time by cause."""
    charged = run.derived(host, account)
    placed = run.derived(host, windows)
    if isinstance(charged, Unavailable):
        return charged
    if isinstance(placed, Unavailable):
        return placed
    first = int(ints(placed.rows, "start_ps").min())
    last = int(ints(placed.rows, "end_ps").max())
    starts = np.array([min(max(begin_ps, first), last)], np.int64)
    ends = np.array([min(max(end_ps, first), last)], np.int64)
    sets = run.derived(host, device_sets)
    of_device = (
        {}
        if isinstance(sets, Unavailable)
        else {device_set.device: device_set for device_set in sets.devices}
    )
    known = {device.device for device in charged.devices} & devices
    rows: list[tuple[int | None, str, str, int | None]] = []
    for device in charged.devices:
        if known and device.device not in known:
            continue
        times = charged_rows(
            starts,
            ends,
            device=None if device.device is None else of_device[device.device],
            ordinal=device.device,
            idle=device.idle,
            missing=charged.missing,
        ).row(0, named=True)
        rows += [
            (device.device, owner.name, owner.category, times[f"{owner.name}_ps"])
            for owner in OWNERS
        ]
    return int(ends[0] - starts[0]), pl.DataFrame(rows, OWNER_TOTALS, orient="row")


def _device_ops(profile: ProfileData, host: str, inside: Int64s) -> pl.DataFrame:
    activity = profile.table(host, "device_activity")
    ops = profile.derived(host, activity_ops)
    if isinstance(activity, Unavailable) or isinstance(ops, Unavailable):
        return _largest_sums(())
    named = ops.ops.select(
        pl.when(~pl.col("evidence").is_in(_NO_OP)).then("name")
    ).to_series()
    return _sum_events(handles(activity, "event"), ops.op, named, inside)


def _host_ops(profile: ProfileData, host: str, inside: Int64s) -> pl.DataFrame:
    on_host = profile.derived(host, host_op_events)
    if isinstance(on_host, Unavailable):
        return _largest_sums(())
    # Of recursive calls of an op, only the outermost call counts.
    outer = np.where(on_host.outermost, on_host.event, np.int32(-1))
    return _sum_events(outer, on_host.op, on_host.ops["name"], inside)


def _kernel_sums(
    profile: ProfileData, host: str, shown: HostTimeline, inside: Int64s
) -> pl.DataFrame:
    activity = profile.table(host, "device_activity")
    if isinstance(activity, Unavailable):
        return pl.DataFrame(schema=SUMS)
    event = handles(activity, "event")
    event = event[np.isin(codes(activity, "kind"), _KERNELS)]
    type_ = handles(shown.events, "type")[event]
    return _sum_events(event, type_, shown.timeline.names, inside)


def _sum_events(
    event: Int32s, code: Int32s, names: pl.Series, inside: Int64s
) -> pl.DataFrame:
    """Add up the events inside the window by the code of a name, largest first."""
    rows = np.flatnonzero((event >= 0) & (code >= 0))
    rows = rows[inside[event[rows]] >= 0]
    return _largest_sums([_sum_by_code(code[rows], inside[event[rows]], names)])


def _sum_by_code(code: Int32s, time_ps: Int64s, names: pl.Series) -> pl.DataFrame:
    """Add up by code and then look up names, because adding up by text is slow."""
    sums = (
        pl.DataFrame({"code": code, "time_ps": time_ps})
        .group_by("code", maintain_order=True)
        .agg(pl.len().alias("count"), pl.col("time_ps").sum())
    )
    return sums.select(names.gather(sums["code"]).alias("name"), "count", "time_ps")


def _largest_sums(parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Add up by name, longest time first; names after the first 100 share one row."""
    if not parts:
        return pl.DataFrame(schema=SUMS)
    sums = (
        pl.concat(parts)
        .drop_nulls("name")
        .group_by("name")
        .agg(pl.col("count", "time_ps").sum())
        .sort(["time_ps", "count", "name"], descending=[True, True, False])
        .select(pl.col(name).cast(dtype) for name, dtype in SUMS.items())
    )
    if sums.height <= MAX_NAMES:
        return sums
    remainder = sums.slice(MAX_NAMES).select(
        pl.lit(None, pl.String).alias("name"), pl.col("count", "time_ps").sum()
    )
    return pl.concat((sums.head(MAX_NAMES), remainder))
