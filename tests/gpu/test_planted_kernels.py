"""Kernels with one planted fault each, and the same work without it, on an H100.

`planted_kernels.cu` says what each does; PyTorch's profiler timed them, and Nsight
Compute counted (`gpu_tiers.py`). What theory says of the faults is the truth here, and
what each twin takes is what mending the fault gains.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import stepscope as ss
from stepscope.advice.engine import evaluate, signals_of
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding

FOLDER = Path(__file__).resolve().parents[1] / "data" / "gpu" / "planted_kernels"
#: The check that must name an op → the op, and who does its work without the fault.
FAULTS = {
    "kernel.coalescing": ("thread_per_row", "warp_per_row"),
    "kernel.conflicts": ("conflicts", "padded"),
    "kernel.spills": ("spills", "registers"),
    "kernel.occupancy": ("few_warps", "many_warps"),
    "kernel.fill": ("few_blocks", "memory_bound"),
}


@cache
def findings() -> dict[str, Finding]:
    profile = ss.open(FOLDER, kernels=FOLDER / "kernels.csv.gz")
    return {one.id: one for one in evaluate(signals_of(profile))}


@cache
def rows() -> dict[str, dict[str, object]]:
    """The row of each op with a planted kernel, by its name."""
    profile = ss.open(FOLDER, kernels=FOLDER / "kernels.csv.gz")
    result = profile.tool("kernel_stats")
    assert not isinstance(result, Unavailable)
    return {
        row["op_name"].removeprefix("planted::"): row
        for row in result.rows.iter_rows(named=True)
    }


@pytest.mark.parametrize("rule", FAULTS)
def test_the_fault_is_named_and_its_twin_is_not(rule: str) -> None:
    faulty, twin = (f"planted::{name}" for name in FAULTS[rule])
    found = findings()[rule]
    assert (found.status, found.calibrated) == ("fail", True)
    assert found.severity in {"warn", "critical"}
    assert found.parts[0].name == faulty
    named = {
        part.name
        for it in findings().values()
        if it.status == "fail" and it.id.startswith("kernel.")
        for part in it.parts
    }
    assert twin not in named


@pytest.mark.parametrize("rule", FAULTS)
def test_what_mending_it_gains_is_at_most_what_is_promised(rule: str) -> None:
    """The twin of `thread_per_row` gains a tenth more than its bytes: more warps run.

    `memory_bound` has 16,384 times the blocks of `few_blocks`.
    """
    faulty, twin = FAULTS[rule]
    saving = findings()[rule].saving_ms
    assert saving is not None
    gained_ms = (rows()[faulty]["avg_us"] - rows()[twin]["avg_us"]) / 1000  # type: ignore[operator]
    assert saving.low <= gained_ms <= 1.1 * saving.high


@pytest.mark.parametrize(
    ("op", "column", "expected", "within"),
    [
        # 32 threads in 32 rows, each in a sector of its own; else four sectors of eight
        # numbers.
        ("thread_per_row", "load_sectors_per_request", 32, 0),
        ("warp_per_row", "load_sectors_per_request", 4, 0),
        # Of 32 passes 31 repeat, beside the two of the load and the store.
        ("conflicts", "bank_conflict_percent", 100 * 31 / 32, 1),
        ("padded", "bank_conflict_percent", 0, 2),
        # Two blocks of four warps in room for 64.
        ("few_warps", "achieved_occupancy_percent", 12.5, 0.5),
        ("many_warps", "achieved_occupancy_percent", 100, 6),
        ("registers", "local_memory_bytes", 0, 0),
        # Each of 2**24 numbers is read once from memory.
        ("memory_bound", "dram_bytes", 2 * 4 * 2**24, 0.15 * 2 * 4 * 2**24),
    ],
)
def test_the_counters_are_those_that_theory_tells(
    op: str, column: str, expected: float, within: float
) -> None:
    assert rows()[op][column] == pytest.approx(expected, abs=within)


def test_what_is_bound_by_what() -> None:
    bound = {name: row["bound"] for name, row in rows().items()}
    assert bound["memory_bound"] == bound["warp_per_row"] == "memory"
    assert bound["compute_bound"] == bound["registers"] == "compute"
    assert bound["few_warps"] == bound["few_blocks"] == "latency"


def test_the_cause_of_the_low_occupancy_is_the_shared_memory_that_was_asked_for() -> (
    None
):
    found = findings()["kernel.occupancy"]
    (action,) = (one for one in found.actions if one.cause != "any")
    assert action.cause == "shared_memory"


def test_few_blocks_are_judged_once() -> None:
    named = [
        one.id
        for one in findings().values()
        if one.status == "fail"
        and any(part.name == "planted::few_blocks" for part in one.parts)
    ]
    assert named == ["kernel.fill"]
