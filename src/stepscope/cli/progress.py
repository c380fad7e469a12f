"""Progress bars for what takes longer than a moment, on a terminal only."""

from __future__ import annotations

import contextlib
import sys
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.progress import Progress as Bar

#: Shorter work would only flicker.
_PATIENCE_S: Final = 1.0
#: So often the bar of a recording moves.
_LOOK_S: Final = 0.2


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
