"""`function_names`: function, file and library, from the name of each type of frame."""

from __future__ import annotations

import re
import sys
from pathlib import PurePath
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from stepscope.derive.columns.stat_values import find_handle, owner_texts, rows_with_key
from stepscope.derive.names.event_kinds import EventFlag
from stepscope.frozen import Frozen
from stepscope.patterns import Pattern
from stepscope.trace.reading.stat_keys import StatKey
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

    from stepscope.array_types import Int32s
    from stepscope.derive.names.event_kinds import EventKinds
    from stepscope.trace.model import TraceData

#: Name, file and first line of a function.
FunctionKey: TypeAlias = "tuple[str | None, str | None, int | None]"
#: Python's names for the code of comprehensions, which count as part of a function.
COMPREHENSIONS: Final = ("<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>")

#: Names such as `path/train.py(12): load`; the path may lack its first folders.
_CUT_OFF: Final = Pattern(
    r"(?P<file>[^()]*)\((?P<line>\d+)\): (?P<function>.*)\Z", re.DOTALL
)
#: Names such as `$train.py:12 load`.
_IN_FILE: Final = (
    Pattern(r"\$(?P<file>.*?):(?P<line>\d+) (?P<function>.*)\Z", re.DOTALL),
    _CUT_OFF,
)
#: Names such as `$solver!main(int, char**)`; a library's file is in angle brackets.
_IN_BINARY: Final = Pattern(r"\$(?P<file>[^!]*)!(?P<function>.*)\Z", re.DOTALL)
#: Names such as `nn.Module: Linear_0`, `<built-in method run_backward of …>`.
_IN_NO_FILE: Final = (
    Pattern(r"nn\.Module: (?P<function>.*)\Z", re.DOTALL),
    Pattern(r"<built-in (?:function|method) (?P<function>[^ >]+)"),
    Pattern(r"\$(?:<unknown> )?(?P<function>.*)\Z", re.DOTALL),
)
#: Paths of installed files, of Python's own files, and of generated code.
_LIBRARY: Final = Pattern(
    r"(?:^|[\\/])(?:site-packages|dist-packages|lib(?:64)?[\\/](?:python|pypy)\d[.\d]*"
    r"|Python\d+[\\/]Lib)[\\/]"
    r"|^<(?!stdin>|string>|ipython-input-)"
    # PyTorch's profiler omits the folder from which a file was imported, both for
    # packages and for the program. Programs do not give their own folders such names.
    r"|^(?:torch(?:vision|audio)?|functorch|triton|numpy|scipy|pandas|sklearn|PIL|tqdm"
    r"|tensorflow|keras|jax|jaxlib|asyncio|collections|concurrent|ctypes|encodings|html"
    r"|importlib|json|logging|multiprocessing|unittest|urllib|xml)[\\/]"
    # Names of Python's own modules: XLA's tracer records only the name of a file.
    r"|^(?:queue|selectors|subprocess|threading)\.py\Z"
)


def is_nameless(function: str) -> bool:
    """Return whether a function is a lambda or comprehension inside another one."""
    return function.endswith((*COMPREHENSIONS, "<lambda>"))


def name_with_location(function: str, file: str | None, line: int | None) -> str:
    """Return `load (train.py:12)`, or less if file or line are unknown."""
    if not file:
        return function
    name = PurePath(file.replace("\\", "/")).name
    location = name if line is None else f"{name}:{line}"
    return f"{function} ({location})"


class FunctionName(Frozen, frozen=True, eq=True):
    """A function, as named by its events.

    Attributes:
        function: Name of the function, with its class if recorded.
        file: The file that contains the function: the whole path if recorded, else the
            part in the event's name; None for a function without a file.
        line: First line of the function; None for a function without a file.
        library: Whether the file belongs to an installed package or to Python; None if
            only the file's name was recorded.
    """

    function: str
    file: str | None
    line: int | None
    library: bool | None

    @property
    def key(self) -> FunctionKey:
        """Return what identifies the function: its name, file and first line."""
        return self.function, self.file, self.line

    def placed(self) -> str:
        """Return `load (train.py:12)`, or less if file or line are unknown."""
        return name_with_location(self.function, self.file, self.line)


class FunctionNames(Frozen, frozen=True):
    """The functions of frames.

    One function may have several event types, for example one per process.

    Attributes:
        names: Function of each canonical type.
        canonical: int32; by row of `event_types`, the canonical type of its function.
    """

    names: Mapping[int, FunctionName]
    canonical: Int32s


def function_names(
    *,
    trace: TraceData,
    event_types: pl.DataFrame,
    type_stats: pl.DataFrame | Unavailable,
    event_kinds: EventKinds,
) -> FunctionNames:
    """Find the function, file and line in the names of events.

    Definition: docs/definitions/host-time.md#functions.
    """
    chosen = np.flatnonzero(event_kinds.has(EventFlag.PYTHON_FRAME)).astype(np.int32)
    paths: list[str | None] = [None] * len(chosen)
    if not isinstance(type_stats, Unavailable):
        handle = find_handle(trace.strings, StatKey.FILE_PATH)
        stats = rows_with_key(type_stats, "type", handle)
        paths = owner_texts(trace, stats, chosen, handle)
    texts = event_types["name"].gather(chosen).to_list()
    canonical = np.arange(len(event_types), dtype=np.int32)
    first: dict[tuple[str, str | None], int] = {}
    names: dict[int, FunctionName] = {}
    for row, text, path in zip(chosen.tolist(), texts, paths, strict=True):
        same = first.setdefault((text, path), row)
        canonical[row] = same
        if same == row:
            names[row] = _parse_name(text, path)
    return FunctionNames(names, canonical)


def _parse_name(name: str, path: str | None) -> FunctionName:
    for form in _IN_FILE:
        match = form.match(name)
        if match is None:
            continue
        file = path or match["file"]
        if "__autograph_generated_file" in file:
            # AutoGraph's version of a function of the program.
            function = match["function"].rpartition(".")[2].removeprefix("tf__")
            return FunctionName(function, None, None, library=False)
        # A file name without its folder may be that of a library's file.
        is_library = False if "/" in file or "\\" in file else None
        if _LIBRARY.search(file):
            is_library = True
        elif is_library is None and form is _CUT_OFF:
            # The file belongs to the program, unless Python has a module of this name.
            # For a package, only the name of its folder may be recorded.
            stem = file.removesuffix(".py")
            may_be_pythons = stem == file or stem in sys.stdlib_module_names
            is_library = None if may_be_pythons else False
        return FunctionName(match["function"], file, int(match["line"]), is_library)
    match = _IN_BINARY.match(name)
    if match is not None:
        file = match["file"]
        is_library = file.startswith("<")
        return FunctionName(match["function"], file.strip("<>"), None, is_library)
    for form in _IN_NO_FILE:
        match = form.match(name)
        if match is not None:
            return FunctionName(match["function"], None, None, None)
    return FunctionName(name, None, None, None)
