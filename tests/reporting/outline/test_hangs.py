"""The first sentence on a hang, written by hand for states that no stored job shows."""

from __future__ import annotations

import msgspec

from stepscope.analysis.hangs.hang import find_hang
from stepscope.reporting.outline.hangs import hang_text
from stepscope.trace.collective_calls import CollectiveCall, RankCalls

CALL = CollectiveCall(
    group="0",
    number=4,
    operation="all_reduce",
    sizes="[4]",
    dtypes="Float",
    is_started=True,
    is_finished=False,
    called_ns=1000,
    caller="",
)


def text_of(*calls: CollectiveCall | None) -> str:
    """The sentence where each rank has made one call of the group, or none."""
    groups = {"0": ("default_pg", (*range(len(calls)),))}
    ranks = [
        RankCalls(rank=at, groups=groups, calls=() if each is None else (each,))
        for at, each in enumerate(calls)
    ]
    return hang_text(find_hang(ranks))


def test_ranks_that_wait_are_named() -> None:
    late = msgspec.structs.replace(CALL, is_started=False)
    assert text_of(CALL, late, CALL) == (
        "The job hangs in all_reduce 4 of group default_pg: rank 1 called it but did "
        "not start it on the device, and ranks 0 and 2 wait."
    )
    assert text_of(CALL, CALL) == (
        "The job hangs in all_reduce 4 of group default_pg: all ranks have called it, "
        "and ranks 0 and 1 wait for it to finish."
    )


def test_no_rank_waits_where_the_others_have_finished() -> None:
    late = msgspec.structs.replace(CALL, is_started=False)
    done = msgspec.structs.replace(CALL, is_finished=True)
    assert text_of(done, late) == (
        "The job hangs in all_reduce 4 of group default_pg: rank 1 called it but did "
        "not start it on the device."
    )
    assert text_of(done, late, None) == (
        "The job hangs in all_reduce 4 of group default_pg: rank 2 has not called it."
    )


def test_a_call_that_has_not_started_differs_too() -> None:
    other = msgspec.structs.replace(CALL, is_started=False, operation="broadcast")
    assert text_of(CALL, other) == (
        "The ranks of group default_pg call different collectives as number 4: rank 0 "
        "all_reduce of [4] Float and rank 1 broadcast of [4] Float."
    )
