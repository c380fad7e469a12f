"""Convolutions and their gradients."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from stepscope.derive.costs.family import Family, Part, Rule
from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from stepscope.derive.costs.operands import Operands, Tensor

_Sizes = tuple[int, ...]


class _Places(Frozen, frozen=True, eq=True):
    """Places of an op's settings among its operands; None for a setting it lacks."""

    stride: int | None
    padding: int | None
    dilation: int | None = None
    transposed: int | None = None
    always_transposed: bool = False
    output_padding: int | None = None
    groups: int | None = None


def _forward(places: _Places) -> Rule:
    """Make a rule for input (batch, channels, …), weight (out, in / groups, …)."""

    def result(given: Operands) -> _Sizes | None:
        return _result(given, places)

    def flops(given: Operands) -> int | None:
        inputs, weight = given.tensor(0), given.tensor(1)
        if inputs is None or weight is None or not weight.sizes:
            return None
        if _is_transposed(given, places):
            # Each input element is multiplied by the weights of its channel.
            if not weight.sizes[0]:
                return None
            return 2 * inputs.elements * (weight.elements // weight.sizes[0])
        found = _result(given, places)
        if found is None or not weight.sizes[0]:
            return None
        return 2 * math.prod(found) * (weight.elements // weight.sizes[0])

    return Rule(flops, result)


def _is_transposed(given: Operands, places: _Places) -> bool:
    if places.transposed is None:
        return places.always_transposed
    return given.value(places.transposed) is True


def _result(given: Operands, places: _Places) -> _Sizes | None:
    inputs, weight = given.tensor(0), given.tensor(1)
    if inputs is None or weight is None:
        return None
    room = len(weight.sizes) - 2
    if room < 1 or len(inputs.sizes) not in (room + 1, room + 2):
        return None
    stride = _setting(given, places.stride, room, 1)
    dilation = _setting(given, places.dilation, room, 1)
    transposed = _is_transposed(given, places)
    padding = _padding(given, places.padding, room)
    if stride is None or dilation is None or padding is None:
        return None
    kernel, length = weight.sizes[2:], inputs.sizes[-room:]
    reach = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
    if transposed:
        extra = _setting(given, places.output_padding, room, 0)
        groups = 1 if places.groups is None else given.value(places.groups)
        if extra is None or not isinstance(groups, int):
            return None
        sizes = tuple(
            (length[i] - 1) * stride[i] - 2 * padding[i] + reach[i] + extra[i] + 1
            for i in range(room)
        )
        channels = weight.sizes[1] * groups
    else:
        if padding == (-1,) * room:
            sizes = length
        else:
            sizes = tuple(
                (length[i] + 2 * padding[i] - reach[i] - 1) // stride[i] + 1
                for i in range(room)
            )
        channels = weight.sizes[0]
    if any(size < 0 for size in sizes):
        return None
    return (*inputs.sizes[: -room - 1], channels, *sizes)


def _setting(
    given: Operands, place: int | None, room: int, default: int
) -> _Sizes | None:
    """Read a setting: one number per dimension; a lone number applies to all."""
    if place is None:
        return (default,) * room
    value = given.value(place)
    if isinstance(value, int):
        return (value,) * room
    if not isinstance(value, list) or not all(isinstance(one, int) for one in value):
        return None
    numbers = tuple(value) * (room if len(value) == 1 else 1)
    if len(numbers) != room or (default == 1 and 0 in numbers):
        return None
    return numbers


def _padding(given: Operands, place: int | None, room: int) -> _Sizes | None:
    """Read zeros at either end; -1 where the result is as long as the input."""
    value = None if place is None else given.value(place)
    if value == "valid":
        return (0,) * room
    if value == "same":
        return (-1,) * room
    return _setting(given, place, room, 0)


def _gradients(given: Operands) -> int | None:
    """Count each gradient that is asked for as one convolution."""
    outer, inputs, weight = given.tensor(0), given.tensor(1), given.tensor(2)
    asked = given.value(10)
    if outer is None or inputs is None or weight is None or not weight.sizes:
        return None
    if not isinstance(asked, list) or len(asked) != 3 or not weight.sizes[0]:
        return None
    per_channel = weight.elements // weight.sizes[0]
    moved = inputs.elements if given.value(7) is True else outer.elements
    products = sum(one is True for one in asked[:2])
    return 2 * products * moved * per_channel + (outer.elements if asked[2] else 0)


def _gradients_result(given: Operands) -> _Sizes | None:
    """Return the size of all gradients together, as one row of elements."""
    inputs, weight, asked = given.tensor(1), given.tensor(2), given.value(10)
    if inputs is None or weight is None or not isinstance(asked, list):
        return None
    wanted = zip(asked, (inputs, weight), strict=False)
    return (sum(tensor.elements for one, tensor in wanted if one is True),)


def _input_gradient_of_library(given: Operands) -> int | None:
    """Count by sizes of the input, result gradient, weight (out, in / groups, …)."""
    outer, weight = given.tensor(1), given.tensor(2)
    if outer is None or weight is None or not weight.sizes or not weight.sizes[0]:
        return None
    return 2 * outer.elements * (weight.elements // weight.sizes[0])


def _input_gradient(depthwise: bool) -> Rule:  # noqa: FBT001 - a table's cell
    """Make a rule for sizes of the input, filter (…, in, out), result gradient."""

    def flops(given: Operands) -> int | None:
        kernel, outer = given.tensor(1), given.tensor(2)
        return _filtered(kernel, outer, depthwise=depthwise)

    return Rule(flops, lambda _: None)


def _filtered(
    kernel: Tensor | None, outer: Tensor | None, *, depthwise: bool
) -> int | None:
    if kernel is None or outer is None or len(kernel.sizes) < 3:
        return None
    # A depthwise filter has no sum over channels.
    per_element = math.prod(kernel.sizes[:-2] if depthwise else kernel.sizes[:-1])
    return 2 * outer.elements * per_element


_FUNCTION: Final = _forward(_Places(3, 4, 5, groups=6))
_PADDING_FIRST: Final = _forward(_Places(4, 3, 5, groups=6))
_GENERAL: Final = _forward(_Places(3, 4, 5, transposed=6, output_padding=7, groups=8))
_TRANSPOSED: Final = _forward(
    _Places(3, 4, 7, always_transposed=True, output_padding=5, groups=6)
)

CONVOLUTIONS: Final = Family(
    name="convolution",
    part=Part.PRODUCT,
    formula="2 x elements of the result x weights that one of them meets; for a "
    "transposed one elements of the input; as many again for each gradient asked for, "
    "and one addition per element for the gradient of the bias",
    source="the definition of the convolution; places on the padding count",
    rules={
        **dict.fromkeys(("aten::conv1d", "aten::conv2d", "aten::conv3d"), _FUNCTION),
        **dict.fromkeys(("aten::convolution", "aten::_convolution"), _GENERAL),
        **dict.fromkeys(
            ("aten::mkldnn_convolution", "aten::miopen_convolution"), _PADDING_FIRST
        ),
        "aten::miopen_depthwise_convolution": _PADDING_FIRST,
        "aten::cudnn_convolution": _forward(_Places(3, 2, 4, groups=5)),
        "aten::cudnn_convolution_relu": _FUNCTION,
        **dict.fromkeys(
            ("aten::thnn_conv2d", "aten::_slow_conv2d_forward"),
            _forward(_Places(4, 5)),
        ),
        "aten::_conv_depthwise2d": _forward(_Places(4, 5, 6)),
        **dict.fromkeys(
            (
                "aten::conv_transpose1d",
                "aten::conv_transpose2d",
                "aten::conv_transpose3d",
            ),
            _TRANSPOSED,
        ),
        **dict.fromkeys(
            (
                "aten::cudnn_convolution_backward_input",
                "aten::miopen_convolution_backward_input",
                "aten::mkldnn_convolution_backward_input",
            ),
            Rule(_input_gradient_of_library, lambda _: None),
        ),
        "aten::convolution_backward": Rule(_gradients, _gradients_result),
        **dict.fromkeys(
            (
                *("Conv2DBackpropInput", "Conv3DBackpropInputV2"),
                *("_MklNativeConv2DBackpropInput", "_MklConv2DBackpropInput"),
                "_MklNativeConv3DBackpropInputV2",
            ),
            _input_gradient(False),  # noqa: FBT003
        ),
        "DepthwiseConv2dNativeBackpropInput": _input_gradient(True),  # noqa: FBT003
    },
)
