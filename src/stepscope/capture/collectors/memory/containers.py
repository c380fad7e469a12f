"""The lists, dictionaries and queues of the program, by the names that lead to them.

Looked at are the variables of functions that run now, what stands in them, and
attributes of objects whose class is the program's own. Nothing of the program is run:
lengths are asked of Python's own containers, and sizes of arrays of known libraries;
what a graph of gradients holds is not unpacked. Nothing lives longer for it.
"""

from __future__ import annotations

import sys
import sysconfig
import time
from collections import OrderedDict, defaultdict, deque
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from stepscope.capture.ground.functions import FunctionNames

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import FrameType

__all__ = ["Added", "Container", "added_to", "containers", "graph_of"]

#: So many objects are looked at, and for so long, while the program waits.
_MOST_OBJECTS: Final = 20_000
_MOST_S: Final = 0.05
#: Names and attributes on the way to a container.
_DEEPEST: Final = 4
#: Of a container so many members are looked into, of what was added to it so many.
_MOST_MEMBERS: Final = 32
_MOST_ADDED: Final = 256
#: Of a tuple, list or dictionary that was added its members are counted so deep.
_NESTED: Final = 2
#: So many nodes of a graph of gradients are looked at.
_MOST_NODES: Final = 2_000
#: Classes of the program that derive from them may do anything when they are asked.
_CONTAINERS: Final = (list, dict, deque, defaultdict, OrderedDict)
_PAIRS: Final = (dict, defaultdict, OrderedDict)
#: A flag of code: the variables of a function, other than those of a module, are in no
#: dictionary.
_OPTIMIZED: Final = 1
#: References to a dictionary of variables that nobody else has: that of the frame, of
#: who asked for it, and of the count.
_NOBODYS: Final = 3
_ARRAYS: Final = ("torch", "numpy", "jax", "jaxlib", "tensorflow")
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
        function: The function whose variable leads to it, as functions are named.
        length: Number of its members, or of the nodes of its graph.
        value: The container itself.
        graph_bytes: What the graph of a tensor holds; 0 for a container.
    """

    path: str
    function: str
    length: int
    value: Any
    graph_bytes: int = 0


class Added(NamedTuple):
    """What was added to a container.

    Attributes:
        items: Number of members.
        array_bytes: What their arrays take.
        graph_bytes: What graphs of gradients hold for members, beside their arrays.
    """

    items: int
    array_bytes: int
    graph_bytes: int


class _Object(NamedTuple):
    value: Any
    path: str
    function: str
    depth: int


def containers() -> dict[int, Container]:
    """Return the containers that functions of the program reach, by their identity."""
    until_s = time.thread_time() + _MOST_S
    found: dict[int, Container] = {}
    seen: set[int] = set()
    waiting = deque(_variables())
    while waiting and len(seen) < _MOST_OBJECTS and time.thread_time() < until_s:
        one = waiting.popleft()
        if id(one.value) in seen:
            continue
        seen.add(id(one.value))
        if type(one.value) in _CONTAINERS and not _is_bounded(one.value):
            kept = Container(one.path, one.function, len(one.value), one.value)
            found[id(one.value)] = kept
        elif _has_graph(one.value):
            held = graph_of(one.value)
            found[id(one.value)] = Container(
                *(one.path, one.function, held.items, one.value, held.graph_bytes)
            )
        if one.depth < _DEEPEST:
            waiting.extend(_members(one))
    return found


def added_to(container: Container, length: int) -> Added:
    """Return what was added to a container since it had a length.

    Members are added at the end; of very many the first ones say what all take.
    """
    items = len(container.value) - length
    values = container.value
    members = values.values() if type(values) in _PAIRS else values
    some = list(islice(members, length, length + _MOST_ADDED))
    scale = items / max(len(some), 1)
    sizes = [_array_bytes(one, _NESTED) for one in some]
    # Graphs are searched, so of few members: those that were added last.
    graphs = [graph_of(it).graph_bytes for one in some[-2:] for it in _tensors(one)]
    held = sum(graphs) / max(len(some[-2:]), 1)
    return Added(items, int(sum(sizes) * scale), int(held * items))


def graph_of(tensor: Any) -> Added:
    """Return the nodes of a tensor's graph of gradients, and what they still hold.

    What the backward pass has freed is held no more, and weights live anyway.
    """
    nodes: set[Any] = set()
    sizes: dict[int, int] = {}
    waiting = [tensor.grad_fn]
    while waiting and len(nodes) < _MOST_NODES:
        node = waiting.pop()
        if node is None or node in nodes:
            continue
        nodes.add(node)
        for name in dir(type(node)):
            if name.startswith("_raw_saved_"):
                sizes.update(_saved(node, name))
        waiting += [before for before, _ in node.next_functions]
    return Added(len(nodes), 0, sum(sizes.values()))


def _saved(node: Any, name: str) -> dict[int, int]:
    """Return the sizes of the tensors under a name, by where their memory begins.

    They are taken as they are stored. To unpack them would run what the program packed
    them with: checkpointing computes the layer anew then. What is stored in another
    form has no size here; nor has any in a PyTorch that does not tell it.
    """
    try:
        value = getattr(node, name)
    except RuntimeError:
        return {}
    found = {}
    for saved in value if isinstance(value, list | tuple) else (value,):
        one: Any = getattr(saved, "data", None)
        if not _is_array(one) or not hasattr(one, "untyped_storage"):
            continue
        base = one if one._base is None else one._base  # noqa: SLF001 - of a view
        if not (base.is_leaf and base.requires_grad):
            storage = one.untyped_storage()
            found[storage.data_ptr()] = storage.nbytes()
    return found


def _variables() -> Iterator[_Object]:
    """Yield the variables of the program's functions that run now."""
    names = FunctionNames()
    for outer in sys._current_frames().values():  # noqa: SLF001 - the way to them
        frame: FrameType | None = outer
        while frame is not None:
            function = names.of(frame.f_code)
            if function and not _is_library(frame.f_code.co_filename):
                for name, value in _variables_of(frame):
                    if not name.startswith("__"):
                        yield _Object(value, name, function, 0)
            frame = frame.f_back


