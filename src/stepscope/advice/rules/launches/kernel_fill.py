"""`kernel.fill`: kernels have fewer blocks than the device has multiprocessors.

Definition: docs/advice/kernel_fill.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.finding import Action, Finding, Severity
from stepscope.advice.item import Item
from stepscope.advice.rule import Rule
from stepscope.advice.words import Words
from stepscope.derive.facts.devices.device_fill import COMPUTE, fill_signals
from stepscope.derive.facts.evidence import Fact, Part, Saving
from stepscope.derive.facts.recording import record_grade
from stepscope.derive.facts.replaying.edits import Faster
from stepscope.derive.facts.step_shares import account_signals
from stepscope.derive.judging.recorded_devices import HOST_ONLY, device_signals
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.devices.device_fill import DeviceFill
    from stepscope.derive.facts.replaying.edits import Change
    from stepscope.derive.facts.step_shares import StepShares
    from stepscope.thresholds import Thresholds

_ACTIONS: Final = (
    Action(
        cause="any",
        framework="any",
        text="Give each kernel more to do: a larger batch, or branches that are "
        "computed together.",
    ),
    Action(
        cause="any",
        framework="PyTorch",
        text="Compile the step, so that small kernels become fewer and larger ones.",
        code="torch.compile(model)",
    ),
    Action(
        cause="any",
        framework="TensorFlow",
        text="Let the compiler put small ops together.",
        code="@tf.function(jit_compile=True)",
    ),
    Action(
        cause="any",
        framework="JAX",
        text="Compute independent parts in one call.",
        code="jax.vmap(f)",
    ),
)
_WORDS: Final = Words(
    passed="kernels have work for all multiprocessors",
    texts={
        ("fail", None): (
            (
                (
                    "For {value} of the time kernels run that leave many of the "
                    "{cores} multiprocessors without work, most of it {named}."
                ),
            ),
        ),
        ("pass", None): (
            (
                (
                    "{passed}: {value:nothing} of the time others run (a matter from "
                    "{threshold} on)."
                ),
            ),
        ),
        ("pass", "rounds"): (
            (
                (
                    "Kernels have work for all {cores} multiprocessors, but for "
                    "{last_round} of the time kernels run whose last round of blocks "
                    "is less than half full, most of it {named}: {last_round_idle} of "
                    "the time is lost to empty room."
                ),
            ),
        ),
    },
    causes={},
)
_ITEM: Final = Item(
    id="kernel.fill",
    stage=3,
    title="kernels do not fill the device",
    words=_WORDS,
    pages=("kernel_stats",),
    confirm="Look at the table of kernels: the grid of the named ones has fewer blocks "
    "than the device has multiprocessors.",
    refute="Double the batch: if these kernels take twice as long, they were full.",
    floors=("kernels that run beside each other: not looked at",),
    actions=_ACTIONS,
)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Judge the time of kernels with few blocks in that of all steps."""
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
        return _ITEM.cannot_tell(_NO_GRIDS)
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
                detail=f"{one.blocks:,} blocks",
                share_percent=compute * one.time_ps / max(fill.kernel_ps, 1),
            )
            for one in (fill.in_rounds if in_rounds else fill.largest)
        ),
        facts=(
            Fact(name="cores", value=fill.cores, unit="count"),
            *_rounds(fill, compute),
            Fact(
                name="without_grid",
                value=100 * fill.unshaped_ps / max(fill.kernel_ps, 1),
                unit="percent",
            ),
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
    return (
        Fact(
            name="last_round",
            value=part * (fill.last_round_ps or 0) if known else None,
            unit="percent",
            note="kernels whose last of two or three rounds is less than half full",
        ),
        Fact(
            name="last_round_idle",
            value=part * fill.last_round_idle_ps if known else None,
            unit="percent",
        ),
        Fact(
            name="for_one_each",
            value=None if first is None else round(first.for_one_each, 1),
            unit="ratio",
            note="times the blocks, for one on each multiprocessor",
        ),
        Fact(
            name="for_three_rounds",
            value=None if three is None else round(three, 1),
            unit="ratio",
            note="times the blocks, for three whole rounds",
        ),
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


_NO_GRIDS: Final = Unavailable(
    code="NO_KERNEL_DETAILS",
    reason="The grids of most kernels were not recorded.",
    remedy="Record with a device tracer that writes the launch shape of kernels.",
)


RULE: Final = Rule(
    _ITEM,
    evaluate,
    (account_signals, device_signals, fill_signals, record_grade),
    changes,
)
