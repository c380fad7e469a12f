"""`gaps.between`: the device idles between steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.advice.catalogue import rule_item
from stepscope.advice.finding import Finding
from stepscope.advice.judging.owned import (
    OWNED_READS,
    Owned,
    judge_shares,
    owned_finding,
    shares_of,
)
from stepscope.advice.rule import Rule
from stepscope.derive.facts.evidence import Saving
from stepscope.derive.step_time.owners import IDLE_OWNERS

if TYPE_CHECKING:
    from stepscope.advice.signals import Signals
    from stepscope.thresholds import Thresholds

_ITEM: Final = rule_item("gaps.between")

#: Waiting for batches, compiling, and what the recording hides are other findings.
_OTHERS: Final = frozenset({"input", "compile", "profiler", "queued", "switch"})
_OWNED: Final = Owned(
    parts={owner: (owner,) for owner in IDLE_OWNERS if owner not in _OTHERS},
    place="between",
    device=True,
    steps=True,
    seen=("launch",),
    # What lies between the steps is the effect, whoever owns it.
    unknown=False,
    lost=True,
)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    shares = shares_of(_ITEM, _OWNED, signals, thresholds)
    if isinstance(shares, Finding):
        return shares
    warn = thresholds.between_warn
    verdict = judge_shares(
        _OWNED, shares, thresholds, warn=warn, critical=thresholds.between_critical
    )
    at_end = len(shares.window_ps) == 1 and not shares.closed
    ms_at_end = verdict.effect_ms if at_end else None
    finding = owned_finding(
        _ITEM,
        _OWNED,
        signals,
        shares=shares,
        verdict=verdict,
        thresholds=thresholds,
        warn=warn,
        facts=_ITEM.facts(ms_at_end=ms_at_end),
        actions=_ITEM.actions if at_end else _ITEM.actions_for("any"),
    )
    if finding.status != "fail" or ms_at_end is None:
        return finding
    # Nothing shows that other steps have it too.
    return msgspec.structs.replace(
        finding, note="at_end", saving_ms=Saving(low=0.0, high=ms_at_end)
    )


RULE: Final = Rule(_ITEM, evaluate, OWNED_READS)
