"""Runs that are ready to be compared."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stepscope.compare.comparison import compare_runs
from stepscope.compare.measured import measure_run
from stepscope.reporting.compose import judge_profile
from stepscope.session import open_profile
from stepscope.thresholds import THRESHOLDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.compare.comparison import Comparison
    from stepscope.compare.measured import MeasuredSteps

DATA = Path(__file__).resolve().parents[1] / "data"


@cache
def run_at(path: str) -> MeasuredSteps:
    profile = open_profile(path)
    return measure_run(profile, judge_profile(profile).findings)


def recorded(name: str) -> MeasuredSteps:
    return run_at(str(DATA / name))


@pytest.fixture(scope="session")
def against() -> Callable[..., Comparison]:
    """`against("new", "base")`: the comparison of two recorded profiles."""

    def compared(new: str, base: str, *, same_work: bool = False) -> Comparison:
        return compare_runs(
            recorded(base), recorded(new), thresholds=THRESHOLDS, same_work=same_work
        )

    return compared


@pytest.fixture(scope="session")
def run_of() -> Callable[[str], MeasuredSteps]:
    """`run_of("tf_cpu/healthy")`, or of any path: a run ready to be compared."""
    return lambda name: recorded(name) if (DATA / name).exists() else run_at(name)
