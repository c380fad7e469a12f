"""`host_op_events`: the executions of ops on host threads, and what each one cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.columns.dense_codes import combined, dense
from stepscope.derive.columns.stat_values import values_of_owners
from stepscope.derive.host.values import host_rows, int_values, text_codes
from stepscope.derive.intervals.nesting import nest_subset
from stepscope.derive.names.event_kinds import EventFlag, OpCategory
from stepscope.derive.names.op_names import HLO_TEXTS, read_annotations, resolve_hlo
from stepscope.frozen import Frozen
from stepscope.trace.reading.by_row import by_row
from stepscope.trace.reading.stat_keys import StatKey
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from stepscope.derive.columns.stat_values import StatRows
    from stepscope.derive.names.event_kinds import EventKinds
    from stepscope.trace.model import TraceData

#: Columns of `HostOpEvents.ops`; null means unknown.
HOST_OPS: Final[dict[str, pl.DataType]] = {
    "name": pl.String(),  # of a compiled program: framework op, else the instruction
    "type": pl.String(),  # of a compiled program: of that op, else the opcode
    "category": pl.UInt8(),  # an `OpCategory`
    **HLO_TEXTS,
    "call": pl.Boolean(),  # calls a function or controls flow; its work has other ops
}

#: How an event came to be known as an op. Of two events that stand for one execution
#: the one with the higher number stays.
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
        self_ps: int64; time in which no op inside the execution runs. The self times
            of a thread add up to the length of the union of its op events.
        parent: int32; the execution around it on its thread, -1 for none.
        depth: int32; 0 without a parent, else one more than the parent's.
        outermost: False where an execution of the same op encloses this one, whose
            time is then part of that execution's.
        eager: int8; 1 where the op ran at once, 0 as part of a function, -1 unknown.
        ops: Distinct ops, columns `HOST_OPS`.
        without_values: Why the values of events could not be read; None where they
            could. Only values identify instructions of compiled programs and, in part,
            ops that ran eagerly.
    """

    event: NDArray[np.int32]
    op: NDArray[np.int32]
    start_ps: NDArray[np.int64]
    dur_ps: NDArray[np.int64]
    self_ps: NDArray[np.int64]
    parent: NDArray[np.int32]
    depth: NDArray[np.int32]
    outermost: NDArray[np.bool_]
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

    Op events are events whose name is an op's, ops that ran eagerly, input stages,
    instructions of compiled programs, and calls that carry an op's annotation; never
    allocator events, markers, wrappers or frames. Where several nested events stand
    for one execution, it counts once.

    Definition: docs/tools/framework_op_stats.md#what-counts-as-an-execution-of-an-op.
    """
    found = _Candidates()
    _by_name(found, tracks, events, event_types, event_kinds)
    values = None if isinstance(host_values, Unavailable) else host_values
    if values is not None:
        _eager_wrappers(found, trace, values)
        _stages(found, trace, values)
        allocator = event_kinds.has(EventFlag.ALLOCATOR)
        end = event_kinds.has(EventFlag.END_THUNK)
        types = handles(events, "type")
        _annotated_calls(found, trace, values, excluded=allocator, types=types)
        _instructions(found, trace, values, excluded=end, types=types, hlo_ops=hlo_ops)
    event, op, rank = found.rows()
    ops, op = _distinct(found.frames, op)
    # 1 where the name or a stored value says that an op ran eagerly, else 0.
    by_rank = np.zeros(_NAMED + 1, np.int8)
    by_rank[[_EAGER, _WRAPPER]] = 1
    eager = by_row(by_rank, rank)
    stored = None if values is None else int_values(values[StatKey.IS_EAGER])
    if stored is not None and len(stored[0]):
        given, _ = values_of_owners(event, *stored, default=-1)
        eager = np.where(given >= 0, given != 0, eager).astype(np.int8)
    keep, eager = _one_per_execution(
        events, event, op=op, rank=rank, ops=ops, eager=eager
    )
    if not keep.all():
        event, op, eager = event[keep], op[keep], eager[keep]
    start_ps, dur_ps = ints(events, "start_ps")[event], ints(events, "dur_ps")[event]
    nested = nest_subset(start_ps, dur_ps, track=handles(events, "track")[event])
    # Only ops of one vocabulary come in both modes.
    both = (ops["category"] == int(OpCategory.TENSORFLOW)).to_numpy()
    eager[~by_row(both, op)] = -1
    if values is None:
        eager[eager == 0] = -1
    return HostOpEvents(
        event=event.astype(np.int32),
        op=op,
        start_ps=start_ps,
        dur_ps=dur_ps,
        self_ps=nested.self_ps,
        parent=nested.parent,
        depth=nested.depth,
        outermost=outermost_of_op(nested.parent, by_row(_groups(ops), op)),
        eager=eager,
        ops=ops,
        without_values=host_values if isinstance(host_values, Unavailable) else None,
    )


class _Candidates:
    """Events and what names them; a later rule overrides an earlier one."""

    def __init__(self) -> None:
        self.frames: list[pl.DataFrame] = []
        self._found: list[
            tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]
        ] = []
        self._count = 0

    def add(
        self,
        rows: NDArray[np.signedinteger],
        code: NDArray[np.int32],
        named: pl.DataFrame,
        *,
        rank: int | NDArray[np.int32],
    ) -> None:
        """Assign a row of `named` to each event; a code of -1 leaves the event alone.

        Rows of events ascend.
        """
        known = np.flatnonzero(code >= 0)
        if len(known) < len(code):
            rows, code = rows[known], code[known]
            rank = rank if isinstance(rank, int) else rank[known]
        if len(rows):
            ranks = np.full(len(rows), rank, np.int32)
            # Rows of 64 bits, so that look-ups need not convert them.
            op = code + np.int32(self._count)
            self._found.append((rows.astype(np.int64, copy=False), op, ranks))
            self._count += len(named)
            self.frames.append(named[list(HOST_OPS)])

    def unnamed(self, rows: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Return True where no rule has named an event yet."""
        free = np.ones(len(rows), np.bool_)
        for named, *_ in self._found:
            at = np.minimum(np.searchsorted(named, rows), len(named) - 1)
            free &= named[at] != rows
        return free

    def rows(
        self,
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
        """Events, the ops that name them, and the ranks of the rules that did."""
        if not self._found:
            nothing = np.empty(0, np.int32)
            return nothing.astype(np.int64), nothing, nothing
        if len(self._found) == 1:
            event, op, rank = self._found[0]
            return event, op, rank
        event = np.concatenate([rows for rows, _, _ in self._found])
        op = np.concatenate([ops for _, ops, _ in self._found])
        rank = np.concatenate([ranks for _, _, ranks in self._found])
        order = np.argsort(event, kind="stable")
        event, op, rank = event[order], op[order], rank[order]
        last = np.append(event[1:] != event[:-1], True)
        return event[last], op[last], rank[last]


def _frame(name: pl.Series, **columns: pl.Series | int | bool) -> pl.DataFrame:
    given = {"name": name, **columns}
    return pl.DataFrame(
        [
            _column(given.get(column), dtype, len(name)).alias(column)
            for column, dtype in HOST_OPS.items()
        ]
    )


def _column(value: pl.Series | int | None, dtype: pl.DataType, rows: int) -> pl.Series:
    if isinstance(value, pl.Series):
        return value.cast(dtype)
    return pl.Series([value], dtype=dtype).new_from_index(0, rows)


def _by_name(
    found: _Candidates,
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    event_types: pl.DataFrame,
    kinds: EventKinds,
) -> None:
    eager = event_types["name"].str.starts_with("EagerLocalExecute: ").to_numpy()
    call = kinds.has(EventFlag.FUNCTION_CALL | EventFlag.CONTROL_FLOW)
    no_op = kinds.has(
        EventFlag.ALLOCATOR | EventFlag.END_THUNK | EventFlag.PYTHON_FRAME
    )
    # A function of the program runs ops, mostly elsewhere: it is no op itself.
    function = kinds.op_type.str.starts_with("__inference_").fill_null(value=False)
    is_op = kinds.is_op() & ~no_op & ~function.to_numpy()
    rank = np.where(eager, _EAGER, _NAMED).astype(np.int32)
    if not is_op.any():
        return
    named = _frame(
        kinds.op_name,
        type=kinds.op_type,
        category=pl.Series(kinds.category),
        call=pl.Series(call),
    )
    types = handles(events, "type")
    rows = host_rows(tracks, types, is_op)
    of_type = types[rows]
    found.add(rows, of_type, named, rank=by_row(rank, of_type))


def _eager_wrappers(
    found: _Candidates, trace: TraceData, values: Mapping[str, StatRows]
) -> None:
    """Name `EagerExecute` events by the op's type, a value; functions are no ops."""
    owner, code, texts = text_codes(trace, values[StatKey.EAGER_OP])
    if not len(owner):
        return
    functions, is_func = int_values(values[StatKey.IS_FUNC])
    plain = ~np.isin(owner, functions[is_func != 0]) & found.unnamed(owner)
    owner, code = owner[plain], code[plain]
    names = pl.Series(texts, dtype=pl.String)
    is_function = names.str.starts_with("__inference_").to_numpy()
    code = np.where(is_function[code], -1, code).astype(np.int32)
    found.add(
        owner,
        code,
        _frame(names, type=names, category=int(OpCategory.TENSORFLOW), call=False),
        rank=_WRAPPER,
    )


def _stages(
    found: _Candidates, trace: TraceData, values: Mapping[str, StatRows]
) -> None:
    """Name stages of an input pipeline that the program itself marked."""
    owner, code, texts = text_codes(trace, values[StatKey.STAGE_NAME])
    if not len(owner):
        return
    with_category = np.isin(owner, values[StatKey.STAGE_CATEGORY].owner)
    names = pl.Series(texts, dtype=pl.String)
    found.add(
        owner,
        np.where(with_category, code, -1).astype(np.int32),
        _frame(
            names,
            type=pl.Series(["Stage"] * len(names), dtype=pl.String),
            category=int(OpCategory.DATASET),
            call=False,
        ),
        rank=_NAMED,
    )


def _annotated_calls(
    found: _Candidates,
    trace: TraceData,
    values: Mapping[str, StatRows],
    *,
    excluded: NDArray[np.bool_],
    types: NDArray[np.int32],
) -> None:
    """Name calls (of the driver, say) by the annotation of the op they serve."""
    owner, code, texts = text_codes(trace, values[StatKey.TF_OP])
    if not len(owner):
        return
    read = read_annotations(texts)
    is_op = read["name"].is_not_null().to_numpy()
    keep = ~excluded[types[owner]] & is_op[code] & found.unnamed(owner)
    found.add(
        owner,
        np.where(keep, code, -1).astype(np.int32),
        _frame(read["name"], type=read["type"], category=read["category"], call=False),
        rank=_CALL,
    )


def _instructions(
    found: _Candidates,
    trace: TraceData,
    values: Mapping[str, StatRows],
    *,
    excluded: NDArray[np.bool_],
    types: NDArray[np.int32],
    hlo_ops: pl.DataFrame | Unavailable,
) -> None:
    """Name instructions of compiled programs on the host, without end marks."""
    owner, code, texts = text_codes(trace, values[StatKey.HLO_OP])
    is_end = excluded[types[owner]]
    owner, code = owner[~is_end], code[~is_end]
    if not len(owner):
        return
    module_owner, module_code, module_texts = text_codes(
        trace, values[StatKey.HLO_MODULE]
    )
    module, _ = values_of_owners(owner, module_owner, module_code, default=-1)
    program_owner, program_ids = int_values(values[StatKey.PROGRAM_ID])
    program, _ = values_of_owners(owner, program_owner, program_ids, default=-1)
    distinct = combined([program, module, code])
    at = distinct.first
    programs = pl.Series(program[at])
    resolved = resolve_hlo(
        hlo_ops,
        instructions=[texts[number] for number in code[at].tolist()],
        modules=[
            module_texts[number] if number >= 0 else None
            for number in module[at].tolist()
        ],
        programs=pl.select(pl.when(programs >= 0).then(programs)).to_series(),
    )
    named = resolved.with_columns(
        pl.coalesce("framework_op", "hlo_op").alias("name"),
        pl.coalesce("framework_type", "opcode").alias("type"),
        pl.lit(int(OpCategory.JAX), pl.UInt8).alias("category"),
        pl.lit(value=False).alias("call"),
    )
    found.add(owner, distinct.code, named, rank=_NAMED)


def _distinct(
    frames: list[pl.DataFrame], op: NDArray[np.int32]
) -> tuple[pl.DataFrame, NDArray[np.int32]]:
    if not frames:
        return pl.DataFrame(schema=HOST_OPS), op
    everything = pl.concat(frames)
    used = dense(op)
    rows = everything[op[used.first]]
    # Instructions of one framework op stay apart: each has its own cost.
    key = ["name", "type", "module", "program", "hlo_op"]
    numbers: dict[tuple[Any, ...], int] = {}
    # Distinct ops, of which there are far fewer than events.
    number = np.array(
        [numbers.setdefault(one, len(numbers)) for one in rows.select(key).iter_rows()],
        np.int32,
    )
    first: NDArray[np.int64] = np.unique(number, return_index=True)[1]
    return rows[first], number[used.code] if len(op) else op


def _one_per_execution(
    events: pl.DataFrame,
    event: NDArray[np.int64],
    *,
    op: NDArray[np.int32],
    rank: NDArray[np.int32],
    ops: pl.DataFrame,
    eager: NDArray[np.int8],
) -> tuple[NDArray[np.bool_], NDArray[np.int8]]:
    """Choose which events stay, so that nested names of one execution count once.

    A wrapper gives way to the event inside it that has the same op type, and hands
    over that it ran eagerly; a call with an annotation gives way to the op around it.
    """
    keep = np.ones(len(event), np.bool_)
    if not (rank != _NAMED).any():
        return keep, eager
    # Only threads that hold such an event need a look.
    track = handles(events, "track")[event]
    concerned = np.zeros(int(track[-1]) + 1, np.bool_)
    concerned[track[rank != _NAMED]] = True
    rows = np.flatnonzero(by_row(concerned, track))
    some = event[rows]
    parent = nest_subset(
        ints(events, "start_ps")[some], ints(events, "dur_ps")[some], track=track[rows]
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


def _groups(ops: pl.DataFrame) -> NDArray[np.int32]:
    same = pl.struct("name", "type", "module", "program")
    groups: NDArray[np.int32] = (
        ops.select(same.rank("dense")).to_series().to_numpy().astype(np.int32)
    )
    return groups


def outermost_of_op(
    parent: NDArray[np.int32], op: NDArray[np.int32]
) -> NDArray[np.bool_]:
    """Return False for an event that some ancestor of the same op encloses."""
    outermost = np.ones(len(op), np.bool_)
    row = np.flatnonzero(parent >= 0)
    above = parent[row]
    # One round per level of nesting, over the rows that still have an ancestor.
    while len(row):
        recursive = op[above] == op[row]
        outermost[row[recursive]] = False
        row, above = row[~recursive], parent[above[~recursive]]
        inside = above >= 0
        row, above = row[inside], above[inside]
    return outermost
