"""`xla.off`: a compiler could launch fewer kernels, and is not used.

Definition: docs/advice/xla_off.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.finding import Action, Fact, Finding
from stepscope.advice.item import Item
from stepscope.advice.judging.owned import OWNED_READS, Owned, judge_shares, shares_of
from stepscope.advice.rule import Rule
from stepscope.advice.signals.launches.compilations import FIRST_STEPS
from stepscope.advice.signals.launches.fill import compiled_percent
from stepscope.advice.signals.record import record_grade
from stepscope.advice.words import Words
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.advice.signals.shares import StepShares
    from stepscope.advice.signals.signal import Signals
    from stepscope.thresholds import Thresholds

__all__ = ["RULE", "evaluate"]

_OWNED: Final = Owned(
    parts={"launch": ("launch",)},
    device=True,
    seen=("launch",),
    unknown=False,
    clocks=True,
    lost=True,
)
_ACTIONS: Final = (
    Action(
        cause="any",
        framework="TensorFlow",
        text="Compile the step, and measure that change alone.",
        code="@tf.function(jit_compile=True)",
        env="TF_XLA_FLAGS=--tf_xla_auto_jit=2",
    ),
    Action(
        cause="any",
        framework="PyTorch",
        text="Compile the step, and measure that change alone.",
        code="torch.compile(model, mode='reduce-overhead')",
    ),
    Action(
        cause="any",
        framework="JAX",
        text="Compile the outermost function.",
        code="train_step = jax.jit(train_step)",
    ),
)
_WORDS: Final = Words(
    passed="no compiler is missing",
    texts={
        ("fail", None): (
            (
                (
                    "The device waits for launches {value} of the time, and "
                    "{compiled:nothing} of the kernels' time is compiled: a compiler "
                    "would launch fewer kernels."
                ),
            ),
        ),
        ("pass", None): (
            (
                (
                    "Launches take {value:nothing} of the time; {compiled:nothing} of "
                    "the kernels' time is compiled."
                ),
            ),
        ),
        ("pass", "shapes"): (
            (
                (
                    "Functions are compiled again and again already: shapes must "
                    "settle before compiling more pays."
                ),
            ),
        ),
    },
    causes={},
)
_ITEM: Final = Item(
    id="xla.off",
    stage=7,
    title="a compiler could launch fewer kernels",
    words=_WORDS,
    pages=("kernel_stats", "framework_op_stats"),
    confirm="Compile the step for one run, and compare the number of kernels.",
    refute="If the compiled step takes as long, launches are not what it waits for.",
    actions=_ACTIONS,
)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Judge the share of compiled kernels where a device waits for launches."""
    shares = shares_of(_ITEM, _OWNED, signals, thresholds)
    if isinstance(shares, Finding):
        return shares
    devices = signals.of(compiled_percent)
    if isinstance(devices, Unavailable):
        return _ITEM.cannot_tell(devices)
    compiled = devices.get(shares.label)
    if compiled is None:
        return _ITEM.cannot_tell(_UNTOLD)
    if compiled >= thresholds.compiled_most.value:
        return _ITEM.not_applicable(_COMPILED)
    verdict = judge_shares(
        _OWNED,
        shares,
        thresholds,
        warn=thresholds.launch_warn,
        critical=thresholds.launch_critical,
    )
    if verdict.unavailable is not None and compiled < thresholds.compiled_few.value:
        return _ITEM.cannot_tell(verdict.unavailable)
    missing = verdict.status == "fail" and compiled < thresholds.compiled_few.value
    again = _late_percent(shares) >= thresholds.recompile_warn.value
    failed = missing and not again
    return _ITEM.finding(
        "fail" if failed else "pass",
        note="shapes" if missing and again else None,
        confidence=min(verdict.confidence, signals.of(record_grade)),
        value=verdict.share_percent,
        threshold=thresholds.launch_warn,
        devices=(shares.label,),
        facts=(Fact(name="compiled", value=compiled, unit="percent"),),
        inputs=("account", "device_activity"),
        # The device waits for launches, and that finding promises the time.
        explained_by="launch.delay" if failed else None,
    )


def _late_percent(shares: StepShares) -> float:
    late = sum(shares.times("compile")[FIRST_STEPS:])
    return 100 * late / max(sum(shares.window_ps[FIRST_STEPS:]), 1)


_COMPILED: Final = Unavailable(
    code="NOT_RECORDED",
    reason="Most of the device's work is compiled.",
    remedy="Nothing to do.",
)
_UNTOLD: Final = Unavailable(
    code="NO_KERNEL_DETAILS",
    reason="Nothing tells which kernels a compiler made.",
    remedy="Record with a profiler that names the op or the program of kernels.",
)


RULE: Final = Rule(_ITEM, evaluate, (*OWNED_READS, compiled_percent))
