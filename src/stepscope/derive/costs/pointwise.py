"""Functions of single elements, reductions, and ops without arithmetic."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.derive.costs.operands import (
    Family,
    Part,
    Rule,
    broadcast_sizes,
    operand_bytes,
    total_bytes,
)
from stepscope.patterns import Pattern

if TYPE_CHECKING:
    from stepscope.derive.costs.operands import Operands

#: Ops whose operands are all that they read or write, each once: the destination of a
#: copy, or what is filled, is the first.
_IN_PLACE: Final = "copy_ fill_ zero_"
#: Ops that read all operands and write as many elements as the first has.
_SAME_SIZES: Final = (
    "clone contiguous flip roll tril triu tril_ triu_ masked_fill masked_fill_"
)
_JOINING: Final = "cat concat stack hstack vstack"
_COMPARING: Final = (
    "eq ne gt ge lt le logical_and logical_or logical_not logical_xor isnan isinf "
    "isfinite"
)
_ATEN: Final = (
    "empty empty_like empty_strided zeros zeros_like ones ones_like full full_like "
    "new_empty new_zeros new_ones zero_ fill_ view _unsafe_view reshape "
    "_reshape_alias reshape_as view_as expand expand_as transpose t permute squeeze "
    "unsqueeze squeeze_ unsqueeze_ flatten unflatten narrow slice select split "
    "split_with_sizes chunk unbind detach detach_ alias as_strided as_strided_ clone "
    "contiguous copy_ _to_copy to type_as lift_fresh cat stack concat repeat "
    "repeat_interleave tile index_select gather index flip roll resize_ set_ "
    "resolve_conj resolve_neg item _local_scalar_dense is_nonzero lift resize_as_ "
    "arange scalar_tensor masked_fill masked_fill_ where tril triu tril_ triu_ eq ne "
    "gt ge lt le logical_and logical_or logical_not logical_xor bitwise_and "
    "bitwise_or bitwise_not isnan isinf isfinite all any nonzero argsort sort topk "
    "one_hot random_ _pin_memory pin_memory is_pinned "
    "record_stream conj real imag movedim swapaxes ravel broadcast_to hstack vstack "
    "constant_pad_nd pad index_put_ _index_put_impl_ requires_grad_ "
    "result_type _has_compatible_shallow_copy_type _nested_tensor_from_mask isin "
    "bucketize searchsorted unique_consecutive unfold im2col"
)
_GRAPH: Final = (
    "Identity IdentityN NoOp Const Reshape Squeeze ExpandDims Transpose Shape ShapeN "
    "Size Rank Slice StridedSlice StridedSliceGrad ConcatV2 ConcatOffset Concat Split "
    "SplitV Pack Unpack Tile BroadcastTo BroadcastGradientArgs Fill ZerosLike OnesLike "
    "Gather GatherV2 GatherNd ResourceGather Pad PadV2 MirrorPad Cast Bitcast "
    "ReadVariableOp AssignVariableOp VarHandleOp StopGradient PreventGradient Reverse "
    "ReverseV2 Range Select SelectV2 Where Equal NotEqual Greater GreaterEqual Less "
    "LessEqual LogicalAnd LogicalOr LogicalNot OneHot IteratorGetNext _Arg _Retval "
    "_Send _Recv _HostSend _HostRecv ControlTrigger Switch Merge Enter Exit "
    "NextIteration LoopCond DecodeRaw EmptyTensorList "
    "DynamicStitch InvertPermutation MergeV2Checkpoints Placeholder Print Assert "
    "DeepCopy Empty TensorListStack TensorListFromTensor VariableShape Snapshot"
)

#: Ranges that only call other ops, which do the work and have costs of their own.
CALLERS: Final = Pattern(
    r"autograd::engine::evaluate_function: |\w+Backward\d*$|torch::autograd::\w+$"
    r"|Optimizer\.(?:step|zero_grad)#|aten::(?:dropout|cross_entropy_loss|nll_loss"
    r"|nll_loss_nd|chunk_cat|lstm|gru|multi_head_attention_forward)$"
)

#: Op type → places of the operands that are variables of a layer. These are the ops
#: that layers call with their own variables; the ops they call read the same variables.
WEIGHTS: Final = {
    **dict.fromkeys(
        (
            *("aten::linear", "aten::batch_norm", "aten::instance_norm"),
            *("aten::conv1d", "aten::conv2d", "aten::conv3d"),
            *("aten::conv_transpose1d", "aten::conv_transpose2d"),
            "aten::conv_transpose3d",
        ),
        (1, 2),
    ),
    "aten::embedding": (0,),
    "aten::embedding_bag": (0,),
    **dict.fromkeys(("aten::layer_norm", "aten::group_norm"), (2, 3)),
    "aten::rms_norm": (2,),
}


def broadcast(given: Operands) -> tuple[int, ...] | None:
    """Return sizes after broadcasting all operands; None where there are none."""
    found: tuple[int, ...] | None = None
    for tensor in given.every():
        found = broadcast_sizes(found or (), tensor.sizes)
        if found is None:
            return None
    return found


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


def _none(_: Operands) -> int:
    return 0


def _unknown(_: Operands) -> None:
    return None


def _joined(given: Operands) -> tuple[int, ...] | None:
    tensors = list(given.every())
    return (sum(one.elements for one in tensors),) if tensors else None


def _compared(given: Operands) -> int | None:
    """Return bytes of all operands and of one truth value per element."""
    read, sizes = operand_bytes(given), broadcast(given)
    return None if read is None or sizes is None else read + math.prod(sizes)


def _chosen(given: Operands) -> int | None:
    """Return bytes of a condition, of both choices and of what is chosen."""
    sizes = broadcast(given)
    choices = [one for place in (1, 2) if (one := given.tensor(place)) is not None]
    if sizes is None or not choices:
        return None
    # A single number takes the type of the tensor beside it.
    widest = max(choices, key=lambda one: (len(one.sizes), one.elements))
    return total_bytes((*given.every(), msgspec.structs.replace(widest, sizes=sizes)))


def _aten(names: str, rule: Rule) -> dict[str, Rule]:
    return {f"aten::{name}": rule for name in names.split()}


WITHOUT_ARITHMETIC: Final = Family(
    name="moving, making, comparing",
    part=Part.OTHER,
    formula="0",
    source="what they do: they copy, view, fill, compare or pick elements",
    rules={
        **{f"aten::{name}": Rule(_none, _unknown) for name in _ATEN.split()},
        **_aten(_IN_PLACE, Rule(_none, _unknown, operand_bytes)),
        **_aten(
            _SAME_SIZES,
            Rule(
                _none,
                lambda given: None if (one := given.tensor(0)) is None else one.sizes,
            ),
        ),
        **_aten(_JOINING, Rule(_none, _joined)),
        **_aten(_COMPARING, Rule(_none, _unknown, _compared)),
        "aten::where": Rule(_none, _unknown, _chosen),
        **{name: Rule(_none, _unknown) for name in _GRAPH.split()},
    },
)
MOVEMENT: Final = Family(
    name="embedding",
    part=Part.OTHER,
    formula="0 for looking rows up; one addition per element for their gradient",
    source="what they do",
    rules={
        # No recording says which rows are read, and so how many bytes.
        "aten::embedding": Rule(_none, _unknown),
        **dict.fromkeys(
            ("aten::embedding_dense_backward", "aten::embedding_backward"),
            Rule(
                lambda given: (
                    None if (one := given.tensor(0)) is None else one.elements
                ),
                _unknown,
            ),
        ),
        **dict.fromkeys(
            ("aten::index_add_", "aten::scatter_add_", "aten::scatter_add"),
            Rule(
                lambda given: (
                    None if (one := given.tensor(3)) is None else one.elements
                ),
                lambda given: None if (one := given.tensor(0)) is None else one.sizes,
            ),
        ),
    },
)

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
