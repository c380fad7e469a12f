"""Measured launches find their kernels by name, shape and order; never by time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest
from tests.support.traces import blueprint
from tests.support.traces.measured import kernel_metrics

from stepscope.derive.device.kernels import kernels
from stepscope.derive.device.measured_kernels import MeasuredKernels, measured_kernels
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData

GPU = "gpu:0/7(Compute)"
DETAILS = "regs:32 static_shared:0 dynamic_shared:0 grid:{} block:{}"


def launch(
    at: float, name: str, op: str, *, grid: str = "8,1,1", block: str = "64,1,1"
) -> blueprint.Line:
    stats = {"tf_op": op, "kernel_details": DETAILS.format(grid, block)}
    return (GPU, name, at, 1, stats)


def profile(
    recorded: list[blueprint.Line], measured: list[dict[str, object]]
) -> ProfileData:
    trace = blueprint.trace(recorded)
    return blueprint.profile(
        trace.with_tables({"kernel_metrics": kernel_metrics(*measured)})
    )


def joined(
    recorded: list[blueprint.Line], measured: list[dict[str, object]]
) -> tuple[dict[str, dict[str, object]], MeasuredKernels]:
    """By op what was found, and the whole answer."""
    asked = profile(recorded, measured)
    found = asked.derived("vm", measured_kernels)
    table = asked.derived("vm", kernels)
    assert not isinstance(found, Unavailable)
    assert not isinstance(table, Unavailable)
    rows = found.rows.join(table.rows.select("class", "op_name"), on="class")
    return {row["op_name"]: row for row in rows.iter_rows(named=True)}, found


def test_one_op_gets_the_mean_of_all_launches_of_its_kernel() -> None:
    by_op, found = joined(
        [
            launch(0, "gemm", "a:A"),
            launch(10, "gemm", "a:A"),
            launch(20, "other", "b:B"),
        ],
        [
            {"kernel_name": "gemm", "compute_percent": 40.0},
            {"kernel_name": "gemm", "compute_percent": 60.0, "dram_bytes": 7.0},
        ],
    )
    assert list(by_op) == ["a"]
    row = by_op["a"]
    assert (row["compute_percent"], row["dram_bytes"]) == (50.0, 7.0)
    assert (row["pairing"], row["launches"]) == ("one_op", 2)
    assert row["confidence"] == pytest.approx(0.95)
    assert row["l2_bytes"] is None
    assert found.unmatched.is_empty()


def test_as_many_launches_as_recorded_are_paired_in_order() -> None:
    """Times do not count: the second op is the slow one in one run only."""
    by_op, _ = joined(
        [launch(at, "gemm", op) for at, op in ((0, "a:A"), (10, "b:B"), (20, "b:B"))],
        [
            {"kernel_name": "gemm", "compute_percent": percent, "duration_ps": ps}
            for percent, ps in ((10.0, 9), (20.0, 1), (40.0, 1))
        ],
    )
    assert {op: row["compute_percent"] for op, row in by_op.items()} == {
        "a": 10.0,
        "b": 30.0,
    }
    assert {row["pairing"] for row in by_op.values()} == {"order"}
    assert by_op["a"]["confidence"] == pytest.approx(0.95 * 0.9)


def test_one_measured_step_is_every_recorded_step() -> None:
    steps = [
        launch(100 * step + at, "gemm", op)
        for step in range(4)
        for at, op in ((0, "a:A"), (10, "b:B"), (20, "a:A"))
    ]
    by_op, _ = joined(
        steps,
        [{"kernel_name": "gemm", "compute_percent": it} for it in (10.0, 50.0, 30.0)],
    )
    assert {op: row["compute_percent"] for op, row in by_op.items()} == {
        "a": 20.0,
        "b": 50.0,
    }
    assert by_op["b"]["pairing"] == "cycle"


def test_launches_that_do_not_repeat_so_are_shared_and_doubted() -> None:
    steps = [
        launch(at, "gemm", op) for at, op in ((0, "a:A"), (10, "b:B"), (20, "b:B"))
    ]
    by_op, _ = joined(
        steps, [{"kernel_name": "gemm", "compute_percent": it} for it in (10.0, 50.0)]
    )
    assert {op: row["compute_percent"] for op, row in by_op.items()} == {
        "a": 30.0,
        "b": 30.0,
    }
    assert by_op["a"]["pairing"] == "shared"
    assert by_op["a"]["confidence"] == pytest.approx(0.95 * 0.5)


def test_another_shape_or_name_is_another_kernel() -> None:
    by_op, found = joined(
        [launch(0, "gemm", "a:A")],
        [
            {"kernel_name": "gemm", "grid_x": 9},
            {"kernel_name": "gemm", "block_y": 2},
            {"kernel_name": "gemm2"},
        ],
    )
    assert by_op == {}
    assert found.unmatched.height == 3


def test_a_shape_decides_between_ops() -> None:
    by_op, _ = joined(
        [launch(0, "gemm", "a:A"), launch(9, "gemm", "b:B", grid="16,1,1")],
        [
            {"kernel_name": "gemm", "compute_percent": 10.0},
            {"kernel_name": "gemm", "grid_x": 16, "compute_percent": 90.0},
        ],
    )
    assert {op: row["compute_percent"] for op, row in by_op.items()} == {
        "a": 10.0,
        "b": 90.0,
    }


def test_a_name_without_its_types_is_found_and_doubted() -> None:
    by_op, _ = joined(
        [launch(0, "void at::k<4, float>(Op)", "a:A")],
        [{"kernel_name": "k", "compute_percent": 10.0}],
    )
    assert by_op["a"]["confidence"] == pytest.approx(0.95 * 0.8)
    by_op, _ = joined(
        [launch(0, "void k<4>(Op)", "a:A"), launch(9, "void k<8>(Op)", "a:A")],
        [{"kernel_name": "k", "compute_percent": 10.0}],
    )
    assert by_op["a"]["confidence"] == pytest.approx(0.95 * 0.6)


def test_a_recording_without_shapes_is_joined_by_name_and_doubted() -> None:
    by_op, _ = joined(
        [(GPU, "gemm", 0, 5, {"tf_op": "a:A"})], [{"kernel_name": "gemm"}]
    )
    assert by_op["a"]["confidence"] == pytest.approx(0.95 * 0.7)


def test_without_a_table_the_reason_says_how_to_measure() -> None:
    asked = blueprint.profile(blueprint.trace([launch(0, "gemm", "a:A")]))
    absent = asked.derived("vm", measured_kernels)
    assert isinstance(absent, Unavailable)
    assert "--kernels" in absent.remedy


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            {"global_load_sectors": 64.0, "global_load_requests": 16.0},
            {"load_sectors_per_request": 4.0, "store_sectors_per_request": None},
        ),
        ({"load_sectors_per_request": 31.5}, {"load_sectors_per_request": 31.5}),
        (
            {"shared_memory_conflicts": 30.0, "shared_memory_wavefronts": 40.0},
            {"bank_conflict_percent": 75.0},
        ),
        ({"shared_memory_conflicts": 0.0}, {"bank_conflict_percent": 0.0}),
        ({"shared_memory_conflicts": 5.0}, {"bank_conflict_percent": None}),
        ({"compute_percent": 80.0, "memory_percent": 40.0}, {"bound": "compute"}),
        ({"compute_percent": 59.0, "memory_percent": 60.0}, {"bound": "memory"}),
        ({"compute_percent": 59.0, "memory_percent": 12.0}, {"bound": "latency"}),
        ({"compute_percent": 97.0}, {"bound": None}),
        (
            {
                "theoretical_occupancy_percent": 25.0,
                "block_limit_registers": 2,
                "block_limit_shared_memory": 5,
                "block_limit_warps": 8,
                "block_limit_blocks": 32,
            },
            {"occupancy_limiter": "registers"},
        ),
        ({"block_limit_registers": 2}, {"occupancy_limiter": None}),
    ],
)
def test_what_follows_from_measures(
    given: dict[str, object], expected: dict[str, object]
) -> None:
    by_op, _ = joined([launch(0, "gemm", "a:A")], [{"kernel_name": "gemm", **given}])
    assert {name: by_op["a"][name] for name in expected} == expected


def test_every_launch_is_joined_or_unmatched() -> None:
    steps = [launch(at, f"k{at % 3}", f"o{at % 5}:O") for at in range(60)]
    measured = [{"kernel_name": f"k{at % 4}"} for at in range(40)]
    _, found = joined(steps, measured)
    assert found.members.height + found.unmatched.height == 40
    assert found.members["row"].n_unique() == found.members.height
    assert found.rows["class"].n_unique() == found.rows.height
    assert isinstance(found.rows, pl.DataFrame)
