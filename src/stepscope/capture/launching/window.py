"""The recorded window of one process, opened and closed by steps or by time.

Before the window, steps and counters are recorded without the framework's profiler. So
a program that ends before its window opens still has a small recording.
"""

from __future__ import annotations

import contextlib
import enum
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Final

from stepscope.capture.base.process_end import process_end
from stepscope.capture.base.program_log import log_line, silence_log
from stepscope.capture.base.slowdown import (
    Control,
    StepCost,
    lower_options,
    without_calls,
)
from stepscope.capture.launching.arriving import is_half_imported, session_class
from stepscope.capture.launching.event_count import EventCount
from stepscope.capture.launching.extent import Extent
from stepscope.capture.launching.notes import (
    Note,
    ending_error,
    program_name,
    say_steps_counted,
    steps_were_counted,
    write_note,
)
from stepscope.capture.launching.plan import FRAMEWORKS
from stepscope.capture.launching.step_mark import StepMark
from stepscope.capture.launching.waiting import is_launcher, only_waits, settle_devices

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stepscope.capture.base.options import ProfilerOptions
    from stepscope.capture.launching.plan import RunPlan
    from stepscope.capture.recording.session import Session

#: Rate at which counters are read before the window opens, in Hz.
_WATCH_HZ: Final = 1.0
#: Minimum number of steps that count as repetition.
_MIN_STEPS: Final = 2


class Phase(enum.Enum):
    """State of the recording of a process."""

    IDLE = "nothing is recorded yet"
    WATCHED = "steps and counters only"
    STEPS = "the window of steps"
    COMPARED = "steps without a recording, as a baseline for the window"
    TIME = "the window by time"
    OVER = "the window was recorded"


