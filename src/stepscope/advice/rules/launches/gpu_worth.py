"""`gpu.worth`: the model is too small for its device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.catalogue import rule_item
from stepscope.advice.finding import Finding
from stepscope.advice.judging.owned import OWNED_READS, Owned, shares_of
from stepscope.advice.rule import Rule
from stepscope.derive.facts.devices.launching import launch_signals
from stepscope.derive.facts.devices.set_up import set_up_signals
from stepscope.derive.facts.recording import record_grade
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.step_shares import StepShares
    from stepscope.thresholds import Thresholds

_ITEM: Final = rule_item("gpu.worth")

_OWNED: Final = Owned(
    parts={"launch": ("launch",)}, device=True, seen=("launch",), unknown=False
)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    shares = shares_of(_ITEM, _OWNED, signals, thresholds)
    if isinstance(shares, Finding):
        return shares
    launching = signals.of(launch_signals)
    if isinstance(launching, Unavailable):
        return _ITEM.cannot_tell(launching)
    computing = shares.percent(*_COMPUTE)
    # Calls that set the device up are no giving of work: they come once.
    giving = max(shares.percent(*_GIVING) - _once_percent(signals, shares), 0.0)
    latency = (
        launching.latency_ps
        if launching.latency_samples
        else thresholds.small_kernel.value
    )
    idle = computing <= thresholds.worth_compute.value
    costly = giving >= thresholds.worth_giving.value
    tiny = launching.median_kernel_ps < latency
    # Work that several devices share, or that is much, is no small model.
    steps = max(len(shares.window_ps), 1)
    little = sum(shares.times(*_COMPUTE)) / steps <= thresholds.worth_most.value
    alone = not any(shares.times("collective"))
    small = tiny and little and alone
    return _ITEM.finding(
        "fail" if idle and costly and small else "pass",
        confidence=min(signals.of(record_grade), shares.step_confidence or 0.5),
        value=giving,
        threshold=thresholds.worth_giving,
        devices=(shares.label,),
        facts=_ITEM.facts(
            computing=computing,
            median_kernel=launching.median_kernel_ps / PS_PER_US,
            launch_latency=latency / PS_PER_US,
        ),
        inputs=("account", "launch_facts"),
    )


def _once_percent(signals: Signals, shares: StepShares) -> float:
    """Return the share of calls that set the device up for its first use."""
    found = signals.of(set_up_signals)
    waits = None if isinstance(found, Unavailable) else found.get(shares.label)
    return waits.percent if waits is not None and waits.kind == "set_up" else 0.0


_COMPUTE: Final = ("compute_16", "compute_tf32", "compute_32", "compute_64")
#: Time in which work is given to the device, or its results are fetched.
_GIVING: Final = ("launch", "copy_in", "copy_out")


RULE: Final = Rule(_ITEM, evaluate, (*OWNED_READS, launch_signals, set_up_signals))
