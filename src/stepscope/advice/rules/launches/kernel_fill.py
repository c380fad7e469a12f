"""`kernel.fill`: kernels have fewer blocks than the device has multiprocessors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.catalogue import rule_item
from stepscope.advice.rule import Rule
from stepscope.derive.facts.devices.device_fill import COMPUTE, fill_signals
from stepscope.derive.facts.evidence import Fact, Part, Saving
from stepscope.derive.facts.recording import record_grade
from stepscope.derive.facts.replaying.edits import Faster
from stepscope.derive.facts.step_shares import account_signals
from stepscope.derive.judging.recorded_devices import HOST_ONLY, device_signals
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding, Severity
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.devices.device_fill import DeviceFill
    from stepscope.derive.facts.replaying.edits import Change
    from stepscope.derive.facts.step_shares import StepShares
    from stepscope.thresholds import Thresholds

_ITEM: Final = rule_item("kernel.fill")


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    if signals.of(device_signals).recorded == "host_only":
        return _ITEM.not_applicable(HOST_ONLY)
    account = signals.of(account_signals)
    if isinstance(account, Unavailable):
        return _ITEM.cannot_tell(account)
    devices = signals.of(fill_signals)
    if isinstance(devices, Unavailable):
        return _ITEM.cannot_tell(devices)
    shares = account.judged()
    fill = devices.get(shares.label)
    if fill is None or 2 * fill.unshaped_ps >= fill.kernel_ps:
        return _ITEM.cannot_tell("no_grids")
    return _finding(signals, shares, fill, thresholds)


def _finding(
    signals: Signals, shares: StepShares, fill: DeviceFill, thresholds: Thresholds
) -> Finding:
    compute = shares.percent(*COMPUTE)
    percent = fill.unfilled_percent(shares)
    steps = max(len(shares.window_ps), 1)
    step_ms = shares.total_ps / steps / PS_PER_MS
    effect = step_ms * percent / 100
    idle = step_ms * compute / 100 * fill.idle_ps / max(fill.kernel_ps, 1)
    failed = percent >= thresholds.fill_warn.value and _is_long(effect, thresholds)
    severity: Severity = "info"
    if failed:
        grave = percent >= thresholds.fill_critical.value
        many = steps >= thresholds.few_steps.value
        severity = "critical" if grave and many else "warn"
    stepped = shares.step_source is not None
    ragged = compute * (fill.last_round_ps or 0) / max(fill.kernel_ps, 1)
    in_rounds = not failed and ragged >= thresholds.fill_warn.value
    return _ITEM.finding(
        "fail" if failed else "pass",
        severity=severity,
        note="rounds" if in_rounds else None,
        confidence=min(signals.of(record_grade), shares.step_confidence or 0.5),
        value=percent,
        ms_per_step=effect if stepped else None,
        steps_clean=len(shares.window_ps) if stepped else None,
        threshold=thresholds.fill_warn,
        devices=(shares.label,),
        parts=tuple(
            Part(
                name=one.name,
                detail=_ITEM.note("blocks", blocks=one.blocks),
                share_percent=compute * one.time_ps / max(fill.kernel_ps, 1),
            )
            for one in (fill.in_rounds if in_rounds else fill.largest)
        ),
        facts=(
            *_ITEM.facts(cores=fill.cores),
            *_rounds(fill, compute),
            *_ITEM.facts(without_grid=100 * fill.unshaped_ps / max(fill.kernel_ps, 1)),
        ),
        inputs=("kernels", "account"),
        saving_ms=Saving(low=idle / 2, high=idle) if failed and stepped else None,
    )


def _rounds(fill: DeviceFill, compute: float) -> tuple[Fact, ...]:
    """Return what is known of rounds, and what a larger grid would be enough."""
    known = fill.last_round_ps is not None
    part = compute / max(fill.kernel_ps, 1)
    first = next(iter(fill.largest), None)
    three = None if first is None else first.for_three_rounds
    return _ITEM.facts(
        last_round=part * (fill.last_round_ps or 0) if known else None,
        last_round_idle=part * fill.last_round_idle_ps if known else None,
        for_one_each=None if first is None else round(first.for_one_each, 1),
        for_three_rounds=None if three is None else round(three, 1),
    )


def changes(signals: Signals, _: Thresholds) -> tuple[Change, ...]:
    """Let each such kernel take less by the multiprocessors without a block.

    That is what other work on these would gain: a larger batch by the sample, or
    branches that are computed together.
    """
    account, devices = signals.of(account_signals), signals.of(fill_signals)
    if isinstance(account, Unavailable) or isinstance(devices, Unavailable):
        return ()
    fill = devices.get(account.judged().label)
    if fill is None:
        return ()
    return tuple(
        Faster(classes, (1 - idle / 2, 1 - idle)) for idle, classes in fill.classes
    )


def _is_long(effect_ms: float, thresholds: Thresholds) -> bool:
    return effect_ms * PS_PER_MS >= thresholds.smallest_effect.value


RULE: Final = Rule(
    _ITEM,
    evaluate,
    (account_signals, device_signals, fill_signals, record_grade),
    changes,
)
