"""Costs by op family, against numbers worked out by hand and by brute force."""

from __future__ import annotations

import itertools
import math

import msgspec
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.derive.costs.families import (
    FAMILIES,
    calls_only,
    execution_cost,
    weight_sizes,
)
from stepscope.derive.costs.instructions import instruction_costs
from stepscope.derive.costs.operands import (
    Operands,
    Tensor,
    operands_from_lists,
    operands_from_text,
)
from stepscope.derive.costs.products import convolution_terms, read_window
from stepscope.trace.tables import HLO_OPS


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


# ---------------------------------------------------------------- reading operands


def test_lists_of_sizes_and_types_become_tensors() -> None:
    found = operands_from_lists(
        "[[8, 4], [], [], [[2, 3], [5]], []]",
        '["float", "long int", "Scalar", "c10::Half", ""]',
        '["", "", "2", "", "[1, 0]"]',
    )
    assert found is not None
    assert found.tensors == (
        (Tensor("float", (8, 4)),),
        (Tensor("long int", ()),),  # a tensor without dimensions has one element
        (),
        (Tensor("c10::Half", (2, 3)), Tensor("c10::Half", (5,))),
        (),
    )
    assert found.values == (None, None, 2, None, [1, 0])
    assert [one.size_bytes for one in found.each_tensor()] == [128, 8, 12, 10]


@pytest.mark.parametrize(
    ("sizes", "types"), [("[[8]", '["float"]'), ("{}", '["float"]'), ("[[8]]", None)]
)
def test_lists_that_cannot_be_read_are_no_operands(
    sizes: str, types: str | None
) -> None:
    assert operands_from_lists(sizes, types, None) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(float[16,32];float[32,10])", (("float", (16, 32)), ("float", (32, 10)))),
        ("(float[];float[3])", (("float", ()), ("float", (3,)))),
        ("()", ()),
        ("f32[2,3]{1,0}", (("f32", (2, 3)),)),
        ("(f32[2], s8[0])", (("f32", (2,)), ("s8", (0,)))),
        ("(float[?,3])", None),
        ("[16,62,62,16]", None),
    ],
)
def test_shapes_in_one_text(
    text: str, expected: tuple[tuple[str, tuple[int, ...]], ...] | None
) -> None:
    found = operands_from_text(text)
    if expected is None:
        assert found is None
    else:
        assert found is not None
        assert tuple(found.each_tensor()) == tuple(Tensor(*one) for one in expected)


def test_an_element_type_of_unknown_width_has_no_bytes() -> None:
    assert Tensor("c10::Strange", (4,)).size_bytes is None


# ------------------------------------------------------------------------- families


@pytest.mark.parametrize(
    ("op", "operands", "expected"),
    [
        # (8, 3) times (3, 5): 8 * 5 sums of 3 products.
        ("aten::mm", tensors((8, 3), (3, 5)), 2 * 8 * 5 * 3),
        ("aten::bmm", tensors((7, 8, 3), (7, 3, 5)), 7 * 240),
        ("aten::addmm", tensors((5,), (8, 3), (3, 5)), 240),
        ("aten::baddbmm", tensors((7, 8, 5), (7, 8, 3), (7, 3, 5)), 7 * 240),
        ("aten::mv", tensors((8, 3), (3,)), 48),
        ("aten::dot", tensors((3,), (3,)), 6),
        # One matrix for all batches is read by each of them.
        ("aten::matmul", tensors((2, 1, 8, 3), (4, 3, 5)), 2 * 4 * 240),
        ("aten::linear", tensors((2, 4, 3), (5, 3), (5,)), 2 * 4 * 2 * 5 * 3),
        ("aten::mm", tensors((8, 3), (4, 5)), None),
        ("aten::mm", tensors((8, 3), None), None),
        ("MatMul", tensors((8, 3), (3, 5)), 240),
        ("MatMul", tensors((3, 8), (5, 3)), 240),  # both handed over transposed
        # (8, 3) with (8, 3): either 3x3 with sums of 8 or 8x8 with sums of 3.
        ("MatMul", tensors((8, 3), (8, 3)), None),
        ("BatchMatMulV2", tensors((7, 8, 3), (7, 3, 5)), 7 * 240),
    ],
)
def test_products(op: str, operands: Operands, expected: int | None) -> None:
    assert flops(op, operands) == expected


