"""Makes the n-th call that a collector makes fail, whatever it calls."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope.capture.collectors import registry as collectors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

__all__ = ["Faults", "InjectedFault"]

_COLLECTORS = Path(collectors.__file__).parent
#: These are asked by the recording itself too, not by a collector alone.
_NO_COLLECTORS = {str(_COLLECTORS / name) for name in ("__init__.py", "levels.py")}


class InjectedFault(RuntimeError):
    """Raised in place of a call."""


class Faults:
    """Counts the calls that the collectors' modules make, and fails one of them.

    A call is one of any function, Python's or C's, whose caller stands in a collector's
    module. It is not made: the caller gets the error in its place. Only calls of the
    thread that enters `injected` count.

    Attributes:
        at: Which call fails, from 1; 0 fails none.
        first: The first call of each kind: what is called, and from where.
        made: How many were made until now.
        name: What failed; None while nothing has.
        where: Module and function that called it.
    """

    def __init__(self, at: int) -> None:
        self.at = at
        self.made = 0
        self.first: dict[tuple[str, str], int] = {}
        self.name: str | None = None
        self.where = ""

    @contextlib.contextmanager
    def injected(self) -> Iterator[None]:
        """Fail the call within the block."""
        sys.setprofile(self._look)
        try:
            yield
        finally:
            sys.setprofile(None)

    def _look(self, frame: FrameType, event: str, argument: Any) -> None:
        caller = frame if event == "c_call" else frame.f_back
        if event not in {"call", "c_call"} or caller is None or self.name is not None:
            return
        file = caller.f_code.co_filename
        if not file.startswith(str(_COLLECTORS)) or file in _NO_COLLECTORS:
            return
        self.made += 1
        called = argument if event == "c_call" else frame.f_code
        name = getattr(called, "__qualname__", None) or called.co_name
        where = f"{Path(file).stem}.{caller.f_code.co_name}"
        self.first.setdefault((name, where), self.made)
        if self.made == self.at:
            self.name, self.where = name, where
            raise InjectedFault(f"call {self.at}: {self.name} in {self.where}")
