"""Shapes and dimension numbers of HLO instructions as HLO writes them."""

from __future__ import annotations

import pytest
from tests.support.xspace.wire import number_field, sized, varint

from stepscope.formats.hlo import parse_module

NESTED_CONFIG = (
    b'{"gemm_backend_config":{"dot_dimension_numbers":'
    b'{"lhs_contracting_dimensions":[0]}}}'
)
F32, BF16, TUPLE, S8 = 11, 16, 13, 2


def shape(element: int, *sizes: int, parts: tuple[bytes, ...] = ()) -> bytes:
    body = number_field(2, element)
    body += sized(3, b"".join(varint(it) for it in sizes)) if sizes else b""
    return body + b"".join(sized(4, part) for part in parts)


def instruction(number: int, name: str, body: bytes, *extra: bytes) -> bytes:
    inner = sized(1, name.encode()) + sized(2, b"dot") + sized(3, body)
    return sized(2, inner + number_field(35, number) + b"".join(extra))


def only(*instructions: bytes) -> list[object]:
    inner = sized(1, b"main.1") + b"".join(instructions) + number_field(5, 9)
    _, found = parse_module(sized(1, sized(1, b"jit_f") + sized(3, inner)))
    return list(found)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (shape(F32, 128, 10), "f32[128,10]"),
        (shape(F32), "f32[]"),
        (shape(TUPLE, parts=(shape(BF16, 8, 8), shape(S8, 64))), "(bf16[8,8], s8[64])"),
        (shape(17), None),  # a token
        (b"", None),
    ],
)
def test_the_shape_of_a_result(body: bytes, expected: str | None) -> None:
    (found,) = only(instruction(1, "x", body))
    assert found.shape == expected  # type: ignore[attr-defined]


def test_operands_and_computations_go_by_name() -> None:
    first, second = only(
        instruction(1, "a", shape(F32, 2)),
        instruction(2, "b", shape(F32, 2), sized(36, varint(1) + varint(7))),
    )
    assert second.operands == ["a", ""]  # type: ignore[attr-defined]
    assert first.computation == "main.1"  # type: ignore[attr-defined]


def attributes(*extra: bytes) -> str | None:
    (found,) = only(instruction(1, "x", shape(F32, 2), *extra))
    return found.attributes  # type: ignore[attr-defined, no-any-return]


def test_contracted_dimensions_of_a_dot() -> None:
    numbers = sized(1, varint(1) + varint(2)) + sized(2, varint(0)) + number_field(3, 4)
    expected = "lhs_contracting_dims={1,2}, rhs_contracting_dims={0}"
    assert attributes(sized(30, numbers)) == expected


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (b'{"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"]}}', "{1}"),
        (NESTED_CONFIG, "{0}"),
        (b'{"dot_dimension_numbers":{"lhs_contracting_dimensions":["x"]}}', None),
        (b"{}", None),
        (b"no json", None),
        (b"\xff\xfe", None),
    ],
)
def test_contracted_dimensions_of_a_library_call(
    config: bytes, expected: str | None
) -> None:
    text = None if expected is None else f"lhs_contracting_dims={expected}"
    assert attributes(sized(43, config)) == text


def test_a_window_and_its_labels() -> None:
    side = number_field(1, 3) + number_field(2, 2) + number_field(3, 1)
    other = number_field(1, 5) + number_field(2, 1) + number_field(4, 2)
    other += number_field(5, 1) + number_field(6, 2) + number_field(3, 2**64 - 1)
    side += number_field(5, 1) + number_field(6, 1)
    window = sized(15, sized(1, side) + sized(1, other))
    labels = number_field(7, 0) + number_field(8, 3) + sized(11, varint(1) + varint(2))
    labels += number_field(3, 2) + number_field(4, 3) + sized(6, varint(0) + varint(1))
    labels += (
        number_field(9, 0) + number_field(10, 3) + sized(12, varint(1) + varint(2))
    )
    found = attributes(window, sized(16, labels), number_field(50, 4))
    assert found == (
        "window={size=3x5 stride=2x1 lhs_dilate=1x2 pad=1_0x-1_2}, "
        "dim_labels=b01f_01io->b01f, feature_group_count=4"
    )


def test_shapes_inside_shapes_end() -> None:
    body = shape(F32, 2)
    for _ in range(50):
        body = shape(TUPLE, parts=(body,))
    (found,) = only(instruction(1, "x", body))
    assert "opaque" in found.shape  # type: ignore[attr-defined]