@pytest.mark.parametrize(
    ("equation", "sizes", "expected"),
    [
        ("bij,bjk->bik", ((7, 8, 3), (7, 3, 5)), 7 * 240),
        ("ij,kj->ik", ((8, 3), (5, 3)), 240),
        ("ij,jk->ik", ((8, 3), (4, 5)), None),
        ("...ij,jk->...ik", ((2, 8, 3), (3, 5)), None),
        (None, ((8, 3), (3, 5)), None),
    ],
)
def test_einsum(
    equation: str | None, sizes: tuple[tuple[int, ...], ...], expected: int | None
) -> None:
    given = msgspec.structs.replace(tensors(*sizes), equation=equation)
    assert flops("Einsum", given) == expected


def slow_convolution(
    length: int, kernel: int, *, stride: int, padding: int, dilation: int
) -> int:
    """How many results a window gives, by trying every place."""
    padded = [0] * padding + [1] * length + [0] * padding
    reach = dilation * (kernel - 1)
    return len([at for at in range(0, len(padded) - reach, stride)])  # noqa: C416


@given(
    length=st.integers(5, 30),
    kernel=st.integers(1, 3),
    stride=st.integers(1, 3),
    padding=st.integers(0, 2),
    dilation=st.integers(1, 2),
)
def test_convolutions_of_any_setting(
    length: int, kernel: int, stride: int, padding: int, dilation: int
) -> None:
    side = slow_convolution(
        length, kernel, stride=stride, padding=padding, dilation=dilation
    )
    batch, channels, out, groups = 2, 6, 4, 2
    # Each of the results meets the weights of its group's channels.
    expected = 2 * batch * out * side * side * (channels // groups) * kernel**2
    pairs = [[one, one] for one in (stride, padding, dilation)]
    shapes = (
        (batch, channels, length, length),
        (out, channels // groups, kernel, kernel),
    )
    function = tensors(*shapes, None, values=(None, None, None, *pairs, groups))
    assert flops("aten::conv2d", function) == expected
    general = tensors(
        *shapes, None, values=(None, None, None, *pairs, False, [0, 0], groups)
    )
    assert flops("aten::convolution", general) == expected
    library = tensors(
        *shapes,
        None,
        values=(None, None, None, pairs[1], pairs[0], pairs[2], groups),
    )
    assert flops("aten::mkldnn_convolution", library) == expected
    cudnn = tensors(*shapes, values=(None, None, pairs[1], pairs[0], pairs[2], groups))
    assert flops("aten::cudnn_convolution", cudnn) == expected
    # Each gradient costs as much as the convolution; the bias one addition each.
    outer = (batch, out, side, side)
    for mask, products in (([True, True, True], 2), ([False, True, False], 1)):
        backward = tensors(
            outer,
            *shapes,
            values=(None, None, None, [out], *pairs, False, [0, 0], groups, mask),
        )
        bias = math.prod(outer) if mask[2] else 0
        assert flops("aten::convolution_backward", backward) == (
            products * expected + bias
        )


def test_a_transposed_convolution_spreads_each_input() -> None:
    values = (None, None, None, [2, 2], [0, 0], [0, 0], 1, [1, 1])
    given = tensors((2, 3, 5, 5), (3, 4, 3, 3), None, values=values)
    cost = execution_cost("aten::conv_transpose2d", given)
    assert cost is not None
    # 2 * 3 * 25 inputs, each times 4 * 9 weights; the result is 2x4x11x11.
    assert cost.flops == 2 * (2 * 3 * 25) * (4 * 9)
    assert cost.accessed_bytes == 4 * (2 * 3 * 25 + 3 * 4 * 9 + 2 * 4 * 11 * 11)


def test_a_convolution_without_its_settings_has_no_cost() -> None:
    assert flops("aten::conv2d", tensors((2, 3, 8, 8), (4, 3, 3, 3), None)) is None
    # Neither has one whose format leaves stride and padding out.
    assert flops("Conv2D", tensors((2, 8, 8, 3), (3, 3, 3, 4))) is None


def test_the_gradient_for_the_input_of_a_stored_convolution() -> None:
    # Sizes of the input, filter (3, 3, in 16, out 32), gradient of the result.
    given = Operands(
        (
            (Tensor("int32", (4,)),),
            (Tensor("float", (3, 3, 16, 32)),),
            (Tensor("float", (16, 29, 29, 32)),),
        )
    )
    assert flops("Conv2DBackpropInput", given) == 2 * 16 * 29 * 29 * 32 * 9 * 16


def test_the_gradient_for_the_input_of_a_library_s_convolution() -> None:
    given = tensors(None, (16, 32, 29, 29), (32, 16, 3, 3), None)
    op = "aten::cudnn_convolution_backward_input"
    assert flops(op, given) == 2 * 16 * 29 * 29 * 32 * 9 * 16


@pytest.mark.parametrize(
    ("op", "sizes", "products"),
    [
        ("aten::scaled_dot_product_attention", (2, 4, 7, 8), 2),
        ("aten::_flash_attention_forward", (2, 7, 4, 8), 2),
    ],
)
def test_attention_is_two_products(
    op: str, sizes: tuple[int, ...], products: int
) -> None:
    batch, heads, length, width = 2, 4, 7, 8
    expected = products * 2 * batch * heads * length * length * width
    assert flops(op, tensors(sizes, sizes, sizes)) == expected


def test_attention_of_other_widths_and_lengths() -> None:
    given = tensors((2, 4, 7, 8), (2, 4, 9, 8), (2, 4, 9, 16))
    scores, values = 2 * 2 * 4 * 7 * 9 * 8, 2 * 2 * 4 * 7 * 9 * 16
    op = "aten::_scaled_dot_product_efficient_attention"
    assert flops(op, given) == scores + values
    backward = tensors((2, 4, 7, 16), *((2, 4, 7, 8), (2, 4, 9, 8), (2, 4, 9, 16)))
    # Scores again, and both of their gradients; gradients of values and of scores.
    assert flops(f"{op}_backward", backward) == 3 * scores + 2 * values


def test_sequences_packed_into_one_row_have_no_known_cost() -> None:
    shape = (1, 100, 4, 8)
    packed = Operands(
        (
            *(((Tensor("float", shape),)) for _ in range(3)),
            (),
            (Tensor("int", (5,)),),
        )
    )
    assert flops("aten::_efficient_attention_forward", packed) is None


@pytest.mark.parametrize(
    ("op", "operands", "expected"),
    [
        ("aten::add", tensors((4, 1), (3,), None), 12),  # broadcast to (4, 3)
        ("aten::mul", tensors((4, 3), ()), 12),
        ("aten::add", tensors((4, 2), (3,)), None),
        ("Mul", tensors((), (3, 3, 16, 32)), 4608),
        ("aten::addcmul_", tensors((5,), (5,), (5,)), 10),
        ("aten::sum", tensors((4, 3)), 12),
        ("L2Loss", tensors((7,)), 14),
        ("aten::_softmax", tensors((4, 3)), 60),
        ("aten::layer_norm", tensors((4, 8), None, (8,), (8,)), 7 * 32),
        ("aten::layer_norm", tensors((4, 8), None), 5 * 32),
        ("aten::native_batch_norm", tensors((2, 3, 4, 4), (3,), (3,)), 7 * 96),
        (
            "aten::max_pool2d",
            tensors((2, 3, 8, 8), values=(None, [2, 2], [], [0, 0], [1, 1], False)),
            2 * 3 * 4 * 4 * 4,
        ),
        # One number stands for both sides.
        (
            "aten::max_pool2d",
            tensors((2, 3, 8, 8), values=(None, [2], [2], [0], [1], False)),
            2 * 3 * 4 * 4 * 4,
        ),
        # Of 8 and a border of 1 at both ends, three at a time, two apart: 4 windows.
        (
            "aten::max_pool2d",
            tensors((2, 3, 8, 8), values=(None, [3, 3], [2, 2], [1, 1], [1, 1], False)),
            2 * 3 * 4 * 4 * 9,
        ),
        # Windows with holes, and ones that may reach beyond the border.
        (
            "aten::max_pool2d",
            tensors((2, 3, 8, 8), values=(None, [2, 2], [], [0, 0], [2, 2], False)),
            None,
        ),
        (
            "aten::max_pool2d",
            tensors((2, 3, 8, 8), values=(None, [2, 2], [], [0, 0], [1, 1], True)),
            None,
        ),
        ("aten::max_pool2d", tensors((2, 3, 8, 8)), None),
        ("aten::copy_", tensors((4, 3), (4, 3)), 0),
        ("aten::embedding", tensors((100, 8), (4, 5)), 0),
        ("aten::embedding_dense_backward", tensors((4, 5, 8), (4, 5)), 160),
        ("aten::of_tomorrow", tensors((4, 3)), None),
    ],
)
def test_everything_else(op: str, operands: Operands, expected: int | None) -> None:
    assert flops(op, operands) == expected


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        *(("float", 6), ("c10::BFloat16", 6), ("c10::complex<float>", 6), ("half", 6)),
        *(("f32", 6), ("bf16", 6), ("f8e4m3fn", 6), ("c64", 6), ("double", 6)),
        *(("long int", 0), ("bool", 0), ("s32", 0), ("pred", 0), ("unsigned char", 0)),
    ],
)
def test_functions_of_integers_are_no_floating_point_operations(
    dtype: str, expected: int
) -> None:
    assert flops("aten::add", Operands(((Tensor(dtype, (2, 3)),),))) == expected


