"""Bytes that one execution reads and writes, worked out by hand."""

from __future__ import annotations

import math

import pytest

from stepscope.derive.costs.families import execution_cost
from stepscope.derive.costs.operands import Operands, Tensor


def tensors(
    *sizes: tuple[int, ...] | None, values: tuple[object, ...] = ()
) -> Operands:
    """Operands of floats; None stands for one that is no tensor."""
    return Operands(
        tuple(() if one is None else (Tensor("float", one),) for one in sizes), values
    )


def flops(op: str, given: Operands) -> int | None:
    cost = execution_cost(op, given)
    return None if cost is None else cost.flops


def accessed(op: str, given: Operands) -> int | None:
    cost = execution_cost(op, given)
    return None if cost is None else cost.accessed_bytes


@pytest.mark.parametrize(
    ("op", "read", "out", "elements"),
    [
        ("aten::mm", [(4, 6), (6, 5)], (4, 5), 24 + 30 + 20),
        ("aten::add", [(4, 6), (4, 6), None], (4, 6), 3 * 24),
        ("aten::relu", [(4, 6)], (4, 6), 2 * 24),
        ("aten::addmm", [(5,), (4, 6), (6, 5), None, None], (4, 5), 5 + 24 + 30 + 20),
        ("aten::sum", [(4, 6), None, None, None], (4,), 24 + 4),
    ],
)
def test_a_tensor_given_for_the_result_is_written_once(
    op: str,
    read: list[tuple[int, ...] | None],
    out: tuple[int, ...],
    elements: int,
) -> None:
    values = (None, [1], False) if op == "aten::sum" else ()
    plain = tensors(*read, values=values)
    with_out = tensors(*read, out, values=values)
    assert accessed(op, plain) == 4 * elements
    assert accessed(op, with_out) == 4 * elements
    assert flops(op, with_out) == flops(op, plain)


def test_a_result_of_another_width_has_the_bytes_of_its_own_type() -> None:
    wide, narrow = Tensor("float", (8,)), Tensor("c10::Half", (8,))
    given = Operands(((wide,), (wide,), (), (narrow,)))
    assert accessed("aten::add", given) == 2 * 32 + 16


def test_copies_and_fills_touch_each_tensor_once() -> None:
    narrow, wide = Tensor("c10::Half", (4, 8)), Tensor("float", (4, 8))
    copy = Operands(((wide,), (narrow,), ()))
    cost = execution_cost("aten::copy_", copy)
    assert cost is not None
    assert (cost.flops, cost.accessed_bytes) == (0, 128 + 64)
    # A row is spread over four.
    spread = Operands(((wide,), (Tensor("float", (8,)),), ()))
    assert accessed("aten::copy_", spread) == 128 + 32
    assert accessed("aten::zero_", Operands(((wide,),))) == 128
    assert accessed("aten::clone", Operands(((wide,), ()))) == 256
    long = Operands(((Tensor("long", (3,)),), (Tensor("long", (3,)),), ()))
    assert accessed("aten::copy_", long) == 48


def test_what_compares_writes_one_byte_per_element() -> None:
    assert accessed("aten::eq", tensors((4, 8), (8,))) == 4 * 32 + 4 * 8 + 32
    mask = Tensor("bool", (4, 8))
    given = Operands(((mask,), (Tensor("float", (4, 8)),), (Tensor("float", ()),)))
    assert accessed("aten::where", given) == 32 + 128 + 4 + 128


def test_joining_reads_and_writes_every_element() -> None:
    parts = (Tensor("float", (2, 3)), Tensor("float", (5, 3)))
    assert accessed("aten::cat", Operands((parts, ()))) == 2 * 4 * 21
    # Older recordings do not say what a list of tensors holds.
    untold = (Tensor("TensorList", (2, 3)),)
    assert accessed("aten::cat", Operands((untold, ()))) is None


def test_a_sum_over_dimensions_writes_what_remains() -> None:
    over_last = tensors((4, 6), None, None, None, values=(None, [-1], True))
    assert accessed("aten::sum", over_last) == 4 * (24 + 4)
    over_all = tensors((4, 6), None, values=(None, None))
    assert accessed("aten::mean", over_all) == 4 * (24 + 1)
    # Which dimensions were meant was not recorded.
    assert accessed("aten::sum", tensors((4, 6), None, None, None)) is None


def test_a_fused_kernel_touches_each_of_its_tensors() -> None:
    given = Operands(
        (
            (Tensor("int", (888,)),),
            (Tensor("long int", (888,)),),
            (Tensor("bool", (888,)),),
            (),
        )
    )
    cost = execution_cost("triton_poi_fused_add_mul_0", given)
    assert cost is not None
    assert (cost.flops, cost.accessed_bytes) == (None, 888 * (4 + 8 + 1))
    assert execution_cost("triton_poi_fused_add_mul_0", Operands(((),))) is None
    # A template is a product of matrices: its tensors are read more than once.
    assert execution_cost("triton_tem_fused_mm_0", given) is None


@pytest.mark.parametrize(
    ("op", "operands", "result"),
    [
        ("aten::mm", tensors((8, 3), (3, 5)), 8 * 5),
        ("aten::bmm", tensors((7, 8, 3), (7, 3, 5)), 7 * 8 * 5),
        ("aten::mv", tensors((8, 3), (3,)), 8),
        ("aten::matmul", tensors((3,), (3, 5)), 5),
        ("aten::matmul", tensors((3,), (7, 3, 5)), 7 * 5),
        ("aten::dot", tensors((3,), (3,)), 1),
        ("aten::linear", tensors((2, 4, 3), (5, 3)), 2 * 4 * 5),
        ("aten::_addmm_activation", tensors((5,), (8, 3), (3, 5)), 8 * 5),
    ],
)
def test_a_product_moves_its_operands_and_its_result(
    op: str, operands: Operands, result: int
) -> None:
    """Each number has four bytes."""
    read = sum(math.prod(one.sizes) for one in operands.each_tensor())
    assert accessed(op, operands) == 4 * (read + result)
