"""Time per line of the program: which line names what, and that nothing gets lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.traces import blueprint

from stepscope.derive.intervals.spans import Spans
from stepscope.derive.model.source_lines import (
    LINE_TIMES,
    SourceLines,
    line_times,
    source_lines,
)
from stepscope.trace.tables import HLO_OPS
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

US = 1_000_000
PROGRAM = {"hlo_module": "jit_f", "program_id": 7}
TIMES = ("host_ps", "total_host_ps", "device_ps", "total_device_ps")
#: `main` calls `step`, which calls itself; a compiled program runs line 12 in it and in
#: a thread of its own, and three launch calls lie in them.
LINES: list[blueprint.Line] = [
    ("main", "$train.py:1 main", 0, 100),
    ("main", "$train.py:10 step", 10, 50),
    ("main", "cuLaunchKernel", 15, 1, {"correlation_id": 3}),
    ("main", "dot.1", 20, 10, PROGRAM | {"hlo_op": "dot.1"}),
    ("main", "net/MatMul:MatMul", 35, 10),
    ("main", "cuLaunchKernel", 36, 1, {"correlation_id": 1}),
    ("main", "$train.py:10 step", 50, 8),
    ("main", "cuLaunchKernel", 51, 1, {"correlation_id": 2}),
    ("main", "$sleep", 70, 10),
    ("main", "net/Add:Add", 110, 10),
    ("worker", "dot.1", 0, 5, PROGRAM | {"hlo_op": "dot.1"}),
    ("gpu:0/7", "sgemm", 130, 7, {"correlation_id": 1}),
    ("gpu:0/7", "scale", 140, 3, {"correlation_id": 2}),
    ("gpu:0/7", "loop", 150, 4, PROGRAM | {"hlo_op": "dot.1", "correlation_id": 3}),
    ("gpu:0/7", "alone", 160, 2),
]


def found(lines: Sequence[blueprint.Line], *, launches: bool = True) -> SourceLines:
    """The lines of a program whose instruction dot.K was made in line 11 + K."""
    instructions = pl.DataFrame(
        [
            {
                "name": f"dot.{number}",
                "opcode": "dot",
                "op_name": f"jit(f)/dot_{number}",
                "source_file": "train.py",
                "source_line": 11 + number,
            }
            for number in (1, 2)
        ],
        schema=HLO_OPS.dtypes(),
    ).with_columns(program=pl.lit(7, pl.Int64), module=pl.lit("jit_f"))
    trace = blueprint.substitute(blueprint.trace(lines), hlo_ops=instructions)
    if not launches:
        why = Unavailable(code="NOT_RECORDED", reason="None.", remedy="None.")
        trace = blueprint.substitute(trace, launches=why)
    lines_of = blueprint.profile(trace).derived("vm", source_lines)
    assert isinstance(lines_of, SourceLines)
    return lines_of


def in_us(times: pl.DataFrame) -> dict[tuple[int | None, str | None], list[int | None]]:
    assert dict(times.schema) == LINE_TIMES
    return {
        (row["line"], row["function"]): [
            None if row[name] is None else row[name] // US for name in TIMES
        ]
        for row in times.iter_rows(named=True)
    }


def test_each_instant_and_each_activity_is_at_one_line() -> None:
    times = line_times(found(LINES))
    assert in_us(times) == {
        # Self and total time on the host, then on the device.
        (1, "main"): [50, 100, 0, 14],
        # 50 without the 10 of line 12; what calls itself counts once.
        (10, "step"): [40, 50, 10, 14],
        (12, None): [15, 15, 4, 4],
        (None, None): [10, 10, 2, 2],
    }
    assert times["op"].to_list() == [None, None, "jit(f)/dot_1", None]
    assert times["event"].to_list()[:2] == ["$train.py:1 main", "$train.py:10 step"]


def test_samples_need_not_nest_with_ops() -> None:
    times = line_times(
        found(
            [
                ("main", "dot.1", 5, 10, PROGRAM | {"hlo_op": "dot.1"}),
                ("main", "net/MatMul:MatMul", 35, 15),
                ("samples of main, 100 a second", "$train.py:10 step", 10, 30),
            ]
        )
    )
    assert in_us(times) == {
        (10, "step"): [25, 30, 0, 0],
        (12, None): [10, 10, 0, 0],
        (None, None): [10, 10, 0, 0],
    }


def test_a_launch_is_of_the_line_that_ran() -> None:
    """`step` launches in its lines 12 and 14, and `main` calls it in line 2."""
    samples = "samples of main, 100 a second"
    seen = "source lines of main, 100 a second"
    times = line_times(
        found(
            [
                ("main", "cuLaunchKernel", 15, 1, {"correlation_id": 1}),
                ("main", "cuLaunchKernel", 35, 1, {"correlation_id": 2}),
                (samples, "$train.py:1 main", 0, 50),
                (samples, "$train.py:10 step", 10, 30),
                (seen, "$train.py:1 main", 0, 50, {"source_line": 2}),
                (seen, "$train.py:10 step", 10, 20, {"source_line": 12}),
                (seen, "$train.py:10 step", 30, 10, {"source_line": 14}),
                ("gpu:0/7", "sgemm", 130, 7, {"correlation_id": 1}),
                ("gpu:0/7", "scale", 140, 3, {"correlation_id": 2}),
            ]
        )
    )
    assert in_us(times) == {
        (2, "main"): [20, 50, 0, 10],
        (12, "step"): [20, 20, 7, 7],
        (14, "step"): [10, 10, 3, 3],
        (None, None): [0, 0, 0, 0],
    }
    assert times["exact"].to_list() == [True, True, True, None]


def test_a_file_of_a_framework_is_a_library_s_where_its_path_was_cut() -> None:
    files = ("torch/nn/linear.py", "threading.py", "/home/someone/train.py", "net.py")
    lines = [
        ("main", f"{file}(3): call", 10 * number, 5)
        for number, file in enumerate(files)
    ]
    times = line_times(found(lines)).drop_nulls("file")
    known = dict(zip(times["file"], times["library"], strict=True))
    assert known == dict(zip(files, (True, True, False, False), strict=True))


def test_without_launch_calls_no_function_has_a_device_time() -> None:
    assert in_us(line_times(found(LINES, launches=False))) == {
        (1, "main"): [50, 100, None, None],
        (10, "step"): [40, 50, None, None],
        (12, None): [15, 15, 4, 4],
        (None, None): [10, 10, 12, 12],
    }


def test_a_stretch_counts_what_lies_in_it() -> None:
    lines = found(LINES)
    times = line_times(
        lines,
        within=Spans.of([(25 * US, 55 * US)]),
        activities=lines.device_ps == 7 * US,
    )
    assert in_us(times) == {
        (1, "main"): [0, 30, 0, 7],
        (10, "step"): [25, 30, 7, 7],
        (12, None): [5, 5, 0, 0],
        (None, None): [0, 0, 0, 0],
    }


def test_a_program_without_functions_ops_and_devices_has_none() -> None:
    trace = blueprint.trace([("main", "train", 0, 10)])
    why = blueprint.profile(trace).derived("vm", source_lines)
    if isinstance(why, SourceLines):
        assert in_us(line_times(why)) == {(None, None): [0, 0, 0, 0]}
    else:
        assert why.code == "NOT_RECORDED"


#: Open an event with one of some names (0 to 2), close the innermost one (3), or wait.
ACTIONS = st.lists(st.integers(0, 4), min_size=1, max_size=20)
FRAMES = ("$train.py:1 main", "$train.py:10 step", "$sleep")
OPS = ("dot.1", "dot.2", "net/MatMul:MatMul")


def drawn(actions: list[int], names: Sequence[str]) -> list[tuple[str, int, int]]:
    """Nested events of these names, (name, start, end), by their starts."""
    open_: list[tuple[str, int]] = []
    closed: list[tuple[str, int, int]] = []
    for time, action in enumerate(actions):
        if action < len(names):
            open_.append((names[action], time))
        elif action == len(names) and open_:
            closed.append((*open_.pop(), time))
    closed += [(*one, len(actions)) for one in open_]
    return sorted(closed, key=lambda one: one[1])


def painted(
    frames: list[tuple[str, int, int]], ops: list[tuple[str, int, int]]
) -> dict[str | None, int]:
    """The second count: the line of each microsecond, one after the other."""
    owners: dict[str | None, int] = {}
    for time in range(20):
        calls = [name for name, start, end in frames if start <= time < end]
        runs = [name for name, start, end in ops if start <= time < end]
        exact = [name for name in runs if name.startswith("dot")]
        placed = [name for name in calls if ":" in name]
        if calls or runs:
            owner = exact[-1] if exact else placed[-1] if placed else None
            owners[owner] = owners.get(owner, 0) + 1
    return owners


@settings(max_examples=8)
@given(of_frames=ACTIONS, of_ops=ACTIONS, cut=st.integers(0, 20))
def test_no_time_is_lost_or_counted_twice(
    of_frames: list[int], of_ops: list[int], cut: int
) -> None:
    frames, ops = drawn(of_frames, FRAMES), drawn(of_ops, OPS)
    lines = found(
        [
            ("main", "idle", 0, 0),
            *(
                ("main", name, start, end - start)
                + ((PROGRAM | {"hlo_op": name},) if name.startswith("dot") else ())
                for name, start, end in ops
            ),
            *(
                ("samples of main, 100 a second", name, start, end - start)
                for name, start, end in frames
            ),
        ]
    )
    named = {12: "dot.1", 13: "dot.2"}
    whole = line_times(lines)
    by_owner = {
        row["event"] or named.get(row["line"]): row["host_ps"] // US
        for row in whole.iter_rows(named=True)
        if row["host_ps"]
    }
    assert by_owner == painted(frames, ops)
    # Two stretches add up to the whole, the totals of callers included.
    parts = [
        line_times(lines, within=Spans.of([edges]))
        for edges in ((-US, cut * US), (cut * US, 100 * US))
    ]
    summed = pl.concat(parts).group_by("line", "function").agg(pl.col(TIMES).sum())
    kept = whole.select("line", "function", *TIMES)
    order = ["line", "function"]
    assert summed.sort(order).rows() == kept.sort(order).rows()
