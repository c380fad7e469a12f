"""`amp.scaling`: the device waits for the host's check whether gradients are finite."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.catalogue import rule_item
from stepscope.advice.item import rule
from stepscope.advice.judging.lost_time import OWNED_READS, Owned, judge_owned
from stepscope.derive.facts.devices.kernel_precision import finite_checks
from stepscope.derive.facts.savings.what_if_changes import NotAwaited
from stepscope.derive.verdicts.recorded_devices import HOST_ONLY, device_signals

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.savings.what_if_changes import Changes

_ITEM: Final = rule_item("amp.scaling")

_OWNED: Final = Owned(
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


@rule(_ITEM, *OWNED_READS, finite_checks, change=unawaited_check_changes)
def evaluate(signals: Signals) -> Finding:
    if signals.of(device_signals).recorded == "host_only":
        return _ITEM.not_applicable(HOST_ONLY)
    if signals.needed(finite_checks) is None:
        return _ITEM.not_applicable("no_check")
    judged = judge_owned(_ITEM, _OWNED, signals)
    return judged.finding(inputs=("account", "account_parts", "device_activity"))
