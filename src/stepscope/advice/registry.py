"""The list of rules, in the order of the optimization guides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.rules import (
    amp_share,
    capture_quality,
    comm_exposed,
    gaps_between,
    host_work,
    input_bound,
    launch_delay,
)

if TYPE_CHECKING:
    from stepscope.advice.rule import Rule

__all__ = ["RULES"]

RULES: Final[tuple[Rule, ...]] = (
    capture_quality.RULE,
    input_bound.RULE,
    gaps_between.RULE,
    host_work.RULE,
    launch_delay.RULE,
    amp_share.RULE,
    comm_exposed.RULE,
)
