"""What rules read from a breakdown of step time, worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.traces.literal import ABSENT, fields_of

from stepscope.derive.facts.evidence import Evidence, Part
from stepscope.derive.facts.step_shares import AccountSignals, NamedTime, StepShares
from stepscope.derive.verdicts.effect_status import StepSeries


def part(owner: str, time_ps: int, name: str | None = "x", **fields: Any) -> NamedTime:
    usual: dict[str, Any] = {"place": "inside", "time_ps": time_ps}
    return NamedTime(**usual | {"owner": owner, "name": name} | fields)


def shares(**fields: Any) -> StepShares:
    """Two windows of 100 and 300 ps of device 1."""
    usual: dict[str, Any] = {
        "host": "h",
        "device": 1,
        "step_source": "marker",
        "step_confidence": 0.75,
        "closed": False,
        "window_ps": (100, 300),
        "inside_ps": {"launch": (10, 30), "input": (1, 3), "unexplained": (4, 8)},
        "between_ps": {"input": (5, 7), "unexplained": (2, 6)},
        "missing": {},
        "working_ps": 200,
        "names": (),
        "callers": (),
        "gaps": 3,
        "clock_error_ps": 11,
        "lost_ps": 9,
        "ranges": {},
    }
    return StepShares(**usual | fields)


def test_times_of_causes_are_summed_over_places() -> None:
    found = shares()
    assert found.times("input") == (6, 10)
    assert found.times("input", place="inside") == (1, 3)
    assert found.times("input", place="between") == (5, 7)
    assert found.times("input", "launch") == (16, 40)
    assert found.times("launch", place="between") == (0, 0)
    assert found.times("sync") == (0, 0)
    assert (found.total_ps, found.label) == (400, "h:1")
    assert found.percent("input", "launch") == 14.0
    assert found.percent("input", place="between") == 3.0
    assert shares(window_ps=(), inside_ps={}, between_ps={}).percent("input") == 0.0
    assert shares(device=None).label == "h"


def test_topics_hold_parts_of_causes() -> None:
    held = {
        ("garbage", "launch", "inside"): 20,
        ("writing", "launch", "between"): 8,
        ("garbage", "input", "inside"): 40,
        ("debugging", "launch", "inside"): 100,
    }
    found = shares(held=held)
    assert found.held_percent("launch", ("garbage", "writing")) == 7.0
    assert found.held_percent("launch", ("garbage", "writing"), place="inside") == 5.0
    assert found.held_percent("launch", ("garbage",), place="between") == 0.0
    assert shares(held=held, window_ps=()).held_percent("launch", ("garbage",)) == 0.0


def test_every_late_launch_may_be_off_by_the_clocks() -> None:
    assert shares().clock_doubt_ps == 33
    # At least one in each window is assumed.
    assert shares(gaps=1).clock_doubt_ps == 22


PARTS = {"waits": ("input", "sync"), "asks": ("launch",)}


def test_every_field_of_lost_time() -> None:
    """Of 400 ps 20 are unexplained, which is 5 %."""
    found = shares().series(PARTS, unknown_from=5.0, clocks=True, lost=True)
    assert fields_of(found) == fields_of(
        StepSeries(
            step_source="marker",
            step_confidence=0.75,
            closed=False,
            window_ps=(100, 300),
            parts_ps={"waits": (6, 10), "asks": (10, 30)},
            unknown_ps=20,
            doubt_ps=33,
            excess_ps=9,
        )
    )
    sure = shares().series(PARTS, place="inside", unknown_from=3.1)
    assert (sure.unknown_ps, sure.doubt_ps, sure.excess_ps) == (0, 0, 0)
    assert sure.parts_ps == {"waits": (1, 3), "asks": (10, 30)}


@pytest.mark.parametrize(
    ("missing", "device", "unknown"),
    [
        ("sync", 1, 20),
        ("peer", 1, 0),
        ("sync", None, 20),
        # Without a device no computation of a device is missing.
        ("compute_16", 1, 20),
        ("compute_16", None, 0),
    ],
)
def test_the_unexplained_may_be_of_a_cause_that_was_not_recorded(
    missing: str, device: int | None, unknown: int
) -> None:
    found = shares(missing={missing: ABSENT}, device=device)
    parts = PARTS | {"computes": ("compute_16",)}
    assert found.series(parts, unknown_from=5.1).unknown_ps == unknown


def test_named_parts_are_those_of_their_cause_and_place() -> None:
    inside, between = part("launch", 5), part("launch", 4, place="between")
    fetch = part("input", 9)
    found = shares(names=(inside, fetch, between))
    assert found.named("launch") == (inside, between)
    assert found.named("launch", place="between") == (between,)
    assert found.named("input", "launch", place="inside") == (inside, fetch)


@pytest.mark.parametrize(("time", "leads"), [(10, True), (11, False)])
def test_ops_lead_with_half_of_the_work(time: int, *, leads: bool) -> None:
    names = (
        part("host_compute", 10),
        part("host_compute", time, function="f"),
        part("launch", 99, function="f"),
    )
    assert shares(names=names).host_ops_lead() is leads


@pytest.mark.parametrize(("time", "leads"), [(10, False), (11, True)])
def test_system_calls_lead_with_more_than_half_of_the_work(
    time: int, *, leads: bool
) -> None:
    names = (
        part("host_compute", 10),
        part("host_compute", time, function="munmap"),
        part("launch", 99, function="munmap"),
    )
    assert shares(names=names).system_calls_lead() is leads
    of_program = part("host_compute", 99, function="munmap", file="a.py")
    assert not shares(names=(*names, of_program)).system_calls_lead()


def test_the_three_largest_names_are_parts() -> None:
    """Three parts are of one function: the detail with half of their time stays."""
    names = (
        part("launch", 10, "f", function="f", file="a.py", line=3, detail="few"),
        part("input", 6, "f", function="f", file="a.py", line=3, loop=True),
        part("input", 4, "f", function="f", file="a.py", line=3),
        part("launch", 18, "g", detail="most"),
        part("launch", 4, "h"),
        part("launch", 3, "i"),
        part("launch", 99, None),
        part("sync", 99),
    )
    found = shares(names=names)
    assert found.parts("launch", "input") == (
        Part(
            name="f",
            detail="few",
            loop=True,
            function="f",
            file="a.py",
            line=3,
            share_percent=5,
        ),
        Part(name="g", detail="most", share_percent=4.5),
        Part(name="h", share_percent=1.0),
    )
    assert [each.name for each in found.parts("launch")] == ["g", "f", "h"]
    assert [each.name for each in found.parts("input", place="inside")] == ["f"]
    assert found.parts("input", place="between") == ()
    less = (part("input", 10, "f"), part("launch", 9, "f", detail="a"))
    assert shares(names=less).parts("launch", "input")[0].detail is None
    assert shares(names=less, window_ps=()).parts("launch") == ()


def test_a_caller_has_half_of_the_time_of_its_causes() -> None:
    """Launches take 40 ps; both parts of `f` are 20."""
    where = {"file": "a.py", "line": 3}
    callers = (
        part("launch", 13, function="f", **where),
        part("launch", 7, function="f", place="between", **where),
        part("launch", 19, function="f", file="b.py", line=3),
        part("launch", 99),
        part("sync", 99, function="g"),
    )
    found = shares(callers=callers)
    expected = Part(name="f", function="f", share_percent=5.0, **where)
    assert found.caller("launch") == expected
    # Inside, the largest has 19 of 40.
    assert found.caller("launch", place="inside") is None
    assert found.caller("launch", "input") is None  # 20 of 56
    assert found.caller("input") is None
    assert shares(callers=(part("sync", 0, function="g"),)).caller("sync") is None


def test_the_longest_intervals_are_evidence() -> None:
    """An interval of less than a hundredth of the longest is none."""
    ranges = {
        ("launch", "inside"): ((0, 300), (400, 403)),
        ("launch", "between"): ((900, 1200), (950, 952)),
        ("input", "inside"): ((500, 900),),
    }
    found = shares(
        ranges=ranges,
        names=(
            *(part("launch", 9, None), part("launch", 5, "a"), part("launch", 4, "b")),
            part("launch", 1, "c", place="between"),
        ),
    )

    def of(start: int, end: int, *ops: str) -> Evidence:
        return Evidence(
            host="h", device=1, track=None, start_ps=start, end_ps=end, ops=ops
        )

    first, second = of(0, 300, "a"), of(900, 1200, "c")
    assert found.evidence("launch") == (first, second, of(400, 403, "a"))
    assert found.evidence("launch", place="between") == (second,)
    assert found.evidence("launch", "input") == (of(500, 900), first, second)
    assert found.evidence("sync") == ()


def test_the_busiest_device_is_judged_and_first() -> None:
    """Hosts without devices are judged by their causes' share of time."""
    slow, busy = shares(working_ps=199), shares(device=0, working_ps=200)
    waits = shares(host="g", device=2, working_ps=0, inside_ps={"launch": (11, 30)})
    signals = AccountSignals((slow, busy, waits))
    assert signals.has_devices
    assert signals.judged("launch") is busy
    assert signals.shares_of_label("h:1") is slow
    assert signals.ranked_labels("launch") == ("h:0", "g:2", "h:1")
    assert signals.ranked_labels("input") == ("h:0", "h:1", "g:2")
    one, two = shares(device=None), shares(host="g", device=None, between_ps={})
    hosts = AccountSignals((two, one))
    assert not hosts.has_devices
    assert hosts.judged("input") is one
    assert hosts.judged("input", place="inside") is two
    assert hosts.ranked_labels("input") == ("h", "g")
    assert AccountSignals((two, one, slow)).ranked_labels("launch") == ("h:1", "g", "h")
