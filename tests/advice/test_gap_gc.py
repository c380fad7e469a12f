"""`gap.gc` over literal accounts and on whole traces."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.traces import blueprint
from tests.support.traces.kineto import complete, read_file
from tests.support.traces.training import (
    WATCHED,
    beside,
    findings,
    on_host,
    paused,
    together,
)

from stepscope.advice.engine import signals_of as all_signals
from stepscope.advice.rules.idle_gaps.gaps import judge_garbage as evaluate
from stepscope.reporting.words.findings import lead_sentence

if TYPE_CHECKING:
    from pathlib import Path

GC = "garbage collection"


@pytest.mark.parametrize(
    ("ms", "status", "severity"),
    [(0.11, "fail", "warn"), (0.09, "pass", "info"), (0.51, "fail", "critical")],
)
def test_a_hundredth_of_the_time_is_the_limit(
    signals_of: Any, shares: Any, ms: float, status: str, severity: str
) -> None:
    finding = evaluate(signals_of(shares(garbage=ms)))
    assert (finding.status, finding.severity) == (status, severity)


def test_what_was_not_recorded_cannot_tell(signals_of: Any, shares: Any) -> None:
    one = shares(missing=["garbage"])
    assert evaluate(signals_of(one)).status == "cannot_tell"
    assert evaluate(signals_of()).status == "cannot_tell"


def test_a_collection_in_each_step_under_an_idle_device_is_found() -> None:
    finding = findings(paused(GC, 500.0))["gap.gc"]
    assert (finding.status, finding.severity) == ("fail", "warn")
    # After 13 of 14 steps of 10,000.5 µs, each 5.5 µs before and after.
    time_us = 13 * (10_000.5 + 510.5) + 10_000.5
    assert finding.share_percent == pytest.approx(100 * 13 * 500 / time_us, abs=0.01)
    assert finding.parts[0].name == GC


@pytest.mark.parametrize(
    "lines",
    [together() + WATCHED, beside(GC, 500.0), paused(GC, 500.0, track="loader")],
    ids=["none", "device busy", "another thread"],
)
def test_collections_that_nothing_waits_for_are_none(lines: list[Any]) -> None:
    found = findings(lines)["gap.gc"]
    assert (found.status, found.value) == ("pass", 0.0)
    assert found.actions == ()


def test_a_recording_that_keeps_no_collections_cannot_tell() -> None:
    found = findings(together())["gap.gc"]
    assert found.status == "cannot_tell"
    assert "stepscope" in found.unavailable.remedy


def test_without_a_device_the_steps_wait_for_collections_too() -> None:
    found = findings(on_host(pause=GC, pause_us=500.0))["gap.gc"]
    assert (found.status, found.severity) == ("fail", "warn")
    # After all steps but the last, which ends with its marker: 19 of 20.
    time_us = 19 * 10_505 + 9_990
    assert found.share_percent == pytest.approx(100 * 19 * 500 / time_us, abs=0.001)
    assert findings(on_host() + WATCHED)["gap.gc"].status == "pass"


@pytest.mark.parametrize("table", ["device_activity", "events"])
def test_without_a_table_it_cannot_tell(table: str) -> None:
    assert findings(paused(GC, 500.0), without=table)["gap.gc"].status == "cannot_tell"


def test_collections_of_pytorchs_own_recorder_count(tmp_path: Path) -> None:
    # As PyTorch 2.13 writes them with `record_python_gc_info`: 600 of 10,000 µs.
    events = []
    for number in range(12):
        begin = 10_000.0 * number
        events += [
            complete(f"ProfilerStep#{number}", begin, 9_990.0, cat="user_annotation"),
            complete("aten::mm", begin + 10.0, 9_000.0),
            complete("Python GC", begin + 9_100.0, 600.0, cat="python_function"),
            complete("train.py(7): f", begin + 5.0, 9_980.0, cat="python_function"),
        ]
    path = tmp_path / "vm_1.1700000000.pt.trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    profile = blueprint.profile(read_file(path))
    finding = evaluate(all_signals(profile))
    assert (finding.status, finding.severity) == ("fail", "critical")
    assert finding.share_percent == pytest.approx(6.0, abs=0.1)
    assert finding.parts[0].name == "Python GC"


def test_collections_are_no_ops_beside_which_a_function_would_be_a_fault() -> None:
    """A step of a plain program: `fit` for 6 ms, then 3.9 ms of collecting garbage.

    The story: collections counted as ops of a model, so that `fit` was blamed.
    """
    lines = [line for line in on_host() if not line[1].startswith("model/")]
    for begin in [line[2] for line in lines if line[1] == "train"]:
        lines += [
            ("main", "/app/train.py(12): fit", begin, 6_000.0),
            ("main", GC, begin + 6_050.0, 3_900.0),
        ]
    found = findings(lines, devices=None)
    assert (found["host.work"].note, found["gap.gc"].status) == ("functions", "fail")


def test_a_function_that_leaves_much_garbage_is_found_beside_the_collections() -> None:
    """As above, but the collections come while `fit` runs, which `step` calls."""
    lines = [line for line in on_host() if not line[1].startswith("model/")]
    for begin in [line[2] for line in lines if line[1] == "train"]:
        lines += [
            ("main", "/app/train.py(30): step", begin, 9_950.0),
            ("main", "/app/train.py(12): fit", begin + 10.0, 9_900.0),
            ("main", GC, begin + 6_050.0, 3_800.0),
        ]
    found = findings(lines, devices=None)
    assert (found["host.work"].status, found["gap.gc"].status) == ("fail", "fail")
    assert found["host.work"].parts[0].name == "fit"
    assert found["host.work"].share_percent > found["gap.gc"].share_percent


def collected(*, younger: int, function: str = "") -> list[Any]:
    """Steps of 10 ms in which all objects are looked at for 5 ms, after young ones."""
    lines = on_host(lead_us=6_000.0)
    for begin in [line[2] for line in lines if line[1] == "train"]:
        lines += [
            ("main", GC, begin + 50.0 + 2.0 * at, 1.0, {"generation": at % 11 == 10})
            for at in range(younger)
        ]
        lines.append(("main", GC, begin + 900.0, 5_000.0, {"generation": 2}))
        if function:
            lines.append(("main", function, begin + 40.0, 5_900.0))
    return lines


@pytest.mark.parametrize(
    ("younger", "first"),
    [(0, "Do not call `gc.collect()`"), (130, "After the set-up, exclude objects")],
)
def test_who_asks_for_collections_shows_in_what_precedes_them(
    younger: int, first: str
) -> None:
    """By itself Python looks at all objects after 11 times 11 collections of others."""
    found = findings(collected(younger=younger), devices=None)["gap.gc"]
    assert found.status == "fail"
    assert found.actions[0].text.startswith(first)


def test_the_function_that_collects_is_named() -> None:
    lines = collected(younger=0, function="$/app/serve.py:8 handle")
    found = findings(lines, devices=None)["gap.gc"]
    assert (found.parts[0].name, found.parts[0].line) == ("handle", 8)
    assert "most of it in `handle` (serve.py:8)" in lead_sentence(found)


@pytest.mark.parametrize(
    ("younger", "advised"),
    [(0, "Do not call `gc.collect()`"), (130, "Create fewer Python objects")],
)
def test_a_function_that_leaves_much_garbage_is_not_said_to_collect_by_hand(
    younger: int, advised: str
) -> None:
    """The story: pixels written as text, number by number."""
    lines = collected(younger=younger, function="$/app/gan.py:10 save_samples")
    found = findings(lines, devices=None)["host.work"]
    assert (found.status, found.parts[0].name) == ("fail", "save_samples")
    assert found.actions[0].text.startswith(advised)
