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
    return evaluate(signals)


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
    finding = evaluate(signals_of(shares(collective=2.0), use | filled()))
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
    finding = evaluate(signals_of(shares(), use | filled(110)))
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
        assert evaluate(signals).status == "cannot_tell"
    # A cost that was not recorded may be there.
    assert evaluate(signals_of(shares(), told(known))).status == ("cannot_tell")
    blind = signals_of(shares(missing=["launch"]), told(known) | filled())
    assert evaluate(blind).status == "cannot_tell"


@pytest.mark.parametrize(
    ("more", "because"),
    [
        # All of them at their limits, the largest first.
        (
            {"launch": 0.3, "between": {"sync": 0.2, "between": 0.3}, "peer": 1.0},
            {"exchanging": 10.0, "between": 5.0, "launching": 3.0},
        ),
        # Waits inside of a step do not count as those between steps.
        ({"sync": 2.0, "collective": 0.6, "peer": 0.4}, {"exchanging": 10.0}),
        ({"launch": 0.3, "between": {"between": 0.49}}, {"launching": 3.0}),
        ({"launch": 0.29, "between": {"sync": 0.5}}, {"between": 5.0}),
    ],
)
def test_every_number_of_a_larger_batch(
    signals_of: Any, shares: Any, more: Any, because: dict[str, float]
) -> None:
    """Twice and half a batch more: 12 GiB of 36.8 are held, and a batch takes 10."""
    use = told(memory(peak_gib=22.0, least_bytes=(14 * GIB, 12 * GIB, 13 * GIB)))
    account = shares(**more, fields={"step_confidence": 0.7})
    finding = evaluate(signals_of(account, use | filled()))
    assert (finding.status, finding.note) == ("fail", None)
    assert finding.unit == "ratio"
    assert finding.value == pytest.approx(2.48)
    assert (finding.confidence, finding.devices) == (0.7, ("vm:0",))
    assert set(finding.because) == set(because)
    known = {cause.cause: cause.share_percent for cause in finding.causes}
    shown = {name: pytest.approx(share) for name, share in because.items()}
    assert shown.items() <= known.items()
    assert list(known.values()) == sorted(known.values(), reverse=True)
    assert all(known.values())
    fixed = sum(known.values())
    assert {fact.name: fact.value for fact in finding.facts} == {
        "room": 2.5,
        "fixed": pytest.approx(fixed),
        "tried": 2,
        "per_sample": pytest.approx(fixed / 2),
        "peak_gib": 22.0,
        "least_gib": 12.0,
        "capacity_gib": 40.0,
    }


def test_a_batch_and_a_half_shares_a_third(signals_of: Any, shares: Any) -> None:
    """20.8 of 40 GiB are held, a batch takes 10, and 16 more may be in use: 1.6."""
    held = 208 * GIB // 10
    use = told(memory(peak_gib=30.8, least_bytes=(held,)))
    account = shares(collective=2.0, launch=0.1, fields={"step_confidence": 0.6})
    finding = evaluate(signals_of(account, use | filled()))
    assert finding.confidence == 0.6
    facts = {fact.name: fact.value for fact in finding.facts}
    assert (facts["room"], facts["tried"]) == (1.6, 1.6)
    assert facts["per_sample"] == pytest.approx(21.0 * (1 - 1 / 1.6))
    assert [cause.cause for cause in finding.causes] == ["exchanging", "launching"]
    assert (facts["peak_gib"], facts["least_gib"]) == (30.8, 20.8)


def test_a_device_of_unknown_filling_is_full(signals_of: Any, shares: Any) -> None:
    use = told(memory(peak_gib=16.0, least_bytes=(10 * GIB,)))
    signals = signals_of(shares(collective=2.0), {**use, fill_signals: {}})
    finding = evaluate(signals)
    assert [cause.cause for cause in finding.causes] == ["exchanging"]


@pytest.mark.parametrize(("ratio", "note"), [(9.9, None), (10.1, "much")])
def test_ten_times_the_batch_is_much(
    signals_of: Any, shares: Any, ratio: float, note: str | None
) -> None:
    finding = found_of(signals_of, shares, 10 + 26.8 / ratio, collective=2.0)
    assert (finding.status, finding.note) == ("fail", note)
    # Nothing costs as much whatever the batch: there is no need of a larger one.
    finding = found_of(signals_of, shares, 10 + 26.8 / ratio)
    assert (finding.status, finding.note, finding.because) == ("pass", None, ())


@pytest.mark.parametrize(("unfilled", "because"), [(200, ("filling",)), (199, ())])
def test_kernels_that_leave_a_tenth_of_a_step_are_a_reason(
    signals_of: Any, shares: Any, unfilled: int, because: tuple[str, ...]
) -> None:
    """The device works for half of each step."""
    use = told(memory(peak_gib=16.0, least_bytes=(10 * GIB,)))
    account = shares(step_ms=10.0, sync=5.0)
    finding = evaluate(signals_of(account, use | filled(unfilled)))
    assert finding.because == because


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
