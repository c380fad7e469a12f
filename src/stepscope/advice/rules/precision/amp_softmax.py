"""`amp.softmax`: a softmax gives its result in 16 bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.advice.catalogue import rule_item
from stepscope.advice.finding import Finding
from stepscope.advice.judging.worked import WORKED_READS, kernels_of
from stepscope.advice.rule import Rule
from stepscope.derive.facts.evidence import SHOWN, Part
from stepscope.derive.facts.recording import record_grade

if TYPE_CHECKING:
    from stepscope.advice.signals import Signals
    from stepscope.thresholds import Thresholds

_ITEM: Final = rule_item("amp.softmax")

#: Ops and kernels that are a softmax by themselves.
_SOFTMAX: Final = r"(?i)^(?:aten::)?_?(?:log_?)?softmax"
_KERNEL: Final = r"(?i)softmax"
_FUSED: Final = r"(?i)flash|fmha|attention|sdpa|cross_?entropy|nll"


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    work = kernels_of(_ITEM, signals, thresholds)
    if isinstance(work, Finding):
        return work
    computing = work.rows.filter(~pl.col("collective"))
    narrow = work.share(computing.filter(pl.col("precision") == "16"))
    if narrow < thresholds.amp_in_use.value:
        return _ITEM.not_applicable("not_in_use")
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
        facts=_ITEM.facts(softmax_kernels=harmful.height),
        evidence=work.evidence(harmful, SHOWN),
        inputs=("kernels",),
    )


RULE: Final = Rule(_ITEM, evaluate, WORKED_READS)
