"""Waiting in collectives of several workers, and clock offsets between their hosts.

A worker is one device of one host. All members of a process group call its collectives
in the same order, so their n-th calls of a kind in a step are one collective.

All devices leave a collective at the same time. The device that enters last spends the
least time in the collective: the transfer time. On another device, time beyond the
transfer time is waiting. Splitting needs no common clock. The ends on two hosts are the
same moment, and no member can leave before all members have entered. Both facts limit
the possible clock offset.

On a busy host, a thread may get a core and leave milliseconds after other threads. A
thread's waiting therefore ends when the last member enters the collective.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import ints
from stepscope.derive.intervals.spans import Spans
from stepscope.frozen import Frozen
from stepscope.units import PS_PER_NS, PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Columns that `matched_collectives` adds.
MATCHED_COLUMNS: Final[dict[str, pl.DataType]] = {
    "instance": pl.Int64(),  # equal for the calls of one collective; -1 if unmatched
    "members": pl.Int64(),  # number of calls of this collective; 0 if unmatched
}
#: Columns that all calls of one collective have in common.
_SET: Final = ("step", "group", "kind")

#: Columns that `collective_waits` adds.
WAIT_COLUMNS: Final[dict[str, pl.DataType]] = {
    "wait_ps": pl.Int64(),  # wait for the last member; null if unmatched
    "waited_for_ps": pl.Int64(),  # how long other members waited for this one, summed
}


def collective_waits(matched: pl.DataFrame) -> pl.DataFrame:
    """Split each matched call into waiting and transfer.

    The last member of a collective is the device with the shortest call. If the members
    are threads, the last member entered last by the common clock. Devices with equally
    short calls are ordered by the common clock, then by row.

    Args:
        matched: The result of `matched_collectives` with the added columns `device`
            (null for a thread) and `shift_ps`.

    Returns:
        The calls in their order with the columns `WAIT_COLUMNS`.
    """
    is_matched = pl.col("instance") >= 0
    longer = pl.col("dur_ps") - pl.col("dur_ps").min().over("instance")
    is_thread = pl.col("device").is_null()
    came = (pl.col("start_ps") + pl.col("shift_ps")).fill_null(0)
    before_last = pl.col("came").max().over("instance") - pl.col("came")
    return (
        matched.with_row_index("row")
        .with_columns(came=came, spent=pl.when(is_thread).then(0).otherwise("dur_ps"))
        .with_columns(
            wait_ps=pl.when(is_matched & is_thread)
            .then(pl.min_horizontal(longer, before_last))
            .when(is_matched)
            .then(longer),
            last=(
                pl.col("row")
                .sort_by("spent", "came", "row", descending=[False, True, False])
                .first()
                .over("instance")
                == pl.col("row")
            ),
        )
        .with_columns(all_waits=pl.col("wait_ps").sum().over("instance"))
        .with_columns(
            waited_for_ps=pl.when(is_matched & pl.col("last"))
            .then("all_waits")
            .when(is_matched)
            .then(0)
        )
        .select(*matched.columns, *WAIT_COLUMNS)
    )


def waiting_spans(calls: pl.DataFrame) -> tuple[Spans, Spans, Spans]:
    """Return when a device waited in collectives, transferred, or was in unsplit calls.

    Unsplit calls have an unknown division into waiting and transfer. The three sets do
    not overlap: of simultaneous calls, transfers come first, then unsplit calls.

    Args:
        calls: The calls of one device with `start_ps`, `dur_ps` and `wait_ps`.
    """
    start, dur = ints(calls, "start_ps"), ints(calls, "dur_ps")
    known = calls["wait_ps"].is_not_null().to_numpy()
    wait = np.where(known, calls["wait_ps"].fill_null(0).to_numpy(), 0)
    transfer = Spans.from_events((start + wait)[known], (dur - wait)[known])
    unknown = Spans.from_events(start[~known], dur[~known]) - transfer
    waiting = Spans.from_events(start[known], wait[known]) - transfer - unknown
    return waiting, transfer, unknown


def matched_collectives(calls: pl.DataFrame) -> pl.DataFrame:
    """Give each collective in which several workers took part a number.

    Calls without a recorded group are assigned to one group of all workers with calls
    in the step. If members made different numbers of calls of a kind, none is matched.

    Args:
        calls: `host`, `device`, `step` (equal for the same step on all hosts; null if
            no other worker has the step), `kind`, `group`, `start_ps`, `dur_ps`.

    Returns:
        The calls in their order with the columns `MATCHED_COLUMNS`.
    """
    worker = ("host", "device")
    numbered = calls.with_columns(
        place=pl.col("start_ps").rank("ordinal").over(*_SET, *worker)
    ).with_columns(
        workers=pl.struct(worker).n_unique().over(_SET),
        members=pl.len().over(*_SET, "place").cast(pl.Int64),
        places=pl.col("place").max().over(_SET),
        total=pl.len().over(_SET),
    )
    agreed = (
        pl.col("step").is_not_null()
        & (pl.col("workers") > 1)
        & (pl.col("total") == pl.col("workers") * pl.col("places"))
    )
    instance = pl.struct(*_SET, "place").rank("dense").cast(pl.Int64) - 1
    return numbered.with_columns(
        instance=pl.when(agreed).then(instance).otherwise(-1),
        members=pl.when(agreed).then("members").otherwise(0),
    ).select(*calls.columns, *MATCHED_COLUMNS)


def without_contradictions(matched: pl.DataFrame) -> pl.DataFrame:
    """Remove matches of calls that cannot be one collective.

    No member leaves a collective before all members have entered. All members then
    leave within the transfer time, the duration of the last member's call. Calls that
    contradict this order belong to different collectives of unrecorded groups, or their
    sender need not wait. Calls of hosts without a common clock are not matched.

    Args:
        matched: The result of `matched_collectives` with two added columns: `shift_ps`,
            the offset to a common clock (null if no collective connects the host to the
            others), and `doubt_ps`, the error of that offset.
    """
    begin = pl.col("start_ps") + pl.col("shift_ps").fill_null(0)
    end = begin + pl.col("dur_ps")
    # The added microsecond is for recordings that round times to microseconds.
    spare = pl.col("doubt_ps").fill_null(0).max() * 2 + PS_PER_US
    transfer = pl.col("dur_ps").min()
    early = begin.max() - end.min() > spare
    contradicts = (early | (end.max() - end.min() > transfer + spare)).over("instance")
    several_hosts = (pl.col("host").n_unique() > 1).over("instance")
    untied = pl.col("shift_ps").is_null().any().over("instance")
    keep = ~(contradicts | (several_hosts & untied))
    return matched.with_columns(
        pl.when(keep).then("instance").otherwise(-1).alias("instance"),
        pl.when(keep).then("members").otherwise(0).alias("members"),
    )


#: Sources of a host's clock offset, most reliable first.
CLOCK_SOURCES: Final = ("reference", "collectives", "recorded", "steps", "none")
#: Minimum number of collectives for which the spread of end differences is the error.
_MIN_SPREAD_SAMPLES: Final = 5
#: Minimum error of a clock offset: some recordings round times to microseconds.
_ROUNDING_PS: Final = PS_PER_US


class HostClock(Frozen, frozen=True, eq=True):
    """Offset from the clock of one host to the clock of the reference host.

    Attributes:
        source: Source of the offset, one of `CLOCK_SOURCES`.
        shift_ps: Picoseconds to add to this host's times to get the reference's; None
            if unknown.
        doubt_ps: Error of `shift_ps` if all members of a collective leave it at the
            same time: the largest deviation of one collective. With few collectives,
            the error is `bound_ps`; if the offset is from steps, the longest step's
            duration; in other cases None.
        bound_ps: Largest possible error of `shift_ps`, whichever member left first;
            None if the hosts share no collective.
        offset_ps: Picoseconds by which the absolute clock recorded on this host is
            ahead of the reference's; None if either host recorded no absolute clock, or
            if no collective connects the hosts.
        samples: Number of collectives or steps from which `shift_ps` was computed.
    """

    host: str
    source: str
    shift_ps: int | None
    doubt_ps: int | None
    bound_ps: int | None
    offset_ps: int | None
    samples: int


class _Tie(Frozen, frozen=True, eq=True):
    """The clock offset between two hosts, with the fields of `HostClock`."""

    shift_ps: int
    doubt_ps: int
    bound_ps: int
    samples: int


def align_clocks(
    starts_unix_ns: Mapping[str, int | None],
    calls: pl.DataFrame,
    steps: Mapping[str, Mapping[int, tuple[int, int]]],
) -> dict[str, HostClock]:
    """Find each host's clock offset to the reference (the host with most collectives).

    The offset is computed from collectives if they connect the two hosts, directly or
    through other hosts. For other hosts, the offset is computed from absolute times
    that both hosts recorded; if there are none, from steps that both hosts have.

    Args:
        starts_unix_ns: Host → absolute time of its time 0, None if not recorded. If
            several hosts have most collectives, the first of them is the reference.
        calls: Matched calls: `host`, `instance` (-1 for none), `start_ps`, `dur_ps`.
        steps: Host → number of each step shared by hosts that step together → its start
            and duration. All hosts begin a shared step within one step's duration.
    """
    # By host and collective: last entry, first exit and last exit of the devices.
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
    by_host = {
        str(host): rows
        for (host,), rows in grouped.partition_by("host", as_dict=True).items()
    }
    hosts = sorted(
        starts_unix_ns, key=lambda host: -len(by_host[host]) if host in by_host else 0
    )
    ties = _through_collectives(hosts, by_host)
    clocks = {}
    for host in starts_unix_ns:
        tie = ties.get(host)
        if host == hosts[0]:
            clocks[host] = HostClock(host, "reference", 0, 0, 0, 0, 0)
        elif tie is not None:
            ahead = _recorded_shift(starts_unix_ns, host, hosts[0])
            clocks[host] = HostClock(
                host,
                "collectives",
                tie.shift_ps,
                tie.doubt_ps,
                tie.bound_ps,
                None if ahead is None else ahead - tie.shift_ps,
                tie.samples,
            )
        else:
            clocks[host] = _clock_by_times(
                host, _recorded_shift(starts_unix_ns, host, hosts[0]), steps, hosts[0]
            )
    return clocks


def _recorded_shift(
    starts_unix_ns: Mapping[str, int | None], host: str, reference: str
) -> int | None:
    own, base = starts_unix_ns[host], starts_unix_ns[reference]
    return None if own is None or base is None else (own - base) * PS_PER_NS


def _clock_by_times(
    host: str,
    recorded: int | None,
    steps: Mapping[str, Mapping[int, tuple[int, int]]],
    reference: str,
) -> HostClock:
    if recorded is not None:
        return HostClock(host, "recorded", recorded, None, None, None, 0)
    own, shared_steps = steps.get(host, {}), steps.get(reference, {})
    shared = sorted(own.keys() & shared_steps.keys())
    if not shared:
        return HostClock(host, "none", None, None, None, None, 0)
    shifts = [shared_steps[number][0] - own[number][0] for number in shared]
    longest = max(max(own[number][1], shared_steps[number][1]) for number in shared)
    shift = round(float(np.median(shifts)))
    return HostClock(host, "steps", shift, longest, None, None, len(shared))


def _through_collectives(
    hosts: Sequence[str], by_host: Mapping[str, pl.DataFrame]
) -> dict[str, _Tie]:
    """Find the clock offset of each host that collectives connect to the first host.

    If there are several paths, the one through the fewest hosts is used; if these are
    equal, the one with most collectives.
    """
    ties = {hosts[0]: _Tie(0, 0, 0, 0)}
    nearest = [host for host in hosts[:1] if host in by_host]
    waiting = [host for host in hosts[1:] if host in by_host]
    while nearest and waiting:
        new_ties = {}
        for host in waiting:
            pairs = [(via, _tie_clocks(by_host[host], by_host[via])) for via in nearest]
            known = [(tie.samples, via, tie) for via, tie in pairs if tie is not None]
            if known:
                _, via, tie = max(known, key=lambda candidate: candidate[0])
                second = ties[via]
                new_ties[host] = _Tie(
                    tie.shift_ps + second.shift_ps,
                    tie.doubt_ps + second.doubt_ps,
                    tie.bound_ps + second.bound_ps,
                    tie.samples,
                )
        ties |= new_ties
        nearest = list(new_ties)
        waiting = [host for host in waiting if host not in new_ties]
    return ties


def _tie_clocks(own: pl.DataFrame, reference: pl.DataFrame) -> _Tie | None:
    """Return the offset from the first clock to the other; None if it is unknown.

    The offset is the median difference of the ends. With `came` and `left` as the times
    of entering and leaving, each collective bounds it: `came_other - left_mine <= shift
    <= left_other - came_mine`.
    """
    shared = own.join(reference, on="instance", suffix="_other")
    if not len(shared):
        return None
    differences = ints(shared, "left_ps_other") - ints(shared, "left_ps")
    low = ints(shared, "came_ps_other") - ints(shared, "left_first_ps")
    high = ints(shared, "left_first_ps_other") - ints(shared, "came_ps")
    shift = round(float(np.median(differences)))
    low, high = low - _ROUNDING_PS, high + _ROUNDING_PS
    # Few contradictions may be due to kinds of collective whose sender need not wait.
    # If most collectives contradict the order, they were matched wrongly.
    fits = (low <= shift) & (shift <= high)
    if 2 * int(fits.sum()) <= len(fits):
        return None
    bound = max(shift - int(low[fits].max()), int(high[fits].min()) - shift)
    doubt = bound
    if len(differences) >= _MIN_SPREAD_SAMPLES:
        spread = int(np.abs(differences - shift)[fits].max())
        doubt = max(min(spread, bound), _ROUNDING_PS)
    return _Tie(shift, doubt, bound, len(differences))
