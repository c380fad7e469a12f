"""What a run recorded, over all its processes."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Final

from stepscope.capture.ground.run import long_wait
from stepscope.xspace.vocabulary import END_PLANE, END_STAT
from stepscope.xspace.writing.write import XSpaceBuilder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepscope.capture.launching.notes import Note
    from stepscope.capture.launching.plan import RunPlan

#: What a shell adds to the number of the signal that ended a program.
BY_SIGNAL: Final = 128

#: This many steps are a repetition.
_REPEATED: Final = 2
#: A process that lasts so much of its launcher is what was launched.
_MUCH: Final = 0.25
#: The window begins this many steps after those that are skipped: a step that is known
#: only by its end is not recorded where it is the first of all.
_FIRST_KNOWN: Final = 2
#: Longest list of programs in a sentence.
_LISTED: Final = 3
_NOT_REACHED: Final = (
    "nothing was recorded: no Python process of the command could be reached. It may "
    "have started Python with -I, -E or -S, or without its environment"
)


def keep_the_best(notes: Sequence[Note]) -> tuple[tuple[Note, ...], tuple[Note, ...]]:
    """Keep the processes that trained, and remove the files of the others.

    A launcher, a worker that loads data or a helper is a process of the run as well.
    Where any process counted steps, those that did not would stand in the profile as
    hosts without steps. Where none did, those that were recorded for their time stay.

    Returns:
        Notes whose files stay, and those whose files were removed.
    """
    longest_s = max((note.seconds for note in notes if note.how == "early"), default=0)
    worth = {note: _recording_rank(note, longest_s) for note in notes}
    best = max(worth.values(), default=0)
    kept = tuple(note for note in notes if worth[note] == best)
    left_out = tuple(note for note in notes if worth[note] < best)
    for note in left_out:
        if note.path is not None:
            with contextlib.suppress(OSError):
                Path(note.path).unlink()
    return kept, left_out


def tell_early_ends(notes: Sequence[Note], status: int) -> None:
    """Add to the recordings of programs without a step with what these ended.

    One without a framework that ends as it should has no steps to come to.

    Args:
        status: Exit status of the program that was started.
    """
    for note in notes:
        is_early = note.how == "early" and not note.steps
        fails = bool(note.error or status or note.has_framework)
        if note.path is not None and is_early and fails:
            ended_with = f"exit status {status}"
            if note.error is not None:
                ended_with = f"{note.error} ({ended_with})"
            space = XSpaceBuilder("", start_ns=None)
            space.plane(END_PLANE).set_stat(END_STAT, ended_with)
            with contextlib.suppress(OSError), Path(note.path).open("ab") as file:
                file.write(space.to_bytes())


def describe_outcome(
    kept: Sequence[Note],
    left_out: Sequence[Note],
    plan: RunPlan,
    *,
    anything: bool,
    status: int,
) -> Iterator[str]:
    """Sentences about what was recorded, and what was not.

    Args:
        anything: Whether the run holds a file.
    """
    told: set[str] = set()
    for note in kept:
        sentence = f"{note.program}: {_recorded_text(note, plan)}"
        if sentence not in told:
            told.add(sentence)
            yield sentence
        if note.how != "none":
            # Other reasons were said by the process itself.
            yield from (warning for warning in note.warnings if warning not in told)
            told |= set(note.warnings)
    longest_wait = long_wait(max((note.stop_s for note in kept), default=0.0))
    if longest_wait is not None:
        yield longest_wait
    waited = [note for note in left_out if note.how == "waited"]
    others = [note for note in left_out if note.how != "waited"]
    if others:
        yield f"left out, because it did not train: {_list_programs(others)}"
    if waited:
        listed = _list_programs(waited)
        yield f"not recorded, because it only started the others: {listed}"
    if not anything:
        yield _NOT_REACHED if not kept else "nothing was recorded"
    elif not kept:
        how = "was killed" if status > BY_SIGNAL else "ended at once (as by os._exit)"
        yield f"the program {how}: what had been written until then is kept"
    if status:
        yield f"the program ended with status {status}"


def _list_programs(notes: Sequence[Note]) -> str:
    programs = list(dict.fromkeys(note.program for note in notes))
    more = f" and {len(programs) - _LISTED} more" if len(programs) > _LISTED else ""
    return ", ".join(programs[:_LISTED]) + more


def _recording_rank(note: Note, longest_s: float) -> int:
    """Rank what a process recorded.

    Args:
        longest_s: How long the longest was that ended before its window.
    """
    if note.how == "none" or note.path is None:
        return 0
    if note.how == "waited":
        # One that starts many short ones is their program; a launcher starts one that
        # lasts as long as itself.
        return 3 if longest_s < _MUCH * note.seconds else 1
    if note.steps >= _REPEATED:
        return 5
    return 4 if note.how == "time" else 2


def _recorded_text(note: Note, plan: RunPlan) -> str:
    if note.how == "waited":
        return (
            "it mostly waited for processes that it started, and none of those lasted: "
            "annotations, counters and samples of its functions were recorded"
            if note.path is not None
            else "it only started other processes and waited for them, so it was not "
            "recorded, and of those none was: they may have ended at once"
        )
    if note.path is None:
        # What was wrong has been said by the process itself.
        return "nothing was recorded" if note.how == "none" else "nothing was written"
    if note.how == "steps":
        short = ""
        first, last = note.first, note.last
        if first is not None and last is not None:
            # A window that began again has another last step.
            began_again = first > plan.skip_steps + _FIRST_KNOWN
            wanted = first + plan.steps - 1 if began_again else plan.last_step
            # The program, or the time, ended before it.
            if last < wanted:
                short = f", of {plan.steps} that were to be recorded"
        return f"steps {note.first} to {note.last}{short}; counted: {note.counted}"
    if note.how == "time":
        return (
            f"no steps were found; {min(note.seconds, plan.record_s):.1f} s were "
            f"recorded after {plan.wait_s:g} s"
        )
    if note.steps:
        return (
            f"it ended after step {note.steps}, before the window began "
            f"(--skip-steps {plan.skip_steps}): its steps, counters and samples of its "
            f"functions were recorded, the framework was not; counted: {note.counted}"
        )
    return (
        f"it ended before the window began (--wait-s {plan.wait_s:g}) and no steps "
        "were found: annotations, counters and samples of its functions were recorded, "
        "and no framework; --wait-s 0 records from its start"
    )
