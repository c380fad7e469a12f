"""The list of rules, in the order of the optimization guides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.rules import amp_share, input_bound, launch_delay

if TYPE_CHECKING:
    from stepscope.advice.rule import Rule

__all__ = ["RULES"]

RULES: Final[tuple[Rule, ...]] = (
    input_bound.RULE,
    launch_delay.RULE,
    amp_share.RULE,
)
