"""Every number of findings about devices and recordings, worked out by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from tests.support.traces.literal import fields_of

from stepscope.advice.registry import RULES
from stepscope.derive.facts.devices.all_reduces import (
    AllReduceSignals,
    CommunicationSignals,
    exchange_signals,
)
from stepscope.derive.facts.devices.device_fill import (
    DeviceFill,
    Unfilled,
    fill_signals,
)
from stepscope.derive.facts.devices.set_up import SetUp, set_up_signals
from stepscope.derive.facts.evidence import CauseShare, Saving
from stepscope.derive.facts.judged_steps import HostSteps, step_signals
from stepscope.derive.facts.recording import record_grade
from stepscope.derive.facts.savings.what_if_changes import Carried, Faster
from stepscope.derive.verdicts.recorded_devices import DeviceSignals
from stepscope.thresholds import THRESHOLDS

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding
    from stepscope.advice.signals import Signals

MS = 1_000_000_000
US = 1_000_000
MIB = 2**20
HOST_ONLY = DeviceSignals(recorded="host_only")
RULE = {rule.item.id: rule for rule in RULES}


def judged(name: str, signals: Signals) -> Finding:
    return RULE[name].evaluate(signals)


def changes_of(name: str, signals: Signals) -> Any:
    return fields_of(RULE[name].changes(signals))


def numbers(finding: Finding) -> dict[str, Any]:
    """What a finding says in numbers, without texts and empty fields."""
    texts = ("id", "title", "stage", "calibrated", "confirm", "refute", "floors")
    fields = {name: getattr(finding, name) for name in finding.__struct_fields__}
    for name in (*texts, "inputs", "actions"):
        del fields[name]
    fields["facts"] = {
        fact.name: fact.value for fact in finding.facts if fact.value is not None
    }
    return {
        name: value for name, value in fields.items() if value not in (None, (), {})
    }


# --- how full a device is ---


def fill(**fields: Any) -> DeviceFill:
    """Of 1000 ps 400 are in kernels with few blocks, and 300 of them are idle."""
    return DeviceFill(
        **{
            "cores": 108,
            "kernel_ps": 1000,
            "unshaped_ps": 100,
            "unfilled_ps": 400,
            "idle_ps": 300,
            "steps": 3,
            "largest": (
                Unfilled("a", 27, 250, 200, 4.04, 12.16),
                Unfilled("b", 54, 150, 100, 2.0, None),
            ),
            "last_round_ps": 200,
            "last_round_idle_ps": 50,
            "in_rounds": (Unfilled("c", 300, 200, 50, 0.4, 2.0),),
            "classes": ((0.75, (3, 4)), (0.5, (7,))),
            **fields,
        }
    )


def filled(signals_of: Any, account: Any, one: Any, **given: Any) -> Signals:
    signals: Signals = signals_of(
        account, {fill_signals: {"vm:0": one}, record_grade: 0.9}, **given
    )
    return signals


def test_kernels_that_fill_little_of_a_device(signals_of: Any, shares: Any) -> None:
    """Computing takes 8 of 10 ms: 3.2 in such kernels, 2.4 of them idle."""
    signals = filled(signals_of, shares(launch=2.0), fill())
    finding = judged("kernel.fill", signals)
    assert [part.detail is not None for part in finding.parts] == [True, True]
    found = numbers(finding)
    parts = found.pop("parts")
    assert [(part.name, part.share_percent) for part in parts] == [
        ("a", 20.0),
        ("b", 12.0),
    ]
    assert found == {
        "status": "fail",
        "severity": "critical",
        "confidence": 0.9,
        "value": 32.0,
        "unit": "percent",
        "ms_per_step": 3.2,
        "threshold": THRESHOLDS.fill_warn,
        "steps_clean": 12,
        "devices": ("vm:0",),
        "facts": {
            "cores": 108,
            "last_round": 16.0,
            "last_round_idle": 4.0,
            "for_one_each": 4.0,
            "for_three_rounds": 12.2,
            "without_grid": 10.0,
        },
        "saving_ms": Saving(low=1.2, high=2.4),
    }
    assert changes_of("kernel.fill", signals) == fields_of(
        (Faster((3, 4), (1 - 0.375, 0.25)), Faster((7,), (0.75, 0.5)))
    )


@pytest.mark.parametrize(
    ("fields", "account", "status", "severity", "note"),
    [
        ({"unfilled_ps": 374}, {}, "fail", "warn", None),
        ({"unfilled_ps": 375}, {}, "fail", "critical", None),
        ({"unfilled_ps": 375}, {"steps": 2}, "fail", "warn", None),
        ({"unfilled_ps": 125}, {}, "fail", "warn", None),
        # A tenth of the time is a finding, if it is 0.1 ms of a step.
        ({"unfilled_ps": 124}, {}, "pass", "info", "rounds"),
        ({"unfilled_ps": 124, "last_round_ps": 124}, {}, "pass", "info", None),
        ({"unfilled_ps": 124, "last_round_ps": 125}, {}, "pass", "info", "rounds"),
        ({"unfilled_ps": 124, "last_round_ps": None}, {}, "pass", "info", None),
        ({}, {"step_ms": 0.3125, "launch": 0.0625}, "fail", "critical", None),
        ({}, {"step_ms": 0.31, "launch": 0.062}, "pass", "info", "rounds"),
    ],
)
def test_levels_of_filling_a_device(
    signals_of: Any,
    shares: Any,
    fields: dict[str, Any],
    account: dict[str, Any],
    *,
    status: str,
    severity: str,
    note: str | None,
) -> None:
    signals = filled(signals_of, shares(**{"launch": 2.0, **account}), fill(**fields))
    found = judged("kernel.fill", signals)
    assert (found.status, found.severity, found.note) == (status, severity, note)
    assert (found.saving_ms is not None) is (status == "fail")
    names = [part.name for part in found.parts]
    assert names == (["c"] if note == "rounds" else ["a", "b"])


def test_without_shapes_steps_or_a_device_filling_is_unknown(
    signals_of: Any, shares: Any
) -> None:
    account = shares(launch=2.0)
    for unshaped, status in ((499, "fail"), (500, "cannot_tell")):
        signals = filled(signals_of, account, fill(unshaped_ps=unshaped))
        assert judged("kernel.fill", signals).status == status
    other = signals_of(account, {fill_signals: {"vm:1": fill()}})
    assert judged("kernel.fill", other).status == "cannot_tell"
    assert changes_of("kernel.fill", other) == ()
    assert changes_of("kernel.fill", signals_of(account)) == ()
    host = filled(signals_of, account, fill(), device=HOST_ONLY)
    assert judged("kernel.fill", host).status == "not_applicable"
    whole = shares(launch=2.0, fields={"step_source": None, "step_confidence": 0.0})
    found = judged("kernel.fill", filled(signals_of, whole, fill(largest=())))
    assert (found.ms_per_step, found.steps_clean, found.saving_ms) == (None,) * 3
    assert (found.status, found.confidence) == ("fail", 0.5)
    facts = {fact.name: fact.value for fact in found.facts}
    assert (facts["for_one_each"], facts["for_three_rounds"]) == (None, None)


# --- small models ---


@pytest.mark.parametrize(
    ("times", "launch", "status"),
    [
        # Computing takes 20 %, and launching and copying 50.
        ({}, {}, "fail"),
        ({"compute_16": 2.1}, {}, "pass"),
        ({"launch": 2.9, "sync": 3.1}, {}, "pass"),
        ({"collective": 0.1, "sync": 2.9}, {}, "pass"),
        # A kernel is shorter than a launch, or than 10 µs where that is unknown.
        ({}, {"median_kernel_ps": 10 * US}, "pass"),
        (
            {},
            {"median_kernel_ps": 9 * US, "latency_samples": 0, "latency_ps": 1},
            "fail",
        ),
        ({}, {"median_kernel_ps": 11 * US, "latency_samples": 0}, "pass"),
    ],
)
def test_a_model_that_is_too_small_for_its_device(
    signals_of: Any,
    shares: Any,
    launch_of: Any,
    times: dict[str, float],
    launch: dict[str, int],
    *,
    status: str,
) -> None:
    given = {"launch": 3.0, "copy_in": 1.0, "copy_out": 1.0, "sync": 3.0, **times}
    extra = given.pop("compute_16", 2.0) - 2.0
    given["sync"] -= extra
    launching = launch_of(
        **{"latency_ps": 10 * US, "median_kernel_ps": 9 * US, **launch}
    )
    signals = signals_of(shares(**given), launching=launching)
    assert judged("gpu.worth", signals).status == status


def test_the_numbers_of_a_small_model(
    signals_of: Any, shares: Any, launch_of: Any
) -> None:
    account = shares(launch=4.0, copy_in=1.0, sync=3.0)
    launching = launch_of(latency_ps=8 * US, median_kernel_ps=5 * US)
    found = judged("gpu.worth", signals_of(account, launching=launching))
    assert (found.value, found.devices) == (50.0, ("vm:0",))
    assert [(fact.name, fact.value) for fact in found.facts] == [
        ("computing", 20.0),
        ("median_kernel", 5.0),
        ("launch_latency", 8.0),
    ]
    # What sets the device up is no launching, and happens once.
    for kind, value in (("set_up", 49.0), ("over", 50.0)):
        once = {set_up_signals: {"vm:0": SetUp(kind, 1.0, ())}}
        found = judged("gpu.worth", signals_of(account, once, launching=launching))
        assert found.value == value
        assert found.status == ("fail" if value == 50.0 else "pass")
    # More than 2 ms of work in a step are much, however idle the device.
    for step_ms, status in ((10.0, "fail"), (10.1, "pass")):
        large = shares(
            step_ms=step_ms, launch=step_ms * 0.5, sync=step_ms * 0.3, steps=3
        )
        found = judged("gpu.worth", signals_of(large, launching=launching))
        assert found.status == status


@pytest.mark.parametrize(
    ("of_steps", "confidence"), [(0.0, 0.5), (0.7, 0.7), (1.0, 0.9)]
)
def test_a_verdict_is_as_sure_as_the_steps_and_the_recording(
    signals_of: Any, shares: Any, of_steps: float, confidence: float
) -> None:
    """Without steps it is half as sure as one about steps that are marked."""
    account = shares(fields={"step_confidence": of_steps})
    signals = filled(signals_of, account, fill())
    for name in ("gpu.worth", "kernel.fill"):
        assert judged(name, signals).confidence == confidence


# --- windows of a recording ---


def steps_of(**fields: Any) -> HostSteps:
    return HostSteps(
        **{
            "source": "marker",
            "confidence": 1.0,
            "count": 12,
            "anchor": "host",
            "period_ps": 10 * MS,
            "left_out": {},
            "tried": (),
            "requests": 0,
            "outside_percent": None,
            "begins_ns": None,
            **fields,
        }
    )


def windowed(signals_of: Any, account: Any, **hosts: HostSteps) -> Finding:
    given = {step_signals: hosts or {"vm": steps_of()}, record_grade: 0.8}
    return judged("capture.window", signals_of(account, given))


def compiling(shares: Any, *ms: float, **more: Any) -> Any:
    return shares(steps=len(ms), compile=list(ms), **more)


def test_a_recorded_warm_up(signals_of: Any, shares: Any) -> None:
    """The first of ten steps compiles for 9 of its 10 ms, and the fourth for 0.4."""
    account = compiling(shares, 9.0, 0.0, 0.0, 0.4, *[0.0] * 6)
    hosts = {"vm": steps_of(left_out={"outlier": 2, "cut": 1}, period_ps=9 * MS)}
    found = windowed(signals_of, account, **hosts)
    assert numbers(found) == {
        "status": "fail",
        "severity": "info",
        "note": "warm_up",
        "confidence": 0.8,
        "value": pytest.approx(9.4),
        "unit": "percent",
        "share_percent": pytest.approx(9.4),
        "owners": ("compile",),
        "place": "any",
        "ms_per_step": pytest.approx(0.94),
        "threshold": THRESHOLDS.dirty_compile,
        "steps_clean": 10,
        "devices": ("vm:0",),
        "facts": {
            "judged": 10,
            "clean": 9,
            "early": 9.0,
            "times": 1.0,
            "step": 9_000.0,
        },
    }
    (judged_fact,) = (fact for fact in found.facts if fact.name == "judged")
    assert judged_fact.note == "1 cut, 2 outlier"


@pytest.mark.parametrize(
    ("ms", "note", "status", "severity"),
    [
        # 5 % of the time in the first three steps is a warm-up.
        ([5.0, *[0.0] * 9], "warm_up", "fail", "info"),
        ([4.0, 0.0, 1.0, *[0.0] * 7], "warm_up", "fail", "info"),
        ([3.9, 0.0, 1.0, *[0.0] * 7], None, "pass", "info"),
        ([4.9, *[0.0] * 9], None, "pass", "info"),
        ([0.0, 0.0, 0.0, 9.0, *[0.0] * 6], None, "pass", "info"),
        # From the third step on 2 % are recompiled: that is another rule's.
        ([5.0, 0.0, 1.6, *[0.0] * 7], None, "pass", "info"),
        ([5.0, 0.0, 1.59, *[0.0] * 7], "warm_up", "fail", "info"),
        # Fewer than three usable steps remain, of which 5 % compile at most.
        ([5.0, 0.5, 0.0], "warm_up", "fail", "warn"),
        ([5.0, 0.6, 0.0, 0.0], "warm_up", "fail", "warn"),
        ([5.0, 0.5, 0.0, 0.0], "warm_up", "fail", "info"),
        ([0.0, 0.0], None, "fail", "info"),
    ],
)
def test_levels_of_a_warm_up(
    signals_of: Any,
    shares: Any,
    ms: list[float],
    note: str | None,
    *,
    status: str,
    severity: str,
) -> None:
    found = windowed(signals_of, compiling(shares, *ms))
    assert (found.note, found.status, found.severity) == (note, status, severity)
    if note is None:
        clean = sum(100 * time <= 5 * 10.0 for time in ms)
        assert (found.value, found.unit) == (clean, "count")
        assert found.threshold == THRESHOLDS.few_steps
        assert (found.owners, found.place, found.share_percent) == ((), None, None)


@pytest.mark.parametrize(
    ("apart_ns", "note"), [(10_000_000, None), (10_000_001, "ranks")]
)
def test_hosts_that_begin_a_step_apart_recorded_other_steps(
    signals_of: Any, shares: Any, apart_ns: int, note: str | None
) -> None:
    account = compiling(shares, *[0.0] * 5)
    hosts = {"vm": steps_of(begins_ns=100), "b": steps_of(begins_ns=100 + apart_ns)}
    found = windowed(signals_of, account, **hosts)
    assert found.note == note
    facts = {fact.name: fact.value for fact in found.facts}
    assert facts["apart"] == apart_ns / 1000
    for other in ({"vm": hosts["vm"]}, hosts | {"c": steps_of()}):
        found = windowed(signals_of, account, **other)
        assert found.note is None
        assert {fact.name: fact.value for fact in found.facts}["apart"] is None


@pytest.mark.parametrize(
    ("first_ms", "missing", "note"),
    [(20.1, ("compile",), "long_first"), (20.0, ("compile",), None), (30.0, (), None)],
)
def test_a_long_first_step_may_compile(
    signals_of: Any, shares: Any, first_ms: float, missing: tuple[str, ...], note: str
) -> None:
    windows = tuple(round(ms * MS) for ms in (first_ms, 10.0, 9.0, 11.0))
    account = shares(steps=4, missing=missing, fields={"window_ps": windows})
    found = windowed(signals_of, account)
    assert found.note == note
    times = {fact.name: fact.value for fact in found.facts}["times"]
    assert times == round(first_ms / 10, 1)
    few = shares(steps=3, missing=missing, fields={"window_ps": windows[:3]})
    found = windowed(signals_of, few)
    assert {fact.name: fact.value for fact in found.facts}["times"] is None
    whole = shares(fields={"step_source": None})
    assert windowed(signals_of, whole).status == "cannot_tell"


# --- all-reduces ---

CALLS = pl.DataFrame(
    {
        "activity": [0, 1, 2, 3, 4],
        "step": [0, 0, 0, 1, 1],
        "bytes": [50 * MIB, 10 * MIB, 20, 4 * MIB, 4 * MIB - 1],
        "dur_ps": [900, 500, 100, 700, 50],
        "least_ps": [800, 400, 100, 600, 50],
        "link_ps": [300.0, 100.0, None, 10.0, 70.0],
    }
)


def reduced(**fields: Any) -> AllReduceSignals:
    """Twenty all-reduces with 60 MiB in each of three steps of 10 ms."""
    return AllReduceSignals(
        **{
            "label": "vm:0",
            "kinds": frozenset({"all-reduce", "broadcast"}),
            "step_source": "marker",
            "step_confidence": 0.7,
            "window_ps": (10 * MS,) * 3,
            "exposed_ps": (2 * MS, 3 * MS, 4 * MS),
            "count": 20.0,
            "small": 15.0,
            "bytes": 60.0 * MIB,
            "least_ps": 5.0 * MS,
            "expected_ps": 3.0 * MS,
            "workers": 2,
            "gb_per_s": 12.5,
            "rate_source": "data sheet",
            "calls": CALLS,
            **fields,
        }
    )


def exchanging(signals_of: Any, reduces: Any, **given: Any) -> Signals:
    counted = CommunicationSignals({"vm:0": 9}, {}, {})
    signals: Signals = signals_of(
        {exchange_signals: reduces, record_grade: 0.9},
        **{"exchanged": counted, **given},
    )
    return signals


def test_more_all_reduces_than_buckets(signals_of: Any) -> None:
    """60 MiB are three buckets: 17 of 20 all-reduces, of 9 exposed ms, are surplus."""
    finding = judged("allreduce.count", exchanging(signals_of, reduced()))
    found = numbers(finding)
    assert found.pop("pattern").steps_hit == 3
    assert found.pop("saving_ms").high == pytest.approx(2.55)
    smallest = THRESHOLDS.smallest_effect.value / US
    assert found == {
        "status": "fail",
        "severity": "warn",
        "confidence": 0.7,
        "value": pytest.approx(25.5),
        "unit": "percent",
        "share_percent": pytest.approx(25.5),
        "ms_per_step": pytest.approx(2.55),
        "threshold": THRESHOLDS.surplus_warn,
        "steps_hit": 3,
        "steps_clean": 3,
        "devices": ("vm:0",),
        "causes": (CauseShare(cause="surplus", share_percent=pytest.approx(25.5)),),
        "facts": {
            "count": 20.0,
            "expected": 3,
            "small": 15.0,
            "mebibytes": 60.0,
            "effect": pytest.approx(2550.0),
            "smallest_effect": smallest,
        },
    }


@pytest.mark.parametrize(
    ("fields", "status", "note"),
    [
        # Twice three and two are not too many.
        ({"count": 8.0}, "pass", None),
        ({"count": 8.5}, "fail", None),
        ({"count": 8.5, "exposed_ps": (0, 0, 0)}, "pass", "many"),
        # A bucket is of 25 MiB: three buckets for 75, four for more.
        ({"count": 8.5, "bytes": 75.0 * MIB}, "fail", None),
        ({"count": 8.5, "bytes": 75.0 * MIB + 1}, "pass", None),
        ({"count": 4.5, "bytes": 0.0}, "fail", None),
        ({"count": 4.0, "bytes": 0.0}, "pass", None),
    ],
)
def test_how_many_all_reduces_are_too_many(
    signals_of: Any, fields: dict[str, Any], status: str, note: str | None
) -> None:
    found = judged("allreduce.count", exchanging(signals_of, reduced(**fields)))
    assert (found.status, found.note) == (status, note)


def test_surplus_all_reduces_keep_the_time_of_their_bytes(signals_of: Any) -> None:
    """With one bucket all but the largest of a step, without the wait of 100 ps."""
    few = reduced(bytes=1.0 * MIB)
    changes = changes_of("allreduce.count", exchanging(signals_of, few))
    assert changes == fields_of((Carried({1: 500 - 300, 4: 50}),))
    none = reduced(bytes=1.0 * MIB, calls=CALLS[[0]])
    assert changes_of("allreduce.count", exchanging(signals_of, none)) == ()


def test_large_all_reduces_may_run_at_the_rate_of_their_link(signals_of: Any) -> None:
    calls = CALLS.with_columns(pl.col("dur_ps", "least_ps") * 100_000)
    signals = exchanging(signals_of, reduced(calls=calls))
    latency = round(THRESHOLDS.exchange_latency.value)
    needed = {0: 300 + latency, 1: 100 + latency, 3: 10 + latency}
    waits = {row: 10 * US + ps for row, ps in needed.items()}
    assert changes_of("allreduce.time", signals) == fields_of((Carried(waits),))


def test_all_reduces_that_take_longer_than_their_bytes(signals_of: Any) -> None:
    finding = judged("allreduce.time", exchanging(signals_of, reduced()))
    assert numbers(finding) == {
        "status": "fail",
        "severity": "warn",
        "confidence": 0.7,
        "value": 60.0,
        "unit": "percent",
        "ms_per_step": 2.0,
        "threshold": THRESHOLDS.link_warn,
        "steps_clean": 3,
        "devices": ("vm:0",),
        "facts": {"measured": 5_000.0, "needed": 3_000.0, "gb_per_s": 12.5},
        "saving_ms": Saving(high=2.0),
    }
    assert finding.facts[-1].note == "data sheet"


@pytest.mark.parametrize(
    ("fields", "status", "severity"),
    [
        ({"expected_ps": 3.49 * MS}, "fail", "warn"),
        ({"expected_ps": 3.5 * MS}, "pass", "info"),
        ({"expected_ps": 2.0 * MS}, "fail", "warn"),
        ({"expected_ps": 1.99 * MS}, "fail", "critical"),
        ({"expected_ps": 1.99 * MS, "rate_source": "recording"}, "fail", "warn"),
        ({"expected_ps": None}, "cannot_tell", "info"),
        ({"workers": 1}, "cannot_tell", "info"),
        ({"workers": 1, "expected_ps": 3.5 * MS}, "pass", "info"),
        # No more is lost than what is exposed: 0.1 ms of each step.
        ({"exposed_ps": (MS // 10,) * 3}, "fail", "warn"),
        ({"exposed_ps": (MS // 10, MS // 10, MS // 10 - 3)}, "pass", "info"),
        ({"least_ps": 0.0}, "not_applicable", "info"),
        ({"least_ps": 0.0, "bytes": None}, "cannot_tell", "info"),
    ],
)
def test_levels_of_slow_all_reduces(
    signals_of: Any, fields: dict[str, Any], status: str, severity: str
) -> None:
    found = judged("allreduce.time", exchanging(signals_of, reduced(**fields)))
    assert (found.status, found.severity) == (status, severity)
    assert (found.saving_ms is not None) is (status == "fail")


@pytest.mark.parametrize(
    ("reduces", "given", "status"),
    [
        (reduced(), {"device": HOST_ONLY}, "not_applicable"),
        (
            reduced(),
            {"exchanged": CommunicationSignals({"vm:0": 0}, {}, {})},
            "not_applicable",
        ),
        (reduced(kinds=frozenset({"all-gather", "all-reduce"})), {}, "not_applicable"),
        (reduced(count=0.0), {}, "cannot_tell"),
        (reduced(count=0.0, kinds=frozenset({"broadcast"})), {}, "not_applicable"),
        (reduced(bytes=None), {}, "cannot_tell"),
    ],
)
def test_without_all_reduces_of_known_size_there_is_nothing_to_count(
    signals_of: Any, reduces: Any, given: dict[str, Any], status: str
) -> None:
    signals = exchanging(signals_of, reduces, **given)
    assert judged("allreduce.count", signals).status == status
    assert changes_of("allreduce.count", signals) == ()


def test_the_share_without_sizes_is_that_of_exposed_time(signals_of: Any) -> None:
    found = judged("allreduce.count", exchanging(signals_of, reduced(bytes=None)))
    assert found.unavailable is not None
    assert "30" in found.unavailable.reason
