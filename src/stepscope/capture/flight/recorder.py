"""`ss.flight_recorder`: a profile of the moment that went wrong, without asking for it.

    ss.flight_recorder("logs", slower_than=1.5)
    for step in range(steps):
        with ss.StepTrace(step):
            train_step(next(batches))

Definition: docs/flight-recorder.md.
"""

from __future__ import annotations

import atexit
import logging
import math
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from stepscope._core import recorder
from stepscope.capture.flight.budget import (
    ASKED_FOR,
    EXCEPTION,
    SLOW_STEP,
    Budget,
    KeptProfile,
)
from stepscope.capture.flight.gauges import Gauges, MetricsServer
from stepscope.capture.flight.hearing import Bell, LastWords
from stepscope.capture.flight.notebook import (
    Notebook,
    exception_sentence,
    hang_sentence,
    slow_step_sentence,
)
from stepscope.capture.flight.nvml import Nvml
from stepscope.capture.flight.ring import Ring
from stepscope.capture.flight.watch import StepWatch
from stepscope.capture.ground.annotate import StepsBegun
from stepscope.capture.ground.encoding import native_id
from stepscope.capture.ground.leaving import leaving
from stepscope.capture.ground.main_thread import MAIN_THREAD_S, at_safe_point
from stepscope.capture.ground.options import ProfilerOptions
from stepscope.capture.recording.session import Session, current_session, set_stand_by
from stepscope.errors import BadUsage, StepscopeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.capture.ground.run import Run

_log: Final = logging.getLogger("stepscope")
#: What the ring keeps where nobody names rates: it runs for days, at below 1 % of a
#: core. A look every 50 ms still finds what a slow step waited for.
_RATES: Final = ProfilerOptions(python_sampling_hz=20, counters_hz=2)
#: A kill loses what was recorded since the last flush.
_FLUSH_S: Final = 1.0
#: Functions that do not return are stored in pieces of this many flushes.
_PIECE: Final = 10
#: Times are 64 bits of picoseconds, 106 days: the ring begins again before.
_LONGEST_NS: Final = 30 * 24 * 3600 * 1_000_000_000
_LEAST_BYTES: Final = 2**20
_NS_PER_MS: Final = 1_000_000
_NS_PER_S: Final = 1_000_000_000
_FRAMEWORKS: Final = frozenset({"tensorflow", "jax", "torch"})
#: Longest recording of the steps after a slow one, whatever the steps.
_MOST_FOLLOWING_S: Final = 10.0
#: Between two looks whether the flight recorder has been stopped.
_LOOK_S: Final = 0.25
#: How long an end waits for our thread.
_ENDS_WITHIN_S: Final = 2.0


class Written(NamedTuple):
    """A profile that was written, and why.

    Attributes:
        why: "slow step", "hang", "exception", "signal", or "asked for".
        text: What happened, in one line.
        path: The file; None where none could be written, or where it was removed
            since for a worse one.
        following: The file of the steps after it, which has the framework's events;
            None where none were recorded.
    """

    why: str
    text: str
    path: Path | None
    following: Path | None = None


class _One:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.recorder: FlightRecorder | None = None
        self._hears_forks = False

    def set_recorder(self, made: FlightRecorder) -> None:
        """Have a recorder called in every forked child for as long as it is the one.

        Python never forgets whom it calls there: that is not the recorder itself.
        """
        self.recorder = made
        if not self._hears_forks and hasattr(os, "register_at_fork"):
            self._hears_forks = True
            os.register_at_fork(after_in_child=self._forget_in_child)

    def _forget_in_child(self) -> None:
        made, self.recorder = self.recorder, None
        self.lock = threading.Lock()
        if made is not None:
            made.forget_in_child()


_one: Final = _One()


def dumped() -> Path | None:
    """Write what the flight recorder keeps now; None where there is none to write."""
    made = _one.recorder
    return None if made is None else made.dump().path


