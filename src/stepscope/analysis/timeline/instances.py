"""Where an op or a kernel of another page is seen on the timeline."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import msgspec
import numpy as np
import polars as pl

from stepscope.analysis.timeline.spans import Place, host_timeline
from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.device.activity_classes import activity_classes
from stepscope.derive.device.attribution import activity_ops
from stepscope.derive.device.kernels import kernels, launch_dimensions
from stepscope.derive.host.op_events import host_op_events
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from stepscope.derive.profile_data import ProfileData

    Events = Callable[[ProfileData, str], NDArray[np.int32]]

#: Where an op runs, as the tables of ops call it.
Side = Literal["Host", "Device"]

_NONE: Final = np.zeros(0, np.int32)


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """One execution of an op or a kernel.

    Attributes:
        host: Host that it ran on.
        place: The span that shows it.
    """

    host: str
    place: Place


class SoughtKernel(NamedTuple):
    """Which kernels are meant; None leaves a property open.

    Attributes:
        name: Name of the kernel.
        op: Op that launched it; "" for those that no op is known of.
        grid: Dimensions of the grid, as the table of kernels writes them.
        block: Dimensions of a block.
    """

    name: str
    op: str | None = None
    grid: str | None = None
    block: str | None = None


def longest_of_op(
    profile: ProfileData, hosts: Sequence[str], op: str, *, side: Side | None = None
) -> Instance | None:
    """Find the longest execution of an op on one side.

    Without a side that is its longest work on a device, or where it has none, on a
    host.
    """
    found = None
    if side != "Host":
        found = _longest(profile, hosts, partial(_device_work, op=op))
    if found is None and side != "Device":
        found = _longest(profile, hosts, partial(_host_calls, op=op))
    return found


def longest_of_kernel(
    profile: ProfileData, hosts: Sequence[str], kernel: SoughtKernel
) -> Instance | None:
    """Find the longest execution of a kernel."""
    return _longest(profile, hosts, partial(_kernels, sought=kernel))


def _longest(
    profile: ProfileData, hosts: Sequence[str], events: Events
) -> Instance | None:
    """Return the longest event of all hosts; of equal ones the first."""
    best: tuple[int, Instance] | None = None
    for host in hosts:
        shown = host_timeline(profile, host)
        if isinstance(shown, Unavailable):
            continue
        found = events(profile, host)
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


def _kernels(
    profile: ProfileData, host: str, sought: SoughtKernel
) -> NDArray[np.int32]:
    activity = profile.table(host, "device_activity")
    described = profile.derived(host, kernels)
    classes = profile.derived(host, activity_classes)
    if (
        isinstance(activity, Unavailable)
        or isinstance(described, Unavailable)
        or isinstance(classes, Unavailable)
    ):
        return _NONE
    wanted = {
        "kernel_name": sought.name,
        "op_name": sought.op,
        "grid_dim": sought.grid,
        "block_dim": sought.block,
    }
    meant = described.rows.with_columns(
        launch_dimensions("grid"), launch_dimensions("block")
    ).filter(
        pl.col(column) == value for column, value in wanted.items() if value is not None
    )
    is_meant = np.zeros(len(classes.rows), np.bool_)
    is_meant[meant["class"].to_numpy()] = True
    return handles(activity, "event")[is_meant[classes.code]]


def _named(names: pl.Series, wanted: str) -> NDArray[np.bool_]:
    return (names == wanted).fill_null(value=False).to_numpy()
