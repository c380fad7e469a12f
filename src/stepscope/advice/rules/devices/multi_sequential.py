"""`multi.sequential`: devices of a host work one after another.

Definition: docs/advice/multi_sequential.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.finding import Action, Finding
from stepscope.advice.item import Item
from stepscope.advice.judging.compared import (
    COMPARED_READS,
    ONE_EACH,
    hands_on,
    judge_steps,
    workers_of,
)
from stepscope.advice.rule import Rule
from stepscope.advice.words import WAITING, Words
from stepscope.derive.facts.evidence import Fact
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.advice.signals import Signals
    from stepscope.thresholds import Thresholds

_ACTIONS: Final = (
    Action(
        cause="any",
        framework="any",
        text="Run one process per device, so that none launches for another.",
    ),
    Action(
        cause="any",
        framework="TensorFlow",
        text="Remove control dependencies between devices, and variables that are "
        "placed on one device only.",
        code="tf.distribute.MirroredStrategy()",
    ),
    Action(
        cause="any",
        framework="PyTorch",
        text="Replace DataParallel, which serves all devices from one thread.",
        code="torch.nn.parallel.DistributedDataParallel(model)",
    ),
    Action(
        cause="any",
        framework="JAX",
        text="Shard one computation over all devices instead of calling one per "
        "device.",
        code="jax.jit(step, in_shardings=…)",
    ),
)
_WORDS: Final = Words(
    passed="the devices work at the same time",
    lead=(
        "The devices take turns: {at_a_time} of {devices_of_host} work at a time.",
        "The devices take turns, {ms_per_step} a step.",
    ),
    texts={
        **WAITING,
        ("fail", None): (
            (
                (
                    "The devices take turns: {at_a_time} of {devices_of_host} work at "
                    "a time, while any of them works."
                ),
            ),
            ("{pattern}",),
        ),
        ("fail", "pipeline"): (
            (
                (
                    "The stages of the pipeline wait for each other: {at_a_time} of "
                    "{devices_of_host} devices work at a time."
                ),
            ),
        ),
    },
    causes={"turns": "waiting for the turn of another device"},
)
_ITEM: Final = Item(
    id="multi.sequential",
    stage=8,
    title="devices work one after another",
    words=_WORDS,
    pages=("pod_viewer", "trace_viewer"),
    confirm="Look at the streams of the devices: where one begins another ends.",
    refute="If they overlap in the timeline, the clocks of the devices differ.",
    actions=_ACTIONS,
)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Judge how many devices of a host work while any of them does."""
    found = workers_of(_ITEM, signals)
    if isinstance(found, Finding):
        return found
    if found.devices < _SEVERAL:
        return _ITEM.not_applicable(ONE_EACH)
    if not found.alike(thresholds.alike_work.value):
        return _ITEM.not_applicable(_UNLIKE)
    together = [step.concurrency for step in found.steps]
    known = [one for one in together if one is not None]
    if len(known) < len(together):
        return _ITEM.cannot_tell(_UNKNOWN)
    return judge_steps(
        _ITEM,
        signals,
        thresholds,
        found,
        cause="turns",
        effect_ps=[
            round(step.window_ps * max(1 - one / found.devices, 0.0))
            for step, one in zip(found.steps, known, strict=True)
        ],
        warn=thresholds.turns_warn,
        critical=thresholds.turns_critical,
        note="pipeline" if hands_on(signals) else None,
        facts=(
            Fact(
                name="at_a_time", value=round(sum(known) / len(known), 1), unit="ratio"
            ),
            Fact(name="devices_of_host", value=found.devices, unit="count"),
        ),
    )


_SEVERAL: Final = 2
_UNLIKE: Final = Unavailable(
    code="NO_SAMPLES",
    reason="The devices do different work, or one of them does none: they are not "
    "meant to work side by side.",
    remedy="Nothing to do.",
)
_UNKNOWN: Final = Unavailable(
    code="NO_DEVICE_EVENTS",
    reason="In some steps the work of a single device was recorded.",
    remedy="Record all devices of the host.",
)
RULE: Final = Rule(_ITEM, evaluate, COMPARED_READS)
