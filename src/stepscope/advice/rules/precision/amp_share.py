"""`amp.share`: how much of the work is 16-bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.advice.catalogue import rule_item
from stepscope.advice.item import rule
from stepscope.advice.judging.kernel_time import (
    idle_percent,
    measured_gain_ms,
    measured_speed_changes,
)
from stepscope.advice.judging.program_facts import kernel_type_facts, narrow_type_facts
from stepscope.derive.facts.devices.kernel_precision import precision_signals
from stepscope.derive.facts.devices.kernel_work import kernel_work
from stepscope.derive.facts.evidence import Fact, Saving
from stepscope.derive.facts.program_traits import program_traits
from stepscope.derive.facts.recording import record_grade
from stepscope.derive.facts.savings.what_if_changes import Faster
from stepscope.derive.facts.step_shares import account_signals
from stepscope.derive.verdicts.effect_status import percent_of
from stepscope.derive.verdicts.recorded_devices import HOST_ONLY, device_signals
from stepscope.thresholds import THRESHOLDS
from stepscope.units import PS_PER_MS, PS_PER_US

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding, Severity, Status
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.devices.kernel_precision import PrecisionSignals
    from stepscope.derive.facts.devices.kernel_work import KernelWork
    from stepscope.derive.facts.savings.what_if_changes import Changes
    from stepscope.thresholds import Threshold
    from stepscope.unavailable import Unavailable

_ITEM: Final = rule_item("amp.share")
_IS_TF32: Final = pl.col("precision") == "tf32"
#: Kernels on matrix units that compute in 32 bit emulate 32-bit products.
_IS_EMULATED: Final = ~_IS_TF32 & pl.col("matrix_units").fill_null(value=False)


def narrower_kernel_changes(signals: Signals) -> Changes:
    """Return what-if edits that turn eligible 32-bit and TF32 kernels into 16-bit ones.

    Kernels with recorded 16-bit counterparts take the time of these counterparts.
    """
    rows = _replaceable_kernels(signals.needed(kernel_work))
    measured = rows.filter(pl.col("speedup").is_not_null())
    eligible = rows.filter(pl.col("speedup").is_null())
    predicted = tuple(
        Faster(chosen["class"].to_list(), (1 / low.value, 1 / high.value))
        for kind, low, high in _speed_ups()
        if (chosen := eligible.filter(kind)).height
    )
    return (*predicted, *measured_speed_changes(measured))


def _speed_ups() -> tuple[tuple[pl.Expr, Threshold, Threshold], ...]:
    """Return kinds of kernels, and how many times as fast 16 bit makes them."""
    return (
        (~_IS_TF32 & ~_IS_EMULATED, THRESHOLDS.amp_gain_low, THRESHOLDS.amp_gain_high),
        (
            _IS_EMULATED,
            THRESHOLDS.amp_gain_emulated_low,
            THRESHOLDS.amp_gain_emulated_high,
        ),
        (_IS_TF32, THRESHOLDS.amp_gain_tf32_low, THRESHOLDS.amp_gain_tf32_high),
    )


@rule(
    _ITEM,
    account_signals,
    device_signals,
    kernel_work,
    precision_signals,
    program_traits,
    record_grade,
    change=narrower_kernel_changes,
)
def evaluate(signals: Signals) -> Finding:
    device = signals.of(device_signals)
    if device.recorded == "host_only":
        return _ITEM.not_applicable(HOST_ONLY)
    capabilities = device.compute_capability
    first = THRESHOLDS.tensor_core_generation.value
    if capabilities and all(
        capability is not None and capability[0] < first for capability in capabilities
    ):
        return _ITEM.not_applicable("no_units", first=first)
    times = signals.needed(precision_signals)
    why_unknown = _reason_share_unknown(times)
    if why_unknown is not None:
        return _ITEM.cannot_tell(why_unknown)
    return _judge_precision(signals, times)


def _reason_share_unknown(times: PrecisionSignals) -> Unavailable | None:
    """Return why the known shares allow no verdict; None if they do."""
    if times.compute_ps == 0:
        return _ITEM.reason("no_kernels")
    limit = THRESHOLDS.amp_unknown.value
    unknown = percent_of(times.eligible_unknown_ps, times.eligible_ps)
    if times.eligible_ps and unknown >= limit:
        return _ITEM.reason("types_unknown", unknown=unknown)
    undecided = percent_of(times.undecided_ps, times.compute_ps)
    # A fail counts only kernels known to be wider than 16 bit; a pass counts all.
    passes = not _is_wide(times.eligible_ps, times.eligible_narrow_ps, times.compute_ps)
    doubtful = passes or undecided >= limit
    if doubtful and _depends_on_undecided(times):
        ops_known = 2 * times.undecided_with_op_ps > times.undecided_ps
        return _ITEM.reason(
            "names_unclear" if ops_known else "no_ops", undecided=undecided
        )
    return None


def _depends_on_undecided(times: PrecisionSignals) -> bool:
    """Return whether the kernels that may be eligible could change the verdict."""
    narrow = times.undecided_narrow_ps
    # Worst case: all undecided kernels not known to be 16-bit are wider. Best case: all
    # undecided kernels that may be 16-bit are 16-bit.
    wide_ps = times.undecided_ps - times.undecided_16_ps
    worst = _is_wide(
        times.eligible_ps + wide_ps, times.eligible_narrow_ps, times.compute_ps
    )
    best = _is_wide(
        times.eligible_ps + narrow, times.eligible_narrow_ps + narrow, times.compute_ps
    )
    return worst != best


def _is_wide(eligible_ps: int, narrow_ps: int, compute_ps: int) -> bool:
    """Return whether there is much eligible work, and most of it is not 16-bit."""
    much = percent_of(eligible_ps, compute_ps) >= THRESHOLDS.amp_eligible.value
    return much and percent_of(narrow_ps, eligible_ps) < THRESHOLDS.amp_warn.value


def _judge_precision(signals: Signals, times: PrecisionSignals) -> Finding:
    warn = THRESHOLDS.amp_warn.value
    narrow_of_all = percent_of(times.narrow_ps, times.compute_ps)
    if times.eligible_ps == 0:
        return _make_finding(signals, times, "pass")
    narrow = percent_of(times.eligible_narrow_ps, times.eligible_ps)
    tf32 = percent_of(times.eligible_tf32_ps, times.eligible_ps)
    unknown = percent_of(times.eligible_unknown_ps, times.eligible_ps)
    if _is_wide(times.eligible_ps, times.eligible_narrow_ps, times.compute_ps):
        if narrow + unknown >= warn:
            return _ITEM.cannot_tell(
                "could_flip", narrow=narrow, unknown=unknown, warn=warn
            )
        share = _share_of_time(signals, times)
        little = share is not None and share < THRESHOLDS.amp_least.value
        mostly_tf32 = narrow + tf32 >= warn
        note = "tf32" if mostly_tf32 else "little" if little else None
        # TF32 is fast already, so that only a large gain is worth a change.
        gain = (share or 0.0) * (1 - 1 / THRESHOLDS.amp_gain_tf32_high.value)
        starved = idle_percent(signals) >= THRESHOLDS.starved_device.value
        small = starved or gain < THRESHOLDS.minor_gain.value
        minor = little or (mostly_tf32 and small)
        severity: Severity = "info" if minor else "warn"
        return _make_finding(signals, times, "fail", severity, note)
    if narrow < warn and narrow_of_all < THRESHOLDS.amp_info.value:
        return _make_finding(signals, times, "fail", "info", "share_of_all")
    return _make_finding(signals, times, "pass")


def _make_finding(
    signals: Signals,
    times: PrecisionSignals,
    status: Status,
    severity: Severity = "info",
    note: str | None = None,
) -> Finding:
    failed = status == "fail"
    unknown = percent_of(times.eligible_unknown_ps, times.eligible_ps)
    per_step = _per_step_ps(times)
    work = _judged_work(signals, times)
    type_facts = (
        narrow_type_facts(signals)
        if work is None
        else kernel_type_facts(signals, work, _replaceable_kernels(work))
    )
    return _ITEM.finding(
        status,
        severity=severity,
        note=note,
        confidence=min(signals.of(record_grade), 1 - unknown / 100),
        value=_known_percent(times.eligible_narrow_ps, times.eligible_ps),
        share_percent=_share_of_time(signals, times),
        ms_per_step=None if per_step is None else per_step / PS_PER_MS,
        threshold=THRESHOLDS.amp_warn,
        steps_clean=times.steps or None,
        devices=times.devices,
        causes=times.causes if failed else (),
        facts=_facts_of_precision(times),
        evidence=times.evidence,
        inputs=("device_activity", "precision", "tensor_cores"),
        saving_ms=_saving_by_precision(signals, times) if failed else None,
        actions=_ITEM.actions_for(*type_facts),
    )


def _judged_work(signals: Signals, times: PrecisionSignals) -> KernelWork | None:
    work = signals.known(kernel_work)
    return None if work is None or work.label not in times.devices[:1] else work


def _share_of_time(signals: Signals, times: PrecisionSignals) -> float | None:
    """Return eligible wide kernels' share of step time or, without steps, all time."""
    if times.step_ps is not None:
        return _known_percent(_per_step_ps(times) or 0, times.step_ps)
    work = _judged_work(signals, times)
    if work is None:
        return None
    known = times.eligible_ps - times.eligible_unknown_ps
    return _known_percent(known - times.eligible_narrow_ps, work.step_ps)


