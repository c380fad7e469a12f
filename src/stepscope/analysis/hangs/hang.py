"""The collective that a job hangs in, and the ranks that it waits for.

Definition: docs/hangs.md.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Literal

import msgspec

from stepscope.trace.collective_calls import CollectiveCall

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from stepscope.trace.collective_calls import RankCalls

#: Why a collective does not finish: ranks have not called it; ranks of several groups
#: wait for each other; ranks call different collectives or with different inputs; the
#: devices of ranks have not started it; ranks left no dump; all have called it; or no
#: collective is unfinished.
Cause = Literal[
    "not_called",
    "other_order",
    "mismatch",
    "not_started",
    "no_dump",
    "communication",
    "none",
]
State = Literal["waits", "finished", "not_called", "not_started", "no_dump"]
#: Collectives whose inputs are alike on all ranks.
_ALIKE = frozenset({"all_reduce", "allreduce", "reduce", "broadcast"})
#: Description of the group of all ranks.
_ALL_RANKS = "default_pg"


class RankState(msgspec.Struct, frozen=True, kw_only=True):
    """Where one rank of the group is.

    Attributes:
        rank: Number of the rank in the job.
        state: What the rank does about the collective.
        call: Its call of the collective, else its newest call in any group; null if
            neither is known.
    """

    rank: int
    state: State
    call: CollectiveCall | None


class Hang(msgspec.Struct, frozen=True, kw_only=True):
    """Why a job hangs.

    Attributes:
        cause: Why the collective does not finish.
        group: Name of the process group; null if nothing hangs.
        described: Description of the group; "" if it has none.
        number: Number of the collective in its group; null if nothing hangs.
        operation: What the first waiting rank called; null if nothing hangs.
        ranks: The ranks of the group.
        dumps: Number of ranks whose dumps were read.
    """

    cause: Cause
    group: str | None = None
    described: str = ""
    number: int | None = None
    operation: str | None = None
    ranks: tuple[RankState, ...] = ()
    dumps: int

    def in_state(self, *states: State) -> tuple[RankState, ...]:
        """Return the ranks in some states."""
        return tuple(rank for rank in self.ranks if rank.state in states)


def find_hang(ranks: Sequence[RankCalls]) -> Hang:
    """Find the unfinished collective that the others wait for.

    A rank that has not called a collective may itself wait in another group. Then that
    group's collective is the one to look at.

    Args:
        ranks: One for each dump, at least one.
    """
    by_rank = {rank.rank: rank for rank in ranks}
    hangs = [*_unfinished_collectives(by_rank)]
    if not hangs:
        return Hang(cause="none", dumps=len(by_rank))
    waiting = {
        each.rank for hang in hangs for each in hang.in_state("waits", "not_started")
    }

    def has_own_cause(hang: Hang) -> bool:
        blamed = {each.rank for each in hang.in_state("not_called")}
        return not blamed or bool(blamed - waiting)

    hangs.sort(key=_first_call_ns)
    for hang in hangs:
        if has_own_cause(hang):
            return hang
    return msgspec.structs.replace(hangs[0], cause="other_order")


def _first_call_ns(hang: Hang) -> int:
    called = hang.in_state("waits", "not_started")
    return min(each.call.called_ns for each in called if each.call)


def _unfinished_collectives(by_rank: Mapping[int, RankCalls]) -> Iterator[Hang]:
    """Yield the first unfinished collective of each process group."""
    for name, described, members in _process_groups(by_rank):
        calls = {
            rank: {
                call.number: call for call in by_rank[rank].calls if call.group == name
            }
            for rank in members
            if rank in by_rank
        }
        unfinished = [
            call.number
            for of_rank in calls.values()
            for call in of_rank.values()
            if not call.is_finished
        ]
        if not unfinished:
            continue
        number = min(unfinished)
        is_started = any(
            number in of_rank and of_rank[number].is_started
            for of_rank in calls.values()
        )
        states = tuple(
            _state_of_rank(
                rank, number, calls.get(rank), by_rank.get(rank), is_started=is_started
            )
            for rank in members
        )
        called = [
            of_rank[number]
            for of_rank in calls.values()
            if number in of_rank and not of_rank[number].is_finished
        ]
        seen = {each.state for each in states}
        cause: Cause = "communication"
        if len({_what_is_called(call) for call in called}) > 1:
            cause = "mismatch"
        elif "not_called" in seen:
            cause = "not_called"
        elif "not_started" in seen:
            cause = "not_started"
        elif "no_dump" in seen:
            cause = "no_dump"
        yield Hang(
            cause=cause,
            group=name,
            described=described,
            number=number,
            operation=called[0].operation,
            ranks=states,
            dumps=len(by_rank),
        )


def _state_of_rank(
    rank: int,
    number: int,
    calls: Mapping[int, CollectiveCall] | None,
    own: RankCalls | None,
    *,
    is_started: bool,
) -> RankState:
    """Return where a rank is; `is_started`: whether any device started the call."""
    if calls is None or own is None:
        return RankState(rank=rank, state="no_dump", call=None)
    call = calls.get(number)
    if call is not None:
        state: State = "waits"
        if call.is_finished:
            state = "finished"
        elif is_started and not call.is_started:
            state = "not_started"
        return RankState(rank=rank, state=state, call=call)
    # A recorder drops its oldest calls: later ones show that this one was made.
    if any(later > number for later in calls):
        return RankState(rank=rank, state="finished", call=None)
    return RankState(rank=rank, state="not_called", call=own.newest)


def _what_is_called(call: CollectiveCall) -> tuple[str, ...]:
    """Return what has to be equal on all ranks."""
    inputs = (call.sizes, call.dtypes) if call.operation in _ALIKE else ()
    return (call.operation, *inputs)


def _process_groups(
    by_rank: Mapping[int, RankCalls],
) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """Yield name, description and ranks of each group.

    Groups of other ranks may have the same name.
    """
    names = dict.fromkeys(name for rank in by_rank.values() for name in rank.groups)
    for name in names:
        told = [rank.groups[name] for rank in by_rank.values() if name in rank.groups]
        described = next((text for text, _ in told if text), "")
        recorded = sorted({ranks for _, ranks in told if ranks})
        if len(recorded) > 1:
            yield from ((name, described, ranks) for ranks in recorded)
            continue
        members = {*chain.from_iterable(recorded)}
        if described == _ALL_RANKS:
            members |= by_rank.keys()
        members |= {
            number
            for number, rank in by_rank.items()
            if any(call.group == name for call in rank.calls)
        }
        yield name, described, tuple(sorted(members))
