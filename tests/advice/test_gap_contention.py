"""`gap.contention` over literal accounts and on whole traces."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.traces.training import (
    contended,
    cores,
    findings,
    on_host,
    together,
)

from stepscope.advice.rules.idle_gaps.gaps import judge_contention as evaluate
from stepscope.derive.facts.devices.contention import Contention, contention_signals
from stepscope.unavailable import Unavailable

US = 1_000_000


def beside(ms: float, **fields: Any) -> dict[Any, Any]:
    found = {
        "cores": 16,
        "contended_ps": (round(ms * 1000 * US),) * 12,
        "busy_launches": 400,
        "quiet_launches": 400,
        "busy_pace_ps": 16.0 * US,
        "quiet_pace_ps": 6.4 * US,
        "chance": 0.0001,
    }
    return {contention_signals: {"vm:0": Contention(**(found | fields))}}


@pytest.mark.parametrize(
    ("ms", "status", "severity"),
    [(0.29, "pass", "info"), (0.31, "fail", "warn"), (1.51, "fail", "critical")],
)
def test_the_time_with_busy_cores_decides(
    signals_of: Any, shares: Any, ms: float, status: str, severity: str
) -> None:
    finding = evaluate(signals_of(shares(launch=2.0), beside(ms)))
    assert (finding.status, finding.severity) == (status, severity)


def test_it_promises_what_the_usual_pace_would_gain(
    signals_of: Any, shares: Any
) -> None:
    finding = evaluate(signals_of(shares(launch=2.0), beside(1.0)))
    assert finding.saving_ms.high == pytest.approx(1.0 * (1 - 6.4 / 16))
    assert finding.saving_ms.low == 0
    # TensorFlow's guide names the number of launching threads after their mode.
    (text,) = (it.text for it in finding.actions if it.framework == "TensorFlow")
    assert "TF_GPU_THREAD_COUNT" in text


@pytest.mark.parametrize("field", [{"busy_pace_ps": 9.0 * US}, {"chance": 0.02}])
def test_launches_at_the_usual_pace_are_a_note(
    signals_of: Any, shares: Any, field: dict[str, float]
) -> None:
    signals = signals_of(shares(launch=2.0), beside(1.0, **field))
    finding = evaluate(signals)
    assert (finding.status, finding.severity, finding.note) == ("fail", "info", "pace")
    assert finding.saving_ms is None


def test_a_device_that_waits_for_no_launch_needs_no_more(
    signals_of: Any, shares: Any
) -> None:
    assert evaluate(signals_of(shares(launch=0.1))).status == "pass"


def test_what_is_not_known_cannot_tell(signals_of: Any, shares: Any) -> None:
    why = Unavailable(code="NOT_RECORDED", reason="No cores.", remedy="Record them.")
    for more in ({contention_signals: why}, beside(1.0, quiet_launches=199)):
        finding = evaluate(signals_of(shares(launch=2.0), more))
        assert finding.status == "cannot_tell"
    missing = signals_of(shares(missing=["launch"]), beside(1.0))
    assert evaluate(missing).status == "cannot_tell"


def test_slower_launches_beside_busy_input_threads_are_found() -> None:
    found = findings(contended(busy_us=16.0, quiet_us=6.5) + cores(16))
    finding = found["gap.contention"]
    assert (finding.status, finding.severity) == ("fail", "warn")
    facts = {fact.name: fact.value for fact in finding.facts}
    assert facts["cores"] == 16
    assert facts["busy_pace"] == pytest.approx(16.0)
    assert facts["quiet_pace"] == pytest.approx(6.5)
    # Each of 40 kernels of 5 µs is waited for until 16 µs have gone by.
    assert finding.ms_per_step == pytest.approx(40 * 11 / 1000, abs=0.03)
    assert found["launch.delay"].explained_by in ((), ("gap.contention",))


@pytest.mark.slow(seconds=0.5)
def test_the_same_pace_at_all_times_is_no_contention() -> None:
    fast = findings(contended(busy_us=6.5, quiet_us=6.5) + cores(16))
    assert fast["gap.contention"].status == "pass"
    # The device waits for launches all the same, and `launch.delay` says so.
    slow = findings(contended(busy_us=16.0, quiet_us=16.0) + cores(16))
    assert slow["gap.contention"].note == "pace"
    assert slow["gap.contention"].severity == "info"
    assert slow["launch.delay"].status == "fail"
    assert slow["launch.delay"].explained_by == ()


def test_few_threads_leave_cores_free() -> None:
    lines = contended(busy_us=16.0, quiet_us=6.5, threads=8) + cores(16)
    found = findings(lines)["gap.contention"]
    assert (found.status, found.value) == ("pass", 0.0)


def test_without_cores_or_input_threads_it_cannot_tell() -> None:
    slow = contended(busy_us=16.0, quiet_us=6.5)
    assert findings(slow)["gap.contention"].status == "cannot_tell"
    alone = [line for line in slow if not line[0].startswith("tf_data")]
    assert findings(alone + cores(16))["gap.contention"].status == "cannot_tell"
    # Where launches keep up it is no matter who has the cores.
    assert findings(together())["gap.contention"].status == "pass"


def test_a_run_on_the_host_launches_nothing() -> None:
    assert findings(on_host())["gap.contention"].status == "not_applicable"


@pytest.mark.parametrize("table", ["device_activity", "launches", "events"])
@pytest.mark.sweep(every=3)
def test_without_a_table_it_cannot_tell(table: str) -> None:
    lines = contended(busy_us=16.0, quiet_us=6.5) + cores(16)
    found = findings(lines, without=table)["gap.contention"]
    assert found.status == "cannot_tell"
    assert found.unavailable is not None
    assert found.unavailable.remedy
