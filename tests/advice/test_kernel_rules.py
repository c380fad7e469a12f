"""Rules about kernels, on whole traces: faults, clean twins, near misses.

A step of the base takes 9.7 ms of kernels: 6 ms of products, 3.7 ms of fused ones.
"""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from tests.advice.kernels import judged, kernel, signals, worked
from tests.support.traces import blueprint
from tests.support.traces.judged import Judged
from tests.support.traces.training import (
    BF16,
    KERNELS,
    MATMUL,
    SGEMM,
    findings,
    together,
)

from stepscope.advice.engine import signals_of

STAGES = (
    *("tc.unused", "tc.dims", "fuse.runs", "layout.transpose", "op.hot"),
    *("amp.fallback", "amp.cast", "amp.softmax"),
)
Kernel = tuple[str, float, str]
OTHERS: list[Kernel] = list(KERNELS[20:])
PRODUCTS: list[Kernel] = list(KERNELS[:20])
#: As PyTorch and TensorFlow call their kernels.
ADD = "void at::native::vectorized_elementwise_kernel<4, CUDAFunctor_add<c10::Half>>"
TO_NHWC = "void cudnn::ops::nchwToNhwcKernel<__half, __half, float>"
CONV = (
    "sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x128x64"
)


def found_in(kernels: list[Kernel], **given: Any) -> dict[str, Any]:
    return findings(together(kernels=kernels), **given)


def test_the_base_has_none_of_the_faults() -> None:
    found = found_in(list(KERNELS))
    assert {name for name in STAGES if found[name].status == "fail"} == set()
    assert found["tc.unused"].status == "pass"
    assert found["amp.fallback"].status == "pass"


def test_products_beside_the_matrix_units_are_found() -> None:
    found = found_in([(SGEMM, 300.0, MATMUL)] * 20 + OTHERS)
    unused = found["tc.unused"]
    assert (unused.status, unused.severity) == ("fail", "critical")
    assert unused.value == pytest.approx(100 * 6_000 / 9_700, abs=0.1)
    assert unused.ms_per_step == pytest.approx(6.0, abs=0.01)
    assert (unused.saving_ms.low, unused.saving_ms.high) == (
        pytest.approx(2.0, abs=0.01),
        pytest.approx(4.0, abs=0.01),
    )
    assert unused.parts[0].name == "model/dense/MatMul"
    assert unused.evidence[0].ops == (SGEMM,)
    # All of it could be in 16 bit: that is the change to make.
    assert found["amp.share"].status == "fail"


@pytest.mark.parametrize(
    ("kernel", "of_the_program"),
    [
        ("matmul_k(float*, float*, float*, int, int, int)", True),
        # A library's kernel whose op was lost, as in a graph that is replayed.
        (SGEMM, False),
    ],
)
def test_settings_of_a_framework_are_not_advised_for_kernels_of_the_program(
    kernel: str, *, of_the_program: bool
) -> None:
    found = found_in([(kernel, 300.0, "")] * 20 + OTHERS)
    for rule in ("tc.unused", "amp.share"):
        assert found[rule].status == "fail"
        first = found[rule].actions[0].text
        assert first.startswith("Replace these kernels by the") == of_the_program


def test_most_of_the_kernels_time_is_not_grave_where_that_is_little_of_the_step() -> (
    None
):
    """6 ms of products of 9.7 ms of kernels, beside 40 ms of exchange in each step."""
    exchange = ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 40_000.0, "nccl")
    found = found_in([(SGEMM, 300.0, MATMUL)] * 20 + OTHERS + [exchange])
    unused = found["tc.unused"]
    assert unused.value == pytest.approx(100 * 6_000 / 9_700, abs=0.1)
    assert unused.share_percent == pytest.approx(12.0, abs=0.5)
    assert (unused.status, unused.severity) == ("fail", "warn")


def test_narrow_work_that_is_no_product_needs_no_matrix_unit() -> None:
    found = found_in(PRODUCTS + [("fused_float_kernel", 40.0, "a/AddV2:AddV2")] * 60)
    assert found["tc.unused"].status == "pass"


def test_some_products_in_32_bit_are_a_fallback() -> None:
    found = found_in(
        PRODUCTS[:14] + [(SGEMM, 300.0, "loss/MatMul:MatMul")] * 6 + OTHERS
    )
    fallback = found["amp.fallback"]
    assert fallback.status == "fail"
    assert fallback.value == pytest.approx(100 * 1_800 / 9_700, abs=0.1)
    assert fallback.parts[0].name == "loss/MatMul"
    assert found["tc.unused"].explained_by == ("amp.fallback",)


def shaped(lines: list[Any], shapes: dict[str, str]) -> list[Any]:
    """Record operands of the kernels whose names hold a word."""
    return [
        (*line[:4], line[4] | {"shape": shape})
        if line[0].startswith("gpu") and shape
        else line
        for line in lines
        for shape in [next((to for of, to in shapes.items() if of in line[1]), "")]
    ]


