"""Sizes of the results of ops, their operations and their bytes, worked out by hand."""

from __future__ import annotations

import math

import msgspec
import pytest

from stepscope.derive.costs.families import (
    FAMILIES,
    Cost,
    execution_cost,
    plausible_cost,
    weight_sizes,
    without_outputs,
)
from stepscope.derive.costs.operands import (
    Operands,
    Part,
    Tensor,
)

RULES = {op: rule for family in FAMILIES for op, rule in family.rules.items()}

Sizes = tuple[int, ...]


def floats(*sizes: Sizes | None, values: tuple[object, ...] = ()) -> Operands:
    """Operands of floats; None stands for an operand that is not a tensor."""
    return Operands(
        tuple(() if one is None else (Tensor("float", one),) for one in sizes), values
    )


def typed(*operands: tuple[str, Sizes]) -> Operands:
    return Operands(tuple((Tensor(*one),) for one in operands))


def result_sizes(op: str, operands: Operands) -> Sizes | None:
    return RULES[op].result(operands)


def flops(op: str, operands: Operands) -> int | None:
    return RULES[op].flops(operands)


def bytes_of(op: str, operands: Operands) -> int | None:
    cost = execution_cost(op, operands)
    assert cost is not None
    return cost.accessed_bytes


# ------------------------------------------------------------------------- products


@pytest.mark.parametrize(
    ("op", "sizes", "result", "terms"),
    [
        ("aten::mm", ((8, 3), (3, 5)), (8, 5), 3),
        ("aten::matmul", ((7, 4, 3), (3,)), (7, 4), 3),
        ("aten::matmul", ((3,), (7, 3, 5)), (7, 5), 3),
        ("aten::dot", ((3,), (3,)), (), 3),
        ("aten::matmul", ((2, 1, 8, 3), (4, 3, 5)), (2, 4, 8, 5), 3),
        ("aten::addmm", ((5,), (8, 3), (3, 5)), (8, 5), 3),
        ("aten::linear", ((2, 4, 3), (5, 3)), (2, 4, 5), 3),
        ("aten::linear", ((2, 4, 3), (3,)), (2, 4), 3),
        ("MatMul", ((8, 3), (3, 5)), (8, 5), 3),
        ("MatMul", ((3, 8), (3, 5)), (8, 5), 3),
        ("MatMul", ((3, 8), (5, 3)), (8, 5), 3),
        ("MatMul", ((8, 3), (5, 3)), (8, 5), 3),
        ("MatMul", ((4, 4), (4, 4)), (4, 4), 4),
        ("BatchMatMulV2", ((2, 1, 8, 3), (4, 3, 5)), (2, 4, 8, 5), 3),
    ],
)
def test_a_product_has_the_outer_sizes_of_its_factors(
    op: str, sizes: tuple[Sizes, ...], result: Sizes, terms: int
) -> None:
    assert result_sizes(op, floats(*sizes)) == result
    assert flops(op, floats(*sizes)) == 2 * math.prod(result) * terms


@pytest.mark.parametrize(
    ("op", "sizes"),
    [
        ("aten::mm", ((), (3, 5))),
        ("aten::mm", ((8, 3), ())),
        ("aten::mm", (None, (3, 5))),
        ("aten::mm", ((8, 3), (4, 5))),
        ("aten::bmm", ((2, 8, 3), (5, 3, 4))),
        ("aten::linear", ((), (5, 3))),
        ("aten::linear", ((4, 3), ())),
        ("aten::linear", ((4, 3), None)),
        ("aten::linear", (None, (5, 3))),
        ("aten::linear", ((4, 3), (5, 4))),
        ("MatMul", ((8,), (8, 3))),
        ("MatMul", ((8, 3), (3,))),
        ("MatMul", (None, (8, 3))),
        ("MatMul", ((8, 3), None)),
        ("MatMul", ((4, 2), (8, 1))),
        ("MatMul", ((2, 3), (3, 2))),  # 2 x 2 sums of 3 terms, or 3 x 3 sums of 2
        ("BatchMatMul", ((2, 8, 3), (5, 3, 4))),
    ],
)
def test_factors_that_do_not_fit_have_no_product(
    op: str, sizes: tuple[Sizes | None, ...]
) -> None:
    assert result_sizes(op, floats(*sizes)) is None
    assert flops(op, floats(*sizes)) is None


