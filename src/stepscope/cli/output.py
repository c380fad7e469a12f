"""Output of answers: to a file, which is not overwritten by default, or to stdout.

An error of the operating system becomes one sentence with the file, the reason and a
remedy. On a terminal, text is styled, and work over one second has a line of progress.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, NoReturn

from stepscope.errors import BadUsage
from stepscope.patterns import printable_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from stepscope.reporting.page import Line

STANDARD_OUTPUT: Final = "standard output"
#: Number of an operating system error → remedy.
_REMEDIES: Final = {
    errno.EACCES: "Check the permissions, or name another path",
    errno.EAGAIN: "Raise the limit of processes and threads (ulimit -u)",
    errno.EBADF: "Send the output to a file or a pipe, or give -o FILE",
    errno.EDQUOT: "Free disk space, or name another path",
    errno.EFBIG: "Raise the limit of file sizes (ulimit -f), or name another path",
    errno.EMFILE: "Raise the limit of open files (ulimit -n)",
    errno.ENAMETOOLONG: "Give a shorter name",
    errno.ENOMEM: "Free memory, or raise its limit (ulimit -v)",
    errno.ENOSPC: "Free disk space, or name another path",
    errno.EROFS: "Name another path",
}


def refusal_sentence(error: OSError) -> str:
    """Return a sentence with the file, the reason and a remedy of a system error."""
    reason = error.strerror or str(error)
    way_out = _REMEDIES.get(error.errno or 0, "Check the path and its permissions")
    if error.filename is None:
        return f"an operation of the system failed ({reason}). {way_out}."
    name = os.fsdecode(error.filename) if error.filename else "''"
    return f"{name}: cannot be used ({reason}). {way_out}."


class _ClosedOutput(io.StringIO):
    """Replacement for a closed standard output: every write raises OSError."""

    @property
    def buffer(self) -> NoReturn:
        raise OSError(errno.EBADF, "it is closed", STANDARD_OUTPUT)

    def write(self, text: str, /) -> int:
        return len(text) and self.buffer


def replace_closed_streams() -> None:
    """Replace a closed standard output or error, which Python sets to None.

    An unbuffered standard output (PYTHONUNBUFFERED) gets a buffer that is flushed after
    every line, because Python ignores incomplete writes, for example on a full disk.
    """
    if sys.stdout is None:
        sys.stdout = _ClosedOutput()
    elif isinstance(buffer := getattr(sys.stdout, "buffer", None), io.RawIOBase):
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(buffer),
            encoding=sys.stdout.encoding,
            errors=sys.stdout.errors,
            line_buffering=True,
        )
    if sys.stderr is None:
        sys.stderr = io.StringIO()


def drop_output() -> None:
    """Discard unwritten output, which Python would otherwise try to write at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def flush_output() -> None:
    """Flush standard output.

    Raises:
        OSError: Standard output cannot be written; the error names it.
    """
    with _names_file(STANDARD_OUTPUT):
        if sys.stdout is not None:
            sys.stdout.flush()


