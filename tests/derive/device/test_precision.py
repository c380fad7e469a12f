"""The width of the numbers that kernels compute with."""

from __future__ import annotations

import polars as pl
import pytest
from tests.support.traces import blueprint

from stepscope.derive.device.kernel_names import DOUBLE, NARROW, WIDE, OperandPrecision
from stepscope.derive.device.precision import (
    PrecisionEvidence,
    precision,
    precision_of_element,
    precision_of_shape,
)
from stepscope.trace.tables import HLO_OPS


@pytest.mark.parametrize(
    ("element", "width"),
    [
        ("bf16", NARROW),
        ("f8e4m3fn", NARROW),
        ("f4e2m1fn", NARROW),
        ("u8", NARROW),
        ("f32", WIDE),
        ("s32", WIDE),
        ("f64", DOUBLE),
        ("pred", None),
        (None, None),
    ],
)
def test_elements_of_instructions_have_a_width(
    element: str | None, width: OperandPrecision | None
) -> None:
    assert precision_of_element(element) == width


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
def test_recorded_shapes_have_a_width(
    shape: str, width: OperandPrecision | None
) -> None:
    assert precision_of_shape(shape) == width


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


def test_the_instruction_wins_over_the_name_of_what_was_compiled_from_it() -> None:
    stats = {"hlo_op": "dot.1", "hlo_module": "m", "shape": "(float[2])"}
    hlo = [{"name": "dot.1", "operand_type": "bf16"}]
    assert decided("sgemm", stats, hlo) == (16, PrecisionEvidence.HLO)


def test_the_name_wins_over_the_instruction_that_calls_a_library() -> None:
    """Operands of such a call may be workspace of any type."""
    stats = {"hlo_op": "attention.1", "hlo_module": "m"}
    hlo = [
        {"name": "attention.1", "operand_type": "f32", "opcode": "custom-call"},
    ]
    name = "void ck_tile::kentry<FmhaFwdKernel<std::bfloat16_t, float>>"
    assert decided(name, stats, hlo) == (16, PrecisionEvidence.NAME)


def test_a_call_whose_kernel_has_a_silent_name_is_as_wide_as_its_operands() -> None:
    stats = {"hlo_op": "call.1", "hlo_module": "m"}
    hlo = [{"name": "call.1", "operand_type": "bf16", "opcode": "custom-call"}]
    assert decided("attn_fwd", stats, hlo) == (16, PrecisionEvidence.HLO)


def test_the_name_wins_over_the_shapes_of_the_op() -> None:
    # An op with operands in 32 bit, whose product runs in bfloat16.
    name = "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_nn"
    found = decided(name, {"shape": "(float[2,2];float[2,2])"})
    assert found == (16, PrecisionEvidence.NAME)


def test_shapes_decide_where_the_name_is_silent() -> None:
    found = decided("some_kernel", {"shape": "(half[2])"})
    assert found == (16, PrecisionEvidence.SHAPE)


def widths(*kernels: tuple[str, int, dict[str, object]]) -> pl.DataFrame:
    """`bits` and `tf32` of kernels, one after the other, on an A100."""
    trace = blueprint.trace(
        [
            ("gpu:0/7(Compute)", name, 100 * at, duration, stats)
            for at, (name, duration, stats) in enumerate(kernels)
        ],
        devices={0: {"compute_cap_major": 8, "compute_cap_minor": 0}},
    )
    found = blueprint.profile(trace).derived("vm", precision)
    return pl.DataFrame({"bits": found.bits, "tf32": found.tf32})


def test_one_name_has_one_width_that_of_most_time() -> None:
    found = widths(
        ("attn_fwd", 5, {"shape": "(half[2])"}),
        ("attn_fwd", 9, {"shape": "(float[2])"}),
        ("attn_fwd", 7, {"shape": "(bfloat16[2])"}),
        ("attn_fwd", 50, {}),
    )
    # 12 of the 21 that something tells are in 16 bit.
    assert found["bits"].to_list() == [16] * 4


def test_a_product_without_types_is_tf32_whatever_shapes_were_recorded() -> None:
    name = "cutlass_80_tensorop_s1688gemm_256x64_16x4_tn_align1"
    found = widths((name, 5, {}), (name, 5, {"shape": "(float[2])"}))
    assert found.rows() == [(32, True)] * 2


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
