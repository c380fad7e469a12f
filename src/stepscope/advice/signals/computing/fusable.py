"""Runs of kernels that a compiler could make one of."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.columns.dense_codes import totals_by
from stepscope.frozen import Frozen

#: Kernels that compute element by element, or reduce: what compilers fuse.
_FUSABLE: Final = (
    r"(?i)elementwise|reduce_kernel|reduction|layer_?norm|batch_?norm|rms_?norm|bn_fw"
    r"|bn_bw|softmax|dropout|relu|gelu|silu|sigmoid|bias|copy_kernel|cast|transpose"
    r"|multi_tensor_apply|foreach|EigenMetaKernel|AddV2|Mul_|Sub_|Rsqrt|Square|Tanh"
)
#: What compilers made, libraries fused already, or is no work of this kind.
_FUSED: Final = (
    r"(?i)fus|triton|wrapped_|inductor|gemm|conv|attention|flash|fmha|cutlass|nvjet"
    r"|cudnn|sort|scan|gather|scatter|embedding|index"
)
#: Kernels of the shortest run.
SHORTEST: Final = 3


class FusableRuns(Frozen, frozen=True):
    """The kernels in such runs on one device.

    Attributes:
        rows: Their rows of `KernelWork.rows`, with the part of their time in runs.
        count: Number of runs in the step shown.
    """

    rows: pl.DataFrame
    count: int


def fusable_runs(rows: pl.DataFrame, shown: pl.DataFrame) -> FusableRuns:
    """Find the runs in one typical step.

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
    )
    order = shown.sort("stream", "start_ps", maintain_order=True)
    kind, stream = ints(order, "class"), handles(order, "stream")
    dur_ps = ints(order, "end_ps") - ints(order, "start_ps")
    classes = ints(rows, "class")
    count = 1 + int(max(kind.max(initial=-1), classes.max(initial=-1)))
    # The last entry is that of -1, what is no kernel.
    joins = np.zeros(count + 1, np.bool_)
    joins[classes] = fusable.to_numpy()
    mine = joins[kind]
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (np.diff(stream) != 0) | (mine[1:] != mine[:-1])
    run = np.cumsum(begins) - 1
    inside = mine & (np.bincount(run)[run] >= SHORTEST)
    code = np.where(kind >= 0, kind, count).astype(np.int32)
    whole = totals_by(code, dur_ps, count=count + 1).total
    in_runs = totals_by(code, dur_ps, count=count + 1, where=inside).total
    # A coarse clock rounds short kernels to nothing.
    part = np.divide(in_runs, whole, out=np.zeros(count + 1), where=whole > 0)[classes]
    found = rows.with_columns(
        time_ps=(ints(rows, "time_ps") * part).astype(np.int64)
    ).filter(pl.Series(part > 0))
    return FusableRuns(found, len(np.unique(run[inside])))
