"""Real tables give what was counted by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest
from tests.support.traces.kineto import frame
from tests.support.traces.nsight_compute import read_checked

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.profiles

#: `gpu__time_duration.sum` of each file, in ns, as counted by hand.
REAL_NS = {
    "gemm_naive": 9_589_248,
    "gemm_tiled": 10_195_552,
    "gemm_register_blocked": 2_970_912,
    "gemm_vectorized": 2_103_104,
    "saxpy": 292_928,
    "transpose_naive": 163_072,
    "transpose_tiled": 85_824,
}


@pytest.mark.parametrize("name", sorted(REAL_NS))
def test_real_tables_give_the_times_that_were_counted_by_hand(
    shared_profile: Callable[[str], Path], name: str
) -> None:
    trace = read_checked(shared_profile("ncu/roofline_rtx5070/ncu") / f"{name}.csv")
    found = frame(trace, "kernel_metrics")
    assert found["duration_ps"].to_list() == [REAL_NS[name] * 1000]
    assert frame(trace, "kernel_metric_values").height == 12
    assert frame(trace, "quality").filter(pl.col("severity") != "info").is_empty()