@pytest.mark.parametrize(
    ("equation", "sizes", "result", "operations"),
    [
        ("ij,jk->ik", ((8, 3), (3, 5)), (8, 5), 240),
        ("ij, jk -> ki", ((8, 3), (3, 5)), (5, 8), 240),
        ("ij,ij->", ((8, 3), (8, 3)), (), 48),
        ("ij->ji", ((8, 3),), (3, 8), None),
        ("i,i,i->i", ((4,), (4,), (4,)), (4,), None),
        ("ij,jk", ((8, 3), (3, 5)), None, None),
        ("ijk,jk->ik", ((8, 3), (3, 5)), None, None),
        ("ij,jk->il", ((8, 3), (3, 5)), None, None),
        ("ij->ij", ((8, 3), (3, 5)), None, None),
        ("ij,jk->ik", ((8, 3), (4, 5)), None, None),
        ("ij,...j->i", ((8, 3), (4, 3)), None, None),
    ],
)
def test_an_einsum_keeps_the_named_indices(
    equation: str,
    sizes: tuple[Sizes, ...],
    result: Sizes | None,
    operations: int | None,
) -> None:
    given = msgspec.structs.replace(floats(*sizes), equation=equation)
    assert result_sizes("aten::einsum", given) == result
    assert flops("aten::einsum", given) == operations


def test_attention_has_the_length_of_queries_and_the_width_of_values() -> None:
    pairs = 2 * 4 * 7 * 9
    heads_first = floats((2, 4, 7, 8), (2, 4, 9, 8), (2, 4, 9, 16))
    op = "aten::scaled_dot_product_attention"
    assert result_sizes(op, heads_first) == (2, 4, 7, 16)
    assert flops(op, heads_first) == 2 * pairs * (8 + 16)
    heads_later = floats((2, 7, 4, 8), (2, 9, 4, 8), (2, 9, 4, 16))
    op = "aten::_flash_attention_forward"
    assert result_sizes(op, heads_later) == (2, 7, 4, 16)
    assert flops(op, heads_later) == 2 * pairs * (8 + 16)


@pytest.mark.parametrize(
    "sizes",
    [
        ((4, 7, 8), (2, 4, 9, 8), (2, 4, 9, 8)),
        ((2, 4, 7, 8), (4, 9, 8), (2, 4, 9, 8)),
        ((2, 4, 7, 8), (2, 4, 9, 8), (4, 9, 8)),
        ((2, 4, 7, 8), (2, 4, 9, 8), None),
        ((2, 4, 7, 8), None, (2, 4, 9, 8)),
        (None, (2, 4, 9, 8), (2, 4, 9, 8)),
    ],
)
def test_attention_needs_three_tensors_of_four_dimensions(
    sizes: tuple[Sizes | None, ...],
) -> None:
    op = "aten::scaled_dot_product_attention"
    assert flops(op, floats(*sizes)) is None
    known = sizes[0] is not None and len(sizes[0]) == 4 and sizes[2] is not None
    assert (result_sizes(op, floats(*sizes)) is None) is not known


@pytest.mark.parametrize("dtype", ["int", "int32"])
def test_lengths_right_after_the_values_mark_packed_sequences(dtype: str) -> None:
    shape = ("float", (1, 6, 4, 8))
    op = "aten::_flash_attention_forward"
    whole = 2 * 4 * 6 * 6 * (8 + 8)
    assert flops(op, typed(shape, shape, shape, (dtype, (5,)))) is None
    assert flops(op, typed(shape, shape, shape, ("float", (5,)))) == whole
    assert flops(op, typed(shape, shape, shape, (dtype, (5, 1)))) == whole


@pytest.mark.parametrize(
    ("setting", "share"), [(True, 2), (1, 2), (2, 2), (False, 1), (0, 1), (3, 1)]
)
def test_masks_that_are_causal_halve_the_products(setting: object, share: int) -> None:
    values = (*[None] * 9, setting)
    given = floats(*[(2, 6, 4, 8)] * 3, values=values)
    assert flops("aten::_efficient_attention_forward", given) == (
        2 * 2 * 4 * 6 * 6 * (8 + 8) // share
    )


# --------------------------------------------------------------------- convolutions


def convolved(*settings: object, sizes: Sizes = (2, 3, 8, 8)) -> Operands:
    """Operands of conv2d with 4 filters of 3 x 3 for 3 channels."""
    values = (None, None, None, *settings)
    return floats(sizes, (4, 3, 3, 3), None, values=values)


