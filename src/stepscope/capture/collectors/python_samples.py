"""Stack samples: the functions in which the program's threads are, at a fixed rate.

A separate thread samples the stacks of the main thread, of threads that annotate, and
of some other threads, for which a step may wait. The program is not changed, and its
function calls cost nothing extra. One sample takes some microseconds per thread, during
which it holds the GIL.

Definition: docs/definitions/host-time.md#functions.
"""

from __future__ import annotations

import platform
import sys
import threading
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from stepscope._core import recorder, wire
from stepscope.capture.base.annotate import annotating_threads
from stepscope.capture.base.encoding import OWN_THREADS, ThreadNames, native_id
from stepscope.capture.base.functions import FunctionNames, LinesOfCode, only_begins
from stepscope.capture.base.spool import Fragment
from stepscope.capture.collectors.contract import Collected, ThreadCollector
from stepscope.capture.collectors.core_time import CoreClocks, CoreTime
from stepscope.capture.collectors.sampled_frames import (
    RING_SAMPLES,
    EndedFrames,
    FrameStore,
    Sample,
    sample_times,
)
from stepscope.capture.collectors.switch_interval import switching
from stepscope.patterns import RECORDER_CALL, RECORDING_CALL
from stepscope.unavailable import Unavailable
from stepscope.xspace.samples_line import (
    AWAKE,
    OTHER_THREADS,
    READ,
    READY,
    SAMPLED,
    SYSTEM,
    SamplesLine,
)
from stepscope.xspace.vocabulary import HOST_PLANE
from stepscope.xspace.writing.write import XSpaceBuilder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import CodeType

    from stepscope._core.recorder import Stack
    from stepscope.capture.base.clock import ClockPair
    from stepscope.capture.base.functions import CodeLine
    from stepscope.capture.base.options import ProfilerOptions
    from stepscope.capture.collectors.core_time import CoreTimes, Reading
    from stepscope.capture.collectors.sampled_frames import Frame
    from stepscope.xspace.samples_line import SamplesKind
    from stepscope.xspace.writing.builders import PlaneBuilder

_PS_PER_NS: Final = 1000
_NS_PER_S: Final = 1_000_000_000
#: First Python version in which uncompiled code must not sample: it could crash.
_CRASHES: Final = 0x030C_0000
#: Lateness of a sample, in ns, above which it has waited for the GIL.
_HELD_NS: Final = 300_000
#: Maximum frames per sample; deeper frames count as part of the deepest frame kept.
_MAX_FRAMES: Final = 128
#: Maximum number of sampled threads that neither annotate nor are the main thread.
_MAX_OTHER_THREADS: Final = 8
#: Folder of the code that starts, stores and stops a recording on program threads.
_RECORDING: Final = str(Path(__file__).resolve().parents[1] / "recording")
#: Outermost code of every thread that Python starts, even before it is registered.
_THREAD_BOOTSTRAP: Final = threading.Thread._bootstrap.__code__  # type: ignore[attr-defined]  # noqa: SLF001 - has no public name
#: Class of a thread of others that asked for its name, for example to log a line.
_FOREIGN: Final = threading._DummyThread  # noqa: SLF001 - has no public name
_EMPTY: Final[Stack] = ([], [])


class _Raw(NamedTuple):
    """A sample with instruction offsets, which are converted to lines later.

    `codes` and `offsets` are a `recorder.Stack`; other fields are as in `Sample`.
    """

    thread: int
    due_ns: int
    at_ns: int
    codes: Sequence[CodeType]
    offsets: Sequence[int]