def _per_step_ps(times: PrecisionSignals) -> int | None:
    """Return the time per step of eligible work that is not in 16 bit."""
    if times.wide_per_step_ps is None or times.tf32_per_step_ps is None:
        return None
    return times.wide_per_step_ps + times.tf32_per_step_ps


def _saving_by_precision(signals: Signals, times: PrecisionSignals) -> Saving | None:
    """Return the gain from changing 32-bit and TF32 kernels to 16 bit.

    The gain is measured if the recording has wide and 16-bit kernels of the same shape.
    """
    if times.wide_per_step_ps is None or times.tf32_per_step_ps is None:
        return None
    wide_ms, tf32_ms = (
        times.wide_per_step_ps / PS_PER_MS,
        times.tf32_per_step_ps / PS_PER_MS,
    )
    known = emulated_ms = 0.0
    work = _judged_work(signals, times)
    if work is not None:
        rows = _replaceable_kernels(work)
        measured = rows.filter(pl.col("speedup").is_not_null())
        tf32_ms = max(tf32_ms - _time_ms(measured.filter(_IS_TF32)), 0.0)
        wide_ms = max(wide_ms - _time_ms(measured.filter(~_IS_TF32)), 0.0)
        known = measured_gain_ms(measured)
        emulated = rows.filter(pl.col("speedup").is_null() & _IS_EMULATED)
        emulated_ms = min(_time_ms(emulated), wide_ms)
    predicted_ms = (wide_ms - emulated_ms, emulated_ms, tf32_ms)
    low, high = known, known
    for time_ms, (_, least, most) in zip(predicted_ms, _speed_ups(), strict=True):
        low += time_ms * (1 - 1 / least.value)
        high += time_ms * (1 - 1 / most.value)
    return Saving(low=low, high=high, open_above=sum(predicted_ms) > 0)


