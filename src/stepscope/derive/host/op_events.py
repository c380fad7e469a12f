"""`host_op_events`: the executions of ops on host threads, with their times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.columns.dense_codes import number_rows, number_values
from stepscope.derive.columns.stat_values import values_of_owners
from stepscope.derive.host.values import host_rows, int_values, text_codes
from stepscope.derive.intervals.nesting import nest_subset
from stepscope.derive.names.event_kinds import EventFlag, OpCategory
from stepscope.derive.names.op_names import HLO_TEXTS, read_annotations, resolve_hlo
from stepscope.frozen import Frozen
from stepscope.trace.reading.by_row import values_by_row
from stepscope.trace.reading.stat_keys import StatKey
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from stepscope.array_types import Bools, Int32s, Int64s
    from stepscope.derive.columns.stat_values import StatRows
    from stepscope.derive.names.event_kinds import EventKinds
    from stepscope.trace.model import TraceData

#: Columns of `HostOpEvents.ops`; null means unknown.
HOST_OPS: Final[dict[str, pl.DataType]] = {
    "name": pl.String(),  # of a compiled program: framework op, else instruction
    "type": pl.String(),  # of a compiled program: type of that op, else opcode
    "category": pl.UInt8(),  # an `OpCategory`
    **HLO_TEXTS,
    "call": pl.Boolean(),  # function call or control flow, which only runs other ops
}

#: Ranks of the rules that recognise an event as an op. If two events are of one
#: execution, the event with the higher rank is kept.
_WRAPPER: Final = 1
_EAGER: Final = 2
_NAMED: Final = 3
_CALL: Final = 0


class HostOpEvents(Frozen, frozen=True):
    """One entry per execution of an op on a host thread.

    Attributes:
        event: int32; row of events of each execution, ascending.
        op: int32; row of `ops` of each execution.
        start_ps: int64; start of each execution.
        dur_ps: int64; duration of each execution.
        self_ps: int64; time in which no op inside the execution runs. The self times of
            a thread add up to the length of the union of its op events.
        parent: int32; the enclosing execution on the same thread, -1 for none.
        depth: int32; 0 without a parent, else one more than the parent's.
        outermost: False if an execution of the same op encloses this one, whose time is
            then part of the enclosing execution.
        eager: int8; 1 if the op ran eagerly, 0 as part of a function, -1 if unknown.
        ops: Distinct ops, columns `HOST_OPS`.
        without_values: Why the values of events could not be read; None if they could.
            The names of instructions and of some eager ops are in values of events.
    """

    event: Int32s
    op: Int32s
    start_ps: Int64s
    dur_ps: Int64s
    self_ps: Int64s
    parent: Int32s
    depth: Int32s
    outermost: Bools
    eager: NDArray[np.int8]
    ops: pl.DataFrame
    without_values: Unavailable | None


def host_op_events(
    *,
    trace: TraceData,
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    event_types: pl.DataFrame,
    event_kinds: EventKinds,
    host_values: Mapping[str, StatRows] | Unavailable,
    hlo_ops: pl.DataFrame | Unavailable,
) -> HostOpEvents:
    """Find the op events of all host threads.

    Op events are: events with the name of an op, ops that ran eagerly, input stages,
    compiled instructions, and calls with an op's annotation. Allocator events, markers,
    wrappers and frames are not op events. Nested events of one execution count once.

    Definition: docs/tools/framework_op_stats.md#what-counts-as-an-execution-of-an-op.
    """
    named = _NamedEvents(trace, event_kinds, handles(events, "type"))
    named.name_by_type(tracks, event_types)
    values = None if isinstance(host_values, Unavailable) else host_values
    if values is not None:
        named.name_eager_calls(values)
        named.name_marked_stages(values)
        named.name_annotated_calls(values)
        named.name_instructions(values, hlo_ops)
    event, op, rank, ops = named.distinct_ops()
    # `eager`: 1 if the name or a stored value shows that the op ran eagerly, else 0.
    by_rank = np.zeros(_NAMED + 1, np.int8)
    by_rank[[_EAGER, _WRAPPER]] = 1
    eager = values_by_row(by_rank, rank)
    stored = None if values is None else int_values(values[StatKey.IS_EAGER])
    if stored is not None and len(stored[0]):
        given, _ = values_of_owners(event, *stored, default=-1)
        eager = np.where(given >= 0, given != 0, eager).astype(np.int8)
    keep, eager = _one_per_run(events, event, op=op, rank=rank, ops=ops, eager=eager)
    if not keep.all():
        event, op, eager = event[keep], op[keep], eager[keep]
    start_ps, dur_ps = ints(events, "start_ps")[event], ints(events, "dur_ps")[event]
    nested = nest_subset(start_ps, dur_ps, track=handles(events, "track")[event])
    # Only TensorFlow's ops run both eagerly and in functions.
    both = (ops["category"] == int(OpCategory.TENSORFLOW)).to_numpy()
    eager[~values_by_row(both, op)] = -1
    if values is None:
        eager[eager == 0] = -1
    same = pl.struct("name", "type", "module", "program")
    group = ops.select(same.rank("dense")).to_series().to_numpy().astype(np.int32)
    return HostOpEvents(
        event=event.astype(np.int32),
        op=op,
        start_ps=start_ps,
        dur_ps=dur_ps,
        self_ps=nested.self_ps,
        parent=nested.parent,
        depth=nested.depth,
        outermost=outermost_of_op(nested.parent, values_by_row(group, op)),
        eager=eager,
        ops=ops,
        without_values=host_values if isinstance(host_values, Unavailable) else None,
    )


class NamedRows:
    """Events, and rows of tables that name them; a later name replaces an earlier one.

    Attributes:
        events: Rows of events, one array per call of `name_rows`.
    """

    def __init__(self) -> None:
        self.events: list[Int64s] = []
        self._codes: list[Int32s] = []
        self._tables: list[pl.DataFrame] = []
        self._count = 0

    def name_rows(
        self,
        rows: NDArray[np.signedinteger],
        code: NDArray[np.signedinteger],
        table: pl.DataFrame,
    ) -> None:
        """Name events by rows of a table (`code`)."""
        if len(rows):
            # Rows are int64, so that lookups need no conversion.
            self.events.append(rows.astype(np.int64, copy=False))
            self._codes.append((code + self._count).astype(np.int32))
            self._tables.append(table)
            self._count += len(table)

    def last_names(self) -> tuple[Int64s, Int32s, pl.DataFrame]:
        """Return the events, ascending, their rows in one table, and this table."""
        event, code = np.concatenate(self.events), np.concatenate(self._codes)
        if (event[1:] <= event[:-1]).any():
            order = np.argsort(event, kind="stable")
            event, code = event[order], code[order]
            last = np.append(event[1:] != event[:-1], True)
            event, code = event[last], code[last]
        return event, code, pl.concat(self._tables)


class _NamedEvents:
    """Events with their op names; a later rule replaces the name of an earlier rule."""

    def __init__(self, trace: TraceData, kinds: EventKinds, types: Int32s) -> None:
        self._trace, self._kinds, self._types = trace, kinds, types
        self._rows = NamedRows()

    def name_by_type(self, tracks: pl.DataFrame, event_types: pl.DataFrame) -> None:
        """Name events whose event name is also the name of an op."""
        kinds = self._kinds
        eager = event_types["name"].str.starts_with("EagerLocalExecute: ").to_numpy()
        call = kinds.has(EventFlag.FUNCTION_CALL | EventFlag.CONTROL_FLOW)
        no_op_flags = EventFlag.ALLOCATOR | EventFlag.END_THUNK | EventFlag.PYTHON_FRAME
        no_op = kinds.has(no_op_flags)
        # A function of the program is not an op: it runs ops, mostly on other threads.
        function = kinds.op_type.str.starts_with("__inference_").fill_null(value=False)
        is_op = kinds.is_op() & ~no_op & ~function.to_numpy()
        if not is_op.any():
            return
        rank = np.where(eager, _EAGER, _NAMED).astype(np.int32)
        rows = host_rows(tracks, self._types, is_op)
        self._name_rows(
            *(rows, self._types[rows], pl.lit(pl.Series(rank))),
            pl.DataFrame(
                {
                    "name": kinds.op_name,
                    "type": kinds.op_type,
                    "category": kinds.category,
                    "call": call,
                }
            ),
        )

    def name_eager_calls(self, values: Mapping[str, StatRows]) -> None:
        """Name `EagerExecute` events by the type of the op; skip functions."""
        owner, code, texts = text_codes(self._trace, values[StatKey.EAGER_OP])
        if not len(owner):
            return
        functions, is_func = int_values(values[StatKey.IS_FUNC])
        plain = ~np.isin(owner, functions[is_func != 0]) & self._is_unnamed(owner)
        names = pl.Series(texts, dtype=pl.String)
        plain &= ~names.str.starts_with("__inference_").to_numpy()[code]
        category = pl.lit(int(OpCategory.TENSORFLOW)).alias("category")
        named = pl.select(names.alias("name"), names.alias("type"), category)
        self._name_rows(owner[plain], code[plain], _WRAPPER, named)

    def name_marked_stages(self, values: Mapping[str, StatRows]) -> None:
        """Name input pipeline stages for which the program itself recorded events."""
        owner, code, texts = text_codes(self._trace, values[StatKey.STAGE_NAME])
        if not len(owner):
            return
        marked = np.isin(owner, values[StatKey.STAGE_CATEGORY].owner)
        names = pl.Series(texts, dtype=pl.String)
        category = pl.lit(int(OpCategory.DATASET)).alias("category")
        named = pl.select(names.alias("name"), pl.lit("Stage").alias("type"), category)
        self._name_rows(owner[marked], code[marked], _NAMED, named)

    def name_annotated_calls(self, values: Mapping[str, StatRows]) -> None:
        """Name calls (for example of the driver) by the op in their annotation."""
        owner, code, texts = text_codes(self._trace, values[StatKey.TF_OP])
        if not len(owner):
            return
        read = read_annotations(texts)
        is_op = read["name"].is_not_null().to_numpy()
        excluded = self._kinds.has(EventFlag.ALLOCATOR)
        keep = ~excluded[self._types[owner]] & is_op[code] & self._is_unnamed(owner)
        self._name_rows(owner[keep], code[keep], _CALL, read)

    def name_instructions(
        self, values: Mapping[str, StatRows], hlo_ops: pl.DataFrame | Unavailable
    ) -> None:
        """Name instructions of compiled programs on the host, except end markers."""
        trace = self._trace
        owner, code, texts = text_codes(trace, values[StatKey.HLO_OP])
        is_end = self._kinds.has(EventFlag.END_THUNK)[self._types[owner]]
        owner, code = owner[~is_end], code[~is_end]
        if not len(owner):
            return
        module_owner, module_code, module_texts = text_codes(
            trace, values[StatKey.HLO_MODULE]
        )
        module, _ = values_of_owners(owner, module_owner, module_code, default=-1)
        program_owner, program_ids = int_values(values[StatKey.PROGRAM_ID])
        program, _ = values_of_owners(owner, program_owner, program_ids, default=-1)
        distinct = number_rows([program, module, code])
        first = distinct.first
        programs = pl.Series(program[first])
        resolved = resolve_hlo(
            hlo_ops,
            instructions=[texts[number] for number in code[first].tolist()],
            modules=[
                module_texts[number] if number >= 0 else None
                for number in module[first].tolist()
            ],
            programs=pl.select(pl.when(programs >= 0).then(programs)).to_series(),
        )
        named = resolved.with_columns(
            name=pl.coalesce("framework_op", "hlo_op"),
            type=pl.coalesce("framework_type", "opcode"),
            category=pl.lit(int(OpCategory.JAX)),
        )
        self._name_rows(owner, distinct.code, _NAMED, named)

    def distinct_ops(self) -> tuple[Int64s, Int32s, Int32s, pl.DataFrame]:
        """Return rows of events, their ops, ranks of rules, and the table of ops."""
        if not self._rows.events:
            nothing = np.empty(0, np.int32)
            empty = pl.DataFrame(schema=HOST_OPS)
            return nothing.astype(np.int64), nothing, nothing, empty
        event, op, table = self._rows.last_names()
        used = number_values(op)
        rows = table[op[used.first]]
        # Instructions of one framework op are separate ops: each has its own cost.
        key = ["name", "type", "module", "program", "hlo_op"]
        numbers: dict[tuple[Any, ...], int] = {}
        number = np.array(
            [numbers.setdefault(row, len(numbers)) for row in rows.select(key).rows()],
            np.int32,
        )
        first: Int64s = np.unique(number, return_index=True)[1]
        rank = rows["rank"].to_numpy()
        return event, number[used.code], rank[used.code], rows[first].drop("rank")

    def _name_rows(
        self,
        rows: NDArray[np.signedinteger],
        code: Int32s,
        rank: int | pl.Expr,
        named: pl.DataFrame,
    ) -> None:
        """Name events by rows of `named`; rows of events must ascend."""
        columns = [
            pl.col(column).cast(dtype)
            if column in named.columns
            else pl.lit(False if column == "call" else None, dtype).alias(column)
            for column, dtype in HOST_OPS.items()
        ]
        ranks = rank if isinstance(rank, pl.Expr) else pl.lit(rank, pl.Int32)
        self._rows.name_rows(rows, code, named.select(*columns, rank=ranks))

    def _is_unnamed(self, rows: Int32s) -> Bools:
        """Return whether no rule has named each event yet."""
        free = np.ones(len(rows), np.bool_)
        for named in self._rows.events:
            index = np.minimum(np.searchsorted(named, rows), len(named) - 1)
            free &= named[index] != rows
        return free


def _one_per_run(
    events: pl.DataFrame,
    event: Int64s,
    *,
    op: Int32s,
    rank: Int32s,
    ops: pl.DataFrame,
    eager: NDArray[np.int8],
) -> tuple[Bools, NDArray[np.int8]]:
    """Return which events are kept: of nested events of one execution, only one.

    If the event inside a wrapper has the same op type, the wrapper is dropped, and the
    inner event counts as eager. An annotated call inside an op is dropped.
    """
    keep = np.ones(len(event), np.bool_)
    if not (rank != _NAMED).any():
        return keep, eager
    # Only threads with wrappers, eager events or annotated calls are searched.
    track = handles(events, "track")[event]
    concerned = np.zeros(int(track[-1]) + 1, np.bool_)
    concerned[track[rank != _NAMED]] = True
    rows = np.flatnonzero(values_by_row(concerned, track))
    kept = event[rows]
    parent = nest_subset(
        ints(events, "start_ps")[kept], ints(events, "dur_ps")[kept], track=track[rows]
    ).parent
    types = ops["type"].rank("dense").fill_null(0).to_numpy().astype(np.int64)[op[rows]]
    inside = np.flatnonzero(parent >= 0)
    same = inside[types[inside] == types[parent[inside]]]
    child, above = rows[same], rows[parent[same]]
    wrapped = np.isin(rank[above], (_WRAPPER, _EAGER)) & (rank[child] > rank[above])
    keep[above[wrapped]] = False
    eager = eager.copy()
    eager[child[wrapped]] |= eager[above[wrapped]]
    keep[child[rank[child] == _CALL]] = False
    return keep, eager


def outermost_of_op(parent: Int32s, op: Int32s) -> Bools:
    """Return False for each event that is inside another event of the same op."""
    outermost = np.ones(len(op), np.bool_)
    row = np.flatnonzero(parent >= 0)
    above = parent[row]
    # Each iteration goes up one level, for the rows that still have an ancestor.
    while len(row):
        recursive = op[above] == op[row]
        outermost[row[recursive]] = False
        row, above = row[~recursive], parent[above[~recursive]]
        inside = above >= 0
        row, above = row[inside], above[inside]
    return outermost
