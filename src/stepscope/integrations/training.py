"""Recording of a training whose loop belongs to a library.

The adapters of the libraries call this module: at the begin and end of the training, at
each step, and around parts that belong to no step, such as an evaluation.
"""

from __future__ import annotations

import contextlib
import functools
import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, TypedDict

from stepscope._core.recorder import Trace
from stepscope.capture.base.annotate import enter_beside_framework
from stepscope.capture.base.options import MIN_WINDOW_S
from stepscope.capture.base.program_log import log_line
from stepscope.capture.profile import Schedule
from stepscope.errors import StepscopeError, is_from_handler
from stepscope.integrations.shared_run import (
    is_first_rank,
    name_run,
    print_last_lines,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from stepscope.capture.base.options import ProfilerOptions
    from stepscope.capture.base.run import Run

LOGDIR: Final = "stepscope-logs"
#: Number of recorded steps and maximum seconds of recording if `active` is not given.
_STEPS: Final = 10
_MAX_S: Final = 10.0
#: Maximum seconds of an evaluation that are recorded: it may take hours.
_MAX_PART_S: Final = 10.0


class TrainingOptions(TypedDict, total=False):
    """Arguments that each integration takes after the log directory.

    Attributes:
        wait: Steps before the recording, 9 by default.
        warmup: Steps whose recording is discarded, 1 by default.
        active: Recorded steps. By default ten: more if ten steps take less than 0.4 s,
            fewer if they take more than ten seconds.
        repeat: Number of recordings, 1 by default; 0 means until the training ends.
        options: Options of the recording.
        report: Whether to print headline and first advice at the end, True by default.
    """

    wait: int
    warmup: int
    active: int
    repeat: int
    options: ProfilerOptions | None
    report: bool


class Training:
    """The recording of one training at a time; no method raises into the training.

    Attributes:
        runs: Results of the recordings of the last training that has ended.
    """

    #: Training in progress; a training that raised is still listed here.
    _latest: ClassVar[Training | None] = None

    def __init__(
        self,
        logdir: str | os.PathLike[str],
        chosen: TrainingOptions,
    ) -> None:
        """Check the arguments, and record nothing yet.

        Raises:
            BadUsage: A number is negative, or nothing would be recorded.
        """
        self.runs: tuple[Run, ...] = ()
        self._logdir = Path(logdir).absolute()
        self._chosen = chosen
        self._schedule: Schedule | None = None
        self._part: Trace | None = None
        self._part_ends_s = 0.0
        self._is_first = True
        self._make_schedule()

    def begin_training(self, first_step: int = 0) -> None:
        """Begin a training whose first step has this number."""
        if Training._latest is not None:
            Training._latest.leave_training()
        Training._latest = self
        self.runs = ()
        self._is_first = is_first_rank()
        self._schedule = self._make_schedule(first_step, run=name_run())
        self._guard(self._schedule.__enter__)

    def next_step(self) -> None:
        """End a step, and begin the next one."""
        if self._part is not None:
            self._end_part()
        if self._schedule is not None:
            try:
                self._schedule.step()
            except Exception as error:  # noqa: BLE001 - the training goes on
                self._give_up(error)

    def end_step(self) -> None:
        """End a step; `begin_step` or `begin_part` follows."""
        if self._schedule is not None:
            self._guard(self._schedule.end_step)

    def begin_step(self) -> None:
        """End the part in progress, if there is one, and begin the next step."""
        self._end_part()
        if self._schedule is not None:
            self._guard(self._schedule.begin_step)

    def begin_part(self, name: str) -> None:
        """Begin a part that belongs to no step; if one is in progress, continue it.

        The recording ends after ten seconds of a part.
        """
        schedule = self._schedule
        if schedule is None:
            return
        if self._part is None:
            schedule.cancel_step()
            self._part = Trace(name)
            self._part.__enter__()
            self._part_ends_s = time.monotonic() + _MAX_PART_S
        elif time.monotonic() >= self._part_ends_s:
            self._part.__exit__(None, None, None)
            self._guard(schedule.end_cycle)

    def end_training(self) -> None:
        """Store the recording in progress, and print the last lines."""
        was_in_progress = self._schedule is not None
        self.leave_training()
        prints = self._is_first and self._chosen.get("report", True)
        if not was_in_progress or not prints:
            return
        if self.runs:
            print_last_lines(self.runs[-1])
        else:
            log_line(
                "nothing was recorded: the training ended before the first step to "
                "record. Give a smaller wait."
            )

    def leave_training(self) -> None:
        """Store the recording in progress, and print nothing."""
        schedule, self._schedule = self._schedule, None
        self._end_part()
        if schedule is not None:
            Training._latest = None
            self._guard(functools.partial(schedule.__exit__, None, None, None))
            self.runs = schedule.runs

    def _end_part(self) -> None:
        part, self._part = self._part, None
        if part is not None:
            part.__exit__(None, None, None)

    def _guard(self, call: Callable[[], object]) -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001 - the training goes on
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        """Print why recording stops; raise exceptions of the program's handlers."""
        if is_from_handler(error):
            raise error
        kind = "" if isinstance(error, StepscopeError) else f"{type(error).__name__}: "
        log_line(f"recording stops: {kind}{error}")
        schedule, self._schedule = self._schedule, None
        if schedule is not None:
            with contextlib.suppress(Exception):
                schedule.end_cycle()

    def _make_schedule(self, first_step: int = 0, run: str | None = None) -> Schedule:
        is_bounded = "active" not in self._chosen
        return Schedule(
            self._chosen.get("wait", 9),
            self._chosen.get("warmup", 1),
            self._chosen.get("active", _STEPS),
            self._chosen.get("repeat", 1),
            logdir=self._logdir,
            options=self._chosen.get("options"),
            bounds_s=(MIN_WINDOW_S, _MAX_S) if is_bounded else (0.0, math.inf),
            first_step=first_step,
            run=run,
            # The framework would record a step that is cancelled, and expects nested
            # ranges, but a step may begin inside a range and end after it.
            begin_marker=enter_beside_framework,
        )
