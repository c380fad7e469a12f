"""Stack samples of the program's worker processes, read from their memory.

A separate thread samples the first thread of each process that multiprocessing started,
25 times a second. The worker is not changed and runs no extra code: its memory is read
as a file. A sample takes some microseconds, while other threads of the program may run.

Definition: docs/definitions/host-time.md#worker-processes.
"""

from __future__ import annotations

import platform
from collections import deque
from typing import TYPE_CHECKING, Final

from stepscope._core import recorder, remote_stacks
from stepscope.capture.base.spool import Fragment
from stepscope.capture.collectors.contract import Collected, ThreadCollector
from stepscope.capture.collectors.process import child_processes
from stepscope.capture.collectors.sampled_frames import (
    RING_SAMPLES,
    EndedFrames,
    FrameStore,
    Sample,
    sample_times,
)
from stepscope.capture.collectors.workers.layout import layout_here
from stepscope.capture.collectors.workers.memory import place_of_runtime
from stepscope.capture.collectors.workers.worker import (
    StackBuffers,
    Workers,
    attach_worker,
    why_not_understood,
)
from stepscope.xspace.samples_line import SamplesLine
from stepscope.xspace.vocabulary import HOST_PLANE, UNSAMPLED, Unsampled
from stepscope.xspace.writing.write import XSpaceBuilder

if TYPE_CHECKING:
    from stepscope.capture.base.clock import ClockPair
    from stepscope.capture.base.options import ProfilerOptions
    from stepscope.capture.collectors.workers.layout import Layout
    from stepscope.capture.collectors.workers.memory import Place
    from stepscope.capture.collectors.workers.worker import RemoteLine, Worker
    from stepscope.xspace.samples_line import SamplesKind

#: Maximum samples a second. Workers take tens of milliseconds to produce a batch, so
#: they need far fewer samples than steps do.
_MAX_HZ: Final = 25.0
#: Maximum number of workers per sampling turn; more workers take turns.
_WORKERS_PER_TURN: Final = 8
_MAX_WORKERS: Final = 64
#: Number of sampling turns between two searches for new workers.
_TURNS_PER_SEARCH: Final = 3
#: Share of invalid samples above which a warning is given, and the smallest number
#: that shows a share: a stack that changes while it is read is invalid now and then.
_MAX_LOST_SHARE: Final = 0.1
_MIN_LOST: Final = 5
_ENDED: Final = frozenset({remote_stacks.GONE, remote_stacks.OTHER})