class Window:
    """The recording of one process. Any thread may call its methods."""

    def __init__(
        self,
        plan: RunPlan,
        *,
        begun: Callable[[], None],
        left: Callable[[], object],
        over: Callable[[], None],
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Record according to a plan.

        Args:
            begun: Called each time a recording has begun.
            left: Called if the process ends during a recording; must end the recording.
            over: Called once, when nothing more will be recorded.
        """
        self.plan = plan
        self.counted: str | None = None
        self.phase = Phase.IDLE
        self.mark = StepMark()
        self.beginnings = 0
        self.after_begin: Callable[[], object] = lambda: None
        self.after_fork: Callable[[], object] = lambda: None
        self._begun_recording = begun
        self._left = left
        self._over = over
        self._within_step = False
        self._now_s = now_s
        self._cost_from = 0
        self._start_s = self._stop_s = 0.0
        #: Options of the recording that was too slow; None before.
        self._options: ProfilerOptions | None = None
        self._noted: Note | None = None
        self._reset_process()
        #: Start of the recording in progress, and length of the last one, in seconds.
        self._recording_s = 0.0
        self._recorded_s = 0.0

    def _reset_process(self) -> None:
        self.annotated = False
        self._lock = threading.RLock()
        self._beginning = False
        self._session: Session | None = None
        self._begun = self._ended = 0
        self._extent = Extent(self.plan)
        self._cost = StepCost(self.plan.max_slowdown)
        #: Start of the step in progress, in seconds; None before the first step.
        self._step_began_s: float | None = None
        self._control: Control | None = None
        self._counter = EventCount()
        self._is_acquitted = False
        self._lowered: tuple[str, ...] = ()
        self._by_time: str | None = None
        self._ours_s = 0.0

    @property
    def repeats(self) -> bool:
        """Whether enough steps have ended to count as repetition."""
        return self._ended >= _MIN_STEPS

    def watch_program(self) -> None:
        """Record steps and counters from now on, unless a recording is in progress."""
        with self._exclusive_access():
            if self.phase is Phase.IDLE and self.plan.watches:
                # Stack samples explain a program that ends before its window opens.
                # After a window, samples are left out: the program may run for days.
                self._begin_session(
                    self._watching_options(functions=self._by_time is None)
                )
                self.phase = Phase.WATCHED

    def watch_unless_busy(self) -> None:
        """Record steps and counters, but do not wait for a lock or another start.

        Waiting for a lock during an import could deadlock: the thread that holds the
        lock may be waiting for the imported module.
        """
        if self._lock.acquire(blocking=False):
            try:
                if not self._beginning and not is_half_imported():
                    self.watch_program()
            finally:
                self._lock.release()

    def step_begins(
        self,
        first: int,
        *,
        batches: int = 1,
        marked: bool = True,
        settle: Callable[[], object] | None = None,
        forwarded: bool = True,
    ) -> None:
        """Begin a step, and end the one before it.

        Args:
            first: Number of the step, from 1; of its first batch if it has several.
            marked: Whether stepscope annotates the step; false if the program does.
            settle: Waits until the device has finished the last step; called only if
                the window opens, closes or is compared with unrecorded steps.
            forwarded: Whether the framework may also annotate the step; false if it
                would record a step that began and never ended.
        """
        with self._lock, self._inside_step(annotation=not marked):
            if self.phase is Phase.OVER:
                return
            last = first + batches - 1
            self._note_ended(first - 1)
            self._note_cost(max(1, first - 1 - self._cost_from))
            within = self.phase is Phase.STEPS
            control = self._control
            ends = within and self._extent.is_enough(first, self._now_s())
            opens = not within and control is None and last > self.plan.skip_steps
            # A slowdown that was found to be acceptable is not checked again.
            doubts = (
                within
                and not ends
                and not self._is_acquitted
                and self._cost.is_too_much
            )
            judges = control is not None and control.is_over
            asked_s = self._now_s()
            if settle is not None and (ends or opens or doubts or judges):
                settle()
            elif doubts or judges:
                settle_devices()
            self.mark.leave()
            if ends or (judges and not self._record_again(first)):
                self.close_window()
                return
            if opens:
                self._open_steps(first, self.plan.options())
            elif doubts:
                self._compare_steps(first, waited_s=self._now_s() - asked_s)
            elif self.phase is Phase.IDLE:
                self.watch_program()
            if self.phase in {Phase.IDLE, Phase.WATCHED}:
                self._counter.begin_count(self.plan, last + batches)
            self._begun = last
            self._step_began_s, self._cost_from = self._now_s(), first - 1
            if marked:
                self.mark.enter(first, batches, forwarded=forwarded)

    def step_ends(self, *, marked: bool = True, may_close: bool = True) -> None:
        """End the current step; the next step begins at an unknown later time.

        Args:
            may_close: Whether the window may end with this step now; false inside an
                annotation that must still be recorded.
        """
        with self._lock, self._inside_step(annotation=not marked):
            self._note_ended(self._begun)
            self.mark.leave()
            if not may_close or self.phase is not Phase.STEPS:
                return
            if self._extent.is_enough(self._begun + 1, self._now_s()):
                self.close_window()

    def step_was_none(self, batches: int) -> None:
        """Cancel the step of N batches that was begun but did not run."""
        with self._lock:
            self.mark.hold()
            self._begun -= batches

    def forget_steps(self) -> None:
        """Discard the step count so far, because another source of steps is used."""
        with self._exclusive_access():
            self._cost = StepCost(self.plan.max_slowdown)
            self._step_began_s = None
            self._control = None
            self._extent = Extent(self.plan)
            if self.phase in {Phase.COMPARED, Phase.STEPS}:
                self.phase = Phase.WATCHED
            if self.phase is Phase.WATCHED and self._ended:
                self.mark.forget()
                self._drop_session()
                self.phase = Phase.IDLE
                self.watch_program()

    def is_last_step(self, step: int) -> bool:
        """Return whether a step in progress is certainly the last of the window."""
        is_open = self.phase is Phase.STEPS
        return is_open and self._extent.is_last_step(step, self._now_s())

    @property
    def is_by_time(self) -> bool:
        """Whether a time window is open."""
        return self.phase is Phase.TIME

    def open_by_time(self) -> None:
        """Open a time window, unless steps were counted or the process only waits."""
        with self._exclusive_access():
            waits = self.phase in {Phase.IDLE, Phase.WATCHED}
            if not waits or self.repeats or steps_were_counted(self.plan.notes):
                return
            if self._only_waits(ends=False) or (is_launcher() and not self.annotated):
                return
            self._drop_session()
            self._begin_session(self._options or self.plan.options())
            self.phase = Phase.TIME

    def lower_by_time(self) -> None:
        """End the recording by time if recording Python calls is too slow.

        The next time window is without them.
        """
        with self._exclusive_access():
            session = self._session if self.phase is Phase.TIME else None
            lowered = session and without_calls(
                session.options, session.slowdown, self.plan.max_slowdown
            )
            if lowered:
                self._lowered = (*self._lowered, lowered.left_out)
                self._options = lowered.options
                self._drop_session()
                self.phase = Phase.IDLE
                self.watch_program()

    def close_by_time(self) -> None:
        """Close the time window; a step window may follow."""
        with self._exclusive_access():
            if self.phase is Phase.TIME:
                self._by_time = self._save_session("time")
                self.phase = Phase.IDLE
                self.watch_program()

    def close_window(self) -> None:
        """Close the window, save its recording, and stop recording for good."""
        with self._exclusive_access():
            how = {Phase.STEPS: "steps", Phase.TIME: "time"}.get(self.phase, "early")
            # A step window replaces the file of an earlier time window.
            before, self._by_time = self._by_time, None
            is_known = before is not None and how == "early"
            waits = self.phase in {Phase.IDLE, Phase.WATCHED}
            if waits and not is_known and self._only_waits(ends=True):
                # The launcher keeps this file only if no other process has a recording.
                if self._session is None:
                    self._write_own_note("waited", None, ())
                self._save_session("waited")
            elif self.phase is not Phase.OVER and not is_known:
                if self._session is None:
                    self._begin_session(self._watching_options(functions=False))
                self._save_session(how, instead_of=before)
            else:
                self._drop_session()
            self._end_recording()

    def abandon(self, reason: str) -> None:
        """Stop recording for good, discard the recording, and write the reason."""
        with self._exclusive_access():
            if self.phase is Phase.OVER:
                return
            self._drop_session()
            self._write_own_note("none", None, (reason,))
            self._end_recording()

    def leave_silently(self) -> None:
        """Stop recording for good, and discard the recording without a note."""
        with self._exclusive_access():
            self._drop_session()
            self._end_recording()

    def begin_child(self) -> None:
        """Reset the state in a forked child; the parent keeps its recording."""
        self._reset_process()
        self.mark.forget()
        if self.phase is not Phase.OVER:
            self.phase = Phase.IDLE

    @contextlib.contextmanager
    def _inside_step(self, *, annotation: bool) -> Iterator[None]:
        """Note whether the current call comes from an annotation of the program."""
        self._within_step = annotation
        try:
            yield
        finally:
            self._within_step = False

    def _only_waits(self, *, ends: bool) -> bool:
        if self.annotated or self._ended:
            return False
        return only_waits(self.plan.notes, ours_s=self._ours_s, ends=ends)

    def _forked_while_recording(self) -> None:
        from stepscope._core import recorder  # noqa: PLC0415 - keeps process startup fast

        recorder.stop_recording()
        if self.phase is not Phase.OVER:
            self.after_fork()

    @contextlib.contextmanager
    def _exclusive_access(self) -> Iterator[None]:
        """Hold the lock, and delay SIGTERM, which would close the window."""
        with self._lock, process_end.undisturbed():
            yield

    def _watching_options(self, *, functions: bool) -> ProfilerOptions:
        from dataclasses import replace  # noqa: PLC0415 - keeps process startup fast

        names = ("host", "process", *(("python_samples",) if functions else ()))
        return replace(self.plan.options(), collectors=names, counters_hz=_WATCH_HZ)

    def _open_steps(self, first: int, options: ProfilerOptions) -> None:
        if self.phase is Phase.TIME:
            # PyTorch's profiler must not start within the op in which it stops.
            log_line("steps begin: their recording replaces the one by time")
            self._drop_session()
            self.phase = Phase.IDLE
            self.watch_program()
            return
        with self._exclusive_access():
            before_s = self._now_s()
            step_events = self._counter.end_count()
            if step_events:
                self._extent.limit_steps(step_events)
            self._drop_session()
            self._begin_session(options)
            self._start_s = self._now_s() - before_s
            self.phase = Phase.STEPS
            self._extent.open_window(first, self._now_s())
            self._cost.begin_recording()

    def _note_cost(self, batches: int) -> None:
        began_s, self._step_began_s = self._step_began_s, None
        if began_s is None or self._counter.is_counting:
            return
        step_s = (self._now_s() - began_s) / batches
        if self._control is not None:
            self._control.steps_s.append(step_s)
        elif self.phase is not Phase.STEPS:
            self._cost.note_unrecorded(step_s)
        else:
            self._cost.note_recorded(step_s)
            self._extent.step_ended(self._now_s())

    def _compare_steps(self, first: int, *, waited_s: float) -> None:
        """Stop recording for some steps, to compare their duration with recorded ones.

        Args:
            waited_s: Seconds until devices had finished the recorded steps.
        """
        if self._session is None:
            return
        with self._exclusive_access():
            recorded = max(2, first - (self._extent.first or first))
            # Time from the start of the second step until the devices finished, minus
            # the time that devices still needed for the first step.
            all_s = self._now_s() - self._extent.second_began_s
            of_first_s = min(waited_s, all_s / recorded)
            recorded_s = (all_s - of_first_s) / (recorded - 1)
            self._options = self._session.options
            # This recording remains if the program ends during the comparison.
            self._by_time = self._save_session("steps", instead_of=self._by_time)
            self._begin_session(self._watching_options(functions=False))
            self.phase = Phase.COMPARED
            self._control = Control(
                self._cost, recorded_s=recorded_s, now_s=self._now_s()
            )

    def _record_again(self, first: int) -> bool:
        """Restart the recording, with fewer events if needed; return whether it did."""
        control, self._control = self._control, None
        options = self._options
        if control is None or options is None:
            return False
        times = control.measured_slowdown(self._now_s())
        if times is None:
            self._is_acquitted = True
        else:
            lowered = lower_options(options)
            left_out = "the remaining steps" if lowered is None else lowered.left_out
            sentence = (
                f"recorded steps took {times:.1f} times as long as other steps "
                f"(--max-slowdown {self.plan.max_slowdown:g}), so {left_out} were not "
                "recorded"
            )
            self._lowered = (*self._lowered, sentence)
            if lowered is None:
                noted = self._noted
                if noted is not None:
                    warnings = (*noted.warnings, sentence)
                    write_note(self.plan.notes, noted._replace(warnings=warnings))
                return False
            options = lowered.options
            self._cost.set_baseline(control.steps_s)
        self._open_steps(first, options)
        return True

    def _note_ended(self, last: int) -> None:
        before, self._ended = self._ended, last
        if before < _MIN_STEPS <= last:
            say_steps_counted(self.plan.notes)

    def _begin_session(self, options: ProfilerOptions) -> None:
        self._beginning = True
        before_s = time.thread_time()
        try:
            self._session = session_class().start(
                self.plan.logdir, options, run=self.plan.run, end=self._left
            )
        finally:
            self._beginning = False
            self._ours_s += time.thread_time() - before_s
        self._recording_s = self._now_s()
        self.beginnings += 1
        self._begun_recording()
        self.after_begin()
        if self.beginnings == 1:
            # Registered after the session's own fork handler, which prepares a forked
            # child for a different kind of recording.
            os.register_at_fork(after_in_child=self._forked_while_recording)

    def _drop_session(self) -> None:
        self._counter.end_count()
        session, self._session = self._session, None
        if session is not None:
            self._stop_keeping()
            with silence_log():
                run = session.drop()
            # At the end of the process the session may already be saved.
            if run.path is not None:
                run.path.unlink(missing_ok=True)

    def _save_session(self, how: str, *, instead_of: str | None = None) -> str | None:
        self._counter.end_count()
        session, self._session = self._session, None
        if session is None:
            return None
        self._recorded_s = self._now_s() - self._recording_s
        open_count = self._stop_keeping()
        with silence_log():
            if how in {"steps", "time"}:
                for sentence in (*self._lowered, self._extent.shortened):
                    if sentence is not None:
                        session.tell(sentence)
            before_s = self._now_s()
            run = session.stop()
            self._stop_s = self._now_s() - before_s
        warnings = run.warnings
        if open_count:
            open_still = f"{open_count} annotations were open when recording stopped"
            warnings += (f"{open_still} and are not in the profile",)
        path = None if run.path is None else os.fspath(run.path)
        if path is not None and instead_of is not None:
            with contextlib.suppress(OSError):
                os.replace(path, instead_of)  # noqa: PTH105 - avoids importing pathlib
                path = instead_of
        self._write_own_note(how, path, warnings)
        return path

    def _stop_keeping(self) -> int:
        """Stop recording annotations; return how many of the program's are open.

        A step in progress is not recorded. The step's annotation object is kept until
        the recording has stopped, because frameworks would record it when released.
        """
        from stepscope._core import recorder  # noqa: PLC0415 - keeps process startup fast

        own_open = int(self.mark.is_open or self._within_step)
        return max(0, recorder.stop_recording() - own_open)

    def _write_own_note(
        self, how: str, path: str | None, warnings: tuple[str, ...]
    ) -> None:
        first = 1 if how == "early" and self._ended else self._extent.first
        self._noted = Note(
            process=os.getpid(),
            program=program_name(),
            how=how,
            counted=self.counted if self._ended else None,
            steps=self._ended,
            first=first,
            last=None if first is None else self._ended,
            path=path,
            warnings=warnings,
            seconds=self._recorded_s,
            unrecorded_s=self._cost.unrecorded_s,
            recorded_s=self._cost.recorded_s,
            start_s=self._start_s,
            stop_s=self._stop_s,
            error=ending_error(),
            has_framework=not sys.modules.keys().isdisjoint(FRAMEWORKS),
        )
        write_note(self.plan.notes, self._noted)

    def _end_recording(self) -> None:
        self.mark = StepMark()
        if self.phase is not Phase.OVER:
            self.phase = Phase.OVER
            self._over()
