"""Whether steps wait for their input, over literal times of devices and hosts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from msgspec.structs import asdict

from stepscope.derive.verdicts.effect_status import EffectStatus, StepSeries
from stepscope.derive.verdicts.input_verdict import (
    HIGHLY,
    MODERATELY,
    NOT,
    UNKNOWN,
    InputTime,
    InputVerdict,
    decide_input,
    records_fetches,
)
from stepscope.derive.verdicts.recorded_devices import DeviceSignals
from stepscope.thresholds import THRESHOLDS
from stepscope.unavailable import Unavailable

MS = 1_000_000_000
ABSENT = Unavailable(code="ABSENT", reason="Absent.", remedy="Record it.")
RECORDED = DeviceSignals(recorded="recorded")
SILENT = DeviceSignals(recorded="silent")


def time_of(device: int | None = 0, *, steps: int = 12, **fields: Any) -> InputTime:
    """Steps of 10 ms with so many ms of each cause in each of them."""
    causes = ("fetch", "transfer", "starved", "between", "unexplained")
    ms = {cause: fields.pop(cause, 0.0) for cause in causes}
    usual = {
        "host": "vm",
        "device": device,
        "step_source": "marker",
        "step_confidence": 0.9,
        "closed": True,
        "window_ps": (10 * MS,) * steps,
        "parts_ps": {name: (round(one * MS),) * steps for name, one in ms.items()},
        "is_blind": False,
        "lost_ps": 0,
        "working_ps": 5 * MS * steps,
    }
    return InputTime(**{**usual, **fields})


def decided(*times: InputTime, **given: Any) -> InputVerdict:
    usual = {"fetched": True, "device": RECORDED, "blind": None}
    return decide_input(times, **{**usual, **given}, thresholds=THRESHOLDS)


@pytest.mark.parametrize(
    ("fields", "fetched", "unknown_ms"),
    [
        # Of 120 ms a fifth is 24: less of unexplained time may not be input.
        ({"unexplained": 1.99}, True, 0.0),
        ({"unexplained": 2.0}, True, 24.0),
        ({"unexplained": 1.0, "is_blind": True}, True, 12.0),
        # Without fetches, time between steps may be, but for what is known to be.
        ({"unexplained": 1.0, "between": 2.0, "starved": 0.5}, False, 30.0),
        ({"unexplained": 1.0, "between": 2.0, "starved": 0.5}, True, 0.0),
    ],
)
def test_time_that_may_be_input(
    fields: dict[str, Any], *, fetched: bool, unknown_ms: float
) -> None:
    time = time_of(lost_ps=7, closed=False, **fields)
    series = time.series(fetched=fetched, thresholds=THRESHOLDS)
    assert asdict(series) == {
        "step_source": "marker",
        "step_confidence": 0.9,
        "closed": False,
        "window_ps": (10 * MS,) * 12,
        "parts_ps": {
            cause: time.parts_ps[cause] for cause in ("fetch", "transfer", "starved")
        },
        "unknown_ps": round(unknown_ms * MS),
        "doubt_ps": 0,
        "excess_ps": 7,
    }


def test_shares_are_of_the_judged_windows() -> None:
    time = time_of(fetch=1.0, transfer=0.5, starved=0.25, between=3.0, unexplained=1.0)
    assert time.total_ps == 120 * MS
    assert time.percent == pytest.approx(17.5)
    assert time_of(steps=0).percent == 0.0


@pytest.mark.parametrize(
    ("fetch", "word", "bound"),
    [(0.49, NOT, False), (0.5, MODERATELY, True), (1.99, MODERATELY, True)],
)
def test_a_twentieth_is_moderately_bound(
    fetch: float, word: str, *, bound: bool
) -> None:
    found = decided(time_of(fetch=fetch))
    assert (found.word, found.input_bound, found.why) == (word, bound, None)
    assert found.share_percent == pytest.approx(10 * fetch)
    assert (found.leading, found.label, found.unknown_ps) == ("fetch", "vm:0", 0)


def test_a_fifth_is_highly_bound_and_its_leading_cause_is_named() -> None:
    found = decided(time_of(None, fetch=0.5, transfer=1.0, starved=0.5))
    assert (found.word, found.input_bound) == (HIGHLY, True)
    assert (found.label, found.leading) == ("vm", "transfer")
    parts = [found.part_percent(cause) for cause in ("fetch", "transfer", "starved")]
    assert parts == pytest.approx([5.0, 10.0, 5.0])
    assert found.part_percent("between") == 0.0
    nothing = decided(time_of())
    assert (nothing.word, nothing.leading, nothing.share_percent) == (NOT, None, 0.0)


def test_the_busiest_device_is_judged_and_unknown_time_is_of_all() -> None:
    less = time_of(0, fetch=5.0, unexplained=2.0, working_ps=40 * MS)
    more = time_of(1, fetch=0.1, unexplained=3.0, working_ps=41 * MS, host="b")
    host = time_of(None, fetch=9.0, working_ps=90 * MS)
    for order in ((less, more, host), (host, more, less)):
        found = decided(*order)
        assert (found.host, found.device) == ("b", 1)
        assert found.share_percent == pytest.approx(1.0)
        assert found.unknown_ps == 60 * MS
        # 1 % and up to 30 % of unknown time: nobody knows.
        assert (found.word, found.input_bound, found.why) == (UNKNOWN, None, None)


def test_of_hosts_without_devices_the_one_with_most_input_is_judged() -> None:
    times = [time_of(None, host=name, fetch=ms) for name, ms in (("a", 1), ("b", 2))]
    assert decided(*times).host == "b"
    assert decided(*reversed(times)).host == "b"


def test_without_times_there_are_no_steps_to_judge() -> None:
    found = decided()
    assert (found.host, found.device, found.unknown_ps) == ("", None, 0)
    assert found.series == StepSeries(
        step_source=None, step_confidence=0.0, window_ps=(), parts_ps={}
    )
    assert found.status == EffectStatus("cannot_tell")
    unsure = decided(time_of(step_confidence=0.59))
    assert found.why is not None
    assert found.why == unsure.why


@pytest.mark.parametrize(
    ("fields", "given", "why"),
    [
        ({"step_confidence": 0.6}, {}, None),
        ({"step_confidence": 0.59}, {}, "steps"),
        ({"step_confidence": 0.59}, {"blind": ABSENT}, "steps"),
        ({}, {"blind": ABSENT}, "ABSENT"),
        ({}, {"blind": ABSENT, "device": SILENT}, "ABSENT"),
        ({}, {"device": SILENT}, "NO_DEVICE_EVENTS"),
        (
            {},
            {"device": DeviceSignals(recorded="silent", reason=ABSENT)},
            "ABSENT",
        ),
        ({"fetch": 0.4}, {"device": SILENT}, None),
        ({}, {"device": DeviceSignals(recorded="host_only")}, None),
    ],
)
def test_why_no_amount_of_input_gives_a_verdict(
    fields: Any, given: Any, why: str | None
) -> None:
    found = decided(time_of(None, **{"fetch": 1.0, **fields}), **given)
    if why is None:
        assert found.why is None
        assert found.word == (NOT if "fetch" in fields else MODERATELY)
        return
    assert found.why is not None
    assert (found.status, found.word) == (EffectStatus("cannot_tell"), UNKNOWN)
    if why != "steps":
        assert found.why.code == why
    else:
        assert found.why.code not in ("ABSENT", "NO_DEVICE_EVENTS")
    if given.get("device") is not None and "blind" not in given:
        assert "10 %" in found.why.reason
        assert (found.why.remedy == ABSENT.remedy) is (why == "ABSENT")


def test_lost_records_put_a_finding_in_doubt() -> None:
    """6 of 120 ms are a twentieth, and not without 1 ps that may be lost."""
    assert decided(time_of(fetch=0.5)).word == MODERATELY
    assert decided(time_of(fetch=0.5, lost_ps=1)).word == UNKNOWN


@pytest.mark.parametrize(
    ("waits", "iterators", "recorded"),
    [
        ((), ABSENT, False),
        ((1,), ABSENT, True),
        (None, ABSENT, False),
        (None, pl.DataFrame({"long_name": ["Batch"]}), True),
        ((), pl.DataFrame({"long_name": ["Batch"]}), True),
        ((), pl.DataFrame({"long_name": []}), False),
        ((1,), pl.DataFrame({"long_name": []}), True),
    ],
)
def test_waits_for_input_or_stages_of_a_pipeline_are_fetches(
    waits: Any, iterators: Any, *, recorded: bool
) -> None:
    trace: Any = SimpleNamespace(table={"iterators": iterators}.__getitem__)
    classes: Any = ABSENT if waits is None else SimpleNamespace(input_wait=waits)
    assert records_fetches(trace, classes) is recorded
