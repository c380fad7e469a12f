"""The lists, dictionaries and queues of the program, by the names that lead to them.

Looked at are the variables of functions that run now, what stands in them, and
attributes of objects whose class is the program's own. Nothing of the program is run:
lengths are asked of Python's own containers. Nothing lives longer for it, and no
dictionary that the program made of its variables changes.
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

from stepscope.capture.collectors.memory.held import (
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
from stepscope.capture.ground.functions import FunctionNames

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import CodeType, FrameType

#: This many objects are looked at, and for so long, while the program waits.
_MOST_OBJECTS: Final = 20_000
MOST_S: Final = 0.05
#: Names and attributes on the way to a container.
_DEEPEST: Final = 4
#: Of a container this many members are looked into, of what was added to it this many.
_MOST_MEMBERS: Final = 32
_MOST_ADDED: Final = 64
#: As many that it had before are compared with these, unless more than this many were
#: added: all of them are passed by on the way.
_MOST_PASSED: Final = 100_000
#: A longer key is no name, but a text that the program works on.
_LONGEST_KEY: Final = 64
#: A flag of code: the variables of a function, other than those of a module, are in no
#: dictionary.
_OPTIMIZED: Final = 1
#: References to a frame, or to the dictionary of its variables, that nobody else has:
#: that of the thread or of the frame, of who looks, and of the count.
_NOBODYS: Final = 3
#: A function that asks for the dictionary of its variables may keep it, or more in it:
#: by a function of Python's, or by an attribute of a frame.
_ASKING: Final = frozenset({"locals", "vars", "exec", "eval"})
_FRAMES_OWN: Final = "f_locals"
_LIBRARIES: Final = (
    *{sysconfig.get_paths()[it] for it in ("stdlib", "platstdlib", "purelib")},
    str(Path(__file__).resolve().parents[3]),
    "site-packages",
    "dist-packages",
    "<",
)


class Container(NamedTuple):
    """One container, or a tensor with a graph of gradients, which may grow, too.

    Attributes:
        path: How the function reaches it: `self.history['batches']`.
        length: Number of its members, or of the nodes of its graph.
        graph_bytes: What the graph of a tensor holds; 0 for a container.
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
    """Return the containers that functions of the program reach, by their identity."""
    until_s = time.thread_time() + MOST_S
    reached: dict[int, Container] = {}
    seen: set[int] = set()
    waiting = deque(_program_variables())
    while waiting and len(seen) < _MOST_OBJECTS and time.thread_time() < until_s:
        one = waiting.popleft()
        value = one.value
        if id(value) in seen:
            continue
        seen.add(id(value))
        is_bounded = type(value) is deque and value.maxlen is not None
        if is_container(value) and not is_bounded:
            reached[id(value)] = Container(one.path, one.function, len(value), value)
        elif has_graph(value):
            held = Graphs().add_tensors([value])
            reached[id(value)] = Container(
                *(one.path, one.function, held.items, value, held.graph_bytes)
            )
        if one.depth < _DEEPEST:
            waiting.extend(_reachable_members(one))
    return reached


def is_container(value: object) -> bool:
    """Return whether a value is one of Python's own containers, and no tensor."""
    return type(value) in CONTAINERS


def growth_since(container: Container, length: int) -> Added:
    """Return what was added to a container since it had a length.

    Members are added at the end; of very many the last ones say what all take. An array
    counts once, and not at all where it lies in the memory of a member from before: so
    do parts of a data set, and a buffer that is kept again and again. A graph of
    gradients may go on from that of the member before: what the last one adds to it is
    what each adds.
    """
    values = container.value
    items = len(values) - length
    members = values.values() if type(values) in PAIRS else values
    last = list(islice(reversed(members), max(min(items, _MOST_ADDED), 2)))
    some = last[: max(items, 0)]
    before: list[Any] = []
    if 0 < items <= _MOST_PASSED:
        before = list(islice(reversed(members), items, items + _MOST_ADDED))
    there = {memory_address(it) for one in before for it in list_arrays(one)}
    arrays = {id(it): it for one in some for it in list_arrays(one)}
    sizes = sum(
        measure_array(it) for it in arrays.values() if memory_address(it) not in there
    )
    graphs = Graphs()
    for one in last[1:2]:
        graphs.add_tensors(tensors_with_graph(one))
    held = graphs.add_tensors(
        [it for one in some[:1] for it in tensors_with_graph(one)]
    )
    scale = items / max(len(some), 1)
    return Added(items, int(sizes * scale), held.graph_bytes * items)


def _program_variables() -> Iterator[_Object]:
    names = FunctionNames()
    frames: list[FrameType | None] = [*sys._current_frames().values()]  # noqa: SLF001 - the way to them
    while frames:
        frame = frames.pop()
        while frame is not None:
            code = frame.f_code
            function = names.function_name(code)
            if function and not _is_library(code.co_filename):
                # A frame that somebody else has is in a trace function or a debugger.
                alone = sys.getrefcount(frame) <= _NOBODYS
                for name, value in _frame_variables(frame, alone=alone):
                    if not name.startswith("__"):
                        yield _Object(value, name, function, 0)
            frame = frame.f_back


def _frame_variables(frame: FrameType, *, alone: bool) -> list[tuple[str, Any]]:
    """Return the variables of a frame, and let none of them live longer for it.

    Before Python 3.13 a function's frame keeps the dictionary that it makes of them,
    and with it all that the function lets go of later: it is emptied. Where the program
    may have that dictionary, too, the frame is left alone: to ask for it would change
    it. A trace function's thread would empty the variables themselves with it.
    """
    code = frame.f_code
    if sys.version_info >= (3, 13) or not code.co_flags & _OPTIMIZED:
        return list(frame.f_locals.items())
    if not alone or _asks_for_variables(code):
        return []
    variables = frame.f_locals
    found = list(variables.items())
    if sys.getrefcount(variables) <= _NOBODYS:
        variables.clear()
    return found


def _asks_for_variables(code: CodeType) -> bool:
    """Return whether a function asks for the dictionary of its own variables.

    Attributes may have the same names: `model.eval()`.
    """
    if _FRAMES_OWN in code.co_names:
        return True
    return not _ASKING.isdisjoint(code.co_names) and any(
        it.opname == "LOAD_GLOBAL" and it.argval in _ASKING
        for it in dis.get_instructions(code)
    )


def _reachable_members(one: _Object) -> Iterator[_Object]:
    value: Any = one.value
    pairs: Iterable[tuple[str, Any]] = ()
    if type(value) in PAIRS:
        some = list(islice(value.items(), _MOST_MEMBERS))
        pairs = (
            (f"[{key!r}]", it)
            for key, it in some
            if type(key) is str and len(key) <= _LONGEST_KEY
        )
    elif type(value) in (list, tuple):
        some = list(islice(value, _MOST_MEMBERS))
        pairs = ((f"[{at}]", it) for at, it in enumerate(some))
    else:
        file = getattr(sys.modules.get(module_name(type(value))), "__file__", None)
        if isinstance(file, str) and not _is_library(file):
            # Nothing is asked of the program's own class.
            with suppress(AttributeError):
                own = object.__getattribute__(value, "__dict__")
                if isinstance(own, dict):
                    some = list(islice(own.items(), _MOST_MEMBERS))
                    pairs = ((f".{name}", it) for name, it in some)
    for suffix, it in pairs:
        yield _Object(it, one.path + suffix, one.function, one.depth + 1)


def _is_library(file: str) -> bool:
    return any(map(file.__contains__, _LIBRARIES))
