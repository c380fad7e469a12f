"""Which measured launches a kernel gets, and what follows from their measures."""

from __future__ import annotations

import pytest
from tests.support.traces import blueprint
from tests.support.traces.measured import kernel_metrics

from stepscope.derive.device.kernels import kernels
from stepscope.derive.device.measured_kernels import (
    MeasuredKernels,
    measured_kernels,
    summarise_groups,
)
from stepscope.unavailable import Unavailable

DETAILS = "regs:32 static_shared:0 dynamic_shared:0 grid:8,1,1 block:64,1,1"
TWO_RUNS = 0.95

Measured = dict[str, object]


def launch(
    at: float, name: str, op: str, *, device: int = 0, shaped: bool = True
) -> blueprint.Line:
    stats = {"tf_op": f"{op}:Op"} | ({"kernel_details": DETAILS} if shaped else {})
    return (f"gpu:{device}/7(Compute)", name, at, 1, stats)


def joined(
    recorded: list[blueprint.Line], measured: list[Measured]
) -> tuple[dict[tuple[str, int], tuple[object, ...]], MeasuredKernels]:
    """By op and device: compute percent, pairing, launches and confidence."""
    trace = blueprint.trace(recorded)
    profile = blueprint.profile(
        trace.with_tables({"kernel_metrics": kernel_metrics(*measured)})
    )
    found = profile.derived("vm", measured_kernels)
    table = profile.derived("vm", kernels)
    assert not isinstance(found, Unavailable)
    assert not isinstance(table, Unavailable)
    rows = found.rows.join(table.rows.select("class", "op_name", "device"), on="class")
    return {
        (row["op_name"], row["device"]): (
            *(row["compute_percent"], row["pairing"], row["launches"]),
            pytest.approx(row["confidence"]),
        )
        for row in rows.iter_rows(named=True)
    }, found


def percents(name: str, *values: float) -> list[Measured]:
    return [{"kernel_name": name, "compute_percent": value} for value in values]


FULL = "void at::k<4, float>(Op)"


def test_a_more_exact_name_counts_before_more_launches() -> None:
    by_op, found = joined(
        [launch(0, FULL, "a")],
        [*percents("k", 10, 20, 30), *percents("other::k<4, float>(Op)", 80)],
    )
    assert by_op == {("a", 0): (80, "one_op", 1, TWO_RUNS * 0.95)}
    # Both groups keep their members.
    assert found.members.rows() == [(0, 0), (0, 1), (0, 2), (1, 3)]
    whole, _ = joined([launch(0, FULL, "a")], percents(FULL, 50))
    assert whole == {("a", 0): (50, "one_op", 1, TWO_RUNS)}


def test_launches_of_names_alike_are_one_group() -> None:
    by_op, _ = joined(
        [launch(0, FULL, "a")],
        [*percents("x::k<4, float>(Op)", 10, 20), *percents("y::k<4, float>(Op)", 60)],
    )
    assert by_op == {("a", 0): (30, "one_op", 3, TWO_RUNS * 0.95)}


@pytest.mark.parametrize(
    ("names", "confidence"),
    [
        (["gemm"], 0.7),
        (["void k<4>(Op)"], 0.8 * 0.7),
        (["void k<4>(Op)", "void k<8>(Op)"], 0.6 * 0.7),
    ],
)
def test_names_without_shapes_are_doubted_twice(
    names: list[str], confidence: float
) -> None:
    recorded = [
        launch(9 * at, name, "a", shaped=False) for at, name in enumerate(names)
    ]
    measured = "gemm" if "gemm" in names else "k"
    by_op, _ = joined(recorded, percents(measured, 10))
    assert by_op == {("a", 0): (10, "one_op", 1, TWO_RUNS * confidence)}


def test_a_measured_launch_without_its_shape_is_no_kernel_with_one() -> None:
    unknown: Measured = {"kernel_name": "gemm", "block_y": None}
    by_op, found = joined([launch(0, "gemm", "a")], [*percents("gemm", 5), unknown])
    assert by_op == {("a", 0): (5, "one_op", 1, TWO_RUNS)}
    assert found.unmatched["launch"].to_list() == [1]
    bare, _ = joined([launch(0, "gemm", "a", shaped=False)], [unknown])
    assert bare == {("a", 0): (None, "one_op", 1, TWO_RUNS * 0.7)}


def test_ops_on_several_devices_share_their_launches() -> None:
    recorded = [launch(0, "gemm", "a"), launch(9, "gemm", "b", device=1)]
    by_op, _ = joined(recorded, percents("gemm", 10, 50))
    shared = (30, "shared", 2, TWO_RUNS * 0.5)
    assert by_op == {("a", 0): shared, ("b", 1): shared}
    same = [launch(0, "gemm", "a"), launch(9, "gemm", "a", device=1)]
    by_op, _ = joined(same, percents("gemm", 10, 50))
    one = (30, "one_op", 2, TWO_RUNS)
    assert by_op == {("a", 0): one, ("a", 1): one}


