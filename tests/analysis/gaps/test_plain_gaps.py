"""Gaps of two devices against a plain look at their activities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.traces import blueprint

from stepscope.analysis.gaps.explanation import explain_gap
from stepscope.derive.trace_rows.drawn_rows import trace_timeline
from stepscope.unavailable import Unavailable, require_available

if TYPE_CHECKING:
    from stepscope.analysis.gaps.result import GapExplanation
    from stepscope.derive.profile_data import ProfileData

US = 1_000_000
ABSENT = Unavailable(code="CORRUPT", reason="It is damaged.", remedy="Copy it again.")
#: (device, stream, name, start, duration), by start.
WORK = (
    (0, 7, "a", 120, 40),
    (1, 7, "b", 130, 150),
    (0, 8, "MemcpyH2D", 150, 30),
    (0, 7, "c", 260, 20),
    (1, 7, "d", 300, 100),
    (0, 7, "ncclDevKernel_AllReduce", 330, 70),
    (1, 8, "e", 350, 20),
    (0, 7, "f", 420, 5),
)
BEGIN, END = 100, 425


def lines() -> list[blueprint.Line]:
    made: list[blueprint.Line] = [
        ("main", "train", BEGIN, 140, {"_r": 1, "step_num": 3}),
        ("main", "IteratorGetNext", 190, 30),
        ("main", "train", 245, 150, {"_r": 1, "step_num": 4}),
        ("main", "save", 400, 10),
        ("worker", "other work", 195, 60),
    ]
    for number, (device, stream, name, start, dur) in enumerate(WORK):
        ids = {"correlation_id": number + 1}
        call = "cuMemcpyHtoDAsync" if name == "MemcpyH2D" else "cuLaunchKernel"
        made += [
            ("main", call, start - 15, 4, ids),
            (f"gpu:{device}/{stream}(Compute)", name, start, dur, ids),
        ]
    order: dict[str, int] = {}
    for line in made:
        order.setdefault(line[0], len(order))
    return sorted(made, key=lambda line: (order[line[0]], line[2]))


@pytest.fixture(scope="module")
def profile() -> ProfileData:
    devices = {0: blueprint.A100, 1: blueprint.A100}
    return blueprint.profile(blueprint.trace(lines(), devices=devices))


def explained(profile: ProfileData, asked: Any, **device: int | None) -> GapExplanation:
    return require_available(explain_gap(profile, "vm", asked, **device))


def busy(device: int) -> set[int]:
    return {
        at
        for of, _, _, start, dur in WORK
        if of == device
        for at in range(start, start + dur)
    }


def gap_around(device: int, at: int) -> tuple[int, int] | None:
    """From the end of the work before to the begin of that after, in the windows."""
    worked = busy(device)
    if at in worked:
        return None
    begin = end = at
    while begin - 1 not in worked and begin > BEGIN:
        begin -= 1
    while end not in worked and end < END:
        end += 1
    return begin, end


@pytest.mark.parametrize("at", range(BEGIN + 2, 425, 17))
def test_the_longest_gap_at_an_instant_is_explained(
    profile: ProfileData, at: int
) -> None:
    gaps = {device: gap_around(device, at) for device in (0, 1)}
    known = {device: gap for device, gap in gaps.items() if gap is not None}
    for device in (0, 1):
        found = explained(profile, at * US, device=device)
        assert found.device == device
        assert found.kind == ("gap" if device in known else "busy")
        if device in known:
            begin, end = known[device]
            assert (found.begin_ps, found.end_ps) == (begin * US, end * US)
            check_neighbours(found, device)
        else:
            assert {one.owner for one in found.owners} <= {
                *("compute_32", "compute_unknown", "copy_in", "collective"),
            }
    found = explained(profile, at * US)
    if not known:
        assert (found.kind, found.device) == ("busy", 0)
        return
    longest = max(known.values(), key=lambda gap: gap[1] - gap[0])
    assert (found.begin_ps, found.end_ps) == (longest[0] * US, longest[1] * US)


def check_neighbours(found: GapExplanation, device: int) -> None:
    before = [
        one
        for one in WORK
        if one[0] == device and (one[3] + one[4]) * US <= found.begin_ps
    ]
    after = [one for one in WORK if one[0] == device and one[3] * US >= found.end_ps]
    if before:
        last = max(before, key=lambda one: one[3] + one[4])
        assert found.before is not None
        assert (found.before.name, found.before.start_ps) == (last[2], last[3] * US)
        assert found.before.dur_ps == last[4] * US
    else:
        assert found.before is None
    if after:
        first = min(after, key=lambda one: one[3])
        assert found.after is not None
        assert (found.after.name, found.after.start_ps) == (first[2], first[3] * US)
    else:
        assert found.after is None


def test_a_range_is_explained_on_the_busiest_device(profile: ProfileData) -> None:
    # 160 µs of work on device 0 and 270 on device 1.
    found = explained(profile, (140 * US, 340 * US))
    assert (found.kind, found.device) == ("interval", 1)
    assert found.dur_ps == 200 * US
    assert (found.before, found.after) == (None, None)
    compute = {one.owner: one for one in found.owners}["compute_unknown"]
    assert compute.ps == (140 + 40) * US
    assert compute.percent == pytest.approx(90)
    assert [(part.name, part.ps // US) for part in compute.parts] == [
        ("b", 140),
        ("d", 40),
    ]
    assert compute.interval_count == 2
    shown = [
        (one.name, one.begin_ps // US, one.end_ps // US, one.ps // US)
        for one in compute.intervals
    ]
    # Cut to the range.
    assert shown == [("b", 140, 280, 140), ("d", 300, 340, 40)]
    one_by_one = explained(profile, (140 * US, 340 * US), device=0)
    owners = {one.owner: one.ps // US for one in one_by_one.owners}
    # The copy counts where no kernel runs.
    assert owners["compute_unknown"] == 20 + 20
    assert owners["copy_in"] == 20
    assert owners["collective"] == 10
    assert sum(owners.values()) == 200


def test_what_ran_meanwhile_is_listed_with_its_part_in_the_range(
    profile: ProfileData,
) -> None:
    found = explained(profile, 200 * US, device=0)
    assert (found.begin_ps, found.end_ps, found.step) == (180 * US, 260 * US, 3)
    shown = {one.name: one for one in found.meanwhile}
    fetch = shown["IteratorGetNext"]
    assert (fetch.thread, fetch.count, fetch.launching) == ("main", 1, True)
    assert (fetch.ps, fetch.begin_ps, fetch.end_ps) == (30 * US, 190 * US, 220 * US)
    assert fetch.percent == pytest.approx(100 * 30 / 80)
    tracks = profile.derived("vm", trace_timeline).tracks["name"]
    assert fetch.track is not None
    assert tracks[fetch.track] == "main"
    types = profile.table("vm", "events")["type"]
    names = profile.table("vm", "event_types")["name"]
    assert names[types[fetch.item]] == "IteratorGetNext"
    assert "train" not in shown
    order = [(not one.launching, -one.ps) for one in found.meanwhile]
    assert order == sorted(order)


@pytest.mark.parametrize(
    "table", ["device_activity", "event_types", "tracks", "events"]
)
def test_without_a_table_a_gap_is_explained_by_what_is_left(
    profile: ProfileData, table: str
) -> None:
    found = explain_gap(profile.without(table, ABSENT), "vm", 200 * US)
    if isinstance(found, Unavailable):
        assert found == ABSENT
        return
    assert sum(one.ps for one in found.owners) + found.outside_ps == found.dur_ps
    assert found.kind in {"gap", "host"}
