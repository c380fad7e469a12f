"""`amp.scaling`: the device waits while the host looks whether gradients are finite.

Definition: docs/advice/amp_scaling.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.finding import Action
from stepscope.advice.item import Item
from stepscope.advice.judging.owned import OWNED_READS, Owned, judge_owned
from stepscope.advice.rule import Rule
from stepscope.advice.words import WAITING, Words
from stepscope.derive.facts.devices.kernel_precision import finite_checks
from stepscope.derive.facts.replaying.edits import NotAwaited
from stepscope.derive.judging.recorded_devices import HOST_ONLY, device_signals
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.replaying.edits import Change
    from stepscope.thresholds import Thresholds

_OWNED: Final = Owned(
    parts={"scaling": ("scaling",)},
    device=True,
    steps=True,
    seen=("scaling", "launch"),
    # The holes are found on the device, whoever owns their time.
    unknown=False,
    lost=True,
)
_ACTIONS: Final = (
    Action(
        cause="any",
        framework="any",
        text="Compute in bfloat16 where the device can (from compute capability 8.0 "
        "on): its range needs no loss scaling.",
    ),
    Action(
        cause="any",
        framework="TensorFlow",
        text="Scale by a fixed number that suits the model.",
        code="tf.keras.mixed_precision.LossScaleOptimizer(optimizer, dynamic=False, "
        "initial_scale=1024)",
    ),
    Action(
        cause="any",
        framework="PyTorch",
        text="Use a fused optimizer: it takes the answer on the device, and the host "
        "need not know it.",
        code="torch.optim.AdamW(model.parameters(), fused=True)",
    ),
    Action(
        cause="any",
        framework="JAX",
        text="Keep the decision in the compiled step.",
        code="jnp.where(finite, new_params, params)  # or jax.lax.cond",
    ),
)
_WORDS: Final = Words(
    passed="loss scaling holds up no step",
    lead=(
        (
            "The device waits while the host looks whether gradients are finite: "
            "{share_percent} of the time, {ms_per_step} a step."
        ),
    ),
    texts=WAITING,
    causes={"scaling": "from the check of the gradients to the optimizer"},
)
_ITEM: Final = Item(
    id="amp.scaling",
    stage=6,
    title="dynamic loss scaling leaves the device idle",
    words=_WORDS,
    pages=("overview_page", "trace_viewer"),
    confirm="Look at the ranges: a kernel has checked the gradients, a few bytes go to "
    "the host, and the optimizer's first kernel comes after them.",
    refute="Run once with a fixed scale: if the step takes as long, the device waits "
    "for something else there.",
    actions=_ACTIONS,
    explains=("launch.delay", "gaps.between", "host.work"),
)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Judge the idle time from the check of the gradients to the next kernel."""
    if signals.of(device_signals).recorded == "host_only":
        return _ITEM.not_applicable(HOST_ONLY)
    checks = signals.of(finite_checks)
    if checks is None:
        return _ITEM.not_applicable(_NO_CHECK)
    if isinstance(checks, Unavailable):
        return _ITEM.cannot_tell(checks)
    return judge_owned(
        _ITEM,
        _OWNED,
        signals,
        thresholds,
        warn=thresholds.scaling_warn,
        critical=thresholds.scaling_critical,
        inputs=("account", "account_parts", "device_activity"),
    )


_NO_CHECK: Final = Unavailable(
    code="NOT_RECORDED",
    reason="Nothing in the recording checks whether gradients are finite.",
    remedy="Nothing to do.",
)


def changes(signals: Signals, _: Thresholds) -> tuple[Change, ...]:
    """Let no call wait for the answer whether gradients are finite."""
    if signals.of(device_signals).recorded == "host_only":
        return ()
    return (NotAwaited("scaling"),)


RULE: Final = Rule(_ITEM, evaluate, (*OWNED_READS, finite_checks), changes)