def test_lists_of_tensors_add_up() -> None:
    first = (Tensor("float", (4, 3)), Tensor("float", (5,)))
    given = Operands((first, first), (None, None, 0.9))
    assert flops("aten::_foreach_add_", given) == 17
    assert flops("aten::_foreach_addcdiv_", given) == 34


def test_work_on_a_list_of_tensors_of_unknown_elements_is_unknown() -> None:
    unknown = (Tensor("TensorList", (4, 3)), Tensor("TensorList", (5,)))
    given = Operands((unknown, unknown), (None, None, 0.9))
    assert flops("aten::_foreach_add_", given) is None


def test_bytes_count_every_operand_and_the_result_once() -> None:
    cost = execution_cost("aten::mm", tensors((8, 3), (3, 5)))
    assert cost is not None
    assert cost.accessed_bytes == 4 * (8 * 3 + 3 * 5 + 8 * 5)
    # Looking rows up does not read the whole table.
    looked_up = execution_cost("aten::embedding", tensors((100, 8), (4, 5)))
    assert looked_up is not None
    assert looked_up.accessed_bytes is None


def test_a_family_says_what_it_counts_and_an_op_is_in_one() -> None:
    ops = [op for family in FAMILIES for op in family.rules]
    assert len(ops) == len(set(ops))
    assert all(family.formula and family.source for family in FAMILIES)


