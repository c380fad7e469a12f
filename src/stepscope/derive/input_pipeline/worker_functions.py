"""`worker_functions`: what the program's worker processes do while steps run.

Worker processes are sampled from outside, one thread of each process. Worker time is
not part of a step; shares are of the time in which workers were sampled during steps.

Definition: docs/definitions/host-time.md#worker-processes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import msgspec
import numpy as np

from stepscope.derive.account.function_parts import calling_function, function_parts
from stepscope.derive.host.function_frames import MIN_INTERVAL_SAMPLES, FunctionFrames
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.reasons import WHY
from stepscope.frozen import Frozen
from stepscope.patterns import Pattern
from stepscope.unavailable import Unavailable
from stepscope.xspace.vocabulary import unseen_reason

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

    from stepscope.array_types import Bools
    from stepscope.derive.account.function_parts import FunctionPart
    from stepscope.derive.account.time_by_cause import Account
    from stepscope.derive.host.function_lines import FunctionLines
    from stepscope.derive.host.function_names import FunctionName
    from stepscope.derive.step_windows.windows import Windows

#: Name of the counter of worker processes in recordings of programs that have them.
_COUNTED: Final = "worker processes"
#: Files of queues between processes: Python's, and those of joblib and PyTorch.
_QUEUES: Final = Pattern(
    r"/(?:multiprocessing|loky/backend|torch/multiprocessing)/queues?\.py\Z"
)
_CONNECTIONS: Final = Pattern(r"/multiprocessing/connection\.py\Z")
#: File of calls of objects in other processes. A worker waits during such a call.
_OBJECTS: Final = Pattern(r"/multiprocessing/managers\.py\Z")
_TAKES: Final = Pattern(r"(?:^|\.)get\Z")
_PUTS: Final = Pattern(r"(?:^|\.)put\Z")
_RECEIVES: Final = Pattern(r"(?:^|\.)(?:recv|recv_bytes|recv_bytes_into|poll)\Z")
_SENDS: Final = Pattern(r"(?:^|\.)(?:send|send_bytes)\Z")
_NOTHING: Final = np.array([], np.int64)
#: Minimum share of the workers' working time that counts as most of that time.
_MIN_MAIN_SHARE: Final = 0.5
#: Minimum share of a named function in the workers' sampled time.
_MIN_NAMED_SHARE: Final = 0.2


class WorkerFunction(Frozen, frozen=True, eq=True):
    """Time that worker processes spent in one function.

    Attributes:
        function: Function of the program, with its class; if none ran, a library's
            function.
        file: File of the function; None if unknown.
        line: First line of the function; None if unknown.
        hot_line: Line of the function with most of the time; None if unknown.
        inside: Callee with most of the time; None if most is self time.
        time_ps: Time in all workers, including callees without a separate entry.
    """

    function: str
    file: str | None
    line: int | None
    hot_line: int | None
    inside: str | None
    time_ps: int


class WorkerFunctions(Frozen, frozen=True):
    """What the worker processes of one host do while its measured steps run.

    Attributes:
        workers: Number of workers that were sampled during the steps.
        sampled_ps: Sampled time of all workers: waiting, handing over and working.
        waits_ps: Time in which workers wait for work.
        gives_ps: Time in which workers hand over results.
        functions: Working time by function, most time first.
        most: The program's deepest function whose total time is most of the working
            time; None if there is none, or if no function is known to be the program's.
        looks: Approximate number of samples.
        awaited_ps: Time in which steps wait for a batch while workers were sampled.
        idle_ps: Part of `awaited_ps` in which no worker produced a batch or handed one
            over: more workers would not have made the wait shorter.
        waited_ps: Other waits of the steps (`wait`) while workers were sampled.
        alone_ps: Part of `waited_ps` in which exactly one of several workers works.
    """

    workers: int
    sampled_ps: int
    waits_ps: int
    gives_ps: int
    functions: tuple[WorkerFunction, ...]
    most: WorkerFunction | None
    looks: int
    awaited_ps: int
    idle_ps: int
    waited_ps: int = 0
    alone_ps: int = 0

    @property
    def works_ps(self) -> int:
        """The time in which workers produce results."""
        return self.sampled_ps - self.waits_ps - self.gives_ps

    @property
    def worth_naming(self) -> WorkerFunction | None:
        """The function whose total time is most of the workers' working time.

        The function belongs to the program, or if none does, to a library. None if no
        function takes most of it, or if the function has little time or few samples.
        """
        main = self.most
        if main is None and self.functions:
            most = self.functions[0]
            main = most if most.time_ps >= _MIN_MAIN_SHARE * self.works_ps else None
        if main is None or self.looks < MIN_INTERVAL_SAMPLES:
            return None
        return main if main.time_ps >= _MIN_NAMED_SHARE * self.sampled_ps else None


def worker_functions(
    *,
    event_types: pl.DataFrame,
    quality: pl.DataFrame,
    environment: pl.DataFrame,
    worker_frames: FunctionFrames | Unavailable,
    worker_lines: FunctionLines | Unavailable,
    windows: Windows | Unavailable,
    account: Account | Unavailable,
) -> WorkerFunctions | Unavailable:
    """Sum the samples of worker processes within the measured steps."""
    if isinstance(worker_frames, Unavailable):
        return _why_not(event_types, quality, environment)
    if isinstance(windows, Unavailable):
        return windows
    steps = windows.judged
    row = _JoinedWorkers.line_up_workers(worker_frames, steps)
    if not len(row.looked):
        return WHY["no_worker_samples"]
    waits = row.queue_spans("waits")
    sends = row.queue_spans("gives") - waits
    works = row.looked - waits - sends
    lines = None if isinstance(worker_lines, Unavailable) else worker_lines
    rate = worker_frames.hz or 0.0
    # Find the time in which a step on any device waits: for its batch, or otherwise.
    awaited, waited = (
        steps
        & row.clock_times(row.looked)
        & Spans.union_of(
            device.idle.get(owner, Spans.empty())
            for device in (() if isinstance(account, Unavailable) else account.devices)
        )
        for owner in ("input", "wait")
    )
    parts = function_parts(row.frames, works, track=0, windows=(_NOTHING, _NOTHING))
    caller = calling_function(
        row.frames, works, tracks=(0,), windows=(_NOTHING, _NOTHING)
    )
    return WorkerFunctions(
        workers=row.workers,
        sampled_ps=row.looked.length_ps,
        waits_ps=waits.length_ps,
        gives_ps=sends.length_ps,
        functions=tuple(
            _worker_function(row, part, lines, steps)
            for part in parts
            if part.type >= 0
        ),
        most=None if caller is None else _worker_function(row, caller, lines, steps),
        looks=round(row.looked.length_ps * rate / 1e12),
        awaited_ps=awaited.length_ps,
        idle_ps=(awaited - row.clock_times(works | sends)).length_ps,
        waited_ps=waited.length_ps,
        alone_ps=(waited & row.times_alone(works)).length_ps,
    )


class _JoinedWorkers(NamedTuple):
    """Frames of all workers, shifted in time so that one worker follows another.

    Attributes:
        frames: The frames, with times shifted by `width` per earlier worker.
        looked: Sampled time within the steps, shifted in the same way.
        workers: Number of workers with sampled time within the steps.
        first: Clock time, in ps, that corresponds to the shifted time 0.
        width: Shift between a worker and the next worker, in ps.
        places: Number of workers, with or without samples within the steps.
    """

    frames: FunctionFrames
    looked: Spans
    workers: int
    first: int
    width: int
    places: int

    @classmethod
    def line_up_workers(cls, frames: FunctionFrames, steps: Spans) -> _JoinedWorkers:
        first = int(min(frames.start_ps.min(), steps.start_ps.min(initial=0)))
        width = int(max(frames.end_ps.max(), steps.end_ps.max(initial=0))) - first + 1
        tracks, index = np.unique(frames.track, return_inverse=True)
        later = index.astype(np.int64) * width - first
        start, end = frames.start_ps + later, frames.end_ps + later
        outermost = frames.parent < 0
        recorded = Spans.from_events(start[outermost], (end - start)[outermost])
        ranges = [
            Spans(
                steps.start_ps + number * width - first,
                steps.end_ps + number * width - first,
            )
            for number in range(len(tracks))
        ]
        sampled = recorded & Spans.union_of(ranges)
        moved = msgspec.structs.replace(
            frames, track=np.zeros_like(frames.track), start_ps=start, end_ps=end
        )
        with_time = sum(len(sampled & span) > 0 for span in ranges)
        return cls(moved, sampled, with_time, first, width, len(tracks))

    def clock_times(self, spans: Spans) -> Spans:
        """Convert shifted times to clock times, united over all workers."""
        return Spans.union_of(self._by_worker(spans))

    def times_alone(self, works: Spans) -> Spans:
        """Return the clock times at which exactly one of several workers works."""
        seen, several = Spans.empty(), Spans.empty()
        for worked in self._by_worker(works) if self.workers > 1 else ():
            several, seen = several | (seen & worked), seen | worked
        return seen - several

    def _by_worker(self, spans: Spans) -> Iterator[Spans]:
        for number in range(self.places):
            begin = number * self.width
            own_spans = spans.clip(begin, begin + self.width)
            back = self.first - begin
            yield Spans(own_spans.start_ps + back, own_spans.end_ps + back)

    def queue_spans(self, what: Literal["waits", "gives"]) -> Spans:
        """Return when workers wait for work, or hand over results (shifted times)."""
        on_queue, on_pipe = (_TAKES, _RECEIVES) if what == "waits" else (_PUTS, _SENDS)
        frames = self.frames
        queued = self._kinds_named(_QUEUES, on_queue)
        sent = self._kinds_named(_CONNECTIONS, on_pipe)
        above = np.where(frames.parent >= 0, frames.type[frames.parent], -1)
        objects = [
            kind for kind, name in frames.names.items() if _is_in_file(name, _OBJECTS)
        ]
        chosen = np.isin(frames.type, queued)
        chosen |= np.isin(frames.type, sent) & ~np.isin(above, objects)
        return self.looked & frames.spans(chosen)

    def _kinds_named(self, file: Pattern[str], function: Pattern[str]) -> list[int]:
        return [
            kind
            for kind, name in self.frames.names.items()
            if _is_in_file(name, file) and function.search(name.function)
        ]


def _is_in_file(name: FunctionName, file: Pattern[str]) -> bool:
    return file.search((name.file or "").replace("\\", "/")) is not None


def _worker_function(
    row: _JoinedWorkers, part: FunctionPart, lines: FunctionLines | None, steps: Spans
) -> WorkerFunction:
    names = row.frames.names
    name = names[part.type]
    hot_line = None
    if lines is not None:
        chosen: Bools = (lines.type == part.type) & (lines.line >= 0)
        if chosen.any():
            spent = steps.within(lines.start_ps[chosen], lines.end_ps[chosen])
            number, index = np.unique(lines.line[chosen], return_inverse=True)
            hot_line = int(number[int(np.bincount(index, weights=spent).argmax())])
    return WorkerFunction(
        function=name.function,
        file=name.file,
        line=name.line,
        hot_line=hot_line,
        inside=names[part.detail].function if part.detail >= 0 else None,
        time_ps=part.time_ps,
    )


def _why_not(
    event_types: pl.DataFrame, quality: pl.DataFrame, environment: pl.DataFrame
) -> Unavailable:
    if environment["collectors"].is_null().all():
        return WHY["workers_of_other_profiler"]
    if not (event_types["name"] == _COUNTED).any():
        return WHY["no_workers"]
    reasons = (unseen_reason(message) for message in quality["message"])
    reason = next((reason for reason in reasons if reason is not None), None)
    if reason is None:
        return WHY["workers_not_sampled"]
    return Unavailable(
        code="NOT_RECORDED",
        reason=f"The functions of worker processes were not sampled: {reason.reason}.",
        remedy=reason.remedy,
    )
