"""What the program keeps from step to step: which containers, and how much of what."""

from __future__ import annotations

import weakref
from collections import deque
from typing import Any

import numpy as np
import pytest

from stepscope._core import recorder
from stepscope.capture.collectors.memory.containers import (
    Added,
    Container,
    added_to,
    containers,
    graph_of,
)
from stepscope.capture.collectors.memory.kept import KeptCollector
from stepscope.capture.ground.clock import ClockPair
from stepscope.capture.ground.options import ProfilerOptions
from stepscope.xspace.kept import KeptCounter

#: A member takes 1 KiB.
ROW = 128


def recorded(program: Any, *, steps: int = 8, before: int = 6) -> list[str]:
    """Return the names of the counters of a program that runs some steps."""
    for _ in range(before):
        program()
    collector = KeptCollector()
    collector.start(ProfilerOptions(), ClockPair.now())
    for _ in range(steps):
        program()
    written = collector.stop()
    assert written.warnings == ()
    return sorted(
        text.decode("utf-8", "replace")
        for text in written.xspace.split(b"items added to ")[1:]
    )


class Keeper:
    """An object of the program's own."""

    def __init__(self) -> None:
        self.rows: dict[str, Any] = {"all": [], "last": deque(maxlen=4)}

    def step(self) -> None:
        self.rows["all"].append(np.zeros(ROW))
        self.rows["last"].append(np.zeros(ROW))


def test_a_list_in_an_object_is_named_by_the_way_to_it() -> None:
    keeper = Keeper()
    (found,) = recorded(keeper.step)
    assert found.startswith("keeper.rows['all'] of $test_kept.py:")
    assert "test_a_list_in_an_object_is_named_by_the_way_to_it" in found


def test_a_queue_that_keeps_the_last_ones_does_not_grow() -> None:
    last: deque[Any] = deque(maxlen=4)
    assert recorded(lambda: last.append(np.zeros(ROW))) == []


def test_numbers_take_nothing_and_a_dictionary_may_be_a_cache() -> None:
    losses: list[float] = []
    cache: dict[int, Any] = {}

    def step() -> None:
        losses.append(0.5)
        cache[len(cache)] = np.zeros(ROW)

    assert recorded(step) == []


def test_what_fills_from_nothing_in_the_recording_is_a_buffer() -> None:
    rows: list[Any] = []
    assert recorded(lambda: rows.append(np.zeros(ROW)), before=4) == []
    rows.clear()
    (found,) = recorded(lambda: rows.append(np.zeros(ROW)), before=5)
    assert found.startswith("rows of ")


class Data:
    """A saved tensor: 1 KiB that no weight owns."""

    is_leaf = requires_grad = False
    _base = None

    def untyped_storage(self) -> Any:
        return self

    def data_ptr(self) -> int:
        return id(self)

    def nbytes(self) -> int:
        return 1024


class Node:
    """One op in a graph of gradients."""

    def __init__(self, *before: Any) -> None:
        self.next_functions = tuple((one, 0) for one in before)
        self.data = Data()

    @property
    def _raw_saved_self(self) -> Saved:
        return Saved(self.data)

    @property
    def _saved_self(self) -> Data:
        raise AssertionError("unpacked: that runs what the program packed it with")


class Saved:
    """What a node holds: the tensor as it is stored, or what the program made of it."""

    def __init__(self, data: object) -> None:
        self.data = data


class Tensor:
    """A scalar that some ops led to."""

    nbytes = 4

    def __init__(self, grad_fn: Node) -> None:
        self.grad_fn = grad_fn


for kind in (Data, Tensor):
    kind.__module__ = "torch"


def test_a_sum_whose_graph_goes_on_in_each_step_is_kept() -> None:
    """Eight steps, each with a node more, which holds a saved tensor."""
    total = Tensor(Node())

    def step() -> None:
        nonlocal total
        total = Tensor(Node(total.grad_fn))

    (found,) = recorded(step)
    assert found.startswith("total of ")
    assert graph_of(total) == Added(15, 0, 15 * 1024)


def test_what_the_program_packed_itself_has_no_size() -> None:
    node = Node()
    node.data = object()
    assert graph_of(Tensor(node)) == Added(1, 0, 0)


def test_nothing_lives_longer_for_having_been_looked_at() -> None:
    mine = Keeper()
    assert "mine.rows" in {one.path for one in containers().values()}
    gone = weakref.ref(mine)
    del mine
    assert gone() is None


def test_the_programs_own_dictionary_of_variables_stays_as_it_is() -> None:
    kept = [1]
    before = locals()
    containers()
    assert before["kept"] is kept


class Unfriendly(list[int]):
    """A list of the program's own, which must not be asked for anything."""

    def __len__(self) -> int:
        raise AssertionError("the program's code ran")

    __iter__ = __len__  # type: ignore[assignment]


def test_no_code_of_the_program_is_run() -> None:
    odd = Unfriendly([1])
    holder = {"odd": odd}
    assert id(holder) in containers()


def test_a_graph_as_large_as_before_does_not_grow() -> None:
    loss = Tensor(Node(Node()))

    def step() -> None:
        nonlocal loss
        loss = Tensor(Node(Node()))

    assert recorded(step) == []


def test_a_list_of_tensors_with_graphs_counts_what_these_hold() -> None:
    losses = [{"loss": Tensor(Node(Node()))} for _ in range(3)]
    added = added_to(Container("losses", "f", 3, losses), 1)
    assert added == Added(2, 8, 2 * 2 * 1024)


def test_nothing_is_looked_at_where_no_counter_is_read() -> None:
    rows: list[Any] = [np.zeros(ROW)] * 9
    collector = KeptCollector()
    collector.start(ProfilerOptions(counters_hz=0), ClockPair.now())
    rows += [np.zeros(ROW)] * 9
    assert collector.stop() == (b"", (), False)
    assert recorder.now() > 0


@pytest.mark.parametrize(
    "function", ["Trainer.step", "<module>", "a.<locals>.<lambda>"]
)
def test_a_counter_is_read_back_as_it_was_named(function: str) -> None:
    name = KeptCounter.name("bytes", "self.of['a of b']", f"$t_x.py:12 {function}")
    assert KeptCounter.of(name) == KeptCounter(
        "bytes", "self.of['a of b']", "t_x.py", 12, function
    )
    assert KeptCounter.of("process RSS (bytes)") is None
