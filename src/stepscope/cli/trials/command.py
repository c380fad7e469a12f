"""Implementation of `stepscope try`, after its options are parsed."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from stepscope.capture.launching.harmless import say_line
from stepscope.capture.launching.launcher import resolve_command
from stepscope.capture.temporary import make_folder
from stepscope.cli.light_start import check_threads
from stepscope.cli.output import check_free, deliver_answer, text_width
from stepscope.cli.requests import REPORT_FORMS
from stepscope.cli.trials.laboratory import Laboratory
from stepscope.errors import BadUsage
from stepscope.trials.trying import Trials
from stepscope.trials.turns import end_processes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType

    from stepscope.cli.requests import TryRequest
    from stepscope.trials.trying import Trial, TryAnswer
    from stepscope.trials.turns import Output, Turn

_BUDGET: Final = re.compile(r"(\d+(?:\.\d+)?)(s|m|h)")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600}
#: Exit status that shells report for an interrupted program.
_INTERRUPTED: Final = 130
#: Exit status if stepscope ended a program without steps.
_NO_ANSWER: Final = 2
_ENDING_SIGNALS: Final = ("SIGINT", "SIGTERM", "SIGHUP")


def answer_request(request: TryRequest) -> int:
    """Try changes; return the exit status of the program's last turn.

    Raises:
        BadUsage: An option is invalid, or there is no such program or rule.
        StepscopeError: The unchanged program could not be recorded.
    """
    from stepscope.trials.store import check_store  # noqa: PLC0415 - imports polars

    if request.form not in REPORT_FORMS:
        raise BadUsage.unknown_name("format", request.form, REPORT_FORMS)
    check_free(request.output, force=request.force)
    budget_s = _budget_seconds(request.budget)
    _check_rule(request.rule)
    if not request.program:
        raise BadUsage("there is nothing to try; stepscope try [RULE] -- script.py")
    arguments = resolve_command(request.program)
    check_threads()
    if request.store:
        check_store(request.logdir)
    folder = Path(make_folder("try"))
    try:
        with _interruptible():
            return _try_program(request, arguments, folder, budget_s)
    finally:
        end_processes(str(folder))
        shutil.rmtree(folder, ignore_errors=True)


def _try_program(
    request: TryRequest, arguments: Sequence[str], folder: Path, budget_s: float
) -> int:
    laboratory = Laboratory(request, arguments, folder)
    trials = Trials(
        laboratory,
        environment=os.environ,
        temporary=str(folder),
        budget_s=budget_s,
        numerics=request.allow_numerics,
        tell=lambda row: say_line(_progress_text(row)),
    )
    interrupted = False
    try:
        say_line("the program runs in short turns; each is ended after some steps")
        turn = trials.begin()
        if turn.times is None:
            _replay_output(turn.output, is_json=request.form != "text")
            say_line(_no_steps_sentence(turn))
            return turn.status or _NO_ANSWER
        findings = laboratory.find_causes(())
        if request.rule is None:
            trials.try_findings([each for each in findings if each.status == "fail"])
        else:
            chosen = next(each for each in findings if each.id == request.rule)
            if chosen.status != "fail":
                say_line(
                    f"{chosen.id} does not fail here; its changes are tried anyway"
                )
            trials.try_finding(chosen)
    except KeyboardInterrupt:
        interrupted = True
    if trials.last is None:
        raise KeyboardInterrupt
    answer = trials.answer(request.program or (), interrupted=interrupted)
    _replay_output(trials.last.output, is_json=request.form != "text")
    _print_answer(laboratory.store_outcomes(answer), request)
    return _INTERRUPTED if interrupted else answer.status or 0


def _budget_seconds(text: str) -> float:
    found = _BUDGET.fullmatch(text)
    if found is None:
        raise BadUsage(f"--budget {text} is not a duration; give 90s, 10m or 1h.")
    return float(found[1]) * _SECONDS[found[2]]


def _check_rule(rule: str | None) -> None:
    from stepscope.trials.knobs import load_knobs  # noqa: PLC0415 - needed only here

    known = sorted({each for knob in load_knobs() for each in knob.rules})
    if rule is not None and rule not in known:
        raise BadUsage.unknown_name(
            "rule that stepscope can try a change for, named",
            rule,
            known,
            hint="Put -- before the program.",
        )


def _no_steps_sentence(turn: Turn) -> str:
    if turn.status:
        return (
            f"the unchanged program ended with status {turn.status}: nothing is tried"
        )
    return (
        "fewer than three steps of the unchanged program could be timed, so nothing is "
        "tried. Let it run for more steps, or mark them (docs/errors/no_steps.md)"
    )


def _progress_text(row: Trial) -> str:
    from stepscope.report.outline.trials import outcome_text  # noqa: PLC0415 - needed after a turn

    return f"{row.change}: {outcome_text(row)}"


def _replay_output(output: Output, *, is_json: bool) -> None:
    """Print what the last turn printed; next to JSON, all of it on standard error."""
    for path, stream in ((output.out, sys.stdout), (output.err, sys.stderr)):
        target = sys.stderr if is_json else stream
        target.write(path.read_text("utf-8", "replace"))
        target.flush()


def _print_answer(answer: TryAnswer, request: TryRequest) -> None:
    from stepscope.report import to_json  # noqa: PLC0415 - needed at the end
    from stepscope.report.outline import as_markdown, as_text  # noqa: PLC0415 - needed at the end
    from stepscope.report.outline.trials import trials_outline  # noqa: PLC0415 - needed at the end
    from stepscope.report.page import plain_text  # noqa: PLC0415 - needed at the end

    if request.form == "json":
        deliver_answer(to_json.render_trials(answer), request.output)
        return
    outline = trials_outline(answer)
    if request.form == "markdown":
        deliver_answer(as_markdown.render(outline), request.output)
        return
    text = plain_text(as_text.render(outline, width=text_width()))
    if request.output is None:
        # The program may print to standard output.
        sys.stderr.write(text)
    else:
        deliver_answer(text, request.output)


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Let the first signal that asks for an end interrupt the block; ignore others."""
    numbers = [
        getattr(signal, name) for name in _ENDING_SIGNALS if hasattr(signal, name)
    ]

    def interrupt(number: int, frame: FrameType | None) -> NoReturn:
        del number, frame
        for other in numbers:
            signal.signal(other, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {
        number: signal.signal(number, interrupt)
        for number in numbers
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
