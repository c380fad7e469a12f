"""Where an op or a kernel of another page is seen on the timeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from stepscope.analysis.timeline.spans import Place, host_timeline
from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.device.attribution import activity_ops
from stepscope.derive.host.op_events import host_op_events
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import polars as pl
    from numpy.typing import NDArray

    from stepscope.derive.profile_data import ProfileData

    Events = Callable[[ProfileData, str, str], NDArray[np.int32]]

__all__ = ["Instance", "longest_of_kernel", "longest_of_op"]

_NONE: Final = np.zeros(0, np.int32)


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """One execution of an op or a kernel.

    Attributes:
        host: Host that it ran on.
        place: The span that shows it.
    """

    host: str
    place: Place


def longest_of_op(
    profile: ProfileData, hosts: Sequence[str], op: str
) -> Instance | None:
    """Find the longest work of an op on a device, or where it has none, on a host."""
    on_device = _longest(profile, hosts, op, _device_work)
    return on_device or _longest(profile, hosts, op, _host_calls)


def longest_of_kernel(
    profile: ProfileData, hosts: Sequence[str], kernel: str
) -> Instance | None:
    """Find the longest execution of a kernel."""
    return _longest(profile, hosts, kernel, _kernels)


def _longest(
    profile: ProfileData, hosts: Sequence[str], name: str, events: Events
) -> Instance | None:
    """Return the longest event of all hosts; of equal ones the first."""
    best: tuple[int, Instance] | None = None
    for host in hosts:
        shown = host_timeline(profile, host)
        if isinstance(shown, Unavailable):
            continue
        found = events(profile, host, name)
        track = shown.track_of_events(found.astype(np.int64))
        found, track = found[track >= 0], track[track >= 0]
        if not len(found):
            continue
        lasted = ints(shown.events, "dur_ps")[found]
        at = int(np.argmax(lasted))
        if best is None or lasted[at] > best[0]:
            place = shown.place(int(track[at]), int(found[at]))
            best = int(lasted[at]), Instance(host=host, place=place)
    return None if best is None else best[1]


def _device_work(profile: ProfileData, host: str, op: str) -> NDArray[np.int32]:
    activity = profile.table(host, "device_activity")
    ops = profile.derived(host, activity_ops)
    if isinstance(activity, Unavailable) or isinstance(ops, Unavailable):
        return _NONE
    return handles(activity, "event")[_named(ops.ops["name"], op)[ops.op]]


def _host_calls(profile: ProfileData, host: str, op: str) -> NDArray[np.int32]:
    ops = profile.derived(host, host_op_events)
    if isinstance(ops, Unavailable):
        return _NONE
    return ops.event[_named(ops.ops["name"], op)[ops.op]]


def _kernels(profile: ProfileData, host: str, kernel: str) -> NDArray[np.int32]:
    activity = profile.table(host, "device_activity")
    types = profile.table(host, "event_types")
    if isinstance(activity, Unavailable) or isinstance(types, Unavailable):
        return _NONE
    of_kernel = _named(types["name"], kernel)[handles(activity, "type")]
    return handles(activity, "event")[of_kernel]


def _named(names: pl.Series, wanted: str) -> NDArray[np.bool_]:
    return (names == wanted).fill_null(value=False).to_numpy()
