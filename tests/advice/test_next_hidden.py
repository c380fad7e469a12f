"""Whether what holds a step next is hidden behind other work so far."""

from __future__ import annotations

import pytest
from tests.conftest import DATA, PROFILES

import stepscope as ss
from stepscope.reporting.compose import judge_profile


def test_time_that_the_account_gives_an_owner_is_in_sight() -> None:
    """Computing holds most of the path, and most of what remains in the account."""
    told = judge_profile(ss.open(DATA / "gpu/torch_overlap")).together
    assert told.next_owner == "compute_16"
    assert not told.next_hidden


def test_gaps_between_kernels_hide_behind_late_launches() -> None:
    """Late launches go; then kernels follow each other, and their gaps count."""
    told = judge_profile(ss.open(DATA / "gpu/torch_launch_bound")).together
    assert told.findings[0] == "launch.delay"
    assert told.next_owner == "switch"
    assert told.next_hidden


@pytest.mark.profiles
def test_launches_of_a_starved_device_hide_behind_its_kernels() -> None:
    """Launching is 2.2 % of the step, 83 of the 1,390 ms that remain without input."""
    told = judge_profile(ss.open(PROFILES / "gpu_tf/t4_starved")).together
    assert (told.findings[0], told.next_owner) == ("input.bound", "launch")
    assert told.next_percent is not None
    assert told.next_percent > 90
    assert told.next_hidden
