"""What a page loads first, the links of a span, and what is refused or missing."""

from __future__ import annotations

import pytest
from tests.support.traces import blueprint
from tests.support.traces.tiles import TrackSlices, track_tile, track_window

from stepscope.analysis.timeline.best_span import BestSpan, best_spot
from stepscope.analysis.timeline.catalogue import (
    CounterTrack,
    TrackCatalogue,
    track_catalogue,
)
from stepscope.analysis.timeline.counters import CounterTile, counter_tile
from stepscope.analysis.timeline.details import SpanDetails, details_of_span
from stepscope.analysis.timeline.relatives import Links
from stepscope.analysis.timeline.search import (
    SoughtKernel,
    find_span,
    longest_of_kernel,
    longest_of_op,
)
from stepscope.analysis.timeline.selection import (
    WindowTotals,
    spans_in_view,
    window_totals,
)
from stepscope.analysis.timeline.spans import Place
from stepscope.analysis.timeline.tiles import (
    COARSEST_LEVEL,
    MAX_TRACKS,
    TILE_BUCKETS,
    track_tiles,
    unfold_slice,
)
from stepscope.derive.profile_data import ProfileData
from stepscope.errors import BadUsage
from stepscope.unavailable import Unavailable

US = 1_000_000
ABSENT = Unavailable(code="CORRUPT", reason="It is damaged.", remedy="Copy it again.")
COUNTER: blueprint.Line = ("_counters_", "level", 3, 0, {"counter_value": 5.0})


def profile_of(*lines: blueprint.Line) -> ProfileData:
    return blueprint.profile(blueprint.trace(list(lines), devices={0: {}, 1: {}}))


def catalogue_of(profile: ProfileData) -> TrackCatalogue:
    found = track_catalogue(profile, "vm")
    assert isinstance(found, TrackCatalogue)
    return found


def track_of(profile: ProfileData, name: str, device: int | None = None) -> int:
    """The recorded track of a name, on a device or on none."""
    about = catalogue_of(profile)
    devices = about.sections["device"].to_list()
    (track,) = [
        number
        for number, row in enumerate(about.tracks.iter_rows(named=True))
        if row["name"] == name and row["recorded"] and devices[row["section"]] == device
    ]
    return track


def test_tracks_are_counted_with_their_hidden_spans() -> None:
    profile = profile_of(
        ("main", "op", 10, 100),
        ("main", "MemoryAllocation", 20, 0),
        ("main", "inner", 30, 5),
        ("gpu:1/7(Compute)", "k", 200, 56),
        COUNTER,
        ("_counters_", "level", 9, 0, {"counter_value": -2.5}),
        ("_counters_", "level", 12, 0, {"counter_value": 4.0}),
    )
    found = catalogue_of(profile)
    columns = ("name", "spans", "drawn", "recorded")
    tracks = found.tracks.select(columns).rows()
    assert ("main", 3, 2, True) in tracks
    assert ("Stream #7(Compute)", 1, 1, True) in tracks
    assert found.sections.select("name", "device", "collapsed").rows() == [
        ("/device:GPU:1", 1, False),
        ("Host Threads", None, False),
    ]
    assert found.counters == (
        CounterTrack(
            track=found.tracks.height,
            name="level",
            unit=None,
            source="recorded",
            samples=3,
            least=-2.5,
            greatest=5.0,
        ),
    )
    # Samples of a counter are spans of its track.
    assert (found.begin_ps, found.end_ps) == (3 * US, 256 * US)
    assert found.tile_buckets == TILE_BUCKETS == 1024


@pytest.mark.parametrize(
    ("length_ps", "level"),
    [(1024, 0), (1025, 1), (2048, 1), (246_000_000, 18)],
)
def test_one_tile_of_the_coarsest_level_covers_everything(
    length_ps: int, level: int
) -> None:
    profile = profile_of(("main", "op", 5, length_ps / US))
    assert catalogue_of(profile).coarsest_level == level


@pytest.mark.parametrize(("threads", "collapsed"), [(20, False), (21, True)])
def test_many_threads_are_collapsed_first(threads: int, *, collapsed: bool) -> None:
    lines = [(f"thread {number}", "work", number, 5) for number in range(threads)]
    profile = profile_of(*lines, ("gpu:0/7(Compute)", "k", 1, 1))
    assert catalogue_of(profile).sections.select("kind", "collapsed").rows() == [
        ("device", False),
        ("host", collapsed),
    ]


