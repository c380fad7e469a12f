"""One process of a turn: sets knobs when their modules arrive, and times its steps.

`arm` runs before the program begins, so this module imports very little.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from typing import TYPE_CHECKING

from stepscope.capture.launching.arriving import Arrivals
from stepscope.capture.launching.counting import (
    STEP_SOURCES,
    StepCounter,
    install_step_source,
)
from stepscope.capture.launching.waiting import FORKS, runs_nothing_itself
from stepscope.errors import is_from_handler
from stepscope.trials.inside.setters import (
    AT_FIRST_STEP,
    AT_START,
    apply_setting,
    setting_moment,
)
from stepscope.trials.inside.step_timer import StepTimer
from stepscope.trials.inside.turn_files import TurnPlan, write_fact

if TYPE_CHECKING:
    from stepscope.trials.inside.turn_files import Setting


def arm() -> None:
    """Arm this process if its environment contains a plan."""
    plan = TurnPlan.from_environment(os.environ)
    forks = any(word.startswith(FORKS) for word in sys.orig_argv)
    if plan is not None and (forks or not runs_nothing_itself(sys.orig_argv)):
        Armed(plan).watch_modules()


class Armed:
    """A process that waits for the modules that knobs and steps belong to."""

    def __init__(self, plan: TurnPlan) -> None:
        self._plan = plan
        self._undo = contextlib.ExitStack()
        self._timer = StepTimer(
            plan,
            first_ended=lambda: self._apply_settings(AT_FIRST_STEP),
            over=self._undo.close,
        )
        self._counter: StepCounter[StepTimer] = StepCounter(self._timer)

    def watch_modules(self) -> None:
        """Set what can be set at once, and watch for modules."""
        self._apply_settings(AT_START)
        moments = {setting_moment(setting) for setting in self._plan.settings}
        modules = moments - {AT_START, AT_FIRST_STEP} | STEP_SOURCES.keys()
        Arrivals(
            {name: functools.partial(self._module_arrived, name) for name in modules}
        ).watch()
        os.register_at_fork(after_in_child=self._begin_child)

    def _module_arrived(self, name: str) -> None:
        if name in STEP_SOURCES:
            install_step_source(name, self._counter, self._undo)
        self._apply_settings(name)

    def _apply_settings(self, moment: str) -> None:
        # Of two arguments of one function, the first must be seen by the second: the
        # function is wrapped for each, and the wrapper that is added last runs first.
        for setting in reversed(self._plan.settings):
            if setting_moment(setting) == moment:
                self._apply_setting(setting)

    def _apply_setting(self, setting: Setting) -> None:
        """Apply a setting; an error is reported, and does not reach the program."""
        knob, folder = setting.knob, self._plan.folder
        note = functools.cache(lambda: write_fact(folder, "set", knob))
        try:
            apply_setting(setting, note)
        except Exception as fault:
            if is_from_handler(fault):
                raise
            write_fact(folder, "fault", f"{knob} {type(fault).__name__}: {fault}")

    def _begin_child(self) -> None:
        self._timer.begin_child()
        self._counter.forked()
