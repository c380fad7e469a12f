"""Recording an interval of a program: `start` and `stop`, a block, or steps of a loop.

A schedule, with PyTorch's parameter names, records steps of a loop in any framework.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Self

from stepscope.capture.base.annotate import StepTrace
from stepscope.capture.base.options import ProfilerOptions
from stepscope.capture.base.process_end import process_end
from stepscope.capture.base.program_log import log_line
from stepscope.capture.base.slowdown import StepCost, lower_options
from stepscope.capture.recording.session import Session, current_session
from stepscope.errors import BadUsage, StepscopeError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable
    from pathlib import Path

    from stepscope.capture.base.run import Run


def start(
    logdir: str | os.PathLike[str], options: ProfilerOptions | None = None
) -> None:
    """Begin to record this process into a log directory.

    Args:
        logdir: Directory whose `plugins/profile` receives the runs, as in TensorBoard.
        options: Options of the recording; None means the defaults.

    Raises:
        AlreadyRecording: Another recording is under way; it continues.
        BadUsage: A named collector does not exist or cannot record here.
    """
    Session.start(logdir, options)


def stop(save: bool = True) -> Run:  # noqa: FBT001, FBT002 - TensorFlow's signature
    """End the recording that is under way.

    Args:
        save: Write the file; otherwise only `Run.xspace()` contains the recording.

    Raises:
        BadUsage: No recording is under way.
    """
    session = current_session()
    if session is None:
        raise BadUsage("nothing is being recorded; ss.start(logdir) begins.")
    return session.stop(save=save)


class Profile:
    """Context manager that records a block.

        with ss.Profile("logs") as run:
            train()
        print(run.path, run.warnings)

    An exception of the block is passed on, and the recording until then is kept.
    """

    def __init__(
        self, logdir: str | os.PathLike[str], options: ProfilerOptions | None = None
    ) -> None:
        self._logdir = logdir
        self._options = options
        self._session: Session | None = None
        self._run: Run | None = None

    def __enter__(self) -> Self:
        self._run = None
        self._session = Session.start(self._logdir, self._options)
        return self

    def __exit__(self, *error: object) -> None:
        if self._session is not None:
            with process_end.undisturbed():
                self._run = self._session.stop()

    @property
    def run(self) -> Run:
        """Result of the block's recording.

        Raises:
            BadUsage: The block has not ended.
        """
        if self._run is None:
            raise BadUsage("the block is still being recorded; ask after its end.")
        return self._run

    @property
    def path(self) -> Path | None:
        """Path of the recorded file; None if it could not be written."""
        return self.run.path

    @property
    def hosts(self) -> tuple[str, ...]:
        """Hosts in the run's directory."""
        return self.run.hosts

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences about losses, ignored options and errors."""
        return self.run.warnings

    def xspace(self) -> bytes:
        """Return the recording as one serialized XSpace."""
        return self.run.xspace()


def schedule(
    *,
    wait: int,
    warmup: int,
    active: int,
    repeat: int = 1,
    logdir: str | os.PathLike[str],
    options: ProfilerOptions | None = None,
) -> Schedule:
    """Record `active` steps after `wait + warmup` other steps, `repeat` times.

        with ss.schedule(wait=2, warmup=1, active=3, logdir="logs") as profiler:
            for batch in batches:
                train_step(batch)
                profiler.step()

    Steps count from 0; the example records steps 3, 4 and 5. A profiler's first steps
    are slow, so it also runs during the warmup steps, whose recording is discarded.

    Args:
        wait: Unrecorded steps of each cycle.
        warmup: Steps of each cycle whose recording is discarded.
        active: Recorded steps of each cycle; each gets a step marker.
        repeat: Number of cycles, one run each; 0 means until the loop ends.
        logdir: The log directory.
        options: Options of the recording; None means the defaults.

    Raises:
        BadUsage: A number is negative, or nothing would be recorded.
    """
    return Schedule(wait, warmup, active, repeat, logdir=logdir, options=options)


class Schedule:
    """Recording of some steps of a loop; created by `schedule`.

    Attributes:
        runs: Results of the finished cycles, oldest first.
    """

    def __init__(
        self,
        wait: int,
        warmup: int,
        active: int,
        repeat: int,
        *,
        logdir: str | os.PathLike[str],
        options: ProfilerOptions | None,
        now_s: Callable[[], float] = time.monotonic,
        bounds_s: tuple[float, float] = (0.0, math.inf),
        first_step: int = 0,
        run: str | None = None,
        begin_marker: Callable[[StepTrace], object] = StepTrace.__enter__,
    ) -> None:
        """Check the numbers, and record nothing yet.

        Args:
            bounds_s: Minimum and maximum seconds of the active steps of a cycle: short
                steps are more than `active`, long steps are fewer.
            first_step: Number in the marker of the first step.
            run: Name of the run, if several processes share it; later cycles append a
                number. None gives each cycle a new name.
            begin_marker: Begins the marker of a step.

        Raises:
            BadUsage: A number is negative, or nothing would be recorded.
        """
        for name, value, least in (
            ("wait", wait, 0),
            ("warmup", warmup, 0),
            ("active", active, 1),
            ("repeat", repeat, 0),
        ):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise BadUsage(
                    f"{name}={value!r} is not a number of steps; give {least} or more."
                )
        self.runs: tuple[Run, ...] = ()
        self._wait = wait
        self._first_active = wait + warmup
        self._cycle = wait + warmup + active
        self._repeat = repeat
        self._logdir = logdir
        self._options = options or ProfilerOptions()
        self._cost = StepCost(self._options.max_slowdown)
        self._now_s = now_s
        self._bounds_s = bounds_s
        self._first_step = first_step
        self._run = run
        self._begin_marker = begin_marker
        #: Start of the current step in seconds; None if its duration is not comparable.
        self._began_s: float | None = None
        self._lowered: tuple[str, ...] = ()
        self._step = 0
        #: First step of the cycle, and number of cycles before.
        self._cycle_start = self._cycles = 0
        self._active_since_s: float | None = None
        self._is_over = False
        self._session: Session | None = None
        self._open: StepTrace | None = None

    def __enter__(self) -> Self:
        self._begin_next_step()
        return self

    def __exit__(self, *error: object) -> None:
        # Cancel the marker of a step that an exception ended or the last call began.
        self.cancel_step()
        self.end_cycle()

    def step(self) -> None:
        """Mark the end of one step of the loop."""
        self.end_step()
        self.begin_step()

    def end_step(self) -> None:
        """End the step; the time until `begin_step` belongs to no step."""
        if self._open is not None:
            self._open.__exit__(None, None, None)
            self._open = None
        began_s, self._began_s = self._began_s, None
        if began_s is not None:
            recorded = self._session is not None
            note = self._cost.note_recorded if recorded else self._cost.note_unrecorded
            note(self._now_s() - began_s)
        self._step += 1
        if self._session is not None and self._is_cycle_complete():
            self.end_cycle()

    def begin_step(self) -> None:
        """Begin the next step, unless a step is in progress."""
        if self._is_over or self._began_s is not None:
            return
        try:
            self._begin_next_step()
        except StepscopeError as error:
            # The loop continues without recording.
            self._is_over = True
            log_line(f"the schedule ends here: {error}")

    def cancel_step(self) -> None:
        """Take back the beginning of a step; the time since then belongs to no step."""
        self._began_s = None
        if self._open is not None:
            self._open.cancel()
            self._open = None

    def end_cycle(self) -> None:
        """Store the active steps until now, and begin the next cycle."""
        if self._session is None:
            return
        self._end_session(keep=self._active_since_s is not None)
        self._active_since_s = None
        self._cycle_start = self._step
        self._cycles += 1
        self._is_over = 0 < self._repeat <= self._cycles

    def _is_cycle_complete(self) -> bool:
        if self._active_since_s is None:
            return False
        least_s, most_s = self._bounds_s
        has_all = self._step - self._cycle_start >= self._cycle
        lasted_s = self._now_s() - self._active_since_s
        return lasted_s >= (least_s if has_all else most_s)

    def _begin_next_step(self) -> None:
        place = self._step - self._cycle_start
        is_active = place >= self._first_active
        if is_active and self._active_since_s is None and self._session is not None:
            self._end_session(keep=False)
        if place >= self._wait and self._session is None:
            self._lower_if_needed()
            later = f"_{self._cycles:04d}" if self._cycles else ""
            run = None if self._run is None else self._run + later
            self._session = Session.start(
                self._logdir, self._options, run=run, rehearsal=not is_active
            )
            self._cost.begin_recording()
            for sentence in self._lowered:
                self._session.tell(sentence)
        self._began_s = self._now_s()
        if is_active:
            if self._active_since_s is None:
                self._active_since_s = self._began_s
            self._open = StepTrace(self._first_step + self._step)
            self._begin_marker(self._open)

    def _lower_if_needed(self) -> None:
        if not self._cost.is_too_much:
            return
        less = lower_options(self._options)
        if less is None:
            return
        self._options = less.options
        sentence = (
            f"recorded steps took {self._cost.times:.1f} times as long as other steps "
            f"(max_slowdown={self._options.max_slowdown:g}), so {less.left_out} were "
            "not recorded"
        )
        self._lowered = (*self._lowered, sentence)

    def _end_session(self, *, keep: bool) -> None:
        session, self._session = self._session, None
        if session is not None:
            if not self.runs:
                # The first steps (compiling, or ahead of the device) are no baseline.
                self._cost.set_baseline(())
            with process_end.undisturbed():
                if keep:
                    self.runs = (*self.runs, session.stop())
                else:
                    session.drop()