def test_the_ruler_has_the_kind_of_each_step() -> None:
    lines: list[blueprint.Line] = []
    at = 0
    for step in range(8):
        names = ["a:MatMul", "b:Apply", *["c:Conv2D"] * 9 * (step == 3)]
        stats = {"step_num": 10 + step, "_r": 1}
        lines.append(("main", "train", at, 10 * len(names), stats))
        lines += [("main", name, at + 10 * j, 9) for j, name in enumerate(names)]
        at += 10 * len(names)
    ruler = catalogue_of(profile_of(*lines)).steps
    assert ruler["number"].to_list() == list(range(10, 18))
    assert ruler["name"].to_list() == [f"train {10 + step}" for step in range(8)]
    assert ruler["kind"].to_list() == ["main"] * 3 + ["other_kind"] + ["main"] * 4
    assert ruler["start_ps"].to_list()[:5] == [at * US for at in (0, 20, 40, 60, 170)]
    assert ruler["end_ps"].to_list()[:4] == [at * US for at in (20, 40, 60, 170)]
    assert not ruler["outlier"].any()


def test_without_steps_the_ruler_is_empty_and_says_why() -> None:
    found = catalogue_of(profile_of(("main", "op", 0, 5)))
    assert found.steps.height == 0
    assert [one.field for one in found.missing] == ["steps"]
    assert catalogue_of(blueprint.profile(blueprint.a1())).missing == ()


def test_without_events_there_is_no_timeline() -> None:
    profile = blueprint.profile(blueprint.a1()).without("events", ABSENT)
    for answer in (
        track_catalogue(profile, "vm"),
        track_tile(profile, "vm", track=0, level=0, index=0),
        track_tiles(profile, "vm", tracks=[0], level=0, index=0),
        track_window(profile, "vm", track=0, begin_ps=0, end_ps=1),
        unfold_slice(profile, "vm", track=0, first=0, count=1),
        counter_tile(profile, "vm", tracks=[0], level=0, index=0),
        details_of_span(profile, "vm", track=0, item=0),
        find_span(profile, "vm", "x"),
        window_totals(profile, "vm", begin_ps=0, end_ps=1),
        spans_in_view(
            profile,
            "vm",
            begin_ps=0,
            end_ps=1,
            tracks=[],
            offset=0,
            limit=1,
            all_rows=True,
        ),
    ):
        assert answer == ABSENT
    spot = best_spot(profile, "vm", device=0, track=None, start_ps=3, end_ps=8)
    assert spot == BestSpan(track=None, item=None, start_ps=3, dur_ps=5)
    # A host whose events are lost hides nothing on another.
    two = ProfileData(
        "run",
        {
            "lost": blueprint.a1(host="lost").without("events", ABSENT),
            "vm": blueprint.a1(),
        },
    )
    found = longest_of_op(two, two.hosts, "model/dense_1/MatMul")
    assert found is not None
    assert found.host == "vm"


@pytest.mark.parametrize("table", ["device_activity", "event_types"])
def test_without_a_table_no_kernel_is_the_longest(table: str) -> None:
    profile = blueprint.profile(blueprint.a1()).without(table, ABSENT)
    kernel = SoughtKernel("ampere_sgemm_32x32")
    assert longest_of_kernel(profile, profile.hosts, kernel) is None
    assert longest_of_op(profile, profile.hosts, "model/dense_1/MatMul") is None


def test_answers_have_limits() -> None:
    profile = profile_of(("main", "op", 0, 5), COUNTER)
    height = catalogue_of(profile).tracks.height
    for tracks in ([], [0] * (MAX_TRACKS + 1)):
        with pytest.raises(BadUsage, match="1 to 64 tracks"):
            track_tiles(profile, "vm", tracks=tracks, level=0, index=0)
        with pytest.raises(BadUsage, match="1 to 64 tracks"):
            counter_tile(profile, "vm", tracks=tracks, level=0, index=0)
    many = [height] * MAX_TRACKS
    assert isinstance(
        counter_tile(profile, "vm", tracks=many, level=0, index=0), CounterTile
    )
    for level in (-1, COARSEST_LEVEL + 1):
        with pytest.raises(BadUsage, match="is not one of 0 to"):
            track_tile(profile, "vm", track=0, level=level, index=0)
    assert isinstance(
        track_tile(profile, "vm", track=0, level=COARSEST_LEVEL, index=0), TrackSlices
    )
    for track in (-1, height):
        with pytest.raises(BadUsage, match="there is no track"):
            track_tile(profile, "vm", track=track, level=0, index=0)
    for first, count in ((0, 0), (-1, 1), (0, 2), (1, 1)):
        with pytest.raises(BadUsage, match="has no"):
            unfold_slice(profile, "vm", track=0, first=first, count=count)


