"""Ops that a device waits for while the host executes them, by what they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.advice.signals.signal import signal
from stepscope.derive.account.parts import account_parts
from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.host.op_events import host_op_events
from stepscope.derive.names.event_kinds import OpCategory
from stepscope.derive.ops.database import device_ops
from stepscope.frozen import Frozen
from stepscope.patterns import Pattern
from stepscope.unavailable import Unavailable, present

if TYPE_CHECKING:
    from stepscope.derive.host.op_events import HostOpEvents
    from stepscope.derive.profile_data import ProfileData
    from stepscope.thresholds import Thresholds

#: Executions that are looked at together.
_ROUND: Final = 2**15
#: Types of ops that a device is made for.
_HEAVY: Final = Pattern(
    r"(?i)(?:^|::|_)(?:\w*conv\d?d?\w*|\w*matmul\w*|einsum|b?mm|baddbmm|addmm|linear"
    r"|\w*(?:batch|layer|group|instance)_?norm\w*|(?:log_?)?softmax\w*"
    r"|\w*(?:lstm|gru|rnn)\w*|\w*attention\w*)$"
)
#: Types of ops that call Python, or work on texts.
_CALLBACK: Final = Pattern(
    r"(?i)py_?func|numpy_function|(?:pure|io|python|host)_?callback|^string|regex"
)


class HostPlaced(Frozen, frozen=True):
    """An op of the host that a device waits for.

    Attributes:
        name: Its name.
        kind: "heavy" for products, convolutions and the like, "callback" for Python and
            texts, "model" for others in a scope of which other ops run on the device,
            "other" for the rest.
        time_ps: Time in which the device waits for it, in all judged steps.
    """

    name: str
    kind: str
    time_ps: int


@signal(account_parts, host_op_events, device_ops)
def placement_signals(
    profile: ProfileData, _: Thresholds
) -> dict[str, tuple[HostPlaced, ...]] | Unavailable:
    """Return the ops that each device waits for, `host:device` → most time first."""
    found: dict[str, tuple[HostPlaced, ...]] = {}
    reasons: list[Unavailable] = []
    for host in profile.hosts:
        parts = profile.derived(host, account_parts)
        ops = profile.derived(host, host_op_events)
        if isinstance(parts, Unavailable):
            reasons.append(parts)
            continue
        if isinstance(ops, Unavailable):
            reasons.append(ops)
            continue
        on_device = profile.derived(host, device_ops)
        scopes = (
            set() if isinstance(on_device, Unavailable) else _scopes(on_device.rows)
        )
        types = _on_host(profile, host, ops)
        waits = parts.rows.filter(
            (pl.col("owner") == "host_compute")
            & pl.col("device").is_not_null()
            & pl.col("function").is_null()
            & pl.col("name").is_in(list(types))
        )
        for device in parts.rows["device"].drop_nulls().unique().sort():
            mine = waits.filter(pl.col("device") == device)
            found[f"{host}:{device}"] = tuple(
                HostPlaced(name, _kind(name, types[name], scopes), time_ps)
                for name, time_ps in mine.group_by("name")
                .agg(pl.col("time_ps").sum())
                .sort("time_ps", "name", descending=[True, False])
                .iter_rows()
            )
    if reasons and not found:
        return reasons[0]
    return found


def _on_host(
    profile: ProfileData, host: str, ops: HostOpEvents
) -> dict[str, str | None]:
    """Return name → type of the program's ops that launch nothing, nor do ops inside.

    Frameworks run the same op on either side: one that launches now and then is a
    device's.
    """
    events = present(profile.table(host, "events"))
    launches = profile.table(host, "launches")
    launching = np.zeros(len(ops.ops), np.bool_)
    if not isinstance(launches, Unavailable):
        tracks = handles(events, "track")[ops.event]
        called, track = ints(launches, "start_ps"), handles(launches, "track")
        # One round per thread.
        for one in np.flatnonzero(np.bincount(track)).tolist():
            # Calls of a thread are in order nearly always, which this sort finds.
            begins = np.sort(called[track == one], kind="stable")
            mine = np.flatnonzero(tracks == one)
            for at in range(0, len(mine), _ROUND):
                rows = mine[at : at + _ROUND]
                # What has launched once is known, however often it ran.
                rows = rows[~launching[ops.op[rows]]]
                start = ops.start_ps[rows]
                end = start + ops.dur_ps[rows]
                inside = np.searchsorted(begins, end) > np.searchsorted(begins, start)
                launching[ops.op[rows[inside]]] = True
    program = (ops.ops["category"] != int(OpCategory.DATASET)).to_numpy()
    own = ops.ops.filter(pl.Series(program & ~launching))[["name", "type"]]
    elsewhere = set(ops.ops.filter(pl.Series(launching))["name"].to_list())
    return {name: type_ for name, type_ in own.iter_rows() if name not in elsewhere}


def _scopes(rows: pl.DataFrame) -> set[str]:
    """Return the outermost scopes of the ops that ran on devices."""
    names = rows["name"].drop_nulls().to_list()
    return {name.partition("/")[0] for name in names if "/" in name}


def _kind(name: str, type_: str | None, scopes: set[str]) -> str:
    what = type_ or name
    if _HEAVY.search(what):
        return "heavy"
    if _CALLBACK.search(what):
        return "callback"
    scope, slash, _ = name.partition("/")
    return "model" if slash and scope in scopes else "other"