@pytest.mark.parametrize(
    ("stride", "padding", "dilation", "side"),
    [
        ([1, 1], [0, 0], [1, 1], 6),
        ([2, 2], [1, 1], [1, 1], 4),  # (8 + 2 - 2 - 1) // 2 + 1
        ([2], [1], [1], 4),
        (2, 1, 1, 4),
        ([1, 1], [0, 0], [2, 2], 4),
        ([1, 1], "valid", [1, 1], 6),
        ([1, 1], "same", [2, 2], 8),
    ],
)
def test_a_window_fits_so_often_into_an_image(
    stride: object, padding: object, dilation: object, side: int
) -> None:
    given = convolved(stride, padding, dilation, 1)
    assert result_sizes("aten::conv2d", given) == (2, 4, side, side)
    assert flops("aten::conv2d", given) == 2 * (2 * 4 * side**2) * 27
    single = convolved(stride, padding, dilation, 1, sizes=(3, 8, 8))
    assert result_sizes("aten::conv2d", single) == (4, side, side)


@pytest.mark.parametrize(
    "settings",
    [
        ([1, 1, 1], [0, 0], [1, 1]),
        ([1, 0], [0, 0], [1, 1]),
        (0, [0, 0], [1, 1]),
        ([1, 1], [0, 0], [0, 1]),
        ([1, 1], [0, 0, 0], [1, 1]),
        (["1", 1], [0, 0], [1, 1]),
        ("same", [0, 0], [1, 1]),
        ([], [0, 0], [1, 1]),
        ([1, 1], [0, 0], [5, 5]),  # the window is wider than the image
    ],
)
def test_settings_that_do_not_fit_leave_a_convolution_unknown(
    settings: tuple[object, ...],
) -> None:
    assert result_sizes("aten::conv2d", convolved(*settings, 1)) is None
    assert flops("aten::conv2d", convolved(*settings, 1)) is None


def test_a_window_just_wider_than_the_image_gives_an_empty_result() -> None:
    given = convolved([1, 1], [0, 0], [4, 4], 1)  # it reaches over 9 places
    assert result_sizes("aten::conv2d", given) == (2, 4, 0, 0)
    assert flops("aten::conv2d", given) == 0


@pytest.mark.parametrize(
    ("inputs", "weight"),
    [
        ((2, 3, 8, 8), (4, 3)),
        ((2, 3, 4, 8, 8), (4, 3, 3, 3)),
        ((8, 8), (4, 3, 3, 3)),
        ((2, 3, 8, 8), ()),
        ((2, 3, 8, 8), None),
        (None, (4, 3, 3, 3)),
    ],
)
def test_dimensions_that_do_not_fit_leave_a_convolution_unknown(
    inputs: Sizes | None, weight: Sizes | None
) -> None:
    values = (None, None, None, [1, 1], [0, 0], [1, 1], 1)
    given = floats(inputs, weight, None, values=values)
    assert result_sizes("aten::conv2d", given) is None
    assert flops("aten::conv2d", given) is None


def test_filters_without_outputs_have_no_cost() -> None:
    values = (None, None, None, [1, 1], [0, 0], [1, 1], 1)
    given = floats((2, 3, 8, 8), (0, 3, 3, 3), None, values=values)
    assert flops("aten::conv2d", given) is None
    values = (None, None, None, [1, 1], [0, 0], [0, 0], 1, [1, 1])
    given = floats((2, 3, 8, 8), (0, 3, 3, 3), None, values=values)
    assert flops("aten::conv_transpose2d", given) is None


def test_a_convolution_over_a_sequence() -> None:
    values = (None, None, None, [1], [0], [1], 1)
    given = floats((2, 3, 8), (4, 3, 3), None, values=values)
    assert result_sizes("aten::conv1d", given) == (2, 4, 6)
    assert flops("aten::conv1d", given) == 2 * (2 * 4 * 6) * 9


def test_libraries_have_their_settings_at_other_places() -> None:
    shapes = ((2, 3, 8, 8), (4, 3, 3, 3))
    own = floats(*shapes, None, values=(None, None, [3, 3], None, [2, 2], [1, 1]))
    assert result_sizes("aten::thnn_conv2d", own) == (2, 4, 4, 4)
    each = (None, None, [3, 3], None, [1, 1], [0, 0], [2, 2])
    depthwise = floats((2, 4, 8, 8), (4, 1, 3, 3), None, values=each)
    assert result_sizes("aten::_conv_depthwise2d", depthwise) == (2, 4, 4, 4)


