"""Functions and lines of literal hosts that hold work, worked out by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.support.traces.literal import spans_of, windows_at
from tests.support.traces.literal_functions import HZ, frames_of, named

from stepscope.derive.facts.evidence import Part
from stepscope.derive.facts.hosts.function_divisions import RareFunctions
from stepscope.derive.facts.hosts.own_lines import (
    LineRuns,
    OwnLines,
    enclosing_functions,
    function_around_work,
)
from stepscope.derive.host.function_names import FunctionName
from stepscope.derive.intervals.spans import Spans

LOOP, STEP, SAVE, OTHER = (named(name) for name in ("loop", "step", "save", "other"))
FRAMES = frames_of(
    [LOOP, STEP, SAVE, OTHER],
    *((0, 1, 0, 1000, -1), (1, 1, 100, 200, 0), (2, 1, 110, 190, 1)),
    *((1, 1, 300, 400, 0), (2, 1, 310, 390, 3), (3, 2, 100, 200, -1)),
)


def part_of(name: FunctionName, percent: float) -> Part:
    return Part.from_function(name, percent)


def test_the_innermost_function_with_most_of_the_work_is_named() -> None:
    cases: list[tuple[list[tuple[int, int]], list[int], Part | None]] = [
        # All of it is in both functions of 160 and 200 ps: the inner one.
        ([(110, 190), (310, 390)], [1], part_of(SAVE, 16.0)),
        # Of 200 ps 160 are in the inner one, which is 80 %.
        ([(100, 200), (300, 400)], [1], part_of(SAVE, 16.0)),
        ([(100, 201), (300, 400)], [1], part_of(STEP, 20.0)),
        # The inner one works for 60 % of its time, or the outer one for less.
        ([(110, 158), (310, 358)], [1], part_of(SAVE, 9.6)),
        ([(110, 157), (310, 358)], [1], None),
        # The loop around the steps is no function of the work.
        ([(0, 599)], [1], None),
        ([(0, 600)], [1], part_of(LOOP, 60.0)),
        ([(100, 200)], [2], part_of(OTHER, 10.0)),
        ([(100, 200)], [3], None),
        ([], [1], None),
    ]
    for work, tracks, part in cases:
        found = function_around_work(FRAMES, Spans.of(work), tracks, total_ps=1000)
        assert found == part


@pytest.mark.parametrize(
    ("outer", "inner", "part"),
    [
        # Samples may miss the caller: then the function with more work is better.
        ((0, 50), (0, 60), ("inner", 5.0)),
        ((0, 50), (5, 65), ("outer", 5.0)),
        # Of equal times that of the inner one.
        ((0, 60), (5, 65), ("inner", 4.5)),
        ((0, 60), (5, 64), ("inner", 4.5)),
    ],
)
def test_of_a_caller_and_its_callee_the_one_that_explains_the_work_is_named(
    outer: tuple[int, int],
    inner: tuple[int, int],
    part: tuple[str, float],
) -> None:
    for first, second in (("outer", "inner"), ("inner", "outer")):
        kind = (first, second).index
        frames = frames_of(
            [named(first), named(second)],
            *((kind("outer"), 1, *outer, -1), (kind("inner"), 1, *inner, 0)),
        )
        found = function_around_work(frames, Spans.of([(0, 50)]), [1], total_ps=1000)
        assert found == part_of(named(part[0]), part[1])


@pytest.mark.parametrize(("second_end", "name"), [(60, "first"), (59, "second")])
def test_of_two_unrelated_functions_the_shorter_one_is_named(
    second_end: int, name: str
) -> None:
    frames = frames_of(
        [named("first"), named("second")], (0, 1, 0, 60, -1), (1, 1, 0, second_end, -1)
    )
    found = function_around_work(frames, Spans.of([(0, 50)]), [1], total_ps=1000)
    assert found == part_of(named(name), 5.0)


def test_each_device_has_the_function_that_holds_its_work() -> None:
    def device(number: int | None, between: Spans, *walked: int) -> Any:
        work = spans_of((50, 200), (310, 390))
        return SimpleNamespace(
            device=number,
            idle={"host_compute": work},
            between=between,
            walked_by=walked,
        )

    account = SimpleNamespace(
        devices=(
            device(0, spans_of((50, 110), (190, 200)), 1, -1),
            device(1, spans_of((0, 100), (300, 400)), 2),
            device(2, spans_of(), 3),
            device(None, spans_of((50, 110), (190, 200)), 1),
        )
    )
    found = enclosing_functions.function(
        account=account,
        function_frames=FRAMES,
        windows=windows_at((0, 350), (350, 500)),
    )
    assert found == {0: part_of(SAVE, 100 * 160 / 500), 1: part_of(OTHER, 20.0)}


# --- lines ---


def lines_of(by_line: dict[int, Spans], **given: Any) -> LineRuns:
    asked = SimpleNamespace(own_spans=lambda kinds, tracks: by_line)  # noqa: ARG005
    everywhere = spans_of((0, 10_000))
    return LineRuns(
        **{
            "lines": asked,
            "frames": FRAMES,
            "hz": HZ,
            "tracks": (1,),
            "inside": everywhere,
            "working": everywhere,
            "unshared": everywhere,
            **given,
        }
    )


def line(first: int, spans: Spans, looks: int, **fields: Any) -> OwnLines:
    usual = {"last": first, "working": spans, "sampled_ps": spans.length_ps}
    return OwnLines(
        **{"first": first, "spans": spans, "looks": looks, **usual, **fields}
    )


def test_lines_that_no_op_interrupts_are_work_of_their_own() -> None:
    """Lines 5 and 7 are one piece, and 10 another; line 20 runs ops in half."""
    five, seven, ten = spans_of((0, 100)), spans_of((100, 140)), spans_of((200, 260))
    runs = lines_of(
        {5: five, 7: seven, 10: ten, 20: spans_of((300, 400)), 30: spans_of()},
        working=spans_of((0, 280), (300, 350)),
        unshared=spans_of((0, 50), (100, 1000)),
    )
    found = runs.working_lines([0])
    both = OwnLines(
        first=5,
        last=7,
        spans=five | seven,
        working=spans_of((0, 50), (100, 140)),
        sampled_ps=50 + 40,
        looks=14,
        most=5,
    )
    assert found == (both, line(10, ten, 6))
    outside = lines_of({5: five, 7: seven}, inside=spans_of((100, 1000)))
    assert outside.working_lines([0]) == (line(7, seven, 4),)


def test_samples_in_functions_of_a_framework_prepare_ops() -> None:
    """Of ten samples of a line `torch` has two, or three if it calls nothing at 35."""
    path = "/usr/lib/site-packages/torch/nn/modules.py"
    torch = FunctionName("call", path, 3, library=True)
    by_torch = (1, 1, 10, 50, 0)
    for rows, found in (
        (((0, 1, 0, 100, -1), by_torch, (0, 1, 30, 50, 1)), True),
        (((0, 1, 0, 100, -1), by_torch, (0, 1, 40, 50, 1)), False),
        # What runs on a thread that runs no steps prepares nothing.
        (((0, 1, 0, 100, -1), (1, 2, 0, 100, -1)), True),
    ):
        runs = lines_of({5: spans_of((0, 100))}, frames=frames_of([LOOP, torch], *rows))
        assert bool(runs.working_lines([0])) is found


@pytest.mark.parametrize(("busy", "found"), [(24, True), (26, False)])
def test_eight_of_ten_samples_are_without_ops(busy: int, *, found: bool) -> None:
    """Samples are in the middle of each 10 ps: ops until 26 meet three of them."""
    runs = lines_of({5: spans_of((0, 100))}, working=spans_of((busy, 1000)))
    assert bool(runs.working_lines([0])) is found


def test_lines_with_few_samples_at_the_ends_are_left_out() -> None:
    """Of 1, 3, 12, 2 and 3 samples a quarter of the most is 3."""
    counts = {1: 1, 2: 3, 3: 12, 4: 2, 5: 3, 6: 2}
    begins = np.cumsum([0, *counts.values()]) * 10
    by_line = {
        number: spans_of((int(begins[at]), int(begins[at + 1])))
        for at, number in enumerate(counts)
    }
    (found,) = lines_of(by_line).working_lines([0])
    assert (found.first, found.last, found.looks, found.most) == (2, 5, 20, 3)
    assert found.spans == spans_of((10, 210))
    assert found.sampled_ps == 200
    even = {1: spans_of((0, 100)), 2: spans_of((100, 200)), 3: spans_of((200, 210))}
    (found,) = lines_of(even).working_lines([0])
    assert (found.first, found.last, found.most) == (1, 2, 1)
    thirds = {at: spans_of((100 * at, 100 * at + 100)) for at in (1, 2, 3)}
    (found,) = lines_of(thirds).working_lines([0])
    assert found.most is None


def test_a_part_of_a_function_is_its_lines() -> None:
    function = Part(
        name="f", function="f", detail="x", loop=True, inclusive=True, share_percent=9.0
    )
    several = line(5, spans_of((0, 10)), 1, last=8, most=6)
    assert several.part_of_function(function, 2.0) == Part(
        name="f", function="f", lines=(5, 8), detail="line 6", share_percent=2.0
    )
    single = line(5, spans_of((0, 10)), 1)
    assert single.part_of_function(function, 2.0).detail is None


# --- functions of few steps ---


def rare(*rows: tuple[int, int, int, int, int], names: Any = None) -> RareFunctions:
    frames = frames_of(names or [LOOP, SAVE, named("numpy", library=True)], *rows)
    bounds = np.arange(5, dtype=np.int64) * 100
    return RareFunctions(frames, bounds[:-1], bounds[1:])


CHOSEN = np.array([False, False, False, True])


@pytest.mark.parametrize(
    ("rows", "excess_ps", "part"),
    [
        # 50 of 100 ps that are explained are half; 8 in each other step are rare.
        ([(1, 1, 300, 350, -1)], 100, part_of(SAVE, 12.5)),
        ([(1, 1, 300, 350, -1)], 101, None),
        ([(1, 1, 0, 30, -1), (1, 1, 300, 350, -1)], 100, part_of(SAVE, 12.5)),
        ([(1, 1, 0, 31, -1), (1, 1, 300, 350, -1)], 100, None),
        # A callee needs four fifths of its caller's 80 ps; of equals, it is named.
        ([(0, 1, 300, 380, -1), (1, 1, 310, 373, 0)], 100, part_of(LOOP, 20.0)),
        ([(0, 1, 300, 380, -1), (1, 1, 310, 374, 0)], 100, part_of(SAVE, 16.0)),
        ([(0, 1, 300, 380, -1), (1, 1, 300, 380, 0)], 100, part_of(SAVE, 20.0)),
        ([(1, 1, 300, 380, -1), (0, 1, 300, 380, 0)], 100, part_of(LOOP, 20.0)),
        # One that other steps call, too, does not make these longer.
        (
            [(1, 1, 0, 50, -1), (0, 1, 300, 380, -1), (1, 1, 300, 380, 1)],
            100,
            part_of(LOOP, 20.0),
        ),
        # A library is none of the program.
        ([(2, 1, 300, 380, -1)], 100, None),
    ],
)
def test_a_function_that_few_steps_call_explains_them(
    rows: list[Any], excess_ps: int, part: Part | None
) -> None:
    assert rare(*rows).of(CHOSEN, excess_ps) == part


def test_without_other_steps_nothing_is_rare() -> None:
    functions = rare((1, 1, 300, 350, -1))
    for chosen in (CHOSEN[:3], CHOSEN | ~CHOSEN, CHOSEN & ~CHOSEN):
        assert functions.of(chosen, 1) is None
