"""Cost rules of matrix products, fused attention, convolutions and their gradients."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.costs.operands import Rule, broadcast_sizes
from stepscope.frozen import Frozen
from stepscope.patterns import Pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stepscope.derive.costs.operands import Operands

#: Values of the setting that turns a causal mask on: true, which equals 1, or a kind.
_CAUSAL: Final = (1, 2)

_Sizes = tuple[int, ...]


def _product_rule(shape: Callable[[Operands], tuple[_Sizes, int] | None]) -> Rule:
    """Return a product's rule from its result sizes and the number of terms per sum."""

    def result_sizes(given: Operands) -> _Sizes | None:
        product = shape(given)
        return None if product is None else product[0]

    def count_flops(given: Operands) -> int | None:
        product = shape(given)
        return None if product is None else 2 * math.prod(product[0]) * product[1]

    return Rule(count_flops, result_sizes)


def _matrix_product(left: int, right: int) -> Rule:
    """Return the rule for (…, m, k) times (…, k, n); leading sizes are equal or 1."""

    def dot_shape(given: Operands) -> tuple[_Sizes, int] | None:
        first, second = given.tensor_at_index(left), given.tensor_at_index(right)
        if not (first and second and first.sizes and second.sizes):
            return None
        a = first.sizes if len(first.sizes) > 1 else (1, *first.sizes)
        b = second.sizes if len(second.sizes) > 1 else (*second.sizes, 1)
        outer = broadcast_sizes(a[:-2], b[:-2])
        if a[-1] != b[-2] or outer is None:
            return None
        rows = a[-2:-1] if len(first.sizes) > 1 else ()
        columns = b[-1:] if len(second.sizes) > 1 else ()
        return (*outer, *rows, *columns), a[-1]

    return _product_rule(dot_shape)


def _layer_shape(given: Operands) -> tuple[_Sizes, int] | None:
    """Return the result sizes of inputs (…, k) times weights (…, k), and size k."""
    inputs, weight = given.tensor_at_index(0), given.tensor_at_index(1)
    if inputs is None or weight is None or not inputs.sizes or not weight.sizes:
        return None
    if inputs.sizes[-1] != weight.sizes[-1]:
        return None
    return (*inputs.sizes[:-1], *weight.sizes[:-1]), inputs.sizes[-1]


def _transposable_shape(given: Operands) -> tuple[_Sizes, int] | None:
    """Return result sizes and terms per sum for two matrices that may be transposed.

    The recording does not show whether the matrices are transposed. None if several
    transpositions fit the sizes and give different results.
    """
    left, right = given.tensor_at_index(0), given.tensor_at_index(1)
    if left is None or right is None or min(len(left.sizes), len(right.sizes)) < 2:
        return None
    outer = broadcast_sizes(left.sizes[:-2], right.sizes[:-2])
    if outer is None:
        return None
    a, b = left.sizes[-2:], right.sizes[-2:]
    fits = {(a[1 - i], b[1 - j], a[i]) for i in (0, 1) for j in (0, 1) if a[i] == b[j]}
    if len(fits) != 1:
        return None
    ((m, n, k),) = fits
    return (*outer, m, n), k


def _einsum_shape(given: Operands) -> tuple[_Sizes, int] | None:
    """Return the sizes of the result, and the total number of terms in all its sums."""
    if given.equation is None or "->" not in given.equation or "." in given.equation:
        return None
    inputs, _, output = given.equation.replace(" ", "").partition("->")
    tensors, names = list(given.each_tensor()), inputs.split(",")
    if len(tensors) != len(names):
        return None
    length: dict[str, int] = {}
    for tensor, letters in zip(tensors, names, strict=True):
        if len(letters) != len(tensor.sizes):
            return None
        for letter, size in zip(letters, tensor.sizes, strict=True):
            if length.setdefault(letter, size) != size:
                return None
    if not set(output) <= set(length):
        return None
    return tuple(length[letter] for letter in output), math.prod(length.values())


def _einsum_flops(given: Operands) -> int | None:
    product = _einsum_shape(given)
    if product is None or len(list(given.each_tensor())) != 2:
        return None
    return 2 * product[1]


