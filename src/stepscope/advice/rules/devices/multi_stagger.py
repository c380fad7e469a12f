"""`multi.stagger`: work reaches the workers one after another.

Definition: docs/advice/multi_stagger.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.finding import Action, Finding
from stepscope.advice.item import Item
from stepscope.advice.judging.compared import (
    COMPARED_READS,
    hands_on,
    judge_steps,
    workers_of,
)
from stepscope.advice.rule import Rule
from stepscope.advice.words import WAITING, Words
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.advice.signals import Signals
    from stepscope.advice.worker_comparison import StepWorkers
    from stepscope.thresholds import Thresholds

_ACTIONS: Final = (
    Action(
        cause="any",
        framework="TensorFlow",
        text="Give each device threads of its own for launching.",
        env="TF_GPU_THREAD_MODE=gpu_private",
    ),
    Action(
        cause="any",
        framework="PyTorch",
        text="Let each device have a process that launches its work.",
        code="torchrun --nproc-per-node=8 train.py  # DistributedDataParallel",
    ),
    Action(
        cause="any",
        framework="JAX",
        text="Let each device have a process that launches its work.",
        code="jax.distributed.initialize(local_device_ids=[rank])",
    ),
    Action(
        cause="any",
        framework="any",
        text="Run one process per device, each on cores of its own.",
    ),
    Action(
        cause="any",
        framework="any",
        text="Where the first batch of the late worker comes late, mend its input "
        "first.",
    ),
)
_WORDS: Final = Words(
    passed="the workers begin their steps together",
    texts={
        **WAITING,
        ("fail", None): (
            (
                (
                    "The last worker begins its step {ms_per_step} after the first: "
                    "{share_percent} of the time."
                ),
                "{title}: {share_percent} of the time.",
            ),
            ("{pattern}",),
        ),
    },
    causes={"skew": "from the first worker's start to the last one's"},
)
_ITEM: Final = Item(
    id="multi.stagger",
    stage=8,
    title="work reaches the workers one after another",
    words=_WORDS,
    pages=("pod_viewer", "trace_viewer"),
    confirm="Look at the first kernel of a step on all workers.",
    refute="If the worker that begins last also ends last by as much and nobody waits "
    "for it, the clocks differ.",
    actions=_ACTIONS,
)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Judge the time from the first worker's start of a step to the last one's."""
    found = workers_of(_ITEM, signals)
    if isinstance(found, Finding):
        return found
    if hands_on(signals):
        return _ITEM.not_applicable(_PIPELINE)
    if not found.alike(thresholds.alike_work.value):
        return _ITEM.not_applicable(_UNLIKE)
    skews = [step.skew_ps for step in found.steps]
    known = [one for one in skews if one is not None]
    if len(known) < len(skews) or _drowned(found.steps, thresholds):
        return _ITEM.cannot_tell(_CLOCKS)
    return judge_steps(
        _ITEM,
        signals,
        thresholds,
        found,
        cause="skew",
        effect_ps=known,
        warn=thresholds.stagger_warn,
        critical=thresholds.stagger_critical,
        doubt_ps=sum(step.skew_doubt_ps for step in found.steps),
    )


def _drowned(steps: tuple[StepWorkers, ...], thresholds: Thresholds) -> bool:
    """Return whether the skew may be an error of the clocks."""
    skew = sum(step.skew_ps or 0 for step in steps)
    doubt = sum(step.skew_doubt_ps for step in steps)
    window = sum(step.window_ps for step in steps)
    matters = 100 * max(skew, doubt) >= thresholds.stagger_warn.value * window
    return matters and skew < thresholds.clock_margin.value * doubt


_CLOCKS: Final = Unavailable(
    code="NO_SAMPLES",
    reason="The clocks of the workers are not tied closely enough to compare when they "
    "begin.",
    remedy="Record steps in which the workers exchange data: exchanges tie clocks.",
)
_UNLIKE: Final = Unavailable(
    code="NO_SAMPLES",
    reason="The workers do different work: they need not begin together.",
    remedy="Nothing to do.",
)
_PIPELINE: Final = Unavailable(
    code="NO_SAMPLES",
    reason="The devices hand their results on to each other, as stages of a pipeline: "
    "they begin one after another.",
    remedy="Nothing to do.",
)
RULE: Final = Rule(_ITEM, evaluate, COMPARED_READS)
