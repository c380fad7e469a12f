"""Details of the ops of real profiles add up, and hold what is known of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest
from tests.support.traces.ops import detail, parts

from stepscope.analysis import framework_op_stats
from stepscope.analysis.framework_op_stats import Options
from stepscope.session import open_profile
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepscope.analysis.framework_op_stats.detail import OpDetailResult


REAL = [
    "gpu_tf/t4_healthy",
    "gpu_tf/turing_launch_bound",
    "gpu_jax_amd/jax08_gemm",
    "kineto/tracelens_qwen1.5_0.5b_h100",
    "kineto/dlrm_8rank_v100",
    "tpu/tpu_inference_2",
    "tf_cpu/healthy",
    "tf_cpu/two_workers",
    "torch_cpu/schedule_dataloader",
]


@pytest.mark.parametrize("name", REAL)
def test_details_of_real_profiles_add_up_to_the_rows(
    name: str, shared_profile: Callable[[str], Path]
) -> None:
    profile = open_profile(shared_profile(name))
    everything = framework_op_stats.analyse(profile, Options())
    assert not isinstance(everything, Unavailable)
    rows = everything.rows
    names = [
        op
        for side in ("Device", "Host")
        for op in rows.filter(host_or_device=side)["name"].head(6).to_list()
    ]
    for op in dict.fromkeys(names):
        result = detail(profile, op=op, most_calls=None)
        assert len(result.calls) == result.call_count
        check_sums(result, rows.filter(name=op))


def check_sums(result: OpDetailResult, rows: pl.DataFrame) -> None:
    host = rows.filter(host_or_device="Host")
    executed = result.calls.filter(pl.col("host_us").is_not_null())
    assert len(executed) == host["occurrences"].sum()
    own = executed["host_self_us"].sum()
    assert own == pytest.approx(host["total_self_time_us"].sum())
    if result.kernels is None or result.copies is None:
        assert result.cause.compute_us is None
        return
    caused = result.calls["device_us"].sum()
    listed = result.kernels["total_us"].sum() + result.copies["total_us"].sum()
    assert listed == pytest.approx(caused)
    device = rows.filter(host_or_device="Device")
    # Ops inside a call add to it, so there may be more than the op's own work.
    assert caused >= device["total_time_us"].sum() - 1e-6
    cause = result.cause
    if cause.total_us is not None:
        assert sum(parts(result).values()) - (cause.untested_us or 0) == pytest.approx(
            cause.total_us
        )
    # Per call nothing is counted twice but overlaps of calls.
    if cause.waiting_us is not None and result.calls["waiting_us"].null_count() == 0:
        assert result.calls["waiting_us"].sum() >= cause.waiting_us - 1e-6


@pytest.mark.profiles
def test_the_collectives_of_a_real_run_are_transfer(
    shared_profile: Callable[[str], Path],
) -> None:
    # 2,020 NCCL kernels of 357,343 µs, counted from the file.
    profile = open_profile(shared_profile("kineto/hta_df_index_resolver"))
    result = detail(profile, op="c10d::allreduce_")
    kernels = result.kernels
    assert kernels is not None
    assert set(kernels["kind"]) == {"collective"}
    assert kernels["occurrences"].sum() == result.call_count == 2020
    assert kernels["total_us"].sum() == pytest.approx(357_343)
    assert result.cause.dominant == "transfer"
    assert (len(result.calls), result.calls["rank"][-1]) == (1000, 1000)


@pytest.mark.profiles
def test_the_copy_that_a_starved_gpu_waits_for_is_transfer(
    shared_profile: Callable[[str], Path],
) -> None:
    profile = open_profile(shared_profile("gpu_tf/t4_healthy"))
    result = detail(profile, op="IteratorGetNext/_3")
    assert result.cause.dominant == "transfer"
    assert result.cause.transfer_us == pytest.approx(25_008.893)
    assert result.share.device_percent is not None
    # Of the 164.083 ms that the producer stored as its step.
    assert result.share.device_percent == pytest.approx(15.2, abs=0.1)
