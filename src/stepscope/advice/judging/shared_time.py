"""How much of the same time two findings are about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.advice.signals.shares import PLACES
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.advice.finding import Finding
    from stepscope.advice.signals.shares import AccountSignals, StepShares

__all__ = ["shared_time"]


def shared_time(
    accounted: AccountSignals | Unavailable,
) -> Callable[[Finding, Finding], float]:
    """Return what measures the time that a narrower and a broader finding share.

    It answers with a share of the judged steps in percent. Of findings that are not
    about owners and topics of one device it is all of the narrower one's.
    """
    shares = (
        {}
        if isinstance(accounted, Unavailable)
        else {one.label: one for one in accounted.shares}
    )

    def shared(narrow: Finding, broad: Finding) -> float:
        owned = (narrow.owners or narrow.topics) and broad.owners
        mine = shares.get(narrow.devices[0]) if owned and narrow.devices else None
        if owned and narrow.devices[:1] != broad.devices[:1]:
            return 0.0
        if mine is None:
            return narrow.share_percent or 0.0
        return _shared(narrow, broad, mine)

    return shared


def _shared(narrow: Finding, broad: Finding, shares: StepShares) -> float:
    places = [
        place
        for place in PLACES
        if narrow.place in ("any", place) and broad.place in ("any", place)
    ]
    return sum(
        shares.percent(owner, place=place)
        if owner in narrow.owners
        else shares.held_percent(owner, narrow.topics, place=place)
        for owner in broad.owners
        for place in places
    )
