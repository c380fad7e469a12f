"""A training program that was made faster, and measured again, by its own authors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pytest
from tests.support.traces.replayed import Program

from stepscope.derive.replay.node_times import replayed_gain
from stepscope.derive.step_time.owners import IDLE_OWNERS
from stepscope.formats.opening import read

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LADDER: Final = "nsys_ladder"
#: Median period with eight workers, in ms, as its steps were measured by hand.
WITH_WORKERS: Final = 176.7


@pytest.fixture(name="ladder", scope="module")
def _ladder(shared_profile: Callable[[str], Path]) -> Callable[[str], Program]:
    def program(name: str) -> Program:
        return Program.recorded(read(shared_profile(LADDER) / f"{name}.sqlite.gz"))

    return program


@pytest.mark.profiles
def test_the_baseline_foretells_what_more_workers_reached(
    ladder: Callable[[str], Program],
) -> None:
    """The loader works between the steps' ranges, in the program's own thread."""
    found = ladder("baseline")
    assert found.check.stands
    assert found.check.unexplained_percent < 1
    gain = replayed_gain(found.graph, found.without(*IDLE_OWNERS, place="between"))
    assert gain.is_reportable
    for gained in (gain.low_ps, gain.high_ps):
        foretold = (gain.period_ps - gained) / 1e9
        assert foretold == pytest.approx(WITH_WORKERS, rel=0.05)


@pytest.mark.profiles
def test_with_more_workers_only_the_stalls_are_left_to_gain(
    ladder: Callable[[str], Program],
) -> None:
    """Most steps do not wait any more: the median step cannot gain from input."""
    found = ladder("8workers")
    assert found.check.stands
    gain = replayed_gain(found.graph, found.without(*IDLE_OWNERS, place="between"))
    per_window = gain.by_window_ps[1] / 1e9
    assert abs(np.median(per_window)) < 0.05 * WITH_WORKERS
    assert gain.high_ps / 1e9 < 0.25 * gain.period_ps / 1e9
