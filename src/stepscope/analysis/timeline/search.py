"""Search for spans on every track: by name, by op or by kernel."""

from __future__ import annotations

from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import msgspec
import numpy as np
import polars as pl

from stepscope.analysis.results.patterns import check_pattern, match_name_parts
from stepscope.analysis.timeline.spans import FARTHEST_PS, Place, host_timeline
from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.device.activity_classes import activity_classes
from stepscope.derive.device.attribution import activity_ops
from stepscope.derive.device.kernels import kernels, launch_dimensions
from stepscope.derive.host.op_events import host_op_events
from stepscope.errors import BadUsage
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from stepscope.analysis.timeline.spans import HostTimeline
    from stepscope.array_types import Bools, Int32s
    from stepscope.derive.profile_data import ProfileData
    from stepscope.derive.trace_rows.lanes import LaneIndex

    Events = Callable[[ProfileData, str], Int32s]


#: Side on which an op runs, named as in the tables of ops.
Side = Literal["Host", "Device"]


class Direction(Enum):
    """Direction of a search along the timeline."""

    NEXT = "next"
    PREVIOUS = "previous"


class TextMatches(msgspec.Struct, frozen=True, kw_only=True):
    """How often a text occurs in the names of spans.

    Attributes:
        host: Host whose timeline was searched.
        text: Text that was searched for.
        count: Number of spans whose name contains the text.
        tracks: `track`, `count` and `total_ps` of the tracks with such spans, in
            display order; `total_ps` adds up durations, including nested spans.
        names: `name` and `count` of names with the text, most frequent first.
    """

    host: str
    text: str
    count: int
    tracks: pl.DataFrame
    names: pl.DataFrame


def count_spans(
    profile: ProfileData, host: str, text: str
) -> TextMatches | Unavailable:
    """Count the spans whose displayed or full name contains a text.

    Case does not matter, except in a text `/…/`, which is a regular expression.

    Raises:
        BadUsage: The text is empty, or is not a valid regular expression.
    """
    shown = host_timeline(profile, host)
    if isinstance(shown, Unavailable):
        return shown
    wanted = names_with_text(shown, text)
    by_track, by_name = [], np.zeros(len(wanted), np.int64)
    for track, spans, code in _track_spans(shown):
        chosen = wanted[code]
        count = int(np.count_nonzero(chosen))
        if count:
            by_track.append((track, count, int(spans.dur_ps[chosen].sum())))
            by_name += np.bincount(code[chosen], minlength=len(wanted))
    matching = np.flatnonzero(by_name)
    names = pl.DataFrame(
        [
            shown.timeline.names.gather(matching).alias("name"),
            pl.Series("count", by_name[matching]),
        ]
    )
    schema = {"track": pl.Int32(), "count": pl.Int64(), "total_ps": pl.Int64()}
    return TextMatches(
        host=host,
        text=text,
        count=int(by_name.sum()),
        tracks=pl.DataFrame(by_track, schema, orient="row"),
        names=names.group_by("name")
        .agg(pl.col("count").sum())
        .sort("count", "name", descending=[True, False]),
    )


def find_span(
    profile: ProfileData,
    host: str,
    text: str,
    *,
    from_ps: int | None = None,
    after: tuple[int, int] | None = None,
    direction: Direction = Direction.NEXT,
) -> Place | Unavailable | None:
    """Find the next or previous span whose name contains a text; None if there is none.

    Spans are ordered by start, then by track, then by item.

    Args:
        text: As for `count_spans`.
        from_ps: Time at which the search begins. Default: the start of `after` or,
            without `after`, the start of the timeline (its end for `PREVIOUS`).
        after: (track, item) of the previous result. Without `after`, a span that starts
            at `from_ps` is found too.

    Raises:
        BadUsage: As for `count_spans`, or the span `after` does not exist.
    """
    shown = host_timeline(profile, host)
    if isinstance(shown, Unavailable):
        return shown
    wanted = names_with_text(shown, text)
    forward = direction is Direction.NEXT
    if after is not None:
        found_before = shown.place_of_item(*after)
        from_ps = found_before.start_ps if from_ps is None else from_ps
    elif from_ps is None:
        from_ps = -FARTHEST_PS if forward else FARTHEST_PS
    best: tuple[int, int, int] | None = None
    for track, spans, code in _track_spans(shown):
        low = int(np.searchsorted(spans.start_ps, from_ps, side="left"))
        high = int(np.searchsorted(spans.start_ps, from_ps, side="right"))
        edge = low if forward else high
        if after is not None and track == after[0]:
            edge = after[1] - spans.first_item + (1 if forward else 0)
        elif after is not None and (track > after[0]) != forward:
            # This track's spans with the same start as `after` are earlier results.
            edge = high if forward else low
        part = slice(max(edge, 0), None) if forward else slice(0, max(edge, 0))
        matches = np.flatnonzero(wanted[code[part]])
        if not len(matches):
            continue
        index = int(matches[0]) + (part.start or 0) if forward else int(matches[-1])
        key = (int(spans.start_ps[index]), track, spans.first_item + index)
        if best is None or (key < best if forward else key > best):
            best = key
    return None if best is None else shown.place_of_item(best[1], best[2])


