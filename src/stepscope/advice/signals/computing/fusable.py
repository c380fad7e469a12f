"""Runs of kernels that a compiler could make one of."""

from __future__ import annotations

from typing import Final

import polars as pl

from stepscope.frozen import Frozen

__all__ = ["SHORTEST", "FusableRuns", "fusable_runs"]

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
    fusable = rows.select(
        "class",
        fusable=~pl.col("collective")
        & ~pl.col("eligible").fill_null(value=False)
        & pl.col("full_name").str.contains(_FUSABLE)
        & ~pl.col("full_name").str.contains(_FUSED)
        & ~pl.col("op").fill_null("").str.contains(r"(?i)fusion"),
    )
    order = (
        shown.with_columns(dur=pl.col("end_ps") - pl.col("start_ps"))
        .join(fusable, on="class", how="left", maintain_order="left")
        .sort("stream", "start_ps", maintain_order=True)
        .with_columns(fusable=pl.col("fusable").fill_null(value=False))
        .with_columns(run=pl.struct("stream", "fusable").rle_id())
        .with_columns(length=pl.len().over("run"))
        .with_columns(inside=pl.col("fusable") & (pl.col("length") >= SHORTEST))
    )
    parts = order.group_by("class", maintain_order=True).agg(
        # A coarse clock rounds short kernels to nothing.
        (pl.col("dur").filter("inside").sum() / pl.col("dur").sum())
        .fill_nan(0)
        .alias("part")
    )
    found = (
        rows.join(parts, on="class", how="left", maintain_order="left")
        .filter(pl.col("part") > 0)
        .with_columns((pl.col("time_ps") * pl.col("part")).cast(pl.Int64))
        .drop("part")
    )
    return FusableRuns(found, order.filter("inside")["run"].n_unique())