def test_counters_are_answered_in_the_order_in_which_they_are_asked_for() -> None:
    profile = profile_of(
        ("main", "op", 0, 5),
        COUNTER,
        ("_counters_", "other", 4, 0, {"counter_value": 7.0}),
    )
    first = catalogue_of(profile).tracks.height
    level = 16
    found = counter_tile(profile, "vm", tracks=[first + 1, first], level=level, index=0)
    assert isinstance(found, CounterTile)
    assert [(track, name) for track, name, _ in found.curves] == [
        (first + 1, "other"),
        (first, "level"),
    ]
    assert found.samples.rows() == [
        (first + 1, 4 * US, 7.0, 7.0, 7.0, 1),
        (first, 3 * US, 5.0, 5.0, 5.0, 1),
    ]
    assert (found.begin_ps, found.end_ps, found.bucket_ps) == (0, 1024 << 16, 1 << 16)
    before = counter_tile(profile, "vm", tracks=[first], level=level, index=-1)
    assert isinstance(before, CounterTile)
    assert (before.begin_ps, before.samples.height) == (-(1024 << 16), 0)
    with pytest.raises(BadUsage, match="is not a counter"):
        counter_tile(profile, "vm", tracks=[first + 2], level=0, index=0)


LINKED: list[blueprint.Line] = [
    ("main", "train", 0, 90, {"_r": 1, "step_num": 7}),
    ("main", "$train.py:12 step", 1, 80),
    ("main", "x/Op:Op", 5, 10),
    ("main", "cuLaunchKernel", 20, 5, {"correlation_id": 1}),
    ("main", "plain", 40, 5),
    ("gpu:0/7(Compute)", "gemm", 30, 10, {"correlation_id": 1, "tf_op": "a/b:B"}),
    ("gpu:0/8(MemcpyH2D)", "MemcpyH2D", 50, 4, {"memcpy_details": "size:8 dest:0"}),
]


@pytest.mark.parametrize(
    ("name", "links", "source"),
    [
        ("gemm", Links(op="a/b", kernel="gemm", step=7), None),
        # No call says to which step it belongs.
        ("MemcpyH2D", Links(op=None, kernel=None, step=None), None),
        ("/^x/Op:Op$/", Links(op="x/Op", kernel=None, step=7), None),
        ("plain", Links(op=None, kernel=None, step=7), None),
        ("step", Links(op=None, kernel=None, step=7), "train.py:12"),
        ("cuLaunch", Links(op=None, kernel=None, step=7), None),
    ],
)
def test_a_span_leads_to_its_op_its_kernel_and_its_step(
    name: str, links: Links, source: str | None
) -> None:
    profile = profile_of(*LINKED)
    recorded = catalogue_of(profile).tracks["recorded"].to_list()
    place = find_span(profile, "vm", name)
    while isinstance(place, Place) and not recorded[place.track]:
        place = find_span(profile, "vm", name, after=(place.track, place.item))
    assert isinstance(place, Place)
    found = details_of_span(profile, "vm", track=place.track, item=place.item)
    assert isinstance(found, SpanDetails)
    assert (found.links, found.source) == (links, source)


def test_a_range_is_shown_on_the_device_that_it_is_about() -> None:
    """Both devices have a stream of that name, and neither fills it as the other."""
    profile = profile_of(
        ("gpu:0/7(Compute)", "a", 0, 30),
        ("gpu:1/7(Compute)", "b", 0, 10),
        ("gpu:1/7(Compute)", "c", 20, 15),
        ("main", "d", 0, 40),
    )
    stream = "Stream #7(Compute)"

    def spot(device: int | None, track: str | None) -> int | None:
        return best_spot(
            profile, "vm", device=device, track=track, start_ps=0, end_ps=40 * US
        ).track

    first, second = (track_of(profile, stream, device) for device in (0, 1))
    main = track_of(profile, "main")
    assert [spot(device, stream) for device in (0, 1, None)] == [first, second, first]
    # A device without a track of that name: any other.
    assert spot(3, stream) == first
    assert [spot(device, None) for device in (0, 1, None)] == [first, second, main]
    assert [spot(device, "main") for device in (0, None)] == [main, main]
    assert [spot(device, "nobody's") for device in (1, None)] == [second, main]


def test_an_empty_range_is_shown_on_its_only_track() -> None:
    profile = profile_of(
        ("gpu:0/7(Compute)", "a", 0, 30),
        ("gpu:0/8(Compute)", "a", 0, 30),
        ("gpu:1/7(Compute)", "b", 0, 10),
    )

    def spot(device: int) -> BestSpan:
        return best_spot(
            profile, "vm", device=device, track=None, start_ps=50 * US, end_ps=60 * US
        )

    times = {"start_ps": 50 * US, "dur_ps": 10 * US}
    assert spot(0) == BestSpan(track=None, item=None, **times)
    track = track_of(profile, "Stream #7(Compute)", 1)
    assert spot(1) == BestSpan(track=track, item=None, **times)


@pytest.mark.parametrize(
    ("table", "field"), [("device_activity", "kernels"), ("device_activity", "ops")]
)
def test_totals_without_a_table_are_empty(table: str, field: str) -> None:
    profile = blueprint.profile(blueprint.a1()).without(table, ABSENT)
    found = window_totals(profile, "vm", begin_ps=0, end_ps=10**12)
    assert isinstance(found, WindowTotals)
    assert getattr(found, field).height == 0
    assert found.names.height > 0
