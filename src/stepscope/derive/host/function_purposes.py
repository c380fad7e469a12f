"""`function_purposes`: why functions of known libraries are called, and what they do.

`known_functions.json` lists these functions: regular expressions for the file's path
and the function's name (`functions`), or for the name in the line that calls a function
without a frame (`calls`). The first matching row with a purpose gives the purpose, and
the first matching row with a kind of work gives the work. A purpose also applies to
everything that the function calls.
"""

from __future__ import annotations

import re
from collections import defaultdict
from enum import IntEnum
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec
import numpy as np

from stepscope.frozen import Frozen
from stepscope.patterns import LOOP_CALL, NAMED_INPUT, Pattern
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepscope.array_types import UInt8s
    from stepscope.derive.host.function_frames import FunctionFrames
    from stepscope.derive.host.function_lines import FunctionLines
    from stepscope.derive.host.function_names import FunctionName

#: What a line calls that takes the next element of an iterator.
_TAKES_ELEMENT: Final = Pattern(rf"^{LOOP_CALL}$|(?:^|\.)(?:next|__next__)$")
#: Names, without the class, of functions that return the next element or batch.
_RETURNS_ELEMENT: Final = Pattern(rf"{NAMED_INPUT}|^__next__$")


class FunctionPurpose(IntEnum):
    """Purpose for which a function is called.

    Definition: docs/definitions/host-time.md#functions.
    """

    UNKNOWN = 0
    INPUT = 1
    CHECKPOINT = 2
    SUMMARY = 3
    COMPILE = 4
    SYNC = 5
    CALL = 6
    AWAIT = 7
    PEER = 8
    #: In an iterator of the program, waits for what another thread or process produces.
    RECEIVE = 9


#: Purposes of functions that wait for other threads, processes or machines.
AWAITING: Final = (FunctionPurpose.AWAIT, FunctionPurpose.RECEIVE)
#: What a function does, whatever the cause (owner) of its time: a `work` of the table.
KnownWork: TypeAlias = str


class _KnownFunctions(msgspec.Struct, forbid_unknown_fields=True, dict=True):
    """A row of `known_functions.json`; `PYTHON/` means Python's standard library."""

    files: str = "(?!)"  # Matches nothing.
    functions: str = ""
    calls: str = "(?!)"
    purpose: str | None = None
    work: KnownWork | None = None

    @cached_property
    def patterns(self) -> tuple[re.Pattern[str], re.Pattern[str]]:
        """Return the patterns for the paths and the names of functions."""
        files = self.files.replace("PYTHON/", r"/(?:python|pypy)\d[.\d]*/")
        return re.compile(files), re.compile(self.functions)


@cache
def _known_functions() -> tuple[_KnownFunctions, ...]:
    table = Path(__file__).with_name("known_functions.json").read_bytes()
    return msgspec.json.decode(table, type=tuple[_KnownFunctions, ...])


def _first_row(name: FunctionName, *, with_work: bool) -> _KnownFunctions | None:
    """Return the first matching row with a purpose (`with_work`: a kind of work)."""
    path = (name.file or "").replace("\\", "/")
    if not name.library and "/" in path:
        # A file name without its folder may be that of a library or of the program.
        return None
    # A path may begin with the searched folder, so a separator is added in front. A
    # built-in function has no path.
    path = f"/{path}" if "/" in path else path
    for row in _known_functions():
        if (row.work is not None) == with_work:
            files, functions = row.patterns
            if files.search(path) and functions.search(name.function):
                return row
    return None


@cache
def work_of_call(name: str) -> KnownWork | None:
    """Return what a function without a frame does, by the name in the calling line."""
    matching = (row.work for row in _known_functions() if re.search(row.calls, name))
    return next(matching, None)


def _known_purpose(name: FunctionName) -> FunctionPurpose:
    row = _first_row(name, with_work=False)
    known = None if row is None else row.purpose
    return FunctionPurpose.UNKNOWN if known is None else FunctionPurpose[known]


class FunctionPurposes(Frozen, frozen=True):
    """The purposes of functions, and the functions that do a known kind of work.

    Attributes:
        purpose: uint8 by row of `function_frames`; `FunctionPurpose` codes. Called
            functions have the purpose of the outermost caller with a purpose.
        types_by_work: Kind of work → functions that do it, as in `FunctionFrames.type`.
    """

    purpose: UInt8s
    types_by_work: Mapping[KnownWork, tuple[int, ...]]

    def types_with_work(self, *works: KnownWork) -> list[int]:
        """Return the functions that do at least one of these kinds of work."""
        return [kind for work in works for kind in self.types_by_work.get(work, ())]


def function_purposes(
    *, function_frames: FunctionFrames, function_lines: FunctionLines | Unavailable
) -> FunctionPurposes:
    """Find the purpose of each frame, from the outermost frames inwards.

    Definition: docs/definitions/host-time.md#functions.
    """
    frames = function_frames
    purpose_of_type = np.zeros(max(frames.names, default=-1) + 1, np.uint8)
    types: dict[KnownWork, list[int]] = defaultdict(list)
    for kind, name in frames.names.items():
        purpose_of_type[kind] = _known_purpose(name)
        row = _first_row(name, with_work=True)
        if row is not None and row.work is not None:
            types[row.work].append(kind)
    own = purpose_of_type[frames.type]
    iterators = [
        kind
        for kind, name in frames.names.items()
        if not name.library
        and _RETURNS_ELEMENT.search(name.function.rpartition(".")[2])
    ]
    if not isinstance(function_lines, Unavailable):
        iterators += function_lines.types_called_as(_TAKES_ELEMENT)
    in_iterator = frames.rows_called_from(np.isin(frames.type, iterators))
    is_other = (own == FunctionPurpose.RECEIVE) & ~in_iterator
    own = np.where(is_other, FunctionPurpose.AWAIT, own).astype(np.uint8)
    # Copy purposes from callers to callees until nothing changes.
    purpose, inside = own, frames.parent >= 0
    while True:
        above = np.where(inside, purpose[frames.parent], 0)
        inherited = np.where(above > 0, above, own).astype(np.uint8)
        if (inherited == purpose).all():
            break
        purpose = inherited
    return FunctionPurposes(
        purpose, {work: tuple(rows) for work, rows in types.items()}
    )


def is_wait(name: FunctionName) -> bool:
    """Return whether Python waits for another thread in this function."""
    return _known_purpose(name) in AWAITING
