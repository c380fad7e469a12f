"""`launch.delay`: the host does not launch work in time.

Definition: docs/advice/launch_delay.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.finding import Action, Fact, Finding, Status
from stepscope.advice.rule import Rule
from stepscope.advice.signals.device import device_signals
from stepscope.advice.signals.launch import launch_signals
from stepscope.advice.signals.record import record_grade
from stepscope.advice.signals.shares import account_signals
from stepscope.advice.verdict import judge, judged_finding
from stepscope.advice.words import WAITING, Words
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from stepscope.advice.signals.launch import LaunchSignals
    from stepscope.advice.signals.signal import Signals
    from stepscope.thresholds import Thresholds

__all__ = ["RULE", "evaluate"]

_ID: Final = "launch.delay"
_TITLE: Final = "the device waits for the host to launch its work"
_STAGE: Final = 3
#: Replayed graphs show no launch per node: beyond this share of the device's time the
#: rule cannot judge.
_GRAPH_SHARE: Final = 50.0

#: What to change, in order: each change launches more work with one call.
_ACTIONS: Final = (
    Action(
        cause="any",
        framework="TensorFlow",
        text="Put the whole training step into one graph, then let the compiler fuse "
        "its ops.",
        code="@tf.function(jit_compile=True)",
    ),
    Action(
        cause="any",
        framework="TensorFlow",
        text="Give the launching threads cores of their own.",
        env="TF_GPU_THREAD_MODE=gpu_private",
    ),
    Action(
        cause="any",
        framework="JAX",
        text="Compile the whole step, outermost function first.",
        code="train_step = jax.jit(train_step)",
    ),
    Action(
        cause="any",
        framework="PyTorch",
        text="Compile the step and replay it as one graph.",
        code="torch.compile(model, mode='reduce-overhead')",
    ),
    Action(
        cause="small_work",
        framework="any",
        text="Give each kernel more to do: a larger batch, or several steps at once.",
    ),
)
_CONFIRM: Final = (
    "Look at the ranges: the kernel starts right after its own launch call."
)
_REFUTE: Final = (
    "Double the batch: if the step takes twice as long, launches are not what it "
    "waits for."
)
_HOST: Final = tuple(
    "The host cannot feed the device: {share_percent} of the time it has nothing "
    f"queued{parts}{size}."
    for parts in (" (launching {launching}, host ops {host_ops})", "")
    for size in (", {ms_per_step} a step", "")
)
_WORDS: Final = Words(
    passed="launches keep up with the device",
    texts={**WAITING, ("fail", None): (_HOST, ("{pattern}",))},
    causes={
        "launch": "launching",
        "host_ops": "ops that run on the host",
        "slow_host": "each launch call takes the host long",
        "small_work": "kernels are shorter than two launches",
    },
)


#: A smaller share of the host's ops is not worth a word.
_WORTH_TELLING: Final = 0.5


def _told(percent: float | None) -> float | None:
    return percent if percent is not None and percent >= _WORTH_TELLING else None


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Judge the time in which a device has nothing to do for want of launches."""
    if signals.of(device_signals).recorded == "host_only":
        return _without("not_applicable", _NO_DEVICE)
    found, launching = signals.of(account_signals), signals.of(launch_signals)
    if isinstance(found, Unavailable):
        return _without("cannot_tell", found)
    if isinstance(launching, Unavailable):
        return _without("cannot_tell", launching)
    shares = found.judged()
    if "launch" in shares.missing:
        return _without("cannot_tell", shares.missing["launch"])
    if launching.graph_percent >= _GRAPH_SHARE:
        return _without("cannot_tell", _replayed(launching))
    parts = {"launch": ("launch",)}
    if shares.host_ops_lead():
        parts["host_ops"] = ("host_compute",)
    verdict = judge(
        shares.series(
            parts,
            unknown_from=thresholds.unexplained_warn.value,
            clocks=True,
            lost=True,
        ),
        warn=thresholds.launch_warn,
        critical=thresholds.launch_critical,
        thresholds=thresholds,
    )
    owners = tuple(owner for one in parts.values() for owner in one)
    failed = verdict.status == "fail"
    because = _because(launching, thresholds)
    return judged_finding(
        verdict,
        id=_ID,
        title=_TITLE,
        stage=_STAGE,
        grade=signals.of(record_grade),
        threshold=thresholds.launch_warn,
        smallest=thresholds.smallest_effect,
        stepped=shares.step_source is not None,
        owners=owners,
        place="any",
        devices=found.ranked(*owners),
        parts=shares.parts(*owners),
        because=because,
        facts=(
            Fact(name="launching", value=shares.percent("launch"), unit="percent"),
            Fact(
                name="host_ops",
                value=_told(shares.percent("host_compute"))
                if len(owners) > 1
                else None,
                note="counted where they are most of the host's own work",
                unit="percent",
            ),
            *_facts(launching),
        ),
        evidence=shares.evidence(*owners) if failed else (),
        inputs=("account", "launches"),
        confirm=_CONFIRM,
        refute=_REFUTE,
        floors=("time the launching thread needs: not measured here",),
        actions=_actions(because) if failed else (),
    )


def _because(found: LaunchSignals, thresholds: Thresholds) -> tuple[str, ...]:
    """Return why launches come late, as far as the numbers show it."""
    call = found.median_call_ps
    tests = (
        ("slow_host", call is not None and call > thresholds.slow_launch_call.value),
        ("small_work", found.median_kernel_ps < 2 * found.latency_ps),
    )
    return tuple(name for name, holds in tests if holds)


def _actions(because: tuple[str, ...]) -> tuple[Action, ...]:
    return tuple(
        action
        for action in _ACTIONS
        if action.cause == "any" or action.cause in because
    )


def _facts(found: LaunchSignals) -> tuple[Fact, ...]:
    samples = found.latency_samples
    call = found.median_call_ps
    return (
        Fact(
            name="launch_latency",
            value=found.latency_ps / PS_PER_US,
            unit="us",
            note=f"median of {samples:,} launches onto an idle device"
            if samples
            else "assumed: fewer than 30 launches found the device idle",
        ),
        Fact(name="median_kernel", value=found.median_kernel_ps / PS_PER_US, unit="us"),
        Fact(
            name="median_launch_call",
            value=None if call is None else call / PS_PER_US,
            unit="us",
        ),
        Fact(name="kernels_per_step", value=found.kernels_per_step, unit="count"),
    )


def _replayed(found: LaunchSignals) -> Unavailable:
    return Unavailable(
        code="NO_KERNEL_DETAILS",
        reason=f"{found.graph_percent:.0f} % of the device's time is replayed from "
        "graphs without a row for each kernel.",
        remedy="Record once with graph replay switched off, or with the tracing of "
        "graph nodes on.",
    )


_NO_DEVICE: Final = Unavailable(
    code="NO_DEVICE_PLANE",
    reason="Every op ran on the host; there is no device to launch on.",
    remedy="Nothing to do.",
)


def _without(status: Status, why: Unavailable) -> Finding:
    return Finding(
        id=_ID,
        title=_TITLE,
        stage=_STAGE,
        status=status,
        unavailable=why,
    )


RULE: Final = Rule(
    id=_ID,
    stage=_STAGE,
    title=_TITLE,
    evaluate=evaluate,
    reads=(account_signals, device_signals, launch_signals, record_grade),
    words=_WORDS,
    pages=("overview_page", "kernel_stats"),
)
