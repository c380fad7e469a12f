"""Rules about a device that has too little work: small kernels, small models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.catalogue import rule_item
from stepscope.advice.item import rule
from stepscope.advice.judging.lost_time import OWNED_READS, Owned, owned_shares
from stepscope.derive.facts.devices.device_fill import fill_signals
from stepscope.derive.facts.devices.launching import launch_signals
from stepscope.derive.facts.devices.set_up import set_up_signals
from stepscope.derive.facts.evidence import Fact, Part, Saving
from stepscope.derive.facts.recording import record_grade
from stepscope.derive.facts.savings.what_if_changes import Faster
from stepscope.derive.facts.step_shares import account_signals
from stepscope.derive.step_time.owners import COMPUTE_OWNERS
from stepscope.derive.verdicts.recorded_devices import HOST_ONLY, device_signals
from stepscope.thresholds import THRESHOLDS
from stepscope.units import PS_PER_MS, PS_PER_US

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding, Severity
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.devices.device_fill import DeviceFill
    from stepscope.derive.facts.savings.what_if_changes import Changes
    from stepscope.derive.facts.step_shares import StepShares

_KERNEL_FILL_ITEM: Final = rule_item("kernel.fill")


def kernel_fill_changes(signals: Signals) -> Changes:
    """Return what-if edits that shorten kernels by the share of idle multiprocessors.

    The edits show the gain of using the idle multiprocessors: for more samples per
    batch, or for branches of the model that run at the same time.
    """
    label = signals.needed(account_signals).judged().label
    fill = signals.needed(fill_signals).get(label)
    if fill is None:
        return ()
    return tuple(
        Faster(classes, (1 - idle / 2, 1 - idle)) for idle, classes in fill.classes
    )


@rule(
    _KERNEL_FILL_ITEM,
    account_signals,
    device_signals,
    fill_signals,
    record_grade,
    change=kernel_fill_changes,
)
def judge_kernel_fill(signals: Signals) -> Finding:
    if signals.of(device_signals).recorded == "host_only":
        return _KERNEL_FILL_ITEM.not_applicable(HOST_ONLY)
    account = signals.needed(account_signals)
    devices = signals.needed(fill_signals)
    shares = account.judged()
    fill = devices.get(shares.label)
    if fill is None or 2 * fill.unshaped_ps >= fill.kernel_ps:
        return _KERNEL_FILL_ITEM.cannot_tell("no_grids")
    return _finding_of_fill(signals, shares, fill)


def _finding_of_fill(signals: Signals, shares: StepShares, fill: DeviceFill) -> Finding:
    compute = shares.percent(*COMPUTE_OWNERS)
    percent = fill.unfilled_percent(shares)
    steps = max(len(shares.window_ps), 1)
    step_ms = shares.mean_ms(shares.total_ps)
    effect = step_ms * percent / 100
    idle = step_ms * compute / 100 * fill.idle_ps / max(fill.kernel_ps, 1)
    failed = percent >= THRESHOLDS.fill_warn.value and (
        effect * PS_PER_MS >= THRESHOLDS.smallest_effect.value
    )
    severity: Severity = "info"
    if failed:
        grave = percent >= THRESHOLDS.fill_critical.value
        enough_steps = steps >= THRESHOLDS.few_steps.value
        severity = "critical" if grave and enough_steps else "warn"
    has_steps = shares.step_source is not None
    ragged = compute * (fill.last_round_ps or 0) / max(fill.kernel_ps, 1)
    in_rounds = not failed and ragged >= THRESHOLDS.fill_warn.value
    return _KERNEL_FILL_ITEM.finding(
        "fail" if failed else "pass",
        severity=severity,
        note="rounds" if in_rounds else None,
        confidence=min(signals.of(record_grade), shares.step_confidence or 0.5),
        value=percent,
        ms_per_step=effect if has_steps else None,
        steps_clean=len(shares.window_ps) if has_steps else None,
        threshold=THRESHOLDS.fill_warn,
        devices=(shares.label,),
        parts=tuple(
            Part(
                name=kernel.name,
                detail=_KERNEL_FILL_ITEM.note("blocks", blocks=kernel.blocks),
                share_percent=compute * kernel.time_ps / max(fill.kernel_ps, 1),
            )
            for kernel in (fill.in_rounds if in_rounds else fill.largest)
        ),
        facts=(
            *_KERNEL_FILL_ITEM.facts(cores=fill.cores),
            *_facts_of_rounds(fill, compute),
            *_KERNEL_FILL_ITEM.facts(
                without_grid=100 * fill.unshaped_ps / max(fill.kernel_ps, 1)
            ),
        ),
        inputs=("kernels", "account"),
        saving_ms=Saving(low=idle / 2, high=idle) if failed and has_steps else None,
    )


def _facts_of_rounds(fill: DeviceFill, compute: float) -> tuple[Fact, ...]:
    """Return facts about rounds of blocks, and how large a grid should be."""
    known = fill.last_round_ps is not None
    part = compute / max(fill.kernel_ps, 1)
    first = next(iter(fill.largest), None)
    three = None if first is None else first.for_three_rounds
    return _KERNEL_FILL_ITEM.facts(
        last_round=part * (fill.last_round_ps or 0) if known else None,
        last_round_idle=part * fill.last_round_idle_ps if known else None,
        for_one_each=None if first is None else round(first.for_one_each, 1),
        for_three_rounds=None if three is None else round(three, 1),
    )


_SMALL_MODEL_ITEM: Final = rule_item("gpu.worth")

_OWNED: Final = Owned(
    parts={"launch": ("launch",)}, device=True, seen=("launch",), unknown=False
)


@rule(_SMALL_MODEL_ITEM, *OWNED_READS, launch_signals, set_up_signals)
def judge_small_model(signals: Signals) -> Finding:
    shares = owned_shares(_OWNED, signals)
    launch = signals.needed(launch_signals)
    computing = shares.percent(*COMPUTE_OWNERS)
    # Waits for calls that set up the device do not count: they occur only once.
    waits = (signals.known(set_up_signals) or {}).get(shares.label)
    once = waits.percent if waits is not None and waits.kind == "set_up" else 0.0
    launching_percent = max(shares.percent(*_LAUNCH_AND_COPIES) - once, 0.0)
    latency = (
        launch.latency_ps if launch.latency_samples else THRESHOLDS.small_kernel.value
    )
    idle = computing <= THRESHOLDS.worth_compute.value
    costly = launching_percent >= THRESHOLDS.worth_giving.value
    tiny = launch.median_kernel_ps < latency
    # A model is not small if several devices share its work, or if it has much work.
    steps = max(len(shares.window_ps), 1)
    work_ps = sum(shares.times(*COMPUTE_OWNERS)) / steps
    little_work = work_ps <= THRESHOLDS.worth_most.value
    single_device = not any(shares.times("collective"))
    small = tiny and little_work and single_device
    return _SMALL_MODEL_ITEM.finding(
        "fail" if idle and costly and small else "pass",
        confidence=min(signals.of(record_grade), shares.step_confidence or 0.5),
        value=launching_percent,
        threshold=THRESHOLDS.worth_giving,
        devices=(shares.label,),
        facts=_SMALL_MODEL_ITEM.facts(
            computing=computing,
            median_kernel=launch.median_kernel_ps / PS_PER_US,
            launch_latency=latency / PS_PER_US,
        ),
        inputs=("account", "launch_facts"),
    )


#: Time for launching work on the device and for copies to and from it.
_LAUNCH_AND_COPIES: Final = ("launch", "copy_in", "copy_out")