def test_a_transposed_convolution_spreads_its_input() -> None:
    # 6 channels in 3 groups; each of 5 inputs starts 2 after the one before.
    side = (5 - 1) * 2 - 2 * 1 + 2 * (3 - 1) + 1 + 1
    shapes = (2, 6, 5, 5), (6, 4, 3, 3)
    work = 2 * (2 * 6 * 25) * (4 * 9)
    values = (None, None, None, [2, 2], [1, 1], [1, 1], 3, [2, 2])
    given = floats(*shapes, None, values=values)
    assert result_sizes("aten::conv_transpose2d", given) == (2, 12, side, side)
    assert flops("aten::conv_transpose2d", given) == work
    general = (None, None, None, [2, 2], [1, 1], [2, 2], True, [1, 1], 3)
    given = floats(*shapes, None, values=general)
    assert result_sizes("aten::convolution", given) == (2, 12, side, side)
    assert flops("aten::convolution", given) == work
    without_groups = (None, None, None, [2, 2], [1, 1], [2, 2], True, [1, 1])
    given = floats(*shapes, None, values=without_groups)
    assert result_sizes("aten::convolution", given) is None
    assert flops("aten::convolution", given) == work
    without_extra = (None, None, None, [2, 2], [1, 1], [2, 2], True, None, 3)
    given = floats(*shapes, None, values=without_extra)
    assert result_sizes("aten::convolution", given) is None


@pytest.mark.parametrize("transposed", [False, True])
def test_gradients_of_a_convolution_are_those_that_are_wanted(
    transposed: bool,  # noqa: FBT001 - a parameter
) -> None:
    outer, inputs, weight = (2, 4, 6, 6), (2, 3, 8, 8), (4, 3, 3, 3)
    moved = 2 * 3 * 64 if transposed else 2 * 4 * 36
    for mask, result in (
        ([True, True, True], 2 * 3 * 64 + 4 * 27),
        ([True, False, True], 2 * 3 * 64),
        ([False, True, False], 4 * 27),
        ([False, False, True], 0),
    ):
        values = (*[None] * 7, transposed, None, None, mask)
        given = floats(outer, inputs, weight, values=values)
        bias = 2 * 4 * 36 if mask[2] else 0
        work = 2 * sum(mask[:2]) * moved * 27
        assert flops("aten::convolution_backward", given) == work + bias
        assert result_sizes("aten::convolution_backward", given) == (result,)


@pytest.mark.parametrize(
    ("sizes", "mask"),
    [
        (((2, 4, 6, 6), (2, 3, 8, 8), (4, 3, 3, 3)), None),
        (((2, 4, 6, 6), (2, 3, 8, 8), (4, 3, 3, 3)), [True, True]),
        (((2, 4, 6, 6), (2, 3, 8, 8), (0, 3, 3, 3)), [True, True, True]),
        (((2, 4, 6, 6), (2, 3, 8, 8), ()), [True, True, True]),
        (((2, 4, 6, 6), (2, 3, 8, 8), None), [True, True, True]),
        (((2, 4, 6, 6), None, (4, 3, 3, 3)), [True, True, True]),
        ((None, (2, 3, 8, 8), (4, 3, 3, 3)), [True, True, True]),
    ],
)
def test_gradients_need_three_tensors_and_what_is_wanted(
    sizes: tuple[Sizes | None, ...], mask: list[bool] | None
) -> None:
    given = floats(*sizes, values=(*[None] * 10, mask))
    assert flops("aten::convolution_backward", given) is None
    if None in sizes[1:] or mask is None:
        assert result_sizes("aten::convolution_backward", given) is None


def test_gradients_of_the_input_alone() -> None:
    depthwise = floats(None, (3, 3, 16, 2), (2, 29, 29, 32))
    op = "DepthwiseConv2dNativeBackpropInput"
    assert flops(op, depthwise) == 2 * (2 * 29 * 29 * 32) * 9
    assert result_sizes(op, depthwise) is None
    sequence = floats(None, (3, 16, 32), (2, 29, 32))
    assert flops("Conv2DBackpropInput", sequence) == 2 * (2 * 29 * 32) * 48
    assert flops("Conv2DBackpropInput", floats(None, (16, 32), (2, 32))) is None
    assert flops("Conv2DBackpropInput", floats(None, None, (2, 32))) is None
    assert flops("Conv2DBackpropInput", floats(None, (3, 16, 32), None)) is None


