"""The program's lists, dictionaries and queues, and the names that refer to them.

The search covers variables of running functions, members of containers, and attributes
of objects whose class belongs to the program. The search runs no code of the program:
it asks only Python's built-in containers for their length. The search extends the life
of no object, and changes no dictionary of variables that the program holds.
"""

from __future__ import annotations

import dis
import sys
import sysconfig
import time
from collections import deque
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from stepscope.capture.base.functions import FunctionNames
from stepscope.capture.collectors.memory.graphs import (
    CONTAINERS,
    PAIRS,
    Added,
    Graphs,
    has_graph,
    list_arrays,
    measure_array,
    memory_address,
    module_name,
    tensors_with_graph,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import CodeType, FrameType

#: Maximum number of examined objects and of CPU seconds, while the program waits.
_MAX_OBJECTS: Final = 20_000
MAX_CPU_S: Final = 0.05
#: Maximum number of names, keys and attributes on the path to a container.
_MAX_DEPTH: Final = 4
#: Maximum number of members examined per container, and of added members measured.
_MAX_MEMBERS: Final = 32
_MAX_ADDED_MEMBERS: Final = 64
#: Maximum number of added members for a comparison with older members, which are
#: reached by iterating over all added members.
_MAX_PASSED_MEMBERS: Final = 100_000
#: Maximum characters of a dictionary key in a path; a longer text is data, not a name.
_MAX_KEY_CHARS: Final = 64
#: Code flag of functions (not modules), whose variables are not stored in a dictionary.
_OPTIMIZED: Final = 1
#: Reference count of a frame, or of its dictionary of variables, that no other code
#: holds: references by the thread or frame, by the search and by the count itself.
_UNSHARED_REFERENCES: Final = 3
#: Functions that return or use the dictionary of the caller's variables, which the
#: caller may keep. A frame's attribute `f_locals` also returns this dictionary.
_FRAME_READERS: Final = frozenset({"locals", "vars", "exec", "eval"})
_FRAME_VARIABLES: Final = "f_locals"
_LIBRARIES: Final = (
    *{sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib")},
    str(Path(__file__).resolve().parents[3]),
    "site-packages",
    "dist-packages",
    "<",
)


class Container(NamedTuple):
    """A container, or a tensor with an autograd graph, which may grow as well.

    Attributes:
        path: Path from a function's variable, such as `self.history['batches']`.
        length: Number of members, or of nodes in the graph.
        graph_bytes: Bytes that a tensor's graph holds; 0 for a container.
    """

    path: str
    function: str
    length: int
    value: Any
    graph_bytes: int = 0


class _Object(NamedTuple):
    value: Any
    path: str
    function: str
    depth: int


def reachable_containers() -> dict[int, Container]:
    """Return the containers reachable from the program's running functions, by `id`."""
    until_s = time.thread_time() + MAX_CPU_S
    reached: dict[int, Container] = {}
    visited: set[int] = set()
    waiting = deque(_program_variables())
    while waiting and len(visited) < _MAX_OBJECTS and time.thread_time() < until_s:
        node = waiting.popleft()
        value = node.value
        if id(value) in visited:
            continue
        visited.add(id(value))
        is_bounded = type(value) is deque and value.maxlen is not None
        if is_container(value) and not is_bounded:
            reached[id(value)] = Container(node.path, node.function, len(value), value)
        elif has_graph(value):
            graph = Graphs().add_tensors([value])
            reached[id(value)] = Container(
                *(node.path, node.function, graph.items, value, graph.graph_bytes)
            )
        if node.depth < _MAX_DEPTH:
            waiting.extend(_reachable_members(node))
    return reached


def is_container(value: object) -> bool:
    """Return whether a value is exactly one of Python's built-in containers."""
    return type(value) in CONTAINERS


def growth_since(container: Container, length: int) -> Added:
    """Return what was added to a container since it had `length` members.

    New members are at the end. If very many members are new, only the last are
    measured, and the sizes are scaled up. An array counts once, or not at all if it
    shares memory with an older member, as a part of a data set or a reused buffer does.
    The autograd graph of a member may continue that of the member before, so each added
    member counts with the bytes that the last member added.
    """
    values = container.value
    items = len(values) - length
    members = values.values() if type(values) in PAIRS else values
    last = list(islice(reversed(members), max(min(items, _MAX_ADDED_MEMBERS), 2)))
    added = last[: max(items, 0)]
    before: list[Any] = []
    if 0 < items <= _MAX_PASSED_MEMBERS:
        before = list(islice(reversed(members), items, items + _MAX_ADDED_MEMBERS))
    old = {memory_address(array) for member in before for array in list_arrays(member)}
    arrays = {id(array): array for member in added for array in list_arrays(member)}
    sizes = sum(
        measure_array(array)
        for array in arrays.values()
        if memory_address(array) not in old
    )
    graphs = Graphs()
    for member in last[1:2]:
        graphs.add_tensors(tensors_with_graph(member))
    graph = graphs.add_tensors(
        [tensor for member in added[:1] for tensor in tensors_with_graph(member)]
    )
    scale = items / max(len(added), 1)
    return Added(items, int(sizes * scale), graph.graph_bytes * items)


def _program_variables() -> Iterator[_Object]:
    names = FunctionNames()
    frames: list[FrameType | None] = [*sys._current_frames().values()]  # noqa: SLF001 - no public function
    while frames:
        frame = frames.pop()
        while frame is not None:
            code = frame.f_code
            function = names.function_name(code)
            if function and not _is_library(code.co_filename):
                # Other code that holds a frame is a trace function or debugger.
                is_unshared = sys.getrefcount(frame) <= _UNSHARED_REFERENCES
                for name, value in _frame_variables(frame, is_unshared=is_unshared):
                    if not name.startswith("__"):
                        yield _Object(value, name, function, 0)
            frame = frame.f_back


def _frame_variables(frame: FrameType, *, is_unshared: bool) -> list[tuple[str, Any]]:
    """Return the variables of a frame without keeping any of them alive longer.

    Before Python 3.13 a function's frame keeps the returned dictionary, and thus values
    that the function drops later, so the dictionary is emptied. If the program may hold
    the dictionary too, the frame is skipped: reading it would change the dictionary. In
    a trace function's thread, emptying the dictionary would delete the variables.
    """
    code = frame.f_code
    if sys.version_info >= (3, 13) or not code.co_flags & _OPTIMIZED:
        return list(frame.f_locals.items())
    if not is_unshared or _accesses_variables(code):
        return []
    variables = frame.f_locals
    items = list(variables.items())
    if sys.getrefcount(variables) <= _UNSHARED_REFERENCES:
        variables.clear()
    return items


def _accesses_variables(code: CodeType) -> bool:
    """Return whether a function accesses the dictionary of its variables.

    Attributes with the same names, such as `model.eval()`, do not count.
    """
    if _FRAME_VARIABLES in code.co_names:
        return True
    return not _FRAME_READERS.isdisjoint(code.co_names) and any(
        instruction.opname == "LOAD_GLOBAL" and instruction.argval in _FRAME_READERS
        for instruction in dis.get_instructions(code)
    )


def _reachable_members(parent: _Object) -> Iterator[_Object]:
    value: Any = parent.value
    pairs: Iterable[tuple[str, Any]] = ()
    if type(value) in PAIRS:
        some = list(islice(value.items(), _MAX_MEMBERS))
        pairs = (
            (f"[{key!r}]", member)
            for key, member in some
            if type(key) is str and len(key) <= _MAX_KEY_CHARS
        )
    elif type(value) in (list, tuple):
        some = list(islice(value, _MAX_MEMBERS))
        pairs = ((f"[{index}]", member) for index, member in enumerate(some))
    else:
        file = getattr(sys.modules.get(module_name(type(value))), "__file__", None)
        if isinstance(file, str) and not _is_library(file):
            # Bypass the class's own attribute access, which may run program code.
            with suppress(AttributeError):
                own = object.__getattribute__(value, "__dict__")
                if isinstance(own, dict):
                    some = list(islice(own.items(), _MAX_MEMBERS))
                    pairs = ((f".{name}", member) for name, member in some)
    for suffix, member in pairs:
        yield _Object(member, parent.path + suffix, parent.function, parent.depth + 1)


def _is_library(file: str) -> bool:
    return any(map(file.__contains__, _LIBRARIES))
