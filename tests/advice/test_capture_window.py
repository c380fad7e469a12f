"""`capture.window`: warm-up, too few steps, and a long first step that is neither."""

from __future__ import annotations

from typing import Any

import pytest
from tests.advice.test_capture_steps import host
from tests.support.traces.training import ahead, findings, on_host, together

from stepscope.advice.rules.recording_quality.recorded_steps import (
    judge_window as evaluate,
)
from stepscope.derive.facts.judged_steps import step_signals

RULE = "capture.window"
ONE = {"vm": host()}


def with_first(name: str, *, steps: int = 20, long: int = 2) -> list[Any]:
    """Bc whose first steps begin with 90 ms of something."""
    lines = on_host(steps=steps)
    added = 90_000.0
    moved = []
    for track, event, start, *rest in lines:
        number = int(start // 10_000.0)
        moved.append((track, event, start + added * min(number, long), *rest))
    begins = [line[2] for line in moved if line[1] == "train"]
    stretched = [
        (track, event, start, dur + added, *rest)
        if event == "train" and start in begins[:long]
        else (track, event, start + added, dur, *rest)
        if any(begin <= start < begin + 10_000.0 for begin in begins[:long])
        and event != "train"
        else (track, event, start, dur, *rest)
        for track, event, start, dur, *rest in moved
    ]
    return stretched + [
        ("main", name, begin + 10.0, added - 50.0) for begin in begins[:long]
    ]


def test_both_bases_pass() -> None:
    for lines in (together(), ahead()):
        found = findings(lines)[RULE]
        assert (found.status, found.value) == ("pass", 14)


def test_first_steps_that_compile_are_warm_up() -> None:
    found = findings(with_first("compilation of step"), devices=None)
    window = found[RULE]
    assert (window.status, window.severity, window.note) == ("fail", "info", "warm_up")
    assert window.owners == ("compile",)
    assert window.share_percent == pytest.approx(100 * 180 / 370, abs=2)
    assert found["xla.recompile"].note == "warm_up"


def test_warm_up_that_leaves_too_few_steps_is_a_warning() -> None:
    lines = with_first("compilation of step", steps=4)
    window = findings(lines, devices=None)[RULE]
    assert (window.severity, window.note) == ("warn", "warm_up")


def test_a_first_step_that_loads_a_checkpoint_is_no_warm_up() -> None:
    lines = with_first("restore", long=1)
    assert findings(lines, devices=None)[RULE].status == "pass"


def test_two_steps_are_too_few() -> None:
    lines = [line for line in together() if line[2] < 20_000.0]
    found = findings(lines)[RULE]
    assert (found.status, found.severity) == ("fail", "info")


@pytest.mark.parametrize("table", ["events"])
def test_a_table_that_is_needed_and_absent_never_becomes_a_pass(table: str) -> None:
    lines = with_first("compilation of step")
    assert findings(lines, devices=None, without=table)[RULE].status == "cannot_tell"


@pytest.mark.parametrize(
    ("compiles", "note"),
    [
        ([6.1] + [0.0] * 11, "warm_up"),
        ([5.9] + [0.0] * 11, None),
        ([0.0] * 4 + [6.1] + [0.0] * 7, None),
        ([3.0] * 12, None),
    ],
)
def test_each_limit_decides(
    signals_of: Any, shares: Any, compiles: list[float], note: str | None
) -> None:
    one = shares(compile=compiles)
    finding = evaluate(signals_of(one, {step_signals: ONE}))
    assert finding.note == note
    assert finding.status == ("pass" if note is None else "fail")


def test_without_a_record_of_compiling_the_length_alone_speaks(
    signals_of: Any, shares: Any
) -> None:
    fields = {"window_ps": (30_000_000_000,) + (10_000_000_000,) * 11}
    blind = shares(missing=["compile"], fields=fields)
    seeing = shares(fields=fields)
    for one, note in ((blind, "long_first"), (seeing, None)):
        finding = evaluate(signals_of(one, {step_signals: ONE}))
        assert finding.note == note


@pytest.mark.parametrize(("apart_ms", "note"), [(11, "ranks"), (9, None)])
def test_ranks_that_were_not_recorded_together_are_told(
    signals_of: Any, shares: Any, apart_ms: int, note: str | None
) -> None:
    hosts = {
        "a": host(begins_ns=10**18),
        "b": host(begins_ns=10**18 + apart_ms * 10**6),
    }
    finding = evaluate(signals_of(shares(), {step_signals: hosts}))
    assert finding.note == note
