"""Call stacks of allocations: the line of the program, and the stack as one text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from stepscope.trace.reading.texts import shortened

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Paths of what was installed or comes with Python, of PyTorch built in place, and of
#: code that libraries make.
_LIBRARY: Final = re.compile(
    r"(?:^|[\\/])(?:site-packages|dist-packages|torch|torchinductor_[^\\/]*"
    r"|lib(?:64)?[\\/](?:python|pypy)\d[.\d]*|Python\d+[\\/]Lib)[\\/]"
    r"|^<(?!stdin>|string>|ipython-input-)"
)
_PYTHON: Final = re.compile(r"\.pyw?\Z|^<")
#: Frames of one stack that are kept, from the innermost on.
_MOST_FRAMES: Final = 64
_LONGEST_FRAME: Final = 512


class Frame(NamedTuple):
    """One frame of a call stack.

    Attributes:
        file: Its file; `??` where unknown.
        line: The line in the file that ran; 0 where unknown.
        function: The function.
    """

    file: str
    line: int
    function: str

    @property
    def text(self) -> str:
        """Return file, line and function."""
        return shortened(f"{self.file}:{self.line} {self.function}", _LONGEST_FRAME)

    @property
    def of_python(self) -> bool:
        """Whether the file is one of Python, not of a compiled library."""
        return _PYTHON.search(self.file) is not None

    @property
    def of_program(self) -> bool:
        """Whether the file is Python's and belongs to no library."""
        return self.of_python and _LIBRARY.search(self.file) is None


class Stacks:
    """Distinct stacks of a file as texts.

    Attributes:
        texts: Each stack once, its frames one a line, the innermost first. A stack
            without a frame in Python is kept as it is, else without those of compiled
            libraries.
        lines: By place in `texts`, the line of the program that asked: that of the
            innermost frame outside of libraries, else of the innermost one in Python;
            None where the stack has neither.
    """

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.lines: list[str | None] = []
        self._places: dict[str, int] = {}

    def add(self, frames: Sequence[Frame]) -> int | None:
        """Return the place of a stack, which is added; None where it has no frame."""
        if not frames:
            return None
        in_python = [frame for frame in frames if frame.of_python]
        text = "\n".join(it.text for it in (in_python or frames)[:_MOST_FRAMES])
        place = self._places.setdefault(text, len(self.texts))
        if place == len(self.texts):
            asked = next((it for it in in_python if it.of_program), None)
            asked = asked or next(iter(in_python), None)
            self.texts.append(text)
            self.lines.append(None if asked is None else asked.text)
        return place
