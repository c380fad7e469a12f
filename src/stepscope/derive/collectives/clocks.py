"""The clocks of several hosts: how to align their times, and with what error.

The members of a collective leave it together, so its ends on two hosts are one moment.
No member can leave before all have come, which bounds the difference of the clocks
whatever the network did.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import ints
from stepscope.frozen import Frozen
from stepscope.units import PS_PER_NS, PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: What ties a host's clock to the reference, the surest first.
CLOCK_SOURCES: Final = ("reference", "collectives", "recorded", "steps", "none")
#: The spread of fewer differences means nothing; only the bounds are used then.
_FEW: Final = 5
#: Some recordings round times to microseconds: no error is smaller than that.
_ROUNDING_PS: Final = PS_PER_US


class HostClock(Frozen, frozen=True, eq=True):
    """How the times of one host become those of the reference.

    Attributes:
        source: What ties the host's clock to the reference, one of `CLOCK_SOURCES`.
        shift_ps: Picoseconds to add to a time of this host to get the reference's
            time; None where nothing ties the two clocks together.
        doubt_ps: Error of `shift_ps` if the members of a collective leave it
            together: the largest deviation of one collective. With few collectives it
            is `bound_ps`; with steps, the length of the longest step. None where the
            error is unknown.
        bound_ps: Largest possible error of `shift_ps`, whichever member left first;
            None where the hosts share no collective.
        offset_ps: Time by which the absolute clock that this host recorded is ahead
            of the reference's; None where one of them recorded none, or where nothing
            else ties them together.
        samples: Number of collectives or steps that `shift_ps` was taken from.
    """

    host: str
    source: str
    shift_ps: int | None
    doubt_ps: int | None
    bound_ps: int | None
    offset_ps: int | None
    samples: int


class _Tie(Frozen, frozen=True, eq=True):
    """The shift from one host to another."""

    shift_ps: int
    doubt_ps: int
    bound_ps: int
    samples: int


def align(
    starts_unix_ns: Mapping[str, int | None],
    calls: pl.DataFrame,
    steps: Mapping[str, Mapping[int, tuple[int, int]]],
) -> dict[str, HostClock]:
    """Tie the clock of every host to that of the one with the most collectives.

    Clocks are tied by collectives where hosts share some, directly or through another
    host; else by the absolute times that both recorded; else by steps that they share.

    Args:
        starts_unix_ns: Host → absolute time of its time 0, None where it recorded
            none. Of hosts with equally many collectives the first is the reference.
        calls: Matched collectives: `host`, `instance` (-1 for none), `start_ps`,
            `dur_ps`.
        steps: Host → number of each step that hosts in lock step share → its start and
            length. The hosts begin such a step less than a step apart.
    """
    by_host = _collective_times(calls)
    hosts = sorted(
        starts_unix_ns, key=lambda host: -len(by_host[host]) if host in by_host else 0
    )
    ties = _through_collectives(hosts, by_host)
    found = {}
    for host in starts_unix_ns:
        tie = ties.get(host)
        if host == hosts[0]:
            found[host] = HostClock(host, "reference", 0, 0, 0, 0, 0)
        elif tie is not None:
            ahead = _recorded_shift(starts_unix_ns, host, hosts[0])
            offset = None if ahead is None else ahead - tie.shift_ps
            found[host] = HostClock(
                host,
                "collectives",
                tie.shift_ps,
                tie.doubt_ps,
                tie.bound_ps,
                offset,
                tie.samples,
            )
        else:
            found[host] = _without_collectives(
                host, _recorded_shift(starts_unix_ns, host, hosts[0]), steps, hosts[0]
            )
    return found


def _recorded_shift(
    starts_unix_ns: Mapping[str, int | None], host: str, reference: str
) -> int | None:
    mine, other = starts_unix_ns[host], starts_unix_ns[reference]
    return None if mine is None or other is None else (mine - other) * PS_PER_NS


def _without_collectives(
    host: str,
    recorded: int | None,
    steps: Mapping[str, Mapping[int, tuple[int, int]]],
    reference: str,
) -> HostClock:
    if recorded is not None:
        return HostClock(host, "recorded", recorded, None, None, None, 0)
    mine, others = steps.get(host, {}), steps.get(reference, {})
    shared = sorted(mine.keys() & others.keys())
    if not shared:
        return HostClock(host, "none", None, None, None, None, 0)
    apart = [others[number][0] - mine[number][0] for number in shared]
    longest = max(max(mine[number][1], others[number][1]) for number in shared)
    shift = round(float(np.median(apart)))
    return HostClock(host, "steps", shift, longest, None, None, len(shared))


def _through_collectives(
    hosts: Sequence[str], by_host: Mapping[str, pl.DataFrame]
) -> dict[str, _Tie]:
    """Tie every host that collectives connect with the first, through the fewest hosts.

    Of equally short ways the one with most collectives is taken.
    """
    ties = {hosts[0]: _Tie(0, 0, 0, 0)}
    nearest = [host for host in hosts[:1] if host in by_host]
    waiting = [host for host in hosts[1:] if host in by_host]
    while nearest and waiting:
        found = {}
        for host in waiting:
            direct = [
                (via, _tie_clocks(by_host[host], by_host[via])) for via in nearest
            ]
            known = [(tie.samples, via, tie) for via, tie in direct if tie is not None]
            if known:
                _, via, tie = max(known, key=lambda it: it[0])
                second = ties[via]
                found[host] = _Tie(
                    tie.shift_ps + second.shift_ps,
                    tie.doubt_ps + second.doubt_ps,
                    tie.bound_ps + second.bound_ps,
                    tie.samples,
                )
        ties |= found
        nearest = list(found)
        waiting = [host for host in waiting if host not in found]
    return ties


def _collective_times(calls: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Return when the first device left and the last came, per host and collective.

    The devices of a host share a clock.
    """
    end = pl.col("start_ps") + pl.col("dur_ps")
    grouped = (
        calls.filter(pl.col("instance") >= 0)
        .group_by("host", "instance")
        .agg(
            pl.col("start_ps").max().alias("came_ps"),
            end.min().alias("left_first_ps"),
            end.max().alias("left_ps"),
        )
        .sort("host", "instance")
    )
    return {
        str(host): rows
        for (host,), rows in grouped.partition_by("host", as_dict=True).items()
    }


def _tie_clocks(mine: pl.DataFrame, others: pl.DataFrame) -> _Tie | None:
    """Return the shift from my clock to the other's; None where they cannot be tied.

    The shift is the median difference of the ends. With `came` and `left` of both,
    `came_other - left_mine <= shift <= left_other - came_mine` for each collective.
    """
    shared = mine.join(others, on="instance", suffix="_other")
    if not len(shared):
        return None
    differences = ints(shared, "left_ps_other") - ints(shared, "left_ps")
    low = ints(shared, "came_ps_other") - ints(shared, "left_first_ps")
    high = ints(shared, "left_first_ps_other") - ints(shared, "came_ps")
    shift = round(float(np.median(differences)))
    low, high = low - _ROUNDING_PS, high + _ROUNDING_PS
    # A few contradictions come from kinds in which a sender need not wait; if most
    # collectives contradict the shift, they were matched wrongly.
    fits = (low <= shift) & (shift <= high)
    if 2 * int(fits.sum()) <= len(fits):
        return None
    bound = max(shift - int(low[fits].max()), int(high[fits].min()) - shift)
    doubt = bound
    if len(differences) >= _FEW:
        spread = int(np.abs(differences - shift)[fits].max())
        doubt = max(min(spread, bound), _ROUNDING_PS)
    return _Tie(shift, doubt, bound, len(differences))
