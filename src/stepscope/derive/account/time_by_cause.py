"""`account`: for every device, the one owner (cause) of every instant of every window.

All shares of step time on a page, in a rule or in a finding are sums over these times.

Definition: docs/where-a-steps-time-goes.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import polars as pl
from msgspec.structs import replace

from stepscope._core import launches
from stepscope.derive.columns.arrays import (
    ACTIVITY_CODES,
    accepted_answer,
    codes,
    handles,
    ints,
)
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.reasons import WHY
from stepscope.derive.step_time.owners import (
    BUSY_OWNERS,
    IDLE_OWNERS,
    LAST_WORKING,
    OWNERS,
)
from stepscope.derive.step_windows.windows import window_range
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepscope.array_types import Bools, Int32s, Int64s
    from stepscope.derive.account.host_states import Claims, HostStates
    from stepscope.derive.account.thread_waits import ThreadSleep
    from stepscope.derive.device.correlation import (
        Correlation,
        DeviceRows,
        DeviceTimeline,
        LaunchLatency,
    )
    from stepscope.derive.step_time.device_sets import DeviceSets, DeviceTimes
    from stepscope.derive.step_time.host_classes import HostClasses
    from stepscope.derive.step_windows.windows import Windows

_NEVER: Final = np.iinfo(np.int64).max
#: The call of a device's first copy waits for set-up if it lasts longer than this, in
#: ps, before the copy, and longer than this number of the copy's durations.
_MIN_SET_UP_PS: Final = 100 * PS_PER_MS
_MIN_SET_UP_COPIES: Final = 10


#: Kinds of activity that copy between the host and a device.
_COPIES: Final = (ACTIVITY_CODES["h2d"], ACTIVITY_CODES["d2h"])


class _Endings(Frozen, frozen=True):
    """The activity at the end of each idle interval, and its launch call.

    Attributes:
        row: Row of device_activity of the activity after the interval; -1 for none.
        called_ps: Start of the activity's launch call; the largest int64 if unknown.
        returned_ps: End of the activity's launch call; the largest int64 if unknown.
        track: Row of tracks of the thread that launched; -1 if unknown.
        first_copy_ps: Duration of the activity if it is the device's first; else -1.
        blocking: Whether the activity is a copy whose call lasted longer than the copy
            plus the launch latency, so that the call waited for the copy.
        behind_ps: Earliest return among the launch calls of all later activities; the
            largest int64 without later activities.
    """

    row: Int64s
    called_ps: Int64s
    returned_ps: Int64s
    track: Int32s
    first_copy_ps: Int64s
    blocking: Bools
    behind_ps: Int64s


class Gaps(Frozen, frozen=True):
    """Idle time of one device, divided by the state of its launch queue.

    Attributes:
        switch: Intervals too short to have a cause.
        queued: When a launched activity waited, for no recorded reason.
        latency: When the launch of the next activity was on its way to the device.
        copy_call: When the host was in a blocking copy call that ends an interval.
        copy_call_rows: Row of device_activity of this copy, by entry of `copy_call`.
        prepare_start_ps: Starts of the remaining intervals, in which the host had not
            yet launched the next activity.
        prepare_end_ps: Ends of the remaining intervals.
        prepare_track: Row of tracks of the thread whose launch ended each remaining
            interval; -1 for no launch or an unknown thread.
    """

    switch: Spans
    queued: Spans
    latency: Spans
    copy_call: Spans
    copy_call_rows: Int64s
    prepare_start_ps: Int64s
    prepare_end_ps: Int64s
    prepare_track: Int32s


def divided_gaps(
    idle: Spans, device: DeviceRows, correlation: Correlation, facts: LaunchLatency
) -> Gaps:
    """Divide each idle interval of one device by the launch that ended it.

    Before the launch call begins, the host prepares it. Once the call has begun, the
    launch is on its way to the device. While another launched activity waits, the queue
    is not empty and the host is not the cause of idle time.

    Definition: docs/where-a-steps-time-goes.md#idle-time.

    Args:
        idle: The intervals, each ended by the first activity that begins at its end.
        device: The activities of the device, by start.
    """
    start, end = idle.start_ps, idle.end_ps
    short = end - start <= facts.switch_ps
    switch = Spans(start[short], end[short])
    start, end = start[~short], end[~short]
    # No activity begins within an interval, so waiting activities begin at its end or
    # later. Once the first of their launch calls has returned, an activity is queued.
    endings = _gap_endings(end, device, correlation, facts.latency_ps)
    called, returned = endings.called_ps, endings.returned_ps
    queued_from = np.clip(endings.behind_ps, start, end)
    in_time = returned <= start - facts.latency_ps
    queued_from = np.where(in_time, start, queued_from)
    transit_ps = np.clip(np.where(in_time, end, called), start, end)
    arrives = np.minimum(np.maximum(returned, start), end - facts.max_wait_ps)
    arrives = np.clip(arrives + facts.max_wait_ps, transit_ps, end)
    preparing_end = np.minimum(queued_from, transit_ps)
    # The first copy of a device needs no more than its staging: a call that takes far
    # longer waits for set-up, such as the creation of a context.
    staging_ps = np.maximum(_MIN_SET_UP_PS, _MIN_SET_UP_COPIES * endings.first_copy_ps)
    sets_up = (endings.first_copy_ps >= 0) & (end - transit_ps > staging_ps)
    blocks = (transit_ps < end) & endings.blocking & ~sets_up
    queued = Spans.union_of(
        (_nonempty_spans(preparing_end, transit_ps), _nonempty_spans(arrives, end))
    )
    is_preparing = start < preparing_end
    return Gaps(
        switch=switch,
        queued=queued,
        latency=_nonempty_spans(transit_ps[~blocks], arrives[~blocks]),
        copy_call=_nonempty_spans(transit_ps[blocks], arrives[blocks]),
        copy_call_rows=endings.row[blocks],
        prepare_start_ps=start[is_preparing],
        prepare_end_ps=preparing_end[is_preparing],
        prepare_track=endings.track[is_preparing],
    )


def _gap_endings(
    end_ps: Int64s, device: DeviceRows, correlation: Correlation, latency_ps: int
) -> _Endings:
    launch_of, calls = correlation.launch_of_activity, correlation.launches
    called_ps, dur_ps = ints(calls, "start_ps"), ints(calls, "dur_ps")
    index, behind = (np.empty(len(end_ps), np.int64) for _ in range(2))
    accepted_answer(
        launches.find_idle_endings(
            end_ps,
            device.start_ps,
            device.dur_ps,
            device.rows,
            launch_of,
            called_ps,
            dur_ps,
            index,
            behind,
        )
    )
    ended = index >= 0
    row = np.full(len(end_ps), -1)
    row[ended] = device.rows[index[ended]]
    launch = np.full(len(end_ps), -1, np.int32)
    launch[ended] = launch_of[row[ended]]
    known = launch >= 0
    call = launch[known]
    called, returned = (np.full(len(end_ps), _NEVER) for _ in range(2))
    called[known] = called_ps[call]
    returned[known] = called[known] + dur_ps[call]
    track = np.full(len(end_ps), -1, np.int32)
    track[known] = handles(calls, "track")[call]
    blocking = np.zeros(len(end_ps), np.bool_)
    waits = dur_ps[call] > device.dur_ps[index[known]] + latency_ps
    kind = codes(correlation.activity, "kind")[row[known]]
    blocking[known] = np.isin(kind, _COPIES) & waits
    first_copy_ps = np.where(index == 0, device.dur_ps[:1].sum(), -1)
    return _Endings(row, called, returned, track, first_copy_ps, blocking, behind)


def _nonempty_spans(starts: Int64s, ends: Int64s) -> Spans:
    """Return ascending disjoint intervals as spans, without empty intervals."""
    nonempty = starts < ends
    return Spans(starts[nonempty], ends[nonempty])


def charged_rows(
    starts: Int64s,
    ends: Int64s,
    *,
    device: DeviceTimes | None,
    ordinal: int | None,
    idle: Mapping[str, Spans],
    missing: Mapping[str, Unavailable],
) -> pl.DataFrame:
    """Return the time of each owner (cause) in each window.

    Args:
        device: What the device did; None for a host without a recorded device.
        missing: Causes of unknown time; their columns are null, their time is
            unexplained.
    """
    left = ends - starts
    times: dict[str, Int64s] = {}
    if device is not None:
        times = {n: device.charged[n].within(starts, ends) for n in BUSY_OWNERS}
    for name in IDLE_OWNERS[:-1]:
        times[name] = idle.get(name, Spans.empty()).within(starts, ends)
    for name, time in times.items():
        if name not in missing:
            left = left - time
    times[IDLE_OWNERS[-1]] = left
    columns: dict[str, Int64s | None] = {
        owner.name: None if owner.name in missing else times.get(owner.name)
        for owner in OWNERS
    }
    working = BUSY_OWNERS[: BUSY_OWNERS.index(LAST_WORKING) + 1]
    for name, owners in (("device_busy", BUSY_OWNERS), ("device_working", working)):
        busy = np.sum([times[owner] for owner in owners], axis=0) if device else None
        columns[name] = busy
    waits = missing.get("copy_in")
    return _window_rows(starts, ends, ordinal, columns).with_columns(
        # Without a device there are no copies; on a device, copies may be unknown.
        idle_input_ps=pl.col("input_ps")
        if waits is not None and waits.code == "NO_DEVICE_PLANE"
        else pl.col("input_ps") + pl.col("copy_in_ps")
    )


def _window_rows(
    starts: Int64s, ends: Int64s, device: int | None, times: Mapping[str, Int64s | None]
) -> pl.DataFrame:
    return pl.DataFrame(
        [
            pl.Series("window", np.arange(len(starts), dtype=np.int32)),
            pl.Series("device", [device] * len(starts), dtype=pl.Int32),
            pl.Series("window_ps", ends - starts),
            *(_owner_column(name, time, starts) for name, time in times.items()),
        ]
    )


def _owner_column(
    owner: str, time: Int64s | pl.Series | None, starts: Int64s
) -> pl.Series:
    values = [None] * len(starts) if time is None else time
    return pl.Series(f"{owner}_ps", values, dtype=pl.Int64)


class DeviceAccount(Frozen, frozen=True):
    """Idle time of one device, or all time of a host without devices, by cause (owner).

    Attributes:
        device: Number of the device; None for the step threads of the host.
        idle: Each of `IDLE_OWNERS` → the time of which it is the cause. The sets are
            disjoint and, with the busy time of the device, cover the windows.
        between: Time between steps.
        walked_by: Row of tracks → idle intervals that ended with a launch of that
            thread; -1 for no thread or an unknown one.
        latency: The part of `launch` in which a launch was on its way to the device.
    """

    device: int | None
    idle: dict[str, Spans]
    between: Spans
    walked_by: dict[int, Spans]
    latency: Spans


class Account(Frozen, frozen=True):
    """Every instant of every (device, window) with its owner (cause).

    Attributes:
        rows: `window` (row of windows), `device` (null without a recorded device),
            `window_ps`, and for each of `OWNERS` a column `<owner>_ps`. A column is
            null if the cause's time is unknown; the known columns add up to `window_ps`
            exactly. Further columns: `device_busy_ps`, `device_working_ps` (null
            without device), `idle_input_ps`.
        between: As `rows`, for `IDLE_OWNERS` in the part of each window between steps.
        any_device: The columns of `rows` for all devices as one; `device` is null.
        overlapped: Per (window, device) of `rows`: `<owner>_ps` of device activity that
            overlapped activity of an earlier owner; None without a device.
        devices: Time of each cause, one entry per device.
        missing: Cause → why its time is unknown.
    """

    rows: pl.DataFrame
    between: pl.DataFrame
    any_device: pl.DataFrame
    overlapped: pl.DataFrame | None
    devices: tuple[DeviceAccount, ...]
    missing: dict[str, Unavailable]

    def self_check(self) -> None:
        """Raise ValueError if the causes' times do not add up to the window."""
        columns = [f"{owner.name}_ps" for owner in OWNERS]
        for frame in (self.rows, self.any_device):
            total = frame.select(pl.sum_horizontal(columns)).to_series()
            if not (total == frame["window_ps"]).all():
                raise ValueError("the owners of a window do not add up to it")
            if frame.select(pl.min_horizontal(columns).min()).item() < 0:
                raise ValueError("the time of an owner is negative")


