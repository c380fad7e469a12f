"""What is asked of frames and of lines of functions, on literal rows."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.traces.literal import spans_of
from tests.support.traces.literal_functions import frames_of, named

from stepscope.derive.host.function_frames import FunctionFrames
from stepscope.derive.host.function_lines import FunctionLines
from stepscope.derive.host.function_names import FunctionName
from stepscope.derive.intervals.spans import Spans

#: A hundredth of a second, in ps.
TICK = 10**10

NAMES = {
    1: FunctionName("<module>", "/app/run.py", 1, library=False),
    2: FunctionName("train", "/app/run.py", 9, library=False),
    3: FunctionName("fetch", "/lib/fetch.py", 20, library=True),
    4: FunctionName("load", "/app/data.py", 5, library=False),
    5: FunctionName("other", "/app/data.py", 40, library=False),
    6: FunctionName("<lambda>", "/app/data.py", 50, library=False),
}

SAVE, WRITE, PACK, OTHER, EACH = range(5)

#: Thread, start, end, caller and type.
FRAMES = [
    (0, 0, 100, -1, 1),
    (0, 0, 60, 0, 3),
    (0, 10, 40, 1, 4),
    (0, 20, 30, 2, 5),
    (0, 60, 90, 0, 2),
    (1, 5, 35, -1, 3),
    (1, 5, 35, 5, 5),
    (1, 40, 45, -1, 4),
]


def frames(
    hz: float | None = 100.0, chosen: int = len(FRAMES), shorter: int | None = None
) -> FunctionFrames:
    """The first frames, one of which may end 20 earlier."""
    track, start, end, parent, kind = np.array(FRAMES, np.int64)[:chosen].T
    if shorter is not None:
        end[shorter] -= 20
    return FunctionFrames(
        track=track.astype(np.int32),
        start_ps=TICK * start,
        end_ps=TICK * end,
        parent=parent.astype(np.int32),
        self_ps=np.zeros(len(track), np.int64),
        type=kind.astype(np.int32),
        event=np.zeros(len(track), np.int32),
        sampled=hz is not None,
        hz=hz,
        names=NAMES,
    )


def test_frames_below_a_caller_at_any_depth_are_called_from_it() -> None:
    found = frames()
    assert found.rows_called_from(found.type == 3).tolist() == [
        *(False, False, True, True, False, False, True, False)
    ]
    assert found.rows_called_from(found.type == 1).tolist() == [
        *(False, True, True, True, True, False, False, False)
    ]
    assert not found.rows_called_from(np.zeros(len(FRAMES), np.bool_)).any()


@pytest.mark.parametrize(
    ("functions", "time", "innermost"),
    [
        # `save` takes 100, and `write` 80 of it: four fifths.
        ([[SAVE], [WRITE]], (0, 200), 1),
        ([[SAVE], [WRITE]], (20, 95), 1),
        ([[SAVE], [WRITE]], (1, 200), 0),
        # `pack` in `write` takes 80, too; its comprehension is part of it.
        ([[SAVE], [WRITE], [PACK]], (0, 200), 2),
        ([[SAVE], [PACK], [WRITE]], (0, 200), 1),
        ([[WRITE], [SAVE]], (0, 200), 0),
        ([[PACK], [EACH]], (0, 200), 0),
        # `other` takes 95 elsewhere, and only 20 in `save`.
        ([[SAVE], [OTHER]], (0, 400), 0),
        ([[OTHER], [SAVE]], (0, 400), 0),
        # Without a call in the time, nothing takes more.
        ([[SAVE], [WRITE]], (300, 400), 0),
        ([[], [WRITE]], (0, 200), 0),
    ],
)
def test_the_innermost_function_with_four_fifths_of_the_first_one(
    functions: list[list[int]], time: tuple[int, int], innermost: int
) -> None:
    calls = frames_of(
        [named(name) for name in ("save", "write", "pack", "other", "<genexpr>")],
        *((SAVE, 1, 0, 100, -1), (WRITE, 1, 0, 80, 0), (PACK, 1, 0, 80, 1)),
        *((EACH, 1, 0, 80, 2), (OTHER, 1, 80, 100, 0), (OTHER, 1, 205, 280, -1)),
    )
    assert calls.innermost_called(functions, spans_of(time)) == innermost


def test_the_outermost_functions_of_the_program_below_a_caller() -> None:
    found = frames()
    assert found.outermost_called([3]).tolist() == [2, 6]
    # `load` is called from `fetch`, which is not of the program; `train` is.
    assert found.outermost_called([1]).tolist() == [2, 4]
    assert found.outermost_called([2]).tolist() == []
    # Module code is no function of the program.
    assert found.outermost_called([]).tolist() == []


def test_the_longest_function_below_a_caller_is_named() -> None:
    # Both ran for 30: the later of the types counts.
    longest = frames().longest_called([3])
    assert longest is not None
    assert longest.function == "other"
    shorter = frames(chosen=6).longest_called([3])
    assert shorter is not None
    assert shorter.function == "load"
    assert frames().longest_called([4]) == NAMES[5]
    # Below `<module>`, `load` and `train` ran for 30, too.
    assert frames().longest_called([1]) == NAMES[4]
    # If `other` ends earlier, `load` ran longest.
    assert frames(chosen=7, shorter=6).longest_called([3]) == NAMES[4]
    assert frames().longest_called([2]) is None


def test_samples_are_those_of_the_thread_with_most() -> None:
    assert frames().looks() == 100
    assert frames(hz=50.0).looks() == 50
    assert frames(hz=None).looks() is None
    assert frames(chosen=0).looks() is None


def test_threads_and_spans_of_frames() -> None:
    found = frames()
    assert found.threads_in_modules() == {0}
    assert found.spans(found.type == 4) == Spans.of(
        [(10 * TICK, 40 * TICK), (40 * TICK, 45 * TICK)]
    )
    assert found.names[2].function == "train"


@pytest.mark.parametrize(
    ("file", "line", "python"),
    [("/app/a.py", 3, True), (None, None, True), ("libcuda.so", None, False)],
)
def test_functions_with_a_file_and_no_line_are_compiled(
    file: str | None,
    line: int | None,
    python: bool,  # noqa: FBT001 - a parameter
) -> None:
    found = frames()
    compiled = FunctionName("f", "lib.so", None, library=True)
    names = {1: compiled, 2: FunctionName("g", file, line, library=None)}
    changed = FunctionFrames(
        **{name: getattr(found, name) for name in found.__struct_fields__}
        | {"names": names}
    )
    assert changed.of_python() is python


#: Thread, start, end, type and line.
LINES = [
    (0, 0, 50, 2, 10),
    (0, 10, 20, 4, 6),
    (0, 22, 30, 3, 21),
    (0, 24, 26, 6, 51),
    (0, 50, 80, 2, 11),
    (0, 60, 70, 5, 41),
    (0, 80, 90, 2, -1),
    (1, 0, 40, 2, 10),
]


def lines(chosen: int = len(LINES)) -> FunctionLines:
    track, start, end, kind, line = np.array(LINES, np.int64)[:chosen].T
    narrow = (column.astype(np.int32) for column in (track, kind, line))
    of_track, of_kind, of_line = narrow
    return FunctionLines(of_track, start, end, of_kind, of_line, NAMES)


def test_the_own_time_of_a_line_is_without_functions_of_the_program() -> None:
    # Line 10 calls `load`, and a library in which a lambda runs; line 11 calls `other`.
    assert lines().own_spans([2], tracks=[0]) == {
        10: Spans.of([(0, 10), (20, 50)]),
        11: Spans.of([(50, 60), (70, 80)]),
    }
    assert lines().own_spans([2], tracks=[1]) == {10: Spans.of([(0, 40)])}
    assert lines().own_spans([2, 4], tracks=[0])[6] == Spans.of([(10, 20)])
    assert lines().own_spans([3], tracks=[0]) == {}


def test_rows_of_lines_by_flag_and_by_number() -> None:
    found = lines()
    by_flag = found.chosen_rows(found.line == 10)
    assert by_flag.start_ps.tolist() == [0, 0]
    assert by_flag.track.tolist() == [0, 1]
    by_number = found.chosen_rows(np.array([5, 1]))
    assert by_number.type.tolist() == [5, 4]
    assert by_number.end_ps.tolist() == [70, 20]
    assert found.spans_of_rows(found.type == 2) == Spans.of([(0, 90)])
    assert found.known() is found
    assert found.chosen_rows(found.line < 0).known() is None
    assert found.depth_of_runs().tolist() == [0, 1, 1, 2, 0, 1, 0, 0]
