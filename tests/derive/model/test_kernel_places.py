"""Kernels have the line and the module of the program that launched them."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.traces import blueprint

from stepscope.derive.device.kernels import kernels
from stepscope.derive.model.call_trees import (
    CallTree,
    EventTree,
    _text_by_class,
    kernel_places,
)
from stepscope.unavailable import Unavailable

GPU = "gpu:0/7(Compute)"


def placed(lines: list[blueprint.Line]) -> dict[str, tuple[str | None, str | None]]:
    profile = blueprint.profile(blueprint.trace(lines))
    found = profile.derived("vm", kernel_places)
    table = profile.derived("vm", kernels)
    assert not isinstance(found, Unavailable)
    assert not isinstance(table, Unavailable)
    rows = found[table.rows["class"]]
    names = table.rows["kernel_name"]
    return {
        name: (row["source"], row["module"])
        for name, row in zip(names, rows.iter_rows(named=True), strict=True)
    }


def launched(number: int, at: float, kernel: str) -> list[blueprint.Line]:
    stats = {"correlation_id": number}
    return [
        ("main", "cudaLaunchKernel", at, 1, stats),
        (GPU, kernel, at + 50, 5, stats),
    ]


def test_a_kernel_has_the_innermost_function_of_the_program_itself() -> None:
    frames = [
        ("main", "$train.py:7 step", 0, 40),
        ("main", "nn.Module: Linear_0", 1, 30),
        ("main", "$torch/nn/functional.py:99 linear", 2, 20),
    ]
    assert placed([*frames, *launched(1, 5, "gemm")]) == {
        "gemm": ("train.py:7 step", "Linear_0")
    }


def test_a_library_alone_is_named_itself() -> None:
    frames = [("main", "$torch/optim/adam.py:9 step", 0, 40)]
    assert placed([*frames, *launched(1, 5, "adam")]) == {
        "adam": ("torch/optim/adam.py:9 step", None)
    }


def test_several_places_are_said_to_be_several() -> None:
    frames = [
        ("main", "nn.Module: Linear_0", 0, 10),
        ("main", "nn.Module: Linear_1", 20, 10),
    ]
    lines = [*frames, *launched(1, 5, "gemm"), *launched(2, 25, "gemm")]
    assert placed(lines) == {"gemm": (None, "mixed")}
    alone = [*frames, *launched(1, 5, "gemm"), *launched(2, 25, "add")]
    assert placed(alone) == {
        "gemm": (None, "Linear_0"),
        "add": (None, "Linear_1"),
    }


@pytest.mark.parametrize("frame", ["a/MatMul:MatMul", "train"])
def test_without_frames_no_place_is_made_up(frame: str) -> None:
    lines = [("main", frame, 0, 40), *launched(1, 5, "gemm"), (GPU, "lost", 90, 1)]
    assert placed(lines) == {"gemm": (None, None), "lost": (None, None)}


NAMES = ("a.py:1 f", "torch/nn/x.py:2 g", "b.py:3 h", "threading.py:4 run")


@given(
    st.lists(st.tuples(st.integers(-1, 7), st.integers(0, 3)), min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(-1, 7), st.integers(0, 2)), min_size=1, max_size=9),
)
def test_a_kernel_is_of_the_innermost_function_outside_of_libraries(
    tree: list[tuple[int, int]], launched: list[tuple[int, int]]
) -> None:
    parent = [min(above, row - 1) for row, (above, _) in enumerate(tree)]
    names = [NAMES[key] for _, key in tree]
    places = CallTree(
        np.arange(len(tree), dtype=np.int32),
        np.array(parent, np.int32),
        np.array([key for _, key in tree], np.int32),
    )
    # The event of each node, and one that is in none.
    node = np.array([*range(len(tree)), -1], np.int32)
    frames = EventTree(node, places, pl.Series(NAMES))
    events = [min(event, len(tree)) for event, _ in launched]
    code = np.array([each for _, each in launched], np.int32)
    texts = _text_by_class(
        frames, np.array(events, np.int32), code, pl.Series([None] * 3, dtype=pl.String)
    )

    def place(event: int) -> str | None:
        at = event if event < len(tree) else -1
        if at < 0:
            return None
        inner = at
        while at >= 0 and names[at].startswith(("torch", "threading")):
            at = parent[at]
        # Where all are libraries, it is the innermost one.
        return names[at] if at >= 0 else names[inner]

    expected = []
    for each in range(3):
        found = {
            place(event) for event, of in zip(events, code, strict=True) if of == each
        }
        found.discard(None)
        expected.append("mixed" if len(found) > 1 else next(iter(found), None))
    assert texts.to_list() == expected
