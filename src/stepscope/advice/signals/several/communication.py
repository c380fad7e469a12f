"""Signals about collectives: which kinds run without computation beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from stepscope.advice.signals.signal import signal
from stepscope.derive.collectives.totals import collectives
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData
    from stepscope.thresholds import Thresholds

__all__ = ["CommunicationSignals", "communication_signals"]


class CommunicationSignals(Frozen, frozen=True):
    """What devices exchange.

    Attributes:
        count: `host:device` → number of collectives.
        exposed_ps: `host:device` → kind → time in which nothing else ran on the
            device, largest first.
    """

    count: dict[str, int]
    exposed_ps: dict[str, dict[str, int]]


@signal(collectives)
def communication_signals(
    profile: ProfileData, _: Thresholds
) -> CommunicationSignals | Unavailable:
    """Sum the collectives of every device by kind."""
    reasons: list[Unavailable] = []
    count: dict[str, int] = {}
    exposed: dict[str, dict[str, int]] = {}
    for host in profile.hosts:
        found = profile.derived(host, collectives)
        if isinstance(found, Unavailable):
            reasons.append(found)
            continue
        by_size = found.sort("exposed_ps", "kind", descending=[True, False])
        for device in found["device"].unique().sort():
            label = f"{host}:{device}"
            mine = by_size.filter(pl.col("device") == device)
            count[label] = int(mine["count"].sum())
            exposed[label] = dict(
                zip(mine["kind"], mine["exposed_ps"].to_list(), strict=True)
            )
    if reasons and not count:
        return reasons[0]
    return CommunicationSignals(count, exposed)
