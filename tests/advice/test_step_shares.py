"""Sums over a literal breakdown of step time, worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from stepscope.derive.facts.evidence import Evidence, Part
from stepscope.derive.facts.step_shares import AccountSignals, NamedTime
from stepscope.derive.verdicts.effect_status import StepSeries
from stepscope.unavailable import Unavailable

MS = 1_000_000_000
WHY = Unavailable(code="NOT_RECORDED", reason="Not here.", remedy="Record.")


def named(
    name: str | None, ms: float, owner: str = "input", **fields: Any
) -> NamedTime:
    return NamedTime(
        owner, fields.pop("place", "inside"), name, time_ps=round(ms * MS), **fields
    )


@pytest.fixture(name="two")
def _two(shares: Any) -> Any:
    """Two steps of 10 ms: input takes 1 and 2 inside, 0 and 3 between; sync 1 and 0."""
    return shares(
        steps=2,
        input=(1.0, 2.0),
        sync=(1.0, 0.0),
        unexplained=(1.0, 1.0),
        between={"input": (0.0, 3.0), "unexplained": (0.0, 2.0)},
    )


@pytest.mark.parametrize(
    ("owners", "place", "times"),
    [
        (("input",), "any", (1, 5)),
        (("input",), "inside", (1, 2)),
        (("input",), "between", (0, 3)),
        (("input", "sync"), "any", (2, 5)),
        (("sync",), "between", (0, 0)),
        (("launch",), "any", (0, 0)),
        ((), "any", (0, 0)),
    ],
)
def test_the_times_of_owners_add_up_by_place(
    two: Any, owners: tuple[str, ...], place: str, times: tuple[int, int]
) -> None:
    assert two.times(*owners, place=place) == tuple(ms * MS for ms in times)
    assert two.percent(*owners, place=place) == 100 * sum(times) / 20
    assert two.total_ps == 20 * MS


def test_nothing_is_a_share_of_no_time(shares: Any) -> None:
    held = {("garbage", "input", "inside"): MS}
    empty = shares(steps=0, fields={"held": held})
    assert empty.percent("input") == 0.0
    assert empty.held_percent("input", {"garbage"}) == 0.0
    assert empty.parts("input") == ()


def test_the_topics_of_an_owner_are_summed_by_place(shares: Any) -> None:
    held = {
        ("garbage", "input", "inside"): 1 * MS,
        ("garbage", "input", "between"): 2 * MS,
        ("callbacks", "input", "inside"): 4 * MS,
        ("readback", "input", "inside"): 9 * MS,
        ("garbage", "sync", "inside"): 9 * MS,
    }
    account = shares(steps=10, fields={"held": held})
    topics = ("garbage", "callbacks")
    assert account.held_percent("input", topics) == 7.0
    assert account.held_percent("input", topics, place="inside") == 5.0
    assert account.held_percent("input", topics, place="between") == 2.0


def test_the_series_of_owners_has_every_field(two: Any, shares: Any) -> None:
    causes = {"waits": ("input", "sync"), "launches": ("launch",)}
    assert two.series(causes, unknown_from=20.1) == StepSeries(
        step_source="marker",
        step_confidence=1.0,
        closed=True,
        window_ps=(10 * MS, 10 * MS),
        parts_ps={"waits": (2 * MS, 5 * MS), "launches": (0, 0)},
    )
    # From 20 % on what nobody explains may be anything.
    assert two.series(causes, unknown_from=20).unknown_ps == 4 * MS
    assert two.series(causes, unknown_from=10.1, place="inside").unknown_ps == 0
    inside = two.series(causes, unknown_from=10, place="inside")
    assert inside.unknown_ps == 2 * MS
    assert inside.parts_ps["waits"] == (2 * MS, 2 * MS)
    doubts = {"clock_error_ps": 7, "lost_ps": 11, "gaps": 3, "closed": False}
    doubtful = shares(steps=2, input=1.0, fields=doubts)
    plain = doubtful.series(causes, unknown_from=20)
    assert (plain.doubt_ps, plain.excess_ps, plain.closed) == (0, 0, False)
    both = doubtful.series(causes, unknown_from=20, clocks=True, lost=True)
    assert (both.doubt_ps, both.excess_ps) == (21, 11)


@pytest.mark.parametrize(
    ("missing", "device", "unknown_ms"),
    [
        ((), 0, 0),
        (("sync",), 0, 0),
        (("input",), 0, 2),
        (("input",), None, 2),
        (("copy_in",), 0, 2),
        # A host without devices has no copies that could be missing.
        (("copy_in",), None, 0),
    ],
)
def test_unexplained_time_may_be_of_an_owner_whose_time_is_missing(
    shares: Any, missing: tuple[str, ...], device: int | None, unknown_ms: int
) -> None:
    account = shares(steps=2, unexplained=1.0, missing=missing, device=device)
    found = account.series({"all": ("input", "copy_in")}, unknown_from=50)
    assert found.unknown_ps == unknown_ms * MS


@pytest.mark.parametrize(
    ("device", "owner", "unknown_ms"),
    [(0, "read_back", 5), (0, "sync", 0), (None, "read_back", 0)],
)
def test_a_device_may_wait_for_host_work_in_unnamed_time_between_steps(
    shares: Any, device: int | None, owner: str, unknown_ms: int
) -> None:
    """Of 20 ms 2 are unexplained and 3 between the steps have no name: a quarter."""
    given = {"unexplained": (1.0, 1.0), "between": {"unnamed": (0.0, 3.0)}}
    found = shares(steps=2, device=device, **given).series(
        {"all": (owner,)}, unknown_from=25
    )
    assert found.unknown_ps == unknown_ms * MS


def test_unexplained_time_may_be_outside_of_unknown_steps(shares: Any) -> None:
    fields = {"step_source": None, "step_confidence": 0.0}
    whole = shares(steps=1, unexplained=4.0, fields=fields)
    causes = {"launches": ("launch",)}
    assert whole.series(causes, of_steps=True).idle_ps == 4 * MS
    assert whole.series(causes).idle_ps == 0
    marked = shares(steps=1, unexplained=4.0)
    assert marked.series(causes, of_steps=True).idle_ps == 0


@pytest.mark.parametrize(("gaps", "doubt"), [(0, 20), (2, 20), (3, 30)])
def test_each_late_launch_and_at_least_one_a_step_may_be_shifted(
    shares: Any, gaps: int, doubt: int
) -> None:
    fields = {"gaps": gaps, "clock_error_ps": 10}
    assert shares(steps=2, fields=fields).clock_doubt_ps == doubt


def test_parts_of_one_name_and_place_are_one(shares: Any) -> None:
    """Of 20 ms: two parts `a` make 5, `b` in two files 4 and 3, and `c` 2."""
    names = [
        named("a", 2.0, detail="less"),
        named("b", 4.0, file="x.py", line=1, function="b"),
        named("a", 3.0, detail="more", loop=True, place="between"),
        named("b", 3.0, file="y.py", line=1, function="b"),
        named("c", 2.0),
        named(None, 9.0),
        named("other", 9.0, owner="sync"),
    ]
    account = shares(steps=2, names=names)
    assert account.parts("input") == (
        Part(name="a", detail="more", loop=True, share_percent=25.0),
        Part(name="b", function="b", file="x.py", line=1, share_percent=20.0),
        Part(name="b", function="b", file="y.py", line=1, share_percent=15.0),
    )
    # A detail of less than half is that of a small part.
    assert account.parts("input", place="between") == (
        Part(name="a", detail="more", loop=True, share_percent=15.0),
    )
    assert [part.name for part in account.named("input", place="between")] == ["a"]
    assert len(account.named("input", "sync")) == 7
    quarters = shares(
        steps=2,
        names=[named("a", 2.0, detail="half"), named("a", 1.0), named("a", 1.0)],
    )
    assert quarters.parts("input")[0].detail == "half"
    thirds = [named("a", 1.9, detail="less"), named("a", 1.0), named("a", 1.0)]
    assert shares(steps=2, names=thirds).parts("input")[0].detail is None


@pytest.mark.parametrize(
    ("names", "ops_lead", "calls_lead"),
    [
        ([("op", None, 5.0), ("f", "f", 5.0)], True, False),
        ([("op", None, 4.9), ("f", "f", 5.0)], False, False),
        ([("read", "read", 5.1), ("op", None, 5.0)], False, False),
        ([], True, False),
    ],
)
def test_ops_lead_from_half_of_the_hosts_work(
    shares: Any,
    names: list[tuple[str, str | None, float]],
    *,
    ops_lead: bool,
    calls_lead: bool,
) -> None:
    work = [
        named(name, ms, owner="host_compute", function=function)
        for name, function, ms in names
    ]
    account = shares(names=[*work, named("op", 99.0)])
    assert account.host_ops_lead() is ops_lead
    assert account.system_calls_lead() is calls_lead


@pytest.mark.parametrize(
    ("function", "ms", "file", "lead"),
    [
        ("fsync", 5.1, None, True),
        ("fsync", 5.0, None, False),
        ("fsync", 9.0, "x.py", False),
    ],
)
def test_system_calls_lead_above_half(
    shares: Any, function: str, ms: float, file: str | None, *, lead: bool
) -> None:
    names = [
        named("a", ms, owner="host_compute", function=function, file=file),
        named("b", 5.0, owner="host_compute", function="b"),
    ]
    assert shares(names=names).system_calls_lead() is lead


@pytest.mark.parametrize(("ms", "known"), [(1.5, True), (1.4, False)])
def test_the_caller_of_half_of_the_time_is_named(
    shares: Any, ms: float, *, known: bool
) -> None:
    """Input takes 4 ms inside and 2 between; `load` calls `ms` of it in two places."""
    callers = (
        named("f", ms, function="load", file="a.py", line=2),
        named("f", ms, function="load", file="a.py", line=2, place="between"),
        named("f", 2.9, function="load", file="b.py", line=2),
        named("f", 9.0),
        named("f", 9.0, owner="sync", function="other"),
    )
    account = shares(
        steps=2, input=2.0, between={"input": 1.0}, fields={"callers": callers}
    )
    caller = account.caller("input")
    assert caller == (
        Part(
            name="load",
            function="load",
            file="a.py",
            line=2,
            share_percent=100 * 2 * ms / 20,
        )
        if known
        else None
    )
    assert account.caller("launch") is None
    between = account.caller("input", place="between")
    assert between is not None
    assert between.share_percent == pytest.approx(100 * ms / 20)


def test_ranges_of_owners_are_shown_by_length_then_start(shares: Any) -> None:
    account = shares(
        names=[named(None, 3.0), named("next", 2.0), named("read", 1.0)],
        input=1.0,
        fields={
            "ranges": {
                ("input", "inside"): ((100, 200), (0, 50)),
                ("input", "between"): ((300, 399),),
                ("sync", "inside"): ((500, 600), (20, 120), (700, 701)),
                ("launch", "inside"): ((0, 10_000),),
            }
        },
    )

    def shown(start_ps: int, end_ps: int, *ops: str) -> Evidence:
        return Evidence(
            host="vm", device=0, track=None, start_ps=start_ps, end_ps=end_ps, ops=ops
        )

    assert account.evidence("input", "sync") == (
        shown(20, 120),
        shown(100, 200, "next"),
        shown(500, 600),
    )
    assert account.evidence("input", place="between") == (shown(300, 399),)
    assert account.evidence("nobody") == ()


def test_ranges_below_a_hundredth_of_the_longest_are_not_shown(shares: Any) -> None:
    lengths = {("input", "inside"): ((0, 10_000), (20_000, 20_100), (30_000, 30_099))}
    account = shares(input=1.0, fields={"ranges": lengths})
    shown = [(each.start_ps, each.end_ps) for each in account.evidence("input")]
    assert shown == [(0, 10_000), (20_000, 20_100)]


def test_a_label_names_the_host_and_a_device_if_there_is_one(shares: Any) -> None:
    assert shares(host="a").label == "a:0"
    assert shares(host="a", device=None).label == "a"


def test_the_busiest_device_is_judged_and_ranked_before_larger_shares(
    shares: Any,
) -> None:
    accounts = AccountSignals(
        (
            shares(device=0, input=1.0, working_ms=8.0),
            shares(device=1, input=3.0, working_ms=6.0),
            shares(device=2, input=3.0, between={"input": 1.0}, working_ms=9.0),
            # The same time of work in longer steps is a smaller share.
            shares(device=3, input=9.0, step_ms=20.0, working_ms=10.0),
            shares(host="other", device=None, input=9.0),
        )
    )
    assert accounts.judged("input").label == "vm:2"
    assert accounts.ranked_labels("input") == ("vm:2", "other", "vm:3", "vm:1", "vm:0")
    by_place = accounts.ranked_labels("input", place="between")
    assert by_place == ("vm:2", "other", "vm:0", "vm:1", "vm:3")
    assert accounts.shares_of_label("vm:1").device == 1
    assert accounts.has_devices


def test_of_hosts_without_devices_the_one_with_the_largest_share_is_judged(
    shares: Any,
) -> None:
    accounts = AccountSignals(
        (
            shares(host="a", device=None, input=2.0, sync=3.0),
            shares(host="b", device=None, input=1.0, between={"input": 2.0}),
        )
    )
    assert not accounts.has_devices
    assert accounts.judged("input").label == "b"
    assert accounts.judged("input", place="inside").label == "a"
    assert accounts.judged("sync").label == "a"
