"""`amp.cast`: time goes into changing element types.

Definition: docs/advice/amp_cast.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.advice.finding import Action, Fact, Finding
from stepscope.advice.item import Item
from stepscope.advice.judging.worked import (
    WORKED_READS,
    Worked,
    faster,
    judge_kernels,
    kernels_of,
)
from stepscope.advice.rule import Rule
from stepscope.advice.words import Words
from stepscope.frozen import Frozen
from stepscope.remedies import Remedy
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.advice.signals.computing.kernel_work import KernelWork
    from stepscope.advice.signals.signal import Signals
    from stepscope.thresholds import Thresholds

_ACTIONS: Final = (
    Action(
        cause="any",
        framework="any",
        text="Keep neighbouring ops in one type, and convert once: the batch before "
        "the copy to the device, weights when they are updated.",
    ),
    Action(
        cause="any",
        framework="PyTorch",
        text="Keep autocast's copies of the weights between forward passes, and "
        "compile the step so that conversions are fused.",
        code="torch.compile(model)",
    ),
    Action(
        cause="any",
        framework="TensorFlow",
        text="Let the compiler fuse conversions into the ops around them.",
        code="@tf.function(jit_compile=True)",
    ),
    Action(
        cause="any",
        framework="JAX",
        text="Compile the whole step at once, so that conversions are fused into the "
        "ops around them.",
        code="jax.jit(train_step)",
    ),
    Action(
        cause="doubles",
        framework="any",
        text="Find the Python number or array of 64 bits that makes these ops so wide.",
    ),
)
_WORDS: Final = Words(
    passed="little time goes into changing element types",
    texts={
        ("fail", None): (
            (
                (
                    "{value} of the kernels' time changes element types, most of it "
                    "{named}."
                ),
            ),
        ),
        ("fail", "doubles"): (
            ("{doubles} of the kernels' time computes in 64 bit, most of it {named}.",),
        ),
        ("pass", None): (
            ("Of the kernels' time {value:nothing} changes element types.",),
        ),
    },
)
_ITEM: Final = Item(
    id="amp.cast",
    stage=6,
    title="time goes into changing element types",
    words=_WORDS,
    pages=("kernel_stats", "framework_op_stats"),
    confirm="Look at the ops before and after the named one: their types differ.",
    refute="If the conversion is fused into its neighbour and the step takes as long, "
    "the memory is what it waits for.",
    floors=("what the neighbours read and write in any case",),
    actions=_ACTIONS,
)
_GAIN: Final = (0.5, 0.9)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Judge the time of kernels that only convert, and of work in 64 bit."""
    work = kernels_of(_ITEM, signals, thresholds)
    if isinstance(work, Finding):
        return work
    looked = _look(work, thresholds)
    computing, is_wide = looked.computing, looked.is_wide
    if not computing["op"].count() and not computing["converts"].any():
        return _ITEM.cannot_tell(_NO_OPS)
    doubles = work.share(looked.doubles)
    return judge_kernels(
        _ITEM,
        signals,
        thresholds,
        work,
        looked.worked,
        warn=thresholds.doubles_warn if is_wide else thresholds.cast_warn,
        critical=thresholds.cast_critical,
        note="doubles" if is_wide else None,
        facts=(Fact(name="doubles", value=doubles or None, unit="percent"),),
        actions=tuple(one for one in _ACTIONS if (one.cause == "doubles") == is_wide),
    )


class _Looked(Frozen, frozen=True):
    """What the rule looks at.

    Attributes:
        computing: All kernels that do not exchange.
        doubles: Those in 64 bit.
        is_wide: Whether work in 64 bit is the matter, and not conversions.
        worked: The kernels that only convert, or else those in 64 bit.
    """

    computing: pl.DataFrame
    doubles: pl.DataFrame
    is_wide: bool
    worked: Worked


def _look(work: KernelWork, thresholds: Thresholds) -> _Looked:
    computing = work.rows.filter(~pl.col("collective"))
    doubles = computing.filter(pl.col("told") & (pl.col("precision") == "64"))
    casts = computing.filter("converts")
    limit = thresholds.doubles_warn.value
    is_wide = work.share(doubles) >= limit > work.share(casts)
    unknown = computing.filter(pl.col("converts").is_null())
    worked = Worked(doubles if is_wide else casts, _GAIN, unknown)
    return _Looked(computing, doubles, is_wide, worked)


def _worked(work: KernelWork, thresholds: Thresholds) -> Worked:
    return _look(work, thresholds).worked


_NO_OPS: Final = Unavailable(
    code="NO_KERNEL_DETAILS",
    reason="No kernel carries an op, so that conversions cannot be told from copies.",
    remedy=Remedy.RECORD_KERNEL_OPS,
)
RULE: Final = Rule(_ITEM, evaluate, WORKED_READS, faster(_worked))