def test_ranges_that_only_call_others() -> None:
    assert calls_only("AddmmBackward0")
    assert calls_only("autograd::engine::evaluate_function: AddmmBackward0")
    assert not calls_only("aten::addmm")


def test_variables_that_a_layer_reads() -> None:
    assert weight_sizes("aten::linear", tensors((2, 3), (5, 3), (5,))) == ((5, 3), (5,))
    assert weight_sizes("aten::linear", tensors((2, 3), (5, 3), None)) == ((5, 3),)
    assert weight_sizes("aten::addmm", tensors((5,), (2, 3), (3, 5))) == ()


# --------------------------------------------------------------- compiled programs


def program(*rows: dict[str, object]) -> pl.DataFrame:
    common = {"program": 1, "module": "m", "matmul": False, "computation": "main"}
    return pl.DataFrame([common | row for row in rows], schema=HLO_OPS.dtypes())


def parameter(name: str, shape: str, computation: str = "main") -> dict[str, object]:
    return {
        "name": name,
        "opcode": "parameter",
        "shape": shape,
        "operands": [],
        "calls": [],
        "computation": computation,
    }


def instruction(
    name: str, opcode: str, shape: str | None, *operands: str, **more: object
) -> dict[str, object]:
    given = {"name": name, "opcode": opcode, "shape": shape}
    return given | {"operands": list(operands), "calls": []} | more


