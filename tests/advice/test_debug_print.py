"""`debug.print` over literal accounts and on whole traces."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.traces.training import (
    Recorder,
    beside,
    findings,
    on_host,
    paused,
    together,
)

from stepscope.advice.rules.running.debug_print import evaluate
from stepscope.derive.facts.program_traits import anomaly_checks, blocking_calls
from stepscope.reporting.words.findings import lead_sentence

CALLBACK = "debug_callback"


@pytest.mark.parametrize(
    ("ms", "status", "severity"),
    [(0.11, "fail", "warn"), (0.09, "pass", "info"), (0.51, "fail", "critical")],
)
def test_a_hundredth_of_the_time_is_the_limit(
    signals_of: Any, shares: Any, ms: float, status: str, severity: str
) -> None:
    signals = signals_of(shares(debugging=ms), NOTHING_FOUND)
    finding = evaluate(signals)
    assert (finding.status, finding.severity) == (status, severity)


NOTHING_FOUND: Any = {anomaly_checks: {}, blocking_calls: {}}


def test_what_was_not_recorded_cannot_tell(signals_of: Any, shares: Any) -> None:
    for missing in ("debugging", "host_compute"):
        signals = signals_of(shares(missing=[missing]), NOTHING_FOUND)
        assert evaluate(signals).status == "cannot_tell"


@pytest.mark.parametrize("name", [CALLBACK, "model/PrintV2:PrintV2"])
def test_a_callback_in_each_step_under_an_idle_device_is_found(name: str) -> None:
    found = findings(paused(name, 600.0))
    finding = found["debug.print"]
    assert (finding.status, finding.severity) == ("fail", "critical")
    # After 13 of 14 steps of 10,000.5 µs; the last ends with the device's work.
    time_us = 13 * (10_000.5 + 610.5) + 10_000.5
    assert finding.share_percent == pytest.approx(100 * 13 * 600 / time_us, abs=0.01)
    assert finding.parts[0].name in {CALLBACK, "model/PrintV2"}
    # Its time is promised once.
    others = [
        one
        for one in found.values()
        if one.status == "fail" and one.id != finding.id and one.saving_ms is not None
    ]
    assert {one.explained_by for one in others} <= {("debug.print",)}


@pytest.mark.parametrize(
    "lines",
    [
        together(),
        beside(CALLBACK, 600.0),
        paused(CALLBACK, 600.0, track="loader"),
        paused(CALLBACK, 600.0, every=14),
        paused("model/CheckNumericsGradient:Identity", 30.0),
    ],
    ids=["none", "device busy", "another thread", "one step", "another op"],
)
def test_what_holds_up_nothing_is_none(lines: list[Any]) -> None:
    assert findings(lines)["debug.print"].status == "pass"


def test_without_a_device_the_steps_wait_too() -> None:
    found = findings(on_host(pause="PrintV2:PrintV2", pause_us=600.0))["debug.print"]
    assert (found.status, found.severity) == ("fail", "critical")
    assert findings(on_host())["debug.print"].status == "pass"


def _waiting(call_us: float) -> list[Any]:
    """Kernels of 100 µs whose launch calls last so long."""
    made = Recorder()
    for number in range(6):
        begin = 3_000.0 * number
        made.mark(number, begin, 2_990.0)
        for at in range(20):
            made.launch(("kernel", 100.0, "a/Mul:Mul"), begin + at * 130.0, 0.0)
            made.lines[-1] = (*made.lines[-1][:2], begin + at * 130.0 + 10.0, 100.0, {})
            made.lines[-1][4].update(correlation_id=made.launched)
            call = made.lines[-2]
            made.lines[-2] = (*call[:3], call_us, call[4])
    return made.lines


def test_launch_calls_that_wait_for_their_kernels_are_named() -> None:
    found = findings(_waiting(120.0))["debug.print"]
    assert (found.status, found.severity, found.note) == ("fail", "warn", "blocking")
    assert found.because == ("blocking",)
    assert found.saving_ms is None
    assert found.actions[0].env == "CUDA_LAUNCH_BLOCKING=0"
    assert findings(_waiting(8.0))["debug.print"].status == "pass"


@pytest.mark.parametrize("table", ["device_activity", "events"])
def test_without_a_table_it_cannot_tell(table: str) -> None:
    found = findings(paused(CALLBACK, 600.0), without=table)["debug.print"]
    assert found.status == "cannot_tell"
    assert found.unavailable is not None
    assert found.unavailable.remedy


def searched(*, checks: int) -> list[Any]:
    """Bc whose backward passes check so many gradients, 1 µs each."""
    lines = on_host(lead_us=100.0)
    begins = [line[2] for line in lines if line[1] == "train"]
    return lines + [
        ("main", "aten::_is_any_true", begin + 50.0 + 2.0 * at, 1.0)
        for begin in begins
        for at in range(checks)
    ]


def test_the_search_for_anomalies_is_found_by_its_checks() -> None:
    found = findings(searched(checks=5), devices=None)["debug.print"]
    assert (found.status, found.severity, found.note) == ("fail", "warn", "anomaly")
    assert {fact.name: fact.value for fact in found.facts}["checks"] == 5
    assert [one.cause for one in found.actions] == ["anomaly"]
    assert "it checks 5 gradients a step" in lead_sentence(found)
    # What it costs is not known.
    assert (found.saving_ms, found.share_percent) == (None, None)


def test_one_check_in_a_step_is_no_search() -> None:
    assert findings(searched(checks=1), devices=None)["debug.print"].status == "pass"


def test_the_function_that_a_callback_calls_is_named() -> None:
    lines = on_host(pause=f"{CALLBACK}.1", pause_us=20_000.0)
    lines += [
        ("main", "$/app/train.py:8 histogram", begin + 100.0, 19_800.0)
        for _, name, begin, *_ in list(lines)
        if name == f"{CALLBACK}.1"
    ]
    finding = findings(lines)["debug.print"]
    assert finding.parts[0].function == "histogram"
    assert lead_sentence(finding).endswith("most of it in `histogram` (train.py:8).")


def test_the_text_of_what_is_printed_is_made_for_printing() -> None:
    """TensorFlow's print first formats its tensors, which takes most of the time."""
    formatting = "StringFormat_3:StringFormat"
    alone = on_host(pause=formatting, pause_us=600.0)
    assert findings(alone)["debug.print"].status == "pass"
    begin = next(line[2] for line in alone if line[1] == formatting)
    printed = [*alone, ("main", "PrintV2_3:PrintV2", begin + 600.5, 1.0)]
    found = findings(printed)["debug.print"]
    assert (found.status, found.severity) == ("fail", "critical")


def test_what_is_printed_beside_other_ops_holds_up_nothing() -> None:
    lines = on_host(pause="PrintV2:PrintV2", pause_us=600.0)
    pauses = [line for line in lines if line[1] == "PrintV2:PrintV2"]
    beside_it = [
        ("tf_Compute/1", f"MatMul_{at}:MatMul", line[2], 600.0)
        for at, line in enumerate(pauses)
    ]
    assert findings([*lines, *beside_it])["debug.print"].status == "pass"
