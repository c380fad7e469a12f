"""One process of a turn: sets knobs when their modules arrive, and times its steps.

`arm` runs before the program begins, so this module imports very little.
"""

from __future__ import annotations

import functools
import os
import sys
from typing import TYPE_CHECKING

from stepscope.capture.base.process_end import process_end
from stepscope.capture.launching.arriving import Arrivals
from stepscope.capture.launching.counting import (
    STEP_SOURCES,
    StepCounter,
    StepListener,
    install_step_source,
)
from stepscope.capture.launching.harmless import say_line
from stepscope.capture.launching.waiting import FORKS, runs_nothing_itself
from stepscope.errors import is_from_handler
from stepscope.trials.inside.plan import TurnPlan
from stepscope.trials.inside.process_report import ProcessReport
from stepscope.trials.inside.setters import AT_FIRST_STEP, AT_START, SETTERS
from stepscope.trials.inside.step_timer import StepTimer

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.trials.inside.plan import Setting


def arm() -> None:
    """Arm this process if its environment contains a plan."""
    plan = TurnPlan.from_environment(os.environ)
    forks = any(word.startswith(FORKS) for word in sys.orig_argv)
    if plan is not None and (forks or not runs_nothing_itself(sys.orig_argv)):
        Armed(plan).begin_waiting()


class Armed:
    """A process that waits for the modules that knobs and steps belong to."""

    def __init__(self, plan: TurnPlan) -> None:
        self._plan = plan
        self._report = ProcessReport(plan.folder)
        self._timer = StepTimer(
            plan,
            self._report,
            first_ended=lambda: self._set_knobs(AT_FIRST_STEP),
            over=self._unhook,
        )
        self._counter: StepCounter[StepTimer] = StepCounter(self._timer)
        self._undo: list[Callable[[], None]] = []

    def begin_waiting(self) -> None:
        """Set what can be set at once, and watch for modules."""
        self._set_knobs(AT_START)
        moments = {SETTERS[setting.setter].moment for setting in self._plan.settings}
        modules = moments - {AT_START, AT_FIRST_STEP} | STEP_SOURCES.keys() | {"torch"}
        Arrivals(
            {name: functools.partial(self._module_arrived, name) for name in modules}
        ).watch()
        os.register_at_fork(after_in_child=self._begin_child)

    def _module_arrived(self, name: str) -> None:
        if name in STEP_SOURCES:
            self._guard("steps", lambda: self._count_steps(name))
        if name == "torch" and self._plan.watches_loss:
            from stepscope.trials.inside.losses import watch_losses  # noqa: PLC0415 - keeps process startup fast

            self._guard("loss", lambda: watch_losses(self._report.write))
        self._set_knobs(name)

    def _count_steps(self, name: str) -> None:
        try:
            with process_end.undisturbed():
                # A view with another type parameter: the counter only calls its window.
                counter: StepCounter[StepListener] = self._counter
                self._undo.append(install_step_source(name, counter))
        except (ImportError, AttributeError) as missing:
            say_line(f"steps of this version of {name} cannot be counted: {missing}")

    def _set_knobs(self, moment: str) -> None:
        # Of two settings of one function, the first must see the program's arguments
        # first: functions are wrapped, so it is wrapped last.
        for setting in reversed(self._plan.settings):
            if SETTERS[setting.setter].moment == moment:
                self._guard(setting.knob, functools.partial(self._set_knob, setting))

    def _set_knob(self, setting: Setting) -> None:
        set_value = SETTERS[setting.setter].load_function()

        def note_change(what: str, *, same: bool = False) -> None:
            word = "same" if same else "set"
            self._report.write_once(word, f"{setting.knob} {what}")

        set_value(setting.argument, setting.value, note_change)

    def _guard(self, knob: str, call: Callable[[], None]) -> None:
        """Call a function of ours: its errors are reported, and harm no program."""
        try:
            call()
        except Exception as fault:
            if is_from_handler(fault):
                raise
            self._report.write("fault", f"{knob} {type(fault).__name__}: {fault}")

    def _unhook(self) -> None:
        undone, self._undo = self._undo, []
        for undo in undone:
            undo()

    def _begin_child(self) -> None:
        self._report.begin_child()
        self._timer.begin_child()
        self._counter.forked()
