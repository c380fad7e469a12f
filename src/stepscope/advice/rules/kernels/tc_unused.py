"""`tc.unused`: products run beside the matrix units.

Definition: docs/advice/tc_unused.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.advice.finding import Action, Finding
from stepscope.advice.item import Item
from stepscope.advice.judging.fitting_actions import for_kernels
from stepscope.advice.judging.worked import (
    WORKED_READS,
    Worked,
    faster,
    judge_kernels,
    kernels_of,
    undecided,
)
from stepscope.advice.rule import Rule
from stepscope.advice.words import Words
from stepscope.derive.facts.evidence import Fact

if TYPE_CHECKING:
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.devices.kernel_work import KernelWork
    from stepscope.thresholds import Thresholds

#: Of older units, and where it is not known which they are.
_FLOAT16: Final = (
    "Compute in float16: bfloat16 and TF32 need compute capability 8.0 or newer."
)
ACTIONS: Final = (
    Action(
        cause="bfloat16",
        framework="TensorFlow",
        text="Compute in 16 bit, or allow TF32 for what stays in 32 bit.",
        code="tf.keras.mixed_precision.set_global_policy('mixed_bfloat16')",
    ),
    Action(
        cause="float16",
        framework="TensorFlow",
        text=_FLOAT16,
        code="tf.keras.mixed_precision.set_global_policy('mixed_float16')",
    ),
    Action(
        cause="bfloat16",
        framework="PyTorch",
        text="Compute in 16 bit, or allow TF32 for what stays in 32 bit.",
        code="torch.set_float32_matmul_precision('high')",
    ),
    Action(
        cause="float16",
        framework="PyTorch",
        text=_FLOAT16,
        code="with torch.autocast('cuda', dtype=torch.float16): …  # with GradScaler",
    ),
    Action(
        cause="bfloat16",
        framework="JAX",
        text="Compute in bfloat16, and look for a setting that asks for full precision "
        "(jax_default_matmul_precision='highest').",
    ),
    Action(
        cause="float16",
        framework="JAX",
        text=_FLOAT16,
        code="model = Model(dtype=jnp.float16, param_dtype=jnp.float32)",
    ),
)
_WORDS: Final = Words(
    passed="products run on the matrix units",
    lead=(
        (
            "Products run beside the matrix units (Tensor Cores): {ms_per_step} a "
            "step, most of it {named}."
        ),
        (
            "Products run beside the matrix units (Tensor Cores): {share_percent} of "
            "the time, most of it {named}."
        ),
    ),
    texts={
        ("fail", None): (
            (
                (
                    "Products that matrix units (Tensor Cores) could do run beside "
                    "them: {value} of the kernels' time, most of it {named}."
                ),
            ),
        ),
        ("pass", None): (
            (
                (
                    "Of the kernels' time {value:nothing} is products that run beside "
                    "the matrix units."
                ),
            ),
        ),
    },
)
_ITEM: Final = Item(
    id="tc.unused",
    stage=5,
    title="products run beside the matrix units",
    words=_WORDS,
    pages=("kernel_stats",),
    confirm="Look at the kernels' names in the table: none of them is one for matrix "
    "units.",
    refute="Measure a kernel with a profiler of hardware counters: if its matrix units "
    "are busy, its name misleads.",
    floors=("the memory that the kernels read and write: not measured here",),
    explains=("op.hot",),
)
#: At least a third of the time goes, at most two thirds: up to three times as fast.
_GAIN: Final = (1 / 3, 2 / 3)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Judge the time of products in kernels that use no matrix unit."""
    work = kernels_of(_ITEM, signals, thresholds, matrix_units=True)
    if isinstance(work, Finding):
        return work
    worked = _worked(work, thresholds)
    return judge_kernels(
        _ITEM,
        signals,
        thresholds,
        work,
        worked,
        warn=thresholds.units_warn,
        critical=thresholds.units_critical,
        actions=for_kernels(ACTIONS, signals, work, worked.rows),
        facts=(
            Fact(name="eligible", value=work.share(_eligible(work)), unit="percent"),
        ),
    )


def _eligible(work: KernelWork) -> pl.DataFrame:
    return work.rows.filter(
        pl.col("eligible") & ~pl.col("collective") & ~pl.col("reorders")
    )


def _worked(work: KernelWork, _: Thresholds) -> Worked:
    """Return the products that use no matrix unit."""
    eligible = _eligible(work)
    unknown = eligible.filter(pl.col("matrix_units").is_null())
    return Worked(
        eligible.filter(~pl.col("matrix_units")),
        _GAIN,
        pl.concat([unknown, undecided(work.rows)]),
        narrowed=True,
    )


RULE: Final = Rule(_ITEM, evaluate, WORKED_READS, faster(_worked))
