"""Looks at a thread's stack made into frames: what looks in a row found is one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

#: What a frame is of: a function's code, or one line of it. One object for each.
Code = TypeVar("Code")

#: A program may begin threads for as long as it runs.
_MOST_THREADS: Final = 4_096


class Look(NamedTuple, Generic[Code]):
    """What one look at a thread found.

    Attributes:
        thread: The system's id of the thread.
        due_ns: When it was to be looked at, in ns of the monotonic clock; not after
            `at_ns`.
        at_ns: When it was looked at.
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
    """What one thread's last look found, the outermost first, since when."""

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

    def add(self, look: Look[Code]) -> list[Frame[Code]]:
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

    def end(self, until_ns: int = 0) -> list[Frame[Code]]:
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
