"""Functions of single elements, after broadcasting."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from stepscope.derive.costs.family import Family, Part, Rule

if TYPE_CHECKING:
    from stepscope.derive.costs.operands import Operands


def broadcast(given: Operands) -> tuple[int, ...] | None:
    """Return sizes after broadcasting all operands; None where there are none."""
    found: list[int] = []
    seen = False
    for tensor in given.every():
        seen = True
        sizes = list(tensor.sizes)
        longest = max(len(found), len(sizes))
        found = [1] * (longest - len(found)) + found
        sizes = [1] * (longest - len(sizes)) + sizes
        pairs = list(zip(found, sizes, strict=True))
        if any(a != b and 1 not in (a, b) for a, b in pairs):
            return None
        found = [b if a == 1 else a for a, b in pairs]
    return tuple(found) if seen else None


def _per_element(count: int) -> Rule:
    def flops(given: Operands) -> int | None:
        sizes = broadcast(given)
        return None if sizes is None else count * math.prod(sizes)

    return Rule(flops, broadcast)


def _lists(count: int) -> Rule:
    """Make a rule for lists of tensors, element by element; the first has the sizes."""

    def elements(given: Operands) -> int | None:
        if not given.tensors or not given.tensors[0]:
            return None
        return sum(tensor.elements for tensor in given.tensors[0])

    def flops(given: Operands) -> int | None:
        found = elements(given)
        return None if found is None else count * found

    def result(given: Operands) -> tuple[int, ...] | None:
        found = elements(given)
        return None if found is None else (found,)

    return Rule(flops, result)


def _named(prefix: str, names: str, *, inplace: bool = False) -> list[str]:
    found = [f"{prefix}{name}" for name in names.split()]
    return found + [f"{name}_" for name in found] if inplace else found


_ONE: Final = (
    *_named(
        "aten::",
        "add sub rsub mul div true_divide neg abs exp exp2 expm1 log log2 log10 log1p "
        "sqrt rsqrt square reciprocal pow sin cos tan tanh sigmoid erf erfc erfinv "
        "floor ceil round trunc sign maximum minimum fmax fmin clamp clamp_min "
        "clamp_max relu relu6 leaky_relu elu selu celu silu gelu mish softplus "
        "hardtanh hardswish hardsigmoid threshold atan atan2 fmod remainder hypot "
        "logaddexp xlogy lgamma digamma",
        inplace=True,
    ),
    *_named(
        "aten::",
        "threshold_backward tanh_backward sigmoid_backward gelu_backward "
        "silu_backward leaky_relu_backward hardtanh_backward elu_backward "
        "softplus_backward hardswish_backward native_dropout_backward",
    ),
    *_named(
        "",
        "Add AddV2 Sub Mul Div RealDiv DivNoNan Neg Abs Exp Expm1 Log Log1p Sqrt Rsqrt "
        "Square Reciprocal Inv Pow Sin Cos Tan Tanh Sigmoid Erf Erfc Floor Ceil Round "
        "Sign Maximum Minimum Relu Relu6 Elu Selu LeakyRelu Softplus Softsign BiasAdd "
        "ReluGrad Relu6Grad TanhGrad SigmoidGrad RsqrtGrad SqrtGrad EluGrad "
        "SoftplusGrad LeakyReluGrad SquaredDifference FloorDiv FloorMod Mod Xdivy "
        "Xlogy _MklNativeRelu _MklNativeReluGrad _MklAddV2 _MklSub _MklMul",
    ),
)
_TWO: Final = (
    *_named("aten::", "addcmul addcdiv lerp", inplace=True),
    *_named("aten::", "mse_loss l1_loss smooth_l1_loss"),
    "aten::native_dropout",
)
_ONE_OF_LISTS: Final = _named(
    "aten::_foreach_",
    "add sub mul div neg abs exp log sqrt rsqrt reciprocal pow maximum minimum "
    "clamp_min clamp_max",
    inplace=True,
)
_TWO_OF_LISTS: Final = _named("aten::_foreach_", "addcmul addcdiv lerp", inplace=True)

POINTWISE: Final = Family(
    name="function of single elements",
    part=Part.OTHER,
    formula="one operation per element of the result for each function applied; two "
    "for those that scale and add (addcmul, lerp, dropout)",
    source="the convention of XLA's cost analysis and of the older profiler's "
    "registry: a function of one number is one operation, whatever it costs",
    rules={
        **dict.fromkeys(_ONE, _per_element(1)),
        **dict.fromkeys(_TWO, _per_element(2)),
    },
)
LISTS: Final = Family(
    name="function of single elements of many tensors",
    part=Part.OTHER,
    formula="as for one tensor, over all tensors of the first list",
    source="as for one tensor",
    rules={
        **dict.fromkeys(_ONE_OF_LISTS, _lists(1)),
        **dict.fromkeys(_TWO_OF_LISTS, _lists(2)),
    },
)
