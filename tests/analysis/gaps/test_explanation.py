"""Whose time a stretch is: on every real recording, and worked out by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import stepscope as ss
from stepscope.analysis.gaps.explanation import explain_gap
from stepscope.analysis.gaps.stretch import owned
from stepscope.derive.account.owned_time import account
from stepscope.derive.step_time.owners import IDLE_OWNERS, OWNERS
from stepscope.derive.step_windows.windows import windows
from stepscope.errors import BadUsage
from stepscope.unavailable import Unavailable, present

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from stepscope.analysis.gaps.result import GapExplanation
    from stepscope.analysis.gaps.stretch import Owned
    from stepscope.derive.profile_data import ProfileData

#: Gaps that are asked about of one device: of large recordings the longest.
MOST_GAPS = 60
#: Gaps of a step that are asked about one by one.
MOST_OF_A_STEP = 150


@pytest.fixture(scope="module")
def profile(recorded_run: str, shared_profile: Callable[[str], Path]) -> ProfileData:
    return ss.open(shared_profile(recorded_run))


def explained(
    profile: ProfileData, host: str, asked: int | tuple[int, int], **device: int | None
) -> GapExplanation:
    return present(explain_gap(profile, host, asked, **device))


def devices(profile: ProfileData) -> Iterator[Owned]:
    for host in profile.hosts:
        found = owned(profile, host, None)
        if not isinstance(found, Unavailable):
            yield from found


def step_ps(profile: ProfileData, host: str) -> int:
    rows = present(profile.derived(host, windows)).rows
    return int((rows["end_ps"] - rows["start_ps"]).median() or 0)


def check_adds_up(found: GapExplanation) -> None:
    assert sum(one.ps for one in found.owners) + found.outside_ps == found.dur_ps
    assert found.end_ps - found.begin_ps == found.dur_ps > 0
    for one in found.owners:
        assert one.ps > 0
        assert sum(part.ps for part in one.parts) == one.ps, one
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
        gaps = one.busy.busy.gaps(*one.hull)
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
        wide = present(profile.derived(one.host, windows))
        rows = present(profile.derived(one.host, account)).rows
        for window in range(min(wide.rows.height, 3)):
            begin, end = wide.rows.select("start_ps", "end_ps").row(window)
            found = explained(
                profile, one.host, (begin, end), device=one.device.device
            )
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
        wide = present(profile.derived(one.host, windows)).rows
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
