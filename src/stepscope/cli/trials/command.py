"""Implementation of `stepscope try`, after its options are parsed."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.advice.registry import RULES
from stepscope.capture.base.options import MAX_EVENTS, MIN_WINDOW_S
from stepscope.capture.base.program_log import say_line
from stepscope.capture.launching.launcher import resolve_command
from stepscope.capture.launching.plan import RunPlan
from stepscope.capture.temporary import make_folder
from stepscope.cli.light_start import check_threads
from stepscope.cli.output import check_free, deliver_answer
from stepscope.cli.report import show_outline
from stepscope.cli.requests import TEXT_FORMS
from stepscope.compare.measured import measure_run
from stepscope.compare.store import (
    answer_promises,
    promise_file,
    read_promises,
    write_promises,
)
from stepscope.errors import BadUsage, StepscopeError
from stepscope.reporting import to_json
from stepscope.reporting.compose import judge_profile
from stepscope.reporting.outline.trials import outcome_text, trials_outline
from stepscope.rundir import new_run_name, run_directory, traces_in
from stepscope.session import open_profile
from stepscope.thresholds import THRESHOLDS
from stepscope.trials.trying import Trials
from stepscope.trials.turns import Program, end_processes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.advice.finding import Finding
    from stepscope.cli.requests import TryRequest
    from stepscope.trials.knobs import Change

_BUDGET: Final = re.compile(r"(\d+(?:\.\d+)?)(s|m|h)")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600}
#: Exit status that shells report for an interrupted program.
_INTERRUPTED: Final = 130
#: Exit status if stepscope ended an unchanged program without steps.
_NO_ANSWER: Final = 2
#: Signals that interrupt the trials as Ctrl-C does.
_ENDING_SIGNALS: Final = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)
)
#: Seconds after which a turn that is recorded ends in any case.
_MAX_RECORDED_S: Final = 120.0


def answer_request(request: TryRequest) -> int:
    """Try changes; return the exit status of the program's last turn.

    Raises:
        BadUsage: An option is invalid, there is no such program or rule, or the system
            is not Linux.
        StepscopeError: The unchanged program could not be recorded.
    """
    if sys.platform != "linux":
        raise BadUsage(
            "this command needs Linux: it finds the processes of a turn in /proc. "
            "Change the program yourself, and compare two recordings with "
            "`stepscope diff BASE NEW`"
        )
    if request.form not in TEXT_FORMS:
        raise BadUsage.unknown_name("format", request.form, TEXT_FORMS)
    check_free(request.output, force=request.force)
    budget = _BUDGET.fullmatch(request.budget)
    if budget is None:
        raise BadUsage(f"--budget {request.budget} is no time; give 90s, 10m or 1h.")
    if not request.program:
        raise BadUsage("there is nothing to try; stepscope try [RULE] -- script.py")
    rules = [rule.item.id for rule in RULES]
    if request.rule not in {None, *rules}:
        hint = "Put -- before the program."
        raise BadUsage.unknown_name("rule", str(request.rule), rules, hint=hint)
    arguments = resolve_command(request.program)
    check_threads()
    folder = Path(make_folder("try"))
    try:
        program = _TrialProgram(request, arguments, folder)
        for number in _ENDING_SIGNALS:
            signal.signal(number, signal.default_int_handler)
        budget_s = float(budget[1]) * _SECONDS[budget[2]]
        return _try_changes(request, program, folder, budget_s)
    finally:
        end_processes(str(folder))
        shutil.rmtree(folder, ignore_errors=True)


def _try_changes(
    request: TryRequest, program: _TrialProgram, folder: Path, budget_s: float
) -> int:
    say_line("the program runs in short turns; each is ended after some steps")
    trials = Trials(
        program,
        environment=os.environ,
        folder=str(folder),
        budget_s=budget_s,
        numerics=request.allow_numerics,
        tell=lambda row: say_line(f"{row.change}: {outcome_text(row)}"),
    )
    interrupted = False
    if trials.first.times is None:
        sys.stderr.write(trials.first.out + trials.first.err)
        say_line(
            f"the unchanged program had fewer than three steps (exit status "
            f"{trials.first.status}): nothing is tried. See docs/errors/no_steps.md"
        )
        return trials.first.status or _NO_ANSWER
    try:
        trials.try_findings(program.find_causes(()))
    except KeyboardInterrupt:
        # The answer is printed within a second, whatever is pressed meanwhile.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        interrupted = True
    except StepscopeError as error:
        # What was measured before a recording failed is still shown.
        if not trials.rows:
            raise
        say_line(str(error))
    answer = trials.summarise_rows(request.program or (), interrupted=interrupted)
    if program.promises is not None:
        answer = msgspec.structs.replace(answer, stored_in=str(program.promises))
    sys.stderr.write(trials.last.out + trials.last.err)
    if request.form == "json":
        deliver_answer(to_json.render_trials(answer), request.output)
    else:
        show_outline(trials_outline(answer), request)
    return _INTERRUPTED if interrupted else answer.status or 0


class _TrialProgram:
    """Turns of one program; recordings go to a temporary or the log directory.

    Attributes:
        promises: File in which promises are stored; None without `--store`.
    """

    def __init__(
        self, request: TryRequest, arguments: Sequence[str], folder: Path
    ) -> None:
        self._program = Program(tuple(arguments), folder, os.environ)
        self._rule = request.rule
        self._logdir = Path(request.logdir) if request.store else folder / "logs"
        self._logdir.mkdir(parents=True, exist_ok=True)
        self.promises = promise_file(self._logdir) if request.store else None
        if self.promises is not None:
            # A damaged file is detected before any turn.
            read_promises(self.promises)
        self.time_steps = self._program.time_steps

    def find_causes(self, changes: Sequence[Change]) -> tuple[Finding, ...]:
        """Record the program with these changes; return its failing findings.

        If a rule was chosen, only its finding is returned, even if it does not fail.
        """
        run = RunPlan(
            logdir=str(self._logdir.absolute()),
            run=new_run_name(time.time()),
            notes="",
            least_s=MIN_WINDOW_S,
            max_events=MAX_EVENTS,
        )
        turn = self._program.record_steps(changes, _MAX_RECORDED_S, run)
        directory = run_directory(Path(run.logdir), run.run)
        if not directory.is_dir() or not traces_in(directory):
            raise StepscopeError(f"the program was not recorded: {turn.last_error}")
        profile = open_profile(directory)
        findings = judge_profile(profile).findings
        if self.promises is not None:
            measured = measure_run(profile, findings)
            # The turns execute one program, so they do the same work.
            stored, _ = answer_promises(
                read_promises(self.promises),
                measured,
                thresholds=THRESHOLDS,
                same_work=True,
            )
            write_promises(self.promises, stored)
        return tuple(
            finding
            for finding in findings
            if (
                finding.status == "fail"
                if self._rule is None
                else finding.id == self._rule
            )
        )