@pytest.mark.parametrize(("columns", "measured"), [(512, True), (256, False)])
def test_what_16_bit_kernels_of_one_shape_take_is_measured(
    columns: int, *, measured: bool
) -> None:
    """Six products of 660 µs in 32 bit; in 16 bit such a product takes 300 µs."""
    slow = [(SGEMM, 660.0, "loss/MatMul:MatMul")] * 6
    lines = shaped(
        together(kernels=[*PRODUCTS[:14], *slow, *OTHERS]),
        {
            BF16: "bf16[64,1024], bf16[1024,512]",
            SGEMM: f"f32[64,1024], f32[1024,{columns}]",
        },
    )
    saving = findings(lines)["amp.fallback"].saving_ms
    assert saving.open_above is not measured
    expected = (2.16, 2.16) if measured else (1.32, 2.64)
    assert (saving.low, saving.high) == pytest.approx(expected, abs=0.01)


def test_a_program_in_32_bit_has_no_fallback() -> None:
    found = found_in([(SGEMM, 300.0, MATMUL)] * 20 + [("sum_float", 30.0, "a/Sum:Sum")])
    assert found["amp.fallback"].status == "not_applicable"


def test_sizes_off_the_grid_are_named() -> None:
    lines = together(kernels=[("volta_hgemm_64x64_nn", 300.0, MATMUL), *KERNELS[:15]])
    shape = "c10::Half[64,1024], c10::Half[1024,{}]"
    for size, status in ((50257, "fail"), (50304, "pass")):
        shaped = [
            (*line[:4], line[4] | {"shape": shape.format(size)})
            if line[0].startswith("gpu") and "hgemm" in line[1]
            else line
            for line in lines
        ]
        found = findings(shaped)["tc.dims"]
        assert found.status == status
        if status == "fail":
            facts = {fact.name: fact.value for fact in found.facts}
            assert facts["odd_size"] == size
    assert findings(lines)["tc.dims"].status == "cannot_tell"


def test_kernels_that_prepare_the_operands_of_a_product_are_no_products() -> None:
    for name in ("batched_transpose_32x32_half.kd", "SubTensorOpWithCastTensor1d.kd"):
        lines = together(kernels=[(name, 300.0, MATMUL), *KERNELS[:15]])
        shaped = [
            (*line[:4], line[4] | {"shape": "c10::Half[64,1024], c10::Half[1024,10]"})
            if line[1] == name
            else line
            for line in lines
        ]
        assert findings(shaped)["tc.dims"].status == "pass"


@pytest.mark.slow(seconds=0.6)
def test_elementwise_kernels_in_a_row_could_be_one() -> None:
    # 120 runs of five, each closed by a product.
    run = [(ADD, 8.0, "a/AddV2:AddV2")] * 5 + [(BF16, 40.0, MATMUL)]
    found = found_in(run * 100)["fuse.runs"]
    assert (found.status, found.severity) == ("fail", "critical")
    assert found.value == pytest.approx(50.0, abs=0.5)
    assert {fact.name: fact.value for fact in found.facts}["runs"] == 100
    pairs = [(ADD, 20.0, "a/AddV2:AddV2")] * 2 + [(BF16, 40.0, MATMUL)]
    assert found_in(pairs * 100)["fuse.runs"].status == "pass"
    # A benchmark repeats one kernel of 14.4 ms: nothing is small, nothing to fuse.
    alone = found_in([(ADD, 14_400.0, "a/AddV2:AddV2")] * 5)
    assert alone["fuse.runs"].status == "pass"


@pytest.mark.slow(seconds=0.5)
def test_reordering_next_to_convolutions_is_found() -> None:
    conv = (CONV, 150.0, "a/Conv2D:Conv2D")
    order = (TO_NHWC, 15.0, "a/Conv2D:Conv2D")
    found = found_in([order, conv] * 40 + OTHERS)["layout.transpose"]
    assert (found.status, found.severity) == ("fail", "warn")
    assert found.value == pytest.approx(100 * 600 / (40 * 165 + 3_700), abs=0.1)
    # Several in a row, of which one is next to a convolution.
    several = found_in([order, order, order, conv] * 40 + OTHERS)["layout.transpose"]
    assert several.value == pytest.approx(100 * 1_800 / (40 * 195 + 3_700), abs=0.1)
    # Of a head of attention, far from the convolutions: no fault.
    apart = (TO_NHWC, 15.0, "a/Transpose:Transpose")
    far = (
        [conv] * 40 + OTHERS + [(BF16, 50.0, MATMUL), apart, (BF16, 50.0, MATMUL)] * 40
    )
    assert found_in(far)["layout.transpose"].status == "pass"
    assert found_in(list(KERNELS))["layout.transpose"].status == "not_applicable"


