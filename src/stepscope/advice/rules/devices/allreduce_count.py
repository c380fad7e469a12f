"""`allreduce.count`: more exchanges than the gradients need."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.advice.catalogue import rule_item
from stepscope.advice.finding import Finding
from stepscope.advice.judging.exchanged import (
    EXCHANGE_READS,
    at_rate,
    exchanges_of,
    without_sizes,
)
from stepscope.advice.rule import Rule
from stepscope.advice.verdict import judge
from stepscope.derive.facts.recording import record_grade
from stepscope.derive.judging.effect_status import StepSeries
from stepscope.units import MIB

if TYPE_CHECKING:
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.replaying.edits import Change
    from stepscope.thresholds import Thresholds

_ITEM: Final = rule_item("allreduce.count")

#: Beside the buckets: a loss and a count, say.
_SPARE: Final = 2


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    found = exchanges_of(_ITEM, signals)
    if isinstance(found, Finding):
        return found
    if found.bytes is None:
        return _ITEM.cannot_tell(without_sizes(found))
    expected = _expected(found.bytes, thresholds)
    many = found.count > 2 * expected + _SPARE
    surplus = max(found.count - expected, 0) / found.count if many else 0.0
    verdict = judge(
        StepSeries(
            step_source=found.step_source,
            step_confidence=found.step_confidence,
            window_ps=found.window_ps,
            parts_ps={
                "surplus": tuple(round(surplus * one) for one in found.exposed_ps)
            },
        ),
        warn=thresholds.surplus_warn,
        critical=thresholds.surplus_critical,
        thresholds=thresholds,
    )
    return _ITEM.judged(
        verdict,
        grade=signals.of(record_grade),
        threshold=thresholds.surplus_warn,
        smallest=thresholds.smallest_effect,
        stepped=found.step_source is not None,
        note="many" if many and verdict.status == "pass" else None,
        devices=(found.label,),
        facts=_ITEM.facts(
            count=found.count,
            expected=expected,
            small=found.small,
            mebibytes=found.bytes / MIB,
        ),
        inputs=("collective_calls", "windows"),
    )


def _expected(bytes_: float, thresholds: Thresholds) -> int:
    return max(math.ceil(bytes_ / thresholds.bucket_bytes.value), 1)


def changes(signals: Signals, thresholds: Thresholds) -> tuple[Change, ...]:
    """Let the bytes of the surplus go with others: they take what the link needs."""
    found = exchanges_of(_ITEM, signals)
    if isinstance(found, Finding) or found.bytes is None:
        return ()
    expected = _expected(found.bytes, thresholds)
    # The largest of a step stay as they are.
    surplus = found.calls.filter(
        pl.col("link_ps").is_not_null()
        & (pl.col("bytes").rank("ordinal", descending=True).over("step") > expected)
    )
    return at_rate(surplus, pl.col("link_ps"))


RULE: Final = Rule(_ITEM, evaluate, EXCHANGE_READS, changes)
