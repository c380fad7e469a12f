"""`debug.print`: what is left in a program to look at it holds up its steps.

Definition: docs/advice/debug_print.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.advice.finding import Action, Finding
from stepscope.advice.item import Item
from stepscope.advice.judging.owned import (
    OWNED_READS,
    Owned,
    judge_shares,
    owned_finding,
    shares_of,
)
from stepscope.advice.rule import Rule
from stepscope.advice.words import WAITING, Words
from stepscope.derive.facts.evidence import Fact, Part
from stepscope.derive.facts.hosts.callbacks import CalledBack, called_back
from stepscope.derive.facts.program_traits import anomaly_checks, blocking_calls

if TYPE_CHECKING:
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.step_shares import StepShares
    from stepscope.thresholds import Thresholds

_OWNED: Final = Owned(
    parts={"debugging": ("debugging",)},
    host=True,
    # Where nothing says what the host did, nothing of it is known to be missing.
    seen=("debugging", "host_compute"),
    unknown=False,
    lost=True,
)
_ACTIONS: Final = (
    Action(
        cause="blocking",
        framework="any",
        text="Let launch calls return at once: this setting is for finding errors.",
        env="CUDA_LAUNCH_BLOCKING=0",
    ),
    Action(
        cause="debugging",
        framework="TensorFlow",
        text="Take `tf.print`, `tf.debugging.check_numerics` and "
        "`enable_check_numerics` out of the step, or do it every n-th step.",
        code="if step % 100 == 0: tf.print(loss)",
    ),
    Action(
        cause="debugging",
        framework="JAX",
        text="Take `jax.debug.print` and `jax.debug.callback` out of the compiled "
        "step: return what they look at, and look at it every n-th step. Switch "
        "`jax_debug_nans` off.",
        code="if step % 100 == 0: record(jax.device_get(values))",
    ),
    Action(
        cause="anomaly",
        framework="PyTorch",
        text="Switch the detection of anomalies off.",
        code="torch.autograd.set_detect_anomaly(False)",
    ),
)
_HELD: Final = (
    (
        "{title}: {share_percent} of the time, {ms_per_step} a step; most of it in "
        "{function}."
    ),
    "{title}: {share_percent} of the time, {ms_per_step} a step; most of it {named}.",
    "{title}: {share_percent} of the time, {ms_per_step} a step.",
    "{title}: {share_percent} of the time.",
)
_BLOCKED: Final = (
    (
        "Launch calls wait until their kernels are done ({blocking} of the long "
        "kernels), as with CUDA_LAUNCH_BLOCKING=1: host and device take turns."
    ),
)
_SEARCHED: Final = (
    (
        "PyTorch searches for anomalies (`detect_anomaly`): it checks {checks} "
        "gradients a step, and keeps the stack of each op of the forward pass."
    ),
)
_WORDS: Final = Words(
    passed="nothing that looks at the program holds up its steps",
    texts={
        **WAITING,
        ("fail", None): (_HELD, ("{pattern}",)),
        ("fail", "blocking"): (_BLOCKED,),
        ("fail", "anomaly"): (_SEARCHED,),
    },
    causes={
        "debugging": "prints, checks of numbers and debug callbacks",
        "blocking": "launch calls wait for their kernels",
        "anomaly": "gradients are searched for anomalies",
    },
)
_ITEM: Final = Item(
    id="debug.print",
    stage=9,
    title="prints and checks inside the steps hold them up",
    words=_WORDS,
    pages=("overview_page", "trace_viewer"),
    confirm="Look at the ranges: the named op or callback runs, and nothing computes "
    "meanwhile.",
    refute="Run once without what is named: if the steps take as long, they do not "
    "wait for it.",
    actions=_ACTIONS,
    explains=(
        *("host.work", "launch.delay", "gaps.between"),
        *("place.host", "place.override"),
    ),
)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Judge what looks at the program, and whether launch calls wait."""
    shares = shares_of(_ITEM, _OWNED, signals, thresholds)
    if isinstance(shares, Finding):
        return shares
    calls = signals.of(blocking_calls).get(shares.host)
    blocked = calls is not None and calls >= thresholds.blocking_calls.value
    warn = thresholds.debugging_warn
    verdict = judge_shares(
        _OWNED, shares, thresholds, warn=warn, critical=thresholds.debugging_critical
    )
    checks = signals.of(anomaly_checks).get(shares.host, 0.0)
    searched = checks >= thresholds.anomaly_checks.value
    because = tuple(
        name for name, holds in (("blocking", blocked), ("anomaly", searched)) if holds
    )
    # An anomaly's own Python frames are such time as well.
    held = ("debugging", "anomaly") if verdict.status == "fail" else ()
    causes = {*because, *held}
    found = owned_finding(
        _ITEM,
        _OWNED,
        signals,
        shares=shares,
        verdict=verdict,
        thresholds=thresholds,
        warn=warn,
        because=because,
        facts=(
            Fact(name="blocking", value=calls, unit="percent"),
            Fact(name="checks", value=checks or None, unit="count"),
        ),
        parts=_parts(signals, shares),
        inputs=("account", "account_parts", "correlation"),
        actions=tuple(one for one in _ACTIONS if one.cause in causes),
    )
    if not because or found.status == "fail":
        return found
    # What the calls' waiting and the search cost shows only in a run without them.
    note = because[0]
    made = _ITEM.finding(
        "fail",
        severity="warn",
        note=note,
        confidence=found.confidence,
        because=because,
        facts=found.facts,
        devices=found.devices,
        inputs=found.inputs,
        actions=tuple(one for one in _ACTIONS if one.cause in because),
    )
    return msgspec.structs.replace(made, title=_TITLES[note])


def _parts(signals: Signals, shares: StepShares) -> tuple[Part, ...]:
    """Return what holds the steps up, the program's own callback first."""
    parts = shares.parts("debugging")
    if shares.device is not None:
        return parts
    seen = signals.of(called_back).get(shares.host, CalledBack()).looking
    if seen:
        # What the program's own thread calls so has a part already.
        rest = (it for it in parts if not any(it.key == one.key for one in seen))
        return (*seen, *rest)
    called = shares.caller("host_compute")
    held = shares.percent("debugging")
    # It has to be most of the time, or it may be any other function of the step.
    if called is None or 2 * shares.percent("host_compute") > 3 * held:
        return parts
    return (called, *parts) if 2 * called.share_percent > held else parts


_TITLES: Final = {
    "blocking": "launch calls wait for their kernels, as for debugging",
    "anomaly": "PyTorch searches the gradients for anomalies",
}


RULE: Final = Rule(
    _ITEM, evaluate, (*OWNED_READS, anomaly_checks, blocking_calls, called_back)
)
