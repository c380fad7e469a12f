"""The width of the numbers that kernels compute with."""

from __future__ import annotations

import polars as pl
import pytest
from tests.support.traces import blueprint

from stepscope.derive.device.precision import (
    PrecisionEvidence,
    Width,
    precision,
    width_of_element,
    width_of_name,
    width_of_shape,
)
from stepscope.trace.hlo_ops import HLO_OPS

NARROW, WIDE = Width(16), Width(32)
DOUBLE, TF32 = Width(32, fp64=True), Width(32, tf32=True)


@pytest.mark.parametrize(
    ("name", "width"),
    [
        ("volta_fp16_s884gemm", NARROW),
        ("ampere_sgemm_32x32", WIDE),
        # The accumulator is float; the operands are not.
        ("ampere_bf16_s1688gemm_bf16_128x128_ldg8_f2f_stages_32x1_nn", NARROW),
        ("sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x128x16", TF32),
        ("cutlass_80_tensorop_s1688gemm_128x256_16x3_nt_align4_tf32", TF32),
        ("cutlass_80_tensorop_s16816gemm_bf16_256x128", NARROW),
        ("turing_s1688gemm_fp16_128x64", NARROW),
        ("sm90_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n", NARROW),
        ("void cutlass::Kernel<imma_s8_i16832gemm>", NARROW),
        ("volta_dgemm_64x64_nn", DOUBLE),
        ("void gemmk1_kernel<double, 256, 5>", DOUBLE),
        ("void at::native::vectorized<__half>", NARROW),
        ("void at::native::reduce_kernel<float>", WIDE),
        ("volta_scudnn_128x64_relu_interior_nn_v1", None),
        ("Cijk_Ailk_Bljk_BBS_BH_MT256x224x64_MI16x16x16x1", NARROW),
        ("Cijk_Alik_Bljk_HHS_BH_MT128x128x32", NARROW),
        ("Cijk_Ailk_Bljk_SB_MT64x64x16_MI32x32x2x1", WIDE),
        ("Cijk_Ailk_Bljk_DB_MT64x64x16", DOUBLE),
        ("Cijk_Ailk_Bljk_I8II_BH_MT64x64x16", NARROW),
        ("nvjet_hsh_128x256_64x4", NARROW),
        ("nvjet_sss_128x256", WIDE),
        ("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT", NARROW),
        ("nvjet_sm90_qqtst_64x128_128x8_2x1_v_bz_algo2_TNN", NARROW),
        ("loop_add_fusion", None),
    ],
)
def test_names_tell_the_operands_width(name: str, width: Width | None) -> None:
    assert width_of_name(name) == width


@pytest.mark.parametrize(
    ("element", "width"),
    [
        ("bf16", NARROW),
        ("f8e4m3fn", NARROW),
        ("u8", NARROW),
        ("f32", WIDE),
        ("s32", WIDE),
        ("f64", DOUBLE),
        ("pred", None),
        (None, None),
    ],
)
def test_elements_of_instructions_have_a_width(
    element: str | None, width: Width | None
) -> None:
    assert width_of_element(element) == width


@pytest.mark.parametrize(
    ("shape", "width"),
    [
        ("(half[32,64];half[64,8])", NARROW),
        ("(bfloat16[4])", NARROW),
        ("(float8_e4m3fn[4])", NARROW),
        ("(float[32];int32[2])", WIDE),
        ("(double[3])", DOUBLE),
        ("(int32[2])", None),
    ],
)
def test_recorded_shapes_have_a_width(shape: str, width: Width | None) -> None:
    assert width_of_shape(shape) == width


def decided(
    name: str, stats: dict[str, object], hlo: list[dict[str, object]] | None = None
) -> tuple[int, PrecisionEvidence]:
    """Bits and evidence of the one kernel of a trace."""
    trace = blueprint.trace([("gpu:0/7(Compute)", name, 0, 5, stats)])
    if hlo is not None:
        trace = blueprint.substitute(trace, hlo_ops=hlo_table(hlo))
    found = blueprint.profile(trace).derived("vm", precision)
    return int(found.bits[0]), PrecisionEvidence(int(found.evidence[0]))


def hlo_table(rows: list[dict[str, object]]) -> pl.DataFrame:
    schema = HLO_OPS.dtypes()
    given = {"program": 1, "module": "m", "opcode": "dot", "matmul": True}
    return pl.DataFrame([given | row for row in rows], schema=schema)


def test_the_instruction_wins_over_shape_and_name() -> None:
    stats = {"hlo_op": "dot.1", "hlo_module": "m", "shape": "(float[2])"}
    hlo = [{"name": "dot.1", "operand_type": "bf16"}]
    assert decided("sgemm", stats, hlo) == (16, PrecisionEvidence.HLO)


def test_an_instruction_that_decides_nothing_leaves_it_to_the_shape() -> None:
    stats = {"hlo_op": "dot.1", "hlo_module": "m", "shape": "(half[2])"}
    hlo = [{"name": "dot.1", "operand_type": "pred"}]
    assert decided("sgemm", stats, hlo) == (16, PrecisionEvidence.SHAPE)


def test_the_name_decides_without_hlo_and_shape() -> None:
    assert decided("hgemm", {}) == (16, PrecisionEvidence.NAME)


def test_what_nothing_tells_is_32_bits_by_default_and_says_so() -> None:
    assert decided("some_kernel", {}) == (32, PrecisionEvidence.DEFAULT)


@pytest.mark.parametrize("name", ["MemcpyH2D", "Memset 4", "ncclKernel_f16"])
def test_copies_memsets_and_collectives_do_not_compute(name: str) -> None:
    assert decided(name, {}) == (0, PrecisionEvidence.NOT_COMPUTE)


def test_half_of_the_kernels_of_a1_are_16_bit() -> None:
    found = blueprint.profile(blueprint.a1()).derived("vm", precision)
    # A.1: 8 of 16 compute kernels are 16-bit; names decide.
    assert (found.bits == 16).sum() == 8
    assert (found.bits == 32).sum() == 8
    assert set(found.evidence[found.bits > 0].tolist()) == {PrecisionEvidence.NAME}
