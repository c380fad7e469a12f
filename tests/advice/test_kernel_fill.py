"""`kernel.fill`: sixteen blocks on 108 multiprocessors, many, and just as many."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.traces import replayed as by_hand
from tests.support.traces.training import (
    DETAILS,
    SGEMM,
    findings,
    on_host,
    paced,
    together,
)

from stepscope.advice.rules.launches.device_fill import judge_kernel_fill as evaluate
from stepscope.derive.facts.devices.device_fill import (
    DeviceFill,
    Unfilled,
    fill_signals,
)

RULE = "kernel.fill"
MS = 1_000_000_000


def with_grid(
    blocks: int, *, only: str = "fused_half_kernel", of: list[Any] | None = None
) -> list[Any]:
    """B1s, or another program, whose fused kernels have so many blocks."""
    details = DETAILS.replace("grid:864", f"grid:{blocks}")
    return [
        (*line[:4], line[4] | {"kernel_details": details})
        if line[1] == only and len(line) > 4
        else line
        for line in (together() if of is None else of)
    ]


def test_kernels_of_few_blocks_are_found() -> None:
    found = findings(with_grid(16))[RULE]
    assert (found.status, found.severity) == ("fail", "critical")
    # 80 × 30 + 50 × 26 µs of 10 ms.
    assert found.value == pytest.approx(37.0, abs=0.5)
    assert (found.parts[0].name, found.parts[0].detail) == (
        "model/add/AddV2",
        "16 blocks",
    )
    assert found.saving_ms is not None
    assert found.saving_ms.high == pytest.approx(3.7 * (1 - 16 / 108), abs=0.05)
    assert found.saving_ms.low == pytest.approx(found.saving_ms.high / 2, abs=0.05)


def test_a_device_that_waits_for_launches_gains_nothing_by_fuller_kernels() -> None:
    """400 kernels of 15 µs, one every 20 µs: the host sets the pace.

    The first of 14 steps holds 225 of them, as its marks lie; the last one 401, as it
    ends with the last kernel that was launched within the usual pause after its marks.
    """
    lines = with_grid(16, of=paced(early_us=10.0))
    found = findings(lines)[RULE]
    assert (found.status, found.saving_ms.basis) == ("fail", "replay")
    assert found.ms_per_step == pytest.approx((12 * 6.0 + 3.375 + 6.015) / 14)
    assert found.saving_ms.high < 0.1


def test_a_device_that_is_never_idle_gains_what_its_kernels_do() -> None:
    """998 of 1000 µs are kernels of which each leaves half of the device empty."""
    details = {"kernel_details": DETAILS.replace("grid:864", "grid:54")}
    lines = [
        (*line[:4], line[4] | details) if line[0].startswith("gpu:") else line
        for line in by_hand.device_bound()
    ]
    saving = findings(lines)[RULE].saving_ms
    assert saving.basis == "replay"
    assert (saving.low, saving.high) == pytest.approx((0.998 / 4, 0.998 / 2))


def test_how_much_more_work_would_do_is_told() -> None:
    facts = {one.name: one.value for one in findings(with_grid(16))[RULE].facts}
    # 108 multiprocessors; at half occupancy 8 blocks of 128 threads on each of them.
    assert facts["for_one_each"] == pytest.approx(108 / 16, abs=0.06)
    assert facts["for_three_rounds"] == pytest.approx(3 * 864 / 16, abs=0.06)


@pytest.mark.parametrize(
    ("blocks", "note", "empty"),
    [
        # 864 run at once: 1.25, 2.25, 1.75 and 3.25 rounds.
        (1080, "rounds", 1 - 1.25 / 2),
        (1944, "rounds", 1 - 2.25 / 3),
        (1512, None, 0.0),
        (2808, None, 0.0),
    ],
)
def test_a_last_round_that_is_mostly_empty_is_told(
    blocks: int, note: str | None, empty: float
) -> None:
    found = findings(with_grid(blocks))[RULE]
    facts = {one.name: one.value for one in found.facts}
    assert (found.status, found.note) == ("pass", note)
    assert facts["last_round_idle"] == pytest.approx(37.0 * empty, abs=0.3)


def test_without_a_known_device_rounds_are_not_known() -> None:
    other = {"device_vendor": "Nvidia", "core_count": 108}
    found = findings(with_grid(1080), devices={0: other})[RULE]
    facts = {one.name: one.value for one in found.facts}
    assert (found.status, found.note) == ("pass", None)
    assert facts["last_round"] is None


@pytest.mark.parametrize("blocks", [864, 108, 100])
def test_as_many_blocks_as_multiprocessors_or_nearly_pass(blocks: int) -> None:
    found = findings(with_grid(blocks))[RULE]
    assert (found.status, found.value) == ("pass", 0.0)


@pytest.mark.parametrize("table", ["device_activity", "geometries", "devices"])
@pytest.mark.sweep(every=3)
def test_a_table_that_is_needed_and_absent_never_becomes_a_pass(table: str) -> None:
    found = findings(with_grid(16), without=table)[RULE]
    assert found.status == "cannot_tell"
    assert found.unavailable is not None


def test_a_device_of_unknown_size_cannot_tell() -> None:
    unknown: dict[int, dict[str, str | int]] = {0: {"device_vendor": "Nvidia"}}
    found = findings(with_grid(16), devices=unknown)[RULE]
    assert found.status == "cannot_tell"


def test_kernels_without_a_grid_cannot_tell() -> None:
    lines = [
        (*line[:4], {k: v for k, v in line[4].items() if k != "kernel_details"})
        if line[0].startswith("gpu")
        and line[1] != SGEMM
        and line[1] == "fused_half_kernel"
        else line
        for line in together()
    ]
    lines = [
        line for line in lines if not (line[0].startswith("gpu") and "gemm" in line[1])
    ]
    assert findings(lines)[RULE].status == "cannot_tell"


def test_a_run_on_the_host_alone_is_not_applicable() -> None:
    assert findings(on_host(), devices=None)[RULE].status == "not_applicable"


@pytest.mark.parametrize(
    ("unfilled", "status", "severity"),
    [(0.101, "fail", "warn"), (0.099, "pass", "info"), (0.31, "fail", "critical")],
)
def test_a_tenth_and_three_tenths_of_the_time_are_the_limits(
    signals_of: Any, shares: Any, unfilled: float, status: str, severity: str
) -> None:
    fill = DeviceFill(
        cores=100,
        kernel_ps=100 * MS,
        unshaped_ps=0,
        unfilled_ps=round(100 * MS * unfilled),
        idle_ps=round(90 * MS * unfilled),
        steps=10,
        largest=(Unfilled("op", 10, 1, 1),),
    )
    signals = signals_of(shares(), {fill_signals: {"vm:0": fill}})
    finding = evaluate(signals)
    assert (finding.status, finding.severity) == (status, severity)
