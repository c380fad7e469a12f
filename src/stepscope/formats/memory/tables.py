"""Build the trace of a file with only memory data: the table `allocations`.

Each allocation has the call stack that requested it, and the program line in the stack.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import polars as pl

from stepscope.errors import BadInput
from stepscope.formats.assemble import environment_frame, given_table
from stepscope.formats.declared_texts import why_absent
from stepscope.remedies import Remedy
from stepscope.trace.model import TraceData
from stepscope.trace.quality import notes_frame
from stepscope.trace.reading.texts import shorten_text
from stepscope.trace.tables import ALLOCATIONS, SEPARATE, TABLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from stepscope.trace.quality import QualityNote
    from stepscope.unavailable import Unavailable

#: Matches paths of packages, Python's library, PyTorch's sources, generated code.
_LIBRARY: Final = re.compile(
    r"(?:^|[\\/])(?:site-packages|dist-packages|torch|torchinductor_[^\\/]*"
    r"|lib(?:64)?[\\/](?:python|pypy)\d[.\d]*|Python\d+[\\/]Lib)[\\/]"
    r"|^<(?!stdin>|string>|ipython-input-)"
)
_PYTHON: Final = re.compile(r"\.pyw?\Z|^<")
#: Maximum number of frames that are kept per stack, starting with the innermost.
_MAX_FRAMES: Final = 64
_FRAME_CHARS: Final = 512


class Frame(NamedTuple):
    """One frame of a call stack.

    Attributes:
        file: Path of the source file; `??` if unknown.
        line: Line in the file; 0 if unknown.
        function: Name of the function.
    """

    file: str
    line: int
    function: str

    @property
    def text(self) -> str:
        """Return the frame as text: its file, line and function."""
        return shorten_text(f"{self.file}:{self.line} {self.function}", _FRAME_CHARS)

    @property
    def of_python(self) -> bool:
        """Whether the file is Python source, not a compiled library."""
        return _PYTHON.search(self.file) is not None

    @property
    def of_program(self) -> bool:
        """Whether the file is Python source outside of libraries."""
        return self.of_python and _LIBRARY.search(self.file) is None


class Stacks:
    """Distinct stacks of a file as texts.

    Attributes:
        texts: Distinct stacks, one frame per line, innermost first. Frames of compiled
            libraries are left out, unless the stack has no Python frame.
        lines: For each stack in `texts`, the program line that requested the memory:
            the innermost frame outside of libraries, else the innermost Python frame;
            None if there is no Python frame.
    """

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.lines: list[str | None] = []
        self._indices: dict[str, int] = {}

    def add(self, frames: Sequence[Frame]) -> int | None:
        """Add a stack, and return its index in `texts`; None if it has no frames."""
        if not frames:
            return None
        in_python = [frame for frame in frames if frame.of_python]
        text = "\n".join(frame.text for frame in (in_python or frames)[:_MAX_FRAMES])
        place = self._indices.setdefault(text, len(self.texts))
        if place == len(self.texts):
            source = next((frame for frame in in_python if frame.of_program), None)
            source = source or next(iter(in_python), None)
            self.texts.append(text)
            self.lines.append(None if source is None else source.text)
        return place


def memory_trace(
    host: str,
    path: Path,
    rows: Sequence[dict[str, Any]],
    *,
    what: str,
    record: str,
    notes: Iterable[QualityNote],
    stacks: Sequence[str],
    start_unix_ns: int | None = None,
) -> TraceData:
    """Return the trace of a host for which only memory was recorded.

    Args:
        rows: Rows of `allocations` in order of time; absent columns are null.
        record: Sentence that explains how to record the other tables.
        stacks: The strings that `allocations.stack` refers to.
        start_unix_ns: Time 0 in ns since 1970; None if it was not recorded.
    """
    absent = why_absent("memory.memory_alone", what=what, remedy=record)
    try:
        frame = pl.DataFrame(rows, schema=ALLOCATIONS.dtypes())
    except (OverflowError, pl.exceptions.ComputeError):
        raise BadInput.at(
            path, "counts more bytes than 64 bits can hold", Remedy.COPY_AGAIN
        ) from None
    fields = {
        "start_unix_ns": start_unix_ns,
        "begin_ps": frame["start_ps"].min(),
        "end_ps": frame["start_ps"].max(),
    }
    tables: dict[str, pl.DataFrame | Unavailable] = {
        **dict.fromkeys(TABLES.keys() - SEPARATE.keys(), absent),
        "allocations": frame,
        "environment": environment_frame([path], what, fields),
        "quality": notes_frame(tuple(notes)),
    }
    return TraceData(
        host,
        {name: partial(given_table, table) for name, table in tables.items()},
        strings=stacks,
        # Empty: texts of these formats are interned, not read at offsets of the file.
        data=np.zeros(0, np.uint8),
    )
