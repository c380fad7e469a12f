"""`phases`: forward, loss, backward and optimizer time of each step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import codes, handles, ints
from stepscope.derive.columns.dense_codes import dense
from stepscope.derive.intervals.nesting import flatten_tracks
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.phases.rules import PHASES, UNKNOWN_PHASE, op_phases
from stepscope.derive.step_time.host_codes import STICKY, HostCode
from stepscope.frozen import Frozen
from stepscope.trace.device_activity import ACTIVITY_KINDS
from stepscope.trace.reading.by_row import by_row
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.derive.account.owned_time import Account
    from stepscope.derive.device.attribution import ActivityOps
    from stepscope.derive.device.correlation import Correlation
    from stepscope.derive.host.op_events import HostOpEvents
    from stepscope.derive.phases.host import HostPhases
    from stepscope.derive.step_time.host_classes import HostClasses
    from stepscope.derive.step_windows.windows import Windows

_KERNEL: Final = ACTIVITY_KINDS.categories.to_list().index("kernel")


class Phases(Frozen, frozen=True):
    """Time of each phase in every (device, window).

    Attributes:
        rows: `window`, `device` (null where the host's ops were looked at) and
            `<phase>_ps`. The times of a device add up to device compute, those of a
            host to the host compute of its account.
        seen: The phases that an op or a range of the profile belongs to; a time of 0 of
            any other phase may mean that its ops were not recognised.
        side: `device` or `host`: whose ops the times are of.
    """

    rows: pl.DataFrame
    seen: frozenset[str]
    side: str


def phases(
    *,
    windows: Windows,
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    device_activity: pl.DataFrame | Unavailable,
    activity_ops: ActivityOps | Unavailable,
    host_classes: HostClasses,
    account: Account,
    host_op_events: HostOpEvents,
    host_phases: HostPhases,
    launches: pl.DataFrame | Unavailable,
    correlation: Correlation | Unavailable,
) -> Phases | Unavailable:
    """Find the phases by ranges, scopes and op types.

    Work of a device belongs to the phase in which the host launched it, unless the
    name of its op is the stronger evidence.

    Definition: docs/definitions/phases.md#what-ranges-say.

    Args:
        windows: The windows.
        tracks: The table.
        events: The table.
        device_activity: The table; where there is none, the host's ops are looked at.
        activity_ops: The op of each activity.
        host_classes: Where the step threads are in which class.
        account: The devices that are shown; which time of a host without a device is
            host compute.
        host_op_events: The executions of ops on the host.
        host_phases: The phases of events of the host.
        launches: The table.
        correlation: Which activity each launch call led to.
    """
    if not isinstance(device_activity, Unavailable) and device_activity.height:
        if isinstance(activity_ops, Unavailable):
            return activity_ops
        named = op_phases(activity_ops.ops["name"], activity_ops.ops["type"])
        phase = by_row(named, activity_ops.op)
        if not isinstance(launches, Unavailable) and not isinstance(
            correlation, Unavailable
        ):
            event = by_row(
                handles(launches, "event"), correlation.launch_of_activity, none=-1
            )
            phase = host_phases.refined(event, phase)
        shown = {one.device for one in account.devices}
        return _on_devices(windows, device_activity, phase, shown)
    if (
        isinstance(device_activity, Unavailable)
        and device_activity.code != "NO_DEVICE_PLANE"
    ):
        return device_activity
    if isinstance(host_classes.host_compute, Unavailable):
        return host_classes.host_compute
    phase = host_phases.of_ops(host_op_events)
    sets = _host_sets(
        tracks, events, host_classes, host_op_events, phase, within=host_phases.firm
    )
    (host,) = account.devices
    work = host.idle["host_compute"]
    sets = {name: spans & work for name, spans in sets.items()} | {"unknown": work}
    starts, ends = ints(windows.rows, "start_ps"), ints(windows.rows, "end_ps")
    rows = _charged(sets, starts, ends)
    # A range shows its phase as well as an op does.
    spent = {name for name in PHASES if int(rows[f"{name}_ps"].sum())}
    return Phases(
        rows.with_columns(device=pl.lit(None, pl.Int32)),
        _seen(phase) | spent,
        "host",
    )


def _seen(phase: NDArray[np.uint8]) -> frozenset[str]:
    counts = np.bincount(phase, minlength=len(PHASES))[: len(PHASES)]
    return frozenset(PHASES[code] for code in np.flatnonzero(counts).tolist())


def _on_devices(
    windows: Windows,
    activity: pl.DataFrame,
    phase: NDArray[np.uint8],
    shown: set[int | None],
) -> Phases:
    none = len(PHASES)
    is_kernel = codes(activity, "kind") == _KERNEL
    of_activity = np.where(is_kernel, phase, np.uint8(none))
    start_ps, dur_ps = ints(activity, "start_ps"), ints(activity, "dur_ps")
    device = handles(activity, "device")
    starts, ends = ints(windows.rows, "start_ps"), ints(windows.rows, "end_ps")
    frames = []
    numbers = sorted(device[dense(device).first].tolist())
    for number in [it for it in numbers if it in shown] or numbers:
        here = np.where(device == number, of_activity, np.uint8(none))
        sets = {}
        for code, name in enumerate(PHASES):
            chosen = np.flatnonzero(here == code)
            sets[name] = Spans.from_events(start_ps[chosen], dur_ps[chosen])
        charged = _charged(sets, starts, ends)
        frames.append(charged.with_columns(device=pl.lit(number, pl.Int32)))
    rows = pl.concat(frames).sort("window", "device")
    return Phases(rows, _seen(of_activity), "device")


def _host_sets(
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    host: HostClasses,
    host_ops: HostOpEvents,
    phase: NDArray[np.uint8],
    *,
    within: NDArray[np.uint8],
) -> dict[str, Spans]:
    """Return where step threads run ops of each phase; the innermost op decides.

    Host compute outside of named ops has the phase of the range around it, which is the
    unknown one where there is none.
    """
    # Codes 1 to 5 are phases; what keeps its contents in `host_classes` does here too.
    elsewhere = len(PHASES) + 1
    of_code = np.zeros(256, np.uint8)
    of_code[HostCode.HOST_COMPUTE] = UNKNOWN_PHASE + 1
    of_code[[HostCode.SYNC, HostCode.BLOCKED, HostCode.SYSTEM_WAIT]] = elsewhere + 1
    of_code[[HostCode.FILE_READ, HostCode.SYSTEM_CALL]] = elsewhere + 1
    of_code[list(STICKY)] = elsewhere
    code = of_code[host.code]
    ranges = (host.code == HostCode.NOTHING) & (within != UNKNOWN_PHASE)
    code[ranges] = within[ranges] + 1
    works = host.code[host_ops.event] == HostCode.HOST_COMPUTE
    code[host_ops.event[works]] = phase[works] + 1
    sets = flatten_tracks(tracks, events, code, sticky=[elsewhere])
    return {
        name: Spans.union_of(
            sets[track][number + 1] & host.threads.when(track)
            for track in host.threads.tracks()
            if number + 1 in sets.get(track, {})
        )
        for number, name in enumerate(PHASES)
    }


def _charged(
    sets: dict[str, Spans],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
) -> pl.DataFrame:
    """Charge each instant to the first phase that has it; known phases win."""
    columns: dict[str, NDArray[np.int64] | NDArray[np.int32]] = {
        "window": np.arange(len(starts), dtype=np.int32)
    }
    taken, covered = Spans.empty(), np.zeros(len(starts), np.int64)
    for name in PHASES:
        taken |= sets[name]
        now = taken.within(starts, ends)
        columns[f"{name}_ps"], covered = now - covered, now
    return pl.DataFrame(columns)
