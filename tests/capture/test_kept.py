"""What the program keeps from step to step: which containers, and how much of what.

PYTEST_DONT_REWRITE: an assertion that pytest has rewritten asks for `locals()`, and
functions that do are left alone.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections import deque
from typing import Any

import numpy as np
import pytest

from stepscope._core import recorder
from stepscope.capture.base.clock import ClockPair
from stepscope.capture.base.options import ProfilerOptions
from stepscope.capture.collectors.contract import Collected
from stepscope.capture.collectors.memory.containers import (
    Container,
    growth_since,
    reachable_containers,
)
from stepscope.capture.collectors.memory.graphs import Added, Graphs
from stepscope.capture.collectors.memory.kept import KeptCollector
from stepscope.xspace.vocabulary import KeptCounter

#: A member takes 1 KiB.
ROW = 128


def recorded(program: Any, *, steps: int = 8, before: int = 6) -> list[str]:
    """Return the names of the counters of a program that runs some steps."""
    for _ in range(before):
        program()
    collector = KeptCollector()
    collector.start_collecting(ProfilerOptions(), ClockPair.now())
    for _ in range(steps):
        program()
    written = collector.hand_over()
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


class Freed(Node):
    """A node whose tensors the backward pass has freed."""

    @property
    def _raw_saved_self(self) -> Saved:
        raise RuntimeError("freed")


class Saved:
    """What a node holds: the tensor as it is stored, or what the program made of it."""

    def __init__(self, data: object) -> None:
        self.data = data


class Tensor:
    """A scalar that some ops led to."""

    nbytes = 4
    grad_fn: Node | None = None

    def __len__(self) -> int:
        raise TypeError("len() of a 0-d tensor")

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
    assert Graphs().add_tensors([total]) == Added(15, 0, 15 * 1024)


def test_a_sum_in_place_whose_graph_holds_nothing_is_no_container() -> None:
    """`total += loss`, after the backward pass: the same tensor, with a node more."""
    total = Tensor(Freed())

    def step() -> None:
        total.grad_fn = Freed(total.grad_fn)

    assert recorded(step) == []


def test_what_the_program_packed_itself_has_no_size() -> None:
    node = Node()
    node.data = object()
    assert Graphs().add_tensors([Tensor(node)]) == Added(1, 0, 0)


def test_nothing_lives_longer_for_having_been_looked_at() -> None:
    mine = Keeper()
    assert "mine.rows" in {one.path for one in reachable_containers().values()}
    gone = weakref.ref(mine)
    del mine
    assert gone() is None


def test_the_programs_own_dictionary_of_variables_stays_as_it_is() -> None:
    kept = [1]
    before = locals()
    later = [2]
    reachable_containers()
    assert before == {"kept": kept}
    assert later == [2]


class Model:
    """Has a method of the name of a function of Python's."""

    def eval(self) -> list[list[int]]:
        return [
            one.value for one in reachable_containers().values() if one.path == "kept"
        ]


def test_a_function_that_evaluates_a_model_is_looked_at() -> None:
    kept = [1]
    assert any(one is kept for one in Model().eval())


@pytest.mark.skipif(
    sys.version_info >= (3, 13), reason="what is executed has variables of its own"
)
def test_what_a_function_executed_stays_among_its_variables() -> None:
    exec("made = [1]")  # noqa: S102 - as programs read their settings
    reachable_containers()
    exec("made += [2]")  # noqa: S102 - as above


def test_variables_stay_where_a_trace_function_runs() -> None:
    """The thread waits within its trace function; Python then sets its variables."""
    found, entered, looked = [], threading.Event(), threading.Event()

    def program() -> int:
        first = 1
        second = first + 1
        return first + second

    def trace(frame: Any, event: str, _: Any) -> Any:
        if frame.f_code is not program.__code__:
            return None
        if event == "line" and "second" in frame.f_locals:
            entered.set()
            looked.wait()
        return trace

    def run() -> None:
        sys.settrace(trace)
        found.append(program())

    thread = threading.Thread(target=run)
    thread.start()
    entered.wait(10)
    reachable_containers()
    looked.set()
    thread.join()
    assert found == [3]


class Unfriendly(list[int]):
    """A list of the program's own, which must not be asked for anything."""

    def __len__(self) -> int:
        raise AssertionError("the program's code ran")

    __iter__ = __len__  # type: ignore[assignment]


