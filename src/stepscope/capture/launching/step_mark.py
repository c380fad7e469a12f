"""The annotation of a step that was counted: ours, among those of the program."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepscope._core.recorder import Trace

#: Name of the annotation of a step that was counted.
STEP: Final = "step"


class StepMark:
    """The annotation of the step that is under way, if there is one."""

    def __init__(self) -> None:
        self.marking = False
        self._open: Trace | None = None
        self._held: Trace | None = None

    @property
    def is_open(self) -> bool:
        """Whether a step of ours is under way."""
        return self._open is not None

    @contextlib.contextmanager
    def marks(self) -> Iterator[None]:
        """Mark annotations that begin within as ours, not the program's."""
        self.marking = True
        try:
            yield
        finally:
            self.marking = False

    def enter(self, first: int, batches: int, *, forwarded: bool) -> None:
        """Begin the annotation of a step."""
        from stepscope.capture.ground import annotate  # noqa: PLC0415 - arming stays light

        more = {"n_steps": batches} if batches > 1 else {}
        self._open = annotate.Trace(STEP, step_num=first, _r=1, **more)
        with self.marks():
            if forwarded:
                self._open.__enter__()
            else:
                annotate.enter_beside_framework(self._open)

    def leave(self) -> None:
        """End the step that is under way."""
        step, self._open = self._open, None
        if step is not None:
            step.__exit__(None, None, None)

    def hold(self) -> None:
        """Take the step back: it was none.

        Its annotation is held, because a framework keeps one that is let go.
        """
        self._held, self._open = self._open, None

    def forget(self) -> None:
        """Let go of a step that began and never ended: it is not kept."""
        self._open = None
