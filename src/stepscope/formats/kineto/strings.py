"""The texts of handles, the larger part of which is read late."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Strings(Sequence[str]):
    """Handle → text, whichever tables were built before.

    Args:
        known: The texts of the first handles.
        whole: Gives all texts, those first; called when another one, or their number,
            is asked for.
    """

    def __init__(
        self, known: tuple[str, ...], whole: Callable[[], tuple[str, ...]]
    ) -> None:
        self._known = known
        self._whole = whole

    @overload
    def __getitem__(self, handle: int) -> str: ...
    @overload
    def __getitem__(self, handle: slice) -> tuple[str, ...]: ...
    def __getitem__(self, handle: int | slice) -> str | tuple[str, ...]:
        if isinstance(handle, int) and 0 <= handle < len(self._known):
            return self._known[handle]
        return self._whole()[handle]

    def __len__(self) -> int:
        return len(self._whole())

    def __iter__(self) -> Iterator[str]:
        return iter(self._whole())

    def index(self, value: object, start: int = 0, stop: int = sys.maxsize) -> int:
        """Return the handle of a text, found without a step of Python per text."""
        return self._whole().index(value, start, stop)
