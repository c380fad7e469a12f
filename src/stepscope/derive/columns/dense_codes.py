"""Codes from 0 up for distinct values, to group rows without sorting or hashing them.

String indices, types and devices are integers from narrow ranges. A lookup table with
one entry per value of the range turns each value into a code. Pairs of a code and a
value get codes in the same way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope._core import launches as kernels
from stepscope._core import numbering
from stepscope.derive.columns.arrays import accepted_answer
from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepscope.array_types import Bools, Int32s, Int64s


class DistinctRuns(Frozen, frozen=True):
    """Distinct pairs of a group and an execution that have at least one row.

    Attributes:
        count: Number of distinct executions, int64 by group.
        owner: Group of the execution's first row, int32 by execution; -1 without rows.
        further: Pairs of an execution with a group other than that of its first row;
            int64, shape (2, pairs): the groups, then the executions.
    """

    count: Int64s
    owner: Int32s
    further: Int64s


#: Maximum number of entries, per row, of a lookup table over the range of values.
#: Values from larger ranges are sorted instead.
_MAX_ENTRIES_PER_ROW: Final = 4
#: A lookup table may always have this number of entries, however few rows there are.
_MAX_SMALL_TABLE_ENTRIES: Final = 1 << 16


class Codes(Frozen, frozen=True):
    """A code for each row; equal rows have equal codes.

    Attributes:
        code: Code of the row, int32 by row, from 0 up to `count - 1`; every code
            occurs. Callers must not rely on the order of the codes.
        first: First row with this code, int64 by code.
    """

    code: Int32s
    first: Int64s

    @property
    def count(self) -> int:
        """Number of distinct rows."""
        return len(self.first)


class Totals(Frozen, frozen=True):
    """By code: number of values and their exact sum; 0 for a code without rows."""

    count: Int64s
    total: Int64s


class Extremes(Totals, frozen=True):
    """By code: `Totals`, smallest value and largest value."""

    least: Int64s
    greatest: Int64s


class TimeRanges(Frozen, frozen=True):
    """By code: earliest start and latest end; 0 for a code without rows."""

    count: Int64s
    first_ps: Int64s
    last_ps: Int64s


def number_values(values: NDArray[np.signedinteger]) -> Codes:
    """Give each distinct value of a column a code."""
    return number_rows([values])


def number_rows(columns: Sequence[NDArray[np.signedinteger]]) -> Codes:
    """Give each distinct row of several columns of equal length a code."""
    if not columns:
        raise ValueError("no column to number")
    rows = len(columns[0])
    together: Codes | None = None
    for column in columns if rows else ():
        lowest, greatest = int(column.min()), int(column.max())
        # A column with only one value does not distinguish rows.
        if lowest != greatest:
            together = _number_pairs(together, column, lowest, greatest)
    if together is None:
        return Codes(np.zeros(rows, np.int32), np.zeros(min(rows, 1), np.int64))
    return together


def _number_pairs(
    outer: Codes | None, inner: NDArray[np.signedinteger], lowest: int, greatest: int
) -> Codes:
    """Give each distinct pair of a code and a value (`lowest` to `greatest`) a code."""
    rows = len(inner)
    width = greatest - lowest + 1
    groups_outside = outer.count if outer is not None else 1
    fits = lowest >= -(2**31) and greatest < 2**31
    max_cells = max(_MAX_SMALL_TABLE_ENTRIES, _MAX_ENTRIES_PER_ROW * rows)
    if not fits or width * groups_outside > max_cells:
        distinct = pl.Series(inner).unique().sort().to_numpy()
        ranks = np.searchsorted(distinct, inner).astype(np.int64)
        if len(distinct) * groups_outside <= max_cells:
            return _number_pairs(outer, ranks, 0, len(distinct) - 1)
        key = ranks if outer is None else outer.code * np.int64(len(distinct)) + ranks
        _, first, code = np.unique(key, return_index=True, return_inverse=True)
        return Codes(code.astype(np.int32), first.astype(np.int64))
    cells = width * groups_outside
    out, first = np.empty(rows, np.int32), np.empty(min(cells, rows), np.int64)
    count = accepted_answer(
        numbering.number_pairs(
            outer.code if outer is not None else np.empty(0, np.int32),
            np.ascontiguousarray(inner, np.int32),
            lowest,
            width,
            np.full(cells, -1, np.int32),
            out,
            first,
        )
    )
    return Codes(out, first[:count].copy())


def totals_by_code(
    code: Int32s, values: Int64s, *, count: int, where: Bools | None = None
) -> Totals:
    """Sum values by code.

    Args:
        code: Code of each row, below `count`; rows with -1 are ignored.
        where: Whether each row is included; by default all rows are.
    """
    none = np.empty(0, np.int64)
    totals = Totals(np.zeros(count, np.int64), np.zeros(count, np.int64))
    _add_up(code, values, where, totals.count, totals.total, none, none)
    return totals


def extremes_by_code(code: Int32s, values: Int64s, *, count: int) -> Extremes:
    """Return sum, minimum and maximum by code; rows with code -1 are ignored."""
    sums = Extremes(*(np.zeros(count, np.int64) for _ in range(4)))
    _add_up(code, values, None, sums.count, sums.total, sums.least, sums.greatest)
    return sums


def _add_up(code: Int32s, values: Int64s, mask: Bools | None, *outputs: Int64s) -> None:
    counted = np.ones(0, np.bool_) if mask is None else np.ascontiguousarray(mask)
    accepted_answer(
        numbering.sum_groups(
            np.ascontiguousarray(code, np.int32),
            np.ascontiguousarray(values),
            counted.view(np.uint8),
            *outputs,
        )
    )


def time_ranges_by_code(
    code: Int32s, start_ps: Int64s, dur_ps: Int64s, *, count: int
) -> TimeRanges:
    """Find the earliest start and the latest end by code.

    Args:
        code: Code of each row, below `count`; rows with a negative code are ignored.
    """
    ranges = TimeRanges(*(np.zeros(count, np.int64) for _ in range(3)))
    accepted_answer(
        numbering.group_hulls(
            np.ascontiguousarray(code, np.int32),
            np.ascontiguousarray(start_ps),
            np.ascontiguousarray(dur_ps),
            ranges.count,
            ranges.first_ps,
            ranges.last_ps,
        )
    )
    return ranges


def distinct_runs(
    group: Int32s, execution: Int32s, *, groups: int, executions: int
) -> DistinctRuns:
    """Count the distinct executions of each group.

    Args:
        group: Group of each row, from 0 up to `places - 1`.
        execution: Execution of each row, from 0 up to `executions - 1`; -1 for none.
    """
    count, owner = np.zeros(groups, np.int64), np.full(executions, -1, np.int32)
    spilled = np.empty(0, np.int64)
    answer: int = kernels.count_executions(group, execution, owner, count, spilled)
    if answer > 0:
        # Few executions have rows in several groups; a second pass returns their rows.
        spilled = np.empty(answer, np.int64)
        owner[:] = -1
        count[:] = 0
        answer = kernels.count_executions(group, execution, owner, count, spilled)
    if answer < 0:
        raise ValueError(f"the kernel refused its arrays ({answer})")
    # Sorting one combined key is several times faster than sorting pairs.
    key = group[spilled].astype(np.int64) * executions + execution[spilled]
    further = np.stack(np.divmod(np.unique(key), executions))
    count += np.bincount(further[0], minlength=groups)
    return DistinctRuns(count, owner, further)
