"""`launch.eager`: ops run one by one, outside a graph.

Definition: docs/advice/launch_eager.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.advice.finding import Action, Fact, Finding, Part
from stepscope.advice.item import Item
from stepscope.advice.judging.ops_of_functions import (
    OF_FUNCTION_READS,
    are_of_a_function,
)
from stepscope.advice.judging.owned import OWNED_READS
from stepscope.advice.rule import Rule
from stepscope.advice.signals.device import device_signals
from stepscope.advice.signals.launches.eager import eager_signals
from stepscope.advice.signals.record import record_grade
from stepscope.advice.signals.shares import account_signals
from stepscope.advice.verdict import judge
from stepscope.advice.words import Words
from stepscope.derive.judging.effect_status import StepSeries
from stepscope.remedies import Remedy
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.advice.signals.launches.eager import EagerOps
    from stepscope.advice.signals.shares import StepShares
    from stepscope.advice.signals.signal import Signals
    from stepscope.advice.verdict import Verdict
    from stepscope.thresholds import Thresholds

_ACTIONS: Final = (
    Action(
        cause="any",
        framework="TensorFlow",
        text="Put the whole training step into one graph; `Model.fit` does so unless "
        "`run_eagerly` is set.",
        code="@tf.function",
    ),
    Action(
        cause="any",
        framework="JAX",
        text="Compile the whole step, its update of the weights included, with the "
        "loops in it.",
        code="jax.jit(train_step)  # for h in xs: jax.lax.scan(cell, h, xs)",
    ),
    Action(
        cause="any",
        framework="PyTorch",
        text="Compile the step, so that its ops are launched together.",
        code="torch.compile(model, mode='reduce-overhead')",
    ),
)
_ONE_BY_ONE: Final = (
    (
        "Ops run one by one outside a graph, called from {function}: {per_step} in a "
        "step, {eager} of the ops' own time; getting from one to the next takes "
        "{value} of the time."
    ),
    (
        "Ops run one by one outside a graph: {per_step} in a step, {eager} of the ops' "
        "own time; getting from one to the next takes {value} of the time."
    ),
    (
        "Ops and small functions run one by one, each a compiled call of its own, "
        "called from {function}: {per_step} in a step; getting from one to the next "
        "takes {value} of the time."
    ),
    (
        "Ops and small functions run one by one, each a compiled call of its own: "
        "{per_step} in a step; getting from one to the next takes {value} of the time."
    ),
)
_WORDS: Final = Words(
    passed="the step runs in graphs",
    texts={
        ("fail", None): (_ONE_BY_ONE, ("{pattern}",)),
        ("pass", None): (
            (
                "{passed}: {eager:nothing} of the ops' own time runs outside them.",
                "{passed}; calls of them a step: {per_step}.",
            ),
        ),
        ("pass", "hidden"): (
            (
                (
                    "{per_step} ops a step run one by one, but getting from one to the "
                    "next takes only {value} of the time (a matter from {threshold} "
                    "on)."
                ),
            ),
        ),
    },
    causes={"dispatch": "from one op to the next", "launch": "launching"},
)
_ITEM: Final = Item(
    id="launch.eager",
    of_frameworks=True,
    stage=3,
    title="ops run one by one, outside a graph",
    words=_WORDS,
    pages=("framework_op_stats", "trace_viewer"),
    confirm="Look at the thread of the steps: each op is a call of its own from "
    "Python.",
    refute="Compile the step: if it takes as long, its ops are not what it waits for.",
    floors=("the ops' own time",),
    actions=_ACTIONS,
)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Judge the ops outside graphs, where getting from one to the next costs time."""
    account = signals.of(account_signals)
    if isinstance(account, Unavailable):
        return _ITEM.cannot_tell(account)
    found = signals.of(eager_signals)
    if isinstance(found, Unavailable):
        return _ITEM.cannot_tell(found)
    shares = account.judged("host_compute")
    ops = found.hosts.get(shares.host)
    if ops is None:
        return (
            _ITEM.not_applicable(_TORCH) if found.torch else _ITEM.cannot_tell(_NO_OPS)
        )
    unseen = _unseen(signals, shares, thresholds)
    if unseen is not None:
        return _ITEM.cannot_tell(unseen)
    verdict = judge(
        _cost(shares, ops),
        warn=thresholds.launch_warn,
        critical=thresholds.launch_critical,
        thresholds=thresholds,
    )
    return _finding(signals, shares, ops, verdict, thresholds)


