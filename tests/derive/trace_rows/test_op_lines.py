"""Spans of op lines and of launch calls, against plain loops."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.traces.literal_tables import (
    activity_of,
    correlation_of,
    steps_of,
    types_of,
)

from stepscope.derive.device.attribution import OpEvidence
from stepscope.derive.trace_rows.op_spans import Pieces, op_lines, paths_of_ops
from stepscope.derive.trace_rows.step_lines import (
    Names,
    launch_lines,
    launch_values,
)

#: Device, step, launch call (-1: unknown).
LAUNCHED = st.lists(
    st.tuples(st.integers(0, 1), st.integers(-1, 2), st.integers(-1, 4)), max_size=9
)
#: Start and duration of a launch call.
CALLS = st.lists(
    st.tuples(st.integers(0, 20), st.integers(0, 6)), min_size=5, max_size=5
)


def named_types() -> pl.DataFrame:
    return types_of(["x"]).with_columns(display_name=pl.lit(None, pl.String))


@given(LAUNCHED, CALLS)
def test_launch_lines_extend_over_the_calls_of_each_step(
    launched: list[tuple[int, int, int]], calls: list[tuple[int, int]]
) -> None:
    activity = activity_of(
        [(device, device, "kernel", 0, 100, 5) for device, _, _ in launched]
    )
    launches = [(0, 0, start, dur) for start, dur in calls]
    lines, totals = launch_lines(
        correlation_of(activity, launches, [call for _, _, call in launched]),
        activity_steps=np.array([step for _, step, _ in launched], np.int32),
        steps=steps_of([0, 100, 200], name=["a", None, "c"], step=[7, 8, 9]),
        names=(names := Names(named_types())),
    )
    by_step: defaultdict[tuple[int, int], set[int]] = defaultdict(set)
    on_device: defaultdict[int, set[int]] = defaultdict(set)
    for device, step, call in launched:
        if call >= 0:
            on_device[device].add(call)
            if step >= 0:
                by_step[device, step].add(call)
    assert totals.rows() == [
        (
            *key,
            len(by_step[key]),
            max(calls[call][1] for call in by_step[key]),
            sum(calls[call][1] for call in by_step[key]),
        )
        for key in sorted(by_step)
    ]
    values = launch_values(totals)
    for row, (_, _, count, longest, total) in zip(
        values.rows(), totals.rows(), strict=True
    ):
        assert row == pytest.approx((count, longest / 1e6, total / count / 1e6))
    shown, _ = names.name_texts()
    lines = {line.device: line.spans for line in lines}
    assert list(lines) == sorted({device for device, _ in by_step})
    for device, spans in lines.items():
        rows = []
        for at in sorted(step for on, step in by_step if on == device):
            mine = by_step[device, at]
            begin = min(calls[call][0] for call in mine)
            end = max(sum(calls[call]) for call in mine)
            first = min(call for call in mine if calls[call][0] == begin)
            busy = sum(
                any(
                    calls[call][0] <= time < sum(calls[call])
                    for call in on_device[device]
                )
                for time in range(begin, end)
            )
            text = {0: "a", 1: "8", 2: "c"}[at]
            rows.append((begin, end - begin, text, first, at, busy))
        assert spans.busy_ps is not None
        columns = (
            spans.start_ps.tolist(),
            spans.dur_ps.tolist(),
            shown.gather(spans.name).to_list(),
            spans.event.tolist(),
            spans.step.tolist(),
            spans.busy_ps.tolist(),
        )
        drawn = list(zip(*columns, strict=True))
        assert sorted(drawn) == sorted(rows)
        assert drawn == sorted(drawn, key=lambda row: (row[0], -row[1]))


OPS = (
    ("a/x", "X", "f", 1, "t.py", 1),
    ("a/b/y", "Y", "f", 1, "t.py", 2),
    ("b/x", "X", "g", None, None, None),
    (None, None, None, None, None, None),
)
#: Op, duration, gap before it, whether a new step begins.
PIECES = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1, 3), st.integers(0, 2), st.booleans()),
    min_size=1,
    max_size=9,
)


def paths() -> tuple[Any, Names]:
    names = Names(named_types())
    evidence = int(OpEvidence.ANNOTATION)
    ops = pl.DataFrame(
        [
            (name, kind, None, None, evidence, module, program, file, line)
            for name, kind, module, program, file, line in OPS
        ],
        schema={
            **dict.fromkeys(("name", "type", "framework_op"), pl.String()),
            **dict.fromkeys(("framework_type",), pl.String()),
            "evidence": pl.UInt8(),
            "module": pl.String(),
            "program": pl.Int64(),
            "source_file": pl.String(),
            "source_line": pl.Int64(),
        },
        orient="row",
    )
    return paths_of_ops(ops, [], names), names


def runs_of(
    pieces: list[tuple[Any, ...]], key: Any, apart: Any
) -> list[tuple[Any, ...]]:
    """(key, start, end, first piece, busy) of consecutive pieces with equal keys.

    Pieces without a key are passed over; `apart` tells pieces that open a new run.
    """
    runs: list[list[Any]] = []
    last = None
    for number, piece in enumerate(pieces):
        own = key(piece)
        if own is None:
            continue
        mark = (own, piece[3], apart(number))
        if mark != last:
            runs.append([own, piece[1], piece[2], number, 0])
        runs[-1][2] = piece[2]
        runs[-1][4] += piece[2] - piece[1]
        last = mark
    return [tuple(run) for run in runs]


@given(PIECES)
def test_consecutive_pieces_of_one_op_are_one_span(
    drawn: list[tuple[int, int, int, bool]],
) -> None:
    """Modules end where another one runs, and they end all that lies in them."""
    time, step, pieces = 0, 0, []
    for op, dur, gap, fresh in drawn:
        step += fresh
        time += gap
        # Long enough that no span is shortened away.
        pieces.append((op, time * 10**6, (time + dur) * 10**6, step))
        time += dur
    described, names = paths()
    columns = list(zip(*pieces, strict=True))
    count = len(pieces)
    lines = op_lines(
        Pieces(
            np.array(columns[1]),
            np.array(columns[2]),
            np.array(columns[3], np.int32),
            np.arange(count, dtype=np.int32),
            np.array(columns[0], np.int32),
            np.full(count, -1, np.int32),
        ),
        described,
        device=0,
        track=4,
    )
    shown, _ = names.name_texts()

    def module(piece: tuple[Any, ...]) -> str | None:
        name, program = OPS[piece[0]][2:4]
        return name if program is None else f"{name}({program})"

    # Which run of modules each piece is in; a piece without a module is in the last.
    module_runs = [run[3] for run in runs_of(pieces, module, lambda _: 0)]
    inside = [sum(begin <= number for begin in module_runs) for number in range(count)]
    expected = {"xla_modules": runs_of(pieces, module, lambda _: 0)}
    expected["framework_ops"] = [
        (OPS[run[0]][1], *run[1:])
        for run in runs_of(
            pieces,
            lambda piece: piece[0] if OPS[piece[0]][0] else None,
            inside.__getitem__,
        )
    ]
    scope_of = [name.split("/")[0] if name else None for name, *_ in OPS]
    outer = runs_of(pieces, lambda piece: scope_of[piece[0]], inside.__getitem__)
    by_view = {line.view: line.spans for line in lines}
    assert all((line.device, line.track) == (0, 4) for line in lines)
    for view, runs in expected.items():
        if not runs:
            assert view not in by_view
            continue
        spans = by_view[view]
        assert spans.busy_ps is not None
        found = zip(
            shown.gather(spans.name).to_list(),
            spans.start_ps.tolist(),
            (spans.start_ps + spans.dur_ps).tolist(),
            spans.event.tolist(),
            spans.busy_ps.tolist(),
            strict=True,
        )
        assert list(found) == runs
        assert spans.step.tolist() == [pieces[run[3]][3] for run in runs]
    if outer:
        spans = by_view["name_scope"]
        top = spans.level == 0
        assert shown.gather(spans.name[top]).to_list() == [run[0] for run in outer]
        assert spans.start_ps[top].tolist() == [run[1] for run in outer]
        assert spans.event[top].tolist() == [run[3] for run in outer]
        # Inner scopes lie in outer ones.
        assert set(shown.gather(spans.name[~top]).to_list()) <= {"b"}
    assert "xla_ops" not in by_view
