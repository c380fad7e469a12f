"""Derivations side by side: each as soon as its inputs are there."""

from __future__ import annotations

import threading
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from stepscope._core import wire
from stepscope.cores import core_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = ["compute_all", "worth_threads"]

_Name = TypeVar("_Name")

#: Below so many events threads gain some twenty milliseconds, which nobody notices.
_ALONE_EVENTS: Final = 200_000


def worth_threads(events: int) -> int:
    """How many threads so many events are worth; 1 also where kernels keep the lock."""
    if not wire.COMPILED or events < _ALONE_EVENTS:
        return 1
    return core_count()


def compute_all(
    inputs: Mapping[_Name, Iterable[_Name]],
    compute: Callable[[_Name], object],
    *,
    threads: int,
) -> None:
    """Call `compute` for every name, for its inputs before; the calling thread helps.

    An error ends the rest and is raised when all have stopped.
    """
    queue = _Queue(inputs)
    helpers = [
        threading.Thread(target=queue.work, args=(compute,))
        for _ in range(min(threads, len(inputs)) - 1)
    ]
    for helper in helpers:
        helper.start()
    queue.work(compute)
    for helper in helpers:
        helper.join()
    if queue.errors:
        raise queue.errors[0]


class _Queue(Generic[_Name]):
    """What is to be computed, for several threads."""

    def __init__(self, inputs: Mapping[_Name, Iterable[_Name]]) -> None:
        self.errors: list[BaseException] = []
        self._chain = _chains(inputs)
        self._order = TopologicalSorter(inputs)
        self._order.prepare()
        self._ready = list(self._order.get_ready())
        self._changed = threading.Condition()

    def work(self, compute: Callable[[_Name], object]) -> None:
        """Compute until nothing is left."""
        try:
            while (name := self._next()) is not None:
                compute(name)
                with self._changed:
                    self._order.done(name)
                    self._ready.extend(self._order.get_ready())
                    self._changed.notify_all()
        except BaseException as error:  # noqa: BLE001 - raised where all have stopped
            with self._changed:
                self.errors.append(error)
                self._changed.notify_all()

    def _next(self) -> _Name | None:
        with self._changed:
            while not self._ready and self._order.is_active() and not self.errors:
                self._changed.wait()
            if not self._ready or self.errors:
                return None
            # What the longest chain waits for first, so that no thread has it at last.
            first = max(self._ready, key=self._chain.__getitem__)
            self._ready.remove(first)
            return first


def _chains(inputs: Mapping[_Name, Iterable[_Name]]) -> dict[_Name, int]:
    """How many computations wait for each name, one after another."""
    order = [*TopologicalSorter(inputs).static_order()]
    chain = dict.fromkeys(order, 0)
    for name in reversed(order):
        for wanted in inputs.get(name, ()):
            chain[wanted] = max(chain[wanted], chain[name] + 1)
    return chain
