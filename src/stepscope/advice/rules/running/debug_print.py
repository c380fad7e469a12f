"""`debug.print`: leftover debugging code delays the steps of a program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.advice.catalogue import rule_item
from stepscope.advice.item import rule
from stepscope.advice.judging.lost_time import OWNED_READS, Owned, judge_owned
from stepscope.derive.facts.hosts.callbacks import CalledBack, called_back
from stepscope.derive.facts.program_traits import anomaly_checks, blocking_calls
from stepscope.thresholds import THRESHOLDS

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.evidence import Part
    from stepscope.derive.facts.step_shares import StepShares

_ITEM: Final = rule_item("debug.print")

_OWNED: Final = Owned(
    parts={"debugging": ("debugging",)},
    host=True,
    # Debugging code is part of the host's work, so both must be known.
    seen=("debugging", "host_compute"),
    unknown=False,
    lost=True,
)


@rule(_ITEM, *OWNED_READS, anomaly_checks, blocking_calls, called_back)
def evaluate(signals: Signals) -> Finding:
    judged = judge_owned(_ITEM, _OWNED, signals)
    shares = judged.shares
    calls = signals.of(blocking_calls).get(shares.host)
    blocked = calls is not None and calls >= THRESHOLDS.blocking_calls.value
    checks = signals.of(anomaly_checks).get(shares.host, 0.0)
    searched = checks >= THRESHOLDS.anomaly_checks.value
    because = tuple(
        name for name, holds in (("blocking", blocked), ("anomaly", searched)) if holds
    )
    # Python frames of the anomaly detection count as debugging time too.
    judged_finding = judged.finding(
        because=because,
        facts=_ITEM.facts(blocking=calls, checks=checks or None),
        parts=_parts_of_debugging(signals, shares),
        inputs=("account", "account_parts", "correlation"),
        actions=_ITEM.actions_for(*because, "debugging", "anomaly"),
    )
    if not because or judged_finding.status == "fail":
        return judged_finding
    # Only a run without blocking calls and anomaly checks shows what they cost.
    finding = _ITEM.finding(
        "fail",
        severity="warn",
        note=because[0],
        confidence=judged_finding.confidence,
        because=because,
        facts=judged_finding.facts,
        devices=judged_finding.devices,
        inputs=judged_finding.inputs,
        actions=_ITEM.actions_for(*because),
    )
    return msgspec.structs.replace(
        finding, title=_ITEM.note("title_blocking" if blocked else "title_anomaly")
    )


def _parts_of_debugging(signals: Signals, shares: StepShares) -> tuple[Part, ...]:
    """Return what delays the steps, the program's own callback first."""
    parts = shares.parts("debugging")
    if shares.device is not None:
        return parts
    callbacks = signals.of(called_back).get(shares.host, CalledBack()).looking
    if callbacks:
        # Callbacks on the program's own thread are already in `parts`.
        other_parts = (
            part
            for part in parts
            if not any(part.key == callback.key for callback in callbacks)
        )
        return (*callbacks, *other_parts)
    called = shares.caller("host_compute")
    held = shares.percent("debugging")
    # The main caller of host work calls the debugging code if that is most of the work.
    if called is None or 2 * shares.percent("host_compute") > 3 * held:
        return parts
    return (called, *parts) if 2 * called.share_percent > held else parts