@pytest.mark.parametrize("weight", [None, (), (0, 3, 3, 3)])
def test_a_library_s_gradient_needs_a_weight(weight: Sizes | None) -> None:
    op = "aten::cudnn_convolution_backward_input"
    assert flops(op, floats(None, (2, 4, 6, 6), weight)) is None
    assert flops(op, floats(None, None, (4, 3, 3, 3))) is None
    assert result_sizes(op, floats(None, (2, 4, 6, 6), (4, 3, 3, 3))) is None


# ------------------------------------------------------------------ other families


def test_lists_of_tensors_are_read_and_written() -> None:
    first = (Tensor("float", (4, 3)), Tensor("float", (5,)))
    given = Operands((first, first))
    assert bytes_of("aten::_foreach_add_", given) == 4 * (17 + 17 + 17)
    assert flops("aten::_foreach_add_", Operands(((), first))) is None
    assert flops("aten::_foreach_add_", Operands(())) is None
    assert result_sizes("aten::_foreach_add_", Operands(())) is None


def test_a_choice_has_the_type_of_the_wider_side() -> None:
    mask, half, single = ("bool", (4, 8)), "c10::Half", "float"
    # A scalar next to a row, and a row next to a column.
    assert bytes_of("aten::where", typed(mask, (single, ()), (half, (8,)))) == (
        32 + 4 + 16 + 64
    )
    rows = typed(mask, (half, (1, 8)), (single, (4, 8)))
    assert bytes_of("aten::where", rows) == 32 + 16 + 128 + 128
    rows = typed(mask, (single, (4, 8)), (half, (1, 8)))
    assert bytes_of("aten::where", rows) == 32 + 16 + 128 + 128
    assert bytes_of("aten::where", typed(mask)) is None
    assert bytes_of("aten::where", typed(mask, (single, (3,)))) is None
    unknown = typed(mask, (single, (8,)), ("unknown", (4, 8)))
    assert bytes_of("aten::where", unknown) is None


def test_what_compares_needs_sizes_that_fit() -> None:
    assert bytes_of("aten::eq", floats((4, 8), (3,))) is None
    assert bytes_of("aten::eq", typed(("float", (4,)), ("unknown", (4,)))) is None


def test_joining_nothing_has_no_known_bytes() -> None:
    assert execution_cost("aten::cat", Operands(((),))) == Cost(Part.OTHER, 0, None)


def test_scattered_additions_count_what_is_added() -> None:
    given = typed(
        ("float", (10, 4)), ("Scalar", ()), ("long int", (3, 4)), ("float", (3, 4))
    )
    given = msgspec.structs.replace(
        given, tensors=(given.tensors[0], (), *given.tensors[2:])
    )
    assert execution_cost("aten::scatter_add", given) == Cost(
        Part.OTHER, 12, 160 + 96 + 48 + 160
    )


@pytest.mark.parametrize(
    ("sizes", "values", "result"),
    [
        ((4, 6), (None, 1, False), (4,)),
        ((4, 6), (None, 0, False), (6,)),
        ((4, 6, 5), (None, [0, -1], False), (6,)),
        ((4, 6), (None, [], False), ()),
        ((4, 6), (None, None, None), ()),
        ((), (None, [0], False), ()),
        ((4, 6), (None, "all", False), None),
        ((4, 6), (), None),
        (None, (None, [0], False), None),
    ],
)
def test_a_sum_keeps_the_other_dimensions(
    sizes: Sizes | None, values: tuple[object, ...], result: Sizes | None
) -> None:
    assert result_sizes("aten::sum", floats(sizes, None, None, values=values)) == result


def test_the_short_form_of_a_sum_has_one_number() -> None:
    assert result_sizes("aten::sum", floats((4, 6), None)) == ()
    assert flops("aten::sum", floats((4, 6), None)) == 24
    assert flops("aten::sum", floats(None, None)) is None


