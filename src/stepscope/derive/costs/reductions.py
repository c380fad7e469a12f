"""Reductions, softmax, normalisation and pooling: work per element that is read."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from stepscope.derive.costs.operands import Family, Part, Rule

if TYPE_CHECKING:
    from stepscope.derive.costs.operands import Operands

_Sizes = tuple[int, ...]


def _per_input(count: int, place: int = 0) -> Rule:
    """Make a rule of so many operations per element; the result has equal sizes."""

    def flops(given: Operands) -> int | None:
        tensor = given.tensor(place)
        return None if tensor is None else count * tensor.elements

    def result(given: Operands) -> _Sizes | None:
        tensor = given.tensor(place)
        return None if tensor is None else tensor.sizes

    return Rule(flops, result)


def _reading(count: int) -> Rule:
    return Rule(_per_input(count).flops, lambda _: None)


def _over_dimensions(count: int) -> Rule:
    """Make a rule of so many operations per element, over the dimensions at place 1.

    The short form, without dimensions, gives one number.
    """

    def result(given: Operands) -> _Sizes | None:
        tensor = given.tensor(0)
        if tensor is None:
            return None
        if len(given.tensors) < _LONG_FORM:
            return ()
        dims = given.value(1)
        if isinstance(dims, int):
            dims = [dims]
        if not given.values or not isinstance(dims, list | None):
            return None
        room = len(tensor.sizes)
        gone = {one % room for one in dims or range(room)} if room else set()
        return tuple(size for at, size in enumerate(tensor.sizes) if at not in gone)

    return Rule(_per_input(count).flops, result)


def _normalised(place: int, *weights: int) -> Rule:
    """Make a rule of five operations per element, and one for each weight given."""

    def flops(given: Operands) -> int | None:
        tensor = given.tensor(place)
        if tensor is None:
            return None
        given_weights = sum(given.tensor(one) is not None for one in weights)
        return (_CENTRED + given_weights) * tensor.elements

    return Rule(flops, _per_input(0, place).result)


def _pooled(place: int, kernel: int) -> Rule:
    """Make a rule for a window per result; the stride decides how many there are."""

    def result(given: Operands) -> _Sizes | None:
        return _pooled_sizes(given, place, kernel)

    def flops(given: Operands) -> int | None:
        sizes, window = result(given), given.value(kernel)
        if sizes is None or not isinstance(window, list):
            return None
        room = len(sizes) - 2 if len(sizes) > 2 else 1
        return math.prod(sizes) * math.prod(window * (room // len(window) or 1))

    return Rule(flops, result)


def _pooled_sizes(given: Operands, place: int, kernel: int) -> _Sizes | None:
    tensor, window = given.tensor(place), given.value(kernel)
    stride, padding = given.value(kernel + 1), given.value(kernel + 2)
    if tensor is None or not isinstance(window, list) or not window:
        return None
    if not isinstance(padding, list) or given.value(kernel + 3) not in ([1], [1, 1]):
        return None
    if given.value(kernel + 4) is not False:
        return None
    room = len(tensor.sizes) - 2
    if room < 1 or {len(window), len(padding)} - {1, room}:
        return None
    steps = stride if isinstance(stride, list) and stride else window
    sides = [one * (room if len(one) == 1 else 1) for one in (window, padding, steps)]
    if any(len(side) != room for side in sides) or 0 in sides[2]:
        return None
    sizes = tuple(
        (length + 2 * pad - size) // step + 1
        for length, size, pad, step in zip(tensor.sizes[-room:], *sides, strict=True)
    )
    return (*tensor.sizes[:-room], *sizes)


#: A sum over dimensions has at least the tensor, the dimensions, and whether to keep
#: them.
_LONG_FORM: Final = 3
#: Mean, deviation, square, variance, and the product with its root's inverse.
_CENTRED: Final = 5
#: Square, mean, and the product with its root's inverse.
_ROOT_MEAN_SQUARE: Final = 3

REDUCTIONS: Final = Family(
    name="reduction",
    part=Part.OTHER,
    formula="one operation per element that is read; two for norms and losses, which "
    "square or weigh it first; two for variances",
    source="the definition, as the older profiler's registry counts it",
    rules={
        **dict.fromkeys(
            (
                *("aten::max", "aten::min", "aten::prod"),
                *(
                    "aten::cumsum",
                    "aten::cumprod",
                    "aten::argmax",
                    "aten::argmin",
                    "aten::logsumexp",
                ),
                *("Sum", "Mean", "Max", "Min", "Prod", "ArgMax", "ArgMin", "Cumsum"),
                *("BiasAddGrad", "EuclideanNorm"),
            ),
            _reading(1),
        ),
        **dict.fromkeys(
            ("aten::sum", "aten::mean", "aten::amax", "aten::amin"),
            _over_dimensions(1),
        ),
        **dict.fromkeys(
            (
                *("aten::norm", "aten::linalg_vector_norm", "aten::var", "aten::std"),
                *("aten::var_mean", "L2Loss"),
            ),
            _reading(2),
        ),
    },
)
SOFTMAX: Final = Family(
    name="softmax",
    part=Part.OTHER,
    formula="5 per element: maximum, difference, exponential, sum, quotient; 4 per "
    "element for its gradient; 8 with the cross entropy",
    source="the definition; 5 is what the older profiler's registry counts",
    rules={
        **dict.fromkeys(
            (
                *("aten::softmax", "aten::_softmax", "Softmax", "LogSoftmax"),
                *("aten::log_softmax", "aten::_log_softmax", "_MklNativeSoftmax"),
            ),
            _per_input(5),
        ),
        **dict.fromkeys(
            (
                "aten::_softmax_backward_data",
                "aten::_log_softmax_backward_data",
            ),
            _per_input(4),
        ),
        **dict.fromkeys(
            (
                "SoftmaxCrossEntropyWithLogits",
                "SparseSoftmaxCrossEntropyWithLogits",
            ),
            _per_input(8),
        ),
    },
)
NORMALISATIONS: Final = Family(
    name="normalisation",
    part=Part.OTHER,
    formula="5 per element (mean, difference, square, variance, product) and 1 for "
    "each of weight and bias; 3 and 1 with the root mean square alone; the gradient "
    "costs twice as much as the full forward pass, 14",
    source="the definition; the statistics of inference are read, which saves work "
    "that is not taken off",
    rules={
        **dict.fromkeys(
            (
                *("aten::batch_norm", "aten::_batch_norm_impl_index"),
                *("aten::native_batch_norm", "aten::cudnn_batch_norm"),
                *("aten::miopen_batch_norm", "aten::_native_batch_norm_legit"),
                "aten::_batch_norm_with_update",
            ),
            _normalised(0, 1, 2),
        ),
        **dict.fromkeys(
            ("aten::layer_norm", "aten::native_layer_norm", "aten::group_norm"),
            _normalised(0, 2, 3),
        ),
        "aten::native_group_norm": _normalised(0, 1, 2),
        **dict.fromkeys(
            ("aten::instance_norm",),
            _normalised(0, 1, 2),
        ),
        **dict.fromkeys(
            ("aten::rms_norm", "aten::_fused_rms_norm"),
            _per_input(_ROOT_MEAN_SQUARE + 1),
        ),
        **dict.fromkeys(
            ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"),
            _normalised(0, 1, 2),
        ),
        **dict.fromkeys(
            (
                *(
                    "aten::native_batch_norm_backward",
                    "aten::cudnn_batch_norm_backward",
                ),
                *(
                    "aten::native_layer_norm_backward",
                    "aten::native_group_norm_backward",
                ),
                *("aten::miopen_batch_norm_backward", "FusedBatchNormGradV3"),
                *("FusedBatchNormGrad", "FusedBatchNormGradV2"),
            ),
            _per_input(14),
        ),
    },
)
POOLING: Final = Family(
    name="pooling",
    part=Part.OTHER,
    formula="elements of the result x elements of its window; one addition per element "
    "for the gradient",
    source="the definition, as the older profiler's registry counts it",
    rules={
        **dict.fromkeys(
            ("aten::max_pool2d", "aten::max_pool2d_with_indices"), _pooled(0, 1)
        ),
        **dict.fromkeys(
            (
                *("aten::adaptive_avg_pool2d", "aten::_adaptive_avg_pool2d"),
                *("aten::adaptive_avg_pool1d", "aten::adaptive_avg_pool3d"),
            ),
            _reading(1),
        ),
        **dict.fromkeys(
            (
                "aten::max_pool2d_with_indices_backward",
                "aten::_adaptive_avg_pool2d_backward",
                "MaxPoolGrad",
                "_MklNativeMaxPoolGrad",
            ),
            _reading(1),
        ),
    },
)