def costs(*rows: dict[str, object]) -> dict[str, int | None]:
    table = program(*rows)
    found = instruction_costs(hlo_ops=table)
    return dict(zip(table["name"], found["flops"], strict=True))


def test_a_dot_by_its_contracted_dimensions() -> None:
    found = costs(
        parameter("a", "bf16[7,8,3]"),
        parameter("b", "bf16[7,3,5]"),
        instruction(
            "dot", "dot", "f32[7,8,5]", "a", "b", attributes="lhs_contracting_dims={2}"
        ),
        instruction("outer", "dot", "f32[8,5]", "a", "b"),
        instruction(
            "beyond", "dot", "f32[8]", "a", attributes="lhs_contracting_dims={3}"
        ),
    )
    assert found["dot"] == 7 * 2 * 8 * 5 * 3
    assert found["outer"] == 2 * 8 * 5  # nothing is contracted
    assert found["beyond"] is None


def test_a_library_call_for_a_product_counts_its_result_alone() -> None:
    table = program(
        parameter("a", "bf16[8,3]"),
        parameter("b", "bf16[3,5]"),
        instruction(
            "call",
            "custom-call",
            "(bf16[8,5], s8[1000])",
            "a",
            "b",
            custom_call="__cublas$gemm",
            attributes="lhs_contracting_dims={1}",
        ),
        instruction("other", "custom-call", "f32[8]", "a", custom_call="mine"),
    )
    found = instruction_costs(hlo_ops=table)
    assert found["flops"].to_list() == [0, 0, 240, None]
    # The room that the library works in is no result.
    assert found["accessed_bytes"][2] == 2 * (24 + 15 + 40)


def test_a_fusion_is_the_sum_of_what_it_holds() -> None:
    inside = [
        parameter("x", "f32[8,3]", "fused"),
        parameter("y", "f32[3,5]", "fused"),
        instruction(
            "dot",
            "dot",
            "f32[8,5]",
            "x",
            "y",
            attributes="lhs_contracting_dims={1}",
            computation="fused",
        ),
        instruction("relu", "maximum", "f32[8,5]", "dot", "dot", computation="fused"),
        instruction("mask", "add", "s32[8,5]", "x", "y", computation="fused"),
    ]
    found = costs(
        *inside,
        parameter("a", "f32[8,3]"),
        instruction("fusion", "fusion", "f32[8,5]", "a", calls=["fused"]),
        instruction("unseen", "fusion", "f32[8,5]", "a", calls=["elsewhere"]),
        instruction("loop", "while", "f32[8,5]", "a", calls=["fused"]),
    )
    assert found["mask"] == 0  # integers
    assert found["fusion"] == 240 + 40
    assert found["unseen"] is None
    assert found["loop"] == 0  # what it runs is recorded on its own


def test_a_fusion_with_an_unknown_part_is_unknown() -> None:
    found = costs(
        instruction("rng", "rng", "f32[8]", computation="fused"),
        instruction("add", "add", "f32[8]", "rng", "rng", computation="fused"),
        instruction("fusion", "fusion", "f32[8]", calls=["fused"]),
        instruction("again", "fusion", "f32[8]", calls=["self"]),
        instruction("inner", "fusion", "f32[8]", calls=["self"], computation="self"),
    )
    assert found == {
        "rng": None,
        "add": 8,
        "fusion": None,
        "again": None,
        "inner": None,
    }


