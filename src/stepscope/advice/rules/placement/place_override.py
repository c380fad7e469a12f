"""`place.override`: ops of the model run on the host, between ops on the device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.catalogue import rule_item
from stepscope.advice.rule import Rule
from stepscope.advice.rules.placement.place_host import PLACED_READS, judge_placed

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding
    from stepscope.advice.signals import Signals
    from stepscope.thresholds import Thresholds

_ITEM: Final = rule_item("place.override")

_KINDS: Final = {"overridden": "model"}


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    return judge_placed(_ITEM, _KINDS, signals, thresholds)


RULE: Final = Rule(_ITEM, evaluate, PLACED_READS)