class Lazy:
    """Loads what it stands for once it is asked for anything."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        raise AssertionError("the program's code ran")


class Namespace(Lazy):
    """Has all that it is asked for, as `torch.ops` does."""

    def __getattr__(self, name: str) -> Any:
        return Namespace()


class Nameless:
    """Says nothing of its module."""


Namespace.__module__ = "torch"
Nameless.__module__ = None  # type: ignore[assignment]


def test_no_code_of_the_program_is_run() -> None:
    odd = (Unfriendly([1]), Lazy(), Namespace(), Nameless())
    holder = {"odd": odd}
    assert id(holder) in reachable_containers()


def test_a_text_as_key_is_no_way_to_a_container() -> None:
    kept: dict[str, Any] = {"short": [], "a question of the user's " * 4: []}
    found = reachable_containers()
    assert {id(kept), id(kept["short"])} <= found.keys()
    assert not any("question" in one.path for one in found.values())


def test_a_graph_as_large_as_before_does_not_grow() -> None:
    loss = Tensor(Node(Node()))

    def step() -> None:
        nonlocal loss
        loss = Tensor(Node(Node()))

    assert recorded(step) == []


def test_a_list_of_tensors_with_graphs_counts_what_these_hold() -> None:
    losses = [{"loss": Tensor(Node(Node()))} for _ in range(3)]
    added = growth_since(Container("losses", "f", 3, losses), 1)
    assert added == Added(2, 8, 2 * 2 * 1024)


def test_no_buffer_holds_graphs_so_two_members_before_are_enough() -> None:
    losses: list[Any] = []
    (found,) = recorded(lambda: losses.append(Tensor(Node())), before=2)
    assert found.startswith("losses of ")


def test_a_graph_that_goes_on_from_the_member_before_counts_once() -> None:
    """Each state holds 1 KiB of its own, and leads to all states before."""
    states = [Tensor(Node())]
    for _ in range(9):
        states.append(Tensor(Node(states[-1].grad_fn)))
    assert growth_since(Container("states", "f", 10, states), 2) == Added(
        8, 32, 8 * 1024
    )


def test_tensors_of_one_member_that_share_a_graph_count_it_once() -> None:
    shared = Node()
    pair = [(Tensor(Node(shared)), Tensor(Node(shared)))]
    assert growth_since(Container("pair", "f", 1, pair), 0).graph_bytes == 3 * 1024


class Sparse:
    """A tensor without one size, as PyTorch has it."""

    @property
    def nbytes(self) -> int:
        raise RuntimeError("nbytes is not defined for sparse tensors")


class Uninitialized:
    """A parameter of a lazy module."""

    nbytes = 0

    @property
    def untyped_storage(self) -> object:
        raise ValueError("attempted to use an uninitialized parameter")


class Donated:
    """An array of JAX whose memory a call has taken."""

    nbytes = 1024

    def is_deleted(self) -> bool:
        return True


Sparse.__module__ = Uninitialized.__module__ = "torch"
Donated.__module__ = "jaxlib._jax"


def test_an_array_that_says_no_size_or_has_no_memory_takes_none() -> None:
    kept = [Sparse(), Uninitialized(), Donated(), np.zeros(ROW)]
    assert growth_since(Container("kept", "f", 4, kept), 0) == Added(4, 1024, 0)


@pytest.mark.parametrize("kind", [list, deque, lambda it: dict(enumerate(it))])
def test_of_very_many_members_only_the_last_are_looked_at(kind: Any) -> None:
    kept = kind([0.5] * 100_000 + [np.zeros(ROW) for _ in range(64)])
    added = growth_since(Container("kept", "f", len(kept), kept), 100)
    assert added == Added(99_964, 99_964 * 1024, 0)


def test_what_lies_in_memory_that_was_kept_before_takes_none() -> None:
    """Parts of one data set, a buffer kept again and again, and rows of new batches."""
    data, buffer = np.zeros((20, ROW)), np.zeros(ROW)
    batches = [np.zeros((2, ROW)) for _ in range(5)]
    for kept, taken in (
        ([data[at] for at in range(20)], 0),
        ([buffer] * 20, 0),
        ([row for batch in batches for row in batch] * 2, 0),
        ([0.5] * 10 + [row for batch in batches for row in batch], 10 * 1024),
        ([0.5] * 10 + [buffer] * 10, 1024),
    ):
        assert growth_since(Container("kept", "f", 20, kept), 10) == Added(10, taken, 0)


def test_members_that_went_meanwhile_add_nothing() -> None:
    kept = [np.zeros(ROW)] * 2
    assert growth_since(Container("kept", "f", 3, kept), 3) == Added(-1, 0, 0)


def test_nothing_is_looked_at_where_no_counter_is_read() -> None:
    rows: list[Any] = [np.zeros(ROW)] * 9
    collector = KeptCollector()
    collector.start_collecting(ProfilerOptions(counters_hz=0), ClockPair.now())
    rows += [np.zeros(ROW)] * 9
    assert collector.hand_over() == Collected(b"")
    assert recorder.clock_ns() > 0


@pytest.mark.parametrize(
    "function", ["Trainer.step", "<module>", "a.<locals>.<lambda>"]
)
def test_a_counter_is_read_back_as_it_was_named(function: str) -> None:
    path, named = "self.of['a of b']", f"$t_x.py:12 {function}"
    read = KeptCounter.of(KeptCounter.name("bytes", path, named))
    assert read == KeptCounter("bytes", path, "t_x.py", 12, function)
    assert read.of_kind("items") == KeptCounter.name("items", path, named)
    assert KeptCounter.of("process RSS (bytes)") is None
