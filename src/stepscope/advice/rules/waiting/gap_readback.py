"""`gap.readback`: the host waits for a result, and the device then for the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.advice.catalogue import rule_item
from stepscope.advice.finding import Finding
from stepscope.advice.judging.owned import (
    OWNED_READS,
    Owned,
    judge_shares,
    owned_finding,
    shares_of,
)
from stepscope.advice.rule import Rule
from stepscope.derive.facts.replaying.edits import NotAwaited
from stepscope.derive.judging.recorded_devices import device_signals

if TYPE_CHECKING:
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.replaying.edits import Change
    from stepscope.thresholds import Thresholds

_ITEM: Final = rule_item("gap.readback")

_ON_HOST: Final = Owned(
    parts={"read_back": ("read_back",)},
    host=True,
    steps=True,
    seen=("read_back", "sync"),
)
_ON_DEVICE: Final = msgspec.structs.replace(
    _ON_HOST, seen=("read_back", "launch", "output", "sync"), lost=True
)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    shares = shares_of(_ITEM, _ON_HOST, signals, thresholds)
    if isinstance(shares, Finding):
        return shares
    owned = _ON_HOST
    if shares.device is not None:
        owned = _ON_DEVICE
        checked = shares_of(_ITEM, owned, signals, thresholds)
        if isinstance(checked, Finding):
            return checked
    warn = thresholds.readback_warn
    verdict = judge_shares(
        owned, shares, thresholds, warn=warn, critical=thresholds.readback_critical
    )
    return owned_finding(
        _ITEM,
        owned,
        signals,
        shares=shares,
        verdict=verdict,
        thresholds=thresholds,
        warn=warn,
    )


def changes(signals: Signals, _: Thresholds) -> tuple[Change, ...]:
    """Let calls no longer wait for a result: it is read a step late, or not at all."""
    if signals.of(device_signals).recorded == "host_only":
        return ()
    return (NotAwaited("read_back"),)


RULE: Final = Rule(_ITEM, evaluate, OWNED_READS, changes)
