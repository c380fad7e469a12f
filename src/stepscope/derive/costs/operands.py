"""Recorded operands of one execution, and the cost rules that read them.

Recordings contain operands in two notations: JSON lists (separate lists of sizes, types
and plain values), or one text such as `(float[16,32];float[32,10])`.
"""

from __future__ import annotations

import math
import re
from enum import IntEnum
from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.frozen import Frozen
from stepscope.patterns import Pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence


class Part(IntEnum):
    """Kind of computation that a cost rule counts.

    If an op calls ops whose rules count the same kind, the cost of the called ops is
    subtracted from the caller's cost. A matrix product inside a layer thus counts once,
    as does an addition after the product.
    """

    PRODUCT = 1
    OTHER = 2


class Rule(Frozen, frozen=True, eq=True):
    """Functions that compute the cost of one execution from its operands.

    Attributes:
        flops: Floating-point operations; None if the operands do not determine them.
        result: Sizes of the result; None if the operands do not determine them.
        accessed: Bytes read and written. If None, the bytes of all operands plus those
            of a result with the first operand's type.
    """

    flops: Callable[[Operands], int | None]
    result: Callable[[Operands], tuple[int, ...] | None]
    accessed: Callable[[Operands], int | None] | None = None


class Family(Frozen, frozen=True, eq=True):
    """Ops whose costs follow one formula."""

    name: str
    part: Part
    formula: str
    source: str
    rules: Mapping[str, Rule]


#: Element type → bytes of one element; the size of other types is unknown.
_ELEMENT_BYTES: Final = {
    **dict.fromkeys(("bool", "unsigned char", "signed char", "uint8", "int8"), 1),
    **dict.fromkeys(("pred", "s8", "u8", "f8e5m2", "f8e4m3fn", "f8e4m3"), 1),
    **dict.fromkeys(("c10::Float8_e4m3fn", "c10::Float8_e5m2", "float8_e4m3fn"), 1),
    **dict.fromkeys(("c10::Float8_e4m3fnuz", "c10::Float8_e5m2fnuz", "char"), 1),
    **dict.fromkeys(("c10::Half", "c10::BFloat16", "half", "bfloat16"), 2),
    **dict.fromkeys(
        ("short int", "short", "int16", "uint16", "f16", "bf16", "s16", "u16"), 2
    ),
    **dict.fromkeys(("float", "int", "int32", "uint32", "f32", "s32", "u32"), 4),
    **dict.fromkeys(("double", "long int", "int64", "uint64", "complex64"), 8),
    **dict.fromkeys(("long", "long long", "unsigned long"), 8),
    **dict.fromkeys(("f64", "s64", "u64", "c64", "c10::complex<float>"), 8),
    **dict.fromkeys(("complex128", "c128", "c10::complex<double>"), 16),
}
#: Element types of real or complex floating-point numbers.
_FLOATING: Final = Pattern(r"float|double|half|bfloat|complex|b?f\d|c\d", re.IGNORECASE)
#: Types of operands that are not tensors.
_PLAIN: Final = frozenset({"", "Scalar", "ScalarList"})
_OPERAND: Final = Pattern(
    r"(?P<type>[A-Za-z_][\w:<>]*)\[(?P<sizes>\d+(?:,\d+)*)?\](?:\{[^}]*\})?"
)


class Tensor(Frozen, frozen=True, eq=True):
    """A tensor: recorded name of its element type, and its sizes."""

    dtype: str
    sizes: tuple[int, ...]

    @property
    def elements(self) -> int:
        """Number of elements; 1 for a scalar."""
        return math.prod(self.sizes)

    @property
    def is_floating(self) -> bool:
        """Whether the elements are real or complex floating-point numbers."""
        return _FLOATING.match(self.dtype.removeprefix("c10::")) is not None

    @property
    def size_bytes(self) -> int | None:
        """Bytes of all elements; None for an unknown element type."""
        width = _ELEMENT_BYTES.get(self.dtype)
        return None if width is None else width * self.elements