def _unseen(
    signals: Signals, shares: StepShares, thresholds: Thresholds
) -> Unavailable | None:
    """Return why what the ops cost cannot be told; None where it can."""
    if shares.step_confidence < thresholds.medium_confidence.value:
        return _NO_STEPS
    device = signals.of(device_signals)
    if shares.device is None and device.recorded != "host_only":
        return device.reason or _NO_OPS
    return shares.missing.get("launch") if shares.device is not None else None


def _cost(shares: StepShares, ops: EagerOps) -> StepSeries:
    """Return what the ops cost: late launches, or the way from one to the next."""
    if shares.device is not None:
        return shares.series(
            {"launch": ("launch",)}, unknown_from=_NEVER, clocks=True, lost=True
        )
    return StepSeries(
        step_source=shares.step_source,
        step_confidence=shares.step_confidence,
        closed=shares.closed,
        window_ps=shares.window_ps,
        parts_ps={"dispatch": ops.dispatch_ps},
    )


def _finding(
    signals: Signals,
    shares: StepShares,
    ops: EagerOps,
    verdict: Verdict,
    thresholds: Thresholds,
) -> Finding:
    share, eager = ops.percent, ops.lead(thresholds)
    if eager and verdict.unavailable is not None:
        return _ITEM.cannot_tell(verdict.unavailable)
    failed = eager and verdict.status == "fail"
    on_device = shares.device is not None
    effect = verdict.effect_ms
    fields = {
        "confidence": min(verdict.confidence, signals.of(record_grade)),
        "value": verdict.share_percent,
        "threshold": thresholds.launch_warn,
        "devices": (shares.label,),
        "parts": (
            *_callers(shares),
            # Where calls enclose what they run, the way to the next has no name.
            *(
                Part(name=name, share_percent=percent * (share or 100.0) / 100)
                for name, percent in ops.names
            ),
        ),
        "facts": (
            Fact(name="per_step", value=ops.per_step, unit="count"),
            Fact(name="eager", value=share, unit="percent"),
        ),
        "inputs": ("host_op_events", "event_kinds", "account"),
    }
    if not failed:
        return _ITEM.finding("pass", note="hidden" if eager else None, **fields)
    return _ITEM.finding(
        "fail",
        severity=verdict.severity,
        note=verdict.note,
        pattern=verdict.pattern,
        steps_hit=verdict.pattern.steps_hit,
        steps_clean=verdict.pattern.steps,
        causes=verdict.causes,
        ms_per_step=effect,
        explained_by=_explained_by(signals, shares, thresholds),
        saving_ms=None
        if on_device
        else msgspec.structs.replace(
            verdict.pattern.promise(effect), low=0.0, open_above=True
        ),
        **fields,
    )


def _explained_by(
    signals: Signals, shares: StepShares, thresholds: Thresholds
) -> tuple[str, ...]:
    """Return the rule whose finding promises the time."""
    if shares.device is not None:
        return ("launch.delay",)
    callers = _callers(shares)
    caller = callers[0] if callers else None
    of_it = are_of_a_function(signals, shares, caller, thresholds)
    return ("host.work",) if of_it else ()


def _callers(shares: StepShares) -> tuple[Part, ...]:
    """Return the program's function that calls most of what the host does."""
    found = None if shares.device is not None else shares.caller("host_compute")
    return () if found is None else (found,)


#: Beyond any share: time without an owner is no op's.
_NEVER: Final = 101.0
_TORCH: Final = Unavailable(
    code="NOT_RECORDED",
    reason="PyTorch runs ops one by one by design: whether a device waits for them is "
    "the matter of launch.delay.",
    remedy="Nothing to do.",
)
_NO_OPS: Final = Unavailable(
    code="NOT_RECORDED",
    reason="No op was recorded of which it is known how it ran.",
    remedy=Remedy.RECORD_OPS,
)
_NO_STEPS: Final = Unavailable(
    code="NO_STEPS",
    reason="Without steps it is unknown how many ops belong to one.",
    remedy=Remedy.MARK_STEPS,
)


RULE: Final = Rule(_ITEM, evaluate, (*OWNED_READS, *OF_FUNCTION_READS))
