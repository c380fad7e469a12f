"""Which instructions of a compiled program the kernels of a replayed graph carry out.

XLA runs stretches of a program as one graph (a command buffer), and its tracer records
the graph as the instruction of all of its kernels. The program shows what is inside: a
generated kernel is named after its instruction, and the kernels between two such
kernels carry out the instructions that the schedule has between theirs.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.columns.arrays import codes, handles
from stepscope.patterns import Pattern
from stepscope.trace.tables import ACTIVITY_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import polars as pl
    from numpy.typing import NDArray

#: Characters of an instruction's name that are "_" in its kernel's name.
_NOT_IN_NAMES: Final = Pattern(r"[^A-Za-z0-9_]")
_NUMBERS: Final = Pattern(r"(?:_\d+)+$")
#: Instructions that put nothing on a device, or only what they call does.
_SILENT: Final = frozenset(
    {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all"}
    | {"call", "while", "conditional", "partition-id", "replica-id", "domain"}
    | {"opt-barrier", "add-dependency", "async-done", "copy-done", "send-done"}
    | {"recv-done", "all-reduce-done", "all-gather-done", "collective-permute-done"}
)
#: Instructions whose computations run inside their own kernel.
_INLINED: Final = frozenset(
    {"fusion", "reduce", "reduce-window", "map", "sort", "scatter", "custom-call"}
    | {"select-and-scatter", "all-reduce", "reduce-scatter", "async-start"}
)
_FILL: Final = ACTIVITY_KINDS.categories.to_list().index("memset")
_NONE: Final = -1


def graph_instructions(
    rows: NDArray[np.int64],
    device_activity: pl.DataFrame,
    event_types: pl.DataFrame,
    hlo_ops: pl.DataFrame,
    alone: NDArray[np.int32],
) -> NDArray[np.int64]:
    """Return the instruction of each activity of a graph.

    Args:
        rows: Rows of device_activity, ascending, with a program and a recorded
            instruction that the program does not have.
        hlo_ops: The table, in the order of the schedule.
        alone: Rows of hlo_ops that other activities carry out by themselves.

    Returns:
        Row of hlo_ops for each of `rows`; -1 where it is not certain.
    """
    found = np.full(len(rows), _NONE, np.int64)
    programs = device_activity["program"].fill_null(_NONE).to_numpy()[rows]
    launch = device_activity["correlation"].fill_null(_NONE).to_numpy()[rows]
    types = handles(device_activity, "type")[rows]
    fills = codes(device_activity, "kind")[rows] == _FILL
    start = device_activity["start_ps"].to_numpy()[rows]
    # Correlation ids are those of a process.
    process = device_activity["process"].fill_null(_NONE).to_numpy()[rows]
    order = np.lexsort((start, launch, process, programs))
    order = order[launch[order] != _NONE]
    changes = [
        np.diff(it[order], prepend=_NONE - 1) for it in (programs, process, launch)
    ]
    begins = np.flatnonzero(np.any(changes, axis=0))
    outside = set(alone.tolist())
    names = event_types["name"]
    known: dict[int, _Program] = {}
    # Replays of one graph are alike: each sequence of kernels is looked at once.
    seen: dict[tuple[int, bytes, bytes], list[int]] = {}
    for here in np.split(order, begins[1:]) if len(order) else ():
        program = int(programs[here[0]])
        key = (program, types[here].tobytes(), fills[here].tobytes())
        if key not in seen:
            if program not in known:
                known[program] = _Program(hlo_ops, program, outside)
            kernels = [
                None if fill else names[type_]
                for type_, fill in zip(
                    types[here].tolist(), fills[here].tolist(), strict=True
                )
            ]
            seen[key] = known[program].instructions_of(kernels)
        found[here] = seen[key]
    return found


class _Program:
    """The instructions of one program that put work on a device."""

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
        #: Computation → rows of its instructions, as scheduled.
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
        self._by_name = {name: it[0] for name, it in named.items() if len(it) == 1}
        self._names = dict(zip(rows, taken["name"].to_list(), strict=True))

    def instructions_of(self, kernels: Sequence[str | None]) -> list[int]:
        """Return the row of each kernel of a graph in time order; None is a memset."""
        found = [_NONE] * len(kernels)
        used: set[int] = set()
        for at, kernel in enumerate(kernels):
            row = self._by_name.get(kernel or "", _NONE)
            # An instruction runs once per graph. A second kernel of its name belongs to
            # another instruction that does equal work, which XLA compiles once.
            if row not in used and row != _NONE:
                found[at] = row
                used.add(row)
        for begin, end in _runs(found):
            before = found[begin - 1] if begin else _NONE
            after = found[end] if end < len(found) else _NONE
            between = [it for it in self._between(before, after) if it not in used]
            rows = _shared_out(kernels[begin:end], between)
            # Kernels that fit nowhere (a loop in the graph, say) make all doubtful.
            if all(map(self._may_be, kernels[begin:end], rows)):
                found[begin:end] = rows
        return found

    def _may_be(self, kernel: str | None, row: int) -> bool:
        if kernel is None or kernel not in self._by_name or row == _NONE:
            return True
        instruction = _NOT_IN_NAMES.sub("_", self._names[row])
        return _stem(kernel) == _stem(instruction)

    def _between(self, before: int, after: int) -> list[int]:
        ends = [self._place[row] for row in (before, after) if row != _NONE]
        if not ends or len({computation for computation, _ in ends}) > 1:
            return []
        listed = self._scheduled[ends[0][0]]
        first = 0 if before == _NONE else self._place[before][1] + 1
        last = len(listed) if after == _NONE else self._place[after][1]
        return [row for row in listed[first:last] if row not in self._outside]


def _stem(name: str) -> str:
    """Return the part of the name that instructions compiled as one have in common."""
    return _NUMBERS.sub("", name)


def _runs(found: Sequence[int]) -> Iterator[tuple[int, int]]:
    at = 0
    for unknown, group in groupby(found, key=lambda row: row == _NONE):
        length = len(list(group))
        if unknown:
            yield at, at + length
        at += length


def _shared_out(kernels: Sequence[str | None], between: Sequence[int]) -> list[int]:
    """Return the instructions of a stretch of kernels, given those that lie there.

    All kernels belong to a single instruction. Of several instructions each must have
    one kernel, with the memsets before it; else it is unknown where one ends.
    """
    if len(between) == 1:
        return [between[0]] * len(kernels)
    if len(between) != sum(kernel is not None for kernel in kernels):
        return [_NONE] * len(kernels)
    found = []
    left = list(between)
    for kernel in kernels:
        found.append(left[0] if left else _NONE)
        if kernel is not None:
            left.pop(0)
    return found
