"""Annotation with which stepscope marks a counted step, next to the program's own."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepscope._core.recorder import Trace

#: Name of the annotation of a counted step.
STEP: Final = "step"


class StepMark:
    """Stepscope's annotation of the step in progress, if there is one."""

    def __init__(self) -> None:
        self.marking = False
        self._open: Trace | None = None
        self._held: Trace | None = None

    @property
    def is_open(self) -> bool:
        """Whether stepscope's annotation of a step is open."""
        return self._open is not None

    @contextlib.contextmanager
    def marks(self) -> Iterator[None]:
        """Treat annotations that begin in the block as stepscope's own."""
        self.marking = True
        try:
            yield
        finally:
            self.marking = False

    def enter(self, first: int, batches: int, *, forwarded: bool) -> None:
        """Begin the annotation of a step, for the framework too if `forwarded`."""
        from stepscope.capture.base import annotate  # noqa: PLC0415 - keeps process startup fast

        stats = {"n_steps": batches} if batches > 1 else {}
        self._open = annotate.Trace(STEP, step_num=first, _r=1, **stats)
        with self.marks():
            if forwarded:
                self._open.__enter__()
            else:
                annotate.enter_beside_framework(self._open)

    def leave(self) -> None:
        """End the annotation of the step in progress."""
        step, self._open = self._open, None
        if step is not None:
            step.__exit__(None, None, None)

    def hold(self) -> None:
        """Cancel the step that was begun but did not run.

        The step's annotation object is kept: a framework would record it when released.
        """
        self._held, self._open = self._open, None

    def forget(self) -> None:
        """Discard a step that began and never ended."""
        self._open = None
