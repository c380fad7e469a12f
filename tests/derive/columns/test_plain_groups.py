"""Sums, ranges and lookups by code or owner, against Python's own dictionaries."""

from __future__ import annotations

import struct
from collections import defaultdict
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.traces import blueprint

from stepscope.derive.columns import stat_values
from stepscope.derive.columns.arrays import codes, handles, ints, rows_of_kinds
from stepscope.derive.columns.dense_codes import (
    distinct_runs,
    number_rows,
    time_ranges_by_code,
    totals_by_code,
)
from stepscope.derive.columns.stat_values import StatRows
from stepscope.trace.tables import ACTIVITY_KINDS, DOUBLE, INT, PLACE_TEXT, REF, UINT

ROW = st.tuples(st.integers(-1, 4), st.integers(-50, 50), st.integers(0, 9))


@given(rows=st.lists(ROW))
def test_a_code_has_its_earliest_start_and_its_latest_end(
    rows: list[tuple[int, int, int]],
) -> None:
    code, start, dur = (
        np.array([row[place] for row in rows], dtype)
        for place, dtype in enumerate((np.int32, np.int64, np.int64))
    )
    found = time_ranges_by_code(code, start, dur, count=5)
    for number in range(5):
        own = [row for row in rows if row[0] == number]
        first = min((begin for _, begin, _ in own), default=0)
        last = max((begin + length for _, begin, length in own), default=0)
        assert found.count[number] == len(own)
        assert (found.first_ps[number], found.last_ps[number]) == (first, last)
    sums = totals_by_code(code, start, count=5, where=dur > 4)
    for number in range(5):
        own = [row for row in rows if row[0] == number and row[2] > 4]
        assert sums.count[number] == len(own)
        assert sums.total[number] == sum(begin for _, begin, _ in own)


@given(
    rows=st.lists(st.tuples(st.integers(0, 3), st.integers(-1, 5))),
)
def test_an_execution_counts_once_in_each_group_that_has_rows_of_it(
    rows: list[tuple[int, int]],
) -> None:
    group, execution = (
        np.array([row[place] for row in rows], np.int32) for place in (0, 1)
    )
    found = distinct_runs(group, execution, groups=4, executions=6)
    pairs = {(place, run) for place, run in rows if run >= 0}
    owner = {run: place for place, run in reversed(rows) if run >= 0}
    assert found.owner.tolist() == [owner.get(run, -1) for run in range(6)]
    assert found.count.tolist() == [
        sum(place == one for one, _ in pairs) for place in range(4)
    ]
    further = {pair for pair in pairs if owner[pair[1]] != pair[0]}
    assert set(zip(*found.further.tolist(), strict=True)) == further
    assert found.further.shape == (2, len(further))


def test_without_executions_nothing_ran() -> None:
    none = np.empty(0, np.int32)
    found = distinct_runs(none, none, groups=2, executions=0)
    assert (found.count.tolist(), found.owner.tolist()) == ([0, 0], [])
    assert found.further.shape == (2, 0)


@pytest.mark.parametrize("lowest", [0, -(2**31), 2**31 - 70_000, -(2**31) - 1, 2**40])
@pytest.mark.parametrize("width", [2, 65_536, 65_537, 70_000])
def test_wide_ranges_are_numbered_as_narrow_ones_are(lowest: int, width: int) -> None:
    """At each side of the size that a lookup table may have."""
    values = np.array([0, width - 1, 1, 0, width - 1, 5 % width], np.int64) + lowest
    other = np.array([1, 1, 2, 1, 2, 2], np.int64)
    for columns in ([values], [values, other], [other, values], [values, values[::-1]]):
        rows = list(zip(*(column.tolist() for column in columns), strict=True))
        found = number_rows(columns)
        assert found.count == len(set(rows)) == len(set(found.code.tolist()))
        by_code: dict[int, set[Any]] = defaultdict(set)
        for row, code in zip(rows, found.code.tolist(), strict=True):
            by_code[code].add(row)
        assert all(len(same) == 1 for same in by_code.values())
        for code, first in enumerate(found.first.tolist()):
            assert found.code[first] == code
    with pytest.raises(ValueError, match="no column"):
        number_rows([])


def bits(value: float) -> int:
    (number,) = struct.unpack("<q", struct.pack("<d", value))
    assert isinstance(number, int)
    return number


#: (owner, key, kind, value, length); strings 0 to 3 are "a" to "d".
STATS = [
    (2, 0, INT, -5, 0),
    (2, 0, UINT, 7, 0),
    (2, 1, INT, 99, 0),
    (4, 0, DOUBLE, bits(-2.75), 0),
    (5, 0, REF, 3, 0),
    (9, 0, INT, 1, 0),
    (9, 2, REF, 1, 0),
]


def stat_rows() -> StatRows:
    columns = zip(*STATS, strict=True)
    dtypes = (np.int32, np.int32, np.uint8, np.int64, np.int32)
    return StatRows(
        *(np.array(c, dtype) for c, dtype in zip(columns, dtypes, strict=True))
    )


