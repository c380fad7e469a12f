"""Rules about all-reduces: their number, their packing and their time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import msgspec
import polars as pl

from stepscope.advice.catalogue import rule_item, shared_texts
from stepscope.advice.item import rule
from stepscope.advice.judging.kernel_time import WORKED_READS, judged_kernels
from stepscope.advice.judging.lost_time import judge_series
from stepscope.advice.signals import CannotTell, NotApplicable
from stepscope.derive.facts.devices.all_reduces import (
    communication_signals,
    exchange_signals,
)
from stepscope.derive.facts.devices.kernel_work import kernel_work
from stepscope.derive.facts.evidence import MAX_RANGES_SHOWN, Part, Saving
from stepscope.derive.facts.program_traits import program_traits
from stepscope.derive.facts.recording import record_grade
from stepscope.derive.facts.savings.what_if_changes import Carried, Faster
from stepscope.derive.verdicts.effect_status import StepSeries
from stepscope.derive.verdicts.recorded_devices import device_signals
from stepscope.thresholds import THRESHOLDS
from stepscope.units import MIB, PS_PER_MS, PS_PER_US

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding, Severity
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.devices.all_reduces import AllReduceSignals
    from stepscope.derive.facts.devices.kernel_work import KernelWork
    from stepscope.derive.facts.savings.what_if_changes import Changes
    from stepscope.derive.run_derivation import RunDerivation

_TEXTS: Final = shared_texts("exchanged")

#: The signals that a rule about all-reduces reads.
ALL_REDUCE_READS: Final[tuple[RunDerivation[Any], ...]] = (
    communication_signals,
    device_signals,
    exchange_signals,
    program_traits,
    record_grade,
)
#: Kinds of collectives of programs that divide the model, or its state, among devices.
_SHARDING_KINDS: Final = frozenset({"reduce-scatter", "all-gather", "all-to-all"})


def judged_all_reduces(signals: Signals, *, sized: bool = True) -> AllReduceSignals:
    """Return the all-reduces to judge.

    Args:
        sized: Whether the rule needs the sizes of the all-reduces.

    Raises:
        NoVerdict: There are no all-reduces to judge.
    """
    if signals.of(device_signals).recorded == "host_only":
        raise NotApplicable(_TEXTS.reason("no_device"))
    if not any(signals.needed(communication_signals).count.values()):
        raise NotApplicable(_TEXTS.reason("no_exchange"))
    all_reduces = signals.needed(exchange_signals)
    # Without gradients, all-reduces join the results of a divided layer.
    traits = signals.known(program_traits)
    forward = traits is not None and not traits.trains
    if forward or all_reduces.kinds & _SHARDING_KINDS:
        raise NotApplicable(_TEXTS.reason("divided"))
    if not all_reduces.count and "all-reduce" in all_reduces.kinds:
        raise CannotTell(_TEXTS.reason("in_no_step"))
    if not all_reduces.count:
        raise NotApplicable(_TEXTS.reason("no_exchange"))
    if sized and all_reduces.bytes is None:
        share = 100 * sum(all_reduces.exposed_ps) / max(sum(all_reduces.window_ps), 1)
        raise CannotTell(_TEXTS.reason("without_sizes", share=share))
    return all_reduces


def change_to_rate(calls: pl.DataFrame, needed_ps: pl.Expr) -> Changes:
    """Return what-if edits: some all-reduces take only the time that they need.

    Args:
        calls: Rows of `AllReduceSignals.calls`.
        needed_ps: Needed time of each call, without waiting for other workers.
    """
    # The edit does not shorten the time for which a worker waits for other workers.
    lost = (pl.col("least_ps") - needed_ps).clip(lower_bound=0)
    left = calls.select("activity", left=(pl.col("dur_ps") - lost).cast(pl.Int64))
    needed = dict(left.iter_rows())
    return (Carried(needed),) if needed else ()


_ALL_REDUCE_COUNT_ITEM: Final = rule_item("allreduce.count")

#: Number of all-reduces of other values than gradients, for example a loss and a count.
_EXTRA_ALL_REDUCES: Final = 2


def all_reduce_count_changes(signals: Signals) -> Changes:
    """Return what-if edits: surplus all-reduces only take the time for their bytes."""
    all_reduces = judged_all_reduces(signals)
    expected = _expected_count(all_reduces)
    # The largest all-reduces of each step are not edited.
    surplus = all_reduces.calls.filter(
        pl.col("link_ps").is_not_null()
        & (pl.col("bytes").rank("ordinal", descending=True).over("step") > expected)
    )
    return change_to_rate(surplus, pl.col("link_ps"))


@rule(_ALL_REDUCE_COUNT_ITEM, *ALL_REDUCE_READS, change=all_reduce_count_changes)
def judge_all_reduce_count(signals: Signals) -> Finding:
    reduces = judged_all_reduces(signals)
    expected = _expected_count(reduces)
    too_many = reduces.count > 2 * expected + _EXTRA_ALL_REDUCES
    surplus = max(reduces.count - expected, 0) / reduces.count if too_many else 0.0
    series = reduces.lost_time(
        {"surplus": tuple(round(surplus * ps) for ps in reduces.exposed_ps)}
    )
    judged = judge_series(_ALL_REDUCE_COUNT_ITEM, signals, series)
    return judged.finding(
        note="many" if too_many and judged.verdict.status == "pass" else None,
        devices=(reduces.label,),
        facts=_ALL_REDUCE_COUNT_ITEM.facts(
            count=reduces.count,
            expected=expected,
            small=reduces.small,
            mebibytes=(reduces.bytes or 0) / MIB,
        ),
        inputs=("collective_calls", "windows"),
    )


def _expected_count(all_reduces: AllReduceSignals) -> int:
    return max(math.ceil((all_reduces.bytes or 0) / THRESHOLDS.bucket_bytes.value), 1)


_PACKING_ITEM: Final = rule_item("allreduce.pack")

#: Pattern of kernels and op types that join tensors or split them.
_PACKING: Final = (
    r"(?i)concat|catarray|(?:^|[:_])cat(?:$|_)|split|(?:^|[:/])(?:un)?pack(?:$|_)"
    r"|chunk_cat|direct_copy_kernel|(?:^|::)copy_?$|_foreach_copy"
)
#: Maximum number of device activities between a packing kernel and its collective.
_NEAR: Final = 5
#: Saved share of the packing time; the bytes may still have to be moved once.
_PACKING_GAIN: Final = 0.7


def packing_changes(signals: Signals) -> Changes:
    """Return what-if edits: packing kernels take a fraction of their time."""
    classes = _packing_kernels(signals.needed(kernel_work))["class"].unique().to_list()
    return (Faster(classes, (1 - _PACKING_GAIN / 2, 1 - _PACKING_GAIN)),)


@rule(_PACKING_ITEM, *ALL_REDUCE_READS, *WORKED_READS, change=packing_changes)
def judge_packing(signals: Signals) -> Finding:
    all_reduces = judged_all_reduces(signals)
    work = judged_kernels(signals)
    packing = _packing_kernels(work)
    # Only the kernels of the typical step are known; all steps are assumed to be equal.
    series = StepSeries(
        step_source=all_reduces.step_source,
        step_confidence=all_reduces.step_confidence,
        window_ps=(work.step_ps,) * work.steps,
        parts_ps={"packing": (int(packing["dur"].sum()),) * work.steps},
    )
    finding = judge_series(
        _PACKING_ITEM, signals, series, has_steps=work.has_steps
    ).finding(
        devices=(work.label,),
        parts=_largest_parts(work, packing),
        evidence=work.evidence(packing, MAX_RANGES_SHOWN),
        facts=_PACKING_ITEM.facts(
            kernels=len(packing),
            exchanges=all_reduces.count,
            mebibytes=(all_reduces.bytes or 0) / MIB,
        ),
        inputs=("kernels", "collective_calls"),
    )
    if finding.saving_ms is None:
        return finding
    high = _PACKING_GAIN * finding.saving_ms.high
    return msgspec.structs.replace(finding, saving_ms=Saving(low=high / 2, high=high))


def _packing_kernels(work: KernelWork) -> pl.DataFrame:
    """Return the packing kernels of the typical step that are close to a collective."""
    named = work.rows.select(
        pl.col("class").cast(pl.Int64),
        "op",
        "kernel",
        "collective",
        packs=pl.col("full_name").str.contains(_PACKING)
        | pl.col("op_type").fill_null("").str.contains(_PACKING),
    )
    ordered = (
        work.shown.with_columns(pl.col("class").cast(pl.Int64))
        .join(named, on="class", how="left", maintain_order="left")
        .with_row_index("at")
        .with_columns(
            pl.col("at").cast(pl.Int64),
            pl.col("collective", "packs").fill_null(value=False),
            dur=pl.col("end_ps") - pl.col("start_ps"),
        )
    )
    exchange = pl.when("collective").then("at")
    return ordered.with_columns(
        before=pl.col("at") - exchange.forward_fill(),
        after=exchange.backward_fill() - pl.col("at"),
    ).filter(
        pl.col("packs")
        & ~pl.col("collective")
        & (pl.min_horizontal("before", "after") <= _NEAR)
    )


def _largest_parts(work: KernelWork, kernels: pl.DataFrame) -> tuple[Part, ...]:
    largest = (
        kernels.group_by(pl.coalesce("op", "kernel").alias("name"), maintain_order=True)
        .agg(pl.col("dur").sum())
        .sort("dur", "name", descending=[True, False])
        .head(MAX_RANGES_SHOWN)
    )
    return tuple(
        Part(name=name, share_percent=100 * dur / max(work.step_ps, 1))
        for name, dur in largest.iter_rows()
    )


_ALL_REDUCE_TIME_ITEM: Final = rule_item("allreduce.time")


def all_reduce_time_changes(signals: Signals) -> Changes:
    """Return what-if edits: large all-reduces run at the rate of their links."""
    large = judged_all_reduces(signals, sized=False).calls.filter(
        (pl.col("bytes") >= THRESHOLDS.large_exchange.value)
        & pl.col("link_ps").is_not_null()
    )
    return change_to_rate(large, pl.col("link_ps") + THRESHOLDS.exchange_latency.value)


@rule(_ALL_REDUCE_TIME_ITEM, *ALL_REDUCE_READS, change=all_reduce_time_changes)
def judge_all_reduce_time(signals: Signals) -> Finding:
    reduces = judged_all_reduces(signals, sized=False)
    if not reduces.least_ps:
        judged_all_reduces(signals)
        return _ALL_REDUCE_TIME_ITEM.not_applicable("all_small")
    if reduces.expected_ps is None:
        return _ALL_REDUCE_TIME_ITEM.cannot_tell("no_rate")
    reached = 100 * reduces.expected_ps / reduces.least_ps
    # Exposed all-reduce time per step, in ps.
    exposed_ps = sum(reduces.exposed_ps) / max(len(reduces.window_ps), 1)
    lost_ps = min(reduces.least_ps - reduces.expected_ps, exposed_ps)
    slow = reached < THRESHOLDS.link_warn.value and (
        lost_ps >= THRESHOLDS.smallest_effect.value
    )
    lost_ms = lost_ps / PS_PER_MS
    if slow and reduces.workers < _MIN_MEMBERS:
        # All-reduce time may include waits for workers that were not recorded.
        return _ALL_REDUCE_TIME_ITEM.cannot_tell("one_member")
    # An estimate from a rate measured in this recording is too weak for "critical".
    grave = (
        reached < THRESHOLDS.link_critical.value and reduces.rate_source == "data sheet"
    )
    severity: Severity = "critical" if grave else "warn"
    return _ALL_REDUCE_TIME_ITEM.finding(
        "fail" if slow else "pass",
        severity=severity if slow else "info",
        confidence=min(signals.of(record_grade), reduces.step_confidence),
        value=reached,
        threshold=THRESHOLDS.link_warn,
        ms_per_step=lost_ms,
        steps_clean=len(reduces.window_ps),
        devices=(reduces.label,),
        facts=(
            *_ALL_REDUCE_TIME_ITEM.facts(
                measured=reduces.least_ps / PS_PER_US,
                needed=reduces.expected_ps / PS_PER_US,
            ),
            _ALL_REDUCE_TIME_ITEM.fact(
                "gb_per_s", reduces.gb_per_s, note=reduces.rate_source
            ),
        ),
        inputs=("collective_calls", "windows"),
        saving_ms=Saving(high=lost_ms) if slow else None,
    )


#: Minimum number of recorded members; a single member's time may be waiting.
_MIN_MEMBERS: Final = 2
