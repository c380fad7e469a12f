"""Derivations side by side: each as soon as its inputs are there, and once only."""

from __future__ import annotations

import threading
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from stepscope._core import wire
from stepscope.cores import core_count

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Mapping


class Kept:
    """Values by key; while one thread computes a value, others that ask for it wait."""

    def __init__(self) -> None:
        self._values: dict[Hashable, object] = {}
        self._being_computed: dict[Hashable, threading.RLock] = {}
        self._lock = threading.Lock()

    def __contains__(self, key: Hashable) -> bool:
        return key in self._values

    def get(self, key: Hashable, compute: Callable[[], object]) -> object:
        """Return the value of a key; an error of `compute` is not kept."""
        with self._lock:
            if key in self._values:
                return self._values[key]
            own = self._being_computed.setdefault(key, threading.RLock())
        with own:
            if key not in self._values:
                value = compute()
                with self._lock:
                    self._values[key] = value
                    del self._being_computed[key]
            return self._values[key]


_Name = TypeVar("_Name")

#: Below this many events threads gain some twenty milliseconds, too little to notice.
_ALONE_EVENTS: Final = 200_000


class _Queue(Generic[_Name]):
    """The names still to be computed, shared by several threads."""

    def __init__(
        self, inputs: Mapping[_Name, Iterable[_Name]], one_by_one: Collection[_Name]
    ) -> None:
        self.errors: list[BaseException] = []
        # Count the computations that wait for each name: the longest chain, and all.
        order = [*TopologicalSorter(inputs).static_order()]
        chain = dict.fromkeys(order, 0)
        waiting: dict[_Name, set[_Name]] = {name: set() for name in order}
        for name in reversed(order):
            for wanted in inputs.get(name, ()):
                chain[wanted] = max(chain[wanted], chain[name] + 1)
                waiting[wanted] |= {name, *waiting[name]}
        self._urgency = {name: (chain[name], len(waiting[name])) for name in order}
        self._one_by_one = frozenset(one_by_one)
        self._one_runs = False
        self._order = TopologicalSorter(inputs)
        self._order.prepare()
        self._ready = list(self._order.get_ready())
        self._changed = threading.Condition()

    def work_off(self, compute: Callable[[_Name], object]) -> None:
        """Compute until nothing is left."""
        try:
            while (name := self._next_name()) is not None:
                compute(name)
                with self._changed:
                    self._one_runs &= name not in self._one_by_one
                    self._order.done(name)
                    self._ready.extend(self._order.get_ready())
                    self._changed.notify_all()
        except BaseException as error:  # noqa: BLE001 - raised where all have stopped
            with self._changed:
                self.errors.append(error)
                self._changed.notify_all()

    def _next_name(self) -> _Name | None:
        with self._changed:
            while not (able := self._ready_names()):
                if self.errors or not self._order.is_active():
                    return None
                self._changed.wait()
            first = max(
                able, key=lambda name: (name in self._one_by_one, *self._urgency[name])
            )
            self._ready.remove(first)
            self._one_runs |= first in self._one_by_one
            return first

    def _ready_names(self) -> list[_Name]:
        if self.errors:
            return []
        if self._one_runs:
            return [name for name in self._ready if name not in self._one_by_one]
        return self._ready


def worth_threads(events: int) -> int:
    """Return how many threads this many events deserve; 1 if kernels keep the lock."""
    if not wire.COMPILED or events < _ALONE_EVENTS:
        return 1
    return core_count()


def compute_side_by_side(
    inputs: Mapping[_Name, Iterable[_Name]],
    compute: Callable[[_Name], object],
    *,
    threads: int,
    one_by_one: Collection[_Name] = (),
) -> None:
    """Call `compute` for every name after its inputs; the calling thread takes part.

    An error ends the rest and is raised when all have stopped.

    Args:
        inputs: Name → the names that are computed before it.
        threads: How many may compute side by side.
        one_by_one: Names whose computation holds the interpreter's lock: side by side
            they would only wait for each other. Each runs as early as it can, next to
            names that do not hold the lock.
    """
    queue = _Queue(inputs, one_by_one)
    helpers = [
        threading.Thread(target=queue.work_off, args=(compute,))
        for _ in range(min(threads, len(inputs)) - 1)
    ]
    for helper in helpers:
        helper.start()
    queue.work_off(compute)
    for helper in helpers:
        helper.join()
    if queue.errors:
        raise queue.errors[0]
