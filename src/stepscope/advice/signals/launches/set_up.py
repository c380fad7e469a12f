"""How much of a device's wait for launches no step has: set up, capture, and the end.

The first calls of a process make contexts, load kernels and reserve memory. They take
milliseconds to minutes, where a launch takes microseconds; so does the first run of an
op that chooses its kernels, where its later ones are short. What is launched while a
stream is captured goes into a graph and does not run. After a device's last work the
program launches nothing any more: it frees what it took, and ends.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from stepscope.advice.finding import Part
from stepscope.advice.signals.ranges import SHOWN
from stepscope.advice.signals.signal import signal
from stepscope.derive.account.host_states import long_stretch_ps
from stepscope.derive.account.owned_time import account
from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.device.launch_facts import launch_facts
from stepscope.derive.host.function_frames import function_frames
from stepscope.derive.host.function_purposes import FunctionPurpose, function_purposes
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.names.event_kinds import HostClass, event_kinds
from stepscope.derive.step_windows.windows import windows
from stepscope.frozen import Frozen
from stepscope.patterns import Pattern
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl
    from numpy.typing import NDArray

    from stepscope.derive.account.owned_time import DeviceAccount
    from stepscope.derive.names.event_kinds import EventKinds
    from stepscope.derive.profile_data import ProfileData
    from stepscope.thresholds import Thresholds

Kind = Literal["set_up", "first_runs", "captured", "over"]

#: With so many steps what each of them repeats is no first use.
_FEW_STEPS: Final = 3
_OWNERS: Final = ("launch", "host_compute")
#: A first run of an op takes so many times as long as its later ones usually do, of
#: which there are some.
_TIMES_LONGER: Final = 20
_LATER_RUNS: Final = 3
_BEGIN_CAPTURE: Final = Pattern(r"^(?:cuda|cu|hip)StreamBeginCapture")
_END_CAPTURE: Final = Pattern(r"^(?:cuda|cu|hip)StreamEndCapture")


class SetUp(Frozen, frozen=True):
    """What a device waits for that is no want of launches, of the kind that is most.

    Attributes:
        kind: `set_up` for long calls of a runtime and long first runs of ops,
            `first_runs` where the latter are most of it and may be of anything,
            `captured` for launches into a graph that is captured, `over` for the time
            after the device's last work.
        percent: Its share of the measured windows.
        calls: The long calls in it, most of it first.
    """

    kind: Kind
    percent: float
    calls: tuple[Part, ...]


class _Calls(Frozen, frozen=True):
    """Long calls of a runtime, arrays by call.

    Attributes:
        start_ps: int64.
        dur_ps: int64.
        name: Row of `names`.
        names: Names of calls.
    """

    start_ps: NDArray[np.int64]
    dur_ps: NDArray[np.int64]
    name: NDArray[np.int32]
    names: Sequence[str]

    def spans(self) -> Spans:
        """Return when any of them ran."""
        return Spans.from_events(self.start_ps, self.dur_ps)

    def held(self, spans: Spans) -> dict[str, int]:
        """Return how much of a set runs in the calls of each name."""
        within = spans.within(self.start_ps, self.start_ps + self.dur_ps)
        by_name = np.bincount(self.name, weights=within)
        return {
            self.names[it]: int(by_name[it]) for it in np.flatnonzero(by_name).tolist()
        }


@signal(
    *(account, event_kinds, function_frames, function_purposes, launch_facts, windows)
)
def set_up_signals(profile: ProfileData, _: Thresholds) -> dict[str, SetUp]:
    """Return what each device waits for so, by `host:device`; without any, nothing."""
    found: dict[str, SetUp] = {}
    for host in profile.hosts:
        found |= _of_host(profile, host)
    return found


def _of_host(profile: ProfileData, host: str) -> dict[str, SetUp]:
    owned = profile.derived(host, account)
    facts = profile.derived(host, launch_facts)
    placed = profile.derived(host, windows)
    if (
        isinstance(owned, Unavailable)
        or isinstance(facts, Unavailable)
        or isinstance(placed, Unavailable)
    ):
        return {}
    measured = placed.measured
    if placed.has_steps and measured.height >= _FEW_STEPS:
        return {}
    least_ps = long_stretch_ps(facts.latency_ps)
    calls = (
        _recorded(profile, host, least_ps),
        _sampled(profile, host, least_ps),
        _first_runs(profile, host, least_ps),
    )
    begin, end = ints(measured, "start_ps"), ints(measured, "end_ps")
    judged = Spans.from_events(begin, end - begin)
    whole = judged.length_ps
    captured = _captures(profile, host)
    found = {}
    for device in owned.devices:
        waits = Spans.union_of(device.idle[owner] for owner in _OWNERS) & judged
        over = waits & (Spans.empty() if placed.has_steps else _after(device, judged))
        into_graph = (waits - over) & captured
        first = waits - over - into_graph
        long_ps, by_name = _held(first, calls)
        # What an op does in its first run is not told by any call of the runtime.
        called_ps, _ = _held(first, calls[:-1])
        lengths: dict[Kind, int] = {
            "set_up" if 2 * called_ps >= long_ps else "first_runs": long_ps,
            "captured": into_graph.length_ps,
            "over": over.length_ps,
        }
        kind = max(lengths, key=lambda one: lengths[one])
        if not lengths[kind]:
            continue
        if kind == "over":
            # A program ends with many short calls.
            short = (_recorded(profile, host, 0), _sampled(profile, host, 0))
            _, by_name = _held(over, (*short, calls[-1]))
        elif kind == "captured":
            by_name = Counter()
        found[f"{host}:{device.device}"] = SetUp(
            kind=kind,
            percent=100 * lengths[kind] / whole,
            calls=tuple(
                Part(name=name, share_percent=100 * held / whole)
                for name, held in by_name.most_common(SHOWN)
            ),
        )
    return found


def _held(waits: Spans, calls: Sequence[_Calls | None]) -> tuple[int, Counter[str]]:
    """Return how much of a set long calls hold, in all and by name."""
    by_name: Counter[str] = Counter()
    waited_ps = waits.length_ps
    # What was recorded itself is not taken from samples once more.
    for some in filter(None, calls):
        by_name.update(some.held(waits))
        waits = waits - some.spans()
    return waited_ps - waits.length_ps, by_name


def _after(device: DeviceAccount, judged: Spans) -> Spans:
    """Return the judged time after a device's last work; none where it had no work."""
    worked = (judged - Spans.union_of(device.idle.values())).hull
    hull = judged.hull
    return (
        Spans.empty()
        if worked is None or hull is None
        else judged.clip(worked[1], hull[1])
    )


