"""The nodes at which executions, activities and allocations are, and their charges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from tests.support.traces import blueprint

from stepscope.derive.model.work import (
    SIDES,
    Grouping,
    ModelWork,
    charges_in_steps,
    model_charges,
    model_work,
)
from stepscope.trace.tables import HLO_OPS, PARAMETERS
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.array_types import Int32s

US = 1_000_000
GONE = Unavailable(code="LOST_EVENTS", reason="Taken away.", remedy="Put it back.")
GPU, OTHER = "gpu:0/7(Compute)", "gpu:1/7(Compute)"
#: A product of (4, 8) with weights (2, 8): 128 operations.
LINEAR = {"Input Dims": "[[4, 8], [2, 8]]", "Input type": '["float", "float"]'}


def step(start: float, number: int) -> blueprint.Line:
    return ("main", "train", start, 100, {"_r": 1, "step_num": number})


def call(start: float, number: int) -> blueprint.Line:
    return ("main", "cuLaunchKernel", start, 1, {"correlation_id": number})


def allocated(start: float, size: int, op: str) -> blueprint.Line:
    state = {
        "allocator_name": "GPU_0_bfc",
        "bytes_reserved": 0,
        "bytes_allocated": size,
        "bytes_available": 10_000,
        "peak_bytes_in_use": size,
        "fragmentation": 0.0,
        "addr": int(start),
        "allocation_bytes": size,
        "requested_bytes": size,
        "tf_op": op,
    }
    return ("main", "MemoryAllocation", start, 0, state)


LINES = [
    step(0, 0),
    ("main", "$train.py:12 step", 1, 95),
    ("main", "nn.Module: Net_0", 2, 90),
    ("main", "a:A", 10, 50),
    call(12, 1),
    allocated(14, 64, "a:A"),
    ("main", "b:B", 20, 20),
    call(22, 2),
    step(100, 1),
    ("main", "b:B", 100, 10),
    ("main", "$train.py:12 step", 111, 40),
    ("main", "nn.Module: Net_1", 115, 30),
    ("main", "a:A", 120, 20),
    call(122, 3),
    allocated(130, 8, "b:B"),
    ("main", "b:B", 160, 10),
    allocated(165, 16, "b:B"),
    step(200, 2),
    ("main", "b:B", 200, 10),
    (GPU, "k", 300, 7, {"correlation_id": 1, "tf_op": "a:A"}),
    # Of `a`, but launched by `b` inside of it.
    (GPU, "l", 310, 5, {"correlation_id": 2, "tf_op": "a:A"}),
    (GPU, "alone", 320, 3),
    (OTHER, "k", 330, 2, {"correlation_id": 3, "tf_op": "a:A"}),
]


def work_of(lines: Sequence[blueprint.Line], **tables: Any) -> ModelWork:
    trace = blueprint.substitute(blueprint.trace(lines), **tables)
    found = blueprint.profile(trace).derived("vm", model_work)
    assert isinstance(found, ModelWork)
    return found


def paths(grouping: Grouping, nodes: Int32s) -> list[str]:
    """The names from the root down to each node; empty for none."""
    assert nodes.dtype == "int32"
    found = []
    for number in nodes.tolist():
        names: list[str] = []
        node = number
        while node >= 0:
            assert grouping.places is not None
            names.insert(0, grouping.texts[int(grouping.places.key[node])])
            node = int(grouping.places.parent[node])
        found.append(" > ".join(names))
    return found


def spelled(work: ModelWork) -> dict[str, tuple[list[str], list[str], list[str]]]:
    """Paths of executions, of activities and of allocations in each view."""
    return {
        view: (
            paths(group, group.of_execution),
            paths(group, group.of_activity),
            paths(group, group.of_allocation),
        )
        for view, group in work.groupings.items()
    }


RUNS = ["a", "b", "b", "a", "b", "b"]


def test_each_item_has_its_node_in_each_tree() -> None:
    work = work_of(LINES)
    assert not isinstance(work.host, Unavailable)
    names = work.host.ops["name"].to_list()
    assert [names[op] for op in work.host.op.tolist()] == RUNS
    function = "train.py:12 step"
    assert spelled(work) == {
        "scope": (
            ["Net_0", "Net_0", "", "Net_1", "", ""],
            ["Net_0", "Net_0", "", "Net_1"],
            ["Net_0", "Net_1", ""],
        ),
        "graph": (
            ["a", "a > b", "b", "a", "b", "b"],
            # What its op did not launch has a node of its own.
            ["a", "", "", "a"],
            ["a", "a", "b"],
        ),
        "op": ([""] * 6, [""] * 4, [""] * 3),
        "code": (
            [function, function, "", function, "", ""],
            [function, function, "", function],
            [function, function, ""],
        ),
    }
    assert work.groupings["op"].places is None
    assert work.groupings["op"].texts == []


def test_all_that_is_known_of_activities() -> None:
    known = pl.DataFrame(
        [
            {"name": "p", "opcode": "parameter", "shape": "f32[4]"},
            {"name": "add.2", "opcode": "add", "shape": "f32[4]", "operands": ["p"]},
        ],
        schema=HLO_OPS.dtypes(),
    ).with_columns(
        program=pl.lit(3, pl.Int64), module=pl.lit("jit"), computation=pl.lit("main")
    )
    instruction = {"hlo_op": "add.2", "hlo_module": "jit", "program_id": 3}
    lines = [*LINES, (OTHER, "loop", 340, 4, instruction)]
    trace = blueprint.substitute(blueprint.trace(lines), hlo_ops=known)
    work = work_of(lines, hlo_ops=known)
    device, ops = work.device, work.device_ops
    assert device is not None
    assert not isinstance(ops, Unavailable)
    assert device.device.tolist() == [0, 0, 0, 1, 1]
    names = ops.ops["name"].to_list()
    assert [names[op] for op in device.op.tolist()][:2] == ["a", "a"]
    types = trace.table("event_types")
    assert isinstance(types, pl.DataFrame)
    # All that has no op counts as one kernel.
    kernels = [
        None if type_ < 0 else types["name"][type_] for type_ in device.kernel.tolist()
    ]
    assert kernels == ["k", "l", None, "k", "loop"]
    assert device.dur_ps.tolist() == [each * US for each in (7, 5, 3, 2, 4)]
    assert device.execution.tolist() == [0, -1, -1, 3, -1]
    assert device.execution_count == 6
    flops = [device.flops_of_op[op] for op in device.op.tolist()]
    assert flops == [-1, -1, -1, -1, 4]
    without = work_of(lines, hlo_ops=GONE).device
    assert without is not None
    assert set(without.flops_of_op.tolist()) == {-1}


def test_without_launches_activities_have_no_node() -> None:
    work = work_of(LINES, launches=GONE)
    assert work.device is not None
    assert work.device.execution.tolist() == [-1] * 4
    found = spelled(work)
    assert all(activities == [""] * 4 for _, activities, _ in found.values())
    assert found["graph"][0] == ["a", "a > b", "b", "a", "b", "b"]


def test_each_side_may_be_missing() -> None:
    whole = work_of(LINES)
    for side in SIDES:
        assert whole.shows_side(side, None)
        assert whole.shows_side(side, [0])
    assert whole.runs_and_steps("host") == (whole.host, whole.windows)
    assert whole.runs_and_steps("device") == (whole.device_ops, whole.activity_steps)
    alone = work_of(LINES[:-4])
    assert alone.device is None
    assert isinstance(alone.device_ops, Unavailable)
    assert [alone.shows_side(side, None) for side in SIDES] == [True, False]
    assert spelled(alone)["scope"][1] == []
    device = work_of([line for line in LINES[-4:] if line[0] != "main"])
    assert [device.shows_side(side, None) for side in SIDES] == [False, True]
    # Without steps, nothing is known of some steps.
    assert [device.shows_side(side, [0]) for side in SIDES] == [False, False]
    assert device.reads is None
    assert spelled(device)["graph"] == ([], [""] * 4, [])
    no_steps = work_of([line for line in LINES if line[1] != "train"])
    assert isinstance(no_steps.windows, Unavailable) or no_steps.shows_side("host", [0])


def test_variables_of_equal_size_are_told_apart_by_layer() -> None:
    work = work_of(
        [
            ("main", "nn.Module: Net_0", 0, 100),
            ("main", "aten::linear", 10, 10, LINEAR),
            ("main", "aten::linear", 30, 10, LINEAR),
            ("main", "aten::relu", 50, 10),
            ("main", "nn.Module: Linear_1", 60, 30),
            ("main", "aten::linear", 70, 10, LINEAR),
            # Of no layer.
            ("main", "aten::linear", 120, 10, LINEAR),
        ]
    )
    assert work.reads is not None
    units = work.reads.unit.tolist()
    assert units[0] == units[1] != units[3]
    assert sorted({units[0], units[3]}) == [0, 1]
    assert (units[2], units[4]) == (-1, -1)
    assert work.reads.elements.tolist() == [16, 16]
    outside = [("main", "aten::linear", 120, 10, LINEAR)]
    assert work_of(outside).reads is None
    relu = [("main", "nn.Module: Net_0", 0, 100), ("main", "aten::relu", 50, 10)]
    assert work_of(relu).reads is None


SUMS = ("name", "occurrences", "host_ps", "device_ps", "allocated_bytes")


def charged(work: ModelWork, steps: Sequence[int] | None) -> dict[str, tuple[Any, ...]]:
    """Sums by op in µs and bytes; the same in every view, whatever its nodes."""
    by_view = []
    for placed in charges_in_steps(work, steps).values():
        totals = placed.rows.group_by("name").agg(
            pl.col("occurrences").sum(),
            *(
                pl.when(pl.col(name).is_not_null().any())
                .then(pl.col(name).sum())
                .alias(name)
                for name in SUMS[2:]
            ),
        )
        by_view.append(
            {
                row["name"]: (
                    *(None if row[s] is None else row[s] // US for s in SUMS[2:4]),
                    row["allocated_bytes"],
                )
                for row in totals.to_dicts()
                if row["name"] in {"a", "b"}
            }
        )
    assert all(each == by_view[0] for each in by_view)
    return by_view[0]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (None, {"a": (50, 14, 64), "b": (50, None, 24)}),
        ([0], {"a": (30, 12, 64), "b": (20, None, None)}),
        # What begins with the step is in it; what begins with the next one is not.
        ([1], {"a": (20, 2, None), "b": (20, None, 24)}),
        ([0, 2], {"a": (30, 12, 64), "b": (30, None, None)}),
        ([], {}),
    ],
)
def test_charges_are_those_of_what_begins_in_the_steps(
    steps: list[int] | None, expected: dict[str, tuple[Any, ...]]
) -> None:
    assert charged(work_of(LINES), steps) == expected


def test_without_steps_only_the_whole_is_charged() -> None:
    lines = [line for line in LINES if line[1] != "train"]
    device_only = [line for line in lines if line[0] != "main"]
    work = work_of(device_only)
    assert charged(work, None) == {"a": (None, 14, None)}
    assert charged(work, [0]) == {}


def test_charges_of_the_whole_are_those_of_all_steps_and_the_rest() -> None:
    trace = blueprint.trace(LINES)
    placed = blueprint.profile(trace).derived("vm", model_charges)
    work = work_of(LINES)
    for view, group in work.groupings.items():
        assert placed[view].rows.equals(charges_in_steps(work, None)[view].rows)
        assert (placed[view].places is None) == (group.places is None)
        assert placed[view].texts == group.texts


def test_described_variables_stand_for_those_that_were_read() -> None:
    described = pl.DataFrame(
        [
            {"name": "net.w", "scope": "net", "shape": [2, 8], "trainable": True},
            {"name": "net.mean", "scope": "net", "shape": [3], "trainable": False},
        ],
        schema=PARAMETERS.dtypes(),
    )
    lines = [
        ("main", "nn.Module: Net_0", 0, 100),
        ("main", "aten::linear", 10, 10, LINEAR),
    ]
    read = work_of(lines)
    for placed in charges_in_steps(read, None).values():
        assert placed.rows.select("name", "parameters").rows() == [("aten::linear", 16)]
    work = work_of(lines, parameters=described)
    for only, more in ((False, [("net/w", 16), ("net/mean", 3)]), (True, [])):
        found = charges_in_steps(work, None, trainable_only=only)
        variables = more or [("net/w", 16)]
        for view, of_op in (("scope", None), ("graph", 16), ("op", None), ("code", 16)):
            rows = found[view].rows.select("name", "parameters").rows()
            first = [("aten::linear", of_op)]
            assert rows == (first + variables if of_op is None else first)
