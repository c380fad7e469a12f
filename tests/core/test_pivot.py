"""Pivot and interning kernels, compiled and plain, against dictionaries."""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.xspace.kernels import uncompiled

from stepscope._core import pivot as installed
from stepscope.xspace.reading.columns import (
    Stats,
    intern_texts,
    pivot_range,
    pivot_rows,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

FORMS = {"installed": installed, "plain": uncompiled("pivot")}
DRIVER = "stepscope.xspace.reading.columns.kernels"

Row = tuple[int, int, int, int, int]
ROWS = st.lists(
    st.tuples(
        st.integers(0, 9),
        st.integers(0, 5),
        st.sampled_from([0, 2, 3, 4, 5, 6, 7]),
        st.integers(-(2**63), 2**63 - 1),
        st.integers(0, 2**31 - 1),
    ),
    max_size=30,
).map(lambda rows: sorted(rows, key=lambda row: row[0]))


def stats_of(rows: list[Row]) -> Stats:
    event, key, kind, value, length = (
        np.array([row[k] for row in rows], dtype)
        for k, dtype in enumerate((np.int32, np.int32, np.uint8, np.int64, np.int32))
    )
    return Stats(event, key, kind, value, length)


@pytest.mark.parametrize("form", sorted(FORMS))
@given(rows=ROWS, begin=st.integers(0, 10), more=st.integers(0, 10))
def test_each_wanted_key_has_the_last_value_of_its_event(
    form: str, rows: list[Row], begin: int, more: int
) -> None:
    wanted = [2, (0, 5), 99, -1]
    end = begin + more
    expected = np.zeros((3, 4, more), object)
    for event, key, kind, value, length in rows:
        for slot, keys in enumerate([(2,), (0, 5), (99,), ()]):
            if key in keys and begin <= event < end:
                expected[:, slot, event - begin] = (value, kind, length)
    with mock.patch(DRIVER, FORMS[form]):
        found = pivot_range(stats_of(rows), wanted, event_begin=begin, event_end=end)
    assert found.value.tolist() == expected[0].tolist()
    assert found.kind.tolist() == expected[1].tolist()
    assert found.length.tolist() == expected[2].tolist()


@pytest.mark.parametrize("form", sorted(FORMS))
@given(rows=ROWS, events=st.lists(st.integers(0, 12), max_size=12))
def test_some_events_have_the_values_that_a_range_of_them_has(
    form: str, rows: list[Row], events: list[int]
) -> None:
    wanted = [2, (0, 5), 99, -1]
    with mock.patch(DRIVER, FORMS[form]):
        whole = pivot_range(stats_of(rows), wanted, event_begin=0, event_end=13)
        found = pivot_rows(stats_of(rows), wanted, np.array(events, np.int32))
    assert found.value.tolist() == whole.value[:, events].tolist()
    assert found.kind.tolist() == whole.kind[:, events].tolist()
    assert found.length.tolist() == whole.length[:, events].tolist()


@pytest.mark.parametrize("form", sorted(FORMS))
@given(
    texts=st.lists(
        st.one_of(st.sampled_from([b"", b"a", b"b" * 40]), st.binary(max_size=3)),
        max_size=60,
    )
)
def test_equal_strings_and_only_those_share_a_number(
    form: str, texts: list[bytes]
) -> None:
    data = np.frombuffer(b"".join(texts) + b"!", np.uint8)
    length = np.array([len(text) for text in texts], np.int32)
    place = np.cumsum(length, dtype=np.int64) - length
    with mock.patch(DRIVER, FORMS[form]):
        found = intern_texts(data, place, length)
    number_of: dict[bytes, int] = {}
    expected = [number_of.setdefault(text, len(number_of)) for text in texts]
    assert found.ids.tolist() == expected
    assert [texts[row] for row in found.firsts] == list(number_of)


def test_more_strings_than_the_first_table_holds_are_numbered() -> None:
    count = 50_000
    data = np.frombuffer(np.arange(count, dtype=">u4").tobytes(), np.uint8)
    place = np.tile(np.arange(count, dtype=np.int64) * 4, 2)
    found = intern_texts(data, place, np.full(2 * count, 4))
    assert np.array_equal(found.ids, np.tile(np.arange(count), 2))
    assert np.array_equal(found.firsts, np.arange(count))


@pytest.mark.parametrize(("place", "length"), [(-1, 1), (0, 4), (4, 0), (0, -1)])
@pytest.mark.parametrize("form", sorted(FORMS))
def test_a_string_outside_the_data_is_refused(
    form: str, place: int, length: int
) -> None:
    with (
        mock.patch(DRIVER, FORMS[form]),
        pytest.raises(ValueError, match="is outside the data"),
    ):
        intern_texts(np.zeros(3, np.uint8), np.array([place]), np.array([length]))


@pytest.mark.parametrize("form", sorted(FORMS))
def test_kernels_refuse_arrays_that_do_not_fit(form: str) -> None:
    kernels = FORMS[form]
    columns = [
        np.zeros(2, dtype)
        for dtype in (np.int32, np.int32, np.uint8, np.int64, np.int32)
    ]
    slots = np.zeros(1, np.int32)
    outputs = [np.zeros((1, 2), dtype) for dtype in (np.int64, np.uint8, np.int32)]
    assert kernels.pivot_stats(*columns, slots, 0, *outputs) == 2
    for position in range(5):
        short = list(columns)
        short[position] = short[position][:1]
        assert kernels.pivot_stats(*short, slots, 0, *outputs) == kernels.BAD_RANGE
    # The stats belong to event 0, the outputs begin at event 1 or have no slot.
    assert kernels.pivot_stats(*columns, slots, 1, *outputs) == kernels.BAD_RANGE
    assert kernels.pivot_stats(*columns, slots + 1, 0, *outputs) == kernels.BAD_RANGE

    of_rows = (np.zeros(2, np.int32), np.zeros(2, np.int64))
    assert kernels.pivot_rows(*columns, slots, *of_rows, *outputs) == 4
    for position in range(5):
        short = list(columns)
        short[position] = short[position][:1]
        answer = kernels.pivot_rows(*short, slots, *of_rows, *outputs)
        assert answer == kernels.BAD_RANGE
    for refused in (
        (slots + 1, *of_rows),
        (slots, of_rows[0][:1], of_rows[1]),
        (slots, of_rows[0][:1], of_rows[1][:1]),
        (slots, of_rows[0], of_rows[1] - 1),
    ):
        assert kernels.pivot_rows(*columns, *refused, *outputs) == kernels.BAD_RANGE

    data, place, length = np.zeros(4, np.uint8), np.zeros(3, np.int64), np.arange(3)
    ids, firsts = np.empty(3, np.int32), np.empty(3, np.int64)

    def intern(slots: int, room: int) -> int:
        table = np.full(slots, -1, np.int32)
        return int(
            kernels.intern_strings(data, place, length, 1, table, ids, firsts[:room])
        )

    assert intern(8, 3) == 3
    assert intern(8, 2) == kernels.NO_ROOM
    assert intern(4, 3) == kernels.NO_ROOM
    assert intern(6, 3) == kernels.BAD_RANGE


def test_interning_lets_other_threads_run(
    kernel_forms: Callable[[str], dict[str, ModuleType]],
    runs_beside: Callable[[Callable[[], object]], bool],
) -> None:
    if "compiled" not in kernel_forms("pivot"):
        pytest.skip("uncompiled, a kernel keeps the lock")
    data = np.zeros(100, np.uint8)
    place, length = np.zeros(300_000, np.int64), np.full(300_000, 100)
    assert any(
        runs_beside(lambda: intern_texts(data, place, length)) for _ in range(20)
    )