def _attention_rule(
    first: int, *, heads_first: bool, products: int, causal: int
) -> Rule:
    """Return the rule of attention whose query, key and value begin at operand `first`.

    Sizes are (batch, heads, length, width) or (batch, length, heads, width). The
    operand at index `causal` is true if a query attends only to earlier keys.
    `products` is the number of matrix products.
    """

    def result_sizes(given: Operands) -> tuple[int, ...] | None:
        query, value = given.tensor_at_index(first), given.tensor_at_index(first + 2)
        if query is None or value is None or len(query.sizes) != 4:
            return None
        return (*query.sizes[:-1], value.sizes[-1])

    def count_flops(given: Operands) -> int | None:
        tensors = [given.tensor_at_index(first + index) for index in range(3)]
        if any(tensor is None or len(tensor.sizes) != 4 for tensor in tensors):
            return None
        # A one-dimensional int32 operand marks packed sequences of unknown lengths.
        if any(
            tensor.dtype in ("int", "int32") and len(tensor.sizes) == 1
            for operand in given.tensors[first + 3 :]
            for tensor in operand
        ):
            return None
        query, key, value = (tensor.sizes for tensor in tensors if tensor is not None)
        axis = 2 if heads_first else 1
        pairs = query[0] * query[3 - axis] * query[axis] * key[axis]
        # Half of the matrix products, rounded down, use the width of the attention
        # values; the others use the width of the attention keys. The backward pass
        # recomputes the scores.
        over_values = products // 2
        width = (products - over_values) * query[3] + over_values * value[3]
        # A causal mask removes half of the query-key pairs. Each remaining pair costs
        # one multiplication and one addition per element of the width.
        masked = given.value_at_index(causal) in _CAUSAL
        return pairs * width if masked else 2 * pairs * width

    return Rule(count_flops, result_sizes)


_WINDOW: Final = Pattern(r"window=\{([^}]*)\}")
_LABELS: Final = Pattern(r"dim_labels=([\dbf]+)_([\dio]+)->([\dbf]+)")
#: Maximum size of a spatial dimension of the result, whose elements are counted one by
#: one. The cost of a longer dimension is unknown.
_MAX_COUNTED_SIZE: Final = 1 << 20


class Window(Frozen, frozen=True, eq=True):
    """Window of a convolution or reduction; one number per spatial dimension.

    Attributes:
        size: Number of elements in the window.
        stride: Distance between the windows of neighbouring result elements.
        low: Number of zeros before the input; negative if input elements are cut off.
        spread: Distance between the elements of the window (its dilation).
        gaps: Distance between the input's elements, with zeros between them.
        labels: Meaning of each dimension of input, kernel and result: number of the
            spatial dimension, or one of `b`, `f`, `i`, `o`; None if not recorded.
    """

    size: tuple[int, ...]
    stride: tuple[int, ...]
    low: tuple[int, ...]
    spread: tuple[int, ...]
    gaps: tuple[int, ...]
    labels: tuple[str, str, str] | None


class _OperandIndices(Frozen, frozen=True, eq=True):
    """Operand indices of a convolution's settings; None if the op lacks a setting."""

    stride: int
    padding: int
    dilation: int | None = None
    transposed: int | None = None
    always_transposed: bool = False
    output_padding: int | None = None
    groups: int | None = None


