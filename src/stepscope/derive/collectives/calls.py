"""`collective_calls` and `collectives`: device collectives by call and by kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope._core.nesting import inherit_from_parents
from stepscope.derive.collectives.arguments import (
    ARGUMENTS,
    SURE_KINDS,
    bus_share,
    collective_kind,
    element_type,
    event_arguments,
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
from stepscope.trace.reading.activity_names import (
    is_collective_category,
    is_collective_op,
)
from stepscope.trace.reading.by_row import values_by_row
from stepscope.unavailable import Unavailable
from stepscope.xspace.op_links import BOOKKEEPING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepscope.array_types import Int32s, Int64s
    from stepscope.derive.device.activity_classes import ActivityClasses, Exposure
    from stepscope.derive.device.attribution import ActivityOps
    from stepscope.derive.device.correlation import Correlation
    from stepscope.derive.intervals.nesting import Nesting
    from stepscope.trace.model import TraceData

#: Events in which a communication library launches its kernels.
_RANGE: Final = r"^(?:nccl|rccl|msccl|hccl|xccl|ucc|gloo|mpi):"


COLLECTIVE_CALLS: Final[dict[str, pl.DataType]] = {
    "activity": pl.Int32(),  # row of device_activity
    "device": pl.Int32(),
    "step_row": pl.Int32(),  # row of steps; -1 for none
    "kind": pl.String(),  # kind of collective, one of `KINDS`
    "group": pl.String(),  # name of the group of members; "" if not recorded
    "group_size": pl.Int64(),  # members of the group; null if not recorded
    "dtype": pl.String(),  # element type; null if not recorded
    "bytes": pl.Int64(),  # larger of a member's input and output; null if unknown
    "bus_bytes": pl.Int64(),  # bytes over the member's link; null if unknown
    "start_ps": pl.Int64(),
    "dur_ps": pl.Int64(),
    "exposed_ps": pl.Int64(),  # time while nothing else ran on the device
}
#: Names and types of ops that only communicate.
_VOCABULARY: Final = r"^_?c10d(?:_functional)?::|(?i:nccl|collective|horovod)"
#: Start of the names of ops whose operands are lists of tensors.
_LISTS: Final = r"^_?c10d(?:_functional)?::"
#: Kinds of collectives whose result is as large as the operand.
_IN_PLACE: Final = frozenset({"all-reduce", "broadcast", "reduce"})

#: Number of recorded tensors of an op with one input and one output.
_INPUT_AND_OUTPUT: Final = 2

NO_COLLECTIVES: Final = WHY["no_device_collectives"]


COLLECTIVE_ROWS: Final[dict[str, pl.DataType]] = {
    "kind": pl.String(),
    "device": pl.Int32(),
    "count": pl.Int64(),
    "total_ps": pl.Int64(),
    "min_ps": pl.Int64(),
    "max_ps": pl.Int64(),
    "exposed_ps": pl.Int64(),  # time while nothing else ran on the device
    "sized": pl.Int64(),  # collectives with known bytes
    "bytes": pl.Int64(),  # sum over `sized` collectives; null if none
    "sized_ps": pl.Int64(),  # time of the `sized` collectives
    "bus_bytes": pl.Int64(),  # bytes over the links; null if never known
    "bus_ps": pl.Int64(),  # time of the collectives with known bus bytes
}


def collectives(
    *, device_activity: pl.DataFrame, collective_calls: pl.DataFrame | Unavailable
) -> pl.DataFrame | Unavailable:
    """Sum collectives by kind and device.

    Definition: docs/definitions/device-work.md#collectives.

    Returns:
        Columns `COLLECTIVE_ROWS`, by kind and device; no rows without collectives. A
        collective whose kind is unknown has the kind `other`.
    """
    del device_activity  # a required input: without it, collectives are unknown
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

    A collective's name is the first recorded of: its arguments, the communication
    library's event around its launch, its op, its kernel.

    Definition: docs/definitions/device-work.md#collectives.

    Returns:
        Columns `COLLECTIVE_CALLS`, by device and start.
    """
    classes = activity_classes.rows
    wanted = (classes["kind"] == ACTIVITY_CODES["collective"]).to_numpy()
    rows = np.flatnonzero(values_by_row(wanted, activity_classes.code))
    if not len(rows):
        return NO_COLLECTIVES
    library, record = _events_around_launches(
        rows, correlation, event_nesting, events, event_types
    )
    own = handles(device_activity, "event")[rows]
    arguments = _call_arguments(trace, stats, own, record)
    types, type_of = event_types["name"], handles(events, "type")
    op = activity_ops.op[rows]
    # Texts with a collective's kind, most reliable first; null if not recorded.
    names = (
        arguments["name"],
        _gather_known(types, np.where(library >= 0, type_of[library], -1)),
        _op_texts(activity_ops.ops).gather(op),
        types.gather(handles(device_activity, "type")[rows]),
    )
    steps = np.full(len(rows), -1, np.int32)
    if not isinstance(activity_steps, Unavailable):
        steps = activity_steps[rows]
    described = arguments.select("group", "group_size").with_columns(
        activity=pl.Series(rows, dtype=pl.Int32),
        device=handles(device_activity, "device")[rows],
        step_row=steps,
        kind=_kinds_of_names(names),
        start_ps=ints(device_activity, "start_ps")[rows],
        dur_ps=ints(device_activity, "dur_ps")[rows],
        exposed_ps=exposure.alone_ps[rows],
    )
    keys = arguments.select("in_elements", "out_elements", "dtype").with_columns(
        described["kind"],
        operands=_shape_texts(trace, handles(device_activity, "shape")[rows]),
        lists=activity_ops.ops["name"].str.contains(_LISTS).gather(op),
        result=_result_shapes(activity_ops.ops, hlo_ops).gather(op),
    )
    sized = described.hstack(_sizes_and_types(keys))
    bus_bytes = [
        None if size is None or not members else round(size * bus_share(kind, members))
        for kind, size, members in sized["kind", "bytes", "group_size"].iter_rows()
    ]
    return (
        sized.with_columns(bus_bytes=pl.Series(bus_bytes, dtype=pl.Int64))
        .select(pl.col(name).cast(dtype) for name, dtype in COLLECTIVE_CALLS.items())
        .sort("device", "start_ps", maintain_order=True)
    )