def _track_spans(shown: HostTimeline) -> Iterator[tuple[int, LaneIndex, Int32s]]:
    """Yield each track with its spans, by start, and the codes of their names."""
    type_ = handles(shown.events, "type")
    for track, spans in enumerate(shown.lanes):
        first, line = spans.first_item, shown.timeline.line(track)
        own_types = type_[first : first + len(spans.start_ps)]
        yield track, spans, own_types if line is None else line.spans.name


def names_with_text(shown: HostTimeline, text: str) -> Bools:
    """Return, for each code of a name, whether the name contains the text.

    Raises:
        BadUsage: As for `count_spans`.
    """
    if not text:
        raise BadUsage("the text to search for is empty")
    pattern = text[1:-1] if len(text) > 2 and text[0] == text[-1] == "/" else None
    if pattern is not None:
        check_pattern(pattern, "search")
    wanted = np.zeros(len(shown.timeline.names), np.bool_)
    for names in (shown.timeline.names, shown.timeline.full_names):
        if pattern is not None:
            wanted |= match_name_parts(names, pattern)
            continue
        lowered = names.str.to_lowercase().str.contains(text.lower(), literal=True)
        wanted |= lowered.fill_null(value=False).to_numpy()
    return wanted


_NONE: Final = np.zeros(0, np.int32)


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """One execution of an op or a kernel.

    Attributes:
        host: Host of the execution.
        place: Span that shows the execution.
    """

    host: str
    place: Place


class SoughtKernel(NamedTuple):
    """Properties of the wanted kernels; None allows any value.

    Attributes:
        op: Op that launched the kernel; "" for kernels without a known op.
        grid: Dimensions of the grid, written as in the table of kernels.
        block: Dimensions of a block, written as in the table of kernels.
    """

    name: str
    op: str | None = None
    grid: str | None = None
    block: str | None = None


def longest_of_op(
    profile: ProfileData, hosts: Sequence[str], op: str, *, side: Side | None = None
) -> Instance | None:
    """Find the longest execution of an op on one side.

    If no side is given, find the longest device work of the op or, without device work,
    its longest execution on a host.
    """
    longest = None
    if side != "Host":
        longest = _longest_event(profile, hosts, partial(_device_work, op=op))
    if longest is None and side != "Device":
        longest = _longest_event(profile, hosts, partial(_host_calls, op=op))
    return longest


def longest_of_kernel(
    profile: ProfileData, hosts: Sequence[str], kernel: SoughtKernel
) -> Instance | None:
    """Find the longest execution of a kernel."""
    return _longest_event(profile, hosts, partial(_kernel_events, sought=kernel))


def _longest_event(
    profile: ProfileData, hosts: Sequence[str], events: Events
) -> Instance | None:
    """Return the longest event of all hosts; the first of equally long events."""
    best: tuple[int, Instance] | None = None
    for host in hosts:
        shown = host_timeline(profile, host)
        if isinstance(shown, Unavailable):
            continue
        host_events = events(profile, host)
        track = shown.track_of_events(host_events.astype(np.int64))
        host_events, track = host_events[track >= 0], track[track >= 0]
        if not len(host_events):
            continue
        dur_ps = ints(shown.events, "dur_ps")[host_events]
        longest = int(np.argmax(dur_ps))
        if best is None or dur_ps[longest] > best[0]:
            place = shown.place_of_item(int(track[longest]), int(host_events[longest]))
            best = int(dur_ps[longest]), Instance(host=host, place=place)
    return None if best is None else best[1]


def _device_work(profile: ProfileData, host: str, op: str) -> Int32s:
    activity = profile.table(host, "device_activity")
    ops = profile.derived(host, activity_ops)
    if isinstance(activity, Unavailable) or isinstance(ops, Unavailable):
        return _NONE
    return handles(activity, "event")[_is_named(ops.ops["name"], op)[ops.op]]


def _host_calls(profile: ProfileData, host: str, op: str) -> Int32s:
    ops = profile.derived(host, host_op_events)
    if isinstance(ops, Unavailable):
        return _NONE
    return ops.event[_is_named(ops.ops["name"], op)[ops.op]]


def _kernel_events(profile: ProfileData, host: str, sought: SoughtKernel) -> Int32s:
    activity = profile.table(host, "device_activity")
    described = profile.derived(host, kernels)
    classes = profile.derived(host, activity_classes)
    if (
        isinstance(activity, Unavailable)
        or isinstance(described, Unavailable)
        or isinstance(classes, Unavailable)
    ):
        return _NONE
    wanted = {
        "kernel_name": sought.name,
        "op_name": sought.op,
        "grid_dim": sought.grid,
        "block_dim": sought.block,
    }
    meant = described.rows.with_columns(
        launch_dimensions("grid"), launch_dimensions("block")
    ).filter(pl.col(name) == text for name, text in wanted.items() if text is not None)
    is_meant = np.zeros(len(classes.rows), np.bool_)
    is_meant[meant["class"].to_numpy()] = True
    return handles(activity, "event")[is_meant[classes.code]]


def _is_named(names: pl.Series, wanted: str) -> Bools:
    return (names == wanted).fill_null(value=False).to_numpy()
