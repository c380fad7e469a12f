"""`amp.share` on real recordings, against times counted from the files themselves.

The names of kernels are sorted here by what stands in them, without the product's own
grammar: each list below was read in the file and looked up in its library.
"""

from __future__ import annotations

import gzip
import json
import re
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl
import pytest
from tests.advice.test_real_profiles import findings

import stepscope as ss

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.profiles

#: Kernels of one trace that multiply 32-bit operands: cut to TF32, or whole.
CUT = re.compile(r"tf32|tfloat32_t|cutlass_80_tensorop_s1688gemm_\d")
WHOLE = re.compile(r"_sgemm_|gemmSN_|gemmk1_|magma_sgemm|_scudnn_")


class Counted(NamedTuple):
    """Times of a trace's compute kernels in µs."""

    compute: float
    cut: float
    whole: float


@cache
def counted(folder: Path) -> Counted:
    """Add up the durations that stand in a Kineto trace."""
    (path,) = folder.glob("*.json*")
    data = path.read_bytes()
    text = gzip.decompress(data) if path.suffix == ".gz" else data
    kernels = [
        (event["name"], event["dur"])
        for event in json.loads(text)["traceEvents"]
        if str(event.get("cat", "")).lower() == "kernel" and "nccl" not in event["name"]
    ]
    return Counted(
        sum(dur for _, dur in kernels),
        sum(dur for name, dur in kernels if CUT.search(name)),
        sum(dur for name, dur in kernels if WHOLE.search(name)),
    )


def kernel_rows(path: Path) -> pl.DataFrame:
    rows = ss.open(path).tool("kernel_stats").rows
    return rows.filter(pl.col("precision").is_not_null())


def time_of(rows: pl.DataFrame, **columns: object) -> float:
    chosen = rows.filter(*(pl.col(name) == value for name, value in columns.items()))
    return float(chosen["total_us"].sum())


@pytest.mark.parametrize(
    ("name", "tf32_percent", "waits"),
    [
        # Its device waits for launches: faster kernels gain nothing.
        ("kineto/hta_nccl_parser_config", 33.4, True),
        ("kineto/hta_negative_queue_length", 56.4, False),
        ("kineto/hta_trace_diff_control", 23.6, False),
    ],
)
def test_cut_products_are_counted_to_the_microsecond(
    name: str, tf32_percent: float, shared_profile: Any, *, waits: bool
) -> None:
    path = shared_profile(name)
    raw, rows = counted(path), kernel_rows(path)
    assert rows["total_us"].sum() == pytest.approx(raw.compute)
    assert time_of(rows, precision="tf32") == pytest.approx(raw.cut)
    assert 100 * raw.cut / raw.compute == pytest.approx(tf32_percent, abs=0.05)
    by_width = ss.open(path).tool("kernel_stats").time_us_by_precision
    assert sum(by_width.values()) == pytest.approx(raw.compute)
    assert by_width["tf32"] == pytest.approx(raw.cut)
    shares = ss.open(path).tool("overview_page").precision
    assert shares.compute_16bit_percent == 0
    unknown = shares.default_evidence_percent
    assert shares.compute_32bit_percent + unknown == pytest.approx(100)
    assert shares.compute_tf32_percent == pytest.approx(tf32_percent, abs=0.05)
    amp = findings(path)["amp.share"]
    assert (amp.status, amp.note, amp.value) == ("fail", "tf32", 0.0)
    assert amp.saving_ms is not None
    assert amp.ms_per_step is not None
    assert amp.saving_ms.low <= amp.saving_ms.high < amp.ms_per_step
    assert (amp.saving_ms.high == 0) == waits


def test_of_the_products_of_an_a100_four_fifths_are_cut(shared_profile: Any) -> None:
    rows = kernel_rows(shared_profile("kineto/hta_trace_diff_control"))
    eligible = rows.filter("tensor_core_eligible")
    share = time_of(eligible, precision="tf32") / eligible["total_us"].sum()
    assert share == pytest.approx(0.81, abs=0.005)