def _kinds_of_names(names: Sequence[pl.Series]) -> pl.Series:
    """Return the kind in the first name that contains a kind, else `other`."""
    kind = pl.Series([None] * len(names[0]), dtype=pl.String)
    for text in names:
        # Parse each distinct name once.
        distinct = text.drop_nulls().unique().to_list()
        kinds = {name: collective_kind(name) for name in distinct}
        named = text.replace_strict(kinds, default=None, return_dtype=pl.String)
        kind = kind.fill_null(named) if kinds else kind
    return kind.fill_null("other")


def _call_arguments(
    trace: TraceData, stats: pl.DataFrame | Unavailable, own: Int32s, record: Int32s
) -> pl.DataFrame:
    """Return the arguments recorded with each activity, or with its host event."""
    if isinstance(stats, Unavailable):
        empty = pl.DataFrame(schema=ARGUMENTS).clear(len(own))
        return empty.with_columns(group=pl.lit(""))
    args = event_arguments(trace, stats, own)
    if args["name"].null_count() == 0:
        return args
    hosts = event_arguments(trace, stats, record)
    return args.select(
        pl.when(args["name"].is_not_null()).then(pl.col(name)).otherwise(hosts[name])
        for name in ARGUMENTS
    )


def _gather_known(values: pl.Series, index: NDArray[np.integer]) -> pl.Series:
    """Gather values by index; null for a negative index."""
    indices = pl.Series(index, dtype=pl.Int64)
    return values.gather(indices.set(indices < 0, None))


