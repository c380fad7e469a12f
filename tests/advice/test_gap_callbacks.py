"""`gap.callbacks` over literal accounts and on whole traces."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.traces.training import beside, findings, on_host, paused

from stepscope.advice.rules.idle_gaps.gaps import judge_callbacks as evaluate
from stepscope.derive.facts.evidence import Part, Saving
from stepscope.derive.facts.hosts.function_runs import function_runs
from stepscope.derive.facts.step_shares import NamedTime

MS = 1_000_000_000
LOGGING = NamedTime(
    "callback",
    "between",
    "log_metrics",
    function="log_metrics",
    file="train.py",
    line=31,
    time_ps=9 * MS,
)


def test_a_function_between_steps_is_found_by_file_and_line(
    signals_of: Any, shares: Any
) -> None:
    one = shares(between={"callback": 0.8}, names=[LOGGING])
    finding = evaluate(signals_of(one))
    assert (finding.status, finding.severity) == ("fail", "warn")
    assert finding.share_percent == pytest.approx(8.0)
    assert (finding.owners, finding.topics) == ((), ("callback",))
    assert finding.parts[0] == Part(
        name="log_metrics",
        function="log_metrics",
        file="train.py",
        line=31,
        share_percent=pytest.approx(7.5),
    )
    assert finding.saving_ms == Saving(high=pytest.approx(0.8))


@pytest.mark.parametrize(("ms", "status"), [(0.21, "fail"), (0.19, "pass")])
def test_a_fiftieth_of_the_time_is_the_limit(
    signals_of: Any, shares: Any, ms: float, status: str
) -> None:
    one = shares(between={"callback": ms})
    assert evaluate(signals_of(one)).status == status


def test_a_tenth_is_critical(signals_of: Any, shares: Any) -> None:
    finding = evaluate(signals_of(shares(between={"callback": 1.1})))
    assert finding.severity == "critical"


def test_time_that_nothing_names_cannot_tell(signals_of: Any, shares: Any) -> None:
    one = shares(between={"callback": 0.1, "unnamed": 0.5})
    finding = evaluate(signals_of(one))
    assert finding.status == "cannot_tell"
    assert "does not show the program's work" in finding.unavailable.reason


@pytest.mark.parametrize(
    ("hz", "ms", "status"),
    [
        # In twelve steps 9.6 ms lie between them: less than a look, or nine of them.
        (100.0, 0.8, "cannot_tell"),
        (100.0, 3.1, "fail"),
        (1000.0, 0.8, "fail"),
        (None, 0.8, "fail"),
        (100.0, 0.1, "pass"),
    ],
)
def test_looks_that_hardly_fell_between_steps_name_nobody(
    signals_of: Any, shares: Any, hz: float | None, ms: float, status: str
) -> None:
    one = shares(between={"callback": ms}, names=[LOGGING])
    runs = {one.host: SimpleNamespace(frames=SimpleNamespace(hz=hz))}
    finding = evaluate(signals_of(one, {function_runs: runs}))
    assert finding.status == status
    if status == "cannot_tell":
        assert finding.unavailable is not None
        assert "between steps is 9.6 ms in total" in finding.unavailable.reason
        # A range is exact, however short.
        ranges = [NamedTime("callback", "between", "log", time_ps=9 * MS)]
        exact = shares(between={"callback": ms}, names=ranges)
        found = evaluate(signals_of(exact, {function_runs: runs}))
        assert found.status == "fail"


def test_what_was_not_recorded_cannot_tell(signals_of: Any, shares: Any) -> None:
    fault = {"between": {"callback": 5.0}}
    unmarked = {"step_source": None, "step_confidence": 0.0}
    for signals in (
        signals_of(),
        signals_of(shares(**fault, fields=unmarked)),
        signals_of(shares(**fault, missing=["callback"])),
    ):
        assert evaluate(signals).status == "cannot_tell"


def test_a_callback_under_an_idle_device_explains_the_gap() -> None:
    found = findings(paused("on_train_batch_end", 800.0))
    one = found["gap.callbacks"]
    assert (one.status, one.severity) == ("fail", "warn")
    # After 13 of 14 steps of 10,000.5 µs; the last ends with the device's work.
    time_us = 13 * (10_000.5 + 810.5) + 10_000.5
    assert one.share_percent == pytest.approx(100 * 13 * 800 / time_us, abs=0.01)
    assert one.parts[0].name == "on_train_batch_end"
    assert one.explained_by == ()
    assert found["gaps.between"].status == "fail"
    assert found["gaps.between"].explained_by == ("gap.callbacks",)


@pytest.mark.parametrize(
    "lines",
    [
        paused("on_train_batch_end", 800.0, every=20),
        beside("on_train_batch_end", 6_000.0),
    ],
    ids=["rare", "queue full"],
)
def test_a_callback_that_nothing_waits_for_is_none(lines: list[Any]) -> None:
    assert findings(lines)["gap.callbacks"].status == "pass"


def test_without_a_device_the_steps_wait_for_callbacks_too() -> None:
    found = findings(on_host(pause="on_train_batch_end", pause_us=900.0))
    one = found["gap.callbacks"]
    assert (one.status, one.explained_by) == ("fail", ())
    # After all steps but the last, which ends with its marker: 19 of 20.
    time_us = 19 * 10_905 + 9_990
    assert one.share_percent == pytest.approx(100 * 19 * 900 / time_us, abs=0.001)
    assert findings(on_host())["gap.callbacks"].status == "pass"


def test_ops_of_the_model_after_the_mark_are_no_callbacks() -> None:
    """A step that is only handed over within its mark is computed after it."""
    lines = [
        (track, name, start, 100.0 if name == "train" else dur, *rest)
        for track, name, start, dur, *rest in on_host()
    ]
    assert findings(lines)["gap.callbacks"].status == "pass"


@pytest.mark.parametrize("table", ["device_activity", "events"])
def test_without_a_table_it_cannot_tell(table: str) -> None:
    found = findings(paused("on_train_batch_end", 800.0), without=table)
    assert found["gap.callbacks"].status == "cannot_tell"
