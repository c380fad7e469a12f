"""`gap.gc`: Python collects garbage while nothing else is done.

Definition: docs/advice/gap_gc.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.finding import Action, Finding
from stepscope.advice.item import Item
from stepscope.advice.judging.owned import OWNED_READS, Owned, judge_owned
from stepscope.advice.rule import Rule
from stepscope.advice.words import WAITING, Words

if TYPE_CHECKING:
    from stepscope.advice.signals.signal import Signals
    from stepscope.thresholds import Thresholds

__all__ = ["RULE", "evaluate"]

_OWNED: Final = Owned(
    parts={"collections": ("garbage",)},
    host=True,
    seen=("garbage",),
    unknown=False,
    lost=True,
)
_ACTIONS: Final = (
    Action(
        cause="any",
        framework="any",
        text="After the set-up, leave out of every collection what lives as long as "
        "the program.",
        code="gc.collect(); gc.freeze()",
    ),
    Action(
        cause="any",
        framework="any",
        text="Collect by hand every n-th step, in the same step on all workers.",
        code="gc.disable()  # then gc.collect() if step % 1000 == 0",
    ),
    Action(
        cause="any",
        framework="any",
        text="Make fewer Python objects per batch: arrays in place of lists and "
        "dictionaries of numbers.",
    ),
)
_WORDS: Final = Words(
    passed="collecting garbage hardly holds up the steps",
    lead=(
        (
            "Python collects garbage while nothing else is done: {share_percent} of "
            "the time, {ms_per_step} a step on average."
        ),
    ),
    texts=WAITING,
    causes={"collections": "garbage collections"},
)
_ITEM: Final = Item(
    id="gap.gc",
    stage=2,
    title="garbage collections hold up the steps",
    words=_WORDS,
    pages=("overview_page", "trace_viewer"),
    confirm="Look at the ranges: a collection runs, and nothing computes meanwhile.",
    refute="Run once with `gc.disable()`: if the steps take as long, collections are "
    "not what they wait for.",
    actions=_ACTIONS,
    explains=("gaps.between", "host.work"),
)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Judge the time in which Python collects garbage and nothing else is done."""
    return judge_owned(
        _ITEM,
        _OWNED,
        signals,
        thresholds,
        warn=thresholds.collections_warn,
        critical=thresholds.collections_critical,
    )


RULE: Final = Rule(_ITEM, evaluate, OWNED_READS)
