"""What dominates the device time of an op: transfer, utilisation or compute."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.support.traces import blueprint
from tests.support.traces.ops import (
    COPIES,
    FULL,
    GPU,
    LOW,
    SMALL,
    call,
    copy,
    detail,
    kernel,
    of,
    parts,
)

from stepscope.analysis.framework_op_stats.cause import LIMITS, Cause

if TYPE_CHECKING:
    from pathlib import Path


def test_an_op_that_mostly_copies_is_dominated_by_transfer() -> None:
    result = of(
        *call(10, 30, 1), copy(30, 100, 1), kernel(150, 20, 2), *call(140, 9, 2)
    )
    cause = result.cause
    # 10 to 30 and 140 to 150: the device idle after the call began.
    assert parts(result) == {"transfer_us": 100, "waiting_us": 30, "compute_us": 20}
    assert (cause.total_us, cause.dominant) == (150, "transfer")
    assert cause.transfer_percent == pytest.approx(100 * 100 / 150)
    (row,) = result.copies.to_dicts()  # type: ignore[union-attr]
    assert (row["kind"], row["occurrences"], row["total_us"]) == ("h2d", 1, 100)
    assert (row["bytes"], row["gib_per_s"]) == (100, pytest.approx(1e6 / 2**30))


def test_an_op_that_the_device_waits_for_is_dominated_by_utilisation() -> None:
    result = of(*call(0, 200, 1), kernel(100, 50, 1))
    assert parts(result) == {"waiting_us": 100, "compute_us": 50}
    assert result.cause.dominant == "utilisation"
    assert result.cause.utilisation_percent == pytest.approx(100 * 100 / 150)


def test_time_in_which_the_device_works_for_others_is_no_wait() -> None:
    other = kernel(0, 90, 9, op="b:B")
    result = of(*call(0, 20, 1), other, kernel(100, 50, 1))
    assert parts(result) == {"waiting_us": 10, "compute_us": 50}
    assert result.cause.dominant == "compute"


@pytest.mark.parametrize(("launched", "known"), [(18, False), (19, True), (20, True)])
def test_waiting_is_known_where_19_of_20_calls_have_a_start(
    launched: int, *, known: bool
) -> None:
    lines = [
        line
        for number in range(launched)
        for line in (*call(100 * number, 20, number), kernel(100 * number, 50, number))
    ]
    # What was launched before the recording began has no call.
    lines += [kernel(100 * number, 50, 1000 + number) for number in range(launched, 20)]
    cause = of(*lines).cause
    assert cause.waiting_us == (0 if known else None)
    assert cause.total_us == (20 * 50 if known else None)


def test_unknown_kernels_leave_a_mixture_where_no_part_can_exceed_half() -> None:
    lines = [*call(0, 5, 1), *call(50, 5, 2), *call(100, 5, 3)]
    result = of(
        *lines,
        kernel(10, 40, 1),
        copy(50, 40, 2),
        kernel(100, 10, 3, details=None),
    )
    assert parts(result) == {
        "waiting_us": 10,
        "compute_us": 40,
        "transfer_us": 40,
        "unknown_us": 10,
    }
    # With the unknown 10 of 100 neither compute nor utilisation has more than half.
    assert result.cause.dominant == "mixed"


def test_what_is_untested_on_one_device_is_not_tested_by_another() -> None:
    untested = "grid:216,1,1 block:64,1,1"
    second = kernel(10, 50, 2)
    trace = blueprint.trace(
        [
            *(*call(0, 5, 1), *call(5, 5, 2)),
            kernel(10, 50, 1, details=untested),
            ("gpu:1/7(Compute)", *second[1:]),
        ],
        devices={0: blueprint.A100, 1: blueprint.A100},
    )
    cause = detail(blueprint.profile(trace), op="a").cause
    assert (cause.compute_us, cause.untested_us) == (100, 50)


def test_too_few_blocks_and_low_occupancy_are_utilisation() -> None:
    lines = [*call(0, 5, 1), *call(5, 5, 2), *call(10, 5, 3)]
    result = of(
        *lines,
        kernel(1, 50, 1, details=SMALL),
        kernel(51, 30, 2, details=LOW),
        kernel(81, 40, 3, details=FULL),
    )
    expected = {"small_grid_us": 50, "low_occupancy_us": 30, "compute_us": 40}
    assert parts(result) == {"waiting_us": 1, **expected}
    assert result.cause.dominant == "utilisation"
    kernels = result.kernels
    assert kernels is not None
    shown = ("fill", "blocks", "multiprocessors", "occupancy_percent")
    assert kernels.select(*shown, "occupancy_limiter").rows() == [
        ("small_grid", 107, 108, 100.0, "registers"),
        ("full", 216, 108, 100.0, "registers"),
        ("low_occupancy", 216, 108, 3.125, "shared_memory"),
    ]


def test_matrix_products_of_low_occupancy_fill_the_device() -> None:
    product = kernel(1, 50, 1, op="a:MatMul", details=LOW)
    result = of(*call(0, 5, 1, op="a:MatMul"), product)
    assert parts(result) == {"waiting_us": 1, "compute_us": 50}


def test_equal_shares_are_mixed() -> None:
    lines = [*call(0, 5, 1), *call(5, 5, 2)]
    result = of(*lines, kernel(0, 50, 1), copy(50, 50, 2))
    assert (result.cause.dominant, result.cause.total_us) == ("mixed", 100)
    assert LIMITS["dominates_percent"].value == 50


def test_overlapping_work_counts_once_and_for_the_kernel() -> None:
    lines = [*call(0, 5, 1), *call(5, 5, 2)]
    result = of(*lines, kernel(0, 50, 1), copy(10, 60, 2))
    assert parts(result) == {"transfer_us": 20, "compute_us": 50}


def test_kernels_without_launch_details_leave_the_cause_open() -> None:
    result = of(*call(0, 5, 1), kernel(0, 50, 1, details=None))
    cause = result.cause
    assert (cause.unknown_us, cause.compute_us, cause.total_us) == (50, None, 50)
    assert cause.dominant is None
    assert (cause.compute_percent, cause.utilisation_percent) == (None, None)
    assert cause.transfer_percent == 0
    codes = {one.field: one.code for one in result.missing}
    assert codes["cause.dominant"] == "NO_KERNEL_DETAILS"
    assert codes["kernels.registers"] == "NO_KERNEL_DETAILS"


def test_an_open_part_that_cannot_change_the_verdict_does_not_prevent_it() -> None:
    lines = [*call(0, 5, 1), *call(5, 5, 2)]
    result = of(*lines, kernel(0, 10, 1, details=None), copy(10, 90, 2))
    assert result.cause.dominant == "transfer"


def test_an_occupancy_that_is_unknown_is_told_beside_the_verdict() -> None:
    details = "grid:216,1,1 block:64,1,1"
    result = of(*call(0, 5, 1), kernel(0, 50, 1, details=details))
    cause = result.cause
    assert (cause.dominant, cause.compute_us, cause.untested_us) == ("compute", 50, 50)


@pytest.mark.parametrize(
    ("grid", "expected"), [(107, "small_grid"), (5000, "unknown"), (27648, "full")]
)
def test_a_grid_of_amd_may_count_threads(grid: int, expected: str) -> None:
    # 5,000 are blocks enough, or 20 blocks of 256 threads; 27,648 are 108 of them.
    details = f"grid:{grid},1,1 block:256,1,1"
    trace = blueprint.trace(
        [*call(0, 5, 1), kernel(0, 50, 1, details=details)],
        devices={0: {**blueprint.A100, "device_vendor": "AMD"}},
    )
    kernels = detail(blueprint.profile(trace), op="a").kernels
    assert kernels is not None
    assert kernels["fill"].to_list() == [expected]


def test_collectives_are_transfer_and_memsets_are() -> None:
    reduce = (
        GPU,
        "ncclDevKernel_AllReduce",
        0,
        60,
        {"correlation_id": 1, "tf_op": "a:A"},
    )
    result = of(
        *call(0, 5, 1),
        *call(5, 5, 2),
        reduce,
        (GPU, "Memset", 60, 20, {"correlation_id": 2, "tf_op": "a:A"}),
    )
    assert parts(result) == {"transfer_us": 80}
    kernels, copies = result.kernels, result.copies
    assert kernels is not None
    assert copies is not None
    assert kernels.select("kind", "fill").rows() == [("collective", None)]
    assert copies["kind"].to_list() == ["memset"]
    assert not [one for one in result.missing if one.field == "kernels.fill"]


def test_an_op_of_the_host_beside_a_device_has_no_cause_and_says_why() -> None:
    result = of(
        ("main", "a:A", 0, 9), *call(20, 5, 1, op="b:B"), kernel(30, 9, 1, op="b:B")
    )
    assert result.cause.dominant is None
    assert {one.field: one.code for one in result.missing}["cause"] == "NO_SAMPLES"
    assert result.calls["device_us"].to_list() == [0]


def brute_force(lines: list[blueprint.Line], chosen: str) -> dict[str, int]:
    """The parts of the cause by counting microseconds one by one."""
    begins = {
        stats[0]["correlation_id"]: start
        for _, name, start, _, *stats in lines
        if name == "cuLaunchKernel"
    }
    found = dict.fromkeys(
        ("compute_us", "small_grid_us", "transfer_us", "waiting_us"), 0
    )
    busy: set[int] = set()
    mine: dict[str, set[int]] = {name: set() for name in found}
    for track, _, start, dur, *stats in lines:
        if not track.startswith("gpu"):
            continue
        span = set(range(start, start + dur))
        busy |= span
        if stats[0]["tf_op"] != chosen:
            continue
        details = stats[0].get("kernel_details")
        kind = {FULL: "compute_us", SMALL: "small_grid_us"}.get(details, "transfer_us")
        mine[kind] |= span
        # The call begins a microsecond before its launch.
        begin = begins[stats[0]["correlation_id"]] - 1
        mine["waiting_us"] |= set(range(begin, start + dur))
    taken: set[int] = set()
    for name in ("compute_us", "small_grid_us", "transfer_us"):
        found[name] = len(mine[name] - taken)
        taken |= mine[name]
    found["waiting_us"] = len(mine["waiting_us"] - busy)
    return found


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.sweep(every=5)
def test_the_parts_are_those_of_counting_microseconds(seed: int) -> None:
    random = np.random.default_rng(seed)
    lines: list[blueprint.Line] = []
    at = {GPU: 0, COPIES: 0}
    for number in range(12):
        op = "a:A" if random.random() < 0.6 else "b:B"
        start = 30 * number
        lines += call(start, 20, number, op=op)
        track = COPIES if random.random() < 0.4 else GPU
        begin = max(at[track], start + 3) + int(random.integers(0, 20))
        dur = int(random.integers(1, 40))
        at[track] = begin + dur
        if track == GPU:
            details = FULL if random.random() < 0.5 else SMALL
            lines.append(kernel(begin, dur, number, op=op, details=details))
        else:
            done = copy(begin, dur, number)
            done[4]["tf_op"] = op
            lines.append(done)
    expected = brute_force(lines, "a:A")
    result = of(*lines)
    assert {name: getattr(result.cause, name) for name in expected} == expected
    assert result.cause.total_us == sum(expected.values())


def test_the_page_of_the_tool_defines_every_part(repository: Path) -> None:
    page = (repository / "docs/tools/framework_op_stats.md").read_text(encoding="utf-8")
    fields = Cause.__struct_fields__
    shares = {name for name in fields if name.endswith("_percent")}
    assert {name for name in set(fields) - shares if f"`{name}`" not in page} == set()
    assert all(limit.reason.endswith(".") for limit in LIMITS.values())
    for name in ("dominates_percent", "low_occupancy_percent", "known_starts_percent"):
        words = {"dominates_percent": "more than half"}
        assert words.get(name, f"{LIMITS[name].value:.0f} %") in page, name
