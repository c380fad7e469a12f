"""How much time two findings have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.derive.step_time.owners import BUSY_OWNERS, IDLE_OWNERS, PLACES
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stepscope.advice.finding import Finding
    from stepscope.derive.facts.step_shares import AccountSignals, StepShares

_OWNERS: Final = frozenset({*BUSY_OWNERS, *IDLE_OWNERS})


def shared_time(
    accounted: AccountSignals | Unavailable,
) -> Callable[[Sequence[Finding], Finding], float]:
    """Return a function for the time that narrower findings and a broader one share.

    The returned function returns a share of the judged steps in percent; overlapping
    time of several narrower findings counts once. A broader finding about slow steps
    names owners only as its causes, so the shared time is the time of these causes. If
    the findings are not about the same device, or have no owners, all time of the
    longest narrower finding counts as shared.
    """
    shares = (
        {}
        if isinstance(accounted, Unavailable)
        else {host_shares.label: host_shares for host_shares in accounted.shares}
    )

    def shared(narrower: Sequence[Finding], broad: Finding) -> float:
        broad_shares = (
            shares.get(broad.devices[0]) if broad.owners and broad.devices else None
        )
        if broad_shares is None:
            return max(
                (_share_by_causes(finding, broad) for finding in narrower), default=0.0
            )
        owned = [finding for finding in narrower if finding.owners or finding.topics]
        same_device = [
            finding for finding in owned if finding.devices[:1] == broad.devices[:1]
        ]
        other_shares = [
            _share_or_zero(finding) for finding in narrower if finding not in owned
        ]
        return max(_shared_share(same_device, broad, broad_shares), *other_shares, 0.0)

    return shared


def _share_or_zero(finding: Finding) -> float:
    return finding.share_percent or 0.0


def _share_by_causes(narrow: Finding, broad: Finding) -> float:
    """Return how much of a broader finding's causes is time of a narrower finding."""
    caused = [cause for cause in broad.causes if cause.cause in _OWNERS]
    if broad.owners or not caused or not narrow.owners:
        return _share_or_zero(narrow)
    if narrow.devices[:1] != broad.devices[:1]:
        return 0.0
    return sum(cause.share_percent for cause in caused if cause.cause in narrow.owners)


def _shared_share(
    narrower: Sequence[Finding], broad: Finding, shares: StepShares
) -> float:
    total = 0.0
    for place in PLACES:
        if broad.place not in ("any", place):
            continue
        same_place = [
            finding for finding in narrower if finding.place in ("any", place)
        ]
        owners = {owner for finding in same_place for owner in finding.owners}
        topics = tuple(
            dict.fromkeys(topic for finding in same_place for topic in finding.topics)
        )
        total += sum(
            shares.percent(owner, place=place)
            if owner in owners
            else shares.held_percent(owner, topics, place=place)
            for owner in broad.owners
        )
    return total
