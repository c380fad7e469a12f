"""Computing side by side: order, errors, and one computation for all who ask."""

from __future__ import annotations

import threading
from graphlib import CycleError

import pytest

from stepscope.derive.schedule import Kept, compute_side_by_side, worth_threads

INPUTS = {
    "d": ("b", "c"),
    "b": ("a",),
    "c": ("a",),
    "a": (),
    "e": (),
}


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_everything_is_computed_once_and_after_its_inputs(threads: int) -> None:
    done: list[str] = []

    def compute(name: str) -> None:
        assert set(INPUTS[name]) <= set(done)
        done.append(name)

    compute_side_by_side(INPUTS, compute, threads=threads)
    assert sorted(done) == sorted(INPUTS)


def test_what_the_longest_chain_waits_for_comes_first() -> None:
    done: list[str] = []
    compute_side_by_side({"e": (), **INPUTS}, done.append, threads=1)
    assert done[0] == "a"
    assert done[-2:] in (["d", "e"], ["e", "d"])


def test_what_does_not_wait_for_each_other_is_computed_side_by_side() -> None:
    met = threading.Barrier(2, timeout=30)

    def compute(name: str) -> None:
        if name in {"b", "c"}:
            met.wait()

    compute_side_by_side(INPUTS, compute, threads=2)
    assert not met.broken


def test_of_equal_chains_that_comes_first_for_which_most_wait() -> None:
    done: list[str] = []
    inputs = {"a": (), "b": (), "x": ("a",), "y": ("b",), "z": ("b",)}
    compute_side_by_side(inputs, done.append, threads=1)
    assert done[:2] == ["b", "a"]


def test_what_needs_the_interpreter_comes_early_and_beside_something_else() -> None:
    done: list[str] = []
    inputs = {**INPUTS, "read": ("a",), "tell": ("a",)}
    compute_side_by_side(inputs, done.append, threads=1, one_by_one=("read", "tell"))
    assert done[:3] in (["a", "read", "tell"], ["a", "tell", "read"])


def test_of_what_needs_the_interpreter_one_runs_at_a_time() -> None:
    running: list[str] = []
    together: list[list[str]] = []
    beside = threading.Barrier(2, timeout=30)

    def compute(name: str) -> None:
        running.append(name)
        if name in {"read", "work"}:
            beside.wait()
        together.append([*running])
        running.remove(name)

    inputs: dict[str, tuple[str, ...]] = {"read": (), "tell": (), "work": ()}
    compute_side_by_side(inputs, compute, threads=3, one_by_one=("read", "tell"))
    assert len(together) == 3
    assert not any({"read", "tell"} <= set(names) for names in together)


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_ends_the_rest_and_is_raised(threads: int) -> None:
    done: list[str] = []

    def compute(name: str) -> None:
        if name == "a":
            raise RuntimeError("a is broken")
        done.append(name)

    with pytest.raises(RuntimeError, match="a is broken"):
        compute_side_by_side(INPUTS, compute, threads=threads)
    assert not {"b", "c", "d"} & set(done)


def test_what_waits_for_itself_is_refused() -> None:
    with pytest.raises(CycleError):
        compute_side_by_side({"a": ("b",), "b": ("a",)}, lambda _: None, threads=2)


def test_small_profiles_are_not_worth_threads() -> None:
    assert worth_threads(1000) == 1


def test_a_value_is_computed_once_however_many_ask() -> None:
    kept, computed, begun = Kept(), [], threading.Event()

    def compute() -> object:
        begun.wait(30)
        computed.append(1)
        return object()

    found: list[object] = []
    askers = [
        threading.Thread(target=lambda: found.append(kept.get("key", compute)))
        for _ in range(8)
    ]
    for asker in askers:
        asker.start()
    begun.set()
    for asker in askers:
        asker.join()
    assert len(computed) == 1
    assert len(found) == 8
    assert len(set(map(id, found))) == 1


def test_an_error_is_not_kept() -> None:
    kept = Kept()

    def fail() -> object:
        raise RuntimeError("not now")

    with pytest.raises(RuntimeError, match="not now"):
        kept.get("key", fail)
    assert "key" not in kept
    assert kept.get("key", lambda: 7) == 7
