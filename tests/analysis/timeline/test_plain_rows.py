"""Every answer about spans, against a plain walk over all rows of the timeline."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import pytest
from tests.support.traces import blueprint
from tests.support.traces.tiles import TrackSlices, track_tile, track_window

from stepscope.analysis.timeline.details import SpanDetails, details_of_span
from stepscope.analysis.timeline.search import (
    Direction,
    TextMatches,
    count_spans,
    find_span,
)
from stepscope.analysis.timeline.selection import (
    SpansInView,
    WindowTotals,
    spans_in_view,
    window_totals,
)
from stepscope.analysis.timeline.spans import Place
from stepscope.analysis.timeline.tiles import (
    Rows,
    Tiles,
    track_tiles,
)
from stepscope.derive.host.event_nesting import event_nesting
from stepscope.derive.step_time.host_classes import event_categories
from stepscope.derive.step_time.owners import CATEGORIES
from stepscope.derive.trace_rows.drawn_rows import trace_timeline

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData

US = 1_000_000
STREAM = "gpu:0/7(Compute)"
OTHER_STREAM = "gpu:0/8(Compute)"
SECOND = "gpu:1/7(Compute)"


def launched(line: blueprint.Line, number: int, op: str = "") -> list[blueprint.Line]:
    """A device activity, and the call that launches it 20 µs before."""
    stats: dict[str, int | str] = {"correlation_id": number}
    track, name, start, dur = line
    call = ("main", "cuLaunchKernel", start - 20, 5, stats)
    return [call, (track, name, start, dur, {**stats, "tf_op": op} if op else stats)]


def two_devices() -> list[blueprint.Line]:
    """Three steps on two devices; a thread that nests, hides and repeats itself."""
    lines: list[blueprint.Line] = [("main", "early", 0, 40)]
    for step in range(3):
        at, number = 100 + 400 * step, 10 * step
        lines += [
            ("main", "train", at, 350, {"_r": 1, "step_num": 7 + step}),
            ("main", "outer", at + 10, 300),
            ("main", "inner", at + 15, 6),
            ("main", "instant", at + 30, 0),
            ("main", "MemoryAllocation", at + 31, 1),
            ("loader", "a/Read:Read", at + 5, 120 + step),
            ("loader", "a/Read:Read", at + 20, 40),
            ("loader", "inner", at + 200, 30),
            *launched((STREAM, "gemm", at + 60, 50), number + 1, "a/MatMul:MatMul"),
            *launched((STREAM, "gemm", at + 110, 50), number + 2, "b/MatMul:MatMul"),
            *launched((OTHER_STREAM, "MemcpyH2D", at + 90, 80), number + 3),
            *launched(
                (SECOND, "gemm", at + 120, 10 + step), number + 4, "a/MatMul:MatMul"
            ),
            *launched((SECOND, "ncclDevKernel_AllReduce", at + 150, 90), number + 5),
        ]
    lines.append((SECOND, "nobody's", 1310, 5))
    return lines


@cache
def profile_of(name: str) -> ProfileData:
    made = {
        "two devices": lambda: blueprint.trace(two_devices(), devices={0: {}, 1: {}}),
        "one device": blueprint.a1,
        "no device": blueprint.a2,
    }
    return blueprint.profile(made[name]())


@pytest.fixture(params=["two devices", "one device", "no device"])
def profile(request: pytest.FixtureRequest) -> ProfileData:
    return profile_of(request.param)


class Span(NamedTuple):
    """One span of any track; `event` is the one with which it begins, -1 for none."""

    track: int
    item: int
    row: int
    name: str
    start_ps: int
    dur_ps: int
    category: int
    event: int
    full_name: str

    @property
    def end_ps(self) -> int:
        return self.start_ps + self.dur_ps

    def inside(self, begin: int, end: int) -> int:
        """Its part in a window."""
        return max(0, min(self.end_ps, end) - max(self.start_ps, begin))

    def touches(self, begin: int, end: int) -> bool:
        """Whether it begins in a window or runs into it."""
        return begin <= self.start_ps < end or self.start_ps < begin < self.end_ps


def all_spans(profile: ProfileData) -> list[Span]:
    """By track and item."""
    timeline = profile.derived("vm", trace_timeline)
    events = profile.table("vm", "events").select("type", "start_ps", "dur_ps").rows()
    category = profile.derived("vm", event_categories).tolist()
    spans = []
    for track, about in enumerate(timeline.tracks.iter_rows(named=True)):
        for item in range(about["begin"], about["end"]):
            if about["source"] is not None:
                code, start, dur = events[item]
                row, event = int(timeline.row[item]), item
            else:
                slices = timeline.slices
                code, start, dur, row, event = (
                    int(column[item])
                    for column in (
                        *(slices.name, slices.start_ps, slices.dur_ps),
                        *(slices.row, slices.event),
                    )
                )
            kind = CATEGORIES.index("other") if event < 0 else category[event]
            if about["view"] == "launch_stats":
                kind = CATEGORIES.index("kernel_launch")
            name = timeline.names[code]
            full = timeline.full_names[code] or name
            spans.append(Span(track, item, row, name, start, dur, kind, event, full))
    return spans


def bounds_of(spans: list[Span]) -> tuple[int, int]:
    return min(one.start_ps for one in spans), max(one.end_ps for one in spans)


def windows_of(spans: list[Span]) -> list[tuple[int, int]]:
    """The whole, an empty part, and parts that begin and end where spans do."""
    begin, end = bounds_of(spans)
    edges = sorted({one.start_ps for one in spans} | {one.end_ps for one in spans})
    third = len(edges) // 3
    return [
        (begin - 1, end + 1),
        (edges[third], edges[2 * third]),
        (edges[third] + 1, edges[2 * third] + 1),
        (edges[third], edges[third]),
    ]


def test_a_page_lists_what_touches_its_window(profile: ProfileData) -> None:
    spans = all_spans(profile)
    drawn = profile.derived("vm", trace_timeline).tracks["drawn_rows"]
    tracks = {one.track for one in spans}
    for begin, end in windows_of(spans):
        for chosen in ([], sorted(tracks)[::2]):
            for all_rows in (True, False):
                expected = [
                    one[:7]
                    for one in sorted(spans, key=lambda one: (one.start_ps, one[:2]))
                    if one.touches(begin, end)
                    and one.track in (chosen or tracks)
                    and (all_rows or one.row < drawn[one.track])
                ]
                for offset, limit in ((0, 10**6), (1, 4), (len(expected), 3), (0, 0)):
                    page = spans_in_view(
                        profile,
                        "vm",
                        begin_ps=begin,
                        end_ps=end,
                        tracks=chosen,
                        offset=offset,
                        limit=limit,
                        all_rows=all_rows,
                    )
                    assert isinstance(page, SpansInView)
                    assert page.events.rows() == expected[offset : offset + limit]
                    assert (page.total, page.offset) == (len(expected), offset)
                    assert (page.begin_ps, page.end_ps) == (begin, end)


def sums_by(
    names: list[tuple[str | None, int]],
) -> list[tuple[str, int, int]]:
    """(name, count, time) of (name, time), longest first."""
    times = defaultdict(list)
    for name, time in names:
        if name is not None:
            times[name].append(time)
    sums = [(name, len(each), sum(each)) for name, each in times.items()]
    return sorted(sums, key=lambda one: (-one[2], -one[1], one[0]))


@pytest.mark.parametrize("every", [1, 3])
def test_totals_of_a_window_are_sums_over_its_spans(every: int) -> None:
    profile = profile_of("two devices")
    spans = all_spans(profile)
    tracks = profile.derived("vm", trace_timeline).tracks
    recorded = set(tracks["source"].is_not_null().arg_true().to_list())
    streams = set((tracks["kind"] == "stream").arg_true().to_list())
    op_by_start = {
        (line[1], line[2] * US, line[3] * US): line[4]["tf_op"].partition(":")[0]
        for line in two_devices()
        if len(line) > 4 and "tf_op" in line[4]
    }
    for begin, end in windows_of(spans):
        chosen = sorted({one.track for one in spans})[::every]
        found = window_totals(profile, "vm", begin_ps=begin, end_ps=end, tracks=chosen)
        assert isinstance(found, WindowTotals)
        inside = [
            one for one in spans if one.track in chosen and one.touches(begin, end)
        ]
        assert found.spans == len(inside)
        assert found.names.rows() == sums_by(
            [(one.name, one.inside(begin, end)) for one in inside]
        )
        work = [one for one in inside if one.track in streams]
        assert found.kernels.rows() == sums_by(
            [
                (one.name, one.inside(begin, end))
                for one in work
                if one.name != "MemcpyH2D"
            ]
        )
        assert found.ops.rows() == sums_by(
            [
                (
                    op_by_start.get((one.name, one.start_ps, one.dur_ps)),
                    one.inside(begin, end),
                )
                for one in work
            ]
        )
        # Of an op in itself the outer one counts.
        assert found.host_ops.rows() == sums_by(
            [
                ("a/Read", one.inside(begin, end))
                for one in inside
                if one.track in recorded
                and one.name == "a/Read:Read"
                and one.dur_ps != 40 * US
            ]
        )
        assert found.missing == ()


def test_causes_are_of_the_devices_that_the_tracks_belong_to() -> None:
    profile = profile_of("two devices")
    tracks = profile.derived("vm", trace_timeline).tracks
    names = list(zip(tracks["name"], tracks["section"], strict=True))

    def devices(*chosen: int) -> list[int]:
        found = window_totals(
            profile, "vm", begin_ps=0, end_ps=900 * US, tracks=list(chosen)
        )
        assert isinstance(found, WindowTotals)
        # From the first step to the end of the window.
        assert found.account_ps == 800 * US
        sums: Counter[int] = Counter()
        for device, _, _, time_ps in found.owners.iter_rows():
            sums[device] += time_ps or 0
        assert set(sums.values()) == {800 * US}
        return sorted(sums)

    first, second = (names.index(("Stream #7(Compute)", section)) for section in (0, 1))
    main = names.index(("main", 2))
    assert devices(first) == [0]
    assert devices(second) == devices(second, main) == [1]
    assert devices(first, second) == devices(main) == devices() == [0, 1]


@pytest.mark.parametrize("text", ["e", "INNER", "gemm", "/^(gemm|train)/", "nothing"])
def test_a_search_counts_names_and_tracks(profile: ProfileData, text: str) -> None:
    spans = matching(profile, text)
    found = count_spans(profile, "vm", text)
    assert isinstance(found, TextMatches)
    assert found.count == len(spans)
    by_track = defaultdict(list)
    for one in spans:
        by_track[one.track].append(one.dur_ps)
    assert found.tracks.rows() == [
        (track, len(times), sum(times)) for track, times in sorted(by_track.items())
    ]
    counted = [
        (name, count) for name, count, _ in sums_by([(s.name, 0) for s in spans])
    ]
    assert found.names.rows() == counted


def matching(profile: ProfileData, text: str) -> list[Span]:
    """The spans whose name, displayed or whole, has a text."""
    timeline = profile.derived("vm", trace_timeline)
    names = zip(timeline.names, timeline.full_names, strict=True)
    starts = ("gemm", "train") if text.startswith("/") else None
    wanted = {
        shown
        for shown, full in names
        if any(
            name is not None
            and (name.startswith(starts) if starts else text.lower() in name.lower())
            for name in (shown, full)
        )
    }
    return [one for one in all_spans(profile) if one.name in wanted]


@pytest.mark.parametrize("text", ["e", "gemm"])
def test_the_next_span_is_the_nearest_one_behind_or_before(
    profile: ProfileData, text: str
) -> None:
    spans = sorted(
        matching(profile, text), key=lambda one: (one.start_ps, one.track, one.item)
    )

    def seek(direction: Direction, **where: object) -> tuple[int, int] | None:
        place = find_span(profile, "vm", text, direction=direction, **where)  # type: ignore[arg-type]
        assert place is None or isinstance(place, Place)
        return place and (place.track, place.item)

    keys = [(one.track, one.item) for one in spans]
    ends = (keys[0], keys[-1]) if keys else (None, None)
    assert (seek(Direction.NEXT), seek(Direction.PREVIOUS)) == ends
    for number, one in list(enumerate(spans))[:: max(1, len(spans) // 20)]:
        following = keys[number + 1] if number + 1 < len(keys) else None
        before = keys[number - 1] if number else None
        assert seek(Direction.NEXT, after=keys[number]) == following
        assert seek(Direction.PREVIOUS, after=keys[number]) == before
        same = [
            key
            for key, other in zip(keys, spans, strict=True)
            if other.start_ps == one.start_ps
        ]
        assert seek(Direction.NEXT, from_ps=one.start_ps) == same[0]
        assert seek(Direction.PREVIOUS, from_ps=one.start_ps) == same[-1]


def test_a_walk_from_any_span_goes_on_where_it_is() -> None:
    """The span that was found before need not carry the text that is looked for."""
    profile = profile_of("two devices")
    spans = sorted(all_spans(profile), key=lambda one: (one.start_ps, *one[:2]))
    for number, one in list(enumerate(spans))[::3]:
        behind = [s for s in spans[number + 1 :] if s.name == "inner"]
        before = [s for s in spans[:number] if s.name == "inner"]
        for direction, expected in (
            (Direction.NEXT, behind[:1]),
            (Direction.PREVIOUS, before[-1:]),
        ):
            place = find_span(
                profile, "vm", "/^inner$/", after=one[:2], direction=direction
            )
            assert [place and (place.track, place.item)] == (
                [s[:2] for s in expected] or [None]
            )


def test_details_compare_a_span_with_all_of_its_name(profile: ProfileData) -> None:
    """Those of threads, of each device, and of derived tracks by themselves."""
    spans = all_spans(profile)
    timeline = profile.derived("vm", trace_timeline)
    source = timeline.tracks["source"].to_list()
    parents = profile.derived("vm", event_nesting).parent.tolist()
    steps = steps_of(profile)
    devices = timeline.sections["device"].to_list()
    section = timeline.tracks["section"].to_list()

    def side(one: Span) -> int | str | None:
        derived = source[one.track] is None
        return "derived" if derived else devices[section[one.track]]

    for one in spans[:: max(1, len(spans) // 40)]:
        found = details_of_span(profile, "vm", track=one.track, item=one.item)
        assert isinstance(found, SpanDetails)
        same = sorted(
            (
                other
                for other in spans
                if other.full_name == one.full_name and side(other) == side(one)
            ),
            key=lambda other: (other.start_ps, other.item),
        )
        number = same.index(one)
        assert found.same_name.count == len(same)
        assert found.same_name.total_ps == sum(other.dur_ps for other in same)
        shorter = sum(other.dur_ps <= one.dur_ps for other in same)
        assert found.same_name.percentile == 100 * shorter / len(same)
        assert found.same_name.previous == (place(same[number - 1]) if number else None)
        last = number + 1 == len(same)
        assert found.same_name.next == (None if last else place(same[number + 1]))
        assert (found.name, found.full_name) == (one.name, one.full_name)
        assert found.category == CATEGORIES[one.category]
        if source[one.track] is None:
            assert (found.parent, found.children, found.children_count) == (None, (), 0)
            continue
        inside = [
            other
            for other in spans
            if other.track == one.track and parents[other.item] == one.item
        ]
        assert found.children == tuple(map(place, inside))
        assert found.children_count == len(inside)
        assert found.self_ps == one.dur_ps - sum(other.dur_ps for other in inside)
        around = [
            other
            for other in spans
            if other.track == one.track and other.item == parents[one.item]
        ]
        assert found.parent == (place(around[0]) if around else None)
        if side(one) is None:
            own = [
                number for number, begin, end in steps if begin <= one.start_ps < end
            ]
            assert [found.step] == (own or [None])


def steps_of(profile: ProfileData) -> list[tuple[int, int, int]]:
    """(number, begin, end) of the markers of steps, which are on the main thread."""
    markers = [one for one in all_spans(profile) if one.name.startswith("train")]
    timeline = profile.derived("vm", trace_timeline)
    recorded = timeline.tracks["source"].is_not_null().to_list()
    begins = sorted(
        (one.start_ps, one.end_ps) for one in markers if recorded[one.track]
    )
    first = {"two devices": 7, "one device": 100, "no device": 50}
    (number,) = [first[name] for name in first if profile_of(name) is profile]
    return [
        (number + at, begin, begins[at + 1][0] if at + 1 < len(begins) else end)
        for at, (begin, end) in enumerate(begins)
    ]


def place(one: Span) -> Place:
    return Place(
        track=one.track,
        item=one.item,
        row=one.row,
        name=one.name,
        start_ps=one.start_ps,
        dur_ps=one.dur_ps,
    )


def test_arrows_join_equal_ids() -> None:
    profile = profile_of("two devices")
    spans = all_spans(profile)
    recorded = profile.derived("vm", trace_timeline).tracks["source"].is_not_null()
    lines = {
        (line[1], line[2] * US): line[4]["correlation_id"]
        for line in two_devices()
        if len(line) > 4 and "correlation_id" in line[4]
    }
    ids = {
        one: lines[one.name, one.start_ps]
        for one in spans
        if recorded[one.track] and (one.name, one.start_ps) in lines
    }
    calls = {ids[one]: one for one in ids if one.name == "cuLaunchKernel"}
    works = sorted((one.item, one) for one in ids if one.name != "cuLaunchKernel")
    arrows = [(calls[ids[work]], work) for _, work in works]
    assert len(arrows) == 15
    flows = profile.derived("vm", trace_timeline).flows
    found = zip(flows.launch_event, flows.device_event, flows.correlation, strict=True)
    assert sorted(found) == sorted(
        (call.item, work.item, ids[work]) for call, work in arrows
    )


def test_tiles_of_tracks_are_the_tiles_of_each(profile: ProfileData) -> None:
    spans = all_spans(profile)
    tracks = sorted({one.track for one in spans})
    for level, rows in ((16, Rows.DRAWN), (20, Rows.DRAWN), (20, Rows.ALL)):
        found = track_tiles(
            profile, "vm", tracks=tracks[::-1], level=level, index=0, rows=rows
        )
        assert isinstance(found, Tiles)
        expected = []
        for track in tracks[::-1]:
            tile = track_tile(
                profile, "vm", track=track, level=level, index=0, rows=rows
            )
            assert isinstance(tile, TrackSlices)
            expected += [(track, *row) for row in tile.slices.rows()]
        assert found.slices.rows() == expected
        assert (found.begin_ps, found.end_ps) == (0, 1024 << level)


def test_a_window_without_buckets_has_every_span(profile: ProfileData) -> None:
    spans = all_spans(profile)
    for begin, end in windows_of(spans)[:3]:
        for track in {one.track for one in spans}:
            found = track_window(
                profile, "vm", track=track, begin_ps=begin, end_ps=end, rows=Rows.ALL
            )
            assert isinstance(found, TrackSlices)
            columns = found.slices.select(
                *("row", "start_ps", "end_ps", "count", "item", "name", "category")
            )
            assert columns.rows() == [
                (one.row, one.start_ps, one.end_ps, 1, one.item, one.name, one.category)
                for one in sorted(spans, key=lambda one: (one.row, one.start_ps))
                if one.track == track and one.touches(begin, end)
            ]
