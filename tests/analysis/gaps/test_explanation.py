"""Whose time a stretch is: on every real recording, and worked out by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.support.results.statements import opened
from tests.support.traces import blueprint

from stepscope.analysis.gaps.explanation import explain_gap
from stepscope.analysis.gaps.time_range import owned_time
from stepscope.derive.account.time_by_cause import account
from stepscope.derive.step_time.owners import IDLE_OWNERS, OWNERS
from stepscope.derive.step_windows.windows import windows
from stepscope.errors import BadUsage
from stepscope.unavailable import Unavailable, require_available

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from stepscope.analysis.gaps.result import GapExplanation
    from stepscope.analysis.gaps.time_range import AccountedDevice
    from stepscope.derive.profile_data import ProfileData

#: Gaps that are asked about of one device: of large recordings the longest.
MOST_GAPS = 60
#: Gaps of a step that are asked about one by one.
MOST_OF_A_STEP = 150


@pytest.fixture(scope="module")
def profile(recorded_run: str, shared_profile: Callable[[str], Path]) -> ProfileData:
    return opened(shared_profile(recorded_run))


def explained(
    profile: ProfileData, host: str, asked: int | tuple[int, int], **device: int | None
) -> GapExplanation:
    return require_available(explain_gap(profile, host, asked, **device))


def devices(profile: ProfileData) -> Iterator[AccountedDevice]:
    for host in profile.hosts:
        found = owned_time(profile, host, None)
        if not isinstance(found, Unavailable):
            yield from found


def step_ps(profile: ProfileData, host: str) -> int:
    rows = require_available(profile.derived(host, windows)).rows
    return int(np.median((rows["end_ps"] - rows["start_ps"]).to_numpy()))


def check_adds_up(found: GapExplanation) -> None:
    assert sum(one.ps for one in found.owners) + found.outside_ps == found.dur_ps
    assert found.end_ps - found.begin_ps == found.dur_ps > 0
    for one in found.owners:
        assert one.ps > 0
        assert sum(part.ps for part in one.parts) == one.ps, one
        for part in one.parts:
            assert part.percent == pytest.approx(100 * part.ps / found.dur_ps)
        if one.interval_count == len(one.intervals):
            assert sum(each.ps for each in one.intervals) == one.ps, one
        for each in one.intervals:
            assert found.begin_ps <= each.begin_ps < each.end_ps <= found.end_ps
            assert 0 < each.ps <= each.end_ps - each.begin_ps
            assert (each.item is not None) or each.track is None
    assert 0 <= found.not_explained_percent <= 100


def test_every_long_gap_has_an_owner_or_is_called_unexplained(
    profile: ProfileData,
) -> None:
    for one in devices(profile):
        if one.busy is None:
            continue
        gaps = one.busy.busy.gaps(*one.account_range)
        length = gaps.end_ps - gaps.start_ps
        long = np.flatnonzero(length > step_ps(profile, one.host) // 100)
        for at in long[np.argsort(-length[long], kind="stable")][:MOST_GAPS].tolist():
            begin, end = int(gaps.start_ps[at]), int(gaps.end_ps[at])
            found = explained(
                profile, one.host, (begin + end) // 2, device=one.device.device
            )
            assert (found.kind, found.begin_ps, found.end_ps) == ("gap", begin, end)
            assert found.outside_ps == 0
            assert {each.owner for each in found.owners} <= set(IDLE_OWNERS)
            check_adds_up(found)
            owner = found.owners[0].owner
            assert owner != "unexplained" or found.not_explained_percent > 0


def test_the_owners_of_a_step_are_those_of_the_account(profile: ProfileData) -> None:
    for one in devices(profile):
        wide = require_available(profile.derived(one.host, windows))
        rows = require_available(profile.derived(one.host, account)).rows
        for window in range(min(wide.rows.height, 3)):
            begin, end = wide.rows.select("start_ps", "end_ps").row(window)
            found = explained(profile, one.host, (begin, end), device=one.device.device)
            check_adds_up(found)
            mine = rows.filter(
                (rows["window"] == window)
                & rows["device"].eq_missing(one.device.device)
            ).row(0, named=True)
            told = {each.owner: each.ps for each in found.owners}
            for owner in (each.name for each in OWNERS):
                known = mine[f"{owner}_ps"]
                if known is not None:
                    assert told.pop(owner, 0) == known, owner
            # What the account calls unknown is in nobody's time here either.
            assert sum(told.values()) == 0


def test_the_gaps_of_a_step_add_up_to_its_idle_time(profile: ProfileData) -> None:
    for one in devices(profile):
        wide = require_available(profile.derived(one.host, windows)).rows
        begin, end = wide.select("start_ps", "end_ps").row(wide.height // 2)
        if one.busy is None or end <= begin:
            continue
        gaps = one.busy.busy.gaps(begin, end)
        if len(gaps) > MOST_OF_A_STEP:
            continue
        whole = explained(profile, one.host, (begin, end), device=one.device.device)
        summed: dict[str, int] = {}
        for first, last in zip(
            gaps.start_ps.tolist(), gaps.end_ps.tolist(), strict=True
        ):
            found = explained(
                profile, one.host, (first, last), device=one.device.device
            )
            for each in found.owners:
                summed[each.owner] = summed.get(each.owner, 0) + each.ps
        idle = {it.owner: it.ps for it in whole.owners if it.owner in IDLE_OWNERS}
        assert summed == idle


US = 1_000_000


def of_two_kernels(*host_lines: blueprint.Line) -> ProfileData:
    """Two kernels, from 20 to 50 µs and from 190 to 220 µs, called at 10 and 170 µs.

    The shortest wait behind other work was never seen, so that no gap is too short.
    """
    return blueprint.profile(
        blueprint.trace(
            [
                ("main", "train", 0, 300, {"_r": 1, "step_num": 7}),
                ("main", "cuLaunchKernel", 10, 5, {"correlation_id": 1}),
                *host_lines,
                ("main", "cuLaunchKernel", 170, 5, {"correlation_id": 2}),
                ("gpu:0/7(Compute)", "sgemm", 20, 30, {"correlation_id": 1}),
                ("gpu:0/7(Compute)", "relu", 190, 30, {"correlation_id": 2}),
            ],
            devices={0: blueprint.A100},
        )
    )


def owners_us(found: GapExplanation) -> dict[str, float]:
    return {one.owner: one.ps / US for one in found.owners}


def test_a_wait_for_a_batch_between_two_kernels() -> None:
    """From 50 to 190 µs: 100 µs in the iterator, the rest on the way to the launch."""
    profile = of_two_kernels(("main", "IteratorGetNext", 60, 100))
    found = explained(profile, "vm", 55 * US)
    assert (found.kind, found.device, found.step) == ("gap", 0, 7)
    assert (found.begin_ps, found.end_ps) == (50 * US, 190 * US)
    assert owners_us(found) == {"input": 100, "launch": 40}
    batch, way = found.owners
    (interval,) = batch.intervals
    assert (interval.begin_ps, interval.end_ps) == (60 * US, 160 * US)
    assert interval.name == "IteratorGetNext"
    assert interval.track is not None
    named = {part.name: part.ps / US for part in way.parts}
    # The call itself lasts 5 µs of the 20 that the launch is on its way.
    assert named["launch latency"] == 20
    assert found.before is not None
    assert found.after is not None
    assert (found.before.name, found.after.name) == ("sgemm", "relu")
    assert (found.confidence, found.not_explained_percent) == ("high", 0)
    assert found.remedy is None
    (fetch,) = [one for one in found.meanwhile if one.name == "IteratorGetNext"]
    assert (fetch.launching, fetch.ps, fetch.count) == (True, 100 * US, 1)
    # The mark of the step says nothing of what was done.
    assert "train" not in {one.name for one in found.meanwhile}


@pytest.mark.parametrize("at_us", [50, 100, 189.999999])
def test_every_instant_of_a_gap_finds_the_same_one(at_us: float) -> None:
    found = explained(of_two_kernels(), "vm", round(at_us * US))
    assert (found.begin_ps, found.end_ps) == (50 * US, 190 * US)


def test_where_the_device_works_nothing_waits() -> None:
    found = explained(of_two_kernels(), "vm", 20 * US)
    assert (found.kind, found.begin_ps, found.end_ps) == ("busy", 20 * US, 50 * US)
    assert owners_us(found) == {"compute_32": 30}
    assert found.owners[0].intervals[0].name == "sgemm"
    assert (found.before, found.after) == (None, None)


def test_a_stretch_of_both_is_divided_among_work_and_waiting() -> None:
    found = explained(of_two_kernels(), "vm", (40 * US, 200 * US))
    assert found.kind == "interval"
    owners = owners_us(found)
    # `sgemm` has a known precision, the other kernel none.
    assert (owners["compute_32"], owners["compute_unknown"]) == (10, 10)
    check_adds_up(found)


def test_the_time_of_overlapping_kernels_counts_once() -> None:
    profile = blueprint.profile(
        blueprint.trace(
            [
                ("gpu:0/7(Compute)", "long", 0, 100),
                ("gpu:0/8(Compute)", "beside", 50, 100),
            ],
            devices={0: blueprint.A100},
        )
    )
    found = explained(profile, "vm", 10 * US)
    assert owners_us(found) == {"compute_unknown": 150}
    assert {one.name: one.ps / US for one in found.owners[0].parts} == {
        "long": 100,
        "beside": 50,
    }
    check_adds_up(found)


def test_what_nobody_explains_says_what_to_record() -> None:
    """Nothing was recorded on the host: what launched the kernels is not known."""
    profile = blueprint.profile(
        blueprint.trace(
            [
                ("gpu:0/7(Compute)", "sgemm", 20, 30),
                ("gpu:0/7(Compute)", "relu", 190, 30),
            ],
            devices={0: blueprint.A100},
        )
    )
    found = explained(profile, "vm", 100 * US)
    assert (found.not_explained_percent, found.confidence) == (100, "low")
    assert found.remedy is not None
    assert found.meanwhile == ()


def test_the_owner_of_the_step_threads_without_a_device() -> None:
    found = explained(blueprint.profile(blueprint.a2()), "vm", 100 * US)
    assert (found.kind, found.device) == ("host", None)
    assert (found.begin_ps, found.end_ps) == (10 * US, 210 * US)
    assert owners_us(found) == {"input": 200}


def test_beyond_the_steps_no_owner_is_looked_for() -> None:
    """The first step begins at 100 µs; the kernel before it is of none."""
    profile = blueprint.profile(
        blueprint.trace(
            [
                ("main", "cuLaunchKernel", 10, 5, {"correlation_id": 1}),
                ("main", "train", 100, 300, {"_r": 1, "step_num": 7}),
                ("main", "cuLaunchKernel", 170, 5, {"correlation_id": 2}),
                ("gpu:0/7(Compute)", "sgemm", 20, 30, {"correlation_id": 1}),
                ("gpu:0/7(Compute)", "relu", 190, 30, {"correlation_id": 2}),
            ],
            devices={0: blueprint.A100},
        )
    )
    found = explained(profile, "vm", (60 * US, 150 * US))
    assert found.outside_ps == 40 * US
    assert found.not_explained_percent >= 100 * 40 / 90
    check_adds_up(found)
    before = explained(profile, "vm", 60 * US)
    assert (before.begin_ps, before.end_ps) == (50 * US, 100 * US)
    assert before.outside_ps == before.dur_ps


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (10**15, "is outside the recording"),
        ((5, 5), "is not after the start"),
        ((5, 2), "is not after the start"),
        ((5, 10**15), "is outside the recording"),
    ],
)
def test_times_that_the_recording_does_not_have_are_refused(
    asked: int | tuple[int, int], words: str
) -> None:
    with pytest.raises(BadUsage, match=words):
        explain_gap(of_two_kernels(), "vm", asked)


def test_a_device_that_is_not_there_is_refused() -> None:
    with pytest.raises(BadUsage, match="there is no device '3'; known: 0"):
        explain_gap(of_two_kernels(), "vm", 100 * US, device=3)
    with pytest.raises(BadUsage, match="has no device"):
        explain_gap(blueprint.profile(blueprint.a2()), "vm", 100 * US, device=0)