def _shape_texts(trace: TraceData, code: Int32s) -> pl.Series:
    used = np.unique(code[code >= 0])
    texts = pl.Series(
        [trace.strings[handle] for handle in used.tolist()], dtype=pl.String
    )
    return _gather_known(texts, np.where(code >= 0, np.searchsorted(used, code), -1))


def _result_shapes(ops: pl.DataFrame, hlo_ops: pl.DataFrame | Unavailable) -> pl.Series:
    if isinstance(hlo_ops, Unavailable):
        return pl.repeat(None, len(ops), dtype=pl.String, eager=True)
    return _gather_known(hlo_ops["shape"], ops["hlo"].fill_null(-1).to_numpy())


def _op_texts(ops: pl.DataFrame) -> pl.Series:
    """Return the kind of collective of each op; null for ops that do not communicate.

    An op of a communication library may have any kind. Other ops count only if their
    name contains a kind that no op within one device has.
    """
    texts = ops.select(
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
    # Parse each distinct op once.
    kinds = [collective_kind(text) for text in texts.to_list()]
    return pl.Series(
        [
            kind if kind is not None and (known or kind in SURE_KINDS) else None
            for kind, known in zip(kinds, communicates, strict=True)
        ],
        dtype=pl.String,
    )


def _sizes_and_types(keys: pl.DataFrame) -> pl.DataFrame:
    """Return bytes and element type from the arguments, else from the op's tensors.

    Args:
        keys: The parameters of `_size_and_type`, in its order.
    """
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
    """Return the bytes and the element type of a collective; None if unknown.

    The first of these sources that has the sizes is used: the arguments of the call;
    the result of an HLO instruction, which for some kinds contains input and output;
    the operands of an op. Operands are used if they are one input and one output, or
    lists (`lists`) that are both input and output.
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
    return (max(sizes), name) if len(sizes) == _INPUT_AND_OUTPUT else (None, None)


def _known_sizes(shape: str | None) -> tuple[list[int], str]:
    """Return the bytes of each tensor in a text, and the element type of the first.

    The list is empty if the bytes of any tensor are unknown.
    """
    operands = None if shape is None else operands_from_text(shape)
    tensors = [] if operands is None else list(operands.each_tensor())
    known = [size for tensor in tensors if (size := tensor.size_bytes) is not None]
    if not tensors or len(known) < len(tensors):
        return [], ""
    return known, tensors[0].dtype


def _events_around_launches(
    rows: Int64s,
    correlation: Correlation | Unavailable,
    nesting: Nesting | Unavailable,
    events: pl.DataFrame,
    event_types: pl.DataFrame,
) -> tuple[Int32s, Int32s]:
    """Return the events around the launch calls of activities, -1 for none.

    The first is the innermost event of a communication library, the second the
    innermost event in which a framework recorded the arguments of the collective.
    """
    nothing = np.full(len(rows), -1, np.int32)
    if isinstance(correlation, Unavailable) or isinstance(nesting, Unavailable):
        return nothing, nothing
    launch = correlation.launch_of_activity[rows]
    call = np.append(handles(correlation.launches, "event"), np.int32(-1))[launch]
    names = event_types["name"]
    types = handles(events, "type")
    columns = []
    for wanted in (
        names.str.contains(_RANGE).to_numpy(),
        names.is_in(sorted(BOOKKEEPING)).to_numpy(),
    ):
        chosen = wanted_rows(types, wanted)
        # Innermost chosen event around each launch call; -1 for none.
        nearest = nothing
        if len(chosen):
            label = np.full(len(nesting.parent), -1, np.int32)
            label[chosen] = chosen
            begin = int(chosen[0])
            accepted_answer(
                inherit_from_parents(
                    nesting.parent, label, begin, max(int(call.max()) + 1, begin)
                )
            )
            nearest = np.where(call >= 0, label[call], np.int32(-1))
        columns.append(nearest)
    library, record = columns
    return library, record
