"""Looks at a thread's stack: when to look, and the frames that looks in a row make."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from stepscope._core import recorder
from stepscope.xspace.fields import INT
from stepscope.xspace.samples_line import FILE_PATH, LINE
from stepscope.xspace.writing.encode import StatColumn

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator, Sequence

    from stepscope.capture.ground.clock import ClockPair
    from stepscope.xspace.samples_line import SamplesLine
    from stepscope.xspace.writing.builders import PlaneBuilder

#: What a frame is of: a function's code, or one line of it. One object for each.
Code = TypeVar("Code")


class _LineOfCode(Protocol):
    """One line of a function; None where no line made the instruction."""

    @property
    def code(self) -> Any: ...
    @property
    def line(self) -> int | None: ...


Line = TypeVar("Line", bound=_LineOfCode)

#: A program may begin threads for as long as it runs.
_MOST_THREADS: Final = 4_096


class Look(NamedTuple, Generic[Code]):
    """What one look at a thread found.

    Attributes:
        due_ns: When it was to be looked at, in ns of the monotonic clock; not after
            `at_ns`.
        stack: What ran, the outermost first; empty where the thread is gone.
    """

    thread: int
    due_ns: int
    at_ns: int
    stack: Sequence[Code]


class Frame(NamedTuple, Generic[Code]):
    """A function, or a line, on a stack, as long as looks found it in its place."""

    code: Code
    thread: int
    begin_ns: int
    end_ns: int


class _Stack(Generic[Code]):
    def __init__(self) -> None:
        self.frames: list[tuple[Code, int]] = []
        self.at_ns: int | None = None


class SampledFrames(Generic[Code]):
    """Puts looks together, thread by thread.

    A frame ends where one that is further out does, so that frames nest: what a
    function calls in one line is no part of a call in another.
    """

    def __init__(self) -> None:
        self._stacks: dict[int, _Stack[Code]] = {}

    def add_sample(self, look: Look[Code]) -> list[Frame[Code]]:
        """Return the frames that ended between the last look at the thread and this.

        They ended halfway between the last look and the time at which this one was
        due. It comes late where the thread kept the interpreter's lock: the time in
        between belongs to what was then found.
        """
        if len(self._stacks) > _MOST_THREADS:
            # Of threads that are gone there is nothing more to find.
            self._stacks = {
                it: known for it, known in self._stacks.items() if known.frames
            }
        known = self._stacks.setdefault(look.thread, _Stack())
        edge_ns = look.at_ns
        if known.at_ns is not None:
            edge_ns = (known.at_ns + max(look.due_ns, known.at_ns)) // 2
        same = 0
        for (code, _), now in zip(known.frames, look.stack, strict=False):
            if code is not now:
                break
            same += 1
        ended = [
            Frame(code, look.thread, begin_ns, edge_ns)
            for code, begin_ns in known.frames[same:]
        ]
        known.frames[same:] = [(code, edge_ns) for code in look.stack[same:]]
        known.at_ns = look.at_ns
        return ended

    def end_frames(self, until_ns: int = 0) -> list[Frame[Code]]:
        """Return the frames that the last looks found.

        They ended there, or where they would have if the next look had found something
        else: as long as the recording went on, nothing shows that they ended earlier.

        Args:
            until_ns: Halfway from the last look to the next one, or when the recording
                ended, if that was earlier.
        """
        ended = [
            Frame(code, thread, begin_ns, max(stack.at_ns or 0, begin_ns, until_ns))
            for thread, stack in self._stacks.items()
            for code, begin_ns in stack.frames
        ]
        self._stacks.clear()
        return ended


#: More looks than this do not wait for a flush: it comes five times a second.
RING_LOOKS: Final = 4_096

_NS_PER_S: Final = 1_000_000_000
#: Looks come up to a quarter of a period early or late, so that they do not keep time
#: with the program; by the golden ratio the shifts are spread evenly.
_SHIFT: Final = 0.618_033_988_749_895
_SHIFTED: Final = 0.5


def sample_times(hz: float, stop: threading.Event) -> Iterator[int]:
    """Yield when each look is due, in ns of `recorder.now`, and wait until then.

    Turns that passed meanwhile are not made up for.
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


#: Frames are stored so often: what they are written into costs more than they do.
_STORE_NS: Final = 1_000_000_000

_PS_PER_NS: Final = 1000


class EndedFrames(NamedTuple):
    """Frames of functions, and of their lines, which were found by the same samples."""

    functions: list[Frame[Any]]
    lines: list[Frame[Any]]


class FrameStore(Generic[Line]):
    """Frames of one recording, kept from their samples until they are written."""

    def __init__(self, describe: Callable[[Any], tuple[str, str]]) -> None:
        """Begin without frames; `describe` returns name and file of a function."""
        #: Kinds of events: of one name in several files, several.
        self._types: dict[tuple[str, str], int] = {}
        self._describe = describe
        self._functions: SampledFrames[Any] = SampledFrames()
        self._lines: SampledFrames[Line] = SampledFrames()
        self._ended = EndedFrames([], [])
        self._stored_ns = 0

    def add_sample(self, sample: Look[Line]) -> None:
        """Take in what a sample found; samples of a thread come in order."""
        functions: list[Any] = [line.code for line in sample.stack]
        self._ended.functions.extend(
            self._functions.add_sample(
                Look(sample.thread, sample.due_ns, sample.at_ns, functions)
            )
        )
        self._ended.lines.extend(self._lines.add_sample(sample))

    def type_number(self, name: str, path: str = "") -> int:
        """Return the number of a kind of events, the same in the whole recording."""
        return self._types.setdefault((name, path), len(self._types) + 1)

    def take_ended(self, *, at_once: bool) -> EndedFrames | None:
        """Return the frames that ended; None where it is too early to write them."""
        now = recorder.clock_ns()
        if now - self._stored_ns < _STORE_NS and not at_once:
            return None
        ended, self._ended, self._stored_ns = self._ended, EndedFrames([], []), now
        return ended

    def end_frames(self, until_ns: int = 0) -> EndedFrames:
        """Return the frames that the last samples found, as `SampledFrames.end`."""
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
        """Write frames, and return when each began, in ns of the monotonic clock.

        Args:
            line_of: Returns the line of a thread, for its functions or (true) for
                their lines; None where these are not written.
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
            begin = np.array([frame.begin_ns for frame in rows], np.int64)
            end = np.array([frame.end_ns for frame in rows], np.int64)
            plane.line(line.id, name=line.name).events(
                np.array(types, np.int64),
                (begin - clock.monotonic_ns) * _PS_PER_NS,
                (end - begin) * _PS_PER_NS,
                stats=stats,
            )
        return [frame.begin_ns for ended in frames for frame in ended]
