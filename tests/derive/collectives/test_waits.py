"""Which calls are one collective, and who waited in it for whom."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.derive.collectives.waits import (
    collective_waits,
    matched_collectives,
    waiting_spans,
    without_contradictions,
)
from stepscope.derive.intervals.spans import Spans

if TYPE_CHECKING:
    from collections.abc import Sequence

SCHEMA = {
    "host": pl.String,
    "device": pl.Int32,
    "step": pl.Int64,
    "kind": pl.String,
    "group": pl.String,
    "start_ps": pl.Int64,
    "dur_ps": pl.Int64,
}


def call(host: str, start: int, dur: int, **fields: Any) -> dict[str, Any]:
    return {
        "host": host,
        "device": 0,
        "step": 7,
        "kind": "all-reduce",
        "group": "",
        "start_ps": start,
        "dur_ps": dur,
        **fields,
    }


def table(rows: Sequence[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=SCHEMA)


def pairs(rows: Sequence[dict[str, Any]]) -> list[list[int]]:
    """Row numbers of the calls that were matched, collective by collective."""
    found = defaultdict(list)
    for row, number in enumerate(matched_collectives(table(rows))["instance"]):
        if number >= 0:
            found[number].append(row)
    return sorted(found.values())


def test_the_nth_of_a_kind_in_a_step_is_the_nth_of_every_worker() -> None:
    rows = [call("a", 0, 5), call("a", 10, 5), call("b", 900, 5), call("b", 950, 5)]
    assert pairs(rows) == [[0, 2], [1, 3]]


def test_order_between_kinds_does_not_matter() -> None:
    """Two streams: which kind begins first differs from worker to worker."""
    rows = [
        call("a", 0, 5),
        call("a", 3, 5, kind="all-gather"),
        call("b", 0, 5, kind="all-gather"),
        call("b", 3, 5),
    ]
    assert pairs(rows) == [[0, 3], [1, 2]]


def test_devices_of_one_host_are_workers() -> None:
    assert pairs([call("a", 0, 5), call("a", 1, 4, device=1)]) == [[0, 1]]


def test_groups_are_apart() -> None:
    rows = [
        call("a", 0, 5, group="0"),
        call("b", 0, 5, group="1"),
        call("c", 0, 5, group="0"),
        call("d", 0, 5, group="1"),
    ]
    assert pairs(rows) == [[0, 2], [1, 3]]


def test_members_that_disagree_on_the_count_are_not_matched() -> None:
    rows = [call("a", 0, 5), call("a", 10, 5), call("b", 0, 5)]
    assert pairs(rows) == []


def test_one_worker_and_calls_of_no_shared_step_are_not_matched() -> None:
    assert pairs([call("a", 0, 5)]) == []
    assert pairs([call("a", 0, 5, step=None), call("b", 0, 5, step=None)]) == []


def test_steps_are_apart() -> None:
    rows = [call("a", 0, 5), call("b", 0, 5), call("a", 50, 5, step=8)]
    assert pairs(rows) == [[0, 1]]


def contradicted(
    rows: Sequence[dict[str, Any]], shifts: dict[str, int | None]
) -> list[int]:
    matched = matched_collectives(table(rows)).with_columns(
        shift_ps=pl.col("host").replace_strict(shifts, return_dtype=pl.Int64),
        doubt_ps=pl.lit(0, pl.Int64),
    )
    return without_contradictions(matched)["members"].to_list()


def test_calls_that_one_clock_shows_apart_are_different_collectives() -> None:
    far = 10_000_000
    rows = [call("a", 0, 5), call("b", far, 5)]
    assert contradicted(rows, {"a": 0, "b": 0}) == [0, 0]
    assert contradicted(rows, {"a": 0, "b": -far}) == [2, 2]


def test_members_that_do_not_leave_together_are_different_collectives() -> None:
    """Two pairs, each a group that was not recorded: they overlap, and end apart."""
    us = 1_000_000
    rows = [
        call("a", 0, 100 * us),
        call("b", 60 * us, 40 * us),
        call("c", 0, 300 * us),
        call("d", 90 * us, 210 * us),
    ]
    shifts: dict[str, int | None] = dict.fromkeys("abcd", 0)
    assert contradicted(rows, shifts) == [0, 0, 0, 0]
    assert contradicted(rows[:2], shifts) == [2, 2]


US = 1_000_000


def members(
    rows: Sequence[dict[str, Any]], shifts: Sequence[int], doubts: Sequence[int | None]
) -> list[tuple[int, bool]]:
    """Members of each call, and whether it is matched."""
    matched = matched_collectives(table(rows)).with_columns(
        shift_ps=pl.Series(shifts), doubt_ps=pl.Series(doubts, dtype=pl.Int64)
    )
    found = without_contradictions(matched)
    return [(n, i >= 0) for n, i in found.select("members", "instance").rows()]


@pytest.mark.parametrize(("beyond", "matched"), [(0, True), (1, False)])
def test_a_member_may_leave_early_by_the_doubt_of_both_and_a_microsecond(
    beyond: int,
    matched: bool,  # noqa: FBT001 - a parameter
) -> None:
    # b enters at 500, on a's clock, and a left 2 * 3 + 1 µs before.
    left = 500 * US - 7 * US - beyond
    rows = [call("a", 0, left), call("b", 400 * US, left)]
    found = members(rows, [0, 100 * US], [3 * US, None])
    assert found == [(2, True) if matched else (0, False)] * 2


@pytest.mark.parametrize(("beyond", "matched"), [(0, True), (1, False)])
def test_members_leave_within_the_transfer_the_doubt_and_a_microsecond(
    beyond: int,
    matched: bool,  # noqa: FBT001 - a parameter
) -> None:
    # b transfers 20 µs and leaves first; a leaves 20 + 2 * 3 + 1 µs later.
    rows = [call("a", 0, 147 * US + beyond), call("b", 100 * US, 20 * US)]
    found = members(rows, [0, 0], [None, 3 * US])
    assert found == [(2, True) if matched else (0, False)] * 2


def test_the_doubt_of_one_collective_is_not_that_of_another() -> None:
    rows = [
        *(call("a", 0, 5), call("b", 10 * US, 5)),
        *(call("a", 0, 5, kind="broadcast"), call("b", 10 * US, 5, kind="broadcast")),
    ]
    found = members(rows, [0] * 4, [9 * US, 9 * US, 0, 0])
    assert found == [(2, True), (2, True), (0, False), (0, False)]


def test_calls_of_hosts_that_nothing_ties_are_not_matched() -> None:
    rows = [call("a", 0, 5), call("b", 0, 5)]
    assert contradicted(rows, {"a": 0, "b": None}) == [0, 0]
    alone = [call("b", 0, 5), call("b", 0, 5, device=1)]
    assert contradicted(alone, {"b": None}) == [2, 2]


def waits(rows: Sequence[dict[str, Any]]) -> list[tuple[int | None, int | None]]:
    matched = matched_collectives(table(rows)).with_columns(
        shift_ps=pl.lit(0, pl.Int64)
    )
    return collective_waits(matched).select("wait_ps", "waited_for_ps").rows()


def test_the_last_to_come_transfers_and_the_others_wait_for_it() -> None:
    rows = [call("a", 0, 100), call("b", 60, 40), call("c", 90, 10)]
    assert waits(rows) == [(90, 0), (30, 0), (0, 120)]


def test_of_equal_durations_the_later_one_is_the_last() -> None:
    rows = [call("a", 1, 10), call("b", 0, 10), call("c", 0, 30)]
    assert waits(rows) == [(0, 20), (0, 0), (20, 0)]


def test_a_thread_that_leaves_late_has_waited_until_the_last_one_came() -> None:
    """It had no core meanwhile: by its time in the call alone it waited 42."""
    times = (("a", 0, 100), ("b", 2, 58))
    assert waits([call(*one, device=None) for one in times]) == [(2, 0), (0, 2)]
    assert waits([call(*one) for one in times]) == [(42, 0), (0, 42)]


def test_of_threads_the_one_that_came_last_is_waited_for() -> None:
    """The first one did not even wait as long as the other one was late."""
    rows = [call("a", 0, 50, device=None), call("b", 20, 60, device=None)]
    assert waits(rows) == [(0, 0), (0, 0)]
    rows = [call("a", 0, 80, device=None), call("b", 30, 60, device=None)]
    assert waits(rows) == [(20, 0), (0, 20)]


def test_threads_are_compared_by_the_common_clock() -> None:
    rows = [call("a", 1000, 80, device=None), call("b", 30, 60, device=None)]
    matched = matched_collectives(table(rows)).with_columns(
        shift_ps=pl.Series([-1000, 0])
    )
    found = collective_waits(matched)
    # On the common clock, a enters at 0: it waits for b until 30, 20 of these in vain.
    assert found.select("wait_ps", "waited_for_ps").rows() == [(20, 0), (0, 20)]
    assert found.columns == [*matched.columns, "wait_ps", "waited_for_ps"]


def test_of_devices_alike_in_all_the_first_row_is_the_last_member() -> None:
    rows = [call("a", 0, 10), call("b", 0, 10), call("c", 0, 30)]
    assert waits(rows) == [(0, 20), (0, 0), (20, 0)]
    assert waits(rows[::-1]) == [(20, 0), (0, 20), (0, 0)]


def test_every_call_of_a_collective_has_its_members() -> None:
    rows = [call(host, 0, 5) for host in "abc"] + [call("a", 0, 5, step=8)]
    found = matched_collectives(table(rows)).select("instance", "members").rows()
    assert [number for _, number in found] == [3, 3, 3, 0]
    assert len({instance for instance, _ in found[:3]}) == 1
    assert found[3][0] == -1


def test_what_is_not_matched_is_not_told_apart() -> None:
    assert waits([call("a", 0, 100)]) == [(None, None)]


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"),
            st.integers(0, 1),
            st.sampled_from(["all-reduce", "broadcast"]),
            st.integers(0, 5000),
            st.integers(0, 300),
        ),
        max_size=25,
    )
)
def test_waits_agree_with_a_plain_loop(
    drawn: list[tuple[str, int, str, int, int]],
) -> None:
    rows = [
        call(host, start, dur, step=step, kind=kind)
        for host, step, kind, start, dur in drawn
    ]
    lists: dict[tuple[int, str], dict[str, list[int]]] = {}
    for number in sorted(range(len(rows)), key=lambda it: rows[it]["start_ps"]):
        row = rows[number]
        of_set = lists.setdefault((row["step"], row["kind"]), {})
        of_set.setdefault(row["host"], []).append(number)
    expected: list[int | None] = [None] * len(rows)
    for members in lists.values():
        if len(members) < 2 or len({len(one) for one in members.values()}) > 1:
            continue
        for numbers in zip(*members.values(), strict=True):
            least = min(rows[number]["dur_ps"] for number in numbers)
            for number in numbers:
                expected[number] = rows[number]["dur_ps"] - least
    found = waits(rows)
    assert [wait for wait, _ in found] == expected
    # What is waited is waited for somebody.
    assert sum(wait or 0 for wait, _ in found) == sum(cause or 0 for _, cause in found)


def test_waiting_transfer_and_unknown_are_disjoint_and_cover_every_call() -> None:
    calls = pl.DataFrame(
        {
            "start_ps": [0, 40, 90, 200],
            "dur_ps": [60, 60, 30, 10],
            "wait_ps": [50, 0, None, None],
        },
        schema={"start_ps": pl.Int64, "dur_ps": pl.Int64, "wait_ps": pl.Int64},
    )
    waiting, transfer, unknown = waiting_spans(calls)
    # The first waits [0, 50), but from 40 on the second transfers.
    assert waiting == Spans.of([(0, 40)])
    assert transfer == Spans.of([(40, 100)])
    assert unknown == Spans.of([(100, 120), (200, 210)])


def test_of_simultaneous_calls_transfers_come_before_unsplit_calls_and_waiting() -> (
    None
):
    calls = pl.DataFrame(
        {
            "start_ps": [0, 60, 120],
            "dur_ps": [100, 80, 40],
            "wait_ps": [100, None, 10],
        },
        schema={"start_ps": pl.Int64, "dur_ps": pl.Int64, "wait_ps": pl.Int64},
    )
    waiting, transfer, unknown = waiting_spans(calls)
    assert transfer == Spans.of([(130, 160)])
    assert unknown == Spans.of([(60, 130)])
    assert waiting == Spans.of([(0, 60)])
