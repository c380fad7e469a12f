"""The limits that every saving is held to: the finding's time, and the step.

Definition: docs/definitions/judging.md#gain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from stepscope.derive.facts.evidence import Limits
from stepscope.derive.facts.step_shares import account_signals
from stepscope.derive.step_time.owners import BUSY_OWNERS
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.step_shares import StepShares


def limited(finding: Finding, signals: Signals) -> Finding:
    """Return a finding whose saving is within its limits."""
    if finding.saving_ms is None:
        return finding
    saving = finding.saving_ms.within(limits_of(finding, signals))
    return msgspec.structs.replace(finding, saving_ms=saving)


def limits_of(finding: Finding, signals: Signals) -> Limits:
    """Return what limits the saving of a finding, as far as the account knows it.

    What a device does stays, except for the owners that the finding is about. A finding
    that names no owner may be about any of its work.
    """
    shares = _shares_of(finding, signals)
    if shares is None:
        return Limits(finding.ms_per_step, None)
    step_ms = shares.total_ps / len(shares.window_ps) / PS_PER_MS
    staying = set(BUSY_OWNERS).difference(finding.owners)
    percent = shares.percent(*staying) if finding.owners or finding.topics else 0.0
    return Limits(finding.ms_per_step, step_ms, step_ms * percent / 100)


def _shares_of(finding: Finding, signals: Signals) -> StepShares | None:
    """Return the account of the device or host that a finding is about."""
    account = signals.of(account_signals)
    if isinstance(account, Unavailable) or not finding.devices:
        return None
    label = finding.devices[0]
    return next(
        (one for one in account.shares if one.label == label and one.window_ps), None
    )
