"""`gap.readback` over literal accounts and on whole traces."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.traces.training import beside, findings, on_host, read_back

from stepscope.advice.rules.idle_gaps.gaps import judge_readback as evaluate
from stepscope.derive.verdicts.recorded_devices import DeviceSignals


@pytest.mark.parametrize(
    ("ms", "status", "severity"),
    [
        (0.11, "fail", "warn"),
        (0.09, "pass", "info"),
        (0.51, "fail", "critical"),
    ],
)
def test_a_hundredth_of_the_time_is_the_limit(
    signals_of: Any, shares: Any, ms: float, status: str, severity: str
) -> None:
    finding = evaluate(signals_of(shares(read_back=ms)))
    assert (finding.status, finding.severity) == (status, severity)


@pytest.mark.parametrize("owner", ["read_back", "launch", "output", "sync"])
def test_what_was_not_recorded_cannot_tell(
    signals_of: Any, shares: Any, owner: str
) -> None:
    one = shares(read_back=5.0, missing=[owner])
    assert evaluate(signals_of(one)).status == "cannot_tell"
    assert evaluate(signals_of()).status == "cannot_tell"


def test_without_a_device_launches_are_not_needed(signals_of: Any, shares: Any) -> None:
    one = shares(device=None, read_back=0.05, missing=["launch"])
    signals = signals_of(one, device=DeviceSignals(recorded="host_only"))
    assert evaluate(signals).status == "pass"


def test_the_device_idles_after_a_number_was_read() -> None:
    finding = findings(read_back(idle_us=400.0))["gap.readback"]
    assert (finding.status, finding.severity) == ("fail", "warn")
    # From the end of the copy to the first kernel of the next step.
    assert finding.share_percent == pytest.approx(100 * 400 / 10_180, abs=0.5)
    assert finding.pattern.kind == "every"
    assert finding.evidence[0].end_ps > finding.evidence[0].start_ps


def test_a_number_that_is_read_one_step_late_costs_nothing() -> None:
    found = findings(read_back(idle_us=0.0, late=True))["gap.readback"]
    assert found.status == "pass"


def test_waiting_while_work_is_queued_costs_nothing() -> None:
    found = findings(beside("cuStreamSynchronize", 6_000.0))["gap.readback"]
    assert (found.status, found.value) == ("pass", 0.0)


def test_no_more_is_lost_than_was_waited() -> None:
    """After a wait of 20 µs the host does 1 ms of its own: it would be late anyway."""
    lines = [
        (track, name, start + dur - 20.0, 20.0, *rest)
        if name == "cuStreamSynchronize"
        else (track, name, start, dur, *rest)
        for track, name, start, dur, *rest in read_back(idle_us=1_000.0)
    ]
    found = findings(lines)["gap.readback"]
    assert found.ms_per_step == pytest.approx(0.02, abs=0.015)
    assert found.status == "pass"


def test_on_the_host_alone_waiting_while_ops_run_is_the_step() -> None:
    lines = [
        ("executor" if "MatMul" in name else track, name, *rest)
        for track, name, *rest in on_host()
    ]
    lines += [("main", "BlockUntilReady", 10_000.0 * k + 60, 9_000) for k in range(20)]
    assert findings(lines)["gap.readback"].status == "pass"


def test_on_the_host_alone_a_wait_for_nothing_is_found() -> None:
    found = findings(on_host(pause="BlockUntilReady", pause_us=500.0))
    assert found["gap.readback"].status == "fail"
    # After all steps but the last, which ends with its marker: 19 of 20.
    time_us = 19 * 10_505 + 9_990
    expected = pytest.approx(100 * 19 * 500 / time_us, abs=0.001)
    assert found["gap.readback"].share_percent == expected


@pytest.mark.parametrize("table", ["device_activity", "launches", "events"])
@pytest.mark.sweep(every=3)
def test_without_a_table_it_cannot_tell(table: str) -> None:
    found = findings(read_back(idle_us=400.0), without=table)["gap.readback"]
    assert found.status == "cannot_tell"
