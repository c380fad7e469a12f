"""Signals about collectives: which kinds run without computation beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from stepscope.advice.finding import Evidence
from stepscope.advice.signals.ranges import SHOWN, event_labels
from stepscope.advice.signals.signal import signal
from stepscope.derive.collectives.calls import collective_calls, collectives
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData
    from stepscope.thresholds import Thresholds


class CommunicationSignals(Frozen, frozen=True):
    """What devices exchange.

    Attributes:
        count: `host:device` → number of collectives.
        exposed_ps: `host:device` → kind → time in which nothing else ran on the
            device, largest first.
        longest: `host:device` → the collectives beside which nothing else ran for
            longest, the longest first.
    """

    count: dict[str, int]
    exposed_ps: dict[str, dict[str, int]]
    longest: dict[str, tuple[Evidence, ...]]


@signal(collectives, collective_calls)
def communication_signals(
    profile: ProfileData, _: Thresholds
) -> CommunicationSignals | Unavailable:
    """Sum the collectives of every device by kind."""
    reasons: list[Unavailable] = []
    count: dict[str, int] = {}
    exposed: dict[str, dict[str, int]] = {}
    longest: dict[str, tuple[Evidence, ...]] = {}
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
            longest[label] = _longest(profile, host, device)
    if reasons and not count:
        return reasons[0]
    return CommunicationSignals(count, exposed, longest)


def _longest(profile: ProfileData, host: str, device: int) -> tuple[Evidence, ...]:
    calls = profile.derived(host, collective_calls)
    activity = profile.table(host, "device_activity")
    if isinstance(calls, Unavailable) or isinstance(activity, Unavailable):
        return ()
    mine = (pl.col("device") == device) & (pl.col("exposed_ps") > 0)
    by = ["exposed_ps", "start_ps"]
    top = calls.filter(mine).top_k(SHOWN, by=by, reverse=[False, True])
    event = activity["event"].gather(top["activity"])
    labels = event_labels(profile, host, event.drop_nulls().to_list())
    return tuple(
        Evidence(
            host=host,
            device=device,
            track=labels.get(at, (None, ""))[0],
            start_ps=row["start_ps"],
            end_ps=row["start_ps"] + row["dur_ps"],
            ops=(labels[at][1],) if at in labels else (row["kind"],),
        )
        for at, row in zip(event, top.iter_rows(named=True), strict=True)
    )
