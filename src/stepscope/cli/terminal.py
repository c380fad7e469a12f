"""The terminal: width of a page, styles of text, and progress of long work."""

from __future__ import annotations

import contextlib
import shutil
import sys
import threading
from typing import TYPE_CHECKING, Final

from stepscope.patterns import printable_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.progress import Progress as Bar

    from stepscope.report.page import Line

#: Tables into a pipe or a file may be this wide.
_PIPE_WIDTH: Final = 160
#: Lines of sentences are read best between these.
_NARROWEST: Final = 60
_WIDEST: Final = 100
#: Shorter work would only flicker.
_PATIENCE_S: Final = 1.0
#: So often the bar of a recording moves.
_LOOK_S: Final = 0.2

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
    """Return the number of characters in a line of a table."""
    if not is_terminal():
        return _PIPE_WIDTH
    return max(shutil.get_terminal_size((_WIDEST, 24)).columns, _NARROWEST)


def text_width() -> int:
    """Return the number of characters in a line of a page of text."""
    return min(page_width(), _WIDEST)


def draw(lines: Iterable[Line]) -> None:
    """Write styled lines to the terminal."""
    from rich.console import Console  # noqa: PLC0415 - only when something is drawn
    from rich.text import Text  # noqa: PLC0415 - only when something is drawn

    console = Console(highlight=False, soft_wrap=True)
    for one in lines:
        console.print(
            Text.assemble(
                *((printable_text(piece.text), _STYLES[piece.role]) for piece in one)
            )
        )


class Progress:
    """Named stages of known number; draws nothing until a second has passed."""

    def __init__(self, stages: int) -> None:
        self._stages = stages
        self._done = -1
        self._what = ""
        self._bar: Bar | None = None
        self._lock = threading.Lock()

    def stage(self, what: str) -> None:
        """Announce the next stage; the previous one is finished."""
        with self._lock:
            self._done += 1
            self._what = what
            if self._bar is not None:
                self._bar.update(
                    self._bar.task_ids[0], completed=self._done, description=what
                )

    def appear(self) -> None:
        """Draw the bar from now on."""
        from rich.console import Console  # noqa: PLC0415 - only when something is drawn
        from rich.progress import (  # noqa: PLC0415 - only when something is drawn
            BarColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
        )

        with self._lock:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TimeElapsedColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._bar.add_task(
                self._what, total=self._stages, completed=max(self._done, 0)
            )
            self._bar.start()

    def vanish(self) -> None:
        """Remove the bar, where one was drawn."""
        with self._lock:
            if self._bar is not None:
                self._bar.stop()


@contextlib.contextmanager
def progress(stages: int) -> Iterator[Progress]:
    """Show the stages of the work inside the block, on a terminal only."""
    shown = Progress(stages)
    if not sys.stderr.isatty():
        yield shown
        return
    timer = threading.Timer(_PATIENCE_S, shown.appear)
    timer.daemon = True
    timer.start()
    try:
        yield shown
    finally:
        timer.cancel()
        timer.join()
        shown.vanish()


@contextlib.contextmanager
def recording_bar(expected_s: float | None) -> Iterator[None]:
    """Show how far a recording is while the block runs, on a terminal only.

    Args:
        expected_s: How long it takes; None where steps end it.
    """
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console  # noqa: PLC0415 - only when something is drawn
    from rich.progress import (  # noqa: PLC0415 - as above
        BarColumn,
        TextColumn,
        TimeElapsedColumn,
    )
    from rich.progress import Progress as Bar  # noqa: PLC0415 - as above

    over = threading.Event()
    with Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as bar:
        shown = bar.add_task("recording", total=expected_s)

        def move() -> None:
            while not over.wait(_LOOK_S):
                task = bar.tasks[0]
                elapsed_s = task.elapsed or 0.0
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
