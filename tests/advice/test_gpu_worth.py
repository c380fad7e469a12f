"""`gpu.worth`: twenty kernels of 3 µs, a full device, and one that waits for input."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.traces.training import Recorder, findings, on_host, together

from stepscope.advice.rules.launches.device_fill import judge_small_model as evaluate
from stepscope.derive.facts.devices.set_up import SetUp, set_up_signals

RULE = "gpu.worth"
US = 1_000_000


def tiny(*, fetch_us: float = 0.0) -> list[Any]:
    """Steps of 1 ms and a fetch, with twenty kernels of 3 µs, each waited for."""
    made = Recorder()
    length = 1_000.0 + fetch_us
    for number in range(40):
        begin = length * number
        made.mark(number, begin, length - 5.0)
        if fetch_us:
            made.host("IteratorGetNext", begin, fetch_us)
        for at in range(20):
            called = begin + fetch_us + 10.0 + 48.0 * at
            made.launch(("tiny", 3.0, "m/Mul:Mul"), called, called + 9.0)
    return made.lines


def test_a_device_with_hardly_any_work_is_a_note() -> None:
    found = findings(tiny())[RULE]
    assert (found.status, found.severity, found.saving_ms) == ("fail", "info", None)
    facts = {fact.name: fact.value for fact in found.facts}
    assert facts["computing"] == pytest.approx(6.0, abs=0.2)
    assert facts["launch_latency"] == pytest.approx(9.0)


def test_a_full_device_passes() -> None:
    assert findings(together())[RULE].status == "pass"


def test_a_device_that_waits_for_its_input_passes() -> None:
    assert findings(tiny(fetch_us=3_000.0))[RULE].status == "pass"


def test_a_run_on_the_host_alone_is_not_applicable() -> None:
    assert findings(on_host(), devices=None)[RULE].status == "not_applicable"


@pytest.mark.parametrize("table", ["device_activity", "launches", "events"])
def test_a_table_that_is_needed_and_absent_never_becomes_a_pass(table: str) -> None:
    assert findings(tiny(), without=table)[RULE].status == "cannot_tell"


@pytest.mark.parametrize(
    ("owners", "status"),
    [
        ({"launch": 8.1}, "fail"),
        ({"launch": 7.9}, "pass"),
        ({"launch": 4.0, "copy_in": 4.1}, "fail"),
        ({"launch": 4.9, "input": 3.5}, "pass"),
        ({"launch": 7.6, "collective": 0.6}, "pass"),
    ],
)
def test_each_limit_decides(
    signals_of: Any, shares: Any, launch_of: Any, owners: Any, status: str
) -> None:
    launching = launch_of(median_kernel_ps=9 * US)
    signals = signals_of(shares(**owners), launching=launching)
    assert evaluate(signals).status == status


def test_kernels_longer_than_a_launch_are_no_small_model(
    signals_of: Any, shares: Any, launch_of: Any
) -> None:
    launching = launch_of(median_kernel_ps=11 * US)
    signals = signals_of(shares(launch=8.1), launching=launching)
    assert evaluate(signals).status == "pass"


def test_much_computing_is_no_small_model(signals_of: Any, shares: Any) -> None:
    one = shares(step_ms=100.0, launch=90.0)
    assert evaluate(signals_of(one)).status == "pass"


@pytest.mark.parametrize(("percent", "status"), [(30.0, "fail"), (32.0, "pass")])
def test_the_first_use_of_a_device_says_nothing_of_the_model(
    signals_of: Any, shares: Any, launch_of: Any, percent: float, status: str
) -> None:
    """Of 81 % in launch calls so much is setting up, once: 51 or 49 % remain."""
    once = {set_up_signals: {"vm:0": SetUp("set_up", percent, ())}}
    launching = launch_of(median_kernel_ps=9 * US)
    signals = signals_of(shares(launch=8.1), once, launching=launching)
    assert evaluate(signals).status == status
