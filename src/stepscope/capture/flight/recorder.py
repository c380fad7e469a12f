"""`ss.flight_recorder`: writes a profile by itself when a step goes wrong.

    ss.flight_recorder("logs", slower_than=1.5)
    for step in range(steps):
        with ss.StepTrace(step):
            train_step(next(batches))

Definition: docs/flight-recorder.md.
"""

from __future__ import annotations

import atexit
import math
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from stepscope._core import recorder
from stepscope.capture.base.annotate import StepsBegun
from stepscope.capture.base.encoding import native_id
from stepscope.capture.base.main_thread import MAIN_THREAD_S, at_safe_point
from stepscope.capture.base.options import ProfilerOptions
from stepscope.capture.base.process_end import process_end
from stepscope.capture.base.program_log import log_line
from stepscope.capture.flight.budget import (
    EXCEPTION,
    REQUESTED,
    SLOW_STEP,
    Budget,
    KeptProfile,
)
from stepscope.capture.flight.gauges import Gauges, MetricsServer
from stepscope.capture.flight.hooks import ExceptionHook, WakeUp
from stepscope.capture.flight.nvml import Nvml
from stepscope.capture.flight.recent_events import (
    RecentEvents,
    exception_sentence,
    hang_sentence,
    slow_step_sentence,
)
from stepscope.capture.flight.ring import Ring
from stepscope.capture.flight.watch import StepWatch
from stepscope.capture.recording.session import Session, current_session, set_stand_by
from stepscope.errors import BadUsage, StepscopeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.capture.base.run import Run

#: Default rates of the ring, which records for days at below 1 % of a core. A stack
#: sample every 50 ms is enough to find where a slow step waited.
_RATES: Final = ProfilerOptions(python_sampling_hz=20, counters_hz=2)
#: Seconds between two flushes; a kill loses the events since the last flush.
_FLUSH_S: Final = 1.0
#: Number of flushes between two stores of functions that have not returned yet.
_FLUSHES_PER_STORE: Final = 10
#: Maximum age of a ring, in ns: 64-bit times in picoseconds overflow after 106 days.
_MAX_AGE_NS: Final = 30 * 24 * 3600 * 1_000_000_000
_MIN_BYTES: Final = 2**20
_NS_PER_MS: Final = 1_000_000
_NS_PER_S: Final = 1_000_000_000
_FRAMEWORKS: Final = frozenset({"tensorflow", "jax", "torch"})
#: Maximum seconds of recording after a slow step, whatever the number of steps.
_MAX_FOLLOWING_S: Final = 10.0
#: Seconds between two checks whether the flight recorder was stopped.
_CHECK_PERIOD_S: Final = 0.25
#: Seconds that `stop` waits for the flight recorder's thread.
_ENDS_WITHIN_S: Final = 2.0


class Written(NamedTuple):
    """A profile that was written, and the reason.

    Attributes:
        why: "slow step", "hang", "exception", "signal", or "asked for".
        text: Description of the event, in one line.
        path: The file; None if not written, or removed for a worse profile.
        following: File of the steps after the event, with the framework's events; None
            if they were not recorded.
    """

    why: str
    text: str
    path: Path | None
    following: Path | None = None


class _CurrentRecorder:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.recorder: FlightRecorder | None = None
        self._hears_forks = False

    def set_recorder(self, current: FlightRecorder) -> None:
        """Set the current recorder, which each forked child then forgets.

        Python keeps fork callbacks forever, so the recorder does not register itself.
        """
        self.recorder = current
        if not self._hears_forks and hasattr(os, "register_at_fork"):
            self._hears_forks = True
            os.register_at_fork(after_in_child=self._forget_in_child)

    def _forget_in_child(self) -> None:
        inherited, self.recorder = self.recorder, None
        self.lock = threading.Lock()
        if inherited is not None:
            inherited.forget_in_child()


_current: Final = _CurrentRecorder()


def current_recorder() -> FlightRecorder | None:
    """Return the flight recorder of this process."""
    return _current.recorder


