"""Rules about programs that compute in 16 bit: types of kernels, units, and scaling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.advice.catalogue import rule_item
from stepscope.advice.item import rule
from stepscope.advice.judging.kernel_time import (
    WORKED_READS,
    Worked,
    faster_kernels_change,
    judge_kernels,
    judged_kernels,
    undecided_kernels,
)
from stepscope.advice.judging.lost_time import OWNED_READS, Owned, judge_owned
from stepscope.advice.judging.program_facts import kernel_type_facts
from stepscope.derive.facts.devices.kernel_precision import finite_checks
from stepscope.derive.facts.evidence import MAX_RANGES_SHOWN, Part
from stepscope.derive.facts.program_traits import program_traits
from stepscope.derive.facts.recording import record_grade
from stepscope.derive.facts.savings.what_if_changes import NotAwaited
from stepscope.derive.verdicts.recorded_devices import HOST_ONLY, device_signals
from stepscope.thresholds import THRESHOLDS

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.devices.kernel_work import KernelWork
    from stepscope.derive.facts.savings.what_if_changes import Changes

_CASTS_ITEM: Final = rule_item("amp.cast")

_CASTS_GAIN: Final = (0.5, 0.9)


@rule(
    _CASTS_ITEM,
    *WORKED_READS,
    change=faster_kernels_change(
        lambda work: _sort_conversions(work, _computing_kernels(work))[0]
    ),
)
def judge_casts(signals: Signals) -> Finding:
    work = judged_kernels(signals)
    computing = _computing_kernels(work)
    worked, doubles, is_wide = _sort_conversions(work, computing)
    if not computing["op"].count() and not computing["converts"].any():
        return _CASTS_ITEM.cannot_tell("no_ops")
    return judge_kernels(
        _CASTS_ITEM,
        signals,
        work,
        worked,
        warn=THRESHOLDS.doubles_warn if is_wide else None,
        note="doubles" if is_wide else None,
        facts=_CASTS_ITEM.facts(doubles=work.share(doubles) or None),
        actions=_CASTS_ITEM.actions_for("doubles" if is_wide else "casts"),
    )


def _computing_kernels(work: KernelWork) -> pl.DataFrame:
    return work.rows.filter(~pl.col("collective"))


def _sort_conversions(
    work: KernelWork, computing: pl.DataFrame
) -> tuple[Worked, pl.DataFrame, bool]:
    """Return the conversions, the kernels in 64 bit, and whether these matter more.

    If they do, the kernels in 64 bit are returned in place of the conversions.
    """
    doubles = computing.filter(pl.col("told") & (pl.col("precision") == "64"))
    casts = computing.filter("converts")
    is_wide = work.share(doubles) >= THRESHOLDS.doubles_warn.value > work.share(casts)
    unknown = computing.filter(pl.col("converts").is_null())
    worked = Worked(doubles if is_wide else casts, _CASTS_GAIN, unknown)
    return worked, doubles, is_wide


_FALLBACKS_ITEM: Final = rule_item("amp.fallback")

_FALLBACKS_GAIN: Final = (1 / 3, 2 / 3)


def _fallbacks_worked(work: KernelWork) -> Worked:
    """Return the products in 32 bit, and 16-bit products without matrix units."""
    eligible = _eligible_products(work)
    outside = eligible.filter(
        pl.col("told") & pl.col("precision").is_in(["32", "64"])
        | (pl.col("precision") == "16") & ~pl.col("matrix_units")
    )
    untold = pl.concat([eligible.filter(~pl.col("told")), undecided_kernels(work.rows)])
    return Worked(outside, _FALLBACKS_GAIN, untold, narrowed=True)


@rule(_FALLBACKS_ITEM, *WORKED_READS, change=faster_kernels_change(_fallbacks_worked))
def judge_fallbacks(signals: Signals) -> Finding:
    work = judged_kernels(signals, matrix_units=True)
    computing = _computing_kernels(work)
    narrow = work.share(computing.filter(pl.col("precision") == "16"))
    if narrow < THRESHOLDS.amp_in_use.value:
        return _FALLBACKS_ITEM.not_applicable("not_in_use")
    return judge_kernels(
        _FALLBACKS_ITEM,
        signals,
        work,
        _fallbacks_worked(work),
        facts=_FALLBACKS_ITEM.facts(narrow=narrow),
    )


_SOFTMAX_ITEM: Final = rule_item("amp.softmax")

#: Patterns of softmax ops, softmax kernels, and fused kernels that contain a softmax.
_SOFTMAX: Final = r"(?i)^(?:aten::)?_?(?:log_?)?softmax"
_KERNEL: Final = r"(?i)softmax"
_FUSED: Final = r"(?i)flash|fmha|attention|sdpa|cross_?entropy|nll"
#: A parameter for a result of 16 bits: a pointer that is not constant. Kernels of
#: PyTorch compute in `float`, also named, and round the result.
_NARROW_RESULT: Final = (
    r"(?i)[(,]\s*(?:(?:c10|eigen)::)?(?:__)?(?:nv_)?b?(?:half|float16)\s*\*"
)


@rule(_SOFTMAX_ITEM, *WORKED_READS, program_traits)
def judge_softmax(signals: Signals) -> Finding:
    work = judged_kernels(signals)
    traits = signals.known(program_traits)
    if traits is not None and not traits.trains:
        return _SOFTMAX_ITEM.not_applicable("no_training")
    computing = _computing_kernels(work)
    narrow = work.share(computing.filter(pl.col("precision") == "16"))
    if narrow < THRESHOLDS.amp_in_use.value:
        return _SOFTMAX_ITEM.not_applicable("not_in_use")
    softmax = computing.filter(
        (
            pl.col("op_type").str.contains(_SOFTMAX)
            | pl.col("kernel").str.contains(_KERNEL)
        )
        & ~pl.col("full_name").str.contains(_FUSED)
        & ~pl.col("op").fill_null("").str.contains(_FUSED)
    )
    # A kernel with both a 16-bit and a 32-bit type in its name converts between them.
    converts = pl.col("full_name").str.contains(r"\bfloat\b|f32|fp32")
    is_narrow = pl.col("full_name").str.contains(_NARROW_RESULT) | ~converts
    harmful = softmax.filter(pl.col("told") & (pl.col("precision") == "16") & is_narrow)
    return _SOFTMAX_ITEM.finding(
        "fail" if harmful.height else "pass",
        confidence=signals.of(record_grade),
        devices=(work.label,),
        parts=tuple(
            Part(name=row["op"] or row["kernel"], share_percent=work.share(harmful))
            for row in harmful.head(1).iter_rows(named=True)
        ),
        facts=_SOFTMAX_ITEM.facts(softmax_kernels=harmful.height),
        evidence=work.evidence(harmful, MAX_RANGES_SHOWN),
        inputs=("kernels",),
    )


_ODD_SIZE_ITEM: Final = rule_item("tc.dims")

#: Saved share of the kernels' time: up to about 2/3, minus the cost of padding.
_ODD_SIZES_GAIN: Final = (0.3, 0.6)


def _odd_sizes_worked(work: KernelWork) -> Worked:
    """Return 16-bit products of odd sizes that do not use the matrix units."""
    without_units = _eligible_products(work).filter(
        ~pl.col("matrix_units") & (pl.col("precision") == "16")
    )
    return Worked(
        without_units.filter(pl.col("odd_size").is_not_null()),
        _ODD_SIZES_GAIN,
        pl.concat(
            [without_units.filter(~pl.col("sized")), undecided_kernels(work.rows)]
        ),
    )


@rule(_ODD_SIZE_ITEM, *WORKED_READS, change=faster_kernels_change(_odd_sizes_worked))
def judge_odd_sizes(signals: Signals) -> Finding:
    work = judged_kernels(signals, matrix_units=True)
    worked = _odd_sizes_worked(work)
    odd = worked.rows
    return judge_kernels(
        _ODD_SIZE_ITEM,
        signals,
        work,
        worked,
        why_unknown=_ODD_SIZE_ITEM.reason("no_sizes"),
        facts=_ODD_SIZE_ITEM.facts(odd_size=odd["odd_size"][0] if odd.height else None),
    )


_UNUSED_UNITS_ITEM: Final = rule_item("tc.unused")

#: Saved share of the kernels' time: a third to two thirds (up to three times as fast).
_UNUSED_UNITS_GAIN: Final = (1 / 3, 2 / 3)


def _unused_units_worked(work: KernelWork) -> Worked:
    """Return the products that do not use the matrix units."""
    eligible = _eligible_products(work)
    unknown = eligible.filter(pl.col("matrix_units").is_null())
    return Worked(
        eligible.filter(~pl.col("matrix_units")),
        _UNUSED_UNITS_GAIN,
        pl.concat([unknown, undecided_kernels(work.rows)]),
        narrowed=True,
    )


@rule(
    _UNUSED_UNITS_ITEM,
    *WORKED_READS,
    change=faster_kernels_change(_unused_units_worked),
)
def judge_unused_units(signals: Signals) -> Finding:
    work = judged_kernels(signals, matrix_units=True)
    worked = _unused_units_worked(work)
    return judge_kernels(
        _UNUSED_UNITS_ITEM,
        signals,
        work,
        worked,
        actions=_UNUSED_UNITS_ITEM.actions_for(
            *kernel_type_facts(signals, work, worked.rows)
        ),
        facts=_UNUSED_UNITS_ITEM.facts(eligible=work.share(_eligible_products(work))),
    )


def _eligible_products(work: KernelWork) -> pl.DataFrame:
    # An op that computes a product also runs kernels that only prepare its operands.
    prepares = pl.col("reorders") | pl.col("plain")
    return work.rows.filter(pl.col("eligible") & ~pl.col("collective") & ~prepares)


_SCALING_ITEM: Final = rule_item("amp.scaling")

_SCALING_OWNED: Final = Owned(
    parts={"scaling": ("scaling",)},
    device=True,
    steps=True,
    seen=("scaling", "launch"),
    # The gaps are gaps of the device, so unexplained time cannot be a further gap.
    unknown=False,
    lost=True,
)


def unawaited_check_changes(signals: Signals) -> Changes:
    """Return what-if edits: no call waits for the check of the gradients."""
    if signals.of(device_signals).recorded == "host_only":
        return ()
    return (NotAwaited("scaling"),)


@rule(_SCALING_ITEM, *OWNED_READS, finite_checks, change=unawaited_check_changes)
def judge_scaling(signals: Signals) -> Finding:
    if signals.of(device_signals).recorded == "host_only":
        return _SCALING_ITEM.not_applicable(HOST_ONLY)
    if signals.needed(finite_checks) is None:
        return _SCALING_ITEM.not_applicable("no_check")
    judged = judge_owned(_SCALING_ITEM, _SCALING_OWNED, signals)
    return judged.finding(inputs=("account", "account_parts", "device_activity"))
