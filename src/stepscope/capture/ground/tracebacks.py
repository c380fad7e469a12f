"""Staying out of the program's tracebacks: its errors show its own functions alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from types import TracebackType


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
