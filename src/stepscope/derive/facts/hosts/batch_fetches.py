"""Recorded batch fetches, and how much of their time device activity hides."""

from __future__ import annotations

from collections import ChainMap
from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.columns.arrays import (
    ACTIVITY_CODES,
    codes,
    handles,
    ints,
    rows_of_kinds,
)
from stepscope.derive.input_pipeline.stages import recorded_practices
from stepscope.derive.run_derivation import first_reason, known_hosts, of_run
from stepscope.derive.verdicts.input_verdict import (
    InputTime,
    InputVerdict,
    any_known,
    decide_input,
    records_fetches,
)
from stepscope.frozen import Frozen
from stepscope.trace.reading.nullable import is_true
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

    from stepscope.derive.device.correlation import DeviceTimeline
    from stepscope.derive.facts.step_shares import AccountSignals
    from stepscope.derive.intervals.spans import Spans
    from stepscope.derive.run_derivation import OfHosts
    from stepscope.derive.step_time.device_sets import DeviceSets
    from stepscope.derive.step_time.host_classes import HostClasses
    from stepscope.derive.step_windows.windows import Windows
    from stepscope.derive.verdicts.recorded_devices import DeviceSignals
    from stepscope.trace.model import TraceData

#: Minimum size in bytes of a copy that counts as part of a batch.
_MIN_BATCH_COPY_BYTES: Final = 2**20

#: Kind of activity → whether it separates the copies before and after it into groups.
_DIVIDES: Final = np.isin(
    np.arange(256),
    [ACTIVITY_CODES[kind] for kind in ("kernel", "collective", "local_copy")],
)
#: Names of copies from pinned memory.
_FROM_PINNED: Final = r"(?i)pinned\s*->"
#: Part of the input time → its name in the breakdown of step time.
_OWNERS: Final = {
    "fetch": "input",
    "transfer": "copy_in",
    "starved": "unfed",
    "between": "between",
    "unexplained": "unexplained",
}


class InputSignals(Frozen, frozen=True):
    """Recorded facts about the fetching of batches.

    Attributes:
        consumer_recorded: Whether any batch fetch was recorded; None if an input
            pipeline worked whose fetches were not recorded.
        parallel: Whether the pipeline transforms or loads several elements in parallel;
            None if the recording does not show it.
        ahead: Whether the pipeline produces elements before they are requested; None if
            the recording does not show it.
        mean_fetch_ps: Host → mean duration of a fetch, by judged step with fetches.
        hidden_fetch_ps: `host:device` → part of `mean_fetch_ps` with a busy device.
        pieces: `host:device` → median number of groups of large copies to the device
            per judged step. Other activities separate groups; a batch usually is one.
        pinned: `host:device` of devices whose large copies are all from pinned memory.
    """

    consumer_recorded: bool | None
    parallel: bool | None
    ahead: bool | None
    mean_fetch_ps: Mapping[str, tuple[float, ...]]
    hidden_fetch_ps: Mapping[str, tuple[float, ...]]
    pieces: Mapping[str, float] = {}
    pinned: frozenset[str] = frozenset()


def input_decision(
    signals: AccountSignals,
    fetching: InputSignals | Unavailable,
    device: DeviceSignals,
) -> InputVerdict:
    """Describe the waits for input on every host in the judged steps."""
    times = []
    for shares in signals.shares:
        owners = ("input",) if shares.device is None else ("input", "copy_in")
        time = InputTime(
            host=shares.host,
            device=shares.device,
            step_source=shares.step_source,
            step_confidence=shares.step_confidence,
            closed=shares.closed,
            window_ps=shares.window_ps,
            parts_ps={cause: shares.times(owner) for cause, owner in _OWNERS.items()},
            is_blind=any(owner in shares.missing for owner in owners),
            lost_ps=shares.lost_ps,
            working_ps=shares.working_ps,
        )
        times.append(time)
    return decide_input(
        times,
        fetched=False
        if isinstance(fetching, Unavailable)
        else fetching.consumer_recorded,
        device=device,
        blind=fetching if isinstance(fetching, Unavailable) else None,
    )