@pytest.mark.parametrize("order", ["batched_transpose_16x64_pack_1x4_half", TO_NHWC])
def test_what_libraries_reorder_for_convolutions_counts_wherever_it_is(
    signals_of: Any, shares: Any, order: str
) -> None:
    """MIOpen subtracts, re-orders twice, convolves; no op was recorded."""
    names = [
        "igemm_fwd_gtcx2_nhwc_bf16_bx0_ex1_bt32x128x32",
        order,
        "SubTensorOpWithScalar1d",
        "void transpose_readWrite_alignment_kernel<float>",
    ]
    rows = [kernel(1.0, full_name=name, op=None, op_type=None) for name in names]
    rows[1] |= {"reorders": True}
    rows[3] |= {"reorders": True}
    shown = pl.DataFrame(
        {"class": [3, 2, 1, 2, 0], "stream": [7] * 5, "event": [None] * 5},
        schema_overrides={"class": pl.Int32, "stream": pl.Int32, "event": pl.Int32},
    ).with_columns(start_ps=pl.int_range(5), end_ps=pl.int_range(1, 6))
    seen = signals(signals_of, worked(*rows, shown=shown), shares())
    found = judged("layout.transpose", seen)
    # The other transpose is far from the convolution.
    assert (found.status, found.value) == ("fail", 25.0)


@pytest.mark.slow(seconds=0.4)
def test_conversions_are_found() -> None:
    cast = ("Eigen::internal::EigenMetaKernel<float, Eigen::half>", 3.5, "a/Cast:Cast")
    found = found_in(list(KERNELS) + [cast] * 200)["amp.cast"]
    assert (found.status, found.severity) == ("fail", "warn")
    assert found.value == pytest.approx(100 * 700 / 10_400, abs=0.1)
    assert found_in([*KERNELS, cast])["amp.cast"].status == "pass"


def test_work_in_64_bit_is_found_from_one_percent_on() -> None:
    wide = ("void sum_kernel<double>", 50.0, "a/Sum:Sum")
    found = found_in([*KERNELS, wide, wide, wide])["amp.cast"]
    assert (found.status, found.note) == ("fail", "doubles")
    assert found.value == pytest.approx(100 * 150 / 9_850, abs=0.1)
    assert [action.cause for action in found.actions] == ["doubles"]


WARP = "void (anonymous namespace)::softmax_warp_forward"


@pytest.mark.parametrize(
    ("kernel", "status"),
    [
        ("void cunn_SoftMaxForward<8, c10::Half, c10::Half, c10::Half>", "fail"),
        ("void cunn_SoftMaxForward<8, c10::Half, float, float>", "pass"),
        ("flash_fwd_kernel_softmax<c10::Half>", "pass"),
        # As PyTorch names its kernels: result, operand, and what it computes in.
        (f"{WARP}<c10::Half, c10::Half, float>(c10::Half*, c10::Half const*)", "fail"),
        (f"{WARP}<c10::Half, float, float>(float*, c10::Half const*)", "pass"),
        ("void cunn_SoftMaxForward<8, float>(c10::BFloat16*, float const*)", "fail"),
        # As TensorFlow names them: the result is not the first parameter.
        ("void SoftmaxProb<float>(Eigen::half const*, Eigen::half*, int)", "fail"),
    ],
)
@pytest.mark.sweep(every=3)
def test_a_softmax_in_16_bit_is_told(kernel: str, status: str) -> None:
    found = found_in([*KERNELS, (kernel, 20.0, "a/Softmax:Softmax")])["amp.softmax"]
    assert (found.status, found.severity) == (status, "info")
    assert found.saving_ms is None


def test_shorter_kernels_may_gain_nothing_where_the_device_waits() -> None:
    kernels = [(SGEMM, 300.0, MATMUL)] * 20 + OTHERS
    starved = findings(together(kernels=kernels, fetch_us=4_000.0))["tc.unused"]
    assert starved.saving_ms.low == 0.0
    assert starved.saving_ms.high == pytest.approx(4.0, abs=0.01)


def test_without_device_work_nothing_passes() -> None:
    found = found_in(list(KERNELS), without="device_activity")
    assert {found[name].status for name in STAGES} == {"cannot_tell"}


def test_without_ops_nothing_is_said_of_them() -> None:
    bare = [(*line[:4], _without_op(line[4:])) for line in together()]
    found = findings(bare)
    assert found["amp.cast"].status == "cannot_tell"
    assert found["op.hot"].status == "cannot_tell"


def _without_op(stats: tuple[Any, ...]) -> dict[str, Any]:
    kept = dict(stats[0]) if stats else {}
    kept.pop("tf_op", None)
    return kept


def test_no_device_is_not_applicable() -> None:
    lines = [
        line
        for number in range(6)
        for line in (
            ("main", "train", 1000 * number, 990, {"_r": 1, "step_num": number}),
            ("main", "a/MatMul:MatMul", 1000 * number + 320, 600),
        )
    ]
    profile = blueprint.profile(blueprint.trace(lines))
    found = Judged(signals_of(profile))
    assert {found[name].status for name in STAGES} == {"not_applicable"}
