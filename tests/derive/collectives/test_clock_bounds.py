"""How far a clock can be off, worked out by hand; which hosts tie which."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest

from stepscope.derive.collectives.waits import HostClock, align_clocks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

US = 1_000_000

#: (host, instance, start, duration), in µs on the host's own clock.
Call = tuple[str, int, float, float]


def aligned(
    rows: Sequence[Call],
    starts: Mapping[str, int | None],
    steps: Mapping[str, Mapping[int, tuple[int, int]]] | None = None,
) -> dict[str, HostClock]:
    table = pl.DataFrame(
        [
            (host, number, round(start * US), round(dur * US))
            for host, number, start, dur in rows
        ],
        schema=dict(
            zip(
                ("host", "instance", "start_ps", "dur_ps"),
                (pl.String, *[pl.Int64] * 3),
                strict=True,
            )
        ),
        orient="row",
    )
    return align_clocks(starts, table, steps or {})


def two_devices_each(a: tuple[int, int], b: tuple[int, int], came: int) -> list[Call]:
    """One collective: ends of both devices of a and of b, and when b's second came.

    a's first device enters at 0 and its second at 20; b's first at 1000.
    """
    return [
        ("a", 0, 0, a[0]),
        ("a", 0, 20, a[1] - 20),
        ("b", 0, 1000, b[0] - 1000),
        ("b", 0, came, b[1] - came),
    ]


@pytest.mark.parametrize(
    ("a", "b", "came", "shift", "bound"),
    [
        # a has come at 20 and leaves from 100 to 110, b has come at 1030 and leaves
        # from 1050 to 1080. So the shift is at least 20 - 1050 - 1 and at most
        # 100 - 1030 + 1; it is 110 - 1080.
        ((100, 110), (1050, 1080), 1030, -970, 61),
        ((110, 100), (1080, 1050), 1030, -970, 61),
        # b leaves so late that the shift is the least possible one.
        ((100, 110), (1050, 1141), 1030, -1031, 102),
        ((100, 110), (1050, 1142), 1030, None, None),
        # a leaves so late that it is the greatest possible one: 151 - 1080.
        ((100, 151), (1050, 1080), 1030, -929, 102),
        ((100, 152), (1050, 1080), 1030, None, None),
    ],
)
def test_a_shift_is_between_entering_and_leaving(
    a: tuple[int, int], b: tuple[int, int], came: int, shift: int | None, bound: int
) -> None:
    found = aligned(two_devices_each(a, b, came), {"a": 5, "b": 5})
    if shift is None:
        assert found["b"] == HostClock("b", "recorded", 0, None, None, None, 0)
    else:
        assert found["b"] == HostClock(
            "b", "collectives", shift * US, bound * US, bound * US, -shift * US, 1
        )
    assert found["a"] == HostClock("a", "reference", 0, 0, 0, 0, 0)


def test_collectives_tie_only_if_more_than_half_fit_one_shift() -> None:
    tight: list[Call] = [("a", 0, 0, 10), ("b", 0, 0, 10)]
    loose: list[Call] = [("a", 1, 5000, 1100), ("b", 1, 5000, 1000)]
    again: list[Call] = [("a", 2, 9000, 1100), ("b", 2, 9000, 1000)]
    # Ends are 0 and 100 apart. A shift of 50 does not fit the first collective.
    assert aligned([*tight, *loose], dict.fromkeys("ab"))["b"].source == "none"
    found = aligned([*tight, *loose, *again], dict.fromkeys("ab"))["b"]
    # 100 fits the two others, which bound it by 5000 - 6000 - 1 and 6100 - 5000 + 1.
    assert found == HostClock(
        "b", "collectives", 100 * US, 1101 * US, 1101 * US, None, 3
    )


@pytest.mark.parametrize(("count", "doubt"), [(4, 31), (5, 2)])
def test_five_collectives_show_how_far_they_differ(count: int, doubt: int) -> None:
    late = (0, 0, 0, 0, 2) if count == 5 else (0, 0, 0, 0)
    rows: list[Call] = [
        call
        for i in range(count)
        for call in (("a", i, 1000 * i, 30), ("b", i, 1000 * i, 30 + late[i]))
    ]
    found = aligned(rows, {"a": None, "b": None})["b"]
    assert (found.shift_ps, found.doubt_ps, found.bound_ps) == (0, doubt * US, 31 * US)
    assert found.samples == count


def test_a_shift_is_doubted_no_more_than_by_its_bound() -> None:
    # One end is 3 late, but no shift beyond 1 (and 1 for rounding) is possible.
    rows: list[Call] = [
        call
        for i, late in enumerate((0, 0, 0, 0, 3, 0, 0))
        for call in (("a", i, 100 * i, 1), ("b", i, 100 * i, 1 + late))
    ]
    found = aligned(rows, {"a": None, "b": None})["b"]
    assert (found.shift_ps, found.doubt_ps, found.bound_ps) == (0, 2 * US, 2 * US)


def pairs(first: str, second: str, numbers: range, offset: int = 0) -> list[Call]:
    """Collectives of two hosts; the clock of the second is ahead."""
    return [
        call
        for i in numbers
        for call in ((first, i, 1000 * i, 30), (second, i, 1000 * i + offset, 30))
    ]


def test_of_several_ways_the_one_with_most_collectives_counts() -> None:
    rows = [
        *pairs("a", "b", range(9), 100),
        *pairs("a", "c", range(10, 18), 200),
        # By way of b, d is 50 ahead of c; by way of c, it is 70.
        *pairs("b", "d", range(20, 22), 250),
        *pairs("c", "d", range(30, 33), 70),
    ]
    found = aligned(rows, dict.fromkeys("abcd"))
    assert {host: clock.source for host, clock in found.items()} == {
        **dict.fromkeys("bcd", "collectives"),
        "a": "reference",
    }
    # Three by way of c bound d's clock by 31, five and more are as sure as rounding.
    assert found["c"] == HostClock("c", "collectives", -200 * US, US, 31 * US, None, 8)
    assert found["d"] == HostClock(
        "d", "collectives", (-70 - 200) * US, (31 + 1) * US, 62 * US, None, 3
    )


def test_the_shortest_way_counts_even_with_fewer_collectives() -> None:
    rows = [
        *pairs("a", "b", range(9), 100),
        *pairs("a", "c", range(10, 12), 500),
        *pairs("b", "c", range(20, 26), 70),
    ]
    # a has 11 collectives, b has 15 and c has 8: b is the reference.
    found = aligned(rows, dict.fromkeys("abc"))
    assert [clock.source for clock in found.values()] == [
        *("collectives", "reference", "collectives")
    ]
    assert (found["a"].shift_ps, found["a"].samples) == (100 * US, 9)
    assert (found["c"].shift_ps, found["c"].samples) == (-70 * US, 6)


def test_of_hosts_with_equally_many_collectives_the_first_is_the_reference() -> None:
    rows = pairs("a", "b", range(3), 100)
    assert aligned(rows, {"b": None, "a": None})["b"].source == "reference"
    assert aligned(rows, {"a": None, "b": None})["a"].source == "reference"


def test_recorded_times_are_those_of_the_reference_and_of_the_host() -> None:
    found = aligned([], {"a": 1_000, "b": None, "c": 700})
    assert list(found.values()) == [
        HostClock("a", "reference", 0, 0, 0, 0, 0),
        HostClock("b", "none", None, None, None, None, 0),
        HostClock("c", "recorded", -300_000, None, None, None, 0),
    ]
    # Without the time of the reference, that of the host says nothing.
    assert aligned([], {"a": None, "b": 5})["b"].source == "none"


def test_steps_tie_hosts_by_the_median_and_the_longest_of_either() -> None:
    steps = {
        "a": {1: (0, 40), 2: (100, 50), 3: (200, 30)},
        "b": {2: (90, 20), 1: (7, 10), 3: (203, 60)},
    }
    found = aligned([], {"a": None, "b": None, "c": None}, steps)
    assert found["b"] == HostClock("b", "steps", -3, 60, None, None, 3)
    assert found["c"].source == "none"