def _time_ms(rows: pl.DataFrame) -> float:
    return int(rows["time_ps"].sum()) / PS_PER_MS


def _replaceable_kernels(work: KernelWork) -> pl.DataFrame:
    """Return the eligible kernels that are known to be wider than 16 bit."""
    return work.rows.filter(
        pl.col("eligible")
        & pl.col("told")
        & ~pl.col("collective")
        & pl.col("precision").is_in(["32", "64", "tf32"])
    )


def _facts_of_precision(times: PrecisionSignals) -> tuple[Fact, ...]:
    shares = (
        ("eligible_of_compute", times.eligible_ps, times.compute_ps),
        ("narrow_of_compute", times.narrow_ps, times.compute_ps),
        ("tf32_of_eligible", times.eligible_tf32_ps, times.eligible_ps),
        ("unknown_of_eligible", times.eligible_unknown_ps, times.eligible_ps),
    )
    return (
        *(
            _ITEM.fact(name, _known_percent(part, total))
            for name, part, total in shares
        ),
        *(
            # A precision without kernels has no value; reports do not mention it.
            _ITEM.fact(name, ps / PS_PER_US if ps else None)
            for name, ps in (
                ("wide_per_step", times.wide_per_step_ps),
                ("tf32_per_step", times.tf32_per_step_ps),
            )
        ),
        *_ITEM.facts(narrow_kernels=times.narrow_kernels, kernels=times.kernels),
        *(
            Fact(
                name=f"decided_by_{kind}",
                value=percent,
                unit="percent",
                note="evidence",
            )
            for kind, percent in times.evidence_percent.items()
        ),
        *times.largest,
    )


def _known_percent(part: float, total: float) -> float | None:
    """Return a share in percent; None if the whole is 0."""
    return 100 * part / total if total else None
