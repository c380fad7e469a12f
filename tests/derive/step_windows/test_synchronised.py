"""Steps of programs on the CPU that wait for each step inside its marker."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.traces import blueprint

from stepscope.derive.step_windows.windows import Windows, windows


def op_by_op(*, waits: bool) -> list[tuple[Any, ...]]:
    """Six steps of JAX outside `jit`: each op is a program of one instruction.

    The op in the middle is the only one that runs once per step. The first step takes
    three times as long as the others.
    """
    lines: list[tuple[Any, ...]] = []
    begin = 0.0
    for k in range(6):
        scale = 3.0 if k == 0 else 1.0
        called = begin if waits else 10.0 * k
        for j, op in enumerate(("dot", "tanh", "exp", "dot", "tanh")):
            at = begin + scale * (2 + 18 * j)
            lines += [
                (
                    "main",
                    f"PjitFunction({op})",
                    called + (at - begin if waits else j),
                    1,
                ),
                ("executor", op, at + 1, 16 * scale, {"hlo_op": op}),
            ]
        lasts = 98.0 * scale if waits else 9.0
        lines.append(("main", "train", called, lasts, {"step_num": k, "_r": 1}))
        begin += 100.0 * scale
    return lines


@pytest.mark.parametrize(("waits", "anchor"), [(True, "host"), (False, "executor")])
def test_markers_win_where_each_step_ends_synchronised(
    anchor: str, *, waits: bool
) -> None:
    found = blueprint.profile(blueprint.trace(op_by_op(waits=waits)))
    step_windows = found.derived("vm", windows)
    assert isinstance(step_windows, Windows)
    assert step_windows.anchor == anchor
    begins = [start / 1e6 for start in step_windows.rows["start_ps"].to_list()]
    if waits:
        assert begins == [0, 300, 400, 500, 600, 700]
        assert len(step_windows.measured) == 6
    else:
        # Only `exp` shows where the program's work on a step is.
        assert begins == [115, 339, 439, 539, 639, 739]
