"""Shapes and dimension numbers of HLO instructions, formatted as in HLO text.

Field numbers are those of XLA's `xla_data.proto` (ShapeProto, DotDimensionNumbers,
ConvolutionDimensionNumbers, Window) and `hlo.proto`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.xspace.wire import number_fields, packed_numbers, read_fields

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Fields of HloInstructionProto that `attributes_text` uses.
_WINDOW: Final = 15
_CONVOLUTION: Final = 16
_DOT: Final = 30
_BACKEND_CONFIG: Final = 43
_FEATURE_GROUPS: Final = 50
_BATCH_GROUPS: Final = 58
ATTRIBUTE_FIELDS: Final = frozenset(
    {_WINDOW, _CONVOLUTION, _DOT, _BACKEND_CONFIG, _FEATURE_GROUPS, _BATCH_GROUPS}
)
#: Maximum nesting depth of tuples; elements of deeper tuples are ignored.
_MAX_DEPTH: Final = 8


def shape_text(
    view: memoryview, elements: Mapping[int, tuple[str, int]], depth: int = 0
) -> str | None:
    """Return the text of an array (`f32[128,10]`) or tuple shape (`(f32[2], s8[0])`).

    Other types have no shape text: the result is None.
    """
    element = 0
    sizes: list[int] = []
    parts: list[str] = []
    for field, value in read_fields(view):
        if field == 2 and isinstance(value, int):
            element = value
        elif field == 3:
            sizes.extend(packed_numbers(value))
        elif field == 4 and isinstance(value, memoryview) and depth < _MAX_DEPTH:
            parts.append(shape_text(value, elements, depth + 1) or "opaque[]")
    if parts:
        return f"({', '.join(parts)})"
    if element not in elements:
        return None
    return f"{elements[element][0]}[{','.join(map(str, sizes))}]"


def attributes_text(fields: Mapping[int, int | memoryview]) -> str | None:
    """Return the dimension numbers of a dot or convolution in HLO's text form, or None.

    The text of a dot is `lhs_contracting_dims={1}`; a library call has the same text if
    its configuration records dimension numbers. The text of a convolution is
    `window={size=3x3 stride=2x2 pad=1_1x1_1}, dim_labels=b01f_01io->b01f`.
    """
    attributes = []
    dot = fields.get(_DOT)
    if isinstance(dot, memoryview):
        lists = _packed_lists(dot)
        attributes += _braced_list("lhs_contracting_dims", lists.get(1, []))
        attributes += _braced_list("rhs_contracting_dims", lists.get(2, []))
    config = fields.get(_BACKEND_CONFIG)
    if isinstance(config, memoryview) and not attributes:
        attributes += _dims_of_backend_config(bytes(config))
    window = fields.get(_WINDOW)
    numbers = fields.get(_CONVOLUTION)
    if isinstance(window, memoryview):
        attributes.append(f"window={{{_window_text(window)}}}")
    if isinstance(numbers, memoryview):
        attributes.append(f"dim_labels={_dim_labels(numbers)}")
    for name, field in (
        ("feature_group_count", _FEATURE_GROUPS),
        ("batch_group_count", _BATCH_GROUPS),
    ):
        count = fields.get(field)
        if isinstance(count, int) and count > 1:
            attributes.append(f"{name}={count}")
    return ", ".join(attributes) or None


def _braced_list(name: str, numbers: list[int]) -> list[str]:
    return [f"{name}={{{','.join(map(str, numbers))}}}"] if numbers else []


def _packed_lists(view: memoryview) -> dict[int, list[int]]:
    lists: dict[int, list[int]] = {}
    for field, value in read_fields(view):
        lists.setdefault(field, []).extend(packed_numbers(value))
    return lists


class _DotNumbers(msgspec.Struct):
    lhs_contracting_dimensions: list[int | str] = []
    rhs_contracting_dimensions: list[int | str] = []


class _Gemm(msgspec.Struct):
    dot_dimension_numbers: _DotNumbers | None = None


class _Config(msgspec.Struct):
    dot_dimension_numbers: _DotNumbers | None = None
    gemm_backend_config: _Gemm | None = None


def _dims_of_backend_config(text: bytes) -> list[str]:
    try:
        config = msgspec.json.decode(text, type=_Config)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return []
    inner = config.gemm_backend_config
    numbers = config.dot_dimension_numbers
    if numbers is None and inner is not None:
        numbers = inner.dot_dimension_numbers
    if numbers is None:
        return []
    attributes = []
    for name, dims in (
        ("lhs_contracting_dims", numbers.lhs_contracting_dimensions),
        ("rhs_contracting_dims", numbers.rhs_contracting_dimensions),
    ):
        texts = [str(dim) for dim in dims]
        if all(text.isdecimal() for text in texts):
            attributes += _braced_list(name, [int(text) for text in texts])
    return attributes


def _window_text(view: memoryview) -> str:
    """Return a window in HLO's text form; omit settings with default values."""
    sides = [
        number_fields(value)
        for field, value in read_fields(view)
        if field == 1 and isinstance(value, memoryview)
    ]
    settings = ["size=" + "x".join(str(side.get(1, 0)) for side in sides)]
    for name, field in (("stride", 2), ("rhs_dilate", 5), ("lhs_dilate", 6)):
        numbers = [side.get(field, 1) for side in sides]
        if any(number != 1 for number in numbers):
            settings.append(f"{name}=" + "x".join(map(str, numbers)))
    pads = [
        (_as_signed_number(side.get(3, 0)), _as_signed_number(side.get(4, 0)))
        for side in sides
    ]
    if any(pad != (0, 0) for pad in pads):
        settings.append("pad=" + "x".join(f"{low}_{high}" for low, high in pads))
    return " ".join(settings)


def _as_signed_number(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number


def _dim_labels(view: memoryview) -> str:
    """Return dimension labels of input, kernel and result: `b01f_01io->b01f`."""
    lists = _packed_lists(view)
    sides = (
        ((7, "b"), (8, "f"), 11),
        ((3, "i"), (4, "o"), 6),
        ((9, "b"), (10, "f"), 12),
    )
    texts = []
    for first, second, spatial in sides:
        letters = {lists.get(field, [0])[-1]: name for field, name in (first, second)}
        dims = lists.get(spatial, [])
        letters |= {place: str(number) for number, place in enumerate(dims)}
        texts.append("".join(letters[place] for place in sorted(letters)))
    return f"{texts[0]}_{texts[1]}->{texts[2]}"
