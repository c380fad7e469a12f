"""`launch.delay` over literal signals: fires, stays silent, near miss, cannot tell."""

from __future__ import annotations

from typing import Any

from stepscope.advice.finding import Saving
from stepscope.advice.rules.launch_delay import evaluate
from stepscope.advice.signals.device import DeviceSignals, device_signals
from stepscope.advice.signals.launch import launch_signals
from stepscope.thresholds import THRESHOLDS
from stepscope.unavailable import Unavailable

MS = 1_000_000_000
US = 1_000_000


def test_starved_kernels_fail_and_small_work_is_named(
    signals_of: Any, launch_of: Any, series: Any
) -> None:
    one = series([2.5] * 12, part="latency")
    found = launch_of(one, median_kernel_ps=15 * US, kernels_per_step=400.0)
    finding = evaluate(signals_of({launch_signals: found}), THRESHOLDS)
    assert (finding.status, finding.severity) == ("fail", "critical")
    assert finding.because == ("small_work",)
    assert finding.saving_ms == Saving(low=1.25, high=2.5)
    facts = {fact.name: fact.value for fact in finding.facts}
    assert facts["kernels_per_step"] == 400.0
    assert facts["median_kernel"] == 15.0


def test_launches_ahead_of_the_device_pass(
    signals_of: Any, launch_of: Any, series: Any
) -> None:
    one = series([0.05] * 12, part="latency")
    finding = evaluate(signals_of({launch_signals: launch_of(one)}), THRESHOLDS)
    assert finding.status == "pass"
    assert finding.value == 0.5


def test_long_launch_calls_name_the_slow_host(
    signals_of: Any, launch_of: Any, series: Any
) -> None:
    one = series([2.0] * 12, part="launch_call")
    found = launch_of(one, median_call_ps=80 * US)
    assert evaluate(signals_of({launch_signals: found}), THRESHOLDS).because == (
        "slow_host",
    )


def test_read_backs_that_empty_the_queue_are_named(
    signals_of: Any, launch_of: Any, series: Any
) -> None:
    one = series([2.0] * 12, part="latency")
    finding = evaluate(
        signals_of({launch_signals: launch_of(one, drained_percent=70.0)}), THRESHOLDS
    )
    assert finding.because == ("drained_queue",)
    assert "drained_queue" in {action.cause for action in finding.actions}


def test_a_run_on_the_host_alone_is_not_applicable(signals_of: Any) -> None:
    device = DeviceSignals(recorded="host_only")
    finding = evaluate(signals_of({device_signals: device}), THRESHOLDS)
    assert finding.status == "not_applicable"


def test_a_silent_device_cannot_tell(signals_of: Any) -> None:
    why = Unavailable(code="NO_DEVICE_EVENTS", reason="None.", remedy="Record.")
    device = DeviceSignals(recorded="silent", reason=why)
    finding = evaluate(
        signals_of({device_signals: device, launch_signals: why}), THRESHOLDS
    )
    assert (finding.status, finding.unavailable) == ("cannot_tell", why)


def test_replayed_graphs_without_nodes_cannot_tell(
    signals_of: Any, launch_of: Any, series: Any
) -> None:
    one = series([0.0] * 12, part="latency")
    finding = evaluate(
        signals_of({launch_signals: launch_of(one, graph_percent=80.0)}), THRESHOLDS
    )
    assert finding.status == "cannot_tell"


def test_idle_time_of_unknown_cause_never_becomes_a_pass(
    signals_of: Any, launch_of: Any, series: Any
) -> None:
    one = series([0.1] * 12, part="latency", unknown_ps=(MS,) * 12)
    finding = evaluate(signals_of({launch_signals: launch_of(one)}), THRESHOLDS)
    assert finding.status == "cannot_tell"


def test_a_clock_error_that_could_undo_the_verdict_cannot_tell(
    signals_of: Any, launch_of: Any, series: Any
) -> None:
    one = series([0.5] * 12, part="latency", doubt_ps=MS)
    assert evaluate(
        signals_of({launch_signals: launch_of(one)}), THRESHOLDS
    ).status == ("cannot_tell")


def test_without_steps_there_is_a_share_but_no_time_per_step(
    signals_of: Any, launch_of: Any, series: Any
) -> None:
    one = series(
        [200.0],
        part="latency",
        step_ms=1000.0,
        step_source=None,
        step_confidence=0.0,
        closed=False,
    )
    finding = evaluate(signals_of({launch_signals: launch_of(one)}), THRESHOLDS)
    assert (finding.status, finding.severity) == ("fail", "warn")
    assert finding.share_percent == 20.0
    assert finding.ms_per_step is None
    assert finding.saving_ms is None
    assert finding.steps_clean is None


def test_an_assumed_latency_says_so(
    signals_of: Any, launch_of: Any, series: Any
) -> None:
    one = series([0.0] * 12, part="latency")
    finding = evaluate(
        signals_of({launch_signals: launch_of(one, latency_samples=0)}), THRESHOLDS
    )
    notes = {fact.name: fact.note for fact in finding.facts}
    assert notes["launch_latency"].startswith("assumed")
