"""`collective_calls` and `collectives`: what devices exchanged, by call and by kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import polars as pl

from stepscope._core.nesting import inherit_from_parents
from stepscope.derive.collectives.arguments import (
    ARGUMENTS,
    bus_share,
    element_type,
    exchange_kind,
    is_sure_kind,
    recorded_arguments,
)
from stepscope.derive.columns.arrays import (
    ACTIVITY_CODES,
    accepted_answer,
    handles,
    ints,
    wanted_rows,
)
from stepscope.derive.costs.operands import operands_from_text
from stepscope.derive.reasons import WHY
from stepscope.frozen import Frozen
from stepscope.trace.reading.activity_names import (
    is_collective_category,
    is_collective_op,
)
from stepscope.trace.reading.by_row import values_by_row
from stepscope.unavailable import Unavailable
from stepscope.xspace.op_links import BOOKKEEPING

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.array_types import Int32s, Int64s
    from stepscope.derive.device.activity_classes import ActivityClasses, Exposure
    from stepscope.derive.device.attribution import ActivityOps
    from stepscope.derive.device.correlation import Correlation
    from stepscope.derive.intervals.nesting import Nesting
    from stepscope.trace.model import TraceData

#: Ranges that a communication library puts around each of its launches.
_RANGE: Final = r"^(?:nccl|rccl|msccl|hccl|xccl|ucc|gloo|mpi):"


class Launched(Frozen, frozen=True, eq=True):
    """What leads from activities to the host; any of it may be absent."""

    correlation: Correlation | Unavailable
    nesting: Nesting | Unavailable


class Surroundings(Frozen, frozen=True, eq=True):
    """Rows of events by activity, -1 for none.

    Attributes:
        range: The nearest range of a communication library around the launch.
        record: The nearest record of a framework about the collective around it.
    """

    range: Int32s
    record: Int32s


COLLECTIVE_CALLS: Final[dict[str, pl.DataType]] = {
    "activity": pl.Int32(),  # row of device_activity
    "device": pl.Int32(),
    "step_row": pl.Int32(),  # row of steps; -1 for none
    "kind": pl.String(),  # of exchange, one of `KINDS`
    "group": pl.String(),  # names the members of the group; "" where not recorded
    "group_size": pl.Int64(),  # members of the group; null where not recorded
    "dtype": pl.String(),  # element type; null where not recorded
    "bytes": pl.Int64(),  # the larger of what a member gives and gets; null: unknown
    "bus_bytes": pl.Int64(),  # of them what its link carries; null where unknown
    "start_ps": pl.Int64(),
    "dur_ps": pl.Int64(),
    "exposed_ps": pl.Int64(),  # nothing else ran on the device
}
#: How the names of ops begin that communicate, whatever they are called beyond that.
_VOCABULARY: Final = r"^_?c10d(?:_functional)?::|(?i:nccl|collective|horovod)"
#: How the names of ops begin whose operands are lists of tensors.
_LISTS: Final = r"^_?c10d(?:_functional)?::"
#: Kinds that give and get the same tensors.
_IN_PLACE: Final = frozenset({"all-reduce", "broadcast", "reduce"})

#: Tensors of an op that gives one and gets one.
_BOTH_SIDES: Final = 2

NO_COLLECTIVES: Final = WHY["no_device_collectives"]


class _Names(NamedTuple):
    """What could name each collective, strongest first; null where it does not."""

    argument: pl.Series
    range: pl.Series
    op: pl.Series
    kernel: pl.Series


class _Tensors(Frozen, frozen=True, eq=True):
    """What is known of the tensors of each collective, from its op.

    Attributes:
        operands: Shapes of the operands; null where not recorded.
        lists: Whether all operands are given and got alike, as lists of tensors.
        results: Shape of what an instruction gives; null where unknown.
    """

    operands: pl.Series
    lists: pl.Series
    results: pl.Series


COLLECTIVE_ROWS: Final[dict[str, pl.DataType]] = {
    "kind": pl.String(),
    "device": pl.Int32(),
    "count": pl.Int64(),
    "total_ps": pl.Int64(),
    "min_ps": pl.Int64(),
    "max_ps": pl.Int64(),
    "exposed_ps": pl.Int64(),  # nothing else ran on the device
    "sized": pl.Int64(),  # collectives whose bytes are known
    "bytes": pl.Int64(),  # of these; null where there are none
    "sized_ps": pl.Int64(),  # time of these
    "bus_bytes": pl.Int64(),  # what a link carried; null where that is never known
    "bus_ps": pl.Int64(),  # time of the collectives of which that is known
}


def collectives(
    *, device_activity: pl.DataFrame, collective_calls: pl.DataFrame | Unavailable
) -> pl.DataFrame | Unavailable:
    """Sum collectives by kind and device.

    Definition: docs/definitions/device-work.md#collectives.

    Returns:
        Columns `COLLECTIVE_ROWS`, by kind and device; no rows where there were none.
        A collective whose kind nothing shows is `other`.
    """
    del device_activity  # without it nothing is known, rather than that there was none
    if isinstance(collective_calls, Unavailable):
        if collective_calls == NO_COLLECTIVES:
            return pl.DataFrame(schema=COLLECTIVE_ROWS)
        return collective_calls
    dur = pl.col("dur_ps")
    return (
        collective_calls.group_by("kind", "device")
        .agg(
            count=pl.len(),
            total_ps=dur.sum(),
            min_ps=dur.min(),
            max_ps=dur.max(),
            exposed_ps=pl.col("exposed_ps").sum(),
            sized=pl.col("bytes").count(),
            bytes=_sum_of_known("bytes"),
            sized_ps=dur.filter(pl.col("bytes").is_not_null()).sum(),
            bus_bytes=_sum_of_known("bus_bytes"),
            bus_ps=dur.filter(pl.col("bus_bytes").is_not_null()).sum(),
        )
        .select(pl.col(name).cast(dtype) for name, dtype in COLLECTIVE_ROWS.items())
        .sort("kind", "device")
    )


def _sum_of_known(name: str) -> pl.Expr:
    values = pl.col(name)
    return pl.when(values.is_not_null().any()).then(values.sum())


def collective_calls(
    *,
    trace: TraceData,
    activity_classes: ActivityClasses,
    activity_ops: ActivityOps,
    exposure: Exposure,
    events: pl.DataFrame,
    event_types: pl.DataFrame,
    device_activity: pl.DataFrame,
    activity_steps: Int32s | Unavailable,
    stats: pl.DataFrame | Unavailable,
    correlation: Correlation | Unavailable,
    event_nesting: Nesting | Unavailable,
    hlo_ops: pl.DataFrame | Unavailable,
) -> pl.DataFrame | Unavailable:
    """List the collectives of all devices of a host.

    A collective is named by its arguments, else by the range of the library around its
    launch, else by its op, else by its kernel.

    Definition: docs/definitions/device-work.md#collectives.

    Returns:
        Columns `COLLECTIVE_CALLS`, by device and start.
    """
    classes = activity_classes.rows
    collective = ACTIVITY_CODES["collective"]
    wanted = (classes["kind"] == collective).to_numpy()
    rows = np.flatnonzero(values_by_row(wanted, activity_classes.code))
    if not len(rows):
        return NO_COLLECTIVES
    around = launch_surroundings(
        rows, Launched(correlation, event_nesting), events, event_types
    )
    own = handles(device_activity, "event")[rows]
    said = _call_arguments(trace, stats, own, around.record)
    types = event_types["name"]
    types_of = handles(events, "type")
    names = _Names(
        said["name"],
        _gather_known(types, np.where(around.range >= 0, types_of[around.range], -1)),
        _op_texts(activity_ops.ops).gather(activity_ops.op[rows]),
        types.gather(handles(device_activity, "type")[rows]),
    )
    steps = np.full(len(rows), -1, np.int32)
    if not isinstance(activity_steps, Unavailable):
        steps = activity_steps[rows]
    frame = pl.DataFrame(dict(zip(_Names._fields, names, strict=True)))
    kind = pl.Series([None] * len(frame), dtype=pl.String)
    for text in frame:
        # One round per distinct name, not per collective.
        kinds = {it: exchange_kind(it) for it in text.drop_nulls().unique().to_list()}
        named = text.replace_strict(kinds, default=None, return_dtype=pl.String)
        kind = kind.fill_null(named) if kinds else kind
    found = said.select("group", "group_size").with_columns(
        activity=pl.Series(rows, dtype=pl.Int32),
        device=handles(device_activity, "device")[rows],
        step_row=steps,
        kind=kind.fill_null("other"),
        start_ps=ints(device_activity, "start_ps")[rows],
        dur_ps=ints(device_activity, "dur_ps")[rows],
        exposed_ps=exposure.alone_ps[rows],
    )
    op = activity_ops.op[rows]
    tensors = _Tensors(
        _shape_texts(trace, handles(device_activity, "shape")[rows]),
        activity_ops.ops["name"].str.contains(_LISTS).gather(op),
        _result_shapes(activity_ops.ops, hlo_ops).gather(op),
    )
    sized = found.hstack(_sizes_and_types(found["kind"], said, tensors))
    bus_bytes = [
        None if size is None or not members else round(size * bus_share(kind, members))
        for kind, size, members in sized["kind", "bytes", "group_size"].iter_rows()
    ]
    return (
        sized.with_columns(bus_bytes=pl.Series(bus_bytes, dtype=pl.Int64))
        .select(pl.col(name).cast(dtype) for name, dtype in COLLECTIVE_CALLS.items())
        .sort("device", "start_ps", maintain_order=True)
    )


def _call_arguments(
    trace: TraceData, stats: pl.DataFrame | Unavailable, own: Int32s, record: Int32s
) -> pl.DataFrame:
    """Return what activities say of themselves, else what the host recorded of them."""
    if isinstance(stats, Unavailable):
        empty = pl.DataFrame(schema=ARGUMENTS).clear(len(own))
        return empty.with_columns(group=pl.lit(""))
    mine = recorded_arguments(trace, stats, own)
    if mine["name"].null_count() == 0:
        return mine
    hosts = recorded_arguments(trace, stats, record)
    return mine.select(
        pl.when(mine["name"].is_not_null()).then(pl.col(name)).otherwise(hosts[name])
        for name in ARGUMENTS
    )


def _gather_known(values: pl.Series, at: NDArray[np.integer]) -> pl.Series:
    """Return values by place; null for negative places."""
    places = pl.Series(at, dtype=pl.Int64)
    return values.gather(places.set(places < 0, None))


def _shape_texts(trace: TraceData, of: Int32s) -> pl.Series:
    used = np.unique(of[of >= 0])
    texts = pl.Series([trace.strings[it] for it in used.tolist()], dtype=pl.String)
    return _gather_known(texts, np.where(of >= 0, np.searchsorted(used, of), -1))


def _result_shapes(ops: pl.DataFrame, hlo_ops: pl.DataFrame | Unavailable) -> pl.Series:
    if isinstance(hlo_ops, Unavailable):
        return pl.Series([None], dtype=pl.String).new_from_index(0, len(ops))
    return _gather_known(hlo_ops["shape"], ops["hlo"].fill_null(-1).to_numpy())


def _op_texts(ops: pl.DataFrame) -> pl.Series:
    """Return what names the exchange of each op, null of ops that may not communicate.

    Others name it, too, where their words mean nothing else.
    """
    said = ops.select(
        text=pl.concat_str(
            *(pl.col(name).fill_null("") for name in ("opcode", "type", "name")),
            separator=" ",
        )
    )["text"]
    vocabulary = (
        ops["name"].str.contains(_VOCABULARY).fill_null(value=False)
        | ops["type"].str.contains(_VOCABULARY).fill_null(value=False)
    ).to_list()
    communicates = [
        known
        or is_collective_category(opcode or "")
        or is_collective_op(f":{op_type or ''}")
        for known, opcode, op_type in zip(
            vocabulary, ops["opcode"].to_list(), ops["type"].to_list(), strict=True
        )
    ]
    # One round per distinct op, not per activity.
    kinds = [exchange_kind(text) for text in said.to_list()]
    return pl.Series(
        [
            kind if kind is not None and (known or is_sure_kind(kind)) else None
            for kind, known in zip(kinds, communicates, strict=True)
        ],
        dtype=pl.String,
    )


def _sizes_and_types(
    kinds: pl.Series, said: pl.DataFrame, tensors: _Tensors
) -> pl.DataFrame:
    """Return bytes and element type: by the arguments, else by the op's tensors."""
    keys = said.select("in_elements", "out_elements", "dtype").with_columns(
        kinds, operands=tensors.operands, lists=tensors.lists, result=tensors.results
    )
    distinct = keys.unique(maintain_order=True)
    known: list[tuple[int | None, str | None]] = [
        _size_and_type(*row) for row in distinct.iter_rows()
    ]
    table = distinct.with_columns(
        bytes=pl.Series([size for size, _ in known], dtype=pl.Int64),
        type=pl.Series([name for _, name in known], dtype=pl.String),
    )
    joined = keys.join(
        table, on=keys.columns, how="left", nulls_equal=True, maintain_order="left"
    )
    return joined.select("bytes", dtype="type")


