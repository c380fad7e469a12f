"""`fuse.runs`: small kernels in a row could be one.

Definition: docs/advice/fuse_runs.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.advice.finding import Action, Fact, Finding
from stepscope.advice.item import Item
from stepscope.advice.judging.worked import (
    WORKED_READS,
    Worked,
    judge_kernels,
    kernels_of,
)
from stepscope.advice.rule import Rule
from stepscope.advice.words import Words

if TYPE_CHECKING:
    from stepscope.advice.signals.computing.kernel_work import KernelWork
    from stepscope.advice.signals.signal import Signals
    from stepscope.thresholds import Thresholds

__all__ = ["RULE", "evaluate"]

_ACTIONS: Final = (
    Action(
        cause="any",
        framework="TensorFlow",
        text="Let the compiler fuse the ops of the step.",
        code="@tf.function(jit_compile=True)",
    ),
    Action(
        cause="any",
        framework="PyTorch",
        text="Compile the model, and use fused optimizers.",
        code="torch.compile(model); torch.optim.AdamW(params, fused=True)",
    ),
    Action(
        cause="any",
        framework="JAX",
        text="Call these ops inside one jitted function, not one by one.",
        code="jax.jit(step)",
    ),
)
_WORDS: Final = Words(
    passed="kernels that could be fused are few",
    lead=(
        (
            "Runs of small kernels could each be one kernel: {ms_per_step} a step, "
            "most of it {named}."
        ),
    ),
    texts={
        ("fail", None): (
            (
                (
                    "{value} of the kernels' time is in runs of three and more "
                    "kernels that only read, compute element by element, and "
                    "write: {runs} runs a step, most of the time in {named}."
                ),
            ),
        ),
        ("pass", None): (
            ("Of the kernels' time {value:nothing} is in runs that could be fused.",),
        ),
    },
)
_ITEM: Final = Item(
    id="fuse.runs",
    stage=5,
    title="small kernels in a row could be one",
    words=_WORDS,
    pages=("kernel_stats", "trace_viewer"),
    confirm="Look at the ranges: the kernels follow each other on one stream, each on "
    "what the one before wrote.",
    refute="If the compiled step takes as long, the kernels of a run do not share "
    "what they read and write.",
    floors=("bytes that the fused kernel reads and writes: not known here",),
    actions=_ACTIONS,
)
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
_LEAST: Final = 3
#: Without the bytes: half of the time of a run goes at least a little, at most most.
_GAIN: Final = (0.25, 0.75)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Judge the time of kernels that compilers would join, where they are in runs."""
    work = kernels_of(_ITEM, signals, thresholds)
    if isinstance(work, Finding):
        return work
    in_runs, runs = _in_runs(work)
    time = int(in_runs["time_ps"].sum())
    return judge_kernels(
        _ITEM,
        signals,
        thresholds,
        work,
        Worked(in_runs, (time * _GAIN[0], time * _GAIN[1])),
        warn=thresholds.fusable_warn,
        critical=thresholds.fusable_critical,
        facts=(Fact(name="runs", value=runs, unit="count", note="in the step shown"),),
    )


def _in_runs(work: KernelWork) -> tuple[pl.DataFrame, int]:
    """Return the kernels in runs, with the part of their time there; and the runs.

    What is in a run is looked up in one typical step.
    """
    fusable = work.rows.select(
        "class",
        fusable=~pl.col("collective")
        & ~pl.col("eligible").fill_null(value=False)
        & pl.col("full_name").str.contains(_FUSABLE)
        & ~pl.col("full_name").str.contains(_FUSED)
        & ~pl.col("op").fill_null("").str.contains(r"(?i)fusion"),
    )
    order = (
        work.shown.with_columns(dur=pl.col("end_ps") - pl.col("start_ps"))
        .join(fusable, on="class", how="left", maintain_order="left")
        .sort("stream", "start_ps", maintain_order=True)
        .with_columns(fusable=pl.col("fusable").fill_null(value=False))
        .with_columns(run=pl.struct("stream", "fusable").rle_id())
        .with_columns(length=pl.len().over("run"))
        .with_columns(inside=pl.col("fusable") & (pl.col("length") >= _LEAST))
    )
    parts = order.group_by("class", maintain_order=True).agg(
        # A coarse clock rounds short kernels to nothing.
        (pl.col("dur").filter("inside").sum() / pl.col("dur").sum())
        .fill_nan(0)
        .alias("part")
    )
    rows = (
        work.rows.join(parts, on="class", how="left", maintain_order="left")
        .filter(pl.col("part") > 0)
        .with_columns((pl.col("time_ps") * pl.col("part")).cast(pl.Int64))
        .drop("part")
    )
    return rows, order.filter("inside")["run"].n_unique()


RULE: Final = Rule(_ITEM, evaluate, WORKED_READS)
