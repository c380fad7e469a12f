"""Counters of what was added to a container of the program while it was recorded.

Each is 0 when the recording begins, and has its second reading when it ends.

Definition: docs/formats/xplane.md#what-the-program-keeps.
"""

from __future__ import annotations

from typing import Final, Literal

from stepscope.frozen import Frozen
from stepscope.patterns import Pattern

#: Members, or nodes of a graph; bytes of their arrays, and of graphs of gradients.
KeptKind = Literal["items", "bytes", "graphs"]
KEPT_KINDS: Final[tuple[KeptKind, ...]] = ("items", "bytes", "graphs")
_NAME: Final = Pattern(
    r"(?P<kind>items|bytes|graphs) added to (?P<path>.+)"
    r" of \$(?P<file>[^$]*):(?P<line>\d+) (?P<function>[^$]+)\Z"
)


class KeptCounter(Frozen, frozen=True, eq=True):
    """What one counter counts.

    Attributes:
        kind: What is counted.
        path: How a function of the program reaches the container.
        file: Name of the function's file.
        line: The function's first line there.
        function: The function.
    """

    kind: KeptKind
    path: str
    file: str
    line: int
    function: str

    @staticmethod
    def name(kind: KeptKind, path: str, function: str) -> str:
        """Return the counter's name; functions are named `$file.py:LINE function`."""
        return f"{kind} added to {path} of {function}"

    def of_kind(self, kind: KeptKind) -> str:
        """Return the name of the counter of the same container that counts this."""
        function = f"${self.file}:{self.line} {self.function}"
        return self.name(kind, self.path, function)

    @classmethod
    def of(cls, name: str) -> KeptCounter | None:
        """Return what a counter of this name counts; None for any other counter."""
        found = _NAME.match(name)
        if found is None:
            return None
        kind = next(it for it in KEPT_KINDS if it == found["kind"])
        line = int(found["line"])
        return cls(kind, found["path"], found["file"], line, found["function"])
