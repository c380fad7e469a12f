"""Every error stepscope raises for a reason the user can act on.

StepscopeError            base; str() is one line: what was wrong, where, the way out
├── BadInput              a file or directory that cannot be read as a profile
│   ├── Malformed         the bytes break the format at a known place
│   └── UnknownFormat     readable bytes of no format that has a reader
├── BadUsage              a name or option that does not exist
└── AlreadyRecording      a recording is under way in this process

And how errors of the program are known that reach us: the interpreter calls a signal
handler between two instructions of the main thread, which may be ours or a framework's
that we call. What the handler raises then is the program's answer to its signal ("timed
out", an exit status), and none of our faults. Errors of the program that pass through
functions of ours show its own functions alone (`NO_FRAME`).
"""

from __future__ import annotations

import contextlib
import itertools
import signal
from typing import TYPE_CHECKING, Any, Final

from stepscope.patterns import printable_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import CodeType, FrameType, TracebackType

#: Flag of a function that takes any number of arguments.
_CO_VARARGS: Final = 0x04


def printable_line(text: str) -> str:
    """Return a text for a terminal: in one line, without control characters.

    What came over the wire or stands in a file may hold sequences that move the cursor
    or colour what follows.
    """
    return printable_text(" ".join(text.split()))


class StepscopeError(Exception):
    """Base of all errors that are shown to a person as one line."""

    def __str__(self) -> str:
        """Return the line."""
        return printable_line(super().__str__())


class BadInput(StepscopeError):
    """A path that cannot be read as a profile."""

    @classmethod
    def at(cls, path: object, what: str, way_out: str) -> BadInput:
        """Name the file, what was wrong with it, and what to do."""
        return cls(printable_text(f"{path}: {what}. {way_out}"))


class Malformed(BadInput):
    """Bytes that break their format at a known offset."""

    @classmethod
    def broken_at_offset(
        cls, path: object, offset: int, what: str, way_out: str
    ) -> Malformed:
        """Name the file, the byte, what was wrong there, and what to do."""
        return cls(printable_text(f"{path}: {what} at byte {offset:,}. {way_out}"))


class UnknownFormat(BadInput):
    """Bytes of a format without a reader."""


class BadUsage(StepscopeError):
    """A name or option that does not exist."""

    @classmethod
    def unknown_name(
        cls, kind: str, name: str, known: Iterable[str], *, hint: str = ""
    ) -> BadUsage:
        """Name what was asked for and everything that could have been asked for."""
        listed = ", ".join(known)
        return cls(f"there is no {kind} {name!r}; known: {listed}. {hint}".rstrip())


class AlreadyRecording(StepscopeError):
    """A recording cannot start because another one of this process is under way."""

    @classmethod
    def of(cls, owner: object, since: str, logdir: object) -> AlreadyRecording:
        """Name who records, since when and into which directory, and how to end it."""
        return cls(
            f"already recording since {since} into {logdir}, started by {owner}. "
            "Stop that one first (ss.stop()), or leave its block."
        )


@contextlib.contextmanager
def suppress_faults() -> Iterator[None]:
    """Suppress what goes wrong within, but not what a signal handler raises there."""
    try:
        yield
    except Exception as error:
        if is_from_handler(error):
            raise


def is_from_handler(error: BaseException) -> bool:
    """Return whether an exception came out of a signal handler, so is the program's.

    `KeyboardInterrupt`, `SystemExit` and their like are the program's wherever they
    come from.
    """
    if not isinstance(error, Exception):
        return True
    frames = list(_traceback_frames(error))
    if any(map(_handles_signal, frames)):
        return True
    # A framework may have caught it, within our call, and raised another one.
    cause = error.__cause__ or error.__context__
    if cause is None or next(_traceback_frames(cause), None) not in frames:
        return False
    return is_from_handler(cause)


def _traceback_frames(error: BaseException) -> Iterator[FrameType]:
    traceback = error.__traceback__
    while traceback is not None:
        yield traceback.tb_frame
        traceback = traceback.tb_next


def _handles_signal(frame: FrameType) -> bool:
    """Return whether the interpreter called a function as the handler of a signal.

    It alone hands a function the number of a signal and the frame that it interrupts. A
    handler that forgot these is known while it is installed.
    """
    code, values = frame.f_code, frame.f_locals
    given = [values.get(name) for name in code.co_varnames[: code.co_argcount]]
    if code.co_flags & _CO_VARARGS:
        name = code.co_varnames[code.co_argcount + code.co_kwonlyargcount]
        given += values.get(name) or ()
    is_called_as_one = any(
        isinstance(number, int) and interrupted is frame.f_back
        for number, interrupted in itertools.pairwise(given)
    )
    return frame.f_back is not None and (is_called_as_one or code in _installed_codes())


def _installed_codes() -> Iterator[CodeType | None]:
    for number in signal.valid_signals():
        handler: Any = signal.getsignal(number)
        handler = getattr(handler, "func", handler)  # of a `functools.partial`
        called = handler if hasattr(handler, "__code__") else type(handler).__call__
        called = getattr(handler, "__func__", called)
        yield getattr(called, "__code__", None)


class _NoFrame:
    """Take the frame of its `with` block out of the traceback of what passes it.

    The interpreter enters a frame into a traceback before `__exit__` is called, and not
    once more where the exception goes on.
    """

    __slots__ = ()

    def __enter__(self) -> None:
        return

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None and traceback is not None:
            error.__traceback__ = traceback.tb_next


#: `with NO_FRAME:` around a call of the program's, in a function of ours.
NO_FRAME: Final = _NoFrame()
