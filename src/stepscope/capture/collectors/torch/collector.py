"""Recording with PyTorch's own profiler (Kineto): ops, kernels, copies, memory, shapes.

The result is converted to planes of the profile message (`planes`). All threads are
recorded if this PyTorch supports it.

Definition: docs/capture.md#how-the-recorders-are-driven.
"""

from __future__ import annotations

import ctypes
import gc
import os
import socket
import sys
import tempfile
import threading
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from stepscope.capture.base import annotate
from stepscope.capture.collectors.contract import Collected
from stepscope.capture.collectors.frameworks import Entrance, Framework, OpenRecordings
from stepscope.capture.collectors.levels import TracerLevels, level_warnings
from stepscope.capture.collectors.torch.activities import (
    Activities,
    exported_activities,
    live_activities,
    thread_names,
    used_devices,
)
from stepscope.capture.collectors.torch.planes import CALLS, ON_STREAM, build_planes
from stepscope.capture.temporary import folder_prefix
from stepscope.xspace.vocabulary import EnvironmentStat, forwarded_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from contextlib import AbstractContextManager

    from stepscope.capture.base.clock import ClockPair
    from stepscope.capture.base.options import ProfilerOptions

_OPEN: Final = OpenRecordings()
_OWN: Final = "the program's own PyTorch profiler"
#: PyTorch functions that start a profiler, in the order in which PyTorch calls them.
_ENTRANCES: Final = (
    "_prepare_profiler",
    "_run_on_profiler_start",
    "_enable_profiler",
    "_enable_profiler_legacy",
)
#: Host level of a recording with ops; PyTorch records either all ops or none.
_OPS: Final = 2
_ONE_CYCLE: Final = "Warning: Profiler clears events at the end of each cycle"
_ONE_THREAD: Final = (
    "PyTorch reports allocations only for the thread that starts the recording: ops "
    "of other threads were not recorded"
)
_NO_DEVICE_EVENTS: Final = (
    "PyTorch's profiler recorded nothing of the GPU, not even a call of its runtime: "
    "another profiler uses it (of two frameworks that record one GPU, the second gets "
    "no events), or users of this machine are not allowed to profile"
)
_NO_MEMORY: Final = (
    "allocations were not recorded: PyTorch reports them for one thread only, and the "
    "recording was not started on the main thread"
)


class TorchRefused(Exception):
    """PyTorch's profiler cannot record or return events; the message is one line."""


class TorchCollector(Framework):
    """Collector that records with PyTorch's profiler if PyTorch is imported."""

    name = "torch"
    framework = "PyTorch"
    no_profiler = (
        "This build of PyTorch has no profiler.",
        "Install a build of PyTorch 2.2 or newer with Kineto.",
    )
    left_over = _OPEN

    def __init__(self) -> None:
        super().__init__()
        self._recording: _Recording | None = None
        self._rehearses = False

    def prepare_rehearsal(self) -> None:
        """Record so that an op may end in the next recording."""
        self._rehearses = True

    def has_profiler(self) -> bool:
        """Return whether this PyTorch was built with a profiler."""
        try:
            return bool(_native_profiler())
        except (ImportError, AttributeError):
            return False

    def begin_recording(self, options: ProfilerOptions, clock: ClockPair) -> None:
        """Begin to record."""
        self._recording = _Recording(options, clock, rehearses=self._rehearses)
        self.traces_python = self._recording.traces_python

    def halt_recording(self) -> None:
        """Stop recording."""
        if self._recording is not None:
            self._recording.halt_profiler()

    def end_recording(self) -> Collected:
        """Halt and return the recording."""
        recording, self._recording = self._recording, None
        return Collected(b"") if recording is None else recording.collect_results()

    def count_events(self) -> int:
        """Stop recording, and return the number of events; 0 if it is unknown."""
        with self._own_calls:
            if self._collected is not None or self._recording is None:
                return 0
            return self._recording.count_events()

    def drop_recording(self) -> None:
        """Halt without reading the recorded events."""
        recording, self._recording = self._recording, None
        if recording is not None:
            recording.drop_results()

    def leave_recording(self) -> None:
        """Abandon the recorded events, because the process ends."""
        recording, self._recording = self._recording, None
        if recording is not None:
            recording.leave_profiler()

    def list_entrances(self) -> Iterable[Entrance]:
        """Yield functions that each PyTorch profiler calls before it changes state."""
        for module in ("profiler", "profiler_legacy"):
            owner = sys.modules.get(f"torch.autograd.{module}")
            for name in _ENTRANCES:
                yield Entrance(owner, name, _OWN)

    def program_profiler(self) -> str | None:
        """Return PyTorch's profiler if it records or is about to; else None.

        PyTorch does not report a profiler during warmup: `gc` is searched for one.
        """
        from torch.autograd import (  # noqa: PLC0415 - the program's framework
            _profiler_enabled,
            profiler,
        )

        records = (
            getattr(profiler, "_is_profiler_enabled", False)
            or _profiler_enabled()
            or any(
                type(referrer) is profiler.profile
                and referrer.entered
                and referrer.kineto_results is None
                for referrer in gc.get_referrers(profiler.profile)
            )
        )
        return _OWN if records else None


