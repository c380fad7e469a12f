"""Output of answers: to a file, which is not overwritten by default, or to stdout.

An error of the operating system becomes one sentence with the file, the reason and a
remedy. On a terminal, text is styled, and work over one second has a progress bar.
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
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, NoReturn

from stepscope.errors import BadUsage
from stepscope.patterns import printable_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.progress import Progress as Bar

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
#: Seconds of work before a progress bar is shown, so that short work does not flicker.
_PATIENCE_S: Final = 1.0
#: Seconds between two updates of the progress bar of a recording.
_UPDATE_PERIOD_S: Final = 0.2

_STYLES: Final = {
    "plain": "",
    "title": "bold",
    "heading": "bold cyan",
    "dim": "dim",
    "good": "green",
    "bad": "bold red",
    "warn": "yellow",
    "bar": "cyan",
    "code": "magenta",
    "number": "bold",
}


def is_terminal() -> bool:
    """Return whether standard output is a terminal."""
    return sys.stdout.isatty()


def page_width() -> int:
    """Return the width of a table, in characters."""
    if not is_terminal():
        return _PIPE_WIDTH
    return max(shutil.get_terminal_size((_MAX_WIDTH, 24)).columns, _MIN_WIDTH)


def text_width() -> int:
    """Return the width of a page of text, in characters."""
    return min(page_width(), _MAX_WIDTH)


def draw_lines(lines: Iterable[Line]) -> None:
    """Print styled lines on the terminal."""
    from rich.console import Console  # noqa: PLC0415 - needed only for drawing
    from rich.text import Text  # noqa: PLC0415 - needed only for drawing

    console = Console(highlight=False, soft_wrap=True)
    for pieces in lines:
        console.print(
            Text.assemble(
                *((printable_text(piece.text), _STYLES[piece.role]) for piece in pieces)
            )
        )


def _make_bar() -> Bar:
    from rich.console import Console  # noqa: PLC0415 - needed only for drawing
    from rich.progress import (  # noqa: PLC0415 - needed only for drawing
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )


class Progress:
    """Progress through N named stages; its bar is shown after one second."""

    def __init__(self, stages: int) -> None:
        self._stages = stages
        self._done = -1
        self._what = ""
        self._bar: Bar | None = None
        self._lock = threading.Lock()

    def stage(self, title: str) -> None:
        """Begin the next stage, and end the previous one."""
        with self._lock:
            self._done += 1
            self._what = title
            if self._bar is not None:
                self._bar.update(
                    self._bar.task_ids[0], completed=self._done, description=title
                )

    def show_bar(self) -> None:
        """Show the bar from now on."""
        with self._lock:
            self._bar = _make_bar()
            self._bar.add_task(
                self._what, total=self._stages, completed=max(self._done, 0)
            )
            self._bar.start()

    def hide_bar(self) -> None:
        """Remove the bar if it is shown."""
        with self._lock:
            if self._bar is not None:
                self._bar.stop()


@contextlib.contextmanager
def show_progress(stages: int) -> Iterator[Progress]:
    """Show the stages of the work inside the block, only on a terminal."""
    shown = Progress(stages)
    if not sys.stderr.isatty():
        yield shown
        return
    timer = threading.Timer(_PATIENCE_S, shown.show_bar)
    timer.daemon = True
    timer.start()
    try:
        yield shown
    finally:
        timer.cancel()
        timer.join()
        shown.hide_bar()


@contextlib.contextmanager
def recording_bar(expected_s: float | None) -> Iterator[None]:
    """Show the progress of a recording inside the block, only on a terminal.

    Args:
        expected_s: Duration of the recording; None if a number of steps ends it.
    """
    if not sys.stderr.isatty():
        yield
        return
    over = threading.Event()
    with _make_bar() as bar:
        shown = bar.add_task("recording", total=expected_s)

        def move() -> None:
            while not over.wait(_UPDATE_PERIOD_S):
                elapsed_s = bar.tasks[0].elapsed or 0.0
                if expected_s is not None and elapsed_s > expected_s:
                    bar.update(shown, description="collecting", total=None)
                    return
                bar.update(shown, completed=elapsed_s)

        mover = threading.Thread(target=move, daemon=True)
        mover.start()
        try:
            yield
        finally:
            over.set()
            mover.join()