def _forward_convolution(indices: _OperandIndices) -> Rule:
    """Return the rule for input (batch, channels, …), weight (out, in / groups, …)."""

    def result_sizes(given: Operands) -> _Sizes | None:
        return _convolution_sizes(given, indices)

    def count_flops(given: Operands) -> int | None:
        inputs, weight = given.tensor_at_index(0), given.tensor_at_index(1)
        if inputs is None or weight is None or not weight.sizes:
            return None
        if _is_transposed(given, indices):
            # Each input element is multiplied by all weights of its channel.
            if not weight.sizes[0]:
                return None
            return 2 * inputs.elements * (weight.elements // weight.sizes[0])
        sizes = _convolution_sizes(given, indices)
        if sizes is None or not weight.sizes[0]:
            return None
        return 2 * math.prod(sizes) * (weight.elements // weight.sizes[0])

    return Rule(count_flops, result_sizes)


def _is_transposed(given: Operands, indices: _OperandIndices) -> bool:
    if indices.transposed is None:
        return indices.always_transposed
    return given.value_at_index(indices.transposed) is True


def _convolution_sizes(given: Operands, indices: _OperandIndices) -> _Sizes | None:
    inputs, weight = given.tensor_at_index(0), given.tensor_at_index(1)
    if inputs is None or weight is None:
        return None
    rank = len(weight.sizes) - 2
    if rank < 1 or len(inputs.sizes) not in (rank + 1, rank + 2):
        return None
    stride = read_setting(given, indices.stride, rank, 1)
    dilation = read_setting(given, indices.dilation, rank, 1)
    transposed = _is_transposed(given, indices)
    padding = _read_padding(given, indices.padding, rank)
    if stride is None or dilation is None or padding is None:
        return None
    kernel, length = weight.sizes[2:], inputs.sizes[-rank:]
    reach = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
    if transposed:
        extra = read_setting(given, indices.output_padding, rank, 0)
        groups = 1 if indices.groups is None else given.value_at_index(indices.groups)
        if extra is None or not isinstance(groups, int):
            return None
        sizes = tuple(
            (length[i] - 1) * stride[i] - 2 * padding[i] + reach[i] + extra[i] + 1
            for i in range(rank)
        )
        channels = weight.sizes[1] * groups
    else:
        if padding == (-1,) * rank:
            sizes = length
        else:
            sizes = tuple(
                (length[i] + 2 * padding[i] - reach[i] - 1) // stride[i] + 1
                for i in range(rank)
            )
        channels = weight.sizes[0]
    if any(size < 0 for size in sizes):
        return None
    return (*inputs.sizes[: -rank - 1], channels, *sizes)


def read_setting(
    given: Operands, index: int | None, rank: int, default: int
) -> _Sizes | None:
    """Return one number per spatial dimension; a recorded single number is for all."""
    if index is None:
        return (default,) * rank
    value = given.value_at_index(index)
    sizes = [value] if isinstance(value, int) else value
    if not isinstance(sizes, list) or not all(isinstance(size, int) for size in sizes):
        return None
    numbers = tuple(sizes) * (rank if len(sizes) == 1 else 1)
    if len(numbers) != rank or (default == 1 and 0 in numbers):
        return None
    return numbers


def _read_padding(given: Operands, index: int | None, rank: int) -> _Sizes | None:
    """Return the padding at each end; -1 if the result is as long as the input."""
    value = None if index is None else given.value_at_index(index)
    if value == "valid":
        return (0,) * rank
    if value == "same":
        return (-1,) * rank
    return read_setting(given, index, rank, 0)


def _convolution_gradients() -> Rule:

    def count_flops(given: Operands) -> int | None:
        outer, inputs, weight = (given.tensor_at_index(index) for index in range(3))
        mask = given.value_at_index(10)
        if outer is None or inputs is None or weight is None or not weight.sizes:
            return None
        if not isinstance(mask, list) or len(mask) != 3 or not weight.sizes[0]:
            return None
        per_channel = weight.elements // weight.sizes[0]
        moved = inputs.elements if given.value_at_index(7) is True else outer.elements
        products = sum(flag is True for flag in mask[:2])
        of_bias = outer.elements if mask[2] else 0
        return 2 * products * moved * per_channel + of_bias

    def result_sizes(given: Operands) -> _Sizes | None:
        inputs, weight = given.tensor_at_index(1), given.tensor_at_index(2)
        mask = given.value_at_index(10)
        if inputs is None or weight is None or not isinstance(mask, list):
            return None
        wanted = zip(mask, (inputs, weight), strict=False)
        return (sum(tensor.elements for flag, tensor in wanted if flag is True),)

    return Rule(count_flops, result_sizes)


def _flops_of_input_gradient(given: Operands) -> int | None:
    """Count operations from input sizes, result gradient and weight (out, in, …)."""
    outer, weight = given.tensor_at_index(1), given.tensor_at_index(2)
    if outer is None or weight is None or not weight.sizes or not weight.sizes[0]:
        return None
    return 2 * outer.elements * (weight.elements // weight.sizes[0])


def _input_gradient(*, depthwise: bool) -> Rule:
    """Return the rule for input sizes, filter (…, in, out) and result gradient."""

    def count_flops(given: Operands) -> int | None:
        kernel, outer = given.tensor_at_index(1), given.tensor_at_index(2)
        if kernel is None or outer is None or len(kernel.sizes) < 3:
            return None
        # A depthwise filter does not sum over channels.
        per_element = math.prod(kernel.sizes[:-2] if depthwise else kernel.sizes[:-1])
        return 2 * outer.elements * per_element

    return Rule(count_flops, lambda _: None)


def read_window(attributes: str | None) -> Window | None:
    """Parse `window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f`."""
    match = _WINDOW.search(attributes or "")
    if match is None:
        return None
    given = dict(part.split("=", 1) for part in match[1].split() if "=" in part)
    size = _read_numbers(given.get("size", ""))
    if not size:
        return None
    unit = (1,) * len(size)
    pads = given.get("pad", "x".join(["0_0"] * len(size))).split("x")
    low = tuple(int(pad.split("_")[0]) for pad in pads)
    sides = [
        _read_numbers(given[name]) if name in given else unit
        for name in ("stride", "rhs_dilate", "lhs_dilate")
    ]
    if {len(low), *map(len, sides)} != {len(size)}:
        return None
    labels = _LABELS.search(attributes or "")
    names = (labels[1], labels[2], labels[3]) if labels else None
    return Window(size, sides[0], low, sides[1], sides[2], names)


def convolution_terms(
    window: Window, inputs: Sequence[int], kernel: Sequence[int], result: Sequence[int]
) -> int | None:
    """Count multiplications of input elements by weights, except those of padding.

    Returns:
        None if the labels do not fit the sizes, or if a dimension is too long to count.
    """
    if window.labels is None:
        return None
    sizes = (tuple(inputs), tuple(kernel), tuple(result))
    if any(len(a) != len(b) for a, b in zip(window.labels, sizes, strict=True)):
        return None
    by_label = [
        dict(zip(labels, lengths, strict=True))
        for labels, lengths in zip(window.labels, sizes, strict=True)
    ]
    of_input, of_kernel, of_result = by_label
    terms = math.prod(size for name, size in of_result.items() if not name.isdecimal())
    terms *= of_kernel.get("i", 1)
    for axis in range(len(window.size)):
        label = str(axis)
        if label not in of_input or label not in of_result:
            return None
        if of_result[label] > _MAX_COUNTED_SIZE:
            return None
        # Count pairs of result and window elements that cover an input element.
        starts = np.arange(of_result[label], dtype=np.int64) * window.stride[axis]
        gaps = window.gaps[axis]
        reach = (of_input[label] - 1) * gaps + 1
        pairs = 0
        for step in range(window.size[axis]):
            position = starts + step * window.spread[axis] - window.low[axis]
            inside = (position >= 0) & (position < reach)
            if gaps > 1:
                inside &= position % gaps == 0
            pairs += int(np.count_nonzero(inside))
        terms *= pairs
    return terms


def _read_numbers(text: str) -> tuple[int, ...]:
    parts = text.split("x")
    return tuple(map(int, parts)) if all(part.isdecimal() for part in parts) else ()


#: Name of a rule in ops.json → function that returns the rule.
PRODUCT_RULES: Final[dict[str, Callable[..., Rule]]] = {
    "plain": _matrix_product,
    "layer": lambda: _product_rule(_layer_shape),
    "transposable": lambda: _product_rule(_transposable_shape),
    "einsum": lambda: Rule(_einsum_flops, _product_rule(_einsum_shape).result),
    "attention": _attention_rule,
    "convolution": lambda **places: _forward_convolution(_OperandIndices(**places)),
    "gradients": _convolution_gradients,
    "input_gradient": _input_gradient,
    "input_gradient_of_library": lambda: Rule(_flops_of_input_gradient, lambda _: None),
}
