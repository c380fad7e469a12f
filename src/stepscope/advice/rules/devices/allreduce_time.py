"""`allreduce.time`: exchanges are slower than the link allows.

Definition: docs/advice/allreduce_time.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.advice.finding import Action, Fact, Finding, Saving
from stepscope.advice.item import Item
from stepscope.advice.judging.exchanged import (
    EXCHANGE_READS,
    at_rate,
    exchanges_of,
    without_sizes,
)
from stepscope.advice.rule import Rule
from stepscope.advice.signals.record import record_grade
from stepscope.advice.words import Words
from stepscope.remedies import Remedy
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_MS, PS_PER_US

if TYPE_CHECKING:
    from stepscope.advice.finding import Severity
    from stepscope.advice.signals.replaying.change import Change
    from stepscope.advice.signals.several.exchanges import ExchangeSignals
    from stepscope.advice.signals.signal import Signals
    from stepscope.thresholds import Thresholds

_ACTIONS: Final = (
    Action(
        cause="any",
        framework="any",
        text="Look which way the data goes: direct links between the devices, or "
        "InfiniBand between hosts, must be found and used.",
        env="NCCL_DEBUG=INFO",
    ),
    Action(
        cause="any",
        framework="PyTorch",
        text="Exchange gradients in 16 bit.",
        code="model.register_comm_hook(None, default_hooks.bf16_compress_hook)",
    ),
    Action(
        cause="any",
        framework="any",
        text="Exchange in fewer, larger pieces.",
    ),
)
_WORDS: Final = Words(
    texts={
        ("fail", None): (
            (
                (
                    "All-reduces take {measured} a step, without waiting; at "
                    "{gb_per_s} GB/s they would need {needed}."
                ),
            ),
        ),
        ("pass", None): (
            (
                (
                    "All-reduces take {measured} a step, without waiting; at "
                    "{gb_per_s} GB/s they need {needed}."
                ),
            ),
        ),
    },
)
_ITEM: Final = Item(
    id="allreduce.time",
    stage=8,
    title="exchanges are slower than the link allows",
    words=_WORDS,
    pages=("pod_viewer", "overview_page"),
    confirm="Measure the link by itself with the all-reduce test of its vendor.",
    refute="If that test is no faster at these sizes, the link has no more to give.",
    floors=("time in which the exchange is hidden behind computation",),
    actions=_ACTIONS,
)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Compare the shortest time of each large all-reduce with what its link needs."""
    found = exchanges_of(_ITEM, signals)
    if isinstance(found, Finding):
        return found
    if not found.least_ps:
        if found.bytes is None:
            return _ITEM.cannot_tell(without_sizes(found))
        return _ITEM.not_applicable(_ALL_SMALL)
    if found.expected_ps is None:
        return _ITEM.cannot_tell(_NO_RATE)
    reached = 100 * found.expected_ps / found.least_ps
    slow = reached < thresholds.link_warn.value and _lost_ps(found) >= (
        thresholds.smallest_effect.value
    )
    if slow and found.workers < _TOGETHER:
        # Waiting for workers that were not recorded may be in the time.
        return _ITEM.cannot_tell(_ONE_MEMBER)
    return _ITEM.finding(
        "fail" if slow else "pass",
        severity=_severity(found, reached, thresholds) if slow else "info",
        confidence=min(signals.of(record_grade), found.step_confidence),
        value=reached,
        threshold=thresholds.link_warn,
        ms_per_step=_lost_ps(found) / PS_PER_MS,
        steps_clean=len(found.window_ps),
        devices=(found.label,),
        facts=_facts(found),
        inputs=("collective_calls", "windows"),
        saving_ms=_saving(found) if slow else None,
    )


def _lost_ps(found: ExchangeSignals) -> float:
    """Return the time beyond what the link needs that nothing hides, per step."""
    exposed = sum(found.exposed_ps) / max(len(found.window_ps), 1)
    return min(found.least_ps - (found.expected_ps or 0.0), exposed)


def _severity(
    found: ExchangeSignals, reached: float, thresholds: Thresholds
) -> Severity:
    """Return how grave it is; a rate that the recording itself shows is no proof."""
    grave = reached < thresholds.link_critical.value
    return "critical" if grave and found.rate_source == "data sheet" else "warn"


def _saving(found: ExchangeSignals) -> Saving:
    most = _lost_ps(found) / PS_PER_MS
    return Saving(low=most / 2, high=most)


def _facts(found: ExchangeSignals) -> tuple[Fact, ...]:
    needed = found.expected_ps
    return (
        Fact(
            name="measured",
            value=found.least_ps / PS_PER_US,
            unit="us",
            note="of each all-reduce the worker on which it was shortest",
        ),
        Fact(
            name="needed",
            value=None if needed is None else needed / PS_PER_US,
            unit="us",
        ),
        Fact(
            name="gb_per_s",
            value=found.gb_per_s,
            unit="count",
            note=found.rate_source,
        ),
    )


#: Members whose shortest time holds no waiting.
_TOGETHER: Final = 2
_ALL_SMALL: Final = Unavailable(
    code="NO_SAMPLES",
    reason="No all-reduce of a step exchanges 4 MiB or more.",
    remedy="Nothing to do.",
)
_NO_RATE: Final = Unavailable(
    code="NO_SHAPES",
    reason="What the all-reduces would need is unknown: their sizes or groups, or the "
    "rate of the link, were not recorded.",
    remedy=Remedy.RECORD_SHAPES,
)
_ONE_MEMBER: Final = Unavailable(
    code="NO_SAMPLES",
    reason="One member of each all-reduce was recorded: it may have waited for the "
    "others.",
    remedy="Record all workers over the same steps.",
)


def changes(signals: Signals, thresholds: Thresholds) -> tuple[Change, ...]:
    """Let large all-reduces take what their link needs, and wait as long as before."""
    found = exchanges_of(_ITEM, signals)
    if isinstance(found, Finding):
        return ()
    large = found.calls.filter(
        (pl.col("bytes") >= thresholds.large_exchange.value)
        & pl.col("link_ps").is_not_null()
    )
    latency = thresholds.exchange_latency.value
    return at_rate(large, pl.col("link_ps") + latency)


RULE: Final = Rule(_ITEM, evaluate, EXCHANGE_READS, changes)
