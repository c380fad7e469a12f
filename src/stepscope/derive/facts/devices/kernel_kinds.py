"""Traits of kernels: type conversion, reordering, odd sizes, and fusable runs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.columns.dense_codes import totals_by_code
from stepscope.derive.costs.operands import operands_from_text
from stepscope.frozen import Frozen
from stepscope.patterns import Pattern
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.derive.costs.operands import Tensor

#: Types of ops, and names of kernels, that convert element types.
_CONVERTS: Final = Pattern(r"^(?:Cast|convert_element_type|aten::_to_copy)$")
_CONVERTING: Final = Pattern(
    r"copy_kernel.*LoadWithCast|float16_copy_kernel|^(?:loop|wrapped)_convert(?:_fusion)?(?:_\d+)?$"
)
_COPY: Final = "aten::copy_"
#: Names of kernels that change the order of a tensor's elements. `_PRODUCT` excludes
#: matrix products, whose names contain the order of their operands.
_REORDERS: Final = Pattern(
    r"nchw_?to_?nhwc|nhwc_?to_?nchw|convertTensor|transpose|permute|SwapDimension",
    re.IGNORECASE,
)
_PRODUCT: Final = Pattern(r"cutlass|gemm|xmma|fprop|dgrad|wgrad", re.IGNORECASE)
#: Names of convolutions; all other products multiply matrices.
_CONVOLUTION: Final = Pattern(r"conv", re.IGNORECASE)
#: Name of PyTorch's gradients of a convolution: the weights are the third operand.
_GRADIENTS: Final = "aten::convolution_backward"
#: Matrix units need sizes that are multiples of this number, for 16-bit operands.
_SIZE_MULTIPLE: Final = 8


def kernel_traits(
    rows: pl.DataFrame, shapes: pl.Series, strings: Sequence[str]
) -> pl.DataFrame:
    """Return columns `converts`, `reorders`, `odd_size`, `sized` and `shape`.

    Args:
        rows: `class`, `op_type`, `full_name` and `eligible` of each row.
        shapes: Index in `strings` of the operands' text, by class; -1 if not recorded.
    """
    traits = []
    # This loop is short: a step has a few hundred kernels and launch shapes.
    for handle, type_, name, eligible in zip(
        shapes.gather(rows["class"]),
        rows["op_type"],
        rows["full_name"],
        rows["eligible"],
        strict=True,
    ):
        given = operands_from_text(strings[handle]) if handle >= 0 else None
        tensors = None if given is None else tuple(given.each_tensor())
        odd = shape = None
        if eligible and tensors:
            # The first two sizes of the weights are usually output and input channels.
            weights = tensors[2:3] if type_ == _GRADIENTS else tensors[1:2]
            sizes = [size for tensor in weights for size in tensor.sizes[:2]]
            if not _CONVOLUTION.search(type_ or ""):
                sizes = [size for tensor in tensors[:3] for size in tensor.sizes[-2:]]
            # The first dimension that is not a multiple of `_SIZE_MULTIPLE`. Padding
            # helps neither vectors nor the single channels of depthwise convolutions.
            odd = next((it for it in sizes if it > 1 and it % _SIZE_MULTIPLE), None)
            if type_ is not None:
                of_tensors = ("x".join(map(str, tensor.sizes)) for tensor in tensors)
                shape = " ".join([type_, *of_tensors])
        converts = _converts_types(type_ or "", name, tensors)
        reorders = bool(_REORDERS.search(name)) and not _PRODUCT.search(name)
        traits.append((converts, reorders, odd, tensors is not None, shape))
    schema = {
        "converts": pl.Boolean(),
        "reorders": pl.Boolean(),
        "odd_size": pl.Int64(),
        "sized": pl.Boolean(),
        "shape": pl.String(),
    }
    return pl.DataFrame(traits, schema=schema, orient="row")


def _converts_types(
    type_: str, name: str, tensors: Sequence[Tensor] | None
) -> bool | None:
    if _CONVERTS.search(type_) or _CONVERTING.search(name):
        return True
    if type_ != _COPY:
        return False
    if tensors is None or len(tensors) < 2:
        return None
    return tensors[0].dtype != tensors[1].dtype


#: Elementwise kernels and reductions, which compilers fuse.
_FUSABLE: Final = (
    r"(?i)elementwise|reduce_kernel|reduction|layer_?norm|batch_?norm|rms_?norm|bn_fw"
    r"|bn_bw|softmax|dropout|relu|gelu|silu|sigmoid|bias|copy_kernel|cast|transpose"
    r"|multi_tensor_apply|foreach|EigenMetaKernel|AddV2|Mul_|Sub_|Rsqrt|Square|Tanh"
)
#: Names of kernels that are already fused, by a compiler or a library, or that are not
#: elementwise or reductions.
_FUSED: Final = (
    r"(?i)fus|triton|wrapped_|inductor|gemm|conv|attention|flash|fmha|cutlass|nvjet"
    r"|cudnn|sort|scan|gather|scatter|embedding|index"
    # Optimizers of Apex, and its functions for norms and scaling of many tensors.
    r"|(?:adam|lamb|lars|sgd|adagrad|novograd|norm|scale|axpby)\w*functor"
)
#: Kernels from this mean duration on are not fused: they move gigabytes, and one kernel
#: of that length rarely passes its output to the next.
_MAX_FUSABLE_PS: Final = PS_PER_MS
#: Maximum share of the time of a run that fusing removes: a fused kernel reads the
#: inputs of the run, and writes its output.
_MAX_REMOVABLE: Final = 0.75
#: Minimum number of consecutive kernels in a fusable run.
MIN_RUN_KERNELS: Final = 3


class FusableRuns(Frozen, frozen=True):
    """The kernels in fusable runs (consecutive fusable kernels) on one device.

    Attributes:
        rows: Rows of `KernelWork.rows`, with only the time of kernels in fusable runs.
        count: Number of fusable runs in the typical step.
        removable: Maximum share of the time of `rows` that fusing removes. A fused
            kernel moves at least the bytes of the longest kernel of its run.
    """

    rows: pl.DataFrame
    count: int
    removable: float = 0.0


def fusable_runs(rows: pl.DataFrame, shown: pl.DataFrame) -> FusableRuns:
    """Find the fusable runs in one typical step.

    Args:
        rows: `KernelWork.rows`.
        shown: `KernelWork.shown`.
    """
    name = rows["full_name"]
    fusable = (
        ~rows["collective"]
        & ~rows["eligible"].fill_null(value=False)
        & name.str.contains(_FUSABLE)
        & ~name.str.contains(_FUSED)
        & ~rows["op"].fill_null("").str.contains(r"(?i)fusion")
        & (rows["time_ps"] < _MAX_FUSABLE_PS * rows["count"])
    )
    order = shown.sort("stream", "start_ps", maintain_order=True)
    kind, stream = ints(order, "class"), handles(order, "stream")
    dur_ps = ints(order, "end_ps") - ints(order, "start_ps")
    classes = ints(rows, "class")
    count = 1 + int(max(kind.max(initial=-1), classes.max(initial=-1)))
    # The last entry is for -1, the class of activities that are not kernels.
    joins = np.zeros(count + 1, np.bool_)
    joins[classes] = fusable.to_numpy()
    is_fusable = joins[kind]
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (np.diff(stream) != 0) | (is_fusable[1:] != is_fusable[:-1])
    run = np.cumsum(begins) - 1
    inside = is_fusable & (np.bincount(run)[run] >= MIN_RUN_KERNELS)
    code = np.where(kind >= 0, kind, count).astype(np.int32)
    total = totals_by_code(code, dur_ps, count=count + 1).total
    in_runs = totals_by_code(code, dur_ps, count=count + 1, where=inside).total
    # A coarse clock may give all kernels of a class a duration of 0.
    part = np.divide(in_runs, total, out=np.zeros(count + 1), where=total > 0)[classes]
    runs = rows.with_columns(
        time_ps=(ints(rows, "time_ps") * part).astype(np.int64)
    ).filter(pl.Series(part > 0))
    longest = np.zeros(int(run.max(initial=-1)) + 1, np.int64)
    np.maximum.at(longest, run, dur_ps)
    kinds = np.unique(run[inside])
    time_ps = int(dur_ps[inside].sum())
    removable = 1 - int(longest[kinds].sum()) / time_ps if time_ps else 0.0
    return FusableRuns(runs, len(kinds), min(removable, _MAX_REMOVABLE))
