"""`activity_ops`: the op of the program to which each device activity belongs."""

from __future__ import annotations

from enum import IntEnum
from itertools import groupby
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import ACTIVITY_CODES, codes, handles, is_present
from stepscope.derive.columns.dense_codes import number_rows, number_values
from stepscope.derive.names.op_names import (
    COPY_OPS,
    HLO_TEXTS,
    UNANNOTATED,
    UNKNOWN,
    name_scope,
    read_annotations,
    resolve_hlo,
)
from stepscope.frozen import Frozen
from stepscope.patterns import Pattern
from stepscope.trace.reading.by_row import values_by_row
from stepscope.trace.reading.nullable import present_mask
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from stepscope.array_types import Bools, Int32s, Int64s, UInt8s
    from stepscope.derive.device.correlation import Correlation
    from stepscope.derive.host.event_nesting import LaunchingOps

#: Characters of an instruction's name that become "_" in its kernel's name.
_NOT_IN_NAMES: Final = Pattern(r"[^A-Za-z0-9_]")
_NUMBERS: Final = Pattern(r"(?:_\d+)+$")
#: Opcodes of instructions that run nothing on a device except computations they call.
_SILENT: Final = frozenset(
    {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all"}
    | {"call", "while", "conditional", "partition-id", "replica-id", "domain"}
    | {"opt-barrier", "add-dependency", "async-done", "copy-done", "send-done"}
    | {"recv-done", "all-reduce-done", "all-gather-done", "collective-permute-done"}
)
#: Opcodes whose called computations run inside the calling instruction's kernel.
_INLINED: Final = frozenset(
    {"fusion", "reduce", "reduce-window", "map", "sort", "scatter", "custom-call"}
    | {"select-and-scatter", "all-reduce", "reduce-scatter", "async-start"}
)
_NONE: Final = -1


def graph_instructions(
    rows: Int64s,
    device_activity: pl.DataFrame,
    event_types: pl.DataFrame,
    hlo_ops: pl.DataFrame,
    outside_graphs: Int32s,
) -> Int64s:
    """Return the HLO instruction of each activity of a replayed graph.

    Args:
        rows: Ascending rows of device_activity that have a program, but an instruction
            that the program does not contain.
        hlo_ops: The table, in the order of the schedule.
        outside_graphs: Rows of hlo_ops whose activities are outside graphs.

    Returns:
        Row of hlo_ops for each of `rows`; -1 if uncertain.
    """
    row_of = np.full(len(rows), _NONE, np.int64)
    programs = device_activity["program"].fill_null(_NONE).to_numpy()[rows]
    launch = device_activity["correlation"].fill_null(_NONE).to_numpy()[rows]
    types = handles(device_activity, "type")[rows]
    fills = codes(device_activity, "kind")[rows] == ACTIVITY_CODES["memset"]
    start = device_activity["start_ps"].to_numpy()[rows]
    # Correlation ids are unique only within a process.
    process = device_activity["process"].fill_null(_NONE).to_numpy()[rows]
    order = np.lexsort((start, launch, process, programs))
    order = order[launch[order] != _NONE]
    changes = [
        np.diff(ids[order], prepend=_NONE - 1) for ids in (programs, process, launch)
    ]
    begins = np.flatnonzero(np.any(changes, axis=0))
    outside = set(outside_graphs.tolist())
    names = event_types["name"]
    known: dict[int, _Program] = {}
    # All replays of a graph have the same kernels: each sequence is matched once.
    matched: dict[tuple[int, bytes, bytes], list[int]] = {}
    for part in np.split(order, begins[1:]) if len(order) else ():
        program = int(programs[part[0]])
        key = (program, types[part].tobytes(), fills[part].tobytes())
        if key not in matched:
            if program not in known:
                known[program] = _Program(hlo_ops, program, outside)
            kernels = [
                None if fill else names[type_]
                for type_, fill in zip(
                    types[part].tolist(), fills[part].tolist(), strict=True
                )
            ]
            matched[key] = known[program].match_kernels(kernels)
        row_of[part] = matched[key]
    return row_of


class _Program:
    """The instructions of one program that run something on a device."""

    def __init__(self, hlo_ops: pl.DataFrame, program: int, outside: set[int]) -> None:
        rows = np.flatnonzero((hlo_ops["program"] == program).to_numpy()).tolist()
        taken = hlo_ops[rows].select("name", "opcode", "computation", "calls")
        inlined = {
            called
            for _, opcode, _, calls in taken.iter_rows()
            if opcode in _INLINED
            for called in calls or ()
        }
        self._outside = outside
        #: Computation → rows of its instructions in the order of the schedule.
        self._scheduled: dict[str, list[int]] = {}
        self._place: dict[int, tuple[str, int]] = {}
        named: dict[str, list[int]] = {}
        for row, (name, opcode, computation, _) in zip(
            rows, taken.iter_rows(), strict=True
        ):
            if opcode in _SILENT or computation in inlined:
                continue
            listed = self._scheduled.setdefault(computation, [])
            self._place[row] = (computation, len(listed))
            listed.append(row)
            named.setdefault(_NOT_IN_NAMES.sub("_", name), []).append(row)
        self._by_name = {
            name: rows[0] for name, rows in named.items() if len(rows) == 1
        }
        self._names = dict(zip(rows, taken["name"].to_list(), strict=True))

    def match_kernels(self, kernels: Sequence[str | None]) -> list[int]:
        """Return the row of hlo_ops for each kernel of a graph, in time order.

        In `kernels`, None is a memset; in the result, -1 is an unknown instruction.
        """
        matched = [_NONE] * len(kernels)
        used: set[int] = set()
        for index, kernel in enumerate(kernels):
            row = self._by_name.get(kernel or "", _NONE)
            # An instruction runs once per graph. A second kernel with its name belongs
            # to an equal instruction: XLA compiles equal instructions only once.
            if row not in used and row != _NONE:
                matched[index] = row
                used.add(row)
        for begin, end in _unknown_ranges(matched):
            before = matched[begin - 1] if begin else _NONE
            after = matched[end] if end < len(matched) else _NONE
            free = [row for row in self._rows_between(before, after) if row not in used]
            rows = _assign_rows(kernels[begin:end], free)
            # If one kernel fits no instruction (but belongs to a loop in the graph, for
            # example), all instructions of the range are uncertain.
            if all(map(self._may_be, kernels[begin:end], rows)):
                matched[begin:end] = rows
        return matched

    def _may_be(self, kernel: str | None, row: int) -> bool:
        if kernel is None or kernel not in self._by_name or row == _NONE:
            return True
        instruction = _NOT_IN_NAMES.sub("_", self._names[row])
        # Trailing numbers may vary for one kernel.
        return _NUMBERS.sub("", kernel) == _NUMBERS.sub("", instruction)

    def _rows_between(self, before: int, after: int) -> list[int]:
        ends = [self._place[row] for row in (before, after) if row != _NONE]
        if not ends or len({computation for computation, _ in ends}) > 1:
            return []
        listed = self._scheduled[ends[0][0]]
        first = 0 if before == _NONE else self._place[before][1] + 1
        last = len(listed) if after == _NONE else self._place[after][1]
        return [row for row in listed[first:last] if row not in self._outside]


def _unknown_ranges(matched: Sequence[int]) -> Iterator[tuple[int, int]]:
    begin = 0
    for unknown, group in groupby(matched, key=lambda row: row == _NONE):
        length = len(list(group))
        if unknown:
            yield begin, begin + length
        begin += length


def _assign_rows(kernels: Sequence[str | None], between: Sequence[int]) -> list[int]:
    """Assign the kernels between two known kernels to the instructions scheduled there.

    If there is a single instruction, it gets all kernels. Each of several instructions
    gets one kernel and the memsets before it; if the counts differ, all are unknown.
    """
    if len(between) == 1:
        return [between[0]] * len(kernels)
    if len(between) != sum(kernel is not None for kernel in kernels):
        return [_NONE] * len(kernels)
    assigned = []
    left = list(between)
    for kernel in kernels:
        assigned.append(left[0] if left else _NONE)
        if kernel is not None:
            left.pop(0)
    return assigned


class OpEvidence(IntEnum):
    """Evidence for the op of an activity, strongest first."""

    HLO = 1  # the HLO instruction, found in the program
    HLO_NAME = 2  # name of the HLO instruction, whose program was not recorded
    ANNOTATION = 3  # the framework's annotation of the device event
    COPY = 4  # only the kind of activity: a copy in one direction, or a memset
    LAUNCH = 5  # the host op that encloses the launch call
    NONE = 6


class NoOp(IntEnum):
    """Why an activity has no op."""

    NAMED = 0  # the activity has an op
    NOT_ASKED = 1  # launch calls or host ops were not recorded
    NO_ID = 2  # the activity has no correlation id
    NO_CALL = 3  # the launch call was not recorded
    OUTSIDE = 4  # the launch call is outside any op


#: Columns of `ActivityOps.ops`; null means unknown.
OPS_SCHEMA: Final[dict[str, pl.DataType]] = {
    "name": pl.String(),  # framework op, or HLO instruction if unknown
    "type": pl.String(),
    "category": pl.String(),  # HLO opcode, op type, Memcpy, Memset or Unknown
    **HLO_TEXTS,
    "scope": pl.String(),  # path of the name; "" at the top level
    "evidence": pl.UInt8(),  # an `OpEvidence`
    "group": pl.Int32(),  # equal for rows with the same module and op name
}


class ActivityOps(Frozen, frozen=True):
    """The op of each activity.

    Attributes:
        op: Row of `ops`, int32 by row of device_activity; row 0 means no op.
        ops: Columns `OPS_SCHEMA`, one row per distinct instruction, even if several
            instructions belong to one framework op. Column `group` numbers distinct
            pairs (module, name).
        no_op: Why an activity has no op, a `NoOp`; uint8 by row of device_activity.
    """

    op: Int32s
    ops: pl.DataFrame
    no_op: UInt8s


def activity_ops(
    *,
    device_activity: pl.DataFrame,
    event_types: pl.DataFrame,
    strings: Sequence[str],
    hlo_ops: pl.DataFrame | Unavailable,
    correlation: Correlation | Unavailable,
    launching_ops: LaunchingOps | Unavailable,
) -> ActivityOps:
    """Find the op of every activity from its strongest evidence.

    The order is: HLO instruction, op annotation, direction of a copy, and the host op
    that encloses the launch call.

    Definition: docs/tools/framework_op_stats.md#what-counts-as-an-execution-of-an-op,
    docs/tools/kernel_stats.md#what-is-a-row.
    """
    collected = _AttributedOps(len(device_activity))
    _add_by_instruction(collected, device_activity, event_types, strings, hlo_ops)
    collected.add_distinct(
        handles(device_activity, "op"),
        lambda texts: _annotation_rows([strings[text] for text in texts]),
    )
    number_of_kind = np.full(256, -1, np.int32)
    for number, kind in enumerate(COPY_OPS):
        number_of_kind[ACTIVITY_CODES[kind]] = number
    names, categories = zip(*COPY_OPS.values(), strict=True)
    collected.add_distinct(
        number_of_kind[codes(device_activity, "kind")],
        lambda numbers: _op_rows(
            OpEvidence.COPY,
            name=[names[number] for number in numbers],
            type=[names[number] for number in numbers],
            category=[categories[number] for number in numbers],
        ),
    )
    no_op = np.where(collected.op == 0, NoOp.NOT_ASKED, NoOp.NAMED).astype(np.uint8)
    if not isinstance(correlation, Unavailable) and not isinstance(
        launching_ops, Unavailable
    ):
        ops = launching_ops.ops
        collected.add_distinct(
            values_by_row(launching_ops.op, correlation.launch_of_activity, none=-1),
            lambda rows: _op_rows(
                OpEvidence.LAUNCH,
                name=ops["name"].gather(rows).to_list(),
                type=ops["type"].gather(rows).to_list(),
            ),
        )
        # The reason is the first missing link between activity and op.
        reasons = np.where(
            correlation.launch_of_activity >= 0,
            np.uint8(NoOp.OUTSIDE),
            np.where(
                is_present(device_activity, "correlation"),
                np.uint8(NoOp.NO_CALL),
                np.uint8(NoOp.NO_ID),
            ),
        )
        no_op = np.where(collected.op == 0, reasons, np.uint8(NoOp.NAMED))
    ops = pl.concat(collected.frames).with_columns(scope=name_scope(pl.col("name")))
    numbers: dict[tuple[str | None, str], int] = {}
    group = [
        numbers.setdefault(key, len(numbers))
        for key in zip(ops["module"].to_list(), ops["name"].to_list(), strict=True)
    ]
    ops = ops.with_columns(pl.Series("group", group, dtype=pl.Int32))
    return ActivityOps(collected.op, ops[list(OPS_SCHEMA)], no_op)


class _AttributedOps:
    """The ops found so far; weaker evidence never replaces stronger evidence."""

    def __init__(self, row_count: int) -> None:
        self.op = np.zeros(row_count, np.int32)
        self.frames = [
            _op_rows(name=[UNANNOTATED], type=[UNKNOWN], evidence=OpEvidence.NONE)
        ]
        self._count = 1

    def open_rows(self, candidates: Bools) -> Int64s:
        """Return the rows among `candidates` that have no op yet."""
        return np.flatnonzero(candidates & (self.op == 0))

    def add_distinct(
        self, key: Int32s, named: Callable[[list[int]], pl.DataFrame]
    ) -> None:
        """Assign ops to rows without an op. Rows with equal keys get the same op.

        Rows with a negative key get no op.
        """
        rows = self.open_rows(key >= 0)
        if len(rows):
            distinct = number_values(key[rows])
            keys = key[rows[distinct.first]].tolist()
            self.add_named(rows, distinct.code, named(keys))

    def add_named(self, rows: Int64s, code: Int32s, named: pl.DataFrame) -> None:
        """Assign to each row the op of its code in `named`; a null name means no op."""
        known = present_mask(named["name"])
        number = np.where(known, self._count + np.cumsum(known) - 1, 0)
        self.op[rows] = values_by_row(number.astype(np.int32), code)
        self._count += int(known.sum())
        self.frames.append(named.filter(known))


def _op_rows(evidence: OpEvidence, **columns: Sequence[str | None]) -> pl.DataFrame:
    frame = pl.DataFrame(columns, schema_overrides=dict.fromkeys(columns, pl.String()))
    if "category" not in columns:
        frame = frame.with_columns(category=pl.col("type"))
    return frame.select(
        *(
            pl.col(name) if name in frame.columns else pl.lit(None, dtype).alias(name)
            for name, dtype in OPS_SCHEMA.items()
            if name not in ("evidence", "group")
        ),
        pl.lit(int(evidence), pl.UInt8).alias("evidence"),
    )


def _add_by_instruction(
    collected: _AttributedOps,
    activity: pl.DataFrame,
    event_types: pl.DataFrame,
    strings: Sequence[str],
    hlo_ops: pl.DataFrame | Unavailable,
) -> None:
    instruction = handles(activity, "hlo_op")
    rows = collected.open_rows(instruction >= 0)
    if not len(rows):
        return
    module = handles(activity, "hlo_module")
    program = activity["program"].fill_null(-1).to_numpy()
    distinct = number_rows([program[rows], module[rows], instruction[rows]])
    first = rows[distinct.first]
    resolved = resolve_hlo(
        hlo_ops,
        instructions=[strings[handle] for handle in instruction[first].tolist()],
        modules=[
            strings[handle] if handle >= 0 else None
            for handle in module[first].tolist()
        ],
        programs=activity["program"][first],
    )
    code = distinct.code
    if not isinstance(hlo_ops, Unavailable):
        listed = resolved["program"].is_in(hlo_ops["program"].unique().implode())
        graphs = (resolved["hlo"].is_null() & listed).fill_null(value=False).to_numpy()
        if graphs.any():
            known = resolved["hlo"].drop_nulls().unique().to_numpy()
            replayed = rows[graphs[code]]
            inside = graph_instructions(replayed, activity, event_types, hlo_ops, known)
            replayed, inside = replayed[inside >= 0], inside[inside >= 0]
            if len(replayed):
                used = number_values(inside)
                taken = hlo_ops[inside[used.first]]
                replaced = resolve_hlo(
                    hlo_ops,
                    instructions=taken["name"].to_list(),
                    modules=taken["module"].to_list(),
                    programs=taken["program"],
                )
                collected.add_named(replayed, used.code, _instruction_rows(replaced))
            left = collected.op[rows] == 0
            rows, code = rows[left], code[left]
    collected.add_named(rows, code, _instruction_rows(resolved))


def _instruction_rows(resolved: pl.DataFrame) -> pl.DataFrame:
    return resolved.with_columns(
        pl.coalesce("framework_op", "hlo_op").alias("name"),
        pl.coalesce("framework_type", "opcode").alias("type"),
        pl.col("opcode").alias("category"),
        pl.lit("").alias("scope"),
        pl.when(pl.col("hlo").is_not_null())
        .then(pl.lit(int(OpEvidence.HLO), pl.UInt8))
        .otherwise(pl.lit(int(OpEvidence.HLO_NAME), pl.UInt8))
        .alias("evidence"),
    ).select(name for name in OPS_SCHEMA if name != "group")


def _annotation_rows(texts: Sequence[str]) -> pl.DataFrame:
    read = read_annotations(texts)
    return _op_rows(
        OpEvidence.ANNOTATION, name=read["name"].to_list(), type=read["type"].to_list()
    )
