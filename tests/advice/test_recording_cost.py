"""`recording.cost`: buffers in every step, beside the steps, and before them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.traces.training import apart, findings, on_host, together

from stepscope.advice.rules.recording_quality.recording_cost import evaluate
from stepscope.derive.facts.recording import recorder_signals

RULE = "recording.cost"
FLUSH = "Activity Buffer Request"


def buffering(*, track: str = "main", flush_us: float = 2_500.0) -> list[Any]:
    """Steps after whose call the recording asks for a buffer, the device idle."""
    lines = apart()
    ends = [line[2] + line[3] for line in lines if line[1] == "train"]
    return lines + [(track, FLUSH, end + 100.0, flush_us) for end in ends]


def facts_of(found: Any) -> dict[str, float | None]:
    return {fact.name: fact.value for fact in found.facts}


@pytest.mark.parametrize("track", ["main", "another"])
def test_buffers_that_the_device_waits_for_are_found(track: str) -> None:
    found = findings(buffering(track=track))
    cost = found[RULE]
    assert (cost.status, cost.severity, cost.saving_ms) == ("fail", "warn", None)
    assert cost.share_percent == pytest.approx(100 * 2_500 / 13_100, abs=0.1)
    assert facts_of(cost)["buffers"] == pytest.approx(14 * 2_500)
    assert facts_of(cost)["start_stop"] is None
    assert cost.owners == ("profiler",)
    assert found["capture.quality"].status == "pass"


def test_the_same_buffers_while_the_device_works_cost_nothing() -> None:
    lines = together()
    begins = [line[2] for line in lines if line[1] == "train"]
    lines += [("other", FLUSH, begin + 3_000.0, 2_500.0) for begin in begins]
    found = findings(lines)[RULE]
    assert (found.status, found.share_percent) == ("pass", pytest.approx(0, abs=0.2))
    assert facts_of(found)["in_judged_steps"] == pytest.approx(14 * 2_500)


def test_starting_before_the_first_step_costs_the_steps_nothing() -> None:
    lines = [
        (track, name, start + 50_000.0, *rest)
        for track, name, start, *rest in together()
    ]
    lines += [("main", "cudaProfilerStart", 100.0, 40_000.0)]
    found = findings(lines)[RULE]
    assert (found.status, found.share_percent) == ("pass", 0.0)
    assert facts_of(found)["start_stop"] == pytest.approx(40_000.0)


def test_the_threads_of_a_run_without_a_device_may_wait_too() -> None:
    lines = on_host(lead_us=2_000.0)
    begins = [line[2] for line in lines if line[1] == "train"]
    lines += [("main", FLUSH, begin + 100.0, 1_500.0) for begin in begins]
    found = findings(lines, devices=None)[RULE]
    assert (found.status, found.severity) == ("fail", "warn")
    assert found.share_percent == pytest.approx(15.0, abs=0.1)


def test_one_step_that_holds_the_start_is_a_note(signals_of: Any, shares: Any) -> None:
    one = shares(profiler=[9.0] + [0.0] * 11)
    finding = evaluate(signals_of(one, {recorder_signals: {}}))
    assert (finding.status, finding.severity, finding.note) == ("fail", "info", "once")


@pytest.mark.parametrize(("ms", "status"), [(0.51, "fail"), (0.49, "pass")])
def test_a_twentieth_of_the_time_is_the_limit(
    signals_of: Any, shares: Any, ms: float, status: str
) -> None:
    signals = signals_of(shares(profiler=ms), {recorder_signals: {}})
    assert evaluate(signals).status == status


def test_without_the_events_of_the_host_it_cannot_tell(
    signals_of: Any, shares: Any
) -> None:
    found = findings(buffering(), without="events")[RULE]
    assert found.status == "cannot_tell"
    of_device = [line for line in buffering() if line[0].startswith("gpu:")]
    found = findings(of_device)[RULE]
    assert found.status == "cannot_tell"
    assert "host thread" in found.unavailable.reason
    signals = signals_of(shares(missing=["profiler"]), {recorder_signals: {}})
    assert evaluate(signals).status == "cannot_tell"
