"""Rules: one file each, signals in, a finding out. Listed in the guides' order."""

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