def flight_recorder(
    logdir: str | os.PathLike[str],
    slower_than: float = 1.5,
    *,
    hang_s: float = 120.0,
    most: int = 10,
    disk_bytes: int = 2**30,
    steps_after: int = 3,
    ring_bytes: int = 8 * 2**20,
    on_signal: int | None = getattr(signal, "SIGUSR2", None),
    metrics: int | str | None = None,
    options: ProfilerOptions | None = None,
) -> FlightRecorder:
    """Keep the last steps, and write a profile when a step goes wrong.

    Args:
        logdir: Log directory; runs are stored below its `plugins/profile`.
        slower_than: A step is slow if it takes more than this times the running median.
        hang_s: Seconds without the end of a step that count as a hang.
        most: Maximum number of slow steps kept per hour; a worse step replaces the
            least bad one. Profiles of hangs, exceptions and signals do not count.
        disk_bytes: Maximum bytes of all profiles on the disk. Profiles of slow steps
            that lost least time are removed first, then the oldest other profiles.
            Profiles that `dump` wrote are not removed.
        steps_after: Number of steps that the framework's profiler records after a slow
            step or a signal; 0 records none.
        ring_bytes: Size in bytes of the file that contains the last steps.
        on_signal: Number of the signal that asks for a profile; None for no signal.
        metrics: Port, or `host:port`, where `/metrics` reports step durations and more
            to Prometheus; 0 chooses a free port; None does not listen.
        options: Rates of counters and samples, and options for steps after a slow one.
            With None, the recorder takes 20 stack samples and 2 counter readings a
            second, and records those steps with the default options.

    Raises:
        BadUsage: A flight recorder exists already, or a number is out of range.
    """
    for name, value, fits, wanted in (
        ("slower_than", slower_than, slower_than > 1, "more than 1"),
        ("hang_s", hang_s, hang_s > 0, "more than 0 seconds"),
        ("most", most, most >= 1, "1 or more"),
        ("disk_bytes", disk_bytes, disk_bytes >= _MIN_BYTES, f"{_MIN_BYTES:,} up"),
        ("steps_after", steps_after, steps_after >= 0, "0 or more"),
        ("ring_bytes", ring_bytes, ring_bytes >= _MIN_BYTES, f"{_MIN_BYTES:,} up"),
    ):
        if not fits or math.isnan(value):
            raise BadUsage(f"{name}={value!r} is out of range; give {wanted}.")
    with process_end.undisturbed(), _current.lock:
        if _current.recorder is not None:
            raise BadUsage(
                "this process has a flight recorder already; stop() ends it."
            )
        return FlightRecorder(
            Path(logdir).absolute(),
            options,
            slower_than=slower_than,
            hang_s=hang_s,
            budget=Budget(slow_steps=most, disk_bytes=disk_bytes),
            steps_after=steps_after,
            ring_bytes=ring_bytes,
            on_signal=on_signal,
            metrics=metrics,
        )