class Operands(Frozen, frozen=True, eq=True):
    """The operands of one execution.

    Attributes:
        tensors: Tensors of each operand: several for a list of tensors, none for other
            values.
        values: Plain value of each operand as JSON, or None. Empty if not recorded.
        equation: Equation of an einsum (`ij,jk->ik`), else None.
    """

    tensors: tuple[tuple[Tensor, ...], ...]
    values: tuple[object, ...] = ()
    equation: str | None = None

    def tensor_at_index(self, index: int) -> Tensor | None:
        """Return the tensor at an operand index; None unless it is a single tensor."""
        if index >= len(self.tensors) or len(self.tensors[index]) != 1:
            return None
        return self.tensors[index][0]

    def value_at_index(self, index: int) -> object:
        """Return the plain value at an operand index; None if unknown."""
        return self.values[index] if index < len(self.values) else None

    def each_tensor(self) -> Iterator[Tensor]:
        """Yield all tensors of all operands."""
        for operand in self.tensors:
            yield from operand


def broadcast_sizes(
    first: Sequence[int], second: Sequence[int]
) -> tuple[int, ...] | None:
    """Return the sizes of two operands broadcast together; None if incompatible."""
    longest = max(len(first), len(second))
    sizes = []
    for left, right in zip(
        (*(1,) * (longest - len(first)), *first),
        (*(1,) * (longest - len(second)), *second),
        strict=True,
    ):
        if left != right and 1 not in (left, right):
            return None
        sizes.append(right if left == 1 else left)
    return tuple(sizes)


def operand_bytes(given: Operands) -> int | None:
    """Return the bytes of all tensors; None without tensors or for an unknown type."""
    tensors = list(given.each_tensor())
    return total_bytes(tensors) if tensors else None


def total_bytes(tensors: Iterable[Tensor]) -> int | None:
    """Sum the bytes of tensors; None if any element type is unknown."""
    return sum_if_known([tensor.size_bytes for tensor in tensors])


def sum_if_known(numbers: Sequence[int | None]) -> int | None:
    """Return the sum of numbers; None if any is unknown."""
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None


def operands_from_lists(
    sizes: str, types: str | None, values: str | None, *, equation: str | None = None
) -> Operands | None:
    """Parse JSON lists of sizes, types and plain values with one item per operand.

    The sizes of a list of tensors are a list of lists.

    Returns:
        None if sizes or types are missing or cannot be parsed.
    """
    all_sizes, all_types = _read_json(sizes), _read_json(types)
    if not isinstance(all_sizes, list) or not isinstance(all_types, list):
        return None
    tensors = tuple(
        _read_tensors(shape, kind if isinstance(kind, str) else "")
        for shape, kind in zip(all_sizes, all_types, strict=False)
    )
    plain = _read_json(values)
    texts = plain if isinstance(plain, list) else []
    return Operands(tensors, tuple(_plain_value(text) for text in texts), equation)


def operands_from_text(text: str, *, equation: str | None = None) -> Operands | None:
    """Parse `(float[16,32];float[32,10])`, with or without the parentheses.

    Returns:
        None if the text has another form or contains an unknown size.
    """
    inner = text.strip().removeprefix("(").removesuffix(")").strip()
    if not inner:
        return Operands((), equation=equation)
    tensors = []
    for part in re.split(r"\s*;\s*|,\s*(?=[A-Za-z_])", inner):
        match = _OPERAND.fullmatch(part.strip())
        if match is None:
            return None
        sizes = match["sizes"].split(",") if match["sizes"] else []
        tensors.append((Tensor(match["type"], tuple(map(int, sizes))),))
    return Operands(tuple(tensors), equation=equation)


def _read_tensors(sizes: object, dtype: str) -> tuple[Tensor, ...]:
    if dtype in _PLAIN or not isinstance(sizes, list):
        return ()
    if all(isinstance(size, int) for size in sizes):
        return (Tensor(dtype, tuple(sizes)),)
    return tuple(
        Tensor(dtype, tuple(shape))
        for shape in sizes
        if isinstance(shape, list) and all(isinstance(size, int) for size in shape)
    )


def _plain_value(text: object) -> object:
    """Parse values such as `[1, 1]`, `2` or `True`; return text that is not JSON."""
    if not isinstance(text, str) or not text:
        return None
    if text in ("True", "False"):
        return text == "True"
    parsed = _read_json(text.replace("True", "true").replace("False", "false"))
    return text if parsed is None else parsed


def _read_json(text: str | None) -> object:
    if text is None:
        return None
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None