def _variables_of(frame: FrameType) -> list[tuple[str, Any]]:
    """Return the variables of a frame, and let none of them live longer for it.

    Before Python 3.13 a frame keeps the dictionary that it makes of them, and with it
    all that the function lets go of later. It is emptied, unless the program has it,
    too: by `locals()`.
    """
    variables = frame.f_locals
    found = list(variables.items())
    copied = sys.version_info < (3, 13) and frame.f_code.co_flags & _OPTIMIZED
    if copied and sys.getrefcount(variables) <= _NOBODYS:
        variables.clear()
    return found


def _members(one: _Object) -> Iterator[_Object]:
    value: Any = one.value
    pairs: Iterable[tuple[str, Any]] = ()
    if type(value) in _PAIRS:
        some = list(islice(value.items(), _MOST_MEMBERS))
        pairs = ((f"[{key!r}]", it) for key, it in some if type(key) is str)
    elif type(value) in (list, tuple):
        some = list(islice(value, _MOST_MEMBERS))
        pairs = ((f"[{at}]", it) for at, it in enumerate(some))
    elif _is_programs(type(value)):
        own = getattr(value, "__dict__", None)
        attributes = list(own.items()) if isinstance(own, dict) else []
        pairs = ((f".{name}", it) for name, it in attributes[:_MOST_MEMBERS])
    for suffix, it in pairs:
        yield _Object(it, one.path + suffix, one.function, one.depth + 1)


def _is_bounded(value: object) -> bool:
    return type(value) is deque and value.maxlen is not None


def _is_programs(kind: type) -> bool:
    """Return whether a class is the program's own, by the file of its module."""
    module = sys.modules.get(kind.__module__)
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and not _is_library(file)


def _is_library(file: str) -> bool:
    return any(it in file for it in _LIBRARIES)


def _is_array(value: object) -> bool:
    return type(value).__module__.partition(".")[0] in _ARRAYS


def _array_bytes(value: Any, depth: int) -> int:
    """Return what arrays take; views count as what they show."""
    if _is_array(value):
        size = getattr(value, "nbytes", None)
        if isinstance(size, int):
            return size
        shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
        count = getattr(shape, "num_elements", lambda: None)()
        return (count or 0) * int(getattr(dtype, "size", 0) or 0)
    return sum(_array_bytes(it, depth - 1) for it in _parts(value, depth))


def _tensors(value: Any, depth: int = _NESTED) -> list[Any]:
    """Return the tensors of a member that have a graph of gradients."""
    if _is_array(value):
        return [value] if _has_graph(value) else []
    return [it for one in _parts(value, depth) for it in _tensors(one, depth - 1)]


def _has_graph(value: object) -> bool:
    if type(value).__module__.partition(".")[0] != "torch":
        return False
    return getattr(value, "grad_fn", None) is not None


def _parts(value: Any, depth: int) -> list[Any]:
    if depth <= 0:
        return []
    if type(value) in _PAIRS:
        value = value.values()
    elif type(value) not in (list, tuple):
        return []
    return list(islice(value, _MOST_MEMBERS))