def _size_and_type(  # noqa: PLR0917 - one row of a table
    inside: int | None,
    out: int | None,
    dtype: str | None,
    kind: str,
    operands: str | None,
    lists: bool,  # noqa: FBT001 - a cell of the row
    result: str | None,
) -> tuple[int | None, str | None]:
    """Return the bytes of a collective and its element type, as far as is known.

    By its arguments; else by the result of an instruction, of which some give both
    sides; else by the operands of an op, of which one is given and one is got. Of more
    tensors it is not known which is which, except where each is both.
    """
    counts = [count for count in (inside, out) if count is not None]
    if dtype is not None and counts:
        name, width = element_type(dtype)
        return None if width is None else width * max(counts), name
    sizes, name = _known_sizes(result)
    if sizes and kind != "reduce-scatter":
        both_sides = kind in (*_IN_PLACE, "all-to-all")
        return sum(sizes) if both_sides else max(sizes), name
    sizes, name = _known_sizes(operands)
    name, _ = element_type(name.removeprefix("c10::"))
    if sizes and kind in _IN_PLACE:
        return sum(sizes) if lists else max(sizes), name
    return (max(sizes), name) if len(sizes) == _BOTH_SIDES else (None, None)


def _known_sizes(shape: str | None) -> tuple[list[int], str]:
    """Return the bytes of all tensors of a text, and the element type of the first.

    Empty where the bytes of one of them are not known.
    """
    found = None if shape is None else operands_from_text(shape)
    tensors = [] if found is None else list(found.each_tensor())
    known = [size for tensor in tensors if (size := tensor.size_bytes) is not None]
    if not tensors or len(known) < len(tensors):
        return [], ""
    return known, tensors[0].dtype


