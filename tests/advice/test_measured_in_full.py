"""Every number of the rules about measured kernels, over a literal table of kernels."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from tests.advice.kernels import facts_of, judged, kernel, signals, worked

from stepscope.derive.facts.devices.device_fill import fill_signals
from stepscope.derive.facts.devices.kernel_limits import measured_work

#: A kernel that was measured, without any fault.
CLEAN: dict[str, Any] = {
    "compute_percent": 20.0,
    "memory_percent": 50.0,
    "dram_percent": 50.0,
    "bound": "latency",
    "memory_level": "dram",
    "occupancy_limiter": "registers",
    "achieved_occupancy_percent": 50.0,
    "theoretical_occupancy_percent": 50.0,
    "stall_percent": 35.0,
    "bank_conflict_percent": 19.9,
    "registers": 40,
    "l1_bytes": 3_200.0,
    "local_memory_sectors": 0.0,
    "global_load_requests": 10.0,
    "global_load_sectors": 40.0,
    "global_store_requests": 10.0,
    "global_store_sectors": 40.0,
    "load_sectors_per_request": 4.0,
    "store_sectors_per_request": 4.0,
    "load_bytes_per_sector": None,
    "store_bytes_per_sector": None,
    "confidence": 0.8,
}
TYPES = {
    name: pl.Float64
    for name in CLEAN
    if name not in ("bound", "memory_level", "occupancy_limiter", "registers")
}


def found_in(
    signals_of: Any, shares: Any, rule: str, *metrics: dict[str, Any], few: Any = None
) -> Any:
    """Kernels of 4 ms, 3 ms, … of each step of 20 ms, with these metrics."""
    work = worked(*(kernel(4.0 - at) for at in range(len(metrics))))
    table = pl.DataFrame(
        [CLEAN | one for one in metrics],
        schema_overrides={**TYPES, "registers": pl.Int64},
        infer_schema_length=None,
    )
    rows = pl.concat([work.rows, table], how="horizontal")
    extra = {measured_work: rows, fill_signals: few or {}}
    account = shares(step_ms=20.0)
    return judged(rule, signals(signals_of, work, account, extra=extra))


@pytest.mark.parametrize(
    ("rule", "metrics", "saved", "facts"),
    [
        (
            "kernel.bound",
            {"bound": "memory", "memory_percent": 80.0, "compute_percent": 60.0},
            0.25,
            {"memory": 80.0, "compute": 60.0},
        ),
        ("kernel.bound", {"bound": "memory"}, 0.5, {"memory": 50.0, "compute": 20.0}),
        (
            # Of the sectors 3/4 are stores, of which 3/4 is of no use; of loads, 1/2.
            "kernel.coalescing",
            {
                "global_load_sectors": 10.0,
                "global_store_sectors": 30.0,
                "load_bytes_per_sector": 16.0,
                "store_bytes_per_sector": 8.0,
            },
            0.75 * 0.75 + 0.5 * 0.25,
            {"wasted": 68.75, "load_sectors": 4.0, "store_sectors": 4.0},
        ),
        (
            # Numbers of sectors that are unknown count as equal.
            "kernel.coalescing",
            {
                "global_load_sectors": None,
                "global_store_sectors": None,
                "load_bytes_per_sector": 8.0,
                "store_bytes_per_sector": 24.0,
            },
            0.5,
            {"wasted": 50.0, "load_sectors": 4.0, "store_sectors": 4.0},
        ),
        (
            "kernel.coalescing",
            {
                "global_load_sectors": 3.0,
                "global_store_sectors": None,
                "load_bytes_per_sector": 8.0,
                "store_bytes_per_sector": 32.0,
            },
            0.75 * 3 / 4,
            {"wasted": 56.25, "load_sectors": 4.0, "store_sectors": 4.0},
        ),
        (
            # Of 24 sectors 16 may be of use.
            "kernel.coalescing",
            {"load_sectors_per_request": 24.0, "store_sectors_per_request": 24.0},
            1 / 3,
            {"wasted": 100 / 3, "load_sectors": 24.0, "store_sectors": 24.0},
        ),
        (
            # What was seen to be wasted is enough, whatever else was.
            "kernel.coalescing",
            {"load_bytes_per_sector": 24.0, "store_sectors_per_request": 8.0},
            0.25,
            {"wasted": 25.0, "load_sectors": 4.0, "store_sectors": 8.0},
        ),
        (
            # Nothing is stored.
            "kernel.coalescing",
            {
                "load_bytes_per_sector": 16.0,
                "store_sectors_per_request": None,
                "global_store_requests": 0.0,
                "global_store_sectors": 0.0,
            },
            0.5,
            {"wasted": 50.0, "load_sectors": 4.0},
        ),
        (
            "kernel.conflicts",
            {"bank_conflict_percent": 20.0},
            0.2,
            {"conflicts": 20.0, "stall": 35.0},
        ),
        (
            # Until a unit is 60 % busy, 1/6 is gone; all warps at once save more.
            "kernel.occupancy",
            {"achieved_occupancy_percent": 49.9},
            1 / 6,
            {"occupancy": 49.9, "theoretical_occupancy": 50.0, "stall": 35.0},
        ),
        (
            "kernel.occupancy",
            {"achieved_occupancy_percent": 40.0, "memory_percent": 6.0},
            0.6,
            {"occupancy": 40.0, "theoretical_occupancy": 50.0, "stall": 35.0},
        ),
        (
            "kernel.spills",
            {"local_memory_sectors": 10.0},
            0.1,
            {"local": 10.0, "registers": 40.0},
        ),
        (
            # Without the bytes of the L1 cache, of all sectors: 20 of 100.
            "kernel.spills",
            {"local_memory_sectors": 20.0, "l1_bytes": None},
            0.2,
            {"local": 20.0, "registers": 40.0},
        ),
    ],
)
def test_every_number_of_a_fault(
    signals_of: Any, shares: Any, *, rule: str, metrics: Any, saved: float, facts: Any
) -> None:
    """Of three kernels the second has the fault: 3 of 9 ms."""
    found = found_in(signals_of, shares, rule, {}, metrics, {})
    assert found.status == "fail"
    assert found.value == pytest.approx(100 * 3 / 9)
    assert found.ms_per_step == pytest.approx(3.0)
    assert found.saving_ms.low == 0.0
    assert found.saving_ms.high == pytest.approx(3 * saved)
    assert found.confidence == 0.8
    assert (
        facts.items()
        <= {
            name: pytest.approx(value) for name, value in facts_of(found).items()
        }.items()
    )
    assert facts_of(found)["unmeasured"] == 0.0
    # Two with the fault: the facts are those of the longer one.
    other = {**metrics, "stall_percent": 1.0, "registers": 1, "confidence": 0.3}
    found = found_in(signals_of, shares, rule, metrics, {}, other)
    assert found.value == pytest.approx(100 * (4 + 2) / 9)
    assert found.saving_ms.high == pytest.approx(6 * saved)
    assert (
        facts.items()
        <= {
            name: pytest.approx(value) for name, value in facts_of(found).items()
        }.items()
    )
    assert found.confidence == 0.3


@pytest.mark.parametrize(
    ("rule", "metrics", "status"),
    [
        ("kernel.bound", {"bound": "compute"}, "pass"),
        ("kernel.bound", {"bound": None}, "cannot_tell"),
        ("kernel.coalescing", {"load_bytes_per_sector": 16.1}, "pass"),
        ("kernel.coalescing", {"load_bytes_per_sector": 16.0}, "fail"),
        (
            "kernel.coalescing",
            {"load_bytes_per_sector": 16.0, "bound": "compute"},
            "pass",
        ),
        ("kernel.coalescing", {"load_sectors_per_request": 4.1}, "cannot_tell"),
        ("kernel.coalescing", {"store_sectors_per_request": 23.9}, "cannot_tell"),
        (
            "kernel.coalescing",
            {"store_sectors_per_request": None, "global_store_requests": None},
            "cannot_tell",
        ),
        (
            "kernel.coalescing",
            {"load_sectors_per_request": None, "global_load_requests": 0.0},
            "pass",
        ),
        ("kernel.conflicts", {"bank_conflict_percent": None}, "cannot_tell"),
        ("kernel.occupancy", {"achieved_occupancy_percent": None}, "cannot_tell"),
        ("kernel.occupancy", {"achieved_occupancy_percent": 50.0}, "pass"),
        (
            "kernel.occupancy",
            {"achieved_occupancy_percent": 9.0, "bound": "memory"},
            "pass",
        ),
        (
            "kernel.occupancy",
            {"achieved_occupancy_percent": 9.0, "bound": "compute"},
            "pass",
        ),
        (
            "kernel.occupancy",
            {"achieved_occupancy_percent": 9.0, "bound": None},
            "cannot_tell",
        ),
        ("kernel.spills", {"local_memory_sectors": 9.9}, "pass"),
        ("kernel.spills", {"local_memory_sectors": None}, "cannot_tell"),
        ("kernel.spills", {"l1_bytes": None}, "pass"),
        (
            "kernel.spills",
            {
                "l1_bytes": None,
                "local_memory_sectors": 5.0,
                "global_load_sectors": None,
            },
            "cannot_tell",
        ),
        (
            "kernel.spills",
            {"l1_bytes": 0.0, "local_memory_sectors": 5.0},
            "cannot_tell",
        ),
    ],
)
def test_what_is_no_fault_and_what_nobody_knows(
    signals_of: Any, shares: Any, rule: str, metrics: Any, status: str
) -> None:
    found = found_in(signals_of, shares, rule, metrics)
    assert found.status == status
    if status == "cannot_tell":
        assert "100" in found.unavailable.reason


@pytest.mark.parametrize(
    ("theoretical", "because"),
    [(49.9, ("registers",)), (50.0, ("work",)), (None, ())],
)
def test_occupancy_is_limited_by_resources_or_by_the_work(
    signals_of: Any, shares: Any, theoretical: float | None, because: Any
) -> None:
    low: dict[str, Any] = {"achieved_occupancy_percent": 20.0}
    low["theoretical_occupancy_percent"] = theoretical
    found = found_in(signals_of, shares, "kernel.occupancy", {}, low)
    assert (found.status, found.because) == ("fail", because)


def test_kernels_with_few_blocks_are_judged_by_another_rule(
    signals_of: Any, shares: Any
) -> None:
    class Fill:
        classes = (("a", (7, 1)), ("b", (2,)))

    low = {"achieved_occupancy_percent": 20.0}
    name = "kernel.occupancy"
    for label, value in (("vm:0", 100 * 4 / 9), ("vm:1", 100.0)):
        given = [signals_of, shares, name, low, low, low]
        found = found_in(*given, few={label: Fill})
        assert found.value == pytest.approx(value)
