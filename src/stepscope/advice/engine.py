"""From a profile to the ordered list of findings.

Definition: docs/definitions/judging.md#order-of-findings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.advice.registry import RULES
from stepscope.advice.signals.signal import Signals
from stepscope.thresholds import THRESHOLDS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stepscope.advice.finding import Finding
    from stepscope.derive.profile_data import ProfileData
    from stepscope.thresholds import Thresholds

__all__ = ["DERIVATIONS", "evaluate", "signals_of", "staged"]

#: Derivations that the rules' signals ask for on each host; what those need in turn is
#: not listed.
DERIVATIONS: Final = tuple(
    dict.fromkeys(
        needed for rule in RULES for signal in rule.reads for needed in signal.needs
    )
)

#: A finding of a later stage comes first when its possible saving is at least this many
#: times the sum of those of the current stage.
_OVERRIDE: Final = 2.0


def signals_of(profile: ProfileData, thresholds: Thresholds = THRESHOLDS) -> Signals:
    """Return the signals of a profile; an absent one is `Unavailable` with a reason."""
    profile.prepare(DERIVATIONS)
    return Signals(lambda signal: signal.compute(profile, thresholds))


def evaluate(
    signals: Signals, *, thresholds: Thresholds = THRESHOLDS
) -> tuple[Finding, ...]:
    """Run every rule and put the findings into the order in which to act."""
    return staged(rule.evaluate(signals, thresholds) for rule in RULES)


def staged(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Mark which stage to settle first.

    The current stage is the first with a warning or worse. A failing finding of a later
    stage names the current stage in `after_stage`, unless it promises to save at least
    twice as much.
    """
    ordered = sorted(findings, key=lambda finding: finding.stage)
    current = next(
        (finding.stage for finding in ordered if _matters(finding)),
        None,
    )
    if current is None:
        return tuple(ordered)
    at_stake = sum(_bound(finding) for finding in ordered if finding.stage == current)
    return tuple(
        msgspec.structs.replace(finding, after_stage=current)
        if finding.status == "fail"
        and finding.stage > current
        and _bound(finding) < _OVERRIDE * at_stake
        else finding
        for finding in ordered
    )


def _matters(finding: Finding) -> bool:
    return finding.status == "fail" and finding.severity != "info"


def _bound(finding: Finding) -> float:
    if finding.status != "fail" or finding.saving_ms is None:
        return 0.0
    return finding.saving_ms.high