def launch_surroundings(
    rows: Int64s, given: Launched, events: pl.DataFrame, event_types: pl.DataFrame
) -> Surroundings:
    """Find what encloses the launch calls of some activities on their threads."""
    nothing = np.full(len(rows), -1, np.int32)
    if isinstance(given.correlation, Unavailable) or isinstance(
        given.nesting, Unavailable
    ):
        return Surroundings(nothing, nothing)
    launch = given.correlation.launch_of_activity[rows]
    call = np.append(handles(given.correlation.launches, "event"), np.int32(-1))[launch]
    names = event_types["name"]
    types = handles(events, "type")
    found = []
    for wanted in (
        names.str.contains(_RANGE).to_numpy(),
        names.is_in(sorted(BOOKKEEPING)).to_numpy(),
    ):
        chosen = wanted_rows(types, wanted)
        # The nearest of the chosen events around each one of others; -1 for none.
        if not len(chosen) or not (call >= 0).any():
            nearest = np.full(len(call), -1, np.int32)
        else:
            label = np.full(len(given.nesting.parent), -1, np.int32)
            label[chosen] = chosen
            begin = int(chosen[0])
            accepted_answer(
                inherit_from_parents(
                    given.nesting.parent, label, begin, max(int(call.max()) + 1, begin)
                )
            )
            nearest = np.where(call >= 0, label[call], np.int32(-1))
        found.append(nearest)
    return Surroundings(*found)
