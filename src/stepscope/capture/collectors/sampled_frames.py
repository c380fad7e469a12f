"""Stack samples of a thread: sampling times, and frames built from the samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from stepscope._core import recorder
from stepscope.xspace.fields import INT, TEXT
from stepscope.xspace.samples_line import CALLED, FILE_PATH, LINE, UNUSED
from stepscope.xspace.writing.encode import StatColumn

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator, Sequence

    from stepscope.capture.base.clock import ClockPair
    from stepscope.xspace.samples_line import SamplesLine
    from stepscope.xspace.writing.builders import PlaneBuilder

#: A function's code, or one line of a function; the same object for each sample.
Code = TypeVar("Code")


class _LineOfCode(Protocol):
    """One line of a function; None if the instruction belongs to no line."""

    @property
    def code(self) -> Any: ...
    @property
    def line(self) -> int | None: ...


Line = TypeVar("Line", bound=_LineOfCode)

#: Maximum number of threads kept; if exceeded, ended threads are dropped.
_MAX_THREADS: Final = 4_096


class Sample(NamedTuple, Generic[Code]):
    """One sample of a thread's stack.

    Attributes:
        due_ns: Planned time of the sample, in ns of the monotonic clock, <= `at_ns`.
        stack: Functions or lines, the outermost first; empty if the thread ended.
    """

    thread: int
    due_ns: int
    at_ns: int
    stack: Sequence[Code]


class Frame(NamedTuple, Generic[Code]):
    """A function or line on a stack, from its first to its last successive sample."""

    code: Code
    thread: int
    begin_ns: int
    end_ns: int


class _Stack(Generic[Code]):
    def __init__(self) -> None:
        self.frames: list[tuple[Code, int]] = []
        self.at_ns: int | None = None


class SampledFrames(Generic[Code]):
    """Frames built from the samples of each thread.

    A frame ends when an outer frame ends, so that frames nest. A function called from
    one line is therefore not part of a call from another line.
    """

    def __init__(self) -> None:
        self._stacks: dict[int, _Stack[Code]] = {}

    def add_sample(self, sample: Sample[Code]) -> list[Frame[Code]]:
        """Return the frames that ended between the thread's last sample and this one.

        Frames end halfway between the last sample and the time at which this sample was
        due. A sample is late if the thread kept the GIL; the delay belongs to the
        functions that the late sample shows.
        """
        if len(self._stacks) > _MAX_THREADS:
            # Drop threads that have ended: their stacks are empty.
            self._stacks = {
                thread: known for thread, known in self._stacks.items() if known.frames
            }
        known = self._stacks.setdefault(sample.thread, _Stack())
        edge_ns = sample.at_ns
        if known.at_ns is not None:
            edge_ns = (known.at_ns + max(sample.due_ns, known.at_ns)) // 2
        common = 0
        for (code, _), now in zip(known.frames, sample.stack, strict=False):
            if code is not now:
                break
            common += 1
        ended = [
            Frame(code, sample.thread, begin_ns, edge_ns)
            for code, begin_ns in known.frames[common:]
        ]
        known.frames[common:] = [(code, edge_ns) for code in sample.stack[common:]]
        known.at_ns = sample.at_ns
        return ended

    def end_frames(self, until_ns: int = 0) -> list[Frame[Code]]:
        """Return the frames of the last samples, all of which end now.

        A frame ends at its last sample or at `until_ns`, whichever is later.

        Args:
            until_ns: Halfway from the last sample to the next one, or the end of the
                recording if that is earlier.
        """
        ended = [
            Frame(code, thread, begin_ns, max(stack.at_ns or 0, begin_ns, until_ns))
            for thread, stack in self._stacks.items()
            for code, begin_ns in stack.frames
        ]
        self._stacks.clear()
        return ended


#: Maximum number of samples between two flushes, which occur five times a second.
RING_SAMPLES: Final = 4_096

_NS_PER_S: Final = 1_000_000_000
#: Samples are shifted by up to a quarter of a period, so that they do not synchronize
#: with the program. Multiples of the golden ratio spread the shifts evenly.
_SHIFT: Final = 0.618_033_988_749_895
_SHIFTED: Final = 0.5


def sample_times(hz: float, stop: threading.Event) -> Iterator[int]:
    """Yield the planned time of each sample, in ns of `recorder.now`, when it is due.

    Samples that become due while the caller is busy are skipped.
    """
    period_ns = int(_NS_PER_S / hz)
    began_ns, turn, shift = recorder.clock_ns(), 0, 0.0
    while True:
        due_ns = began_ns + int((turn + _SHIFTED * shift) * period_ns)
        left_s = max(due_ns - recorder.clock_ns(), 0) / _NS_PER_S
        if stop.wait(left_s):
            return
        yield due_ns
        turn = max(turn + 1, (recorder.clock_ns() - began_ns) // period_ns + 1)
        shift = (shift + _SHIFT) % 1.0


#: Minimum ns between two writes of frames: each write has a large fixed cost.
_STORE_NS: Final = 1_000_000_000

_PS_PER_NS: Final = 1000


class EndedFrames(NamedTuple):
    """Frames of functions and frames of lines, from the same samples."""

    functions: list[Frame[Any]]
    lines: list[Frame[Any]]


class FrameStore(Generic[Line]):
    """Frames of one recording, from their samples until they are written."""

    def __init__(self, describe: Callable[[Any], tuple[str, str]]) -> None:
        """Create an empty store; `describe` returns name and file of a function."""
        #: Event type number by name and file.
        self._types: dict[tuple[str, str], int] = {}
        self._describe = describe
        self._functions: SampledFrames[Any] = SampledFrames()
        self._lines: SampledFrames[Line] = SampledFrames()
        self._ended = EndedFrames([], [])
        self._stored_ns = 0

    def add_sample(self, sample: Sample[Line]) -> None:
        """Add a sample; the samples of a thread must be in time order."""
        functions: list[Any] = [line.code for line in sample.stack]
        self._ended.functions.extend(
            self._functions.add_sample(
                Sample(sample.thread, sample.due_ns, sample.at_ns, functions)
            )
        )
        self._ended.lines.extend(self._lines.add_sample(sample))

    def type_number(self, name: str, path: str = "") -> int:
        """Return the number of an event type, which is fixed within the recording."""
        return self._types.setdefault((name, path), len(self._types) + 1)

    def take_ended(self, *, at_once: bool) -> EndedFrames | None:
        """Return the ended frames; None if the last write was too recent."""
        now = recorder.clock_ns()
        if now - self._stored_ns < _STORE_NS and not at_once:
            return None
        ended, self._ended, self._stored_ns = self._ended, EndedFrames([], []), now
        return ended

    def end_frames(self, until_ns: int = 0) -> EndedFrames:
        """Return the frames of the last samples, as `SampledFrames.end_frames` does."""
        return EndedFrames(
            self._functions.end_frames(until_ns), self._lines.end_frames(until_ns)
        )

    def write_frames(
        self,
        plane: PlaneBuilder,
        frames: EndedFrames,
        *,
        line_of: Callable[[int, bool], SamplesLine | None],
        clock: ClockPair,
    ) -> list[int]:
        """Write frames; return when each began, in ns of the monotonic clock.

        Args:
            line_of: Returns the trace line for a thread's functions or, if its second
                argument is True, for source lines; None omits the thread.
        """
        of_threads: dict[tuple[bool, int], list[Frame[Any]]] = {}
        for is_line, ended in enumerate(frames):
            for frame in sorted(ended, key=lambda frame: frame.thread):
                of_threads.setdefault((bool(is_line), frame.thread), []).append(frame)
        for (is_line, thread), rows in of_threads.items():
            line = line_of(thread, is_line)
            if line is None:
                continue
            codes = [frame.code.code if is_line else frame.code for frame in rows]
            types = [
                plane.event_type(
                    name, type_id=self.type_number(name, path), stats={FILE_PATH: path}
                )
                for name, path in map(self._describe, codes)
            ]
            stats = []
            if is_line:
                numbers = np.array([frame.code.line or 0 for frame in rows], np.int64)
                key = plane.stat_id(LINE)
                stats.append(StatColumn(key, INT, numbers, present=numbers > 0))
                names = [getattr(frame.code, "called", None) or "" for frame in rows]
                texts, index = np.unique(names, return_inverse=True)
                key, of_texts = plane.stat_id(CALLED), [text.encode() for text in texts]
                stats.append(StatColumn(key, TEXT, index, texts[index] != "", of_texts))
                unused = [getattr(frame.code, "is_unused", False) for frame in rows]
                of_rows = np.array(unused, np.bool_)
                key, ones = plane.stat_id(UNUSED), np.ones(len(rows), np.int64)
                stats.append(StatColumn(key, INT, ones, present=of_rows))
            begin = np.array([frame.begin_ns for frame in rows], np.int64)
            end = np.array([frame.end_ns for frame in rows], np.int64)
            plane.line(line.id, name=line.name).events(
                np.array(types, np.int64),
                (begin - clock.monotonic_ns) * _PS_PER_NS,
                (end - begin) * _PS_PER_NS,
                stats=stats,
            )
        return [frame.begin_ns for ended in frames for frame in ended]
