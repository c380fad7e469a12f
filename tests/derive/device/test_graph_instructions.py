"""Kernels of a replayed graph and the instructions that they carry out."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from stepscope.derive.device.attribution import graph_instructions
from stepscope.trace.tables import DEVICE_ACTIVITY, HLO_OPS

#: As scheduled: name, opcode, computation, computations called.
PROGRAM = [
    ("x", "parameter", "main", []),
    ("gemm.1", "custom-call", "main", []),
    ("loop_add_fusion", "fusion", "main", ["fused"]),
    ("gemm.2", "custom-call", "main", []),
    ("gemm.3", "custom-call", "main", []),
    ("reduce_fusion.1", "fusion", "main", ["fused.1"]),
    ("loop_add_fusion.1", "fusion", "main", ["fused"]),
    ("input_fusion", "fusion", "main", ["fused.2"]),
    ("out", "tuple", "main", []),
    # Runs inside a kernel of its own name, so no kernel is named after it.
    ("gemm.3.inner", "dot", "fused.2", []),
]
ROW = {name: row for row, (name, *_) in enumerate(PROGRAM)}
NOTHING = None


def hlo_ops(*programs: int) -> pl.DataFrame:
    columns = {name: [] for name in HLO_OPS.dtypes()}  # type: dict[str, list[object]]
    for program in programs:
        for name, opcode, computation, calls in PROGRAM:
            row = {
                "program": program, "module": "jit", "name": name, "opcode": opcode,
                "computation": computation, "calls": calls, "matmul": False,
            }  # fmt: skip
            for column, values in columns.items():
                values.append(row.get(column))
    return pl.DataFrame(columns, schema=HLO_OPS.dtypes())


def instructions(
    *launches: list[str], program: int = 7, alone: tuple[str, ...] = ()
) -> list[list[str | None]]:
    """Names of the instructions of the kernels of each launch; "-" is a memset."""
    names = sorted({name for launch in launches for name in launch})
    listed = [
        {
            "program": program,
            "process": 1,
            "correlation": number,
            "type": names.index(name),
            "kind": "memset" if name == "-" else "kernel",
            "start_ps": 1000 * number + at,
        }
        for number, launch in enumerate(launches)
        for at, name in enumerate(launch)
    ]
    dtypes = DEVICE_ACTIVITY.dtypes()
    activity = pl.DataFrame(listed, schema={name: dtypes[name] for name in listed[0]})
    found = graph_instructions(
        np.arange(len(activity)),
        activity,
        pl.DataFrame({"name": names}),
        hlo_ops(3, 7),
        np.array([len(PROGRAM) + ROW[name] for name in alone], np.int32),
    )
    # Program 7 comes after program 3.
    shown = iter(
        NOTHING if row < 0 else PROGRAM[row - len(PROGRAM)][0] for row in found.tolist()
    )
    return [[next(shown) for _ in launch] for launch in launches]


def test_kernels_are_named_after_their_instructions_and_lie_between_them() -> None:
    launch = ["-", "nvjet", "loop_add_fusion", "-", "nvjet", "nvjet"]
    launch += ["reduce_fusion_1", "loop_add_fusion", "input_fusion"]
    (found,) = instructions(launch)
    assert found == [
        "gemm.1", "gemm.1", "loop_add_fusion", "gemm.2", "gemm.2", "gemm.3",
        # The same computation a second time: XLA compiles it once.
        "reduce_fusion.1", "loop_add_fusion.1", "input_fusion",
    ]  # fmt: skip


def test_two_instructions_with_three_kernels_cannot_be_told_apart() -> None:
    (found,) = instructions(["loop_add_fusion", "a", "b", "c", "reduce_fusion_1"])
    assert found == ["loop_add_fusion", NOTHING, NOTHING, NOTHING, "reduce_fusion.1"]


def test_one_instruction_may_have_several_kernels() -> None:
    (found,) = instructions(["-", "a", "b", "loop_add_fusion"])
    assert found == ["gemm.1"] * 3 + ["loop_add_fusion"]


def test_what_ran_outside_of_the_graph_is_not_inside() -> None:
    launch = ["loop_add_fusion", "a", "b", "reduce_fusion_1"]
    (found,) = instructions(launch, alone=("gemm.2",))
    assert found == ["loop_add_fusion", "gemm.3", "gemm.3", "reduce_fusion.1"]


def test_each_replay_has_its_own_order() -> None:
    first = ["a", "loop_add_fusion"]
    # Two streams: what comes later in the schedule may run first.
    second = ["reduce_fusion_1", "a", "loop_add_fusion"]
    assert instructions(first, second, first) == [
        ["gemm.1", "loop_add_fusion"],
        ["reduce_fusion.1", NOTHING, "loop_add_fusion"],
        ["gemm.1", "loop_add_fusion"],
    ]


def test_a_loop_inside_of_a_graph_is_not_taken_for_what_comes_after_it() -> None:
    """Its kernels run again and again; only the first ones can be recognised."""
    turn = ["loop_add_fusion", "reduce_fusion_1"]
    (found,) = instructions([*turn, *turn, *turn])
    assert found == ["loop_add_fusion", "reduce_fusion.1", *[NOTHING] * 4]
    # As many kernels as instructions are left, but not theirs.
    (found,) = instructions([*turn, turn[1], turn[1]])
    assert found == ["loop_add_fusion", "reduce_fusion.1", *[NOTHING] * 2]


@pytest.mark.parametrize("launch", [["a"], ["a", "b"], ["-"]])
def test_without_any_named_kernel_nothing_is_known(launch: list[str]) -> None:
    assert instructions(launch) == [[NOTHING] * len(launch)]


def test_kernels_of_an_unknown_launch_stay_unknown() -> None:
    activity = pl.DataFrame(
        {
            "program": [7],
            "process": [1],
            "correlation": [None],
            "type": [0],
            "kind": ["kernel"],
            "start_ps": [0],
        },
        schema={
            name: DEVICE_ACTIVITY.dtypes()[name]
            for name in (
                "program",
                "process",
                "correlation",
                "type",
                "kind",
                "start_ps",
            )
        },
    )
    found = graph_instructions(
        np.arange(1),
        activity,
        pl.DataFrame({"name": ["loop_add_fusion"]}),
        hlo_ops(7),
        np.empty(0, np.int32),
    )
    assert found.tolist() == [-1]
