"""How events that are runs of Python functions are named."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from types import CodeType

__all__ = ["FunctionNames"]

#: A program that makes functions as it runs would fill the memory with them.
_MOST_KEPT: Final = 65_536

#: Our own functions are no part of the program.
_OURS: Final = str(Path(__file__).resolve().parents[2])


class FunctionNames:
    """Names of functions, each made once."""

    def __init__(self) -> None:
        # By identity: to hash a code object takes longer than all else here.
        self._names: dict[int, tuple[CodeType, str]] = {}

    def of(self, code: CodeType) -> str:
        """`$file.py:LINE function`, as frameworks name them; empty for our own.

        The line is the function's first, so that a function has one name.
        """
        known = self._names.get(id(code))
        if known is None:
            file = code.co_filename
            base = file.rpartition("/")[2]
            ours = file.startswith(_OURS)
            name = "" if ours else f"${base}:{code.co_firstlineno} {code.co_qualname}"
            if len(self._names) >= _MOST_KEPT:
                self._names.clear()
            # The object is kept, so that no other one gets its identity.
            known = self._names[id(code)] = code, name
        return known[1]