def test_an_owner_has_the_last_of_its_numbers_of_a_name() -> None:
    owners = np.array([1, 2, 4, 5], np.int32)
    numbers, present = stat_values.owner_numbers(stat_rows(), owners, 0)
    # Real numbers are cut towards 0, texts are no numbers, and 9 is not asked for.
    assert numbers.tolist() == [0, 7, -2, 0]
    assert present.tolist() == [False, True, True, False]
    numbers, present = stat_values.owner_numbers(stat_rows(), owners, 1)
    assert (numbers.tolist(), present.tolist()) == ([0, 99, 0, 0], [0, 1, 0, 0])
    numbers, present = stat_values.owner_numbers(stat_rows(), owners, -1)
    assert not present.any()


def test_an_owner_has_the_last_of_its_values_or_the_default() -> None:
    wanted = np.array([0, 2, 3, 9, 10], np.int64)
    owner, value = np.array([2, 2, 9], np.int64), np.array([5, 6, 0], np.int64)
    found, known = stat_values.values_of_owners(wanted, owner, value)
    assert (found.tolist(), known.tolist()) == ([0, 6, 0, 0, 0], [0, 1, 0, 1, 0])
    found, _ = stat_values.values_of_owners(wanted, owner, value, default=-1)
    assert found.tolist() == [-1, 6, -1, 0, -1]
    nobody = np.empty(0, np.int64)
    found, known = stat_values.values_of_owners(wanted, nobody, nobody, default=4)
    assert (found.tolist(), known.tolist()) == ([4] * 5, [False] * 5)


@given(
    stats=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 2)), max_size=12),
    wanted=st.sets(st.integers(0, 7)),
)
def test_rows_are_found_by_owner_and_by_name(
    stats: list[tuple[int, int]], wanted: set[int]
) -> None:
    stats.sort(key=lambda one: one[0])
    frame = pl.DataFrame(
        {
            "event": [owner for owner, _ in stats],
            "key": [key for _, key in stats],
            "kind": [INT] * len(stats),
            "value": list(range(len(stats))),
            "length": [0] * len(stats),
        },
        schema={
            "event": pl.Int32,
            "key": pl.Int32,
            "kind": pl.UInt8,
            "value": pl.Int64,
            "length": pl.Int32,
        },
    )
    found = stat_values.rows_of_owners(
        frame, "event", np.array(sorted(wanted), np.int32)
    )
    expected = [row for row, (owner, _) in enumerate(stats) if owner in wanted]
    assert found.value.tolist() == expected
    assert found.owner.tolist() == [stats[row][0] for row in expected]
    assert found.key.tolist() == [stats[row][1] for row in expected]
    for handle in (-1, 0, 2):
        named = stat_values.rows_with_key(frame, "event", handle)
        rows = [row for row, (_, key) in enumerate(stats) if key == handle]
        assert named.value.tolist() == rows
        assert named.owner.tolist() == [stats[row][0] for row in rows]


def test_rows_of_a_name_are_found_in_every_block() -> None:
    count = 3 * 2**16 + 5
    chosen = [0, count // 3 - 2, count // 3 - 1, count // 3, 2 * count // 3, count - 1]
    key = np.zeros(count, np.int32)
    key[chosen] = 4
    frame = pl.DataFrame(
        {
            "event": np.arange(count, dtype=np.int32),
            "key": key,
            "kind": np.full(count, INT, np.uint8),
            "value": np.arange(count),
            "length": np.zeros(count, np.int32),
        }
    )
    found = stat_values.rows_with_key(frame, "event", 4)
    assert found.owner.tolist() == found.value.tolist() == sorted(chosen)


def test_texts_of_owners_are_those_of_the_name() -> None:
    trace = blueprint.trace(
        [
            ("main", "one", 0, 5, {"who": "first", "other": "no"}),
            ("main", "two", 9, 5, {"other": "no", "who": 3}),
        ]
    )
    stats = trace.table("stats")
    assert isinstance(stats, pl.DataFrame)
    handle = trace.strings.index("who")
    rows = stat_values.rows_of_owners(stats, "event", np.arange(2, dtype=np.int32))
    owners = np.array([1, 0, 7], np.int32)
    assert stat_values.owner_texts(trace, rows, owners, handle) == [
        *(None, "first", None)
    ]
    assert {REF, PLACE_TEXT} & set(rows.kind.tolist())


def test_columns_become_arrays_of_one_type() -> None:
    frame = pl.DataFrame(
        {"narrow": pl.Series([3, -1], dtype=pl.Int16), "gaps": [None, 5]},
        schema_overrides={"gaps": pl.Int64},
    ).with_columns(kind=pl.Series(["kernel", None], dtype=ACTIVITY_KINDS))
    assert ints(frame, "narrow").dtype == np.int64
    assert ints(frame, "narrow").tolist() == [3, -1]
    assert handles(frame, "gaps").dtype == np.int32
    assert handles(frame, "gaps").tolist() == [-1, 5]
    kernel = ACTIVITY_KINDS.categories.to_list().index("kernel")
    assert codes(frame, "kind").tolist() == [kernel, 255]
    assert codes(frame, "kind").dtype == np.uint8
    assert rows_of_kinds(frame, [kernel]).tolist() == [0]
    assert rows_of_kinds(frame, [kernel + 1]).tolist() == []
