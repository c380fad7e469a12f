"""Every field of the explanation of a range, worked out by hand, and its limits."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from tests.support.traces import blueprint
from tests.support.traces.literal import Derived

from stepscope.analysis.gaps.explanation import explain_gap
from stepscope.analysis.gaps.time_range import AccountedDevice, shown_events
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.trace_rows.drawn_rows import trace_timeline
from stepscope.unavailable import require_available

if TYPE_CHECKING:
    from stepscope.analysis.gaps.result import GapExplanation
    from stepscope.derive.profile_data import ProfileData

US = 1_000_000
STEP = {"_r": 1, "step_num": 7}


def profile_of(*lines: blueprint.Line) -> ProfileData:
    return blueprint.profile(blueprint.trace(lines, devices={0: blueprint.A100}))


def explained(profile: ProfileData, begin_us: float, end_us: float) -> GapExplanation:
    asked = (round(begin_us * US), round(end_us * US))
    return require_available(explain_gap(profile, "vm", asked))


def call(start: int, number: int) -> blueprint.Line:
    return ("main", "cuLaunchKernel", start, 5, {"correlation_id": number})


def kernel(
    stream: int, name: str, start: int, dur: int, number: int = 0
) -> blueprint.Line:
    stats = {"correlation_id": number} if number else {}
    return (f"gpu:0/{stream}(Compute)", name, start, dur, stats)


@pytest.fixture(scope="module")
def profile() -> ProfileData:
    """Idle from 50 to 190 µs and from 260 to 280 µs; `gelu` begins beside `relu`."""
    return profile_of(
        ("main", "train", 0, 400, STEP),
        call(10, 1),
        ("main", "IteratorGetNext", 60, 100),
        *(call(170, 2), call(176, 3), call(262, 4)),
        *(kernel(7, "sgemm", 20, 30, 1), kernel(7, "relu", 190, 30, 2)),
        *(kernel(8, "gelu", 200, 60, 3), kernel(8, "sgemm", 280, 20, 4)),
    )


def test_the_time_of_a_range_by_owner_and_name(profile: ProfileData) -> None:
    found = explained(profile, 40, 290)
    assert (found.host, found.device, found.kind) == ("vm", 0, "interval")
    assert (found.begin_ps, found.end_ps) == (40 * US, 290 * US)
    assert (found.dur_ps, found.outside_ps, found.step) == (250 * US, 0, 7)
    assert (found.confidence, found.not_explained_percent) == ("high", 0)
    # In 1 % of the range are 2.5 µs.
    assert [(one.owner, one.ps // US, one.percent) for one in found.owners] == [
        ("input", 100, pytest.approx(40)),
        ("compute_unknown", 70, pytest.approx(28)),
        ("launch", 60, pytest.approx(24)),
        ("compute_32", 20, pytest.approx(8)),
    ]
    assert [
        [(part.name, part.ps // US, part.percent) for part in one.parts]
        for one in found.owners
    ] == [
        [("IteratorGetNext", 100, pytest.approx(40))],
        [("gelu", 40, pytest.approx(16)), ("relu", 30, pytest.approx(12))],
        [
            ("launch latency", 20 + 18, pytest.approx(15.2)),
            ("between launches", 10 + 10 + 2, pytest.approx(8.8)),
        ],
        [("sgemm", 10 + 10, pytest.approx(8))],
    ]


def test_the_intervals_of_each_owner_in_order_of_time(profile: ProfileData) -> None:
    owners = explained(profile, 40, 290).owners
    shown = [
        (each.name, each.begin_ps // US, each.end_ps // US, each.ps // US, each.percent)
        for one in owners
        for each in one.intervals
    ]
    assert shown == [
        ("IteratorGetNext", 60, 160, 100, pytest.approx(40)),
        ("relu", 190, 220, 30, pytest.approx(12)),
        # Until 220 µs the time is that of `relu`.
        ("gelu", 200, 260, 40, pytest.approx(16)),
        ("between launches", 50, 60, 10, pytest.approx(4)),
        ("between launches", 160, 170, 10, pytest.approx(4)),
        ("launch latency", 170, 190, 20, pytest.approx(8)),
        ("between launches", 260, 262, 2, pytest.approx(0.8)),
        ("launch latency", 262, 280, 18, pytest.approx(7.2)),
        ("sgemm", 40, 50, 10, pytest.approx(4)),
        ("sgemm", 280, 290, 10, pytest.approx(4)),
    ]
    assert [one.interval_count for one in owners] == [1, 2, 5, 2]
    tracks = profile.derived("vm", trace_timeline).tracks["name"]
    batch, unknown, launch, wide = owners
    kernels = (*unknown.intervals, *wide.intervals)
    names = [tracks[each.track] for each in (*batch.intervals, *kernels)]
    streams = ["Stream #7", "Stream #8"] * 2
    assert [name[:9] for name in names] == ["main", *streams]
    assert {(each.track, each.item) for each in launch.intervals} == {(None, None)}
    events = require_available(profile.table("vm", "events"))
    starts = [events["start_ps"][each.item] // US for each in kernels]
    assert starts == [190, 200, 20, 280]


def test_what_the_thread_did_meanwhile(profile: ProfileData) -> None:
    found = explained(profile, 40, 290)
    assert [
        (one.thread, one.launching, one.name, one.count, one.ps // US, one.percent)
        for one in found.meanwhile
    ] == [
        ("main", True, "IteratorGetNext", 1, 100, pytest.approx(40)),
        ("main", True, "cuLaunchKernel", 3, 15, pytest.approx(6)),
    ]
    # The first of equally long calls stands for them.
    calls = found.meanwhile[1]
    assert (calls.begin_ps, calls.end_ps) == (170 * US, 175 * US)


@pytest.mark.parametrize(
    ("idle_us", "confidence", "has_remedy"),
    [
        (4.9, "high", False),
        (5, "high", True),
        (20, "high", True),
        (20.1, "medium", True),
        (40, "medium", True),
        (40.1, "low", True),
    ],
)
def test_how_much_unexplained_time_lowers_the_confidence(
    idle_us: float, confidence: str, *, has_remedy: bool
) -> None:
    """Nothing was recorded on the host; the device idles from 100 to 200 µs."""
    profile = profile_of(kernel(7, "a", 0, 100), kernel(7, "b", 200, 100))
    found = explained(profile, 200 - idle_us, 300 - idle_us)
    assert found.not_explained_percent == pytest.approx(idle_us)
    assert found.outside_ps == 0
    assert (found.confidence, found.remedy is not None) == (confidence, has_remedy)


@pytest.mark.parametrize(("outside_us", "has_remedy"), [(4.97, True), (5, False)])
def test_time_outside_the_steps_is_no_reason_to_record_more(
    outside_us: float, *, has_remedy: bool
) -> None:
    """The first step begins at 100 µs, and the device idles from 190 to 200 µs."""
    profile = profile_of(
        ("main", "train", 100, 300, STEP),
        *(kernel(7, "a", 100, 90), kernel(7, "b", 200, 100)),
    )
    found = explained(profile, 100 - outside_us, 200 - outside_us)
    assert found.outside_ps == round(outside_us * US)
    assert found.not_explained_percent == pytest.approx(10)
    assert (found.remedy is not None) == has_remedy


@pytest.mark.parametrize(
    ("end_us", "confidence"), [(230, "high"), (235, "high"), (236, "medium")]
)
def test_idle_time_before_work_that_nobody_launched_lowers_the_confidence(
    end_us: int, confidence: str
) -> None:
    """From 50 µs on a known thread is on its way to its launch at 85 µs."""
    profile = profile_of(
        ("main", "train", 0, 400, STEP),
        call(10, 1),
        ("main", "IteratorGetNext", 52, 30),
        call(85, 2),
        ("main", "IteratorGetNext", 200, 99),
        *(kernel(7, "a", 20, 30, 1), kernel(7, "b", 100, 100, 2)),
        kernel(7, "c", 300, 50),
    )
    found = explained(profile, 30, end_us)
    assert found.not_explained_percent <= 20
    assert found.confidence == confidence


def test_the_longest_hundred_of_more_intervals_are_listed() -> None:
    """The device works 1, 2, … 103 µs, 200 µs apart."""
    profile = profile_of(
        *(kernel(7, "k", 200 * number, number) for number in range(1, 104))
    )
    compute, idle = explained(profile, 150, 200 * 103 + 103).owners[::-1]
    assert (compute.owner, idle.owner) == ("compute_unknown", "unexplained")
    assert compute.interval_count == 103
    lengths = [each.ps // US for each in compute.intervals]
    assert lengths == list(range(4, 104))
    assert compute.ps == 103 * 104 // 2 * US


@pytest.mark.parametrize(
    ("at_us", "begin_us", "end_us"), [(5, 0, 100), (99, 0, 100), (305, 300, 320)]
)
def test_before_and_after_the_steps_of_a_host_is_one_range_each(
    at_us: int, begin_us: int, end_us: int
) -> None:
    profile = blueprint.profile(
        blueprint.trace(
            [
                ("main", "load", 10, 50),
                ("main", "train", 100, 200, STEP),
                ("main", "save", 302, 18),
            ]
        )
    )
    found = require_available(explain_gap(profile, "vm", at_us * US))
    assert (found.kind, found.device) == ("host", None)
    assert (found.begin_ps, found.end_ps) == (begin_us * US, end_us * US)
    assert (found.outside_ps, found.owners) == (found.dur_ps, ())


def test_before_its_first_work_a_device_idles_from_the_begin_on() -> None:
    profile = profile_of(kernel(7, "a", 20, 30), kernel(7, "b", 90, 10))
    found = require_available(explain_gap(profile, "vm", 3 * US))
    assert (found.kind, found.begin_ps, found.end_ps) == ("gap", 0, 20 * US)
    assert found.before is None
    assert found.after is not None
    assert (found.after.name, found.after.start_ps) == ("a", 20 * US)


def test_time_of_unknown_causes_is_unexplained() -> None:
    account: Any = SimpleNamespace(
        idle={
            "profiler": Spans.of([(0, 5)]),
            "input": Spans.of([(5, 9), (20, 30)]),
            "unexplained": Spans.of([(9, 12)]),
        }
    )
    busy: Any = SimpleNamespace(charged={"compute_32": Spans.of([(12, 20)])})
    for of_device, unknown, expected in (
        (busy, {"input"}, {"profiler": 5, "unexplained": 17, "compute_32": 8}),
        (None, set(), {"profiler": 5, "input": 14, "unexplained": 3}),
    ):
        owned = AccountedDevice(
            "vm", account, of_device, frozenset(unknown), (0, 30), 30
        )
        found = owned.spans_by_owner()
        assert {name: spans.length_ps for name, spans in found.items()} == expected


def test_events_of_a_track_that_is_not_shown_have_no_place() -> None:
    def column(name: str, *values: int | None) -> pl.DataFrame:
        return pl.DataFrame({name: pl.Series(values, dtype=pl.Int32)})

    shown: Any = Derived(
        {trace_timeline: SimpleNamespace(tracks=column("source", None, 2, 0))},
        events=column("track", 0, 1, 2, 0),
        tracks=column("device", None, None, None),
    )
    where = shown_events(shown, "vm")
    assert [where.track_of_event(row) for row in range(-1, 4)] == [None, 2, None, 1, 2]
