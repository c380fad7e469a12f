"""Small dense numbers for what is distinct: grouping without sorting or hashing rows.

Handles, types, devices and the like are whole numbers from narrow ranges. Numbering
the values that occur from 0 up takes one table of the range, and pairs of such numbers
can be numbered in turn.
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
    """Distinct pairs of a place and an execution.

    Attributes:
        count: int64 by place; the number of its executions.
        owner: int32 by execution: the place of its first row, -1 for none.
        further: int64, shape (2, pairs); each further place of an execution, and the
            execution.
    """

    count: Int64s
    owner: Int32s
    further: Int64s


#: A table of the whole range is worth its memory up to this many entries per row.
_ENTRIES_PER_ROW: Final = 4
#: A table of up to this many entries is always worth its memory.
_SMALL_TABLE: Final = 1 << 16


class Codes(Frozen, frozen=True):
    """Rows numbered by what is distinct in them.

    Attributes:
        code: int32 by row, from 0 up to `count - 1`; every number occurs. Callers
            must not rely on the order of the numbers.
        first: int64 by code; the first row that has it.
    """

    code: Int32s
    first: Int64s

    @property
    def count(self) -> int:
        """How many distinct rows there are."""
        return len(self.first)


class Totals(Frozen, frozen=True):
    """Exact sums by code; a code without rows has zeros."""

    count: Int64s
    total: Int64s


class Extremes(Totals, frozen=True):
    """Sums as in `Totals`, with the ends of each code's values."""

    least: Int64s
    greatest: Int64s


class Hulls(Frozen, frozen=True):
    """From the first begin to the last end by code; a code without rows has zeros."""

    count: Int64s
    first_ps: Int64s
    last_ps: Int64s


def number_values(values: NDArray[np.signedinteger]) -> Codes:
    """Number the distinct values in the order of their first rows."""
    return number_rows([values])


def number_rows(columns: Sequence[NDArray[np.signedinteger]]) -> Codes:
    """Number the distinct rows of several columns of equal length."""
    if not columns:
        raise ValueError("no column to number")
    rows = len(columns[0])
    together: Codes | None = None
    for column in columns if rows else ():
        least, greatest = int(column.min()), int(column.max())
        # A column with one value distinguishes no rows.
        if least != greatest:
            together = _number_pairs(together, column, least, greatest)
    if together is None:
        return Codes(np.zeros(rows, np.int32), np.zeros(min(rows, 1), np.int64))
    return together


def _number_pairs(
    outer: Codes | None, inner: NDArray[np.signedinteger], least: int, greatest: int
) -> Codes:
    """Number the distinct pairs of a code and a value between two, both included."""
    rows = len(inner)
    width = greatest - least + 1
    groups_outside = outer.count if outer is not None else 1
    fits = least >= -(2**31) and greatest < 2**31
    most_places = max(_SMALL_TABLE, _ENTRIES_PER_ROW * rows)
    if not fits or width * groups_outside > most_places:
        distinct = pl.Series(inner).unique().sort().to_numpy()
        ranks = np.searchsorted(distinct, inner).astype(np.int64)
        if len(distinct) * groups_outside <= most_places:
            return _number_pairs(outer, ranks, 0, len(distinct) - 1)
        key = ranks if outer is None else outer.code * np.int64(len(distinct)) + ranks
        _, first, code = np.unique(key, return_index=True, return_inverse=True)
        return Codes(code.astype(np.int32), first.astype(np.int64))
    places = width * groups_outside
    out, first = np.empty(rows, np.int32), np.empty(min(places, rows), np.int64)
    count = accepted_answer(
        numbering.number_pairs(
            outer.code if outer is not None else np.empty(0, np.int32),
            np.ascontiguousarray(inner, np.int32),
            least,
            width,
            np.full(places, -1, np.int32),
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
        code: Below `count`; -1 for a row that is left out.
        where: Which rows count; by default all.
    """
    none = np.empty(0, np.int64)
    found = Totals(np.zeros(count, np.int64), np.zeros(count, np.int64))
    _add_up(code, values, where, found.count, found.total, none, none)
    return found


def extremes_by_code(code: Int32s, values: Int64s, *, count: int) -> Extremes:
    """Sum values by code, and find the smallest and the largest; as `totals_by`."""
    found = Extremes(*(np.zeros(count, np.int64) for _ in range(4)))
    _add_up(code, values, None, found.count, found.total, found.least, found.greatest)
    return found


def _add_up(
    code: Int32s, values: Int64s, where: Bools | None, *outputs: Int64s
) -> None:
    counted = np.ones(0, np.bool_) if where is None else np.ascontiguousarray(where)
    accepted_answer(
        numbering.sum_groups(
            np.ascontiguousarray(code, np.int32),
            np.ascontiguousarray(values),
            counted.view(np.uint8),
            *outputs,
        )
    )


def hulls_by_code(
    code: Int32s, start_ps: Int64s, dur_ps: Int64s, *, count: int
) -> Hulls:
    """Find the first begin and the last end by code.

    Args:
        code: Below `count`; below 0 for a row that is left out.
    """
    found = Hulls(*(np.zeros(count, np.int64) for _ in range(3)))
    accepted_answer(
        numbering.group_hulls(
            np.ascontiguousarray(code, np.int32),
            np.ascontiguousarray(start_ps),
            np.ascontiguousarray(dur_ps),
            found.count,
            found.first_ps,
            found.last_ps,
        )
    )
    return found


def distinct_runs(
    place: Int32s, execution: Int32s, *, places: int, executions: int
) -> DistinctRuns:
    """Count the distinct executions of each place.

    Args:
        place: By row, from 0 up to `places - 1`.
        execution: By row, from 0 up to `executions - 1`; -1 for none.
    """
    count, owner = np.zeros(places, np.int64), np.full(executions, -1, np.int32)
    spilled = np.empty(0, np.int64)
    answer: int = kernels.count_executions(place, execution, owner, count, spilled)
    if answer > 0:
        # Executions of several places, as a rule few; ask for the rows.
        spilled = np.empty(answer, np.int64)
        owner[:] = -1
        count[:] = 0
        answer = kernels.count_executions(place, execution, owner, count, spilled)
    if answer < 0:
        raise ValueError(f"the kernel refused its arrays ({answer})")
    # Sorting bare keys is several times faster than sorting pairs.
    key = place[spilled].astype(np.int64) * max(executions, 1) + execution[spilled]
    further = np.stack(np.divmod(np.unique(key), max(executions, 1)))
    count += np.bincount(further[0], minlength=places)
    return DistinctRuns(count, owner, further)
