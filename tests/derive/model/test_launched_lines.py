"""Device time of source lines, against a plain look at what ran at each launch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.traces import blueprint

from stepscope.derive.model.call_trees import label_inside
from stepscope.derive.model.source_lines import SourceLines, line_times, source_lines
from stepscope.trace.tables import HLO_OPS
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

US = 1_000_000
GONE = Unavailable(code="LOST_EVENTS", reason="Taken away.", remedy="Put it back.")
PROGRAM = {"hlo_module": "jit_f", "program_id": 7}
#: Line and function of a frame by its name.
PLACES = {
    "$train.py:1 main": (1, "main"),
    "$train.py:10 step": (10, "step"),
    "$sleep": None,
    "lib/layer.py(4): call": (4, "call"),
}
FRAMES = tuple(PLACES)
#: Line of an instruction by its name.
EXACT = {"dot.1": 12, "dot.2": 13}


def found(lines: Sequence[blueprint.Line], **tables: Any) -> SourceLines:
    instructions = pl.DataFrame(
        [
            {
                "name": name,
                "opcode": "dot",
                "op_name": f"jit(f)/{name}",
                "source_file": "train.py",
                "source_line": line,
            }
            for name, line in EXACT.items()
        ],
        schema=HLO_OPS.dtypes(),
    ).with_columns(program=pl.lit(7, pl.Int64), module=pl.lit("jit_f"))
    trace = blueprint.substitute(blueprint.trace(lines), hlo_ops=instructions, **tables)
    lines_of = blueprint.profile(trace).derived("vm", source_lines)
    assert isinstance(lines_of, SourceLines)
    return lines_of


@st.composite
def calls(draw: st.DrawFn) -> list[tuple[str, str, int, int]]:
    """Nested frames of two threads: track, name, start and end."""
    rows = []
    for track in ("main", "worker"):
        open_: list[tuple[str, int]] = []
        actions = draw(st.lists(st.integers(0, len(FRAMES) + 1), max_size=14))
        for time, action in enumerate(actions):
            if action < len(FRAMES):
                open_.append((FRAMES[action], time))
            elif action == len(FRAMES) and open_:
                name, start = open_.pop()
                rows.append((track, name, start, time))
        rows += [(track, name, start, len(actions)) for name, start in open_]
    return rows


#: Track and time of the call, length and instruction of what it launched.
LAUNCHED = st.lists(
    st.tuples(
        st.sampled_from(("main", "worker", None)),
        st.integers(0, 14),
        st.integers(1, 5),
        st.sampled_from((None, *EXACT)),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=12)
@given(calls(), LAUNCHED)
def test_work_is_of_what_ran_when_it_was_launched(
    frames: list[tuple[str, str, int, int]],
    launched: list[tuple[str | None, int, int, str | None]],
) -> None:
    lines: list[blueprint.Line] = [("main", "idle", 50, 1), ("worker", "idle", 50, 1)]
    ordered = sorted(frames, key=lambda row: (row[0], row[2], -row[3]))
    lines += [(track, name, begin, end - begin) for track, name, begin, end in ordered]
    own: dict[Any, int] = {}
    total: dict[Any, int] = {}
    for number, (track, time, length, exact) in enumerate(launched):
        ids = {"correlation_id": number} if track else {}
        if track is not None:
            lines.append((track, "cuLaunchKernel", time, 0, ids))
        program = {} if exact is None else PROGRAM | {"hlo_op": exact}
        lines.append(("gpu:0/7", "k", 100 + 10 * number, length, ids | program))
        around = [
            PLACES[name]
            for on, name, begin, end in ordered
            if on == track and begin <= time < end
        ]
        known = [each for each in around if each is not None]
        owner = (EXACT[exact], None) if exact else known[-1] if known else None
        own[owner] = own.get(owner, 0) + length
        for each in {*known, *([owner] if exact or owner is None else [])}:
            total[each] = total.get(each, 0) + length
    times = line_times(found(lines))
    rows = {
        None if row["line"] is None else (row["line"], row["function"]): row
        for row in times.iter_rows(named=True)
    }
    if all(track is None for track, *_ in launched):
        # Nobody knows what functions launched.
        functions = [row for row in rows.values() if row["function"] is not None]
        assert all(row["device_ps"] is None for row in functions)
        rows = {key: row for key, row in rows.items() if not key or key[1] is None}
    for name, expected in (("device_ps", own), ("total_device_ps", total)):
        spent = {key: row[name] // US for key, row in rows.items() if row[name]}
        assert spent == expected


def test_the_op_with_most_time_names_a_line() -> None:
    instruction = [PROGRAM | {"hlo_op": name} for name in EXACT]
    lines = [
        ("main", "dot.1", 0, 10, instruction[0]),
        ("main", "dot.2", 20, 5, instruction[1]),
        ("main", "a:A", 40, 3),
        ("gpu:0/7", "k", 100, 30, instruction[1]),
    ]
    times = line_times(found(lines))
    assert times.select("line", "op").rows() == [
        (12, "jit(f)/dot.1"),
        (13, "jit(f)/dot.2"),
        (None, None),
    ]
    # Of equally long ops of a line, the first by its name is told.
    one = pl.DataFrame(
        [
            {"name": name, "op_name": f"jit(f)/{name}", "opcode": "dot"}
            | {"source_file": "train.py", "source_line": 12}
            for name in EXACT
        ],
        schema=HLO_OPS.dtypes(),
    ).with_columns(program=pl.lit(7, pl.Int64), module=pl.lit("jit_f"))
    for first, second, name in ((10, 10, "dot.1"), (10, 11, "dot.2")):
        trace = blueprint.trace(
            [
                ("main", "dot.2", 0, second, instruction[1]),
                ("main", "dot.1", 40, first, instruction[0]),
            ]
        )
        lines_of = blueprint.profile(blueprint.substitute(trace, hlo_ops=one)).derived(
            "vm", source_lines
        )
        (op, nothing) = line_times(lines_of)["op"].to_list()
        assert (op, nothing) == (f"jit(f)/{name}", None)


def test_activities_and_times_may_be_left_out() -> None:
    lines = found(
        [
            ("main", FRAMES[0], 0, 20),
            ("main", "cuLaunchKernel", 5, 1, {"correlation_id": 1}),
            ("main", "cuLaunchKernel", 7, 1, {"correlation_id": 2}),
            ("gpu:0/7", "k", 100, 3, {"correlation_id": 1}),
            ("gpu:0/7", "k", 110, 4, {"correlation_id": 2}),
        ]
    )
    none = np.zeros(2, np.bool_)
    times = line_times(lines, activities=none)
    assert times.select("line", "device_ps", "total_device_ps").rows() == [
        (1, 0, 0),
        (None, 0, 0),
    ]
    second = line_times(lines, activities=np.array([False, True]))
    assert second["device_ps"].to_list() == [4 * US, 0]


@pytest.mark.parametrize("table", ["events", "device_activity", "stats"])
def test_a_table_that_is_gone_is_no_time(table: str) -> None:
    lines = [
        ("main", FRAMES[0], 0, 20),
        ("main", "a:A", 5, 5),
        ("gpu:0/7", "k", 100, 3),
    ]
    profile = blueprint.profile(blueprint.trace(lines)).without(table, GONE)
    lines_of = profile.derived("vm", source_lines)
    if table == "events":
        assert lines_of == GONE
        return
    assert isinstance(lines_of, SourceLines)
    times = line_times(lines_of)
    host = dict(times.select("line", "host_ps").rows())
    assert host == {1: 20 * US, None: 0}
    device = sum(value or 0 for value in times["device_ps"])
    assert device == (0 if table == "device_activity" else 3 * US)


@given(st.lists(st.integers(-1, 6), min_size=7, max_size=7), st.sets(st.integers(0, 6)))
def test_items_have_the_innermost_label_around_them(
    above: list[int], chosen: set[int]
) -> None:
    parent = [min(each, row - 1) for row, each in enumerate(above)]
    rows = sorted(chosen)
    found_labels = label_inside(
        np.array(parent, np.int32), np.array(rows, np.int64), len(parent)
    )
    for row, label in enumerate(found_labels.tolist()):
        item = row
        while item >= 0 and item not in chosen:
            item = parent[item]
        assert label == (rows.index(item) if item >= 0 else -1)
