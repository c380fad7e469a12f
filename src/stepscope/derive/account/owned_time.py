"""`account`: the one owner of every instant of every window, on every device.

All shares of time that a page, a rule or a sentence gives are sums over this account.

Definition: docs/where-a-steps-time-goes.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
import polars as pl

from stepscope.derive.account.charged import between_rows, charged_rows, overlapped_rows
from stepscope.derive.account.gaps import Launched, divided_gaps
from stepscope.derive.columns.arrays import codes, ints
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.step_time.owners import BUSY_OWNERS, IDLE_OWNERS, OWNERS
from stepscope.frozen import Frozen
from stepscope.remedies import Remedy
from stepscope.trace.tables import ACTIVITY_KINDS
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.derive.account.gaps import Gaps
    from stepscope.derive.account.host_states import Claims, HostStates
    from stepscope.derive.device.correlation import Correlation
    from stepscope.derive.device.launch_facts import LaunchLatency
    from stepscope.derive.device.timeline import DeviceRows, DeviceTimeline
    from stepscope.derive.step_time.device_sets import DeviceSets, OneDevice
    from stepscope.derive.step_time.host_classes import HostClasses
    from stepscope.derive.step_windows.windows import Windows


class DeviceAccount(Frozen, frozen=True):
    """The idle time of one device, or all time of a host without devices, by owner.

    Attributes:
        device: Ordinal of the device; None for the step threads of the host.
        idle: Each of `IDLE_OWNERS` → its instants. The sets are disjoint and, with the
            busy time of the device, cover the hull of the windows.
        walked_by: Row of tracks → where the launch of that thread ended an idle
            stretch; -1 for no or an unknown thread.
        latency: The part of `launch` in which a launch was on its way.
    """

    device: int | None
    idle: dict[str, Spans]
    between: Spans
    walked_by: dict[int, Spans]
    latency: Spans


class Account(Frozen, frozen=True):
    """Every instant of every (device, window) and its owner.

    Attributes:
        rows: `window` (row of windows), `device` (null where no device could be looked
            at), `window_ps`, one column `<owner>_ps` for each of `OWNERS`, null where
            it is unknown; the others add up to `window_ps` exactly. Also
            `device_busy_ps`, `device_working_ps` (null without a device) and
            `idle_input_ps`.
        between: As `rows`, for the part of each window between steps, with the columns
            of `IDLE_OWNERS`.
        any_device: The columns of `rows` with all devices taken as one; `device` is
            null.
        overlapped: Per (window, device) of `rows`: `<owner>_ps` of device work that
            overlapped work of an earlier owner; None without a device.
        devices: The instants themselves, by ordinal.
        missing: Owner → why its time is unknown.
    """

    rows: pl.DataFrame
    between: pl.DataFrame
    any_device: pl.DataFrame
    overlapped: pl.DataFrame | None
    devices: tuple[DeviceAccount, ...]
    missing: dict[str, Unavailable]

    def self_check(self) -> None:
        """Raise ValueError where the owners do not add up to their window."""
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
    host_states: HostStates | Unavailable,
    host_classes: HostClasses | Unavailable,
    device_timeline: DeviceTimeline | Unavailable,
    device_sets: DeviceSets | Unavailable,
    correlation: Correlation | Unavailable,
    launch_latency: LaunchLatency | Unavailable,
) -> Account:
    """Give every instant of every window its owner.

    Args:
        windows: The windows; the one of the whole profile where there are no steps.
        host_states: What the step threads did; without it all idle time is
            unexplained.
        device_timeline: The activities of each device by start.
    """
    hull = (
        int(ints(windows.rows, "start_ps").min()),
        int(ints(windows.rows, "end_ps").max()),
    )
    launch = _Launching.of(device_timeline, correlation, launch_latency)
    states = None if isinstance(host_states, Unavailable) else host_states
    between = Spans.empty() if isinstance(between_steps, Unavailable) else between_steps
    if isinstance(device_sets, Unavailable):
        missing = dict.fromkeys(_OF_DEVICES, device_sets) | _unknown(host_classes)
        left = Spans.of([hull])
        idle: dict[str, list[Spans]] = {name: [] for name in IDLE_OWNERS}
        if states is not None:
            left = _claimed(left, states.claims_without_device(left), idle)
        idle["unexplained"].append(left)
        one = _device_account(None, idle, between, {}, Spans.empty())
        return _account(windows.rows, (one,), None, missing)
    missing = {
        owner: why for one in device_sets.devices for owner, why in one.unknown.items()
    } | _unknown(host_classes)
    if launch is None:
        missing |= dict.fromkeys(
            _OF_LAUNCHES,
            correlation if isinstance(correlation, Unavailable) else _NO_LAUNCHES,
        )
    # Work before the first step or after the last makes a device no part of them.
    start, end = (ints(windows.rows, name) for name in ("start_ps", "end_ps"))
    within = tuple(
        one for one in device_sets.devices if one.busy.within(start, end).any()
    )
    working = msgspec.structs.replace(
        device_sets, devices=within or device_sets.devices
    )
    found = tuple(
        _of_device(one, hull, states, between, launch) for one in working.devices
    )
    return _account(windows.rows, found, working, missing)


#: Owners that only a device has.
_OF_DEVICES: Final = (*BUSY_OWNERS, "switch", "queued", "launch")
#: Owners that only launches show.
_OF_LAUNCHES: Final = ("switch", "queued", "launch")
_OF_THREADS: Final = (
    *("profiler", "compile", "peer", "input", "output"),
    *("host_compute", "launch", "sync"),
)


class _Launching(Frozen, frozen=True):
    """The launches of all devices, for the division of their idle time."""

    timeline: dict[int, DeviceRows]
    correlation: Correlation
    copies: NDArray[np.bool_]
    inputs: NDArray[np.bool_]
    facts: LaunchLatency

    @classmethod
    def of(
        cls,
        device_timeline: DeviceTimeline | Unavailable,
        correlation: Correlation | Unavailable,
        launch_latency: LaunchLatency | Unavailable,
    ) -> _Launching | None:
        if (
            isinstance(device_timeline, Unavailable)
            or isinstance(correlation, Unavailable)
            or isinstance(launch_latency, Unavailable)
        ):
            return None
        kind = codes(correlation.activity, "kind")
        return cls(
            timeline={one.device: one for one in device_timeline.devices},
            correlation=correlation,
            copies=(kind == _KIND["h2d"]) | (kind == _KIND["d2h"]),
            inputs=kind == _KIND["h2d"],
            facts=launch_latency,
        )

    def gaps(self, device: int, idle: Spans) -> Gaps:
        launched = Launched(self.timeline[device], self.correlation, self.copies)
        return divided_gaps(idle, launched, self.facts)


_KIND: Final = {kind: code for code, kind in enumerate(ACTIVITY_KINDS.categories)}

_NO_LAUNCHES: Final = Unavailable(
    code="NOT_RECORDED",
    reason="It is not known which launch call each activity came from.",
    remedy=Remedy.RECORD_LAUNCHING_HOST,
)


def _unknown(host: HostClasses | Unavailable) -> dict[str, Unavailable]:
    if isinstance(host, Unavailable):
        return dict.fromkeys(_OF_THREADS, host)
    found = {}
    if host.unknown is not None:
        found = dict.fromkeys(("launch", "host_compute"), host.unknown)
    if isinstance(host.compile, Unavailable):
        found["compile"] = host.compile
    if isinstance(host.sync, Unavailable):
        found["sync"] = host.sync
    return found


def _of_device(
    one: OneDevice,
    hull: tuple[int, int],
    states: HostStates | None,
    between: Spans,
    launching: _Launching | None,
) -> DeviceAccount:
    free = one.busy.gaps(*hull)
    idle: dict[str, list[Spans]] = {name: [] for name in IDLE_OWNERS}
    if states is None:
        idle["unexplained"].append(free)
        return _device_account(one.device, idle, between, {}, Spans.empty())
    recording = free & states.profiler
    idle["profiler"].append(recording)
    if launching is None:
        left = free - recording
        claimed = states.claims_of_any_thread(left)
        claims = tuple((owner, spans) for owner, spans in claimed if owner != "launch")
        idle["unexplained"].append(_claimed(left, claims, idle))
        return _device_account(one.device, idle, between, {}, Spans.empty())
    gaps = launching.gaps(one.device, free)
    idle["switch"].append(gaps.switch - recording)
    idle["queued"].append(gaps.queued - recording)
    idle["launch"].append(gaps.latency - recording)
    feeds = launching.inputs[gaps.copy_call_rows]
    for owner, chosen in (("input", feeds), ("output", ~feeds)):
        spans = Spans(gaps.copy_call.start_ps[chosen], gaps.copy_call.end_ps[chosen])
        idle[owner].append(spans - recording)
    walked = {}
    for track in np.unique(gaps.walk_track).tolist():
        mine = gaps.walk_track == track
        walk = Spans(gaps.walk_start_ps[mine], gaps.walk_end_ps[mine])
        walked[track] = walk
        left = walk - recording
        claims = states.claims_of_any_thread(left)
        if track >= 0:
            claims = states.claims(track, left, claims)
        idle["unexplained"].append(_claimed(left, claims, idle))
    return _device_account(one.device, idle, between, walked, gaps.latency)


def _claimed(left: Spans, claims: Claims, idle: dict[str, list[Spans]]) -> Spans:
    """Give each claim its part of what is left, in order, and return the rest."""
    for owner, spans in claims:
        if not len(left):
            break
        part = left & spans
        if len(part):
            idle[owner].append(part)
            left = left - part
    return left


def _device_account(
    device: int | None,
    idle: dict[str, list[Spans]],
    between: Spans,
    walked: dict[int, Spans],
    latency: Spans,
) -> DeviceAccount:
    sets = {name: Spans.union_of(parts) for name, parts in idle.items()}
    return DeviceAccount(device, sets, between, walked, latency)


def _account(
    windows: pl.DataFrame,
    devices: tuple[DeviceAccount, ...],
    device_sets: DeviceSets | None,
    missing: dict[str, Unavailable],
) -> Account:
    starts, ends = ints(windows, "start_ps"), ints(windows, "end_ps")
    frames, between, hidden = [], [], []
    busy = [None] if device_sets is None else list(device_sets.devices)
    for one, found in zip(busy, devices, strict=True):
        charged = charged_rows(
            starts,
            ends,
            device=one,
            ordinal=found.device,
            idle=found.idle,
            missing=missing,
        )
        frames.append(charged)
        between.append(
            between_rows(
                starts,
                ends,
                ordinal=found.device,
                idle=found.idle,
                between=found.between,
                missing=missing,
            )
        )
        if one is not None:
            hidden.append(overlapped_rows(charged, one, starts, ends))
    together = frames[0].with_columns(device=pl.lit(None, pl.Int32))
    if device_sets is not None and len(frames) > 1:
        united = device_sets.any_device
        most = max(
            zip(device_sets.devices, devices, strict=True),
            key=lambda pair: pair[0].busy.length_ps,
        )
        free = united.busy.gaps(int(starts.min()), int(ends.max()))
        together = charged_rows(
            starts,
            ends,
            device=united,
            ordinal=None,
            # Where no device works, the busiest one says why.
            idle={name: spans & free for name, spans in most[1].idle.items()},
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