def test_a_v100_has_units_for_the_products_that_a_compiled_op_encloses(
    shared_profile: Any,
) -> None:
    path = shared_profile("kineto/hta_trace_diff_test")
    raw, rows = counted(path), kernel_rows(path)
    assert raw.whole == pytest.approx(199_194)
    products = rows.filter(
        pl.col("kernel_name").map_elements(
            lambda name: WHOLE.search(name) is not None, return_dtype=pl.Boolean
        )
    )
    assert products["total_us"].sum() == pytest.approx(raw.whole)
    assert set(products["tensor_core_eligible"]) == {True}
    opaque = rows.filter(pl.col("op_name").str.starts_with("torch::autograd::CppNode"))
    assert opaque["tensor_core_eligible"].null_count() == len(opaque) > 0
    amp = findings(path)["amp.share"]
    assert (amp.status, amp.severity, amp.value) == ("fail", "warn", 0.0)
    # 199.2 ms in six steps.
    assert amp.ms_per_step == pytest.approx(33.2, abs=2)
    assert amp.saving_ms is not None
    assert amp.saving_ms.high == pytest.approx(amp.ms_per_step * 2 / 3)
    assert [one.cause.startswith("volta_sgemm_") for one in amp.causes] == [True] * 3


def test_nothing_of_a_resnet_in_single_precision_is_16_bit(shared_profile: Any) -> None:
    path = shared_profile("kineto/param_resnet")
    raw, rows = counted(path), kernel_rows(path)
    assert rows["total_us"].sum() == pytest.approx(raw.compute)
    assert set(rows["precision"]) == {"32"}
    assert (amp := findings(path)["amp.share"]).status == "fail"
    assert amp.value == 0


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        # Its device idles for an eighth of the step, and no replay predicts a gain.
        ("gpu_tf/aoberai_2021_06_16_01_44_30", 0, 23),
        ("gpu_tf/t4_healthy", 22, 64),
    ],
)
def test_what_16_bit_gains_on_turing(
    name: str, low: float, high: float, shared_profile: Any
) -> None:
    amp = findings(shared_profile(name))["amp.share"]
    assert (amp.status, amp.severity, amp.value) == ("fail", "warn", 0.0)
    assert amp.saving_ms is not None
    assert amp.saving_ms.low == pytest.approx(low, rel=0.05)
    assert amp.saving_ms.high == pytest.approx(high, rel=0.05)


@pytest.mark.parametrize(
    "name",
    [
        "kineto/tracelens_b200_eager",
        "kineto/tracelens_qwen1.5_0.5b_h100",
        "kineto/tracelens_qwen1.5_0.5b_mi300",
        "kineto/tracelens_timesformer_h100",
        "kineto/tracelens_timesformer_mi300",
        "gpu_jax_amd/jax_te_fused_attn",
        "gpu_jax_amd/jax08_attention",
        "gpu_jax_amd/jax08_conv",
        "gpu_jax_amd/jax08_gemm",
        "gpu_jax_amd/jax_conv_minimal",
    ],
)
def test_what_is_narrow_is_not_told_to_become_so(
    name: str, shared_profile: Any
) -> None:
    amp = findings(shared_profile(name))["amp.share"]
    assert amp.status == "pass"
    assert amp.value == pytest.approx(100, abs=0.2)


def test_block_scaled_formats_count_with_16_bit(shared_profile: Any) -> None:
    rows = kernel_rows(shared_profile("kineto/tracelens_b200_eager"))
    scaled = rows.filter(pl.col("kernel_name").str.contains("E2m1|E4m3"))
    # 36 layers: two products of experts and an attention each.
    assert scaled["occurrences"].sum() == 3 * 36
    assert set(scaled["precision"]) == {"16"}
    assert set(scaled["uses_tensor_core"]) == {True}


def test_attention_in_bfloat16_is_no_work_in_32_bit(shared_profile: Any) -> None:
    """The program's own types of these calls are those of their workspace."""
    rows = kernel_rows(shared_profile("gpu_jax_amd/jax_te_fused_attn"))
    attention = rows.filter(pl.col("kernel_name").str.contains("Fmha"))
    assert attention["total_us"].sum() > 0.5 * rows["total_us"].sum()
    assert set(attention["precision"]) == {"16"}


def test_one_kernel_has_one_precision(recorded_run: str, shared_profile: Any) -> None:
    profile = ss.open(shared_profile(recorded_run))
    found = profile.tool("kernel_stats")
    if not hasattr(found, "rows"):
        pytest.skip("no kernels")
    widths = found.rows.group_by("kernel_name").agg(pl.col("precision").n_unique())
    assert widths["precision"].max() == 1
