"""`amp.softmax`: a softmax gives its result in 16 bit.

Definition: docs/advice/amp_softmax.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.advice.finding import Action, Finding
from stepscope.advice.item import Item
from stepscope.advice.judging.worked import WORKED_READS, kernels_of
from stepscope.advice.rule import Rule
from stepscope.advice.words import Words
from stepscope.derive.facts.evidence import SHOWN, Fact, Part
from stepscope.derive.facts.recording import record_grade
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.advice.signals import Signals
    from stepscope.thresholds import Thresholds

_ACTIONS: Final = (
    Action(
        cause="any",
        framework="TensorFlow",
        text="Give the last activation 32 bits.",
        code="tf.keras.layers.Activation('softmax', dtype='float32')",
    ),
    Action(
        cause="any",
        framework="JAX",
        text="Cast the logits before the softmax.",
        code="jax.nn.softmax(logits.astype(jnp.float32))",
    ),
    Action(
        cause="any",
        framework="PyTorch",
        text="Leave the types to autocast, which keeps this op in 32 bits, instead of "
        "calling .half() on the model.",
    ),
)
_WORDS: Final = Words(
    passed="every softmax gives its result in 32 bit",
    texts={
        ("fail", None): (
            (
                (
                    "The op {named} computes a softmax in 16 bit, outside fused "
                    "attention: it may harm the convergence."
                ),
            ),
        ),
        ("pass", None): (("No softmax outside fused attention computes in 16 bit.",),),
    },
)
_ITEM: Final = Item(
    id="amp.softmax",
    stage=6,
    title="a softmax computes in 16 bit",
    words=_WORDS,
    pages=("kernel_stats",),
    confirm="Compare the loss curve with one in which this op has 32 bits.",
    refute="If the curves are equal, the range of the logits is small enough.",
    actions=_ACTIONS,
)
#: Ops and kernels that are a softmax by themselves.
_SOFTMAX: Final = r"(?i)^(?:aten::)?_?(?:log_?)?softmax"
_KERNEL: Final = r"(?i)softmax"
_FUSED: Final = r"(?i)flash|fmha|attention|sdpa|cross_?entropy|nll"


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Look for softmax kernels whose numbers all have 16 bits."""
    work = kernels_of(_ITEM, signals, thresholds)
    if isinstance(work, Finding):
        return work
    computing = work.rows.filter(~pl.col("collective"))
    narrow = work.share(computing.filter(pl.col("precision") == "16"))
    if narrow < thresholds.amp_in_use.value:
        return _ITEM.not_applicable(_NOT_IN_USE)
    found = computing.filter(
        (
            pl.col("op_type").str.contains(_SOFTMAX)
            | pl.col("kernel").str.contains(_KERNEL)
        )
        & ~pl.col("full_name").str.contains(_FUSED)
        & ~pl.col("op").fill_null("").str.contains(_FUSED)
    )
    # A kernel that names 32 bits beside 16 reads one and writes the other.
    harmful = found.filter(
        pl.col("told")
        & (pl.col("precision") == "16")
        & ~pl.col("full_name").str.contains(r"\bfloat\b|f32|fp32")
    )
    return _ITEM.finding(
        "fail" if harmful.height else "pass",
        confidence=signals.of(record_grade),
        devices=(work.label,),
        parts=tuple(
            Part(name=row["op"] or row["kernel"], share_percent=work.share(harmful))
            for row in harmful.head(1).iter_rows(named=True)
        ),
        facts=(Fact(name="softmax_kernels", value=harmful.height, unit="count"),),
        evidence=work.evidence(harmful, SHOWN),
        inputs=("kernels",),
    )


_NOT_IN_USE: Final = Unavailable(
    code="NO_SAMPLES",
    reason="The program does not compute in 16 bit.",
    remedy="Nothing to do.",
)
RULE: Final = Rule(_ITEM, evaluate, WORKED_READS)