def _captures(profile: ProfileData, host: str) -> Spans:
    """Return when a stream was captured into a graph."""
    events = profile.table(host, "events")
    names = profile.table(host, "event_types")
    if isinstance(events, Unavailable) or isinstance(names, Unavailable):
        return Spans.empty()
    begins, ends = (
        _times(events, names["name"].to_list(), which)
        for which in (_BEGIN_CAPTURE, _END_CAPTURE)
    )
    at = np.searchsorted(ends, begins)
    known = at < len(ends)
    begins, last = begins[known], ends[at[known]]
    return Spans.from_events(begins, last - begins)


def _times(
    events: pl.DataFrame, names: Sequence[str], which: Pattern[str]
) -> NDArray[np.int64]:
    """Return when the calls of some names began, sorted."""
    wanted = np.fromiter((bool(which.search(name)) for name in names), bool, len(names))
    return np.sort(ints(events, "start_ps")[wanted[handles(events, "type")]])


def _events_of(
    profile: ProfileData, host: str
) -> tuple[EventKinds, pl.DataFrame, pl.DataFrame] | None:
    """Return kinds of events, events and their types; None where one is missing."""
    kinds = profile.derived(host, event_kinds)
    events = profile.table(host, "events")
    names = profile.table(host, "event_types")
    if (
        isinstance(kinds, Unavailable)
        or isinstance(events, Unavailable)
        or isinstance(names, Unavailable)
    ):
        return None
    return kinds, events, names


def _recorded(profile: ProfileData, host: str, least_ps: int) -> _Calls | None:
    """Return the long calls that were recorded as events."""
    recorded = _events_of(profile, host)
    if recorded is None:
        return None
    kinds, events, names = recorded
    types, dur = handles(events, "type"), ints(events, "dur_ps")
    rows = np.flatnonzero(
        (dur >= least_ps) & (kinds.host_class == HostClass.API)[types]
    )
    return _Calls(
        ints(events, "start_ps")[rows], dur[rows], types[rows], names["name"].to_list()
    )


def _first_runs(profile: ProfileData, host: str, least_ps: int) -> _Calls | None:
    """Return the first runs of ops that are long beside the later ones."""
    recorded = _events_of(profile, host)
    if recorded is None:
        return None
    kinds, events, names = recorded
    types, dur = handles(events, "type"), ints(events, "dur_ps")
    start, track = ints(events, "start_ps"), handles(events, "track")
    long = np.flatnonzero((dur >= least_ps) & kinds.is_op()[types])
    rows = []
    for kind in np.unique(types[long]).tolist():
        runs = np.flatnonzero(types == kind)
        first = runs[np.argmin(start[runs])]
        later = dur[runs[runs != first]]
        if len(later) >= _LATER_RUNS and dur[first] >= max(
            least_ps, _TIMES_LONGER * float(np.median(later))
        ):
            rows.append(int(first))
    found = _innermost(np.array(rows, np.int64), track, start, dur)
    return _Calls(start[found], dur[found], types[found], names["name"].to_list())


def _innermost(
    rows: NDArray[np.int64],
    track: NDArray[np.int32],
    start_ps: NDArray[np.int64],
    dur_ps: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the rows that hold none of the others."""
    order = rows[np.lexsort((-dur_ps[rows], start_ps[rows], track[rows]))]
    ends = start_ps[order] + dur_ps[order]
    holds = (track[order][1:] == track[order][:-1]) & (start_ps[order][1:] < ends[:-1])
    found: NDArray[np.int64] = order[~np.append(holds, np.False_)[: len(order)]]
    return found


def _sampled(profile: ProfileData, host: str, least_ps: int) -> _Calls | None:
    """Return the long calls that samples of the program's functions found."""
    frames = profile.derived(host, function_frames)
    purposes = profile.derived(host, function_purposes)
    if isinstance(frames, Unavailable) or isinstance(purposes, Unavailable):
        return None
    dur = frames.end_ps - frames.start_ps
    rows = (dur >= least_ps) & (purposes.purpose == FunctionPurpose.CALL)
    types, name = np.unique(frames.type[rows], return_inverse=True)
    names = [frames.function(it) for it in types.tolist()]
    return _Calls(frames.start_ps[rows], dur[rows], name.astype(np.int32), names)
