"""Host ops that a device waits for, and the share of ops that run on devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.names.event_kinds import OpCategory
from stepscope.derive.run_derivation import (
    first_reason,
    known_hosts,
    of_each_device_or_why,
    of_run,
)
from stepscope.frozen import Frozen
from stepscope.patterns import Pattern
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.derive.account.parts import AccountParts
    from stepscope.derive.host.op_events import HostOpEvents
    from stepscope.derive.ops.database import DeviceOps, OpPlacement
    from stepscope.derive.run_derivation import OfHosts

#: Number of op executions that are searched in one pass.
_EXECUTIONS_PER_PASS: Final = 2**15
#: Types of ops that run much faster on a device than on the host.
_HEAVY: Final = Pattern(
    r"(?i)(?:^|::|_)(?:\w*conv\d?d?\w*|\w*matmul\w*|einsum|b?mm|baddbmm|addmm|linear"
    r"|\w*(?:batch|layer|group|instance)_?norm\w*|(?:log_?)?softmax\w*"
    r"|\w*(?:lstm|gru|rnn)\w*|\w*attention\w*)$"
)
#: Types of ops that call Python or process strings.
_CALLBACK: Final = Pattern(
    r"(?i)py_?func|numpy_function|(?:pure|io|python|host)_?callback|^string|regex"
)


class HostPlaced(Frozen, frozen=True):
    """An op on the host that a device waits for.

    Attributes:
        kind: "heavy" for products, convolutions and the like, "callback" for ops that
            call Python or process strings, "model" for an op in a scope whose other ops
            run on the device, "other" for all remaining ops.
        time_ps: Time in which the device waits for the op, in all judged steps.
    """

    name: str
    kind: str
    time_ps: int


@of_each_device_or_why
def placement_signals(
    *,
    account_parts: AccountParts,
    host_op_events: HostOpEvents,
    device_ops: DeviceOps | Unavailable,
    events: pl.DataFrame,
    launches: pl.DataFrame | Unavailable,
) -> dict[int | None, tuple[HostPlaced, ...]]:
    """Return the host ops that each device waits for, most time first."""
    scopes = set()
    if not isinstance(device_ops, Unavailable):
        names = device_ops.rows["name"].drop_nulls()
        scopes = {name.partition("/")[0] for name in names if "/" in name}
    types = _on_host(host_op_events, events, launches)
    rows = account_parts.rows
    waits = rows.filter(
        (pl.col("owner") == "host_compute")
        & pl.col("device").is_not_null()
        & pl.col("function").is_null()
        & pl.col("name").is_in(list(types))
    )
    return {
        device: tuple(
            HostPlaced(name, _kind_of_op(name, types[name], scopes), time_ps)
            for name, time_ps in waits.filter(pl.col("device") == device)
            .group_by("name")
            .agg(pl.col("time_ps").sum())
            .sort("time_ps", "name", descending=[True, False])
            .iter_rows()
        )
        for device in rows["device"].drop_nulls().unique().sort()
    }


def _on_host(
    ops: HostOpEvents, events: pl.DataFrame, launches: pl.DataFrame | Unavailable
) -> dict[str, str | None]:
    """Return name → type of the program's ops that launch no device work.

    Frameworks run the same op on host or device. An op counts as a device op if any of
    its executions launched work.
    """
    launching = np.zeros(len(ops.ops), np.bool_)
    if not isinstance(launches, Unavailable):
        tracks = handles(events, "track")[ops.event]
        called, track = ints(launches, "start_ps"), handles(launches, "track")
        # Each iteration handles one thread.
        for thread in np.flatnonzero(np.bincount(track)).tolist():
            # Calls of a thread are nearly always sorted, which makes this sort fast.
            begins = np.sort(called[track == thread], kind="stable")
            on_thread = np.flatnonzero(tracks == thread)
            for first in range(0, len(on_thread), _EXECUTIONS_PER_PASS):
                rows = on_thread[first : first + _EXECUTIONS_PER_PASS]
                # Executions of ops already known to launch work are skipped.
                rows = rows[~launching[ops.op[rows]]]
                start = ops.start_ps[rows]
                end = start + ops.dur_ps[rows]
                inside = np.searchsorted(begins, end) > np.searchsorted(begins, start)
                launching[ops.op[rows[inside]]] = True
    program = (ops.ops["category"] != int(OpCategory.DATASET)).to_numpy()
    own = ops.ops.filter(pl.Series(program & ~launching))[["name", "type"]]
    on_device = set(ops.ops.filter(pl.Series(launching))["name"].to_list())
    return {name: type_ for name, type_ in own.iter_rows() if name not in on_device}


def _kind_of_op(name: str, type_: str | None, scopes: set[str]) -> str:
    what = type_ or name
    if _HEAVY.search(what):
        return "heavy"
    if _CALLBACK.search(what):
        return "callback"
    scope, slash, _ = name.partition("/")
    return "model" if slash and scope in scopes else "other"


class OpsOnSides(Frozen, frozen=True):
    """Percentage of ops that run on devices; ops of input pipelines are not counted.

    Attributes:
        count_percent: Share of op executions; null if unknown.
        time_percent: Share of the self time; null if ops of host or device are unknown.
    """

    count_percent: float | None
    time_percent: float | None


@of_run
def ops_on_sides(*, op_placement: OfHosts[OpPlacement]) -> OpsOnSides | Unavailable:
    """Sum the ops of all hosts."""
    hosts = known_hosts(op_placement).values()
    why = first_reason(op_placement)
    percents: list[float | None] = []
    for sides in (
        [(host.device_executions, host.host_executions) for host in hosts],
        [(host.device_self_ps, host.host_self_ps) for host in hosts],
    ):
        known = [(device, host) for device, host in sides if None not in (device, host)]
        on_devices = sum(device or 0 for device, _ in known)
        all_ops = on_devices + sum(host or 0 for _, host in known)
        percents.append(100 * on_devices / all_ops if all_ops else None)
        why = None if known else why
    return OpsOnSides(*percents) if why is None else why
