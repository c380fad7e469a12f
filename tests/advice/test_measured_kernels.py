"""Rules about measured kernels: faults, clean twins, near misses, and no verdict.

A step of the base takes 9.7 ms of kernels: 6 ms of products, 3.7 ms of fused ones. What
was measured is given by kernel; what is not given is unknown.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.traces import blueprint
from tests.support.traces.judged import Judged
from tests.support.traces.measured import kernel_metrics
from tests.support.traces.nsight_compute import (
    launch,
    long,
    long_rows,
    read_checked,
    write,
)
from tests.support.traces.training import BF16, KERNELS, together

from stepscope.advice.engine import signals_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from stepscope.advice.finding import Finding
    from stepscope.trace.model import TraceData

FUSED = "fused_half_kernel"
RULES = (
    *("kernel.occupancy", "kernel.coalescing", "kernel.conflicts"),
    *("kernel.spills", "kernel.bound"),
)
SHAPE = {"grid_x": 864, "block_x": 128}
#: A kernel in which nothing is amiss, with every number that a rule asks for.
CLEAN: dict[str, object] = {
    "compute_percent": 85.0,
    "memory_percent": 40.0,
    "achieved_occupancy_percent": 80.0,
    "theoretical_occupancy_percent": 100.0,
    "block_limit_registers": 8,
    "block_limit_shared_memory": 9,
    "block_limit_warps": 8,
    "block_limit_blocks": 32,
    "global_load_requests": 100.0,
    "global_load_sectors": 400.0,
    "global_store_requests": 50.0,
    "global_store_sectors": 200.0,
    "shared_memory_conflicts": 0.0,
    "shared_memory_wavefronts": 1000.0,
    "local_memory_sectors": 0.0,
    "l1_bytes": 32_000.0,
}
#: Rule → what makes the kernel faulty, the share of its time that is promised at most,
#: and what looks much like it and is none.
SLOW = {"compute_percent": 12.0, "memory_percent": 30.0}
FAULTS: dict[str, tuple[dict[str, object], float, dict[str, object]]] = {
    "kernel.occupancy": (
        {
            **SLOW,
            "achieved_occupancy_percent": 20.0,
            "theoretical_occupancy_percent": 25.0,
            "block_limit_registers": 2,
        },
        # Until the memory is 60 % busy, half of the time is gone.
        0.5,
        # A large product runs at a low occupancy on purpose.
        {"achieved_occupancy_percent": 20.0, "theoretical_occupancy_percent": 25.0},
    ),
    "kernel.coalescing": (
        {**SLOW, "global_store_sectors": 1600.0, "global_load_sectors": 400.0},
        # 1600 of 2000 sectors are stores of 32 a request, of which half is of no use.
        0.5 * 1600 / 2000,
        # The same, where computing is what limits the kernel.
        {"global_store_sectors": 1600.0},
    ),
    "kernel.conflicts": (
        {"shared_memory_conflicts": 750.0},
        0.75,
        {"shared_memory_conflicts": 190.0},
    ),
    "kernel.spills": (
        {"local_memory_sectors": 250.0},
        0.25,
        {"local_memory_sectors": 90.0},
    ),
    "kernel.bound": (
        {"compute_percent": 30.0, "memory_percent": 90.0},
        0.5,
        {"compute_percent": 30.0, "memory_percent": 59.0},
    ),
}
each_rule = pytest.mark.parametrize("rule", RULES)


@cache
def recorded(*, ops: int = 1) -> TraceData:
    """The base, its fused kernels launched by one op or by two."""
    kernels = [
        (name, us, op if ops > 1 or name == BF16 else "model/add/AddV2:AddV2")
        for name, us, op in KERNELS
    ]
    return blueprint.trace(together(kernels=kernels), devices={0: blueprint.A100})


def found_with(*measured: dict[str, object], ops: int = 1) -> Mapping[str, Finding]:
    tables = {"kernel_metrics": kernel_metrics(*({**SHAPE, **it} for it in measured))}
    profile = blueprint.profile(recorded(ops=ops).with_tables(tables))
    return Judged(signals_of(profile))


def found_in(fused: dict[str, object]) -> Mapping[str, Finding]:
    """The fused kernels are so, the products are clean."""
    clean = {"kernel_name": BF16, **CLEAN}
    return found_with(clean, {"kernel_name": FUSED, **CLEAN, **fused})


@each_rule
def test_the_fault_is_found_and_its_gain_bounded(rule: str) -> None:
    fault, saved, _ = FAULTS[rule]
    found = found_in(fault)[rule]
    assert found.status == "fail"
    assert found.value == pytest.approx(100 * 3_700 / 9_700, abs=0.1)
    assert found.ms_per_step == pytest.approx(3.7, abs=0.01)
    assert found.saving_ms is not None
    assert found.saving_ms.low == 0.0
    assert found.saving_ms.high == pytest.approx(3.7 * saved, abs=0.01)
    assert found.saving_ms.high < found.ms_per_step
    assert found.parts[0].detail == FUSED
    assert found.confidence == pytest.approx(0.95)
    assert found.actions


@each_rule
def test_the_clean_twin_passes(rule: str) -> None:
    found = found_in({})[rule]
    assert (found.status, found.value) == ("pass", 0.0)


@each_rule
def test_the_near_miss_passes(rule: str) -> None:
    assert found_in(FAULTS[rule][2])[rule].status == "pass"


@each_rule
def test_without_a_table_nobody_can_tell(rule: str) -> None:
    profile = blueprint.profile(recorded())
    found = Judged(signals_of(profile))[rule]
    assert found.status == "cannot_tell"
    assert found.unavailable is not None
    assert "ncu" in found.unavailable.remedy


@each_rule
def test_kernels_that_were_not_measured_may_have_the_fault(rule: str) -> None:
    """Products have 62 % of the time: they could turn a pass, but not a fail."""
    fault, _, _ = FAULTS[rule]
    silent = found_with({"kernel_name": FUSED, **CLEAN})[rule]
    assert silent.status == "cannot_tell"
    heard = found_with({"kernel_name": FUSED, **CLEAN, **fault})[rule]
    assert heard.status == "fail"
    facts = {fact.name: fact.value for fact in heard.facts}
    assert facts["unmeasured"] == pytest.approx(100 * 6_000 / 9_700, abs=0.1)


@each_rule
def test_a_table_without_its_metrics_tells_nothing(rule: str) -> None:
    found = found_with({"kernel_name": BF16}, {"kernel_name": FUSED})[rule]
    assert found.status == "cannot_tell"


@each_rule
def test_a_doubted_match_is_a_doubted_finding(rule: str) -> None:
    """The fused kernel belongs to two ops, and three launches repeat no cycle."""
    clean = {"kernel_name": BF16, **CLEAN}
    faulty = {"kernel_name": FUSED, **CLEAN, **FAULTS[rule][0]}
    found = found_with(clean, faulty, faulty, faulty, ops=2)[rule]
    assert found.status == "fail"
    assert found.confidence == pytest.approx(0.95 * 0.5)


@each_rule
def test_every_order_of_the_table_is_judged_alike(rule: str) -> None:
    clean = {"kernel_name": BF16, **CLEAN}
    faulty = {"kernel_name": FUSED, **CLEAN, **FAULTS[rule][0]}
    assert found_with(faulty, clean)[rule] == found_with(clean, faulty)[rule]


@pytest.mark.parametrize(
    ("limits", "because"),
    [
        ({"block_limit_registers": 2}, "registers"),
        ({"block_limit_shared_memory": 1}, "shared_memory"),
        ({"block_limit_blocks": 1}, "blocks"),
        ({"theoretical_occupancy_percent": 90.0}, "work"),
    ],
)
def test_the_limiter_of_occupancy_is_named(
    limits: dict[str, object], because: str
) -> None:
    fault: dict[str, Any] = {
        **SLOW,
        "achieved_occupancy_percent": 20.0,
        "theoretical_occupancy_percent": 25.0,
    }
    found = found_in({**fault, **limits})["kernel.occupancy"]
    assert found.because == (because,)
    assert {action.cause for action in found.actions} == {because, "any"}


@pytest.mark.parametrize(
    ("measured", "status"),
    [
        # A thread may read 16 bytes: 16 sectors are no sign of waste, nor of none.
        ({"global_load_sectors": 1600.0}, "cannot_tell"),
        ({"global_load_sectors": 1600.0, "load_bytes_per_sector": 32.0}, "pass"),
        ({"global_load_sectors": 1600.0, "load_bytes_per_sector": 8.0}, "fail"),
        ({"global_load_sectors": 3200.0}, "fail"),
        ({"global_load_requests": 0.0, "global_load_sectors": 0.0}, "pass"),
    ],
)
def test_bytes_used_decide_where_sectors_do_not(
    measured: dict[str, object], status: str
) -> None:
    assert found_in({**SLOW, **measured})["kernel.coalescing"].status == status


def test_what_memory_limits_is_information() -> None:
    assert found_in(FAULTS["kernel.bound"][0])["kernel.bound"].severity == "info"


@each_rule
def test_a_table_without_a_recording_is_judged_by_itself(
    tmp_path: Path, rule: str
) -> None:
    """Kernels that were measured alone had no verdict of any check."""
    clean = {"kernel_name": BF16, "duration_ps": 30_000_000, **CLEAN}
    faulty = {"kernel_name": FUSED, "duration_ps": 70_000_000, **CLEAN}
    text = long(*long_rows(launch(0, FUSED), ("Duration", "us", "70")))
    trace = read_checked(write(tmp_path / "kernels.csv", text))
    for fault, status in ((FAULTS[rule][0], "fail"), ({}, "pass")):
        table = kernel_metrics(clean, {**faulty, **fault})
        alone = trace.with_tables({"kernel_metrics": table})
        found = Judged(signals_of(blueprint.profile(alone)))[rule]
        assert found.status == status, found.unavailable
        assert found.value == pytest.approx(70.0 if status == "fail" else 0.0)
        assert found.saving_ms is None
        assert found.ms_per_step is None


@pytest.mark.parametrize(
    ("levels", "because", "says"),
    [
        ({"dram_percent": 0.5, "l2_percent": 21.0, "l1_percent": 90.0}, "l1", "wide"),
        (
            {"dram_percent": 90.0, "l2_percent": 40.0, "l1_percent": 30.0},
            "dram",
            "fused",
        ),
        ({}, "dram", "fused"),
    ],
)
def test_the_level_of_memory_that_limits_is_named(
    levels: dict[str, object], because: str, says: str
) -> None:
    found = found_in({**FAULTS["kernel.bound"][0], **levels})["kernel.bound"]
    assert found.because == (because,)
    assert says in found.actions[0].text
