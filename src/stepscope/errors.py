"""Errors that stepscope raises for a reason that the user can fix.

StepscopeError            base; str() is one line: the problem, its place, what to do
├── BadInput              a file or directory that cannot be read as a profile
│   ├── Malformed         bytes that violate the format at a known offset
│   └── UnknownFormat     readable bytes of a format without a reader
├── BadUsage              a name or option that does not exist
└── AlreadyRecording      a recording is already running in this process

This module also recognises exceptions raised by the program's signal handlers. Python
calls a signal handler between two instructions of the main thread, which may be
instructions of stepscope or of a framework that stepscope calls. An exception that the
handler raises is the program's response to the signal ("timed out", an exit status),
not a fault of stepscope. Tracebacks of the program's errors omit functions of stepscope
(`NO_FRAME`).
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

#: Flag of a code object whose function has an `*args` parameter.
_CO_VARARGS: Final = 0x04


def printable_line(text: str) -> str:
    """Return a text for a terminal as one line without control characters.

    Text from the network or from a file may have escape sequences that move the cursor
    or change the colour of later output.
    """
    return printable_text(" ".join(text.split()))


class StepscopeError(Exception):
    """Base of all errors that are shown to the user as one line."""

    def __str__(self) -> str:
        """Return the message as one printable line."""
        return printable_line(super().__str__())


class BadInput(StepscopeError):
    """A path that cannot be read as a profile."""

    @classmethod
    def at(cls, path: object, what: str, way_out: str) -> BadInput:
        """Build an error from the file, the problem, and what to do."""
        return cls(printable_text(f"{path}: {what}. {way_out}"))


class Malformed(BadInput):
    """Bytes that violate their format at a known offset."""

    @classmethod
    def broken_at_offset(
        cls, path: object, offset: int, what: str, way_out: str
    ) -> Malformed:
        """Build an error from the file, the offset, the problem, and what to do."""
        return cls(printable_text(f"{path}: {what} at byte {offset:,}. {way_out}"))


class UnknownFormat(BadInput):
    """Bytes of a format that stepscope does not know."""


class BadUsage(StepscopeError):
    """A name or option that does not exist."""

    @classmethod
    def unknown_name(
        cls, kind: str, name: str, known: Iterable[str], *, hint: str = ""
    ) -> BadUsage:
        """Build an error with the unknown name and all known names."""
        listed = ", ".join(known)
        return cls(f"there is no {kind} {name!r}; known: {listed}. {hint}".rstrip())


class AlreadyRecording(StepscopeError):
    """A recording cannot start because another one is running in this process."""

    @classmethod
    def of(cls, owner: object, since: str, logdir: object) -> AlreadyRecording:
        """Build an error that names the recording's starting code, time and folder."""
        return cls(
            f"already recording since {since} into {logdir}, started by {owner}. "
            "Stop that recording first (ss.stop()), or leave its `with` block."
        )


@contextlib.contextmanager
def suppress_faults() -> Iterator[None]:
    """Suppress exceptions in a `with` block, except those of a signal handler."""
    try:
        yield
    except Exception as error:
        if is_from_handler(error):
            raise


def is_from_handler(error: BaseException) -> bool:
    """Return whether an exception came from a signal handler of the program.

    `KeyboardInterrupt`, `SystemExit` and the like always count as raised by a handler.
    """
    if not isinstance(error, Exception):
        return True
    frames = list(_traceback_frames(error))
    if any(map(_handles_signal, frames)):
        return True
    # A framework that stepscope called may have caught the handler's exception and
    # raised another one.
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
    """Return whether the interpreter called the function as a signal handler.

    Only the interpreter calls functions with the number of a signal and the interrupted
    frame. A handler that has deleted these arguments is recognised only if it is still
    installed.
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
        handler = getattr(handler, "func", handler)  # unwrap `functools.partial`
        called = handler if hasattr(handler, "__code__") else type(handler).__call__
        called = getattr(handler, "__func__", called)
        yield getattr(called, "__code__", None)


class _NoFrame:
    """Remove the frame of a `with` block from the traceback of its exceptions.

    The interpreter adds the frame to the traceback before it calls `__exit__`, and does
    not add it again when the exception continues.
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


#: Context for calls of the program's functions: `with NO_FRAME:`.
NO_FRAME: Final = _NoFrame()