def host_fetches(
    *,
    trace: TraceData,
    iterators: pl.DataFrame | Unavailable,
    host_classes: HostClasses,
    device_sets: DeviceSets | Unavailable,
    device_timeline: DeviceTimeline | Unavailable,
    windows: Windows,
) -> InputSignals:
    """Describe the fetches of one host."""
    # Names of iterators, and of events that call a loader.
    names: list[str] = []
    if not isinstance(iterators, Unavailable):
        names = iterators["long_name"].unique().drop_nulls().to_list()
    parallel, ahead = recorded_practices(names)
    waits, measured = host_classes.input_wait, windows.measured
    sets = () if isinstance(device_sets, Unavailable) else device_sets.devices
    pieces, pinned = _large_copies(trace, device_timeline, measured)
    return InputSignals(
        consumer_recorded=records_fetches(trace, host_classes),
        parallel=parallel,
        ahead=ahead,
        mean_fetch_ps={trace.host: _mean_fetches(measured, waits)},
        hidden_fetch_ps={
            f"{trace.host}:{device.device}": _mean_fetches(
                measured, waits, within=waits & device.busy
            )
            for device in sets
        },
        pieces=pieces,
        pinned=pinned,
    )


@of_run
def input_signals(*, host_fetches: OfHosts[InputSignals]) -> InputSignals | Unavailable:
    """Collect the fetches of all hosts."""
    hosts = list(known_hosts(host_fetches).values())
    why = first_reason(host_fetches)
    if why is not None and not hosts:
        return why
    means, hidden, pieces = (
        dict(ChainMap(*(dict(getattr(host, field)) for host in hosts)))
        for field in ("mean_fetch_ps", "hidden_fetch_ps", "pieces")
    )
    return InputSignals(
        any_known(host.consumer_recorded for host in hosts),
        any_known(host.parallel for host in hosts),
        any_known(host.ahead for host in hosts),
        *(means, hidden, pieces),
        pinned=frozenset(label for host in hosts for label in host.pinned),
    )


def _large_copies(
    trace: TraceData, ordered: DeviceTimeline | Unavailable, steps: pl.DataFrame
) -> tuple[dict[str, float], frozenset[str]]:
    """Return `pieces` and `pinned` of `InputSignals` for the devices of one host."""
    activity, types = trace.table("device_activity"), trace.table("event_types")
    if isinstance(activity, Unavailable) or isinstance(types, Unavailable):
        return {}, frozenset()
    rows = rows_of_kinds(activity, [ACTIVITY_CODES["h2d"]])
    rows = rows[is_true(activity["bytes"].gather(rows) >= _MIN_BATCH_COPY_BYTES)]
    named = types["name"].str.contains(_FROM_PINNED).fill_null(value=False).to_numpy()
    of_pinned = named[handles(activity, "type")[rows]]
    devices = handles(activity, "device")[rows]
    unpinned = set(devices[~of_pinned].tolist())
    pinned = {f"{trace.host}:{device}" for device in set(devices.tolist()) - unpinned}
    copied = np.zeros(len(activity), np.bool_)
    copied[rows] = True
    counts = _DIVIDES[codes(activity, "kind")] | copied
    pieces = {}
    for device in () if isinstance(ordered, Unavailable) else ordered.devices:
        # Indices of the counted activities, in time order.
        counted = np.flatnonzero(counts[device.rows])
        if not len(counted):
            continue
        group = copied[device.rows[counted]]
        group[1:] &= ~group[:-1].copy()
        begins = device.start_ps[counted[group]]
        first, last = (
            np.searchsorted(begins, ints(steps, name))
            for name in ("start_ps", "end_ps")
        )
        pieces[f"{trace.host}:{device.device}"] = float(np.median(last - first))
    return pieces, frozenset(pinned)


def _mean_fetches(
    measured: pl.DataFrame, waits: Spans, *, within: Spans | None = None
) -> tuple[float, ...]:
    """Return the mean duration of fetches in each judged step with fetches.

    If `within` is given, only the part of each fetch inside these spans counts.
    """
    starts, ends = ints(measured, "start_ps"), ints(measured, "end_ps")
    begun = np.searchsorted(waits.start_ps, ends)
    fetches = begun - np.searchsorted(waits.end_ps, starts, side="right")
    length_ps = (waits if within is None else within).within(starts, ends)
    fetched = fetches > 0
    return tuple((length_ps[fetched] / fetches[fetched]).tolist())
