"""The calls of the selected ops on one host, and the device work of each call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from stepscope._core.nesting import inherit_from_parents
from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.columns.dense_codes import number_rows
from stepscope.derive.device.attribution import OpEvidence, activity_ops
from stepscope.derive.device.correlation import correlation
from stepscope.derive.device.kernels import kernels
from stepscope.derive.host.event_nesting import event_nesting
from stepscope.derive.host.op_events import host_op_events
from stepscope.frozen import Frozen
from stepscope.trace.reading.by_row import values_by_row
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.analysis.ops.selection import OpSelection
    from stepscope.array_types import Bools, Int32s, Int64s
    from stepscope.derive.device.attribution import ActivityOps
    from stepscope.derive.profile_data import ProfileData

#: Columns of `OpWork.calls`; null means unknown.
CALLS: Final[dict[str, pl.DataType]] = {
    "op": pl.String(),
    "type": pl.String(),
    "event": pl.Int32(),  # row of events; null if no host event shows the call
    # Start of the host event; if none, of the first launch call or activity.
    "start_ps": pl.Int64(),
    "launched": pl.Boolean(),  # whether `start_ps` is a time on the host
    "host_ps": pl.Int64(),  # null if no host event shows the call
    "host_self_ps": pl.Int64(),
}


class OpWork(Frozen, frozen=True):
    """The calls of the selected ops on one host, in order of their starts.

    Attributes:
        calls: Columns `CALLS`. The first rows are executions that host events show. The
            other rows are calls known only from device work: in one program on one
            device, the k-th execution of each of an op's kernels belongs to the op's
            k-th call.
        executions: Number of rows at the start of `calls` that are host executions.
        activity: int64, ascending; rows of device_activity that the calls caused,
            including activities of nested ops.
        call: int64 per entry of `activity`; index in `calls` of the innermost call.
        launch: int64, ascending; rows of launches made inside the calls, or that
            started activities of the calls.
        launch_call: int64 per entry of `launch`; index in `calls`.
        absent: Missing input (`host_op_events`, `device_activity`, `launches`) →
            reason.
    """

    host: str
    calls: pl.DataFrame
    executions: int
    activity: Int64s
    call: Int64s
    launch: Int64s
    launch_call: Int64s
    absent: dict[str, Unavailable]


def op_work(profile: ProfileData, host: str, selection: OpSelection) -> OpWork:
    """Find the calls of the selected ops and the device work of each call.

    Device work belongs to the innermost selected call inside which it was launched.
    """
    absent: dict[str, Unavailable] = {}

    def known(part: str, table: Any) -> Any:
        if isinstance(table, Unavailable):
            absent.setdefault(part, table)
            return None
        return table

    events = known("host_op_events", profile.derived(host, host_op_events))
    nesting = known("host_op_events", profile.derived(host, event_nesting))
    activity = known("device_activity", profile.table(host, "device_activity"))
    ops = known("device_activity", profile.derived(host, activity_ops))
    # Only the derivation `kernels` describes the activities, so it must be available.
    known("device_activity", profile.derived(host, kernels))
    launches = known("launches", profile.table(host, "launches"))
    matched = known("launches", profile.derived(host, correlation))
    known("launches", profile.table(host, "event_types"))
    if nesting is None:
        events = None
    chosen = np.empty(0, np.int64)
    if events is not None:
        chosen = np.flatnonzero(_selected_ops(events.ops, selection)[events.op])
    executed = pl.DataFrame(schema=CALLS)
    if len(chosen):
        executed = (
            events.ops.select(pl.col("name").alias("op"), "type")[events.op[chosen]]
            .with_columns(
                pl.Series("event", events.event[chosen]),
                pl.Series("start_ps", events.start_ps[chosen]),
                pl.lit(value=True).alias("launched"),
                pl.Series("host_ps", events.dur_ps[chosen]),
                pl.Series("host_self_ps", events.self_ps[chosen]),
            )
            .select(pl.col(name).cast(dtype) for name, dtype in CALLS.items())
        )
    launch_call = np.full(0 if launches is None else len(launches), -1, np.int32)
    if len(chosen):
        called = np.empty(0, np.int32)
        if launches is not None:
            called = handles(launches, "event")
        launch_call = _calls_around(nesting.parent, events.event[chosen], called)
    if "device_activity" in absent:
        inside = np.flatnonzero(launch_call >= 0)
        call = launch_call[inside].astype(np.int64)
        nothing = np.empty(0, np.int64)
        return OpWork(
            *(host, executed, len(executed), nothing, nothing, inside, call, absent)
        )
    host_side = _HostSide(host, executed, launches, launch_call, absent)
    launch_of = np.full(len(activity), -1, np.int32)
    if "launches" not in absent:
        launch_of = matched.launch_of_activity
    return _add_device_work(host_side, activity, ops, selection, launch_of=launch_of)


class _HostSide(Frozen, frozen=True):
    """The calls that host events show, and the call in which each launch was made."""

    host: str
    executed: pl.DataFrame
    launches: pl.DataFrame | None
    launch_call: Int32s
    absent: dict[str, Unavailable]


def _add_device_work(
    side: _HostSide,
    activity: pl.DataFrame,
    ops: ActivityOps,
    selection: OpSelection,
    *,
    launch_of: Int32s,
) -> OpWork:
    """Add the device work of the calls, and the calls known only from device work."""
    executions = len(side.executed)
    call = values_by_row(side.launch_call, launch_of, none=-1).astype(np.int64)
    unlaunched = np.flatnonzero(_selected_ops(ops.ops, selection)[ops.op] & (call < 0))
    number, further = _calls_by_kernel(activity, ops, unlaunched)
    call[unlaunched] = number + executions
    rows = np.flatnonzero(call >= 0)
    start_ps = ints(activity, "start_ps")[unlaunched].copy()
    launched = launch_of[unlaunched] >= 0
    if side.launches is not None and launched.any():
        called = ints(side.launches, "start_ps")[launch_of[unlaunched[launched]]]
        # A call starts no later than its work, even if the two clocks disagree.
        start_ps[launched] = np.minimum(start_ps[launched], called)
    begins = np.full(len(further), np.iinfo(np.int64).max)
    np.minimum.at(begins, number, start_ps)
    is_launched = np.zeros(len(further), np.bool_)
    is_launched[number[launched]] = True
    described = further.with_columns(
        [pl.Series("start_ps", begins, pl.Int64), pl.Series("launched", is_launched)]
    )
    owner = side.launch_call.astype(np.int64)
    # A launch that started work of several calls belongs to the first of these calls.
    last_first = np.flatnonzero(launched)[::-1]
    outside = last_first[owner[launch_of[unlaunched[last_first]]] < 0]
    owner[launch_of[unlaunched[outside]]] = call[unlaunched[outside]]
    launch = np.flatnonzero(owner >= 0)
    return OpWork(
        side.host,
        pl.concat([side.executed, described.select(*CALLS)]),
        executions,
        rows,
        call[rows],
        launch,
        owner[launch],
        side.absent,
    )


def _selected_ops(ops: pl.DataFrame, selection: OpSelection) -> Bools:
    selected: Bools = ops.select(selection.matches_names("name")).to_series().to_numpy()
    return selected


def _calls_around(parent: Int32s, event: Int32s, wanted: Int32s) -> Int32s:
    """Return the innermost call that is or contains each wanted event; -1 for none."""
    label = np.full(len(parent), -1, np.int32)
    label[event] = np.arange(len(event), dtype=np.int32)
    end = max(int(wanted.max(initial=-1)) + 1, int(event[0]))
    answer = inherit_from_parents(parent, label, int(event[0]), end)
    if answer < 0:
        raise ValueError(f"the kernel refused its arrays ({answer})")
    return label[wanted]


def _calls_by_kernel(
    activity: pl.DataFrame, ops: ActivityOps, rows: Int64s
) -> tuple[Int64s, pl.DataFrame]:
    """Assign activities without a host call to calls, by counting repeated kernels.

    If an activity has no op, or only its copy direction as a name, it has no kernel and
    counts as one call, as in the op tables.
    """
    number = np.empty(len(rows), np.int64)
    if not len(rows):
        return number, pl.DataFrame(schema=CALLS).drop("start_ps", "launched")
    group = ops.ops["group"].to_numpy()[ops.op[rows]]
    evidence = ops.ops["evidence"].to_numpy()[ops.op[rows]]
    unnamed = np.isin(evidence, (int(OpEvidence.COPY), int(OpEvidence.NONE)))
    kernel = np.where(unnamed, -1, handles(activity, "type")[rows])
    device = handles(activity, "device")[rows]
    start_ps = ints(activity, "start_ps")[rows]
    # A module that was compiled twice is two programs, whose ops ran separately.
    program = ops.ops["program"].fill_null(-1).to_numpy()[ops.op[rows]]
    place = number_rows([device, group, program]).code
    key = number_rows([place, kernel]).code
    # Position of each activity among those with the same key, in order of time.
    order = np.lexsort((start_ps, key))
    sorted_key = key[order]
    first = np.searchsorted(sorted_key, sorted_key, side="left")
    turn = np.empty(len(rows), np.int32)
    turn[order] = np.arange(len(rows)) - first
    calls = number_rows([place, turn])
    # Number the calls in order of their first activities.
    begins = np.full(calls.count, np.iinfo(np.int64).max)
    np.minimum.at(begins, calls.code, start_ps)
    by_time = np.argsort(begins, kind="stable")
    rank = np.empty(calls.count, np.int64)
    rank[by_time] = np.arange(calls.count)
    number[:] = rank[calls.code]
    described = ops.ops.select(pl.col("name").alias("op"), "type")[
        ops.op[rows[calls.first[by_time]]]
    ]
    return number, described.with_columns(
        pl.lit(None, CALLS[name]).alias(name)
        for name in ("event", "host_ps", "host_self_ps")
    )
