"""`multi.batch` over literal memories and on whole traces."""

from __future__ import annotations

from typing import Any

import pytest
from tests.advice.memories import memory, told
from tests.support.traces import blueprint
from tests.support.traces.memory import Allocator
from tests.support.traces.training import (
    allocating,
    findings,
    on_host,
    parallel,
    together,
)

from stepscope.advice.rules.multi_device.multi_batch import evaluate
from stepscope.derive.facts.devices.device_fill import DeviceFill, fill_signals
from stepscope.thresholds import THRESHOLDS

GIB = 2**30


def filled(unfilled_ps: int = 0) -> dict[Any, Any]:
    """So much of 1000 ps of kernels has too few blocks."""
    fill = DeviceFill(
        cores=108,
        kernel_ps=1000,
        unshaped_ps=0,
        unfilled_ps=unfilled_ps,
        idle_ps=0,
        steps=12,
        largest=(),
    )
    return {fill_signals: {"vm:0": fill}}


def found_of(signals_of: Any, shares: Any, gib: float, **more: Any) -> Any:
    use = told(memory(peak_gib=gib, least_bytes=(10 * GIB,) * 12))
    signals = signals_of(shares(**more), use | filled())
    return evaluate(signals, THRESHOLDS)


@pytest.mark.parametrize(
    ("gib", "status"), [(10 + 26.8 / 1.49, "pass"), (10 + 26.8 / 1.51, "fail")]
)
def test_half_a_batch_more_is_the_limit(
    signals_of: Any, shares: Any, gib: float, status: str
) -> None:
    finding = found_of(signals_of, shares, gib, collective=2.0)
    assert (finding.status, finding.severity) == (status, "info")


def test_the_fullest_of_two_memories_is_the_limit(signals_of: Any, shares: Any) -> None:
    rises = {"least_bytes": (10 * GIB,) * 12}
    use = told(
        memory(name="GPU_0_bfc", peak_gib=16.0, **rises),
        memory(name="GPU_1_bfc", peak_gib=20.0, **rises),
    )
    finding = evaluate(signals_of(shares(collective=2.0), use | filled()), THRESHOLDS)
    assert finding.value == pytest.approx(26.8 / 10)


def test_what_does_not_grow_is_told_by_cause(signals_of: Any, shares: Any) -> None:
    # 10 GiB are held, a batch takes 6 more, and 36.8 may be in use: 26.8 / 6.
    finding = found_of(signals_of, shares, 16.0, collective=2.0, launch=0.4)
    facts = {fact.name: fact.value for fact in finding.facts}
    assert finding.value == pytest.approx(26.8 / 6)
    assert facts["fixed"] == pytest.approx(24.0)
    # Twice the batch shares it out among twice the samples.
    assert facts["per_sample"] == pytest.approx(12.0)
    assert finding.because == ("launching", "exchanging")
    assert finding.saving_ms is None


@pytest.mark.parametrize(
    ("more", "because"),
    [
        ({"launch": 0.31}, "launching"),
        ({"between": {"between": 0.51}}, "between"),
        ({"collective": 1.1}, "exchanging"),
    ],
)
def test_each_fixed_cost_is_a_reason(
    signals_of: Any, shares: Any, more: dict[str, Any], because: str
) -> None:
    assert found_of(signals_of, shares, 16.0, **more).because == (because,)


def test_what_fits_without_end_is_not_counted(signals_of: Any, shares: Any) -> None:
    finding = found_of(signals_of, shares, 12.0, collective=2.0)
    assert (finding.status, finding.note) == ("fail", "much")


def test_kernels_with_few_blocks_are_a_reason(signals_of: Any, shares: Any) -> None:
    use = told(memory(peak_gib=16.0, least_bytes=(10 * GIB,) * 12))
    finding = evaluate(signals_of(shares(), use | filled(110)), THRESHOLDS)
    assert (finding.status, finding.because) == ("fail", ("filling",))


def test_without_a_fixed_cost_a_larger_batch_buys_nothing(
    signals_of: Any, shares: Any
) -> None:
    finding = found_of(signals_of, shares, 16.0)
    assert (finding.status, finding.note) == ("pass", None)


def test_what_is_not_known_cannot_tell(signals_of: Any, shares: Any) -> None:
    known = memory(peak_gib=16.0, least_bytes=(10 * GIB,) * 12)
    for memories in (
        (),
        (memory(peak_gib=16.0),),
        (memory(peak_gib=16.0, capacity_bytes=None, least_bytes=(GIB,)),),
        (memory(peak_gib=16.0, counted=False, least_bytes=(GIB,)),),
        (memory(peak_gib=10.0, least_bytes=(10 * GIB,)),),
        (memory(peak_gib=16.0, name="process", least_bytes=(GIB,)),),
    ):
        signals = signals_of(shares(collective=2.0), told(*memories) | filled())
        assert evaluate(signals, THRESHOLDS).status == "cannot_tell"
    # A cost that was not recorded may be there.
    assert evaluate(signals_of(shares(), told(known)), THRESHOLDS).status == (
        "cannot_tell"
    )
    blind = signals_of(shares(missing=["launch"]), told(known) | filled())
    assert evaluate(blind, THRESHOLDS).status == "cannot_tell"


def _exchanging(*, peak_gib: float) -> list[Any]:
    """B8 with much of the step in exchanges, and so much memory at the peak."""
    lines = parallel(exchanges=((64 * 2**20, 2_000.0),), steps=12)
    gpu = Allocator("GPU_0_bfc", limit=40 * GIB, in_use=10 * GIB)
    size = int((peak_gib - 10) * GIB)
    for line in [one for one in lines if one[1] == "train"]:
        gpu.allocate(line[2] + 100.0, 0x1000, size)
        gpu.free(line[2] + 5_000.0, 0x1000, size)
    return lines + gpu.lines


@pytest.mark.slow(seconds=0.4)
def test_room_beside_long_exchanges_is_found() -> None:
    devices = dict.fromkeys(range(4), blueprint.A100)
    finding = findings(_exchanging(peak_gib=16.0), devices=devices)["multi.batch"]
    assert (finding.status, finding.severity) == ("fail", "info")
    assert finding.value == pytest.approx(26.8 / 6, abs=0.01)
    assert "exchanging" in finding.because
    full = findings(_exchanging(peak_gib=39.0), devices=devices)["multi.batch"]
    assert (full.status, full.note) == ("pass", "full")


def test_a_clean_step_needs_no_larger_batch() -> None:
    finding = findings(allocating())["multi.batch"]
    assert finding.status == "pass"
    # 36.8 - 18 over 30 - 18.
    assert finding.value == pytest.approx(18.8 / 12, abs=0.01)


def test_without_a_device_it_does_not_apply() -> None:
    assert findings(on_host())["multi.batch"].status == "not_applicable"


@pytest.mark.parametrize("table", ["allocations", "device_activity", "events"])
@pytest.mark.sweep(every=3)
def test_without_a_table_it_cannot_tell(table: str) -> None:
    devices = dict.fromkeys(range(4), blueprint.A100)
    lines = _exchanging(peak_gib=16.0)
    found = findings(lines, devices=devices, without=table)["multi.batch"]
    assert found.status == "cannot_tell"
    assert found.unavailable is not None
    assert found.unavailable.remedy
    assert findings(together())["multi.batch"].status == "cannot_tell"
