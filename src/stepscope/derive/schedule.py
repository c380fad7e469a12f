"""Parallel computation of derivations: each once, and after its inputs."""

from __future__ import annotations

import threading
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from stepscope._core import wire
from stepscope.cores import core_count

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Mapping


class Kept:
    """A cache for several threads, only one of which computes each value."""

    def __init__(self) -> None:
        self._values: dict[Hashable, object] = {}
        self._being_computed: dict[Hashable, threading.RLock] = {}
        self._lock = threading.Lock()

    def __contains__(self, key: Hashable) -> bool:
        return key in self._values

    def get(self, key: Hashable, compute: Callable[[], object]) -> object:
        """Return the value of a key; an error raised by `compute` is not cached."""
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

#: Minimum number of events for several threads; below it, threads save under 20 ms.
_MIN_EVENTS_FOR_THREADS: Final = 200_000


class _Queue(Generic[_Name]):
    """Names of values that are not computed yet, shared by several threads."""

    def __init__(
        self, inputs: Mapping[_Name, Iterable[_Name]], one_by_one: Collection[_Name]
    ) -> None:
        self.errors: list[BaseException] = []
        # For each name, find the number and longest chain of computations that need it.
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
        """Compute the queued values until none is left or a computation fails."""
        try:
            while (name := self._next_name()) is not None:
                compute(name)
                with self._changed:
                    self._one_runs &= name not in self._one_by_one
                    self._order.done(name)
                    self._ready.extend(self._order.get_ready())
                    self._changed.notify_all()
        except BaseException as error:  # noqa: BLE001 - raised after all threads have stopped
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
    """Return the number of threads; 1 for few events or without compiled code."""
    if not wire.COMPILED or events < _MIN_EVENTS_FOR_THREADS:
        return 1
    return core_count()


def compute_side_by_side(
    inputs: Mapping[_Name, Iterable[_Name]],
    compute: Callable[[_Name], object],
    *,
    threads: int,
    one_by_one: Collection[_Name] = (),
) -> None:
    """Call `compute` for every name after its inputs, also on the calling thread.

    An error stops the other threads and is raised after all threads have stopped.

    Args:
        inputs: Name → the names that are computed before it.
        threads: Maximum number of threads, including the calling one.
        one_by_one: Names whose computation holds the GIL, so that two of them in
            parallel would wait for each other. These names are computed one at a time,
            as early as possible, in parallel with names that do not hold the GIL.
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