def account(
    *,
    windows: Windows,
    between_steps: Spans | Unavailable,
    start_up: Spans | Unavailable,
    host_states: HostStates | Unavailable,
    host_classes: HostClasses | Unavailable,
    thread_sleep: ThreadSleep | Unavailable,
    device_timeline: DeviceTimeline | Unavailable,
    device_sets: DeviceSets | Unavailable,
    correlation: Correlation | Unavailable,
    launch_latency: LaunchLatency | Unavailable,
) -> Account:
    """Assign an owner (cause) to every instant of every window.

    Args:
        windows: The windows; one window over the whole profile if there are no steps.
        host_states: What the step threads did; without it all idle time is unexplained.
    """
    bounds = window_range(windows.rows)
    launching = None
    if not (
        isinstance(device_timeline, Unavailable)
        or isinstance(correlation, Unavailable)
        or isinstance(launch_latency, Unavailable)
    ):
        devices = {device.device: device for device in device_timeline.devices}
        launching = _Launching(devices, correlation, launch_latency)
    unknown = _unknown_host_owners(host_classes)
    if isinstance(thread_sleep, Unavailable):
        unknown.setdefault("wait", thread_sleep)
    states = None if isinstance(host_states, Unavailable) else host_states
    between = Spans.empty() if isinstance(between_steps, Unavailable) else between_steps
    starting = Spans.empty() if isinstance(start_up, Unavailable) else start_up
    between = between | starting
    if isinstance(device_sets, Unavailable):
        missing = dict.fromkeys(_OF_DEVICES, device_sets) | unknown
        left = Spans.of([bounds])
        idle: dict[str, list[Spans]] = {name: [] for name in IDLE_OWNERS}
        if states is not None:
            starting = starting - states.profiler
        idle["startup"].append(left & starting)
        left = left - starting
        if states is not None:
            left = _apply_claims(left, states.claims_without_device(left), idle)
        idle["unexplained"].append(left)
        host_account = _device_account(None, idle, between, {}, Spans.empty())
        return _build_account(windows.rows, (host_account,), None, missing)
    missing = {
        owner: why
        for device in device_sets.devices
        for owner, why in device.unknown.items()
    } | unknown
    if launching is None:
        missing |= dict.fromkeys(
            _OF_LAUNCHES,
            correlation
            if isinstance(correlation, Unavailable)
            else WHY["launches_not_known"],
        )
    # Devices that work only before the first or after the last step are left out.
    start, end = (ints(windows.rows, name) for name in ("start_ps", "end_ps"))
    within = tuple(
        device for device in device_sets.devices if device.busy.within(start, end).any()
    )
    working = replace(device_sets, devices=within or device_sets.devices)
    accounts = tuple(
        _account_device(
            device, bounds, states, launching, between=between, starting=starting
        )
        for device in working.devices
    )
    return _build_account(windows.rows, accounts, working, missing)