def test_reductions_and_shapes_that_were_not_recorded() -> None:
    found = costs(
        parameter("a", "f32[8,4]"),
        parameter("zero", "f32[]"),
        instruction("sum", "reduce", "f32[8]", "a", "zero"),
        instruction(
            "pool", "reduce-window", "f32[4,2]", "a", attributes="window={size=2x2}"
        ),
        instruction("all", "all-reduce", "f32[8,4]", "a"),
        instruction("shapeless", "add", None, "a", "a"),
    )
    assert (found["sum"], found["pool"], found["all"]) == (32 - 8, 8 * 3, 32)
    assert found["shapeless"] is None


def test_programs_keep_their_rows() -> None:
    first = program(parameter("a", "f32[2]"), instruction("x", "add", "f32[2]", "a"))
    second = program(instruction("y", "add", "f32[9]")).with_columns(
        pl.lit(2, pl.Int64).alias("program")
    )
    mixed = pl.concat([first, second, first.with_columns(pl.lit("z").alias("name"))])
    assert instruction_costs(hlo_ops=mixed)["flops"].to_list() == [0, 2, 9, 0, 2]


def slow_terms(length: int, size: int, text: dict[str, int], results: int) -> int:
    """Pairs of result and window place that meet an element, one by one."""
    spaced = {at * text["gaps"] for at in range(length)}
    return sum(
        out * text["stride"] + step * text["spread"] - text["low"] in spaced
        for out, step in itertools.product(range(results), range(size))
    )


@given(
    length=st.integers(1, 12),
    size=st.integers(1, 4),
    results=st.integers(0, 12),
    stride=st.integers(1, 3),
    spread=st.integers(1, 3),
    gaps=st.integers(1, 3),
    low=st.integers(-2, 3),
)
def test_terms_of_any_window(  # noqa: PLR0917 - hypothesis hands them over by name
    length: int,
    size: int,
    results: int,
    stride: int,
    spread: int,
    gaps: int,
    low: int,
) -> None:
    attributes = (
        f"window={{size={size} stride={stride} rhs_dilate={spread} lhs_dilate={gaps} "
        f"pad={low}_0}}, dim_labels=b0f_0io->b0f"
    )
    window = read_window(attributes)
    assert window is not None
    found = convolution_terms(window, (2, length, 3), (size, 3, 5), (2, results, 5))
    one = {"stride": stride, "spread": spread, "gaps": gaps, "low": low}
    assert found == 2 * 5 * 3 * slow_terms(length, size, one, results)


def test_the_three_convolutions_of_a_layer_cost_the_same() -> None:
    """Forward, gradient of the input, gradient of the filter: the same products."""
    body = {
        "forward": (
            "f32[16,29,29,32]",
            ("f32[16,31,31,16]", "f32[3,3,16,32]"),
            "window={size=3x3}, dim_labels=b01f_01io->b01f",
        ),
        "input": (
            "f32[16,31,31,16]",
            ("f32[16,29,29,32]", "f32[3,3,32,16]"),
            "window={size=3x3 pad=2_2x2_2}, dim_labels=b01f_01io->b01f",
        ),
        "filter": (
            "f32[16,3,3,32]",
            ("f32[16,31,31,16]", "f32[29,29,16,32]"),
            "window={size=29x29}, dim_labels=f01b_01io->b01f",
        ),
    }
    rows = []
    for name, (shape, operands, attributes) in body.items():
        places = [f"{name}_{at}" for at in range(2)]
        rows += [
            parameter(place, one) for place, one in zip(places, operands, strict=True)
        ]
        rows.append(
            instruction(name, "convolution", shape, *places, attributes=attributes)
        )
    found = costs(*rows)
    expected = 2 * 16 * 29 * 29 * 32 * 9 * 16
    assert {found[name] for name in body} == {expected}