@pytest.mark.parametrize(
    ("ops", "measured", "pairing"),
    [
        ("abab", [10, 20], "cycle"),
        ("abab", [10, 20, 10, 20], "order"),
        ("abababab", [10, 20, 10, 20], "cycle"),
        ("abab", [10, 20, 30], "shared"),
        ("ab", [10, 20, 10, 20], "shared"),
        ("abaab", [10, 20], "shared"),
        ("abcab", [10, 20], "shared"),
        ("aabaab", [10, 10, 20], "cycle"),
    ],
)
def test_launches_are_paired_by_what_repeats(
    ops: str, measured: list[float], pairing: str
) -> None:
    recorded = [launch(10 * at, "gemm", op) for at, op in enumerate(ops)]
    by_op, _ = joined(recorded, percents("gemm", *measured))
    assert {row[1] for row in by_op.values()} == {pairing}
    if pairing == "shared":
        mean = sum(measured) / len(measured)
        assert [row[0] for row in by_op.values()] == pytest.approx([mean] * len(by_op))
    else:
        factor = {"order": 0.9, "cycle": 0.8}[pairing]
        a, b = measured.count(10), measured.count(20)
        assert by_op == {
            ("a", 0): (10, pairing, a, TWO_RUNS * factor),
            ("b", 0): (20, pairing, b, TWO_RUNS * factor),
        }


def test_launches_on_several_streams_are_in_the_order_of_time() -> None:
    recorded = [
        launch(30, "gemm", "a"),
        ("gpu:0/9(Compute)", *launch(10, "gemm", "b")[1:]),
    ]
    by_op, _ = joined(recorded, percents("gemm", 10, 50))
    assert {op: row[0] for op, row in by_op.items()} == {("b", 0): 10, ("a", 0): 50}


LIMITS = ("registers", "shared_memory", "warps", "blocks")


def summary(*rows: Measured) -> Measured:
    table = kernel_metrics(*({"kernel_name": "k", **row} for row in rows))
    grouped = table.with_columns(group=1)
    (row,) = summarise_groups(grouped).rows(named=True)
    return dict(row)


@pytest.mark.parametrize(
    ("blocks", "occupancy", "limiter"),
    [
        ((2, 5, 8, 9), 25.0, "registers"),
        ((5, 2, 8, 9), 99.9, "shared_memory"),
        ((5, 8, 2, 9), None, "warps"),
        ((5, 8, 9, 2), 0.0, "blocks"),
        ((2, 2, 2, 2), 25.0, "registers"),
        ((5, 8, 9, 2), 100.0, None),
        ((5, 8, 9, None), 25.0, None),
    ],
)
def test_the_resource_for_the_fewest_blocks_limits_them(
    blocks: tuple[int | None, ...], occupancy: float | None, limiter: str | None
) -> None:
    limits = {
        f"block_limit_{name}": count for name, count in zip(LIMITS, blocks, strict=True)
    }
    found = summary({**limits, "theoretical_occupancy_percent": occupancy})
    assert found["occupancy_limiter"] == limiter


@pytest.mark.parametrize(
    ("compute", "memory", "bound"),
    [
        (60.0, 59.0, "compute"),
        (60.0, 60.0, "compute"),
        (59.9, 59.9, "latency"),
        (30.0, 60.0, "memory"),
        (None, 90.0, None),
        (90.0, None, None),
    ],
)
def test_what_is_most_busy_bounds_a_kernel(
    compute: float | None, memory: float | None, bound: str | None
) -> None:
    found = summary({"compute_percent": compute, "memory_percent": memory})
    assert found["bound"] == bound


@pytest.mark.parametrize(
    ("conflicts", "wavefronts", "percent"),
    [(50.0, 40.0, 100.0), (10.0, 40.0, 25.0), (5.0, 0.0, None), (0.0, 0.0, 0.0)],
)
def test_conflicts_are_a_share_of_passes(
    conflicts: float, wavefronts: float, percent: float | None
) -> None:
    given: Measured = {
        "shared_memory_conflicts": conflicts,
        "shared_memory_wavefronts": wavefronts,
    }
    assert summary(given)["bank_conflict_percent"] == percent


@pytest.mark.parametrize("what", ["load", "store"])
def test_sectors_per_request_are_counted_before_they_are_given(what: str) -> None:
    given: Measured = {
        f"global_{what}_sectors": 64.0,
        f"{what}_sectors_per_request": 31.5,
    }
    key = f"{what}_sectors_per_request"
    assert summary({**given, f"global_{what}_requests": 16.0})[key] == 4.0
    assert summary({**given, f"global_{what}_requests": 0.0})[key] == 31.5
    assert summary(given)[key] == 31.5


def test_the_stall_of_the_longest_launch_is_that_of_the_group() -> None:
    rows: list[Measured] = [
        {"duration_ps": 5, "stall_reason": "short"},
        {"duration_ps": 9, "stall_reason": "long"},
        {"duration_ps": 99, "stall_reason": None},
        {"duration_ps": 7, "stall_reason": "middle"},
    ]
    found = summary(*rows)
    assert (found["stall_reason"], found["duration_ps"]) == ("long", 30)
