"""Signals about fetching batches: what was recorded of it, and what is hidden."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.advice.signals.shares import account_signals
from stepscope.advice.signals.signal import signal
from stepscope.derive.columns.arrays import codes, handles, ints, of_kinds
from stepscope.derive.device.timeline import device_timeline
from stepscope.derive.judging.input_verdict import (
    InputTime,
    InputVerdict,
    decide_input,
    records_fetches,
)
from stepscope.derive.step_time.device_sets import device_sets
from stepscope.derive.step_time.host_classes import host_classes
from stepscope.derive.step_windows.windows import windows
from stepscope.frozen import Frozen
from stepscope.trace.device_activity import ACTIVITY_KINDS
from stepscope.trace.reading.nullable import is_true
from stepscope.unavailable import Unavailable, present

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from stepscope.advice.signals.shares import AccountSignals, StepShares
    from stepscope.derive.intervals.spans import Spans
    from stepscope.derive.judging.recorded_devices import DeviceSignals
    from stepscope.derive.profile_data import ProfileData
    from stepscope.thresholds import Thresholds

#: Smaller copies are no part of a batch that matters.
_LARGE_BYTES: Final = 2**20
_KINDS: Final = ACTIVITY_KINDS.categories.to_list()
_H2D: Final = _KINDS.index("h2d")
#: By kind of activity: whether it divides the copies before it from those after it.
_DIVIDES: Final = np.isin(
    np.arange(256),
    [_KINDS.index(kind) for kind in ("kernel", "collective", "local_copy")],
)
#: Copies that are named after the memory that they read.
_FROM_PINNED: Final = r"(?i)pinned\s*->"
#: Part of the time of input → its owner in the account, or topic.
_OWNERS: Final = {
    "fetch": "input",
    "transfer": "copy_in",
    "starved": "unfed",
    "between": "between",
    "unexplained": "unexplained",
}
#: Iterators and calls that transform, or load, several elements at once.
_PARALLEL: Final = r"(?i)parallel|mapandbatch|multiprocessing"
#: Iterators and calls that make elements before they are asked for.
_AHEAD: Final = r"(?i)prefetch|multiprocessing"


class InputSignals(Frozen, frozen=True):
    """What was recorded of the fetching of batches.

    Attributes:
        consumer_recorded: Whether any fetch of a batch was recorded.
        parallel: Whether the pipeline transforms or loads several elements at once.
        ahead: Whether it makes elements before they are asked for.
        mean_fetch_ps: Host → mean duration of the fetches in each judged step that has
            some.
        hidden_fetch_ps: Host and device, as `host:device` → the part of
            `mean_fetch_ps` during which the device was busy.
        pieces: Host and device → groups of large copies to the device in a judged step
            that other work divides (median); a batch is one, or a few at its begin.
        pinned: Devices, as `host:device`, whose large copies to the device all came
            from pinned memory, by what was recorded of them.
    """

    consumer_recorded: bool
    parallel: bool
    ahead: bool
    mean_fetch_ps: Mapping[str, tuple[float, ...]]
    hidden_fetch_ps: Mapping[str, tuple[float, ...]]
    pieces: Mapping[str, float] = {}
    pinned: frozenset[str] = frozenset()


def input_decision(
    found: AccountSignals,
    fetching: InputSignals | Unavailable,
    device: DeviceSignals,
    thresholds: Thresholds,
) -> InputVerdict:
    """Judge the input of every host over the steps that all rules judge."""
    blind = fetching if isinstance(fetching, Unavailable) else None
    return decide_input(
        [_input_time(one) for one in found.shares],
        fetched=not isinstance(fetching, Unavailable) and fetching.consumer_recorded,
        device=device,
        blind=blind,
        thresholds=thresholds,
    )


def _input_time(shares: StepShares) -> InputTime:
    seen = ("input",) if shares.device is None else ("input", "copy_in")
    return InputTime(
        host=shares.host,
        device=shares.device,
        step_source=shares.step_source,
        step_confidence=shares.step_confidence,
        closed=shares.closed,
        window_ps=shares.window_ps,
        parts_ps={cause: shares.times(owner) for cause, owner in _OWNERS.items()},
        is_blind=any(one in shares.missing for one in seen),
        lost_ps=shares.lost_ps,
        working_ps=shares.working_ps,
    )


@signal(device_timeline, host_classes, *account_signals.needs)
def input_signals(profile: ProfileData, _: Thresholds) -> InputSignals | Unavailable:
    """Look at the fetches of every host."""
    reasons: list[Unavailable] = []
    means: dict[str, tuple[float, ...]] = {}
    hidden: dict[str, tuple[float, ...]] = {}
    pieces: dict[str, float] = {}
    pinned: set[str] = set()
    recorded = parallel = ahead = False
    for host in profile.hosts:
        classes = profile.derived(host, host_classes)
        if isinstance(classes, Unavailable):
            reasons.append(classes)
            continue
        names = _pipeline(profile, host)
        recorded |= records_fetches(profile, host)
        parallel |= bool(names.str.contains(_PARALLEL).any())
        ahead |= bool(names.str.contains(_AHEAD).any())
        means[host] = _mean_fetches(profile, host, classes.input_wait)
        pieces |= _pieces(profile, host)
        pinned |= _pinned(profile, host)
        sets = profile.derived(host, device_sets)
        for one in () if isinstance(sets, Unavailable) else sets.devices:
            waits = classes.input_wait
            hidden[f"{host}:{one.device}"] = _mean_fetches(
                profile, host, waits, within=waits & one.busy
            )
    if len(reasons) == len(profile.hosts):
        return reasons[0]
    return InputSignals(
        recorded, parallel, ahead, means, hidden, pieces, frozenset(pinned)
    )


def _pinned(profile: ProfileData, host: str) -> set[str]:
    """Return the devices whose large copies to them all name pinned memory."""
    activity = profile.table(host, "device_activity")
    types = profile.table(host, "event_types")
    if isinstance(activity, Unavailable) or isinstance(types, Unavailable):
        return set()
    rows = _large_copies(activity)
    named = types["name"].str.contains(_FROM_PINNED).fill_null(value=False).to_numpy()
    of_pinned = named[handles(activity, "type")[rows]]
    devices = handles(activity, "device")[rows]
    unpinned = set(devices[~of_pinned].tolist())
    return {f"{host}:{one}" for one in set(devices.tolist()) - unpinned}


def _large_copies(activity: pl.DataFrame) -> NDArray[np.int64]:
    """Return the rows of large copies to a device."""
    rows = of_kinds(activity, [_H2D])
    large = activity["bytes"].gather(rows) >= _LARGE_BYTES
    return rows[is_true(large)]


def _pieces(profile: ProfileData, host: str) -> dict[str, float]:
    """Return for each device into how many groups other work divides copies."""
    activity = profile.table(host, "device_activity")
    if isinstance(activity, Unavailable):
        return {}
    ordered = profile.derived(host, device_timeline)
    if isinstance(ordered, Unavailable):
        return {}
    rows = present(profile.derived(host, windows)).measured
    counts = _DIVIDES[codes(activity, "kind")]
    copied = np.zeros(len(counts), np.bool_)
    copied[_large_copies(activity)] = True
    counts |= copied
    found = {}
    for one in ordered.devices:
        # By place in the order of time.
        some = np.flatnonzero(counts[one.rows])
        if not len(some):
            continue
        group = copied[one.rows[some]]
        group[1:] &= ~group[:-1].copy()
        at = one.start_ps[some[group]]
        first, last = (
            np.searchsorted(at, ints(rows, name)) for name in ("start_ps", "end_ps")
        )
        found[f"{host}:{one.device}"] = float(np.median(last - first))
    return found


def _pipeline(profile: ProfileData, host: str) -> pl.Series:
    """Return the names of the iterators, and of events that call a loader."""
    iterators = profile.table(host, "iterators")
    if isinstance(iterators, Unavailable):
        return pl.Series([], dtype=pl.String)
    return iterators["long_name"].unique()


def _mean_fetches(
    profile: ProfileData, host: str, waits: Spans, *, within: Spans | None = None
) -> tuple[float, ...]:
    """Return the mean fetch of each judged step that has any, or a part of it."""
    rows = present(profile.derived(host, windows)).measured
    starts, ends = ints(rows, "start_ps"), ints(rows, "end_ps")
    begun = np.searchsorted(waits.start_ps, ends)
    fetches = begun - np.searchsorted(waits.end_ps, starts, side="right")
    length_ps = (waits if within is None else within).within(starts, ends)
    some = fetches > 0
    return tuple((length_ps[some] / fetches[some]).tolist())