@pytest.mark.parametrize(
    ("values", "result", "terms"),
    [
        ((None, [2, 2], [], [0, 0], [1, 1], False), (2, 3, 4, 4), 4),
        ((None, [2, 2], None, [0, 0], [1, 1], False), (2, 3, 4, 4), 4),
        ((None, [2], [1], [0], [1], False), (2, 3, 7, 7), 4),
        ((None, [3, 1], [2, 4], [1, 0], [1], False), (2, 3, 4, 2), 3),
        ((None, [2, 2, 2], [], [0], [1], False), None, 0),
        ((None, [2, 2], [], [0, 0, 0], [1], False), None, 0),
        ((None, [2, 2], [1, 1, 1], [0], [1], False), None, 0),
        ((None, [2, 2], [1, 0], [0], [1], False), None, 0),
        ((None, [2, 2], [], 0, [1], False), (2, 3, 4, 4), 4),
        ((None, 2, [], [0], [1], False), (2, 3, 4, 4), 4),
        ((None, ["2", 2], [], [0], [1], False), None, 0),
        ((None, [2, 2], ["1"], [0], [1], False), None, 0),
        ((None, [], [], [0], [1], False), None, 0),
        ((None, [2, 2], [], [0], [2], False), None, 0),
        ((None, [2, 2], [], [0], [1], None), None, 0),
    ],
)
def test_pooled_sizes(
    values: tuple[object, ...], result: Sizes | None, terms: int
) -> None:
    given = floats((2, 3, 8, 8), values=values)
    assert result_sizes("aten::max_pool2d", given) == result
    work = None if result is None else math.prod(result) * terms
    assert flops("aten::max_pool2d", given) == work


def test_pooling_needs_a_channel() -> None:
    values = (None, [2], [], [0], [1], False)
    assert flops("aten::max_pool2d", floats((3, 8), values=values)) is None
    assert flops("aten::max_pool2d", floats(None, values=values)) is None
    assert result_sizes("aten::max_pool2d", floats((2, 3, 8), values=values)) == (
        *(2, 3, 4),
    )
    assert flops("aten::max_pool2d", floats((2, 3, 8), values=values)) == 24 * 2


def test_a_normalisation_has_the_sizes_of_its_input() -> None:
    given = floats((4, 8), None, (8,), (8,))
    assert bytes_of("aten::layer_norm", given) == 4 * (32 + 8 + 8 + 32)
    assert flops("aten::layer_norm", floats(None, None, (8,))) is None
    assert flops("aten::layer_norm", floats((4, 8), None, (8,))) == 6 * 32


def test_products_of_integers_count() -> None:
    given = typed(("signed char", (8, 3)), ("signed char", (3, 5)))
    assert execution_cost("aten::_int_mm", given) == Cost(
        Part.PRODUCT, 240, 24 + 15 + 40
    )


def test_an_op_without_tensors_has_unknown_bytes() -> None:
    assert bytes_of("aten::zeros_like", Operands(())) is None
    assert execution_cost("aten::add", Operands(())) is None


def test_outputs_are_the_operands_after_those_that_are_read() -> None:
    given = floats((4, 6), (4, 6), None, (4, 6), values=(None, None, 1))
    read, outputs = without_outputs("aten::add", given)
    assert outputs == (Tensor("float", (4, 6)),)
    assert read == floats((4, 6), (4, 6), None, None, values=(None, None, 1))
    assert without_outputs("aten::add", floats((4,), (4,), None)) == (
        *(floats((4,), (4,), None), ()),
    )
    assert without_outputs("aten::of_tomorrow", given) == (given, ())


@pytest.mark.parametrize(
    ("op", "weights"),
    [
        ("aten::embedding", ((1, 9),)),
        ("aten::conv2d", ((2, 9), (3, 9))),
        ("aten::conv_transpose3d", ((2, 9), (3, 9))),
        ("aten::batch_norm", ((2, 9), (3, 9))),
        ("aten::layer_norm", ((3, 9), (4, 9))),
        ("aten::rms_norm", ((3, 9),)),
        ("aten::mm", ()),
    ],
)
def test_variables_of_a_layer_are_at_known_places(
    op: str, weights: tuple[Sizes, ...]
) -> None:
    given = floats((1, 9), (2, 9), (3, 9), (4, 9), (5, 9))
    assert weight_sizes(op, given) == weights


@pytest.mark.parametrize(
    ("cost", "plausible"), [(-1, False), (0, True), (2**56 - 1, True), (2**56, False)]
)
def test_costs_beyond_an_hour_are_damaged(
    cost: int,
    plausible: bool,  # noqa: FBT001 - a parameter
) -> None:
    assert plausible_cost(cost) == (cost if plausible else None)
    assert plausible_cost(None) is None
