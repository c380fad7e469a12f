"""`allreduce.count`: more exchanges than the gradients need.

Definition: docs/advice/allreduce_count.md.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.advice.finding import Action, Fact, Finding
from stepscope.advice.item import Item
from stepscope.advice.judging.exchanged import (
    EXCHANGE_READS,
    at_rate,
    exchanges_of,
    without_sizes,
)
from stepscope.advice.rule import Rule
from stepscope.advice.signals.record import record_grade
from stepscope.advice.verdict import judge
from stepscope.advice.words import WAITING, Words
from stepscope.derive.judging.effect_status import StepSeries
from stepscope.units import MIB

if TYPE_CHECKING:
    from stepscope.advice.signals.replaying.change import Change
    from stepscope.advice.signals.signal import Signals
    from stepscope.thresholds import Thresholds

_ACTIONS: Final = (
    Action(
        cause="any",
        framework="TensorFlow",
        text="Exchange all gradients in one pack, and metrics every n-th step only.",
        code="tf.distribute.NcclAllReduce(num_packs=1)",
    ),
    Action(
        cause="any",
        framework="PyTorch",
        text="Use larger buckets, and exchange once per accumulated batch.",
        code="DistributedDataParallel(model, bucket_cap_mb=100)",
    ),
    Action(
        cause="any",
        framework="JAX",
        text="Let the compiler combine exchanges.",
        env="XLA_FLAGS=--xla_gpu_all_reduce_combine_threshold_bytes=134217728",
    ),
)
_WORDS: Final = Words(
    passed="there are no more exchanges than the gradients need",
    texts={
        **WAITING,
        ("fail", None): (
            (
                (
                    "{count} all-reduces a step exchange {mebibytes} MiB; {expected} "
                    "would do. The others cost {ms_per_step} a step."
                ),
            ),
        ),
        ("pass", "many"): (
            (
                (
                    "{count} all-reduces a step where {expected} would do, but they "
                    "are hidden behind computation."
                ),
            ),
        ),
    },
    causes={"surplus": "all-reduces beyond those that the bytes need"},
)
_ITEM: Final = Item(
    id="allreduce.count",
    stage=8,
    title="there are more exchanges than the gradients need",
    words=_WORDS,
    pages=("pod_viewer", "kernel_stats"),
    confirm="List the exchanges by size: many of them are small.",
    refute="Exchange in fewer, larger pieces: if the step takes as long, their number "
    "is not what it waits for.",
    floors=("the bytes themselves, which take as long in fewer pieces",),
    actions=_ACTIONS,
)
#: Beside the buckets: a loss and a count, say.
_SPARE: Final = 2


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Judge the exposed time of all-reduces beyond those that the bytes need."""
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
        facts=(
            Fact(name="count", value=found.count, unit="count"),
            Fact(name="expected", value=expected, unit="count"),
            Fact(name="small", value=found.small, unit="count"),
            Fact(name="mebibytes", value=found.bytes / MIB, unit="count"),
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
