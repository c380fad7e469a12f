"""Operand shapes of the selected calls, and the FLOPs and bytes of the calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.analysis.results.tables import declared_rows, sum_of_known, tool_tables
from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.columns.dense_codes import number_rows
from stepscope.derive.columns.stat_values import StatRows, find_handle, rows_of_owners
from stepscope.derive.costs.families import calls_only
from stepscope.derive.device.activity_classes import device_executions
from stepscope.derive.device.attribution import activity_ops
from stepscope.derive.host.op_events import host_op_events
from stepscope.derive.host.values import text_codes
from stepscope.derive.ops.execution_costs import execution_costs, run_costs
from stepscope.trace.reading.nullable import nullable_series
from stepscope.trace.reading.stat_keys import StatKey
from stepscope.unavailable import Unavailable, require_available
from stepscope.units import GIB, PS_PER_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.analysis.framework_op_stats.work import OpWork
    from stepscope.array_types import Bools, Int64s
    from stepscope.derive.profile_data import ProfileData
    from stepscope.trace.model import TraceData

SHAPE_ROWS: Final = tool_tables("framework_op_stats")["shapes"]

#: Keys of host event values with operand sizes, and with operand element types.
_SIZES: Final = (StatKey.INPUT_DIMS, StatKey.SHAPES, StatKey.SHAPE)
_TYPES: Final = (StatKey.INPUT_TYPE, StatKey.TYPES)

_UNKNOWN: Final = -1


def call_costs(profile: ProfileData, work: OpWork) -> pl.DataFrame:
    """Return `flops` and `accessed_bytes` of each call; null if unknown.

    Operations inside nested calls count for the innermost call, as their time does.
    """
    count = len(work.calls)
    flops = np.full(count, _UNKNOWN, np.int64)
    accessed = np.full(count, _UNKNOWN, np.int64)
    _fill_host_calls(profile, work, flops, accessed)
    _fill_device_calls(profile, work, flops, accessed)
    return pl.DataFrame(
        [
            nullable_series("flops", flops, flops >= 0),
            nullable_series("accessed_bytes", accessed, accessed >= 0),
        ]
    )


def _fill_host_calls(
    profile: ProfileData, work: OpWork, flops: Int64s, accessed: Int64s
) -> None:
    """Fill `flops` and `accessed` for the calls that host events show."""
    costs = profile.derived(work.host, execution_costs)
    events = profile.derived(work.host, host_op_events)
    if isinstance(costs, Unavailable):
        return
    event = work.calls["event"].head(work.executions).to_numpy()
    place = np.searchsorted(require_available(events).event, event)
    call = np.full(len(costs.parent), -1, np.int64)
    call[place] = np.arange(len(place))
    order = np.argsort(costs.depth, kind="stable")
    cuts = np.flatnonzero(np.diff(costs.depth[order])) + 1
    # Each iteration handles one nesting level of the calls, outermost first.
    for rows in np.split(order, cuts)[1:]:
        open_rows = rows[call[rows] < 0]
        call[open_rows] = call[costs.parent[open_rows]]
    worked = np.ones(len(call), np.bool_)
    if "device_activity" not in work.absent:
        worked = require_available(
            profile.derived(work.host, device_executions)
        ).launched
    # The cost of an op that only calls other ops does not include the called ops.
    types = work.calls["type"].head(work.executions).fill_null("").to_list()
    callers = {op_type: calls_only(op_type) for op_type in set(types)}
    has_own_work = ~np.array([callers[op_type] for op_type in types], np.bool_)
    inside = call >= 0
    is_complete = has_own_work & (costs.flops[place] >= 0)
    flops[: work.executions] = _sum_by_call(
        costs.flops, call, inside, worked, is_complete
    )
    # The bytes that an op accesses follow from its own operands. The operands of ops
    # that an op calls include intermediate results.
    own = costs.accessed_bytes[place]
    inner = _sum_by_call(
        costs.accessed_bytes, call, inside & worked, worked, np.zeros_like(is_complete)
    )
    parent = costs.parent[place]
    around = np.zeros(len(place), np.bool_)
    above = call[parent[parent >= 0]]
    around[above[above >= 0]] = True
    # The time of a call around another selected call partly belongs to the inner call.
    accessed[: work.executions] = np.where(
        around, _UNKNOWN, np.where(own >= 0, own, inner)
    )


def _sum_by_call(
    values: Int64s, call: Int64s, inside: Bools, worked: Bools, is_complete: Bools
) -> Int64s:
    """Add up values by call; unknown if any value is missing, unless `is_complete`."""
    count = len(is_complete)
    known = inside & (values >= 0)
    total = np.zeros(count, np.int64)
    np.add.at(total, call[known], values[known])
    has_value = np.bincount(call[known], minlength=count) > 0
    lost = inside & worked & (values < 0)
    doubtful = np.bincount(call[lost], minlength=count) > 0
    complete = has_value & (~doubtful | is_complete)
    return np.where(complete, total, _UNKNOWN)


def _fill_device_calls(
    profile: ProfileData, work: OpWork, flops: Int64s, accessed: Int64s
) -> None:
    """Fill in calls known only from device work, by the costs of instructions."""
    if len(work.calls) == work.executions:
        return
    costs = profile.derived(work.host, run_costs)
    ops = require_available(profile.derived(work.host, activity_ops))
    if isinstance(costs, Unavailable):
        return
    only_on_device = work.call >= work.executions
    call, op = work.call[only_on_device], ops.op[work.activity[only_on_device]]
    # An instruction counts once per call, even if it launches several kernels.
    runs = number_rows([call.astype(np.int32), op.astype(np.int32)]).first
    call, op = call[runs], op[runs]
    for name, target in (("flops", flops), ("accessed_bytes", accessed)):
        value = costs[name].fill_null(_UNKNOWN).to_numpy()[op]
        total = np.zeros(len(target), np.int64)
        np.add.at(total, call, value)
        total[call[value < 0]] = _UNKNOWN
        target[work.executions :] = total[work.executions :]


def call_shapes(profile: ProfileData, work: OpWork) -> pl.Series:
    """Return the shape of each call of one host; null if no shape was recorded.

    The first device activity with a shape decides, else the call's host event.
    """
    texts = pl.Series("shape", [None] * len(work.calls), pl.String)
    for recorded_shapes in (_shapes_of_activity, _shapes_of_events):
        shapes = recorded_shapes(profile, work)
        if shapes is not None:
            call, code, known = shapes
            number = np.full(len(work.calls), -1, np.int64)
            # If a call has several shapes, the first one counts.
            number[call[::-1]] = code[::-1]
            names = pl.Series("shape", [*known, None], pl.String)
            own = names[np.where(number < 0, len(known), number)]
            texts = pl.select(pl.coalesce(texts, own)).to_series().alias("shape")
    return texts


_CallShapes = tuple["Int64s", "Int64s", list[str]]


def _shapes_of_activity(profile: ProfileData, work: OpWork) -> _CallShapes | None:
    if not len(work.activity):
        return None
    activity = require_available(profile.table(work.host, "device_activity"))
    handle = handles(activity, "shape")[work.activity]
    known = handle >= 0
    distinct, code = np.unique(handle[known], return_inverse=True)
    strings = profile.trace(work.host).strings
    texts = [strings[handle_of_shape] for handle_of_shape in distinct.tolist()]
    return work.call[known], code.astype(np.int64), texts


def _shapes_of_events(profile: ProfileData, work: OpWork) -> _CallShapes | None:
    stats = profile.table(work.host, "stats")
    if not work.executions or isinstance(stats, Unavailable):
        return None
    trace = profile.trace(work.host)
    events = work.calls["event"].head(work.executions).to_numpy().astype(np.int32)
    values = rows_of_owners(stats, "event", events)
    sizes = _recorded_texts(trace, values, _SIZES)
    types = _recorded_texts(trace, values, _TYPES)
    if sizes is None:
        return None
    frame = sizes
    if types is not None:
        both = pl.concat_str("text", "text_right", separator=" ", ignore_nulls=True)
        frame = sizes.join(types, on="event", how="left").with_columns(text=both)
    frame = frame.sort("event").unique("event", keep="last", maintain_order=True)
    distinct = frame.select("text").unique(maintain_order=True)
    code = frame.join(
        distinct.with_row_index("code"), on="text", how="left", maintain_order="left"
    )
    return (
        np.searchsorted(events, frame["event"].to_numpy()).astype(np.int64),
        code["code"].to_numpy().astype(np.int64),
        distinct["text"].to_list(),
    )


def _recorded_texts(
    trace: TraceData, values: StatRows, names: Sequence[StatKey]
) -> pl.DataFrame | None:
    """Return columns `event` and `text` for the first value name that any event has."""
    for name in names:
        handle = find_handle(trace.strings, name)
        named_values = values.only(values.key == handle)
        if not len(named_values.owner):
            continue
        owner, code, texts = text_codes(trace, named_values)
        written = pl.Series("text", texts, pl.String)[code]
        return pl.DataFrame({"event": owner, "text": written}).filter(
            pl.col("text") != ""
        )
    return None


def shape_rows(
    profile: ProfileData, works: Sequence[OpWork], shapes: Sequence[pl.Series]
) -> pl.DataFrame:
    """Return one row per op and shape, by time on devices, then on hosts.

    Args:
        shapes: Shapes of the calls of each host, from `call_shapes`.
    """
    frames = [
        work.calls.select("op", "host_ps")
        .with_columns(shape, device_ps=_device_ps(profile, work))
        .with_columns(
            # The time on the device, or on the host if the call has no device work.
            worked_ps="host_ps" if "device_activity" in work.absent else "device_ps"
        )
        .with_columns(*call_costs(profile, work))
        for work, shape in zip(works, shapes, strict=True)
    ]
    known = pl.concat(frames).filter(pl.col("shape").is_not_null())
    summed = (
        known.group_by("op", "shape")
        .agg(
            pl.len().alias("calls"),
            *map(sum_of_known, ("host_ps", "device_ps")),
            _rate_expression("flops", 1e9).alias("measured_flop_rate"),
            _rate_expression("accessed_bytes", GIB).alias("measured_memory_bw"),
        )
        .sort(
            *("device_ps", "host_ps", "op", "shape"),
            descending=[True, True, False, False],
            nulls_last=True,
        )
        .with_row_index("rank", offset=1)
    )
    return declared_rows(summed, SHAPE_ROWS)


def _rate_expression(what: str, unit: float) -> pl.Expr:
    """Return a rate per second; null unless FLOPs or bytes of every call are known."""
    known = (pl.col(what).null_count() == 0) & (pl.col("worked_ps").null_count() == 0)
    spent = pl.col("worked_ps").sum()
    rate = pl.col(what).sum() * (PS_PER_S / unit) / spent
    return pl.when(known & (spent > 0)).then(rate)


def _device_ps(profile: ProfileData, work: OpWork) -> pl.Series:
    """Return the device time of each call; null if no device could be analysed."""
    if "device_activity" in work.absent:
        return pl.Series("device_ps", [None] * len(work.calls), pl.Int64)
    activity = require_available(profile.table(work.host, "device_activity"))
    spent = np.zeros(len(work.calls), np.int64)
    np.add.at(spent, work.call, ints(activity, "dur_ps")[work.activity])
    if "launches" not in work.absent:
        return pl.Series("device_ps", spent)
    # If launches were not recorded, the device work of host calls is unknown.
    return nullable_series("device_ps", spent, np.arange(len(spent)) >= work.executions)
