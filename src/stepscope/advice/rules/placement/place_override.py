"""`place.override`: ops of the model run on the host, between ops on the device.

Definition: docs/advice/place_override.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.finding import Action
from stepscope.advice.item import Item
from stepscope.advice.rule import Rule
from stepscope.advice.rules.placement.place_host import PLACED_READS, judge_placed
from stepscope.advice.words import WAITING, Words

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding
    from stepscope.advice.signals import Signals
    from stepscope.thresholds import Thresholds

_KINDS: Final = {"overridden": "model"}
_ACTIONS: Final = (
    Action(
        cause="any",
        framework="TensorFlow",
        text="See where each op is put, and replace those without a form for the "
        "device, or move them to the input pipeline.",
        code="tf.debugging.set_log_device_placement(True)",
    ),
    Action(
        cause="any",
        framework="any",
        text="Pad instead of working on shapes that are known only at run time.",
    ),
)
_FOUND: Final = (
    (
        "Ops of the model run on the host although others of it run on the device: "
        "{share_percent} of the time, {ms_per_step} a step, most of it {named}."
    ),
    (
        "Ops of the model run on the host although others of it run on the device: "
        "{share_percent} of the time."
    ),
)
_WORDS: Final = Words(
    passed="the model's ops run where the others do",
    texts={**WAITING, ("fail", None): (_FOUND, ("{pattern}",))},
    causes={"overridden": "ops of the model on the host"},
)
_ITEM: Final = Item(
    id="place.override",
    stage=4,
    title="ops of the model run on the host",
    words=_WORDS,
    pages=("framework_op_stats", "trace_viewer"),
    confirm="Log the placement of ops: the named one was asked for on the device.",
    refute="If the op was put on the host on purpose, moving it may cost more.",
    floors=("the op's own time on the device: not estimated",),
    actions=_ACTIONS,
    explains=("launch.delay",),
)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Judge the time that a device waits for ops in scopes that it works for."""
    return judge_placed(_ITEM, _KINDS, signals, thresholds)


RULE: Final = Rule(_ITEM, evaluate, PLACED_READS)
