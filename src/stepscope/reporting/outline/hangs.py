"""Why a job hangs, in sentences and as an outline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.reporting.outline import parts
from stepscope.reporting.words.names import join_phrases

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepscope.analysis.hangs.hang import Hang, RankState, State

#: Maximum number of ranks in a sentence, and of rows in a table.
_MAX_NAMED: Final = 8
_MAX_ROWS: Final = 64
#: State of a rank → its words; those that the others wait for come first.
_STATES: Final[dict[State, str]] = {
    "not_called": "has not called",
    "not_started": "has not started",
    "no_dump": "left no dump",
    "waits": "waits",
    "finished": "has finished",
}
_LATE: Final[tuple[State, ...]] = ("not_called", "not_started", "no_dump")
#: Cause → what to do.
_ACTIONS: Final = {
    "not_called": "Look at what the code does on {late} after its last call: a branch, "
    "a loop of another length, an exception or a slow step. If the job still runs, "
    "`stepscope capture --attach PID` shows where the process is.",
    "other_order": "Call the collectives of these groups in the same order on all "
    "ranks.",
    "mismatch": "Find the branch that only some ranks take, or the input whose shape "
    "differs.",
    "not_started": "The device of {late} is busy or stuck with earlier work: record a "
    "step before the hang, or look for errors in the log.",
    "no_dump": "Look at the log of {late}: the process may have ended. Collect the "
    "dumps of all ranks.",
    "communication": "All ranks have arrived, so the transfer itself does not finish: "
    "check links, devices and versions of the communication library.",
    "none": "Write the dumps while the job hangs: TORCH_NCCL_DUMP_ON_TIMEOUT=1.",
}


#: Cause → the first sentence. `late`: the ranks that are waited for, and their verbs.
_SENTENCES: Final = {
    "none": "No collective is unfinished: these dumps show no hang. Sends and receives "
    "are not compared.",
    "mismatch": "The ranks of group {group} call different collectives as number "
    "{number}: {calls}.",
    "communication": "The job hangs in {what}: all ranks have called it{waits} "
    "for it to finish.",
    "not_started": "The job hangs in {what}: {late} called it but did not start it on "
    "the device{waits}.",
    "no_dump": "The job hangs in {what}: {late} left no dump{waits}.",
    "not_called": "The job hangs in {what}: {late} {has} not called it{waits}.",
    "other_order": "The job hangs in {what}: {late} {has} not called it, and may not "
    "before a rank that waits here arrives in another group. The ranks call the "
    "collectives in different orders.",
}


def hang_text(hang: Hang) -> str:
    """Write which collective does not finish, and which ranks it waits for."""
    late, waits = _late_ranks(hang), hang.in_state("waits")
    callers = hang.in_state("waits", "not_started")
    calls = [
        f"rank {each.rank} {_call_text(each)}" for each in _first_of_each_call(callers)
    ]
    verb = "waits" if len(waits) == 1 else "wait"
    return _SENTENCES[hang.cause].format(
        group=_group_name(hang),
        number=hang.number,
        what=f"{hang.operation} {hang.number} of group {_group_name(hang)}",
        calls=join_phrases(calls),
        late=ranks_text(late),
        has="has" if len(late) == 1 else "have",
        # Where the others have finished, no rank waits.
        waits=f", and {ranks_text(waits)} {verb}" if waits else "",
    )


def _late_ranks(hang: Hang) -> tuple[RankState, ...]:
    """Return the ranks that the others wait for."""
    return next(filter(None, (hang.in_state(state) for state in _LATE)), ())


def hang_outline(hang: Hang, unread: Sequence[str]) -> Iterator[parts.Part]:
    """Write why a job hangs, what to do, and where each rank of the group is.

    Args:
        unread: Sentences on files that could not be read.
    """
    yield parts.Heading(f"Hang · dumps of {ranks_count(hang.dumps)}", 1)
    yield parts.Paragraph(hang_text(hang), strong=True)
    for each in _caller_sentences(hang):
        yield parts.Paragraph(each)
    yield parts.Paragraph(f"To do: {what_to_do(hang)}")
    for each in unread:
        yield parts.Paragraph(f"Not read: {each}", role="warn")
    if hang.ranks:
        yield parts.Heading(f"Ranks of group {_group_name(hang)}")
        # Those that the others wait for come first.
        listed = sorted(hang.ranks, key=lambda each: [*_STATES].index(each.state))
        rows = tuple(
            (
                f"{each.rank}",
                _STATES[each.state],
                "–"
                if each.call is None
                else f"{each.call.operation} {each.call.number}",
                "–" if each.call is None else each.call.caller or "–",
            )
            for each in listed[:_MAX_ROWS]
        )
        header = ("rank", "state", "last call", "called by")
        yield parts.Table(header, rows, frozenset({1, 2, 3}))
        if len(hang.ranks) > len(rows):
            left = len(hang.ranks) - len(rows)
            yield parts.Paragraph(f"{ranks_count(left)} more are in the JSON.")


def what_to_do(hang: Hang) -> str:
    """Write what to do about a hang."""
    return _ACTIONS[hang.cause].format(late=ranks_text(_late_ranks(hang)))


def _caller_sentences(hang: Hang) -> Iterator[str]:
    """Write where the collective is called, and where the late ranks were last."""
    waits = [each for each in hang.in_state("waits") if each.call and each.call.caller]
    if waits and hang.cause != "mismatch" and waits[0].call:
        yield f"It is called by {waits[0].call.caller}."
    for each in hang.in_state("not_called")[:3]:
        if each.call is not None:
            state = "has finished" if each.call.is_finished else "has not finished"
            by = f", called by {each.call.caller}" if each.call.caller else ""
            yield (
                f"The last call of rank {each.rank} is {each.call.operation} "
                f"{each.call.number}{by}: it {state}."
            )


def ranks_text(ranks: Sequence[RankState]) -> str:
    """Write the numbers of some ranks; of many, their count."""
    if len(ranks) > _MAX_NAMED:
        return f"{len(ranks)} ranks"
    numbers = join_phrases([f"{each.rank}" for each in ranks])
    return f"rank{'' if len(ranks) == 1 else 's'} {numbers}"


def ranks_count(count: int) -> str:
    """Write a number of ranks."""
    return "1 rank" if count == 1 else f"{count} ranks"


def _group_name(hang: Hang) -> str:
    return hang.described or f"{hang.group}"


def _first_of_each_call(callers: Sequence[RankState]) -> list[RankState]:
    """Return the first rank of each different call."""
    first: dict[str, RankState] = {}
    for each in callers:
        first.setdefault(_call_text(each), each)
    return [*first.values()][:_MAX_NAMED]


def _call_text(state: RankState) -> str:
    call = state.call
    if call is None:
        return "an unknown collective"
    inputs = f" of {call.sizes} {call.dtypes}".rstrip() if call.sizes else ""
    by = f" in {call.caller}" if call.caller else ""
    return f"{call.operation}{inputs}{by}"
