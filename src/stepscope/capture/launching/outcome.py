"""Summary of what all processes of a run recorded."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Final

from stepscope.capture.base.run import long_wait
from stepscope.xspace.vocabulary import END_PLANE, END_STAT
from stepscope.xspace.writing.write import XSpaceBuilder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepscope.capture.launching.notes import Note
    from stepscope.capture.launching.plan import RunPlan

#: A shell adds this to the number of the signal that ended a program.
BY_SIGNAL: Final = 128

#: Minimum number of steps that count as repetition.
_MIN_STEPS: Final = 2
#: A child that lasts at least this share of its launcher's time is the main program.
_MIN_MAIN_SHARE: Final = 0.25
#: Number of steps from the last skipped step to the first recorded one. The number is 2
#: if a step is known only by its end, because the first step then has no known start.
_FIRST_KNOWN: Final = 2
_LISTED: Final = 3
_NOT_REACHED: Final = (
    "nothing was recorded: no Python process of the command could be reached. It may "
    "have started Python with -I, -E or -S, or without its environment"
)


def keep_the_best(notes: Sequence[Note]) -> tuple[tuple[Note, ...], tuple[Note, ...]]:
    """Keep the recordings of processes that trained, and remove the other files.

    A launcher, a data loader's worker or a helper is also a process of the run. If any
    process counted steps, files of processes without steps are removed, because the
    profile would show hosts without steps. If no process counted steps, files of time
    windows stay.

    Returns:
        Notes whose files are kept, and notes whose files were removed.
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


def add_end_reasons(notes: Sequence[Note], status: int) -> None:
    """Add the reason for the end to recordings of programs that ended before a step.

    A program without a framework that ends without an error expects no steps, so
    nothing is added to its recording.

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
    """Yield sentences that describe what was recorded and what was left out.

    Args:
        anything: Whether the run contains a file.
    """
    printed: set[str] = set()
    for note in kept:
        sentence = f"{note.program}: {_recorded_text(note, plan)}"
        if sentence not in printed:
            printed.add(sentence)
            yield sentence
        if note.how != "none":
            # A process that recorded nothing has already printed its reasons.
            yield from (warning for warning in note.warnings if warning not in printed)
            printed |= set(note.warnings)
    longest_wait = long_wait(max((note.stop_s for note in kept), default=0.0))
    if longest_wait is not None:
        yield longest_wait
    waited = [note for note in left_out if note.how == "waited"]
    stepless = [note for note in left_out if note.how != "waited"]
    if stepless:
        yield f"left out (no training steps): {_list_programs(stepless)}"
    if waited:
        yield f"not recorded (only started other processes): {_list_programs(waited)}"
    if not anything:
        yield _NOT_REACHED if not kept else "nothing was recorded"
    elif not kept:
        how = "was killed" if status > BY_SIGNAL else "ended at once (as by os._exit)"
        yield f"the program {how}: events written before the end are kept"
    if status:
        yield f"the program ended with status {status}"


def _list_programs(notes: Sequence[Note]) -> str:
    programs = list(dict.fromkeys(note.program for note in notes))
    unlisted = f" and {len(programs) - _LISTED} more" if len(programs) > _LISTED else ""
    return ", ".join(programs[:_LISTED]) + unlisted


def _recording_rank(note: Note, longest_s: float) -> int:
    """Return a recording's rank; only recordings of the highest rank are kept.

    Args:
        longest_s: Longest time, in seconds, of a process that ended before its window.
    """
    if note.how == "none" or note.path is None:
        return 0
    if note.how == "waited":
        # The program itself may start many short processes. A launcher starts a process
        # that lasts nearly as long as the launcher.
        return 3 if longest_s < _MIN_MAIN_SHARE * note.seconds else 1
    if note.steps >= _MIN_STEPS:
        return 5
    return 4 if note.how == "time" else 2


def _recorded_text(note: Note, plan: RunPlan) -> str:
    if note.how == "waited":
        return (
            "the program mostly waited for its child processes, which all ended early: "
            "annotations, counters and samples of its functions were recorded"
            if note.path is not None
            else "the program only waited for its child processes, so it was not "
            "recorded. Its children were not recorded: they may have ended at once"
        )
    if note.path is None:
        # The process itself has already printed the error.
        return "nothing was recorded" if note.how == "none" else "nothing was written"
    if note.how == "steps":
        short = ""
        first, last = note.first, note.last
        if first is not None and last is not None:
            # A restarted window ends with another step than planned.
            began_again = first > plan.skip_steps + _FIRST_KNOWN
            wanted = first + plan.steps - 1 if began_again else plan.last_step
            # The program or the maximum time ended the window before its last step.
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
            f"the program ended after step {note.steps}, before the window began "
            f"(--skip-steps {plan.skip_steps}): its steps, counters and samples of its "
            f"functions were recorded, but not the framework; counted: {note.counted}"
        )
    return (
        f"the program ended before the window began (--wait-s {plan.wait_s:g}), and no "
        "steps were found: annotations, counters and samples of its functions were "
        "recorded, but not the framework; --wait-s 0 records from its start"
    )