#: Causes of time that only a device can have.
_OF_DEVICES: Final = (*BUSY_OWNERS, "switch", "queued", "launch")
#: Causes whose time is known only if launches were recorded.
_OF_LAUNCHES: Final = ("switch", "queued", "launch")
_OF_THREADS: Final = (
    *("profiler", "compile", "peer", "input", "output"),
    *("wait", "host_compute", "launch", "sync"),
)


class _Launching(NamedTuple):
    """The launches of all devices, by which the devices' idle time is divided."""

    devices: dict[int, DeviceRows]
    correlation: Correlation
    latency: LaunchLatency


def _unknown_host_owners(host: HostClasses | Unavailable) -> dict[str, Unavailable]:
    if isinstance(host, Unavailable):
        return dict.fromkeys(_OF_THREADS, host)
    unknown = {}
    if host.unknown is not None:
        unknown = dict.fromkeys(("launch", "host_compute"), host.unknown)
    if isinstance(host.compile, Unavailable):
        unknown["compile"] = host.compile
    if isinstance(host.sync, Unavailable):
        unknown["sync"] = host.sync
    return unknown


def _account_device(
    device: DeviceTimes,
    bounds: tuple[int, int],
    states: HostStates | None,
    launching: _Launching | None,
    *,
    between: Spans,
    starting: Spans,
) -> DeviceAccount:
    free = device.busy.gaps(*bounds)
    idle: dict[str, list[Spans]] = {name: [] for name in IDLE_OWNERS}
    recording = Spans.empty() if states is None else free & states.profiler
    idle["profiler"].append(recording)
    idle["startup"].append((free & starting) - recording)
    # No other cause gets the time of the profiler or of the program's start.
    taken = recording | (free & starting)
    if states is None:
        idle["unexplained"].append(free - taken)
        return _device_account(device.device, idle, between, {}, Spans.empty())
    if launching is None:
        left = free - taken
        claimed = states.claims_of_any_thread(left)
        claims = tuple((owner, spans) for owner, spans in claimed if owner != "launch")
        idle["unexplained"].append(_apply_claims(left, claims, idle))
        return _device_account(device.device, idle, between, {}, Spans.empty())
    rows, correlation = launching.devices[device.device], launching.correlation
    gaps = divided_gaps(free, rows, correlation, launching.latency)
    idle["switch"].append(gaps.switch - taken)
    # While a thread loads kernels, before it launches them, queued work has to wait.
    loading = states.loading_spans(gaps.queued)
    idle["compile"].append(loading - taken)
    idle["queued"].append(gaps.queued - loading - taken)
    idle["launch"].append(gaps.latency - taken)
    copied = codes(correlation.activity, "kind")[gaps.copy_call_rows]
    feeds = copied == ACTIVITY_CODES["h2d"]
    for owner, chosen in (("input", feeds), ("output", ~feeds)):
        spans = Spans(gaps.copy_call.start_ps[chosen], gaps.copy_call.end_ps[chosen])
        idle[owner].append(spans - taken)
    preparing = {}
    for track in np.unique(gaps.prepare_track).tolist():
        on_track = gaps.prepare_track == track
        spans = Spans(gaps.prepare_start_ps[on_track], gaps.prepare_end_ps[on_track])
        preparing[track] = spans
        left = spans - taken
        claims = states.claims_of_any_thread(left)
        if track >= 0:
            claims = states.thread_claims(track, left, claims)
        idle["unexplained"].append(_apply_claims(left, claims, idle))
    return _device_account(device.device, idle, between, preparing, gaps.latency)


