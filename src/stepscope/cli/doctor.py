"""Implementation of `stepscope doctor`, after its options are parsed."""

from __future__ import annotations

import math
import os
import shutil
import textwrap
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import msgspec

from stepscope.capture.base.program_log import say_line
from stepscope.capture.launching.launcher import launch_program, resolve_command
from stepscope.capture.launching.notes import read_notes
from stepscope.capture.launching.outcome import keep_the_best
from stepscope.capture.launching.plan import RunPlan
from stepscope.capture.temporary import make_folder
from stepscope.cli.light_start import check_threads
from stepscope.cli.output import deliver_answer, text_width
from stepscope.doctor.checks import run_checks
from stepscope.doctor.machine import Machine
from stepscope.doctor.recording_cost import Trial, cost_checks
from stepscope.errors import BadUsage, printable_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepscope.capture.launching.notes import Note
    from stepscope.cli.requests import DoctorRequest
    from stepscope.doctor.check import Check

#: Version of the JSON format.
_SCHEMA: Final = 1
_MAX_WIDTH: Final = 96
#: Number of steps measured without a recording, and again within a recording.
_STEPS: Final = 20
_RERUN_HINT: Final = "Then run stepscope doctor again to check the changes."
_MARKS: Final = {"ok": "ok  ", "warn": "warn", "fail": "FAIL", "skip": "–   "}


def answer_request(request: DoctorRequest) -> int:
    """Run the checks and print their results; return 1 if a check fails.

    If a program is recorded, its exit status is returned.
    """
    if request.program is not None:
        if request.path is not None:
            raise BadUsage(
                f"both {request.path} and a program were given, but the doctor checks "
                "only one; leave one out."
            )
        return _answer_of_program(request.program, form=request.form)
    if request.path is None:
        checks = run_checks(
            Machine.here(servers=_listening_programs), Path(request.logdir)
        )
    else:
        check_threads()
        from stepscope.analysis.results.fitting_remedies import (  # noqa: PLC0415 - needed only to check a recording
            remedy_to_do,
        )
        from stepscope.doctor.recording import recording_checks  # noqa: PLC0415 - needed only to check a recording
        from stepscope.session import open_profile  # noqa: PLC0415 - needed only to check a recording

        profile = open_profile(request.path)
        checks = recording_checks(profile, lambda absent: remedy_to_do(profile, absent))
    _print_checks(checks, form=request.form, err=False)
    return int(any(check.state == "fail" for check in checks))


def _answer_of_program(command: Sequence[str], *, form: str) -> int:
    """Record a program once, print the cost, and return the program's exit status.

    The recording is removed. Text goes to standard error, because the program may print
    to standard output; JSON is the last line of standard output.
    """
    arguments = resolve_command(command)
    folder = make_folder("doctor")
    try:
        plan = RunPlan(
            logdir=folder,
            run="trial",
            notes=folder,
            skip_steps=_STEPS,
            steps=_STEPS,
            max_slowdown=math.inf,
            watches=False,
        )
        say_line(
            f"records {_STEPS} steps of the program after {_STEPS} unrecorded ones; "
            "the program runs to its end"
        )
        status = launch_program(arguments, plan, os.environ)
        kept, _ = keep_the_best(read_notes(folder))
        checks = [
            check for note in kept for check in cost_checks(_make_trial(note, plan))
        ]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if not checks:
        say_line("no Python process of the command could be reached or measured")
    _print_checks(checks, form=form, err=form != "json")
    return status


def _make_trial(note: Note, plan: RunPlan) -> Trial:
    by_steps = note.how == "steps"
    return Trial(
        program=note.program,
        size=None if note.path is None else Path(note.path).stat().st_size,
        first=note.first if by_steps else None,
        last=note.last if by_steps else None,
        seconds=plan.record_s if note.how == "time" else None,
        unrecorded_s=note.unrecorded_s,
        recorded_s=note.recorded_s,
        start_s=note.start_s,
        stop_s=note.stop_s,
        wanted=plan.last_step,
    )


def _print_checks(checks: Sequence[Check], *, form: str, err: bool) -> None:
    if form == "json":
        text = msgspec.json.encode({"schema": _SCHEMA, "checks": checks}).decode()
    elif checks:
        text = "\n".join(check_lines(checks))
    else:
        return
    if err:
        click.echo(text, err=True)
    else:
        deliver_answer(f"{text}\n", None)


def _listening_programs() -> list[str]:
    from stepscope.remote.listening_programs import listening_processes  # noqa: PLC0415 - needed only to list servers

    return [
        printable_line(f"{server.process} ({server.program}) at {server.address}")
        for server in listening_processes()
    ]


def check_lines(checks: Sequence[Check]) -> Iterator[str]:
    """Yield the lines of the checks by group, and the number of checks per state."""
    width = min(text_width(), _MAX_WIDTH)
    for group, members in groupby(checks, key=lambda check: check.group):
        yield group
        # Print checks with the same fact and remedy once, and all without a remedy.
        names_by_check: dict[Check, list[str]] = {}
        for check in members:
            key = msgspec.structs.replace(
                check, name="" if check.remedy else check.name
            )
            names_by_check.setdefault(key, []).append(check.name)
        for check, names in names_by_check.items():
            fact = (
                f"{check.fact[:1].upper()}{check.fact[1:]}"
                if check.remedy
                else check.fact
            )
            text = f"{_MARKS[check.state]}  {', '.join(names)}: {fact}"
            yield textwrap.fill(
                text, width, initial_indent="  ", subsequent_indent="        "
            )
            if check.remedy is not None:
                yield textwrap.fill(
                    check.remedy,
                    width,
                    initial_indent="        → ",
                    subsequent_indent="          ",
                )
            for command in check.commands:
                # Commands are not wrapped, so that they can be copied.
                yield f"          {command}"
        yield ""
    if any(check.commands for check in checks):
        yield _RERUN_HINT
        yield ""
    states = [check.state for check in checks]
    yield (
        f"{states.count('ok')} fine, {states.count('warn')} with a warning, "
        f"{states.count('fail')} failed, {states.count('skip')} do not apply."
    )
