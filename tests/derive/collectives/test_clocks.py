"""Clocks of hosts, laid over each other by what their collectives must have done."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from hypothesis import assume, given
from hypothesis import strategies as st

from stepscope.derive.collectives.waits import HostClock, align_clocks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

US = 1_000_000

#: (host, instance, start, duration), in µs on the host's own clock.
Call = tuple[str, int, float, float]


def calls(rows: Sequence[Call]) -> pl.DataFrame:
    return pl.DataFrame(
        [
            (host, number, round(start * US), round(dur * US))
            for host, number, start, dur in rows
        ],
        schema={
            "host": pl.String,
            "instance": pl.Int64,
            "start_ps": pl.Int64,
            "dur_ps": pl.Int64,
        },
        orient="row",
    )


def aligned(
    rows: Sequence[Call],
    starts: Mapping[str, int | None],
    steps: Mapping[str, Mapping[int, tuple[int, int]]] | None = None,
) -> dict[str, HostClock]:
    return align_clocks(starts, calls(rows), steps or {})


def together(count: int, *, ahead: float, early: float = 50) -> list[Call]:
    """Host b's clock is ahead; it comes `early` before a and leaves with it."""
    return [
        call
        for i in range(count)
        for call in (
            ("a", i, 1000 * i + 100, 30),
            ("b", i, 1000 * i + 100 - early + ahead, 30 + early),
        )
    ]


def test_common_ends_give_the_shift_and_the_error_of_the_recorded_clock() -> None:
    # Both began to record at the same wall time, but b's clock is 7 ms ahead.
    found = aligned(together(6, ahead=7000), {"a": 10, "b": 10})
    assert found["a"] == HostClock("a", "reference", 0, 0, 0, 0, 0)
    b = found["b"]
    assert (b.source, b.samples) == ("collectives", 6)
    assert (b.shift_ps, b.offset_ps) == (-7000 * US, 7000 * US)
    # Equal to the microsecond: no recording is surer than that.
    assert b.doubt_ps == US


def test_clocks_without_absolute_times_are_tied_all_the_same() -> None:
    b = aligned(together(6, ahead=-250), {"a": None, "b": 10})["b"]
    assert (b.source, b.shift_ps, b.offset_ps) == ("collectives", 250 * US, None)


def test_the_doubt_is_the_largest_deviation_from_the_median() -> None:
    rows = [
        call
        for i, late in enumerate((0, 0, 0, 2, -3))
        for call in (("a", i, 1000 * i, 30), ("b", i, 1000 * i, 30 + late))
    ]
    b = aligned(rows, {"a": 0, "b": 0})["b"]
    assert (b.shift_ps, b.doubt_ps) == (0, 3 * US)


def test_few_collectives_are_doubted_as_far_as_they_can_be_wrong() -> None:
    """One collective: no member leaves before the other has come; no more is known.

    b comes at 50 and leaves at 130 (own clock), a is in it from 100 to 130. So a time
    of b becomes one of a by at least 100 - 130 = -30 and at most 130 - 50 = 80; a
    microsecond either way is rounding.
    """
    b = aligned(together(1, ahead=0), {"a": 0, "b": 0})["b"]
    assert (b.shift_ps, b.samples) == (0, 1)
    assert (b.doubt_ps, b.bound_ps) == (81 * US, 81 * US)


def test_a_host_is_tied_through_another_one() -> None:
    """b shares some with a, and others with c; c shares some with d. Doubts add up."""
    links = (("a", "b", 100), ("b", "c", 900), ("c", "d", 50))
    clock = {"a": 0, "b": 100, "c": 1000, "d": 1050}
    rows: list[Call] = [
        (host, 100 * link + i, 5000 * i + 1000 * link + clock[host], 40)
        for link, (*hosts, _) in enumerate(links)
        for i in range(5)
        for host in hosts
    ]
    found = aligned(rows, dict.fromkeys("abcd"))
    shifts = {host: one.shift_ps for host, one in found.items()}
    assert shifts == {"a": 100 * US, "b": 0, "c": -900 * US, "d": -950 * US}
    assert [one.doubt_ps for one in found.values()] == [US, 0, US, 2 * US]


def test_the_reference_is_the_host_with_most_collectives() -> None:
    """The first host shares nothing; the others are tied to each other nevertheless."""
    found = aligned(together(5, ahead=100), {"first": None, "a": None, "b": None})
    assert [one.source for one in found.values()] == [
        "none",
        "reference",
        "collectives",
    ]
    assert list(found) == ["first", "a", "b"]


def test_collectives_that_no_shift_brings_together_tie_nothing() -> None:
    rows = [
        call
        for i, apart in enumerate((0, 500, 1100, 1700, 2600))
        for call in (("a", i, 5000 * i, 20), ("b", i, 5000 * i + apart, 20))
    ]
    b = aligned(rows, {"a": 1_000, "b": 1_003})["b"]
    assert b == HostClock("b", "recorded", 3_000, None, None, None, 0)


def test_unmatched_collectives_tie_nothing() -> None:
    rows = [("a", -1, 0, 30), ("b", -1, 0, 30)]
    assert aligned(rows, {"a": None, "b": None})["b"].source == "none"


def test_steps_in_lock_step_tie_hosts_to_within_a_step() -> None:
    steps = {
        "a": {0: (0, 900), 1: (1000, 1000), 2: (2000, 800)},
        "b": {1: (1400, 1100), 2: (2500, 700), 3: (3300, 5000)},
    }
    b = aligned([], {"a": None, "b": None}, steps)["b"]
    # Apart by -400 and -500; the longest step of both is 1100.
    assert b == HostClock("b", "steps", -450, 1100, None, None, 2)


def test_nothing_in_common_is_no_clock() -> None:
    b = aligned([], {"a": 5, "b": None}, {"a": {0: (0, 1)}, "b": {1: (0, 1)}})["b"]
    assert b == HostClock("b", "none", None, None, None, None, 0)


@given(
    shift=st.integers(-(10**9), 10**9),
    rounds=st.lists(
        st.tuples(
            st.integers(0, 400),  # when a comes
            st.integers(0, 400),  # when b comes
            st.integers(5, 60),  # transfer
            st.integers(0, 40),  # a leaves so much later
            st.integers(0, 40),  # b leaves so much later
        ),
        min_size=1,
        max_size=12,
    ),
)
def test_the_bound_holds_whoever_leaves_when(
    shift: int, rounds: list[tuple[int, int, int, int, int]]
) -> None:
    rows: list[Call] = []
    for i, (a, b, transfer, late_a, late_b) in enumerate(rounds):
        end = max(a, b) + transfer
        at = 1000 * i
        rows.append(("a", i, at + a, end + late_a - a))
        rows.append(("b", i, at + b + shift, end + late_b - b))
    found = aligned(rows, {"a": 0, "b": 0})["b"]
    # The median itself breaks most of the bounds only where ends are far apart.
    assume(found.source == "collectives")
    assert found.bound_ps is not None
    assert found.shift_ps is not None
    assert abs(found.shift_ps + shift * US) <= found.bound_ps