def _apply_claims(left: Spans, claims: Claims, idle: dict[str, list[Spans]]) -> Spans:
    """Assign parts of `left` to the causes, in order; return the unassigned time."""
    for owner, spans in claims:
        idle[owner].append(left & spans)
        left = left - spans
    return left


def _device_account(
    device: int | None,
    idle: dict[str, list[Spans]],
    between: Spans,
    preparing: dict[int, Spans],
    latency: Spans,
) -> DeviceAccount:
    sets = {name: Spans.union_of(parts) for name, parts in idle.items()}
    return DeviceAccount(device, sets, between, preparing, latency)


def _build_account(
    windows: pl.DataFrame,
    devices: tuple[DeviceAccount, ...],
    device_sets: DeviceSets | None,
    missing: dict[str, Unavailable],
) -> Account:
    starts, ends = ints(windows, "start_ps"), ints(windows, "end_ps")
    frames, between, hidden = [], [], []
    busy = [None] if device_sets is None else list(device_sets.devices)
    for device, accounted in zip(busy, devices, strict=True):
        charged = charged_rows(
            starts,
            ends,
            device=device,
            ordinal=accounted.device,
            idle=accounted.idle,
            missing=missing,
        )
        frames.append(charged)
        times = {
            name: None
            if name in missing
            else (accounted.idle[name] & accounted.between).within(starts, ends)
            for name in IDLE_OWNERS
        }
        between.append(_window_rows(starts, ends, accounted.device, times))
        if device is not None:
            # Time of a cause's device activity that was assigned to an earlier cause.
            overlapped = (
                _owner_column(
                    name,
                    pl.Series(device.orders[name].within(starts, ends))
                    - charged[f"{name}_ps"]
                    if name in device.orders
                    else None,
                    starts,
                )
                for name in BUSY_OWNERS
            )
            hidden.append(pl.DataFrame([*charged["window", "device"], *overlapped]))
    together = frames[0].with_columns(device=pl.lit(None, pl.Int32))
    if device_sets is not None and len(frames) > 1:
        united = device_sets.any_device
        busiest = max(
            zip(device_sets.devices, devices, strict=True),
            key=lambda pair: pair[0].busy.length_ps,
        )
        free = united.busy.gaps(*window_range(windows))
        together = charged_rows(
            starts,
            ends,
            device=united,
            ordinal=None,
            # While no device works, the causes are those found for the busiest device.
            idle={name: spans & free for name, spans in busiest[1].idle.items()},
            missing=missing,
        )
    return Account(
        pl.concat(frames).sort("window", "device"),
        pl.concat(between).sort("window", "device"),
        together,
        pl.concat(hidden).sort("window", "device") if hidden else None,
        devices,
        missing,
    )