class FlightRecorder:
    """The flight recorder of a process; `flight_recorder` creates it.

    Attributes:
        written: Profiles that were written, oldest first.
    """

    @property
    def metrics_address(self) -> str | None:
        """Address of `/metrics` as `host:port`; None without a metrics server."""
        return None if self._metrics is None else self._metrics.address

    def __init__(
        self,
        logdir: Path,
        options: ProfilerOptions | None,
        *,
        slower_than: float,
        hang_s: float,
        budget: Budget,
        steps_after: int,
        ring_bytes: int,
        on_signal: int | None,
        metrics: int | str | None,
    ) -> None:
        self.written: tuple[Written, ...] = ()
        self._logdir = logdir
        self._rates = options or _RATES
        self._options = options or ProfilerOptions()
        self._budget = budget
        self._steps_after = steps_after
        self._ring_bytes = ring_bytes
        self._notebook = RecentEvents()
        self._watch = StepWatch(slower_than, hang_s, now_ns=recorder.clock_ns())
        self._gauges = Gauges()
        self._nvml = None if metrics is None else Nvml()
        self._metrics = None if metrics is None else MetricsServer(metrics, self.gauges)
        self._ring = self._new_ring()
        self._flushes = 0
        self._process = os.getpid()
        self._stopped = False
        self._failed = False
        self._writing = threading.RLock()
        set_stand_by(self)
        if current_session() is None:
            self._ring.resume_recording()
        self._bell = WakeUp(on_signal)
        self._last_words = ExceptionHook(self._write_exception)
        atexit.register(self.stop)
        _current.set_recorder(self)
        self._thread = threading.Thread(
            target=self._turn_until_stopped, name="stepscope-flight", daemon=True
        )
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if isinstance(error, Exception):
            self._write_exception(error)
        self.stop()

    def dump(self) -> Written:
        """Write the last steps now, regardless of the budget."""
        with process_end.undisturbed():
            return self._write_profile(REQUESTED, "by a call of `dump()`")

    def gauges(self) -> str:
        """Return the content of `/metrics`, as OpenMetrics text."""
        return self._gauges.metrics_text(
            written=[profile.why for profile in self.written],
            listening=self._ring.records and not self._stopped,
            devices=() if self._nvml is None else self._nvml.device_uses(),
        )

    def steps_heard(self) -> tuple[str, ...]:
        """Return one line per loop: number, median duration and rate of its steps."""
        medians = self._watch.medians_ns()
        return tuple(
            f"loop {name}: {count} steps, median {medians[name] / _NS_PER_MS:.3g} ms, "
            f"{_NS_PER_S / medians[name]:.3g} a second"
            for name, count in self._watch.step_counts().items()
            if medians.get(name)
        )

    def stop(self) -> None:
        """Stop keeping steps; only profiles that were written remain on the disk."""
        with process_end.undisturbed():
            if self._stopped or os.getpid() != self._process:
                return
            self._stopped = True
            self._last_words.restore_hook()
            atexit.unregister(self.stop)
            self._bell.wake_thread()
            if self._thread is not threading.current_thread():
                self._thread.join(_ENDS_WITHIN_S)
            if not self._thread.is_alive():
                self._bell.stop_listening()
            set_stand_by(None)
            self._ring.end_recording(keep=False)
            if self._metrics is not None:
                self._metrics.stop_serving()
            with _current.lock:
                _current.recorder = None

    def pause_for_recording(self) -> None:
        """Pause while a recording is under way; called by that recording."""
        self._ring.pause_recording()

    def resume_after_recording(self) -> None:
        """Keep steps again; called by the recording that has ended."""
        if not self._stopped:
            self._watch.goes_on(recorder.clock_ns())
            self._ring.resume_recording()

    def _new_ring(self) -> Ring:
        return Ring(
            self._logdir, self._rates, self._notebook, max_bytes=self._ring_bytes
        )

    def _turn_until_stopped(self) -> None:
        while not self._stopped:
            try:
                self._judge_last_steps(signalled=self._bell.wait_for_ring(_FLUSH_S))
            except Exception as error:  # noqa: BLE001 - an error must not reach the program
                if not self._failed:
                    self._failed = True
                    log_line(
                        f"the flight recorder failed: {type(error).__name__}: {error}"
                    )
                # Sleep, because the error may occur again at once.
                time.sleep(_FLUSH_S)

    def _judge_last_steps(self, *, signalled: bool) -> None:
        if self._stopped:
            return
        if signalled:
            self._write_with_following("signal", "a signal asked for it")
        if not self._ring.records:
            return
        self._flushes += 1
        if self._flushes % _FLUSHES_PER_STORE:
            self._ring.store_new_events()
        else:
            self._ring.store_running_functions()
        steps = self._notebook.new_steps()
        judged = [self._watch.judge_step(step) for step in steps]
        slow_steps = [verdict for verdict in judged if verdict is not None]
        if self._metrics is not None:
            self._gauges.add_steps(
                steps,
                self._watch.medians_ns(),
                self._notebook.parts_of_last(steps),
                self._notebook.input_of_last(steps),
                slow=len(slow_steps),
                wall_s=time.time(),
            )
        for slow in slow_steps:
            self._ring.store_running_functions()
            text = slow_step_sentence(slow, self._notebook)
            lost_ns = slow.step.dur_ns - slow.median_ns
            self._write_with_following(SLOW_STEP, text, lost_ns=lost_ns)
        now_ns = recorder.clock_ns()
        last = self._watch.last
        if self._watch.detects_hang(now_ns) and last is not None:
            self._ring.store_running_functions()
            text = hang_sentence(
                last,
                self._notebook,
                main_thread=native_id(threading.main_thread()) or 0,
                since_ns=last.end_ns,
                now_ns=now_ns,
            )
            self._write_profile("hang", text)
        if now_ns - self._ring.begun_ns > _MAX_AGE_NS:
            before, self._ring = self._ring, self._new_ring()
            before.end_recording(keep=False)
            if current_session() is None:
                self._ring.resume_recording()

    def _write_exception(self, error: BaseException) -> None:
        with process_end.undisturbed():
            try:
                # End the step that `mark_step` began.
                recorder.end_step()
                self._ring.store_new_events()
                for step in self._notebook.new_steps():
                    self._watch.judge_step(step)
                text = exception_sentence(error, self._watch.last)
                self._write_profile(EXCEPTION, text)
            except Exception as failure:  # noqa: BLE001 - the program's own error comes first
                log_line(f"the flight recorder failed: {failure}")

    def _write_with_following(self, cause: str, text: str, *, lost_ns: int = 0) -> None:
        written = self._write_profile(cause, text, lost_ns=lost_ns)
        if written.path is None:
            return
        run = record_following(
            self._logdir,
            self._options,
            steps=self._steps_after,
            stopped=lambda: self._stopped,
        )
        if run is None or run.path is None:
            return
        with self._writing:
            # The program may have written another profile meanwhile.
            self.written = tuple(
                profile._replace(following=run.path)
                if profile.path == written.path
                else profile
                for profile in self.written
            )
            self._forget_removed(self._budget.add_file(written.path, run.path))

    def _write_profile(self, cause: str, text: str, *, lost_ns: int = 0) -> Written:
        """Write a profile, or log at most once an hour why it is not written."""
        with self._writing:
            now_s = time.monotonic()
            why = self._budget.reason_against(cause, lost_ns=lost_ns, now_s=now_s)
            if why is not None:
                if self._budget.is_new_refusal(now_s):
                    log_line(f"{cause}: {text}; not written: {why}")
                return Written(cause, text, None)
            if cause != EXCEPTION or self._ring.records:
                self._ring.store_running_functions()
            saved = self._ring.write_run(f"{cause}: {text}")
            written = Written(cause, text, saved.path)
            self.written = (*self.written, written)
            if saved.path is not None:
                profile = KeptProfile(cause, now_s, lost_ns, (saved.path,))
                self._forget_removed(self._budget.keep_profile(profile))
        outcome = saved.why_not or f"written to {saved.path}"
        log_line(f"{cause}: {text}; {outcome}")
        return written

    def _forget_removed(self, removed: tuple[KeptProfile, ...]) -> None:
        removed_paths = {path for profile in removed for path in profile.files}
        self.written = tuple(
            profile._replace(path=None, following=None)
            if profile.path in removed_paths
            else profile
            for profile in self.written
        )

    def forget_in_child(self) -> None:
        """Stop in a forked child, which may create another flight recorder."""
        if self._stopped:
            return
        self._stopped = True
        set_stand_by(None)
        self._ring.forget_in_child()
        self._last_words.restore_hook()
        self._bell.stop_listening()
        if self._metrics is not None:
            self._metrics.forget_in_child()
        atexit.unregister(self.stop)


def record_following(
    logdir: Path, options: ProfilerOptions, *, steps: int, stopped: Callable[[], bool]
) -> Run | None:
    """Record the next steps with the given options; return when they are stored.

    The flight recorder's thread calls this function. Nothing is recorded without an
    imported framework, or while another recording is under way.
    """
    if not steps or not sys.modules.keys() & _FRAMEWORKS:
        return None
    begun: list[Session] = []

    def begin_session() -> None:
        try:
            begun.append(Session.start(logdir, options))
        except StepscopeError as error:
            log_line(
                f"the steps that follow are not recorded: {error}", is_warning=False
            )

    if not at_safe_point(begin_session, within_s=MAIN_THREAD_S) or not begun:
        return None
    enough = threading.Event()
    with StepsBegun(steps, enough):
        left_s = _MAX_FOLLOWING_S
        while left_s > 0 and not stopped() and not enough.wait(_CHECK_PERIOD_S):
            left_s -= _CHECK_PERIOD_S
    # A second `stop` returns the same run if another thread stopped the session.
    at_safe_point(begun[0].stop, within_s=MAIN_THREAD_S)
    return begun[0].stop()
