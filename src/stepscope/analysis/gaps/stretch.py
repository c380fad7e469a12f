"""From an instant or two times to the stretch of a device's time that is meant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from stepscope.derive.account.owned_time import account
from stepscope.derive.columns.arrays import ints
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.step_time.device_sets import device_sets
from stepscope.derive.step_time.owners import IDLE_OWNERS
from stepscope.derive.step_windows.windows import windows
from stepscope.errors import BadUsage
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable
from stepscope.units import duration_text

if TYPE_CHECKING:
    from stepscope.derive.account.owned_time import Account, DeviceAccount
    from stepscope.derive.profile_data import ProfileData
    from stepscope.derive.step_time.device_sets import OneDevice

_REST: Final = IDLE_OWNERS[-1]


class Owned(Frozen, frozen=True):
    """Every instant of one device, or of a host without devices, by owner.

    Attributes:
        host: Name of the host.
        device: The idle time by owner.
        busy: What the device worked on; None without a device.
        unknown: Owners whose time is not known: what they would own is unexplained.
        hull: From the begin of the first window to the end of the last one.
        end_ps: End of the recording.
    """

    host: str
    device: DeviceAccount
    busy: OneDevice | None
    unknown: frozenset[str]
    hull: tuple[int, int]
    end_ps: int

    def sets(self) -> dict[str, Spans]:
        """Return owner → its instants; within the hull they are disjoint."""
        charged = {} if self.busy is None else self.busy.charged
        every = {**charged, **self.device.idle}
        found = {name: every[name] for name in every if name not in self.unknown}
        lost = (every[name] for name in every if name in self.unknown)
        found[_REST] = Spans.union_of((every[_REST], *lost))
        return found


class Stretch(Frozen, frozen=True):
    """A stretch of time, and what kind of it.

    Attributes:
        owned: Whose instants these are.
        kind: As in `GapExplanation`.
        begin_ps: Its begin.
        end_ps: Its end.
    """

    owned: Owned
    kind: Literal["gap", "busy", "host", "interval"]
    begin_ps: int
    end_ps: int

    @property
    def spans(self) -> Spans:
        """Return the stretch as a set."""
        return Spans.of([(self.begin_ps, self.end_ps)])


def owned(
    profile: ProfileData, host: str, device: int | None
) -> tuple[Owned, ...] | Unavailable:
    """Return the owners on a device, or on all devices of a host where none is named.

    Raises:
        BadUsage: There is no such host or device.
    """
    found = profile.derived(host, account)
    wide = profile.derived(host, windows)
    if isinstance(found, Unavailable):
        return found
    if isinstance(wide, Unavailable):
        return wide
    hull = int(ints(wide.rows, "start_ps").min()), int(ints(wide.rows, "end_ps").max())
    every = _on_host(profile, host, found, (hull, _end_of(profile, host, hull[1])))
    chosen = tuple(one for one in every if device in (None, one.device.device))
    if not chosen:
        known = [str(one.device.device) for one in every if one.busy is not None]
        if not known:
            raise BadUsage(f"device {device}: the recording of {host} holds no device")
        raise BadUsage.unknown_name("device", str(device), known)
    return chosen


def _on_host(
    profile: ProfileData,
    host: str,
    found: Account,
    extent: tuple[tuple[int, int], int],
) -> list[Owned]:
    sets = profile.derived(host, device_sets)
    busy = (
        {} if isinstance(sets, Unavailable) else {it.device: it for it in sets.devices}
    )
    return [
        Owned(
            host,
            one,
            None if one.device is None else busy[one.device],
            frozenset(found.missing),
            *extent,
        )
        for one in found.devices
    ]


def _end_of(profile: ProfileData, host: str, least_ps: int) -> int:
    events = profile.table(host, "events")
    if isinstance(events, Unavailable) or not events.height:
        return least_ps
    return max(least_ps, int((ints(events, "start_ps") + ints(events, "dur_ps")).max()))


def stretch_at(found: tuple[Owned, ...], at_ps: int) -> Stretch:
    """Return the stretch that holds an instant.

    It is the longest gap of a device; where all devices work, what the first one does;
    without a device, the time of the owner that has the step threads.

    Raises:
        BadUsage: The instant lies outside of the recording.
    """
    _check(found[0], at_ps, at_ps + 1)
    every = [_around(one, at_ps) for one in found]
    gaps = [one for one in every if one.kind == "gap"]
    return max(gaps or every[:1], key=lambda one: one.end_ps - one.begin_ps)


def stretch_between(found: tuple[Owned, ...], from_ps: int, to_ps: int) -> Stretch:
    """Return a stretch as it is given, of the device that works most.

    Raises:
        BadUsage: The times are not in order or lie outside of the recording.
    """
    if to_ps <= from_ps:
        raise BadUsage(
            f"the end, {duration_text(to_ps)}, does not lie after the begin, "
            f"{duration_text(from_ps)}"
        )
    _check(found[0], from_ps, to_ps)

    def work(one: Owned) -> int:
        return 0 if one.busy is None else one.busy.busy.length_ps

    return Stretch(max(found, key=work), "interval", from_ps, to_ps)


def _check(one: Owned, from_ps: int, to_ps: int) -> None:
    for time_ps, inside in (
        (from_ps, 0 <= from_ps < one.end_ps),
        (to_ps, to_ps <= one.end_ps),
    ):
        if not inside:
            raise BadUsage(
                f"{duration_text(time_ps)} lies outside of the recording of "
                f"{one.host}, which lasts {duration_text(one.end_ps)}"
            )


def _around(one: Owned, at_ps: int) -> Stretch:
    """Return the stretch around an instant, within the hull or on one side of it."""
    edges = (0, *one.hull, one.end_ps)
    place = int(np.searchsorted(edges[1:3], at_ps, side="right"))
    begin, end = edges[place], max(edges[place + 1], at_ps + 1)
    if one.busy is None:
        if place != _INSIDE:
            return Stretch(one, "host", begin, end)
        held = (_piece(spans, at_ps) for spans in one.device.idle.values())
        return Stretch(one, "host", *next((it for it in held if it), (begin, end)))
    gap = _piece(one.busy.busy.gaps(begin, end), at_ps)
    if gap is not None:
        return Stretch(one, "gap", *gap)
    worked = (_piece(spans, at_ps) for spans in one.busy.charged.values())
    return Stretch(one, "busy", *next((it for it in worked if it), (begin, end)))


#: Place of an instant between the begin and the end of the hull.
_INSIDE: Final = 1


def _piece(spans: Spans, at_ps: int) -> tuple[int, int] | None:
    """Return the interval of a set that holds an instant."""
    at = int(np.searchsorted(spans.end_ps, at_ps, side="right"))
    if at == len(spans) or spans.start_ps[at] > at_ps:
        return None
    return int(spans.start_ps[at]), int(spans.end_ps[at])