class WorkersCollector(ThreadCollector):
    """Collector that samples worker processes on a separate thread."""

    name = "workers"
    activity = "sampling of worker processes"

    def __init__(self) -> None:
        super().__init__()
        self._hz = 0.0
        self._samples: deque[Sample[RemoteLine]] = deque(maxlen=RING_SAMPLES)
        self._names: dict[int, str] = {}
        self._shared = Workers()
        #: Only the sampling thread uses the workers: it opens and closes their memory.
        self._workers: dict[int, Worker] = {}
        self._unsampled: dict[int, Unsampled] = {}
        self._buffers: StackBuffers | None = None
        self._turn = 0
        self._begun = 0
        self._lost = 0
        self._beyond = 0
        self._store: FrameStore[RemoteLine] = FrameStore(tuple)
        self._why_not: Unsampled | None = None

    def start_collecting(self, options: ProfilerOptions, clock: ClockPair) -> None:
        """Begin to sample with the first worker, unless the sampling rate is 0."""
        self._hz = min(options.python_sampling_hz, _MAX_HZ)
        if self._hz:
            self._clock = clock
            self._start_if_needed()

    def take_fragment(self) -> Fragment:
        """Take the frames that ended since the last call."""
        if self._clock is None:
            return Fragment(b"", 0)
        self._start_if_needed()
        for _ in range(len(self._samples)):
            self._store.add_sample(self._samples.popleft())
        ended = self._store.take_ended(at_once=self._stop.is_set())
        if ended is None:
            return Fragment(b"", 0)
        return self._write_ended(ended, self._clock)

    def hand_over(self) -> Collected:
        """Stop and return the remaining frames, with warnings about missed workers."""
        self.halt_collecting()
        clock = self._clock
        if clock is None:
            return Collected(b"")
        spooled = self.take_fragment()
        last = self._write_ended(self._store.end_frames(), clock)
        self._clock = None
        warnings = list(self._failures)
        why_not = self._why_not or next(iter(self._unsampled.values()), None)
        if why_not is not None:
            warnings.append(why_not.warning)
        if self._lost >= max(_MIN_LOST, _MAX_LOST_SHARE * self._begun):
            warnings.append(
                f"{self._lost} of {self._begun} samples of worker processes had no "
                "valid stack and are left out"
            )
        if self._beyond:
            warnings.append(
                f"{_MAX_WORKERS} worker processes were sampled; {self._beyond} more "
                "were not"
            )
        return Collected(spooled.xspace + last.xspace, tuple(warnings))

    def _start_if_needed(self) -> None:
        if self._thread is None and not self._stop.is_set() and child_processes():
            self._start_thread("workers")

    def record_until_stopped(self) -> None:
        """Sample the workers until the thread is stopped."""
        try:
            layout = layout_here()
            if isinstance(layout, Unsampled):
                self._why_not = layout
                return
            self._why_not = why_not_understood(layout)
            if self._why_not is not None:
                return
            own = place_of_runtime("self")
            if own is None:
                self._why_not = UNSAMPLED["python"]
                return
            for due_ns in sample_times(self._hz, self._stop):
                if self._turn % _TURNS_PER_SEARCH == 0:
                    self._choose_workers(layout, own)
                self._turn += 1
                self._sample_workers(layout, due_ns)
        finally:
            for worker in self._workers.values():
                worker.close_memory()

    def _choose_workers(self, layout: Layout, own: Place) -> None:
        processes = child_processes()
        for process in self._workers.keys() - processes.keys():
            self._let_go(process, recorder.clock_ns())
        for process in self._unsampled.keys() - processes.keys():
            # Report why an ended worker was missed only if no other worker is known.
            if len(self._unsampled) > 1 or self._workers:
                del self._unsampled[process]
        free_slots = _MAX_WORKERS - len(self._workers)
        new = [
            process
            for process in processes
            if process not in self._workers and process not in self._unsampled
        ]
        self._beyond = max(self._beyond, len(new) - free_slots)
        for process in new[:free_slots]:
            name = processes[process]
            worker = attach_worker(
                process, name, layout=layout, own=own, shared=self._shared
            )
            if isinstance(worker, Unsampled):
                self._unsampled[process] = worker
            elif worker is not None:
                self._workers[process] = worker
                self._names[process] = name

    def _sample_workers(self, layout: Layout, due_ns: int) -> None:
        """Sample several workers in one call, which acquires the GIL only once."""
        chosen = list(self._workers)
        if not chosen:
            return
        if len(chosen) > _WORKERS_PER_TURN:
            first = self._turn * _WORKERS_PER_TURN % len(chosen)
            chosen = (chosen[first:] + chosen[:first])[:_WORKERS_PER_TURN]
        workers = [self._workers[process] for process in chosen]
        buffers = self._buffers
        if buffers is None or buffers.processes != chosen:
            buffers = self._buffers = StackBuffers.make_buffers(
                chosen,
                [worker.memory.file for worker in workers],
                [worker.state for worker in workers],
                layout,
            )
        remote_stacks.sample_stack(*buffers.arrays)
        at_ns = recorder.clock_ns()
        due_ns = min(due_ns, at_ns)
        for row, (process, worker) in enumerate(zip(chosen, workers, strict=True)):
            depth = int(buffers.counts[row])
            if depth in _ENDED:
                self._let_go(process, at_ns)
                continue
            self._begun += 1
            codes, instructions = buffers.out[row, :, : max(depth, 0)].tolist()
            stack = (
                worker.program_stack(codes, instructions, at_ns) if depth > 0 else None
            )
            if stack is None:
                self._lost += 1
            else:
                self._samples.append(Sample(process, due_ns, at_ns, stack))

    def _let_go(self, process: int, at_ns: int) -> None:
        """Stop sampling a process that has ended or executes another program."""
        self._workers.pop(process).close_memory()
        # A new process may get the same process id and file descriptor.
        self._buffers = None
        self._samples.append(Sample(process, at_ns, at_ns, []))

    def _write_ended(self, ended: EndedFrames, clock: ClockPair) -> Fragment:
        if not any(ended):
            return Fragment(b"", 0)

        def samples_line(process: int, is_line: bool) -> SamplesLine:  # noqa: FBT001 - signature of a callback
            kind: SamplesKind = "functions_of_worker"
            kind = "source_lines_of_worker" if is_line else kind
            return SamplesLine(process, self._names[process], self._hz, kind)

        space = XSpaceBuilder(platform.node(), start_ns=None)
        begins = self._store.write_frames(
            space.plane(HOST_PLANE), ended, line_of=samples_line, clock=clock
        )
        return Fragment(space.to_bytes(), len(begins), min(begins))