class _Recording:
    def __init__(
        self, options: ProfilerOptions, clock: ClockPair, *, rehearses: bool
    ) -> None:
        from torch import profiler  # noqa: PLC0415 - the program's framework

        self._clock = clock
        self._requested = TracerLevels.asked(options)
        self._levels = TracerLevels(
            host=_OPS if self._requested.host else 0,
            device=self._requested.device,
            python=self._requested.python if self._requested.host else 0,
        )
        self._warnings: list[str] = []
        activities = [
            activity
            for activity in profiler.supported_activities()
            if (
                self._levels.host
                if activity == profiler.ProfilerActivity.CPU
                else self._levels.device
            )
        ]
        self.traces_python = False
        self._profiler: Any = None
        self._forward: _Forward | None = None
        self._was_given = False
        self._stop_ns: int | None = None
        if not activities:
            return
        every_thread = self._start_profiler(options, activities, rehearses=rehearses)
        if every_thread is None:
            return
        self.traces_python = bool(self._levels.python)
        self._thread = None if every_thread else threading.get_ident()
        if (
            self._levels.host
            and not rehearses
            and hasattr(_native_profiler(), "_RecordFunctionFast")
        ):
            self._forward = _Forward(every_thread=every_thread)
            annotate.add_forward(self._forward)

    def halt_profiler(self) -> None:
        if self._forward is not None:
            self._was_given |= annotate.remove_forward(self._forward)
            self._forward.is_over = True
        if self._profiler is None or self._stop_ns is not None:
            return
        if self._thread not in (None, threading.get_ident()):
            raise TorchRefused(
                "a recording of one thread must be stopped by the thread that started "
                "it: PyTorch's part is lost"
            )
        self._profiler.stop()
        _OPEN.forget_recording(self._profiler.stop)
        self._stop_ns = time.time_ns()

    def collect_results(self) -> Collected:
        self.halt_profiler()
        if self._profiler is None or self._stop_ns is None:
            return Collected(b"")
        try:
            return self._collect_activities(self._stop_ns)
        finally:
            self._let_go()

    def count_events(self) -> int:
        self.halt_profiler()
        inner = getattr(self._profiler, "profiler", None)
        result = getattr(inner, "kineto_results", None)
        hand_out = getattr(result, "trace_activities", None)
        return 0 if hand_out is None else len(hand_out())

    def drop_results(self) -> None:
        try:
            self.halt_profiler()
        finally:
            self._let_go()

    def leave_profiler(self) -> None:
        """Leave PyTorch's profiler on: stopping it takes about 20 µs per op."""
        if self._profiler is None or self._stop_ns is not None:
            return
        if not skip_exit_handlers_of_c():
            self.halt_profiler()
            return
        if self._forward is not None:
            annotate.remove_forward(self._forward)
        _OPEN.forget_recording(self._profiler.stop)
        # Keep the profiler alive: freeing it takes as long as stopping it.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._profiler))

    def _collect_activities(self, stop_ns: int) -> Collected:
        events = _hand_out_activities(self._profiler)
        if not len(events):
            self._warnings.append(
                "PyTorch returned no events: no op ran, or another PyTorch profiler "
                "was started meanwhile"
            )
        # PyTorch waits for the device at the end of a recording, so a working tracer
        # records at least that call.
        elif (
            self._levels.device
            and events.devices
            and not any(
                category in ON_STREAM or category.endswith(CALLS)
                for category in events.category
            )
        ):
            self._warnings.append(_NO_DEVICE_EVENTS)
        if events.left_out:
            self._warnings.append(
                f"dropped {events.left_out} events: PyTorch's latest events, Python "
                "calls first, because storing them would delay the program; record "
                "fewer steps, or no Python calls. Only steps that ended before the "
                "first dropped event are judged"
            )
        planes = build_planes(
            events,
            hostname=socket.gethostname(),
            process=os.getpid(),
            start_ns=self._clock.wall_ns,
            stop_ns=stop_ns,
        )
        planes.environment().stat("profile_options", self._levels.message())
        if events.complete_until_ns is not None:
            planes.environment().stat(
                EnvironmentStat.COMPLETE_UNTIL, events.complete_until_ns
            )
        differ = level_warnings("PyTorch", self._requested, self._levels)
        return Collected(
            planes.to_bytes(),
            (*self._warnings, *differ),
            holds_annotations=self._was_given and len(events) > 0,
        )

    def _start_profiler(
        self, options: ProfilerOptions, activities: list[Any], *, rehearses: bool
    ) -> bool | None:
        """Start the profiler; return whether it records all threads, None if it cannot.

        PyTorch 2.13 and before write into freed memory when an op that began in one
        recording ends in the next, if both record all threads or both record one. So a
        rehearsal is of the other kind than the recording after it.
        """
        from torch.profiler import profile  # noqa: PLC0415 - the program's framework

        stacks = bool(self._levels.python)
        memory = options.profile_memory
        if memory:
            in_main = threading.current_thread() is threading.main_thread()
            self._warnings.append(_ONE_THREAD if in_main else _NO_MEMORY)
            memory = in_main
        config = _every_thread(stacks=stacks)
        if rehearses and config is None:
            return None
        if memory != rehearses:
            config = None
        memory = memory and not rehearses
        settings = {} if config is None else {"experimental_config": config}
        profiler = profile(
            activities=activities,
            record_shapes=options.record_shapes,
            profile_memory=memory,
            with_stack=stacks,
            **settings,
        )
        _OPEN.add_recording(profiler.stop)
        with warnings.catch_warnings():
            # PyTorch 2.11 always warns about a second cycle, which is not used here.
            warnings.filterwarnings("ignore", message=_ONE_CYCLE)
            profiler.start()
        self._profiler = profiler
        return config is not None

    def _let_go(self) -> None:
        """Free PyTorch's recorded events now.

        PyTorch's profiler is part of a reference cycle. A later garbage collection
        would free the events on a separate thread. The program crashes if another
        PyTorch profiler runs at that time.
        """
        profiler, self._profiler = self._profiler, None
        inner = getattr(profiler, "profiler", None)
        if inner is not None and hasattr(inner, "kineto_results"):
            inner.kineto_results = None
            # A profiler that was entered but has no results would count as ready to
            # record.
            inner.entered = False