@contextlib.contextmanager
def _names_file(name: str) -> Iterator[None]:
    """Set the file name of system errors that are raised inside the block."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, name) from error


def check_free(output: str | None, *, force: bool) -> None:
    """Before any work, raise BadUsage if the output file cannot be written.

    Raises:
        BadUsage: The file exists and may not be overwritten, or its folder is missing.
    """
    if output is None:
        return
    path = Path(output)
    if _is_special(path):
        return
    if path.is_dir():
        raise BadUsage(f"{path}: is a directory. Name a file in it")
    if path.exists() and not force:
        raise BadUsage(f"{path}: exists already. Add --force to overwrite it")
    if not path.parent.is_dir():
        raise BadUsage(f"{path.parent}: there is no such directory. Create it first")


def deliver_answer(answer: str | bytes, output: str | None) -> None:
    """Write an answer to stdout, or to a temporary file that is then renamed."""
    with opened_output(output) as file:
        file.write(answer.encode() if isinstance(answer, str) else answer)


@contextlib.contextmanager
def opened_output(output: str | None) -> Iterator[BinaryIO]:
    """Open a file for an answer written in pieces; it appears when complete.

    Raises:
        OSError: The file cannot be written; the error names it.
    """
    with _names_file(STANDARD_OUTPUT if output is None else output):
        if output is None:
            sys.stdout.flush()
            yield sys.stdout.buffer
            sys.stdout.flush()
        elif _is_special(Path(output)):
            with Path(output).open("wb") as file:
                yield file
        else:
            yield from _replacement_file(Path(output))


def _replacement_file(path: Path) -> Iterator[BinaryIO]:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".stepscope-")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        mask = os.umask(0)
        os.umask(mask)
        Path(temporary).chmod(0o666 & ~mask)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _is_special(path: Path) -> bool:
    """Return whether a path is a terminal or pipe, which must not be replaced."""
    return path.exists() and not path.is_dir() and not path.is_file()


#: Width of tables in a pipe or a file, in characters.
_PIPE_WIDTH: Final = 160
#: Minimum and maximum width of text, in characters, for readable lines.
_MIN_WIDTH: Final = 60
_MAX_WIDTH: Final = 100
#: Role of a piece of text → numbers of its style on a terminal (ECMA-48, SGR).
_STYLES: Final = {
    "title": "1",
    "heading": "1;36",
    "dim": "2",
    "good": "32",
    "bad": "1;31",
    "warn": "33",
    "bar": "36",
    "code": "35",
    "number": "1",
}


def is_terminal() -> bool:
    """Return whether standard output is a terminal."""
    return sys.stdout.isatty()


def has_colours() -> bool:
    """Return whether text on standard output is styled.

    Definition: docs/environment-variables.md#text-and-colours.
    """
    if os.environ.get("NO_COLOR"):
        return False
    forced = (os.environ.get(name) for name in ("FORCE_COLOR", "CLICOLOR_FORCE"))
    if any(value not in {None, "", "0"} for value in forced):
        return True
    return is_terminal() and os.environ.get("TERM") != "dumb"


def page_width() -> int:
    """Return the width of a table, in characters; `COLUMNS` sets it everywhere."""
    if is_terminal() or os.environ.get("COLUMNS", "").isdecimal():
        return max(shutil.get_terminal_size((_MAX_WIDTH, 24)).columns, _MIN_WIDTH)
    return _PIPE_WIDTH


def text_width() -> int:
    """Return the width of a page of text, in characters."""
    return min(page_width(), _MAX_WIDTH)


def styled_text(lines: Iterable[Line]) -> str:
    """Return the text of the lines, with the style of each role."""
    written = (
        "".join(
            f"\x1b[{_STYLES[piece.role]}m{printable_text(piece.text)}\x1b[0m"
            if piece.role in _STYLES
            else printable_text(piece.text)
            for piece in pieces
        )
        for pieces in lines
    )
    return "\n".join(written) + "\n"


#: Erases the line of the terminal, and moves to its begin.
_ERASE: Final = "\r\x1b[K"
#: Seconds of work before its line is shown, so that short work does not flicker.
_PATIENCE_S: Final = 1.0
#: Seconds between two drawings of the line.
_PERIOD_S: Final = 0.2
#: Width of the bar in characters.
_WIDTH: Final = 40


class Progress:
    """Progress through N named stages."""

    def __init__(self, stages: int) -> None:
        self._stages = stages
        self._done = -1
        self._what = ""

    def stage(self, title: str) -> None:
        """Begin the next stage, and end the previous one."""
        self._done, self._what = self._done + 1, title

    def current_state(self) -> tuple[str, float]:
        """Return what is done now, and which share of the stages has ended."""
        return self._what, max(self._done, 0) / self._stages


@contextlib.contextmanager
def show_progress(stages: int) -> Iterator[Progress]:
    """Show the stages of the work inside the block, after one second."""
    progress = Progress(stages)
    with _drawn_line(lambda _: progress.current_state(), patience_s=_PATIENCE_S):
        yield progress


@contextlib.contextmanager
def recording_bar(expected_s: float | None) -> Iterator[None]:
    """Show the progress of a recording inside the block.

    Args:
        expected_s: Duration of the recording; None if a number of steps ends it.
    """

    def recording_state(elapsed_s: float) -> tuple[str, float | None]:
        if expected_s is not None and elapsed_s > expected_s:
            return "collecting", None
        return "recording", elapsed_s / expected_s if expected_s else None

    with _drawn_line(recording_state):
        yield


def erase_line() -> None:
    """Erase the line of the progress, which is drawn again below other output."""
    if _can_draw():
        sys.stderr.write(_ERASE)


def _can_draw() -> bool:
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


@contextlib.contextmanager
def _drawn_line(
    state: Callable[[float], tuple[str, float | None]], *, patience_s: float = 0.0
) -> Iterator[None]:
    """Draw a line inside the block.

    Args:
        state: Returns for the elapsed seconds what is done now, and which share of the
            work is done; None if that is unknown.
        patience_s: Seconds before the line is shown.
    """
    if not _can_draw():
        yield
        return
    begun_s, over = time.monotonic(), threading.Event()
    is_drawn = False

    def draw_line() -> None:
        nonlocal is_drawn
        wait_s = patience_s
        while not over.wait(wait_s):
            elapsed_s, wait_s = time.monotonic() - begun_s, _PERIOD_S
            what, share = state(elapsed_s)
            filled = 0 if share is None else round(_WIDTH * min(share, 1.0))
            bar = "" if share is None else f" {'━' * filled}{'─' * (_WIDTH - filled)}"
            width = shutil.get_terminal_size((_MAX_WIDTH, 24)).columns - 1
            sys.stderr.write(_ERASE + f"{what}{bar} {elapsed_s:.0f} s"[:width])
            sys.stderr.flush()
            is_drawn = True

    drawer = threading.Thread(target=draw_line, daemon=True)
    drawer.start()
    try:
        yield
    finally:
        over.set()
        drawer.join()
        if is_drawn:
            erase_line()
            sys.stderr.flush()
