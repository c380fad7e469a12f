"""Sizes of arrays of known libraries, and of tensors that autograd graphs hold.

Sizes come from the libraries, never from code of the program. Tensors that an autograd
graph has saved are not unpacked.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Maximum depth of nested tuples, lists and dicts in which an added member is measured.
_MAX_DEPTH: Final = 2
#: Maximum number of members that are measured at each level.
_MAX_PARTS: Final = 32
#: Maximum number of nodes that are examined per search of an autograd graph.
_MAX_NODES: Final = 2_000
#: Only exact types: accessing a subclass of the program may run any code.
CONTAINERS: Final = (list, dict, deque, defaultdict, OrderedDict)
PAIRS: Final = (dict, defaultdict, OrderedDict)
#: Errors of tensors that lack a property: sparse, uninitialized, or freed by backward.
_REFUSALS: Final = (RuntimeError, ValueError, TypeError)
_ARRAYS: Final = ("torch", "numpy", "jax", "jaxlib", "tensorflow")


class Added(NamedTuple):
    """Growth of a container.

    Attributes:
        graph_bytes: Bytes held by the members' autograd graphs, in addition to arrays.
    """

    items: int
    array_bytes: int
    graph_bytes: int


class Graphs:
    """Autograd graphs, in which each node and each saved tensor counts once.

    A search stops at nodes of earlier searches. Tensors that the backward pass has
    freed do not count, and neither do weights, which exist without the graph.
    """

    def __init__(self) -> None:
        self._nodes: set[Any] = set()
        #: Start address of a saved tensor's memory → bytes.
        self._sizes: dict[int, int] = {}
        #: Type of a node → attribute names of its saved tensors.
        self._names: dict[type, list[str]] = {}

    def add_tensors(self, tensors: Iterable[Any]) -> Added:
        """Return the number of new graph nodes of tensors, and the bytes they hold."""
        nodes, size = len(self._nodes), sum(self._sizes.values())
        waiting = [tensor.grad_fn for tensor in tensors]
        while waiting and len(self._nodes) - nodes < _MAX_NODES:
            node = waiting.pop()
            if node is None or node in self._nodes:
                continue
            self._nodes.add(node)
            kind = type(node)
            if kind not in self._names:
                # Cached by node type: `dir` takes far longer than measuring a node.
                names = [name for name in dir(kind) if name.startswith("_raw_saved_")]
                self._names[kind] = names
            for name in self._names[kind]:
                self._sizes.update(_saved_sizes(node, name))
            waiting += [behind for behind, _ in node.next_functions]
        return Added(len(self._nodes) - nodes, 0, sum(self._sizes.values()) - size)


def _saved_sizes(node: Any, name: str) -> dict[int, int]:
    """Return the bytes of saved tensors in a node's attribute, by start address.

    Tensors are measured in their packed form. Unpacking would run the program's hooks;
    with checkpointing, it would compute the layer again. Tensors packed in another form
    have no size here, as in PyTorch versions without the raw attribute.
    """
    sizes = {}
    with suppress(*_REFUSALS):
        value = getattr(node, name)
        for saved in value if isinstance(value, list | tuple) else (value,):
            tensor: Any = getattr(saved, "data", None)
            if not _is_array(tensor) or not hasattr(tensor, "untyped_storage"):
                continue
            base = tensor if tensor._base is None else tensor._base  # noqa: SLF001 - the base of a view
            if not (base.is_leaf and base.requires_grad):
                storage = tensor.untyped_storage()
                sizes[storage.data_ptr()] = storage.nbytes()
    return sizes


def _is_array(value: object) -> bool:
    return module_name(type(value)).partition(".")[0] in _ARRAYS


def list_arrays(value: Any, depth: int = _MAX_DEPTH) -> list[Any]:
    """Return the arrays in a value, up to a nesting depth."""
    if _is_array(value):
        return [value]
    if type(value) in PAIRS:
        value = value.values()
    elif type(value) not in (list, tuple):
        return []
    parts = list(islice(value, _MAX_PARTS)) if depth > 0 else []
    return [array for part in parts for array in list_arrays(part, depth - 1)]


def measure_array(array: Any) -> int:
    """Return the bytes of an array; a view counts only its visible part."""
    with suppress(*_REFUSALS):
        # A donated JAX array still has a size, but no memory.
        if getattr(array, "is_deleted", lambda: False)():
            return 0
        size = getattr(array, "nbytes", None)
        if isinstance(size, int):
            return size
        shape, dtype = getattr(array, "shape", None), getattr(array, "dtype", None)
        count = getattr(shape, "num_elements", lambda: None)()
        return (count or 0) * int(getattr(dtype, "size", 0) or 0)
    return 0


def memory_address(array: Any) -> int:
    """Return a number that is equal for arrays in the same memory."""
    with suppress(*_REFUSALS):
        if hasattr(array, "untyped_storage"):
            return array.untyped_storage().data_ptr() or id(array)
    base = getattr(array, "base", None)
    return id(array if base is None else base)


def tensors_with_graph(value: Any) -> list[Any]:
    """Return the tensors in a value that have an autograd graph."""
    return [array for array in list_arrays(value) if has_graph(array)]


def has_graph(value: object) -> bool:
    """Return whether a value is a PyTorch tensor that ops computed."""
    kind = type(value)
    if module_name(kind).partition(".")[0] != "torch":
        return False
    # Other PyTorch objects accept any attribute name: `torch.ops`, graph proxies.
    is_tensor = any("grad_fn" in vars(base) for base in kind.__mro__)
    return is_tensor and getattr(value, "grad_fn", None) is not None


def module_name(kind: type) -> str:
    """Return the module of a class; "" if the attribute is not a text."""
    module = kind.__module__
    return module if isinstance(module, str) else ""
