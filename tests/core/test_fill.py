"""The filling kernel, compiled and plain, on bytes written out by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.support.xspace.wire import double, event, number_field, sized, stat, tag

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

ROWS = 11


@pytest.fixture(params=["compiled", "plain"])
def kernels(
    request: pytest.FixtureRequest, kernel_forms: Callable[[str], dict[str, ModuleType]]
) -> ModuleType:
    forms = kernel_forms("fill")
    if request.param not in forms:
        pytest.skip("the kernels are not compiled here")
    return forms[request.param]


class Columns:
    """Columns for a few events, with canaries after what may be written."""

    def __init__(
        self, chunks: list[tuple[int, int]], *, events: int, stats: int
    ) -> None:
        self.rows = np.zeros((len(chunks), ROWS), np.int64)
        self.rows[:, :2] = chunks
        self.rows[:, 3:8:2] = (events, stats, events)
        self.types = np.full(events + 2, -9, np.int32)
        self.times = np.full((2, events + 2), -9, np.int64)
        self.small = np.full((3, stats + 2), 99, np.int32)
        self.small[2, :stats] = 0
        self.kinds = np.full(stats + 2, 99, np.uint8)
        self.values = np.full(stats + 2, 99, np.int64)
        self.counted = np.full((2, events + 2), -9, np.int64)
        self.lost = [np.full((4, 2), -9, np.int64) for _ in range(2)]

    def fill(
        self,
        kernels: ModuleType,
        data: bytes,
        *,
        types: dict[int, int] | None = None,
        keys: dict[int, int] | None = None,
    ) -> int:
        tables: list[np.ndarray] = []
        for table in (types or {}, keys or {}):
            small = {key: row for key, row in table.items() if 0 <= key < 100}
            direct = np.full(max(small, default=-1) + 1, -1, np.int32)
            for key, row in small.items():
                direct[key] = row
            far = sorted((k % 2**64, row) for k, row in table.items() if k not in small)
            tables += [
                direct,
                np.array([key for key, _ in far], np.uint64),
                np.array([row for _, row in far], np.int32),
            ]
        return int(
            kernels.fill_columns(
                np.frombuffer(data, np.uint8),
                0,
                len(self.rows),
                self.rows,
                *tables,
                self.types,
                self.times,
                self.small,
                self.kinds,
                self.values,
                self.counted,
                *self.lost,
            )
        )

    def event(self, row: int) -> tuple[int, ...]:
        """Type, offset, duration."""
        return (int(self.types[row]), *self.times[:, row].tolist())

    def stat(self, row: int) -> tuple[int, ...]:
        """Event, key, kind, value, length."""
        owner, key, length = self.small[:, row].tolist()
        return owner, key, int(self.kinds[row]), int(self.values[row]), length


def test_fill_maps_ids_of_any_width_to_rows(kernels: ModuleType) -> None:
    ids = {3: 10, 2**32 + 3: 11, -1: 12, -(2**63): 13}
    data = b"".join(event(number_field(1, key)) for key in [*ids, 2**40])
    columns = Columns([(0, len(data))], events=5, stats=0)
    assert columns.fill(kernels, data, types=ids) == 1
    assert columns.types.tolist() == [10, 11, 12, 13, -1, -9, -9]
    assert columns.rows[0, 2:].tolist() == [5, 5, 0, 0, 0, 5, 1, 0, -1]
    assert columns.lost[0][0].tolist() == [4, 2**40]


def test_the_last_scalar_and_the_last_member_of_a_oneof_win(
    kernels: ModuleType,
) -> None:
    value = stat(
        number_field(1, 1),
        sized(5, b"text"),
        double(2, 1.0),
        number_field(4, -5),
        number_field(1, 2),
    )
    aggregated = event(number_field(2, 100), number_field(5, 6), number_field(3, 1))
    started = event(number_field(5, 6), number_field(2, 100), number_field(3, 1), value)
    data = aggregated + started
    columns = Columns([(0, len(data))], events=2, stats=1)
    columns.fill(kernels, data, types={0: 0}, keys={1: 21, 2: 22})
    assert columns.event(0) == (0, 0, 1)
    assert columns.event(1) == (0, 100, 1)
    assert columns.rows[0, 6] == 1
    assert columns.counted[:, 0].tolist() == [0, 6]
    assert columns.stat(0) == (1, 22, 4, -5, 0)


def test_each_kind_of_value_is_kept_as_it_is(kernels: ModuleType) -> None:
    values = [
        (double(2, -0.5), 2, -0x4020000000000000, 0),
        (number_field(3, 2**64 - 1), 3, -1, 0),
        (number_field(4, -1), 4, -1, 0),
        (sized(5, b"long text"), 5, None, 9),
        (sized(6, b""), 6, None, 0),
        (number_field(7, 2**33), 7, 40, 0),
        (number_field(7, 50), 7, -1, 0),
        (b"", 0, 0, 0),
    ]
    data = event(*(stat(number_field(1, 1), body) for body, *_ in values))
    columns = Columns([(0, len(data))], events=1, stats=8)
    columns.fill(kernels, data, types={0: 0}, keys={1: 21, 2**33: 40})
    for row, (body, kind, value, length) in enumerate(values):
        # A place comes after the name's field, the tag and the length.
        place = data.index(number_field(1, 1) + body) + 4
        expected = place if value is None else value
        assert columns.stat(row) == (0, 21, kind, expected, length)
    assert columns.stat(8) == (99, 99, 99, 99, 99)


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(stat(tag(1, 3)), id="group in a stat"),
        pytest.param(stat(tag(5, 2) + b"\x05ab"), id="text beyond its stat"),
        pytest.param(tag(4, 2) + b"\x05ab", id="stat beyond its event"),
        pytest.param(tag(1, 0), id="number beyond its event"),
        pytest.param(tag(2, 3), id="group in an event"),
    ],
)
def test_an_event_that_breaks_is_not_written_nor_are_its_stats(
    kernels: ModuleType, broken: bytes
) -> None:
    good = event(number_field(1, 1), stat(number_field(1, 9)))
    data = good + event(stat(number_field(1, 9)), broken) + good
    columns = Columns([(0, len(data))], events=3, stats=5)
    columns.fill(kernels, data, types={1: 0})
    assert columns.rows[0, 2:].tolist() == [1, 3, 1, 5, 0, 3, 0, 1, len(good)]


@pytest.mark.parametrize(
    ("events", "stats", "counted"), [(2, 4, 4), (4, 2, 4), (4, 4, 2)]
)
def test_a_file_that_grew_since_it_was_counted_is_not_written_beyond_the_room(
    kernels: ModuleType, events: int, stats: int, counted: int
) -> None:
    one = event(number_field(1, 1), stat(number_field(1, 1)), number_field(5, 2))
    data = one * 4
    columns = Columns([(0, len(data))], events=events, stats=stats)
    columns.rows[0, 7] = counted
    columns.fill(kernels, data, types={1: 0}, keys={1: 0})
    expected = [2, events, 2, stats, 2, counted, 0, 0, 2 * len(one)]
    assert columns.rows[0, 2:].tolist() == expected
    assert columns.event(events) == (-9, -9, -9)
    assert columns.stat(stats) == (99, 99, 99, 99, 99)
    assert columns.counted[:, 2].tolist() == [-9, -9]


def test_chunks_write_to_rows_of_their_own(kernels: ModuleType) -> None:
    one = event(number_field(1, 1), number_field(2, 7), stat(number_field(1, 1)))
    data = one * 3
    cut = len(one)
    columns = Columns([(0, cut), (cut, 3 * cut)], events=1, stats=1)
    columns.rows[0, 2:6] = (0, 1, 0, 1)
    columns.rows[1, 2:6] = (1, 3, 1, 3)
    assert columns.fill(kernels, data, types={1: 5}, keys={1: 6}) == 2
    assert columns.times[0].tolist() == [7, 7, 7]
    assert columns.small[0].tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        (0, -1),
        (1, 99),
        (2, -1),
        (3, 99),
        (4, -1),
        (5, 99),
        (6, -1),
        (7, 99),
        (8, -1),
        (9, -1),
    ],
)
def test_rows_outside_the_columns_or_the_data_are_refused(
    kernels: ModuleType, column: int, value: int
) -> None:
    data = event()
    columns = Columns([(0, len(data))], events=1, stats=1)
    columns.rows[0, column] = value
    assert columns.fill(kernels, data) == kernels.BAD_RANGE


def test_arrays_of_unequal_length_are_refused(kernels: ModuleType) -> None:
    data = event()
    for name in ("types", "kinds", "values", "times", "small", "counted"):
        columns = Columns([(0, len(data))], events=1, stats=1)
        setattr(columns, name, getattr(columns, name)[:-1].copy())
        assert columns.fill(kernels, data) == kernels.BAD_RANGE
    columns = Columns([(0, len(data))], events=1, stats=1)
    columns.rows = columns.rows[:, :-1].copy()
    assert columns.fill(kernels, data) == kernels.BAD_RANGE


def test_filling_lets_other_threads_run(
    kernel_forms: Callable[[str], dict[str, ModuleType]],
    runs_beside: Callable[[Callable[[], object]], bool],
) -> None:
    kernels = kernel_forms("fill").get("compiled")
    if kernels is None:
        pytest.skip("uncompiled, a kernel keeps the lock")
    count = 300_000
    data = event(number_field(1, 1), number_field(2, 70_000)) * count

    def fill() -> None:
        columns = Columns([(0, len(data))], events=count, stats=0)
        assert columns.fill(kernels, data, types={1: 0}) == 1

    assert any(runs_beside(fill) for _ in range(20))
