"""Turns of one program: timed, or recorded and judged by the rules."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from stepscope.capture.base.options import MAX_EVENTS, MIN_WINDOW_S
from stepscope.capture.launching.harmless import say_line
from stepscope.capture.launching.plan import RunPlan
from stepscope.errors import StepscopeError
from stepscope.rundir import new_run_name, run_directory, traces_in
from stepscope.trials.inside.plan import TurnPlan
from stepscope.trials.turns import Program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.advice.finding import Finding
    from stepscope.cli.requests import TryRequest
    from stepscope.trials.knobs import Change
    from stepscope.trials.trying import TryAnswer
    from stepscope.trials.turns import Turn

#: Seconds after which a turn that is recorded ends in any case.
_MAX_RECORDED_TURN_S: Final = 120.0


class Laboratory:
    """Turns of one program; recordings go to a temporary or the log directory."""

    def __init__(
        self, request: TryRequest, arguments: Sequence[str], folder: Path
    ) -> None:
        self._program = Program(tuple(arguments), folder, os.environ)
        self._plan = TurnPlan("", watches_loss=request.allow_numerics)
        self._logdir = Path(request.logdir if request.store else folder / "logs")
        self._stores = request.store
        self._run: str | None = None

    def time_steps(self, changes: Sequence[Change], limit_s: float) -> Turn:
        """Time a window of steps of the program with these changes."""
        return self._program.time_steps(changes, self._plan, limit_s)

    def find_causes(self, changes: Sequence[Change]) -> tuple[Finding, ...]:
        """Record the program with these changes; return its findings in order.

        Raises:
            StepscopeError: The unchanged program could not be recorded.
        """
        from stepscope.report.compose import judge_profile  # noqa: PLC0415 - imports polars
        from stepscope.session import open_profile  # noqa: PLC0415 - imports polars

        plan = RunPlan(
            logdir=str(self._logdir.absolute()),
            run=new_run_name(time.time()),
            notes="",
            least_s=MIN_WINDOW_S,
            max_events=MAX_EVENTS,
        )
        self._logdir.mkdir(parents=True, exist_ok=True)
        output = self._program.record(changes, plan, _MAX_RECORDED_TURN_S)
        directory = run_directory(Path(plan.logdir), plan.run)
        if not directory.is_dir() or not traces_in(directory):
            sentence = f"the program could not be recorded: {output.last_error()}"
            if not changes:
                raise StepscopeError(sentence)
            say_line(sentence)
            return ()
        profile = open_profile(directory)
        findings = judge_profile(profile).findings
        if self._stores:
            from stepscope.trials.store import store_run  # noqa: PLC0415 - needed only with --store

            store_run(self._logdir, profile, findings)
        self._run = self._run or plan.run
        return findings

    def store_outcomes(self, answer: TryAnswer) -> TryAnswer:
        """With `--store`, add what was measured to the promises of the first run."""
        if not self._stores or self._run is None:
            return answer
        from stepscope.trials.store import store_trials  # noqa: PLC0415 - needed only with --store

        return store_trials(self._logdir, self._run, answer)