def steps_heard() -> tuple[str, ...]:
    """Say in a line what steps of each loop take; nothing without a flight recorder."""
    made = _one.recorder
    return () if made is None else made.steps_heard()


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
    """Keep the last steps, and write a profile when one goes wrong.

    Args:
        logdir: Runs lie below `plugins/profile` in it.
        slower_than: A step is slow from this many times the running median on.
        hang_s: No step that ends for so long is a hang.
        most: Slow steps of one hour that are kept, the worst; a worse one replaces the
            least bad. Hangs, exceptions and signals do not count.
        disk_bytes: What all profiles together may take on the disk: slow steps that
            lost least are removed first, then the oldest of the others. What `dump`
            wrote stays.
        steps_after: Steps after a slow one, or after the signal, that the framework's
            profiler records; 0 records none.
        ring_bytes: Length of the file that the last steps are kept in.
        on_signal: Number of the signal that asks for a profile; None for none.
        metrics: Port, or `host:port`, at which `/metrics` tells the length of steps and
            more to Prometheus; 0 takes a free one; None listens nowhere.
        options: Rates of counters and samples, and what is recorded of the steps after.
            None keeps 20 samples and 2 readings of counters a second, and records the
            steps after as every recording does.

    Raises:
        BadUsage: There is a flight recorder already, or a number cannot be.
    """
    for name, value, fits, wanted in (
        ("slower_than", slower_than, slower_than > 1, "more than 1"),
        ("hang_s", hang_s, hang_s > 0, "more than 0 seconds"),
        ("most", most, most >= 1, "1 or more"),
        ("disk_bytes", disk_bytes, disk_bytes >= _LEAST_BYTES, f"{_LEAST_BYTES:,} up"),
        ("steps_after", steps_after, steps_after >= 0, "0 or more"),
        ("ring_bytes", ring_bytes, ring_bytes >= _LEAST_BYTES, f"{_LEAST_BYTES:,} up"),
    ):
        if not fits or math.isnan(value):
            raise BadUsage(f"{name}={value!r} cannot be; give {wanted}.")
    with leaving.undisturbed(), _one.lock:
        if _one.recorder is not None:
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
    """The flight recorder of a process; `flight_recorder` makes it.

    Attributes:
        written: The profiles that were written, oldest first.
    """

    @property
    def metrics_address(self) -> str | None:
        """Where `/metrics` is, `host:port`; None where it is not asked for."""
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
        self._notebook = Notebook()
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
        self._bell = Bell(on_signal)
        self._last_words = LastWords(self._write_exception)
        atexit.register(self.stop)
        _one.set_recorder(self)
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
        """Write what is kept now, whatever else was written."""
        with leaving.undisturbed():
            return self._write_profile(ASKED_FOR, "by a call of `dump()`")

    def gauges(self) -> str:
        """Return what `/metrics` answers, as OpenMetrics text."""
        return self._gauges.metrics_text(
            written=[it.why for it in self.written],
            listening=self._ring.records and not self._stopped,
            devices=() if self._nvml is None else self._nvml.device_uses(),
        )

    def steps_heard(self) -> tuple[str, ...]:
        """Say in a line how many steps of each loop there were, and what they take."""
        medians = self._watch.medians_ns()
        return tuple(
            f"loop {name}: {count} steps, median {medians[name] / _NS_PER_MS:.3g} ms, "
            f"{_NS_PER_S / medians[name]:.3g} a second"
            for name, count in self._watch.step_counts().items()
            if medians.get(name)
        )

    def stop(self) -> None:
        """Keep no more; without a profile written nothing is left."""
        with leaving.undisturbed():
            if self._stopped or os.getpid() != self._process:
                return
            self._stopped = True
            self._last_words.restore_hook()
            atexit.unregister(self.stop)
            self._bell.ring_bell()
            if self._thread is not threading.current_thread():
                self._thread.join(_ENDS_WITHIN_S)
            if not self._thread.is_alive():
                self._bell.stop_listening()
            set_stand_by(None)
            self._ring.end_recording(keep=False)
            if self._metrics is not None:
                self._metrics.stop_serving()
            with _one.lock:
                _one.recorder = None

    def pause_for_recording(self) -> None:
        """Give way to a recording that begins; called by it."""
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
            except Exception as error:  # noqa: BLE001 - the edge to the program
                if not self._failed:
                    self._failed = True
                    _log.warning(
                        "stepscope: the flight recorder failed: %s: %s",
                        type(error).__name__,
                        error,
                    )
                # What fails may fail at once, each time.
                time.sleep(_FLUSH_S)

    def _judge_last_steps(self, *, signalled: bool) -> None:
        if self._stopped:
            return
        if signalled:
            self._write_with_following("signal", "a signal asked for it")
        if not self._ring.records:
            return
        self._flushes += 1
        if self._flushes % _PIECE:
            self._ring.store_new_events()
        else:
            self._ring.store_running_functions()
        steps = self._notebook.new_steps()
        judged = [self._watch.judge_step(step) for step in steps]
        slow_steps = [it for it in judged if it is not None]
        if self._metrics is not None:
            self._gauges.hear_steps(
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
        if now_ns - self._ring.begun_ns > _LONGEST_NS:
            before, self._ring = self._ring, self._new_ring()
            before.end_recording(keep=False)
            if current_session() is None:
                self._ring.resume_recording()

    def _write_exception(self, error: BaseException) -> None:
        with leaving.undisturbed():
            try:
                # The step that `mark_step` began ends here.
                recorder.end_step()
                self._ring.store_new_events()
                for step in self._notebook.new_steps():
                    self._watch.judge_step(step)
                text = exception_sentence(error, self._watch.last)
                self._write_profile(EXCEPTION, text)
            except Exception as failure:  # noqa: BLE001 - the program's own error comes first
                _log.warning("stepscope: the flight recorder failed: %s", failure)

    def _write_with_following(self, why: str, text: str, *, lost_ns: int = 0) -> None:
        written = self._write_profile(why, text, lost_ns=lost_ns)
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
            # The program may have asked for another one meanwhile.
            self.written = tuple(
                it._replace(following=run.path) if it.path == written.path else it
                for it in self.written
            )
            self._forget_removed(self._budget.add_file(written.path, run.path))

    def _write_profile(self, why: str, text: str, *, lost_ns: int = 0) -> Written:
        """Write a profile, or say once an hour why it is not written."""
        with self._writing:
            now_s = time.monotonic()
            against = self._budget.reason_against(why, lost_ns=lost_ns, now_s=now_s)
            if against is not None:
                if self._budget.is_new_refusal(now_s):
                    _log.warning(
                        "stepscope: %s: %s; not written: %s", why, text, against
                    )
                return Written(why, text, None)
            if why != EXCEPTION or self._ring.records:
                self._ring.store_running_functions()
            saved = self._ring.write_run(f"{why}: {text}")
            written = Written(why, text, saved.path)
            self.written = (*self.written, written)
            if saved.path is not None:
                kept = KeptProfile(why, now_s, lost_ns, (saved.path,))
                self._forget_removed(self._budget.keep_profile(kept))
        where = saved.why_not or f"written to {saved.path}"
        _log.warning("stepscope: %s: %s; %s", why, text, where)
        return written

    def _forget_removed(self, removed: tuple[KeptProfile, ...]) -> None:
        gone = {path for profile in removed for path in profile.files}
        self.written = tuple(
            it._replace(path=None, following=None) if it.path in gone else it
            for it in self.written
        )

    def forget_in_child(self) -> None:
        """In a child: it has no flight recorder, and may make one."""
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
    """Record the next steps in full, and return when they are stored.

    Called by a thread of ours. Nothing is recorded where no framework is imported, or
    where a recording is under way.
    """
    if not steps or not sys.modules.keys() & _FRAMEWORKS:
        return None
    begun: list[Session] = []

    def begin_session() -> None:
        try:
            begun.append(Session.start(logdir, options))
        except StepscopeError as error:
            _log.info("stepscope: the steps that follow are not recorded: %s", error)

    if not at_safe_point(begin_session, within_s=MAIN_THREAD_S) or not begun:
        return None
    enough = threading.Event()
    with StepsBegun(steps, enough):
        left_s = _MOST_FOLLOWING_S
        while left_s > 0 and not stopped() and not enough.wait(_LOOK_S):
            left_s -= _LOOK_S
    # The same run, whoever ends it: at the end of the program another thread does.
    at_safe_point(begun[0].stop, within_s=MAIN_THREAD_S)
    return begun[0].stop()
