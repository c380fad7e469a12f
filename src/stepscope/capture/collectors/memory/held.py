"""What arrays of known libraries take, and what graphs of gradients still hold.

Sizes are asked of the libraries, and of nothing that the program has written; what a
graph of gradients has saved is not unpacked.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Of a tuple, list or dictionary that was added its members are counted so deep.
_NESTED: Final = 2
#: This many members of each are.
_MOST_PARTS: Final = 32
#: This many nodes of a graph of gradients are looked at.
_MOST_NODES: Final = 2_000
#: Classes of the program that derive from them may do anything when they are asked.
CONTAINERS: Final = (list, dict, deque, defaultdict, OrderedDict)
PAIRS: Final = (dict, defaultdict, OrderedDict)
#: What a tensor raises that does not say what it is asked for: one that is sparse, is
#: not initialized, or was freed by the backward pass.
_REFUSALS: Final = (RuntimeError, ValueError, TypeError)
_ARRAYS: Final = ("torch", "numpy", "jax", "jaxlib", "tensorflow")


class Added(NamedTuple):
    """What was added to a container.

    Attributes:
        graph_bytes: What graphs of gradients hold for members, without arrays.
    """

    items: int
    array_bytes: int
    graph_bytes: int


class Graphs:
    """Graphs of gradients: each node counts once, and so does what several have saved.

    A search that meets a node of an earlier one goes no further there. What the
    backward pass has freed is held no more, and weights live anyway.
    """

    def __init__(self) -> None:
        self._nodes: set[Any] = set()
        #: By where the memory of a saved tensor begins.
        self._sizes: dict[int, int] = {}
        #: Under which names nodes of a kind have saved tensors.
        self._names: dict[type, list[str]] = {}

    def add_tensors(self, tensors: Iterable[Any]) -> Added:
        """Return the nodes of some tensors that are new here, and what these hold."""
        before, held = len(self._nodes), sum(self._sizes.values())
        waiting = [tensor.grad_fn for tensor in tensors]
        while waiting and len(self._nodes) - before < _MOST_NODES:
            node = waiting.pop()
            if node is None or node in self._nodes:
                continue
            self._nodes.add(node)
            kind = type(node)
            if kind not in self._names:
                # To ask for them takes far longer than a node.
                names = [it for it in dir(kind) if it.startswith("_raw_saved_")]
                self._names[kind] = names
            for name in self._names[kind]:
                self._sizes.update(_saved_sizes(node, name))
            waiting += [behind for behind, _ in node.next_functions]
        return Added(len(self._nodes) - before, 0, sum(self._sizes.values()) - held)


def _saved_sizes(node: Any, name: str) -> dict[int, int]:
    """Return the sizes of the tensors under a name, by where their memory begins.

    They are taken as they are stored. To unpack them would run what the program packed
    them with: checkpointing computes the layer again then. What is stored in another
    form has no size here; nor has any in a PyTorch that does not say it.
    """
    found = {}
    with suppress(*_REFUSALS):
        value = getattr(node, name)
        for saved in value if isinstance(value, list | tuple) else (value,):
            one: Any = getattr(saved, "data", None)
            if not _is_array(one) or not hasattr(one, "untyped_storage"):
                continue
            base = one if one._base is None else one._base  # noqa: SLF001 - of a view
            if not (base.is_leaf and base.requires_grad):
                storage = one.untyped_storage()
                found[storage.data_ptr()] = storage.nbytes()
    return found


def _is_array(value: object) -> bool:
    return module_name(type(value)).partition(".")[0] in _ARRAYS


def list_arrays(value: Any, depth: int = _NESTED) -> list[Any]:
    """Return the arrays of a member, so deep."""
    if _is_array(value):
        return [value]
    if type(value) in PAIRS:
        value = value.values()
    elif type(value) not in (list, tuple):
        return []
    parts = list(islice(value, _MOST_PARTS)) if depth > 0 else []
    return [array for part in parts for array in list_arrays(part, depth - 1)]


def measure_array(array: Any) -> int:
    """Return the bytes of an array; views count as what they show."""
    with suppress(*_REFUSALS):
        # An array of JAX that was donated has a size, and no memory.
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
    """Return a number that arrays in the same memory have in common."""
    with suppress(*_REFUSALS):
        if hasattr(array, "untyped_storage"):
            return array.untyped_storage().data_ptr() or id(array)
    base = getattr(array, "base", None)
    return id(array if base is None else base)


def tensors_with_graph(value: Any) -> list[Any]:
    """Return the tensors of a member that have a graph of gradients."""
    return [it for it in list_arrays(value) if has_graph(it)]


def has_graph(value: object) -> bool:
    """Return whether a value is a tensor of PyTorch that some ops led to."""
    kind = type(value)
    if module_name(kind).partition(".")[0] != "torch":
        return False
    # Other objects of PyTorch answer to any name: `torch.ops`, proxies of a graph.
    is_tensor = any("grad_fn" in vars(it) for it in kind.__mro__)
    return is_tensor and getattr(value, "grad_fn", None) is not None


def module_name(kind: type) -> str:
    """Return the module of a class; "" where the class says anything else."""
    module = kind.__module__
    return module if isinstance(module, str) else ""
