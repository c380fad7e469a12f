"""Operands that an execution only writes: the tensor given as `out=`.

A recording lists it after the operands that are read. An operator reads no tensor
beyond a fixed place in any of its variants, so what follows is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from stepscope.derive.costs.operands import Operands, Tensor

#: Last place of a tensor that is read → operators, whose variants with `out=` write
#: what follows; from the schemas that PyTorch 2 registers.
_LAST_READ: Final[dict[int, str]] = {
    0: (
        "abs all amax amin any argmax argmin atan bitwise_not cat ceil celu clone "
        "concat constant_pad_nd cos cumprod cumsum digamma elu erf erfc erfinv exp "
        "exp2 expm1 flip floor gelu hardsigmoid hardswish hardtanh hstack isinf isnan "
        "leaky_relu lgamma linalg_vector_norm log log10 log1p log2 log_softmax "
        "_log_softmax logical_not logsumexp max_pool2d_with_indices mean mish neg "
        "nonzero norm prod reciprocal relu repeat roll round rsqrt sigmoid sign silu "
        "sin softmax _softmax softplus sort sqrt square stack std sum tan tanh "
        "threshold topk tril triu trunc var vstack adaptive_avg_pool1d "
        "adaptive_avg_pool2d adaptive_avg_pool3d _adaptive_avg_pool2d"
    ),
    1: (
        "_adaptive_avg_pool2d_backward _int_mm _log_softmax_backward_data "
        "_softmax_backward_data add atan2 bitwise_and bitwise_or bmm clamp_max "
        "clamp_min dot eq fmax fmin fmod ge gelu_backward gt hardswish_backward "
        "hardtanh_backward hypot le leaky_relu_backward logaddexp logical_and "
        "logical_or logical_xor lt matmul max maximum min minimum mm mse_loss mul mv "
        "native_dropout_backward ne pow remainder rsub sigmoid_backward silu_backward "
        "smooth_l1_loss softplus_backward sub tanh_backward threshold_backward "
        "true_divide div xlogy"
    ),
    2: (
        "_addmm_activation addcdiv addcmul addmm addmv baddbmm clamp convolution "
        "gather index_select lerp linear masked_fill where"
    ),
}
_LAST_PLACE: Final = {
    f"aten::{name}": place
    for place, names in _LAST_READ.items()
    for name in names.split()
}


def without_outputs(
    op_type: str, given: Operands
) -> tuple[Operands, tuple[Tensor, ...]]:
    """Return the operands that are read, and the tensors given to be written."""
    last = _LAST_PLACE.get(op_type)
    if last is None or not any(given.tensors[last + 1 :]):
        return given, ()
    outputs = tuple(one for operand in given.tensors[last + 1 :] for one in operand)
    read = (*given.tensors[: last + 1], *(() for _ in given.tensors[last + 1 :]))
    return msgspec.structs.replace(given, tensors=read), outputs
