"""`launch.eager`: ops run one by one, outside a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from stepscope.advice.catalogue import rule_item
from stepscope.advice.item import rule
from stepscope.advice.judging.host_functions import FUNCTION_READS, are_ops_of_function
from stepscope.advice.judging.owned import OWNED_READS
from stepscope.advice.lost_time_verdict import judge
from stepscope.derive.facts.evidence import Part
from stepscope.derive.facts.hosts.eager_ops import eager_signals
from stepscope.derive.facts.recording import record_grade
from stepscope.derive.facts.step_shares import account_signals
from stepscope.derive.verdicts.recorded_devices import device_signals

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding
    from stepscope.advice.lost_time_verdict import Verdict
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.hosts.eager_ops import EagerOps
    from stepscope.derive.facts.step_shares import StepShares
    from stepscope.thresholds import Thresholds
    from stepscope.unavailable import Unavailable

_ITEM: Final = rule_item("launch.eager")


@rule(_ITEM, *OWNED_READS, *FUNCTION_READS)
def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    account = signals.needed(account_signals)
    eager = signals.needed(eager_signals)
    shares = account.judged("host_compute")
    ops = eager.hosts.get(shares.host)
    if ops is None:
        return (
            _ITEM.not_applicable("torch")
            if eager.torch
            else _ITEM.cannot_tell("no_ops")
        )
    why_unknown = _reason_cost_unknown(signals, shares, thresholds)
    if why_unknown is not None:
        return _ITEM.cannot_tell(why_unknown)
    # Lost time of eager ops: late launches, or the time from one op to the next.
    series = (
        shares.lost_time({"dispatch": ops.dispatch_ps})
        if shares.device is None
        else shares.series(
            {"launch": ("launch",)}, unknown_from=_NEVER, clocks=True, lost=True
        )
    )
    verdict = judge(
        series,
        warn=thresholds.launch_warn,
        critical=thresholds.launch_critical,
        thresholds=thresholds,
    )
    return _finding_of_eager_ops(signals, shares, ops, verdict, thresholds)


def _reason_cost_unknown(
    signals: Signals, shares: StepShares, thresholds: Thresholds
) -> Unavailable | None:
    """Return why the lost time of the ops is unknown; None if it is known."""
    if shares.step_confidence < thresholds.medium_confidence.value:
        return _ITEM.reason("no_steps")
    device = signals.of(device_signals)
    if shares.device is None and device.recorded != "host_only":
        return device.reason or _ITEM.reason("no_ops")
    return shares.missing.get("launch") if shares.device is not None else None


def _finding_of_eager_ops(
    signals: Signals,
    shares: StepShares,
    ops: EagerOps,
    verdict: Verdict,
    thresholds: Thresholds,
) -> Finding:
    share, eager = ops.percent, ops.lead(thresholds)
    if eager and verdict.unavailable is not None:
        return _ITEM.cannot_tell(verdict.unavailable)
    failed = eager and verdict.status == "fail"
    on_device = shares.device is not None
    caller = None if on_device else shares.caller("host_compute")
    effect = verdict.effect_ms
    fields = {
        "confidence": min(verdict.confidence, signals.of(record_grade)),
        "value": verdict.share_percent,
        "threshold": thresholds.launch_warn,
        "devices": (shares.label,),
        "parts": (
            *(() if caller is None else (caller,)),
            # If calls enclose their ops, time between the ops has no name.
            *(
                Part(name=name, share_percent=percent * (share or 100.0) / 100)
                for name, percent in ops.names
            ),
        ),
        "facts": _ITEM.facts(per_step=ops.per_step, eager=share),
        "inputs": ("host_op_events", "event_kinds", "account"),
    }
    if not failed:
        return _ITEM.finding("pass", note="hidden" if eager else None, **fields)
    # The finding `launch.delay` already has this saving.
    explaining = ("launch.delay",) if on_device else ()
    if are_ops_of_function(signals, shares, caller, thresholds):
        explaining = ("host.work",)
    return _ITEM.finding(
        "fail",
        severity=verdict.severity,
        note=verdict.note,
        pattern=verdict.pattern,
        steps_hit=verdict.pattern.steps_hit,
        steps_clean=verdict.pattern.steps,
        causes=verdict.causes,
        ms_per_step=effect,
        explained_by=explaining,
        saving_ms=None
        if on_device
        else replace(verdict.pattern.promise(effect), low=0.0, open_above=True),
        **fields,
    )


#: A threshold that no share reaches: unexplained time never counts as time of ops.
_NEVER: Final = 101.0
