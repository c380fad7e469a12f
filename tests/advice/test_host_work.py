"""`host.work` over literal accounts: fires, stays silent, near miss, cannot tell."""

from __future__ import annotations

from typing import Any

import pytest

from stepscope.advice.finding import Part, Saving
from stepscope.advice.rules.waiting.host_work import evaluate
from stepscope.advice.signals.device import DeviceSignals
from stepscope.advice.signals.shares import NamedTime
from stepscope.thresholds import THRESHOLDS

MS = 1_000_000_000
HOST_ONLY = DeviceSignals(recorded="host_only")


def op(ms: float) -> NamedTime:
    return NamedTime("host_compute", "inside", "Conv2D", time_ps=round(ms * MS))


def function(ms: float) -> NamedTime:
    return NamedTime(
        "host_compute",
        "inside",
        "augment",
        function="augment",
        file="data/images.py",
        line=41,
        time_ps=round(ms * MS),
    )


def test_a_function_that_a_device_waits_for_is_found_by_file_and_line(
    signals_of: Any, shares: Any
) -> None:
    one = shares(host_compute=5.7, names=[function(66.0), op(2.4)])
    finding = evaluate(signals_of(one), THRESHOLDS)
    assert (finding.status, finding.severity) == ("fail", "critical")
    assert finding.share_percent == pytest.approx(57.0)
    assert finding.parts[0] == Part(
        name="augment",
        function="augment",
        file="data/images.py",
        line=41,
        share_percent=pytest.approx(55.0),
    )


def test_the_function_around_most_of_it_stands_first(
    signals_of: Any, shares: Any
) -> None:
    around = Part(name="preprocess", function="preprocess", share_percent=56.0)
    one = shares(host_compute=5.7, names=[function(30.0)])
    finding = evaluate(signals_of(one, around={"vm:0": around}), THRESHOLDS)
    assert [part.name for part in finding.parts] == ["preprocess", "augment"]


def test_ops_that_a_device_waits_for_are_another_matter(
    signals_of: Any, shares: Any
) -> None:
    one = shares(host_compute=5.7, names=[op(60.0), function(8.0)])
    finding = evaluate(signals_of(one), THRESHOLDS)
    assert (finding.status, finding.note) == ("pass", "ops")


@pytest.mark.parametrize(("ms", "status"), [(0.51, "fail"), (0.49, "pass")])
def test_a_twentieth_of_the_time_is_the_limit_on_a_device(
    signals_of: Any, shares: Any, ms: float, status: str
) -> None:
    one = shares(host_compute=ms, names=[function(12 * ms)])
    assert evaluate(signals_of(one), THRESHOLDS).status == status


def test_ops_of_the_model_are_the_step_of_a_run_on_the_host(
    signals_of: Any, shares: Any
) -> None:
    one = shares(device=None, names=[op(100.0), function(20.0)])
    finding = evaluate(signals_of(one, device=HOST_ONLY), THRESHOLDS)
    assert (finding.status, finding.severity, finding.note) == ("pass", "info", "ops")
    assert finding.share_percent == pytest.approx(100.0)


def test_a_function_that_holds_a_fifth_of_a_step_on_the_host_is_found(
    signals_of: Any, shares: Any
) -> None:
    one = shares(device=None, names=[op(90.0), function(30.0)])
    finding = evaluate(signals_of(one, device=HOST_ONLY), THRESHOLDS)
    assert finding.status == "fail"
    assert finding.parts[0].name == "augment"
    # A quarter of a step of 10 ms: all that the function could save.
    assert finding.saving_ms == Saving(low=1.25, high=2.5)


def test_what_the_loop_itself_takes_is_the_step(signals_of: Any, shares: Any) -> None:
    loop = NamedTime(
        owner="host_compute",
        place="inside",
        name="main",
        function="main",
        loop=True,
        time_ps=30 * 1_000_000_000,
    )
    one = shares(device=None, names=[op(90.0), loop])
    finding = evaluate(signals_of(one, device=HOST_ONLY), THRESHOLDS)
    assert (finding.status, finding.note) == ("pass", "ops")
    one = shares(device=None, names=[op(50.0), loop, function(28.0)])
    finding = evaluate(signals_of(one, device=HOST_ONLY), THRESHOLDS)
    assert finding.status == "fail"
    assert finding.parts[0].name == "augment"


def test_what_was_not_recorded_cannot_tell(signals_of: Any, shares: Any) -> None:
    fault = {"host_compute": 5.7, "names": [function(60.0)]}
    for signals in (
        signals_of(),
        signals_of(shares(**fault, missing=["host_compute"])),
        signals_of(
            shares(**fault, device=None), device=DeviceSignals(recorded="silent")
        ),
        signals_of(shares(host_compute=0.1, unexplained=6.0)),
    ):
        finding = evaluate(signals, THRESHOLDS)
        assert finding.status == "cannot_tell"
        assert finding.unavailable is not None
