"""Why a job hangs, worked out by hand for each cause."""

from __future__ import annotations

import msgspec

from stepscope.analysis.hangs.hang import Hang, find_hang
from stepscope.trace.collective_calls import CollectiveCall, RankCalls

ALL = {"0": ("default_pg", (0, 1, 2))}


def call(number: int, **told: object) -> CollectiveCall:
    """A finished all_reduce of the group of all ranks, made in the order of numbers."""
    plain = CollectiveCall(
        group="0",
        number=number,
        operation="all_reduce",
        sizes="[4]",
        dtypes="Float",
        is_started=True,
        is_finished=True,
        called_ns=1000 * number,
        caller="step (train.py:7)",
    )
    return msgspec.structs.replace(plain, **told)


def open_call(number: int, **told: object) -> CollectiveCall:
    return call(number, **{"is_finished": False, **told})


def rank(
    number: int,
    *calls: CollectiveCall,
    groups: dict[str, tuple[str, tuple[int, ...]]] = ALL,
) -> RankCalls:
    return RankCalls(rank=number, groups=groups, calls=calls)


def states(hang: Hang) -> dict[int, str]:
    return {each.rank: each.state for each in hang.ranks}


def test_a_rank_that_has_not_called_is_found_with_its_last_call() -> None:
    hang = find_hang(
        [
            rank(0, call(1), open_call(2)),
            rank(1, call(1, caller="validate (train.py:9)")),
            rank(2, call(1), open_call(2)),
        ]
    )
    assert (hang.cause, hang.operation, hang.number) == ("not_called", "all_reduce", 2)
    assert (hang.group, hang.described, hang.dumps) == ("0", "default_pg", 3)
    assert states(hang) == {0: "waits", 1: "not_called", 2: "waits"}
    (late,) = hang.in_state("not_called")
    assert late.call is not None
    assert late.call.caller == "validate (train.py:9)"


def test_the_first_unfinished_call_counts() -> None:
    """Ranks launch ahead: later calls are unfinished, too."""
    ahead = [open_call(number) for number in (5, 6, 7)]
    hang = find_hang([rank(0, call(4), *ahead), rank(1, call(4)), rank(2, call(4))])
    assert hang.number == 5


def test_a_recorder_that_dropped_old_calls_made_them() -> None:
    hang = find_hang(
        [rank(0, open_call(5), open_call(6)), rank(1, call(6)), rank(2, call(4))]
    )
    assert states(hang) == {0: "waits", 1: "finished", 2: "not_called"}


def test_different_calls_under_one_number_are_a_mismatch() -> None:
    for differs in (
        {"operation": "broadcast"},
        {"sizes": "[8]"},
        {"dtypes": "Half"},
    ):
        hang = find_hang(
            [rank(0, open_call(1)), rank(1, open_call(1, **differs)), rank(2)]
        )
        assert hang.cause == "mismatch"


def test_inputs_of_other_collectives_may_differ() -> None:
    uneven = [open_call(1, operation="all_to_all", sizes=f"[{at}]") for at in range(3)]
    hang = find_hang([rank(at, each) for at, each in enumerate(uneven)])
    assert hang.cause == "communication"


def test_a_device_that_has_not_started_it() -> None:
    hang = find_hang(
        [
            rank(0, open_call(1)),
            rank(1, open_call(1, is_started=False)),
            rank(2, open_call(1)),
        ]
    )
    assert hang.cause == "not_started"
    assert states(hang) == {0: "waits", 1: "not_started", 2: "waits"}


def test_gloo_records_no_start_on_any_rank() -> None:
    calls = [rank(at, open_call(1, is_started=False)) for at in range(3)]
    assert find_hang(calls).cause == "communication"


def test_a_rank_without_a_dump_is_named() -> None:
    hang = find_hang([rank(0, open_call(1)), rank(2, open_call(1))])
    assert hang.cause == "no_dump"
    assert states(hang) == {0: "waits", 1: "no_dump", 2: "waits"}


def test_a_late_rank_that_waits_in_another_group_is_not_the_cause() -> None:
    """Rank 1 is missing in all, because it waits for rank 2 in its own group."""
    groups = {**ALL, "1": ("tensor", (1, 2))}
    hang = find_hang(
        [
            rank(0, open_call(1), groups=groups),
            rank(1, open_call(1, group="1", called_ns=9000), groups=groups),
            rank(2, groups=groups),
        ]
    )
    # Both miss rank 2, which waits nowhere: the earlier call is told.
    assert hang.group == "0"
    hang = find_hang(
        [
            rank(0, open_call(1), groups=groups),
            rank(1, open_call(1, group="1", called_ns=9000), groups=groups),
            rank(2, open_call(1), groups=groups),
        ]
    )
    # Rank 2 waits in all for rank 1, and rank 1 in its group for rank 2.
    assert hang.cause == "other_order"


def test_a_chain_leads_to_the_group_whose_rank_waits_nowhere() -> None:
    groups = {"a": ("a", (0, 1)), "b": ("b", (1, 2))}
    hang = find_hang(
        [
            rank(0, open_call(1, group="a", called_ns=1), groups=groups),
            rank(1, open_call(1, group="b", called_ns=2), groups=groups),
            rank(2, groups=groups),
        ]
    )
    assert (hang.group, hang.cause) == ("b", "not_called")
    assert states(hang) == {1: "waits", 2: "not_called"}


def test_groups_of_other_ranks_may_have_the_same_name() -> None:
    pairs = [{"1": ("pair", (0, 1))}] * 2 + [{"1": ("pair", (2, 3))}] * 2
    done = [call(1, group="1")]
    calls = [open_call(1, group="1")], [], done, done
    hang = find_hang(
        [
            rank(at, *made, groups=groups)
            for at, (made, groups) in enumerate(zip(calls, pairs, strict=True))
        ]
    )
    assert states(hang) == {0: "waits", 1: "not_called"}


def test_parts_of_a_coalesced_call_do_not_count() -> None:
    """They have its number and stay as they began; the last entry is the call."""
    parts = [open_call(1, is_started=False), open_call(1, is_started=False), call(1)]
    assert find_hang([rank(0, *parts), rank(1, *parts)]).cause == "none"


def test_finished_calls_are_no_hang() -> None:
    assert find_hang([rank(0, call(1)), rank(1, call(1))]).cause == "none"
    assert find_hang([rank(0)]).cause == "none"