class PythonSamplesCollector(ThreadCollector):
    """Collector that samples stacks on a separate thread."""

    name = "python_samples"
    activity = "sampling of functions"

    def __init__(
        self, *, on_frames: Callable[[Sequence[Frame[CodeType]]], object] | None = None
    ) -> None:
        """Prepare the collector; `on_frames` receives the frames that ended."""
        super().__init__()
        self._on_frames = on_frames
        self._hz = 0.0
        self._samples: deque[_Raw] = deque(maxlen=RING_SAMPLES)
        #: Sampled threads: Python's id and the system's id.
        self._threads: Sequence[tuple[int, int]] = ()
        #: Python's ids of all threads that Python started or that annotate.
        self._known: set[int] = set()
        #: System ids of threads not started by Python whose last sample had a function.
        self._visiting: set[int] = set()
        #: Time of the last sample in ns; 0 before the first.
        self._sampled_ns = 0
        #: Time at which sampling ended, in ns; 0 before the end.
        self._ended_ns = 0
        #: System ids of threads that are sampled only because a step may wait for them,
        #: including threads that have ended.
        self._parallel: set[int] = set()
        self._clocks = CoreClocks()
        self._core_time = CoreTime()
        self._readings: deque[list[Reading]] = deque(maxlen=RING_SAMPLES)
        self._names = ThreadNames()
        self._functions = FunctionNames()
        self._lines = LinesOfCode()
        self._recording_lines: dict[CodeLine, CodeLine] = {}
        self._store: FrameStore[CodeLine] = FrameStore(
            lambda code: (self._functions.function_name(code), code.co_filename)
        )

    def why_unavailable(self) -> Unavailable | None:
        """Return None, unless sampling could crash the program.

        Compiled code holds the GIL while it reads other threads' frames. With
        uncompiled code, Python 3.12.1 sometimes crashed, and Python 3.11 never.
        """
        if wire.COMPILED or sys.hexversion < _CRASHES:
            return None
        return Unavailable(
            code="NOT_RECORDED",
            reason="Without compiled kernels, sampling the functions of a running "
            "program can crash it on Python 3.12 and newer.",
            remedy="Install a C compiler, and install stepscope again.",
        )

    def start_collecting(self, options: ProfilerOptions, clock: ClockPair) -> None:
        """Start to sample, unless calls are recorded or the rate is 0."""
        if options.python_tracer_level or not options.python_sampling_hz:
            return
        self._clock = clock
        self._hz = options.python_sampling_hz
        self._choose_threads()
        self._start_thread("samples")

    def take_fragment(self) -> Fragment:
        """Take the frames that ended since the last call."""
        if self._clock is None:
            return Fragment(b"", 0)
        if not self._stop.is_set():
            switching.update_interval()
            self._choose_threads()
        for _ in range(len(self._samples)):
            self._store.add_sample(self._program_sample(self._samples.popleft()))
        for _ in range(len(self._readings)):
            for reading in self._readings.popleft():
                self._core_time.add_reading(reading)
        ended = self._store.take_ended(at_once=self._stop.is_set())
        if ended is None:
            return Fragment(b"", 0)
        return self._write_ended(ended, self._clock, self._core_time.take_times())

    def hand_over(self) -> Collected:
        """Return the remaining frames, including those running at the last sample."""
        self.halt_collecting()
        clock = self._clock
        if clock is None:
            return Collected(b"")
        spooled = self.take_fragment()
        half_ns = int(_NS_PER_S / self._hz / 2)
        until_ns = min(self._sampled_ns + half_ns, self._ended_ns)
        last = self._write_ended(self._store.end_frames(until_ns), clock)
        self._clock = None
        return Collected(spooled.xspace + last.xspace, self._failures)

    def _program_sample(self, raw: _Raw) -> Sample[CodeLine]:
        thread, due_ns, at_ns, codes, offsets = raw
        # A long operation that is not a call, such as freeing a large array, releases
        # the GIL only where the next function begins. A late sample at a function's
        # begin does not mean that the function was slow.
        is_late = at_ns - due_ns > _HELD_NS
        if is_late and codes and only_begins(codes[-1], offsets[-1]):
            codes, offsets = codes[:-1], offsets[:-1]
        stack, called = [], None
        for code, offset in zip(codes, offsets, strict=True):
            # Leave out stepscope's functions, and all functions that a recording calls.
            if self._functions.function_name(code):
                stack.append(self._lines.code_line(code, offset))
                called = None
            elif code.co_filename.startswith(_RECORDING):
                called = RECORDING_CALL
                break
            else:
                called = RECORDER_CALL
        if stack and called is not None:
            line = stack[-1]._replace(called=called)
            stack[-1] = self._recording_lines.setdefault(line, line)
        return Sample(thread, due_ns, at_ns, stack)

    def _choose_threads(self) -> None:
        """Choose the main thread, annotating threads, and some others for sampling."""
        self._names.refresh_names()
        wanted = annotating_threads()
        main = threading.main_thread()
        threads = [
            thread
            for thread in threading.enumerate()
            if not isinstance(thread, _FOREIGN)
            or thread is main
            or native_id(thread) in wanted
        ]
        self._known = {thread.ident for thread in threads if thread.ident is not None}
        numbers = {
            thread.ident: number
            for thread in threads
            if thread.ident is not None and (number := native_id(thread)) is not None
        }
        driving = {
            ident: no
            for ident, no in numbers.items()
            if ident == main.ident or no in wanted
        }
        extra = [
            (thread.ident, numbers[thread.ident])
            for thread in threads
            if thread.ident in numbers.keys() - driving.keys()
            and not thread.name.startswith(OWN_THREADS)
        ]
        extra = extra[:_MAX_OTHER_THREADS]
        self._parallel = (self._parallel | {no for _, no in extra}) - set(
            driving.values()
        )
        self._threads = [*driving.items(), *extra]
        self._clocks.watch_threads(number for _, number in self._threads)

    def record_until_stopped(self) -> None:
        """Sample the stacks until the thread is stopped."""
        try:
            switching.update_interval()
            for due_ns in sample_times(self._hz, self._stop):
                threads = self._threads
                stacks = recorder.thread_stacks([ident for ident, _ in threads])
                visitors = recorder.stacks_beside(self._known)
                at_ns = recorder.clock_ns()
                self._readings.append(self._clocks.read(at_ns))
                for (_, thread), stack in zip(threads, stacks, strict=True):
                    self._keep_sample(thread, due_ns, at_ns, stack)
                self._keep_visitors(visitors, due_ns, at_ns)
                self._sampled_ns = at_ns
        finally:
            self._ended_ns = recorder.clock_ns()
            self._clocks.close_files()
            switching.restore_interval()

    def _keep_visitors(
        self, stacks: Mapping[int, Stack], due_ns: int, at_ns: int
    ) -> None:
        """Keep the samples of threads that Python did not start.

        Frameworks run the Python functions of an input pipeline on such threads, in a
        pool. After a function returns, its thread has no Python frame.
        """
        before, self._visiting = self._visiting, set()
        for thread, stack in stacks.items():
            codes, _ = stack
            if not codes or codes[0] is _THREAD_BOOTSTRAP:
                continue
            self._visiting.add(thread)
            if thread not in before and self._sampled_ns:
                # The thread ran no function at the last sample.
                self._keep_sample(thread, self._sampled_ns, self._sampled_ns, _EMPTY)
            self._keep_sample(thread, due_ns, at_ns, stack)
        for thread in before - self._visiting:
            self._keep_sample(thread, due_ns, at_ns, _EMPTY)

    def _keep_sample(self, thread: int, due_ns: int, at_ns: int, stack: Stack) -> None:
        codes, offsets = stack
        outer = codes[:_MAX_FRAMES], offsets[:_MAX_FRAMES]
        self._samples.append(_Raw(thread, min(due_ns, at_ns), at_ns, *outer))

    def _write_ended(
        self, ended: EndedFrames, clock: ClockPair, core_times: Sequence[CoreTimes] = ()
    ) -> Fragment:
        parallel = self._parallel
        if self._on_frames is not None:
            self._on_frames(
                [frame for frame in ended.functions if frame.thread not in parallel]
            )
        if not any(ended) and not core_times:
            return Fragment(b"", 0)

        def samples_line(thread: int, is_line: bool) -> SamplesLine | None:  # noqa: FBT001 - signature of a callback
            is_parallel = thread in parallel
            if is_line and is_parallel:
                return None
            kind: SamplesKind = "functions_beside" if is_parallel else "functions"
            kind = "source_lines" if is_line else kind
            return SamplesLine(thread, self._names.thread_name(thread), self._hz, kind)

        space = XSpaceBuilder(platform.node(), start_ns=None)
        plane = space.plane(HOST_PLANE)
        begins = self._store.write_frames(
            plane, ended, line_of=samples_line, clock=clock
        )
        for times in core_times:
            self._write_core_time(plane, times, clock)
        begins += [times.begin_ns for times in core_times]
        return Fragment(space.to_bytes(), len(begins), min(begins))

    def _write_core_time(
        self, plane: PlaneBuilder, times: CoreTimes, clock: ClockPair
    ) -> None:
        known = times.thread != OTHER_THREADS
        name = self._names.thread_name(times.thread) if known else "other threads"
        line = SamplesLine(times.thread, name, self._hz, "core_time")
        intervals = sorted(
            [
                (times.begin_ns, -times.end_ns, READ),
                *((begin, -end, AWAKE) for begin, end in times.awake_ns),
                *((begin, -end, READY) for begin, end in times.ready_ns),
                *((begin, -end, SYSTEM) for begin, end in times.system_ns),
                *((at, -at, SAMPLED) for at in (() if known else times.read_ns)),
            ]
        )
        types = [
            plane.event_type(name, type_id=self._store.type_number(name))
            for _, _, name in intervals
        ]
        ranges = np.array([(begin, -end) for begin, end, _ in intervals], np.int64)
        plane.line(line.id, name=line.name).events(
            np.array(types, np.int64),
            (ranges[:, 0] - clock.monotonic_ns) * _PS_PER_NS,
            (ranges[:, 1] - ranges[:, 0]) * _PS_PER_NS,
        )
