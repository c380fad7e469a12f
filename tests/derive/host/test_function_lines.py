"""Which lines of functions ran when: worked out by hand, and no time gets lost."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.traces import blueprint

from stepscope.capture.collectors.sampled_frames import Frame, Sample, SampledFrames
from stepscope.derive.host.function_frames import non_step_frames
from stepscope.derive.host.placed_frames import function_frames, function_lines
from stepscope.derive.trace_rows.drawn_rows import trace_timeline
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.derive.host.function_lines import FunctionLines

SAMPLES = "samples of main, 100 a second"
LINES = "source lines of main, 100 a second"
TRAIN, LOAD = "$train.py:3 train", "$data.py:9 load"
US = 1_000_000


def found(lines: Sequence[blueprint.Line]) -> FunctionLines:
    lines_of = blueprint.profile(blueprint.trace(lines)).derived("vm", function_lines)
    assert not isinstance(lines_of, Unavailable), lines_of
    return lines_of


def rows(lines: FunctionLines) -> list[tuple[int, str, int, int, int]]:
    """Thread, function, line, start and end in microseconds."""
    return [
        (track, lines.names[kind].function, line, start // US, end // US)
        for track, kind, line, start, end in zip(
            lines.track.tolist(),
            lines.type.tolist(),
            lines.line.tolist(),
            lines.start_ps.tolist(),
            lines.end_ps.tolist(),
            strict=True,
        )
    ]


def at(line: int) -> dict[str, int]:
    return {"source_line": line}


#: `train` calls `load` in line 5, then in line 6; each look found `load` in line 12.
WHOLE: list[blueprint.Line] = [
    ("main", "step", 0, 100),
    (SAMPLES, TRAIN, 0, 90),
    (SAMPLES, LOAD, 10, 40),
    (LINES, TRAIN, 0, 30, at(5)),
    (LINES, LOAD, 10, 20, at(12)),
    (LINES, TRAIN, 30, 60, at(6)),
    (LINES, LOAD, 30, 20, at(12)),
]


def test_frames_are_cut_where_another_line_ran() -> None:
    assert rows(found(WHOLE)) == [
        (0, "train", 5, 0, 30),
        (0, "load", 12, 10, 30),
        (0, "train", 6, 30, 90),
        (0, "load", 12, 30, 50),
    ]


def test_lines_are_neither_functions_nor_on_the_timeline() -> None:
    profile = blueprint.profile(blueprint.trace(WHOLE))
    shown = profile.derived("vm", trace_timeline)
    assert not isinstance(shown, Unavailable)
    assert shown.tracks["name"].to_list() == ["main", SAMPLES]
    frames = profile.derived("vm", function_frames)
    assert not isinstance(frames, Unavailable)
    assert (frames.end_ps - frames.start_ps).tolist() == [90 * US, 40 * US]
    assert isinstance(profile.derived("vm", non_step_frames), Unavailable)


def test_without_lines_functions_stay_whole() -> None:
    assert rows(found(WHOLE[:3])) == [
        (0, "train", -1, 0, 90),
        (0, "load", -1, 10, 50),
    ]


def test_from_when_on_the_lines_of_all_frames_are_known_they_count() -> None:
    """What a recording kept of its end: the first run of `load` was dropped."""
    assert rows(found([*WHOLE[:3], WHOLE[5], WHOLE[6]])) == [
        (0, "train", -1, 0, 30),
        (0, "load", -1, 10, 30),
        (0, "train", 6, 30, 90),
        (0, "load", 12, 30, 50),
    ]


def test_a_frame_without_a_line_ends_what_is_not_known() -> None:
    """`load` in 10 to 50 has lines until 30 only."""
    assert rows(found(WHOLE[:6])) == [
        (0, "train", -1, 0, 50),
        (0, "load", -1, 10, 50),
        (0, "train", 6, 50, 90),
    ]


def test_lines_that_fit_no_frame_are_left_out() -> None:
    wrong = (LINES, "$other.py:1 other", 30, 20, at(12))
    assert rows(found([*WHOLE[:6], wrong])) == rows(found(WHOLE[:3]))


def test_an_instruction_that_no_line_made_is_of_the_function() -> None:
    lines = [*WHOLE[:6], (LINES, LOAD, 30, 20)]
    assert [row[2] for row in rows(found(lines))] == [5, 12, 6, -1]


def test_exact_frames_of_a_thread_stay_whole() -> None:
    exact = ("main", "$train.py:1 main", 0, 80)
    assert rows(found([exact, *WHOLE])) == [(0, "main", -1, 0, 80)]


def test_each_thread_has_its_own() -> None:
    """That of `worker` has no events of its own."""
    worker = [
        ("samples of worker, 100 a second", LOAD, 0, 10),
        ("source lines of worker, 100 a second", LOAD, 0, 10, at(13)),
    ]
    assert rows(found([*WHOLE[:3], *worker])) == [
        (0, "train", -1, 0, 90),
        (0, "load", -1, 10, 50),
        (2, "load", 13, 0, 10),
    ]


def test_what_lasted_no_time_is_in_no_line_s_way() -> None:
    instants = [(SAMPLES, LOAD, 90, 0), (LINES, LOAD, 90, 0, at(14))]
    assert rows(found([*WHOLE[:3], instants[0], *WHOLE[3:], instants[1]])) == rows(
        found(WHOLE)
    )


#: Stacks of (function, line) that looks find, one every ten microseconds.
STACKS = st.lists(
    st.lists(st.tuples(st.integers(0, 1), st.integers(11, 12)), max_size=3),
    min_size=2,
    max_size=8,
)
NAMES = (TRAIN, LOAD)


def lasted(frame: Frame[Any]) -> int:
    return frame.end_ns - frame.begin_ns


@settings(max_examples=12)
@given(stacks=STACKS, kept=st.integers(0, 8))
def test_no_time_is_lost_or_counted_twice(
    stacks: list[list[tuple[int, int]]], kept: int
) -> None:
    """The second count: what each look found, from halfway before to halfway after.

    Of a recording that keeps its end, the lines that ended in time are lost.
    """
    # One object for each function and for each line of one.
    functions = ("function 0", "function 1")
    lines_of = {(one, line): (one, line) for one in (0, 1) for line in (11, 12)}
    of_functions: SampledFrames[str] = SampledFrames()
    of_lines: SampledFrames[tuple[int, int]] = SampledFrames()
    ended: list[Frame[str]] = []
    runs: list[Frame[tuple[int, int]]] = []
    for number, stack in enumerate(stacks):
        called = [functions[one] for one, _ in stack]
        ended += of_functions.add_sample(Sample(1, 10 * number, 10 * number, called))
        found_lines = [lines_of[each] for each in stack]
        runs += of_lines.add_sample(Sample(1, 10 * number, 10 * number, found_lines))
    ended += of_functions.end_frames()
    runs += of_lines.end_frames()
    cut = 10 * kept
    lines = found(
        [
            ("main", "step", 0, 1),
            (SAMPLES, "$app.py:1 app", 0, 100),
            (LINES, "$app.py:1 app", 0, 100, at(2)),
            *(
                (SAMPLES, NAMES[functions.index(it.code)], it.begin_ns, lasted(it))
                for it in ended
            ),
            *(
                (LINES, NAMES[it.code[0]], it.begin_ns, lasted(it), at(it.code[1]))
                for it in runs
                if it.end_ns > cut
            ),
        ]
    )
    expected: Counter[str] = Counter()
    exact: Counter[tuple[str, int]] = Counter()
    last = 10 * (len(stacks) - 1)
    for number, stack in enumerate(stacks):
        begin, end = max(10 * number - 5, 0), min(10 * number + 5, last)
        for one, line in stack:
            name = ("train", "load")[one]
            expected[name] += end - begin
            exact[name, line] += end - begin
    whole: Counter[str] = Counter()
    by_line: Counter[tuple[str, int]] = Counter()
    for _, function, line, begin, end in rows(lines):
        if function != "app":
            whole[function] += end - begin
            by_line[function, line] += end - begin
    assert +whole == +expected
    if kept == 0:
        assert +by_line == +exact
    assert all(by_line[place] <= exact[place] for place in by_line if place[1] > 0)