def skip_exit_handlers_of_c() -> bool:
    """Make the process exit right after Python has finished; return whether it will.

    The exit status is kept, and C buffers are flushed. Exit handlers of C do not tear
    down a framework's profiler that is still on, which would take long or crash.
    """
    libc = ctypes.CDLL(None)
    try:
        # C calls the last handler first, and passes the exit status, as `_exit` needs.
        return not any(
            libc["on_exit"](ctypes.cast(handler, ctypes.c_void_p), None)
            for handler in (libc["_exit"], libc["fcloseall"])
        )
    except AttributeError:
        # Only the GNU C library has `on_exit`.
        return False


def _hand_out_activities(profiler: Any) -> Activities:
    result = getattr(profiler.profiler, "kineto_results", None)
    devices = used_devices()
    live = live_activities(result, thread_names=thread_names(), devices=devices)
    if live is not None:
        return live
    with tempfile.TemporaryDirectory(prefix=folder_prefix("torch")) as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        exported = exported_activities(path.read_bytes())
        # The export lists all GPUs of the machine, even unused ones.
        return replace(exported, devices=devices)


#: PyTorch's ranges that were open when their recording ended, kept for ever.
_LEFT_OPEN: Final[list[AbstractContextManager[object]]] = []


class _Forward:
    """Forwarder of annotations to PyTorch, on the threads that PyTorch records.

    Attributes:
        is_over: Whether the recording has ended, so that no range may end any more.
    """

    def __init__(self, *, every_thread: bool) -> None:
        import torch  # noqa: PLC0415 - the program's framework

        self.is_over = False
        self._make = _native_profiler()._RecordFunctionFast  # noqa: SLF001 - no public name
        self._recorded_here = (
            None if every_thread else torch.autograd._profiler_enabled  # noqa: SLF001 - no public name
        )

    def __call__(
        self, name: str, stats: Mapping[str, object]
    ) -> AbstractContextManager[object]:
        if self._recorded_here is not None and not self._recorded_here():
            raise TorchRefused("PyTorch does not record this thread")
        return _Range(self, self._make(forwarded_name(name, stats)))


class _Range:
    """A range of PyTorch that does not end in a later recording.

    Its end, or the release of its memory, would be written into the freed memory of the
    recording in which it began.
    """

    __slots__ = ("_forward", "_range")

    def __init__(
        self, forward: _Forward, torch_range: AbstractContextManager[object]
    ) -> None:
        self._forward = forward
        self._range = torch_range

    def __enter__(self) -> None:
        self._range.__enter__()

    def __exit__(self, *error: object) -> None:
        if self._forward.is_over:
            _LEFT_OPEN.append(self._range)
        else:
            self._range.__exit__(*error)  # type: ignore[arg-type]


def _native_profiler() -> Any:
    import torch.profiler  # noqa: PLC0415 - the program's framework

    return torch._C._profiler  # noqa: SLF001 - no public name for the fast annotation


def _every_thread(*, stacks: bool) -> Any:
    """Return the setting to record all threads; None if PyTorch has no such setting."""
    make = getattr(_native_profiler(), "_ExperimentalConfig", None)
    # Stopping is much faster without event objects, but Python calls need them.
    quick = {} if stacks else {"trace_only": True}
    for settings in (quick, {}):
        try:
            return make(profile_all_threads=True, **settings) if make else None
        except TypeError:
            continue
    return None
