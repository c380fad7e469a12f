"""`cpu.threads` on whole traces, and its readings against a slow second count."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from tests.support.traces.training import ahead, cores, findings, on_host
from tests.support.traces.waiting import core_time

from stepscope.advice.rules.running.cpu_threads import evaluate
from stepscope.derive.facts.evidence import Part
from stepscope.derive.facts.hosts.busy_threads import busiest_threads
from stepscope.derive.facts.processors import (
    Processors,
    WithoutCore,
    mean_by_window,
    processor_signals,
    time_without_core,
)
from stepscope.derive.host.core_time import Readings
from stepscope.derive.host.function_names import FunctionName
from stepscope.derive.verdicts.recorded_devices import DeviceSignals
from stepscope.reporting.words.findings import lead_sentence
from stepscope.units import PS_PER_MS

OWN = "process CPU (percent)"
PRESSURE = "CPU pressure (percent)"


def machine(
    *, pressure: float, threads: int, own: float = 1600.0, busy: float = 100.0
) -> list[Any]:
    """Sixteen cores, and what /proc says of them."""
    said = {PRESSURE: pressure, OWN: own, "threads": float(threads)}
    return cores(16, busy=busy, **said)


def found_in(lines: list[Any], **given: Any) -> Any:
    return findings(lines, **given)["cpu.threads"]


def test_more_threads_than_cores_that_wait_for_each_other_are_found() -> None:
    finding = found_in(on_host() + machine(pressure=60.0, threads=64))
    # Of each 10 ms the host works in all but a few microseconds.
    assert (finding.status, finding.severity) == ("fail", "info")
    assert finding.share_percent == pytest.approx(60.0, abs=0.5)
    assert finding.because == ("own",)
    facts = {fact.name: fact.value for fact in finding.facts}
    assert (facts["cores"], facts["threads"], facts["busy_cores"]) == (16, 64, 16)
    assert finding.saving_ms is None


def test_threads_that_sleep_are_no_matter() -> None:
    # 64 threads, of which 60 are asleep.
    lines = on_host() + machine(pressure=2.0, threads=64, own=400.0, busy=25.0)
    finding = found_in(lines)
    assert (finding.status, finding.note) == ("pass", None)


def test_as_many_threads_as_cores_are_not_too_many() -> None:
    finding = found_in(on_host() + machine(pressure=5.0, threads=16))
    assert finding.status == "pass"


def test_other_programs_are_told_from_its_own_threads() -> None:
    lines = on_host() + machine(pressure=60.0, threads=64, own=300.0)
    finding = found_in(lines)
    assert (finding.note, finding.because) == ("others", ("others",))
    facts = {fact.name: fact.value for fact in finding.facts}
    assert facts["others"] == pytest.approx(13.0)
    assert {action.cause for action in finding.actions} == {"others"}


def test_waiting_beside_free_cores_is_a_note() -> None:
    finding = found_in(on_host() + machine(pressure=20.0, threads=64, busy=40.0))
    assert (finding.status, finding.severity) == ("fail", "info")
    assert finding.note == "unsure"


def test_a_device_that_is_busy_does_not_wait_for_the_host() -> None:
    finding = found_in(ahead() + machine(pressure=60.0, threads=64))
    assert finding.status == "pass"


@pytest.mark.parametrize(
    ("fields", "note", "because"),
    [
        ({"threads": 21}, None, ("own",)),
        ({"threads": 20}, "unsure", ()),
        ({"threads": None}, "unsure", ()),
        ({"threads": 21, "machine": 12.7}, "unsure", ()),
        ({"threads": 21, "own": 7.9}, "others", ("others",)),
        ({"threads": 21, "own": None}, None, ("own",)),
    ],
)
def test_every_number_of_waiting_for_cores(
    signals_of: Any, shares: Any, fields: Any, note: str | None, because: Any
) -> None:
    """Of 8 ms of work in 10 a quarter waits in nine steps of twelve."""
    work = {"host_compute": 4.0, "launch": 1.0, "input": 1.0, "output": 1.0}
    account = shares(device=None, rest="sync", compile=1.0, **work)
    given = {"cores": 16, "machine": 16.0, "own": 12.0, "threads": 21} | fields
    waiting = (25.0,) * 9 + (0.0,) * 3
    known = {processor_signals: {"vm": Processors(waiting_percent=waiting, **given)}}
    alone = {"device": DeviceSignals(recorded="host_only")}
    finding = evaluate(signals_of(account, known, **alone))
    assert (finding.status, finding.severity) == ("fail", "info")
    assert (finding.note, finding.because) == (note, because)
    assert finding.value == finding.share_percent == 15.0
    assert (finding.ms_per_step, finding.steps_hit, finding.steps_clean) == (1.5, 9, 12)
    assert (finding.devices, finding.saving_ms) == (("vm",), None)
    others = None if given["own"] is None else given["machine"] - given["own"]
    facts = {fact.name: fact.value for fact in finding.facts}
    expected = {"cores": 16, "threads": given["threads"], "others": others}
    expected["busy_cores"] = given["machine"]
    assert {name: facts[name] for name in expected} == expected
    elsewhere = {processor_signals: {"vm2": known[processor_signals]["vm"]}}
    finding = evaluate(signals_of(account, elsewhere, **alone))
    assert finding.status == "cannot_tell"


@pytest.mark.parametrize("counter", [PRESSURE, "machine CPU (percent)"])
def test_without_a_counter_it_cannot_tell(counter: str) -> None:
    lines = on_host() + machine(pressure=60.0, threads=64)
    finding = found_in([line for line in lines if line[1] != counter])
    assert finding.status == "cannot_tell"
    assert "stepscope" in finding.unavailable.remedy


@pytest.mark.parametrize("table", ["events", "stats", "event_types"])
def test_without_a_table_it_cannot_tell(table: str) -> None:
    lines = on_host() + machine(pressure=60.0, threads=64)
    finding = found_in(lines, without=table)
    assert finding.status == "cannot_tell"
    assert finding.unavailable.remedy


def test_means_of_windows_are_those_of_every_instant() -> None:
    random = np.random.default_rng(5)
    times = np.sort(random.choice(900, 12, replace=False)) + 50
    values = random.uniform(0, 100, 12)
    readings = Readings(times, values)
    starts = random.integers(0, 900, 40)
    ends = starts + random.integers(1, 200, 40)
    # A reading holds since the one before it; the last also after it.
    instants = [
        values[min(int(np.searchsorted(times, at, side="right")), 11)]
        for at in range(1200)
    ]
    wanted = [
        np.mean(instants[start:end]) for start, end in zip(starts, ends, strict=True)
    ]
    assert mean_by_window(readings, starts, ends) == pytest.approx(wanted)


STATISTICS = Part.from_function(
    FunctionName("aggregate", "/app/train.py", 27, library=False), 80.0
)


@pytest.mark.parametrize(
    ("thread_busy", "in_use", "expected"),
    [
        # The cores are full, and it needs one for 80 % of the time.
        (80.0, 12.8, ("thread", "warn")),
        (79.9, 12.8, (None, "info")),
        # Other cores are free for the steps.
        (99.0, 12.7, ("unsure", "info")),
        (None, 12.8, (None, "info")),
    ],
)
def test_a_thread_that_always_takes_a_core_is_to_blame(
    signals_of: Any,
    shares: Any,
    thread_busy: float | None,
    in_use: float,
    expected: tuple[str | None, str],
) -> None:
    busiest = {}
    if thread_busy is not None:
        part = msgspec.structs.replace(STATISTICS, thread="statistics")
        busiest = {"vm": msgspec.structs.replace(part, share_percent=thread_busy)}
    processor = Processors(16, (25.0,) * 12, in_use, 12.0, 21)
    known = {processor_signals: {"vm": processor}, busiest_threads: busiest}
    alone = {"device": DeviceSignals(recorded="host_only")}
    account = shares(device=None, host_compute=10.0)
    finding = evaluate(signals_of(account, known, **alone))
    assert (finding.note, finding.severity) == expected
    named = tuple(busiest.values()) if expected[0] == "thread" else ()
    assert finding.parts == named
    if finding.note == "thread":
        assert lead_sentence(finding) == (
            "Threads wait for a core while the host works for the steps: thread "
            "`statistics` is in `aggregate` (train.py:27), and needs a core for 80.0 % "
            "of the time."
        )
        assert [it.id for it in finding.actions] == ["move_thread_away"]


@pytest.mark.parametrize(
    ("ready_ms", "own", "expected"),
    [
        # Of 10 ms 2 without a core, while others use more than half of 16 cores.
        ((2.0, 0.0), 6.0, ("ready_others", "info", 20.0, None)),
        ((2.0, 0.0), 15.9, ("ready_own", "warn", 20.0, 2.0)),
        # The steps lack 0.2 cores, and others use more.
        ((2.0, 0.0), 15.7, ("ready_others", "info", 20.0, None)),
        # Threads of a pool lose time to others, not to each other.
        ((0.5, 1.5), 6.0, ("ready_others", "info", 20.0, None)),
        ((0.5, 6.0), 12.0, (None, "info", 20.0, None)),
        # No longer than the host works, which is for 8 ms.
        ((9.0, 0.0), 15.9, ("ready_own", "critical", 80.0, 8.0)),
        # A quarter of the work while any thread of the machine waits for a core.
        (None, 12.0, (None, "info", 20.0, None)),
    ],
)
def test_time_of_the_steps_without_a_core_is_lost(
    signals_of: Any,
    shares: Any,
    ready_ms: tuple[float, float] | None,
    own: float,
    expected: tuple[str | None, str, float, float | None],
) -> None:
    processor = Processors(16, (25.0,) * 12, 16.0, own, 21)
    known: dict[Any, Any] = {processor_signals: {"vm": processor}}
    if ready_ms is not None:
        times = ((round(each * PS_PER_MS),) * 12 for each in ready_ms)
        known[time_without_core] = {"vm": WithoutCore(*times)}
    alone = {"device": DeviceSignals(recorded="host_only")}
    account = shares(device=None, rest="sync", host_compute=8.0)
    finding = evaluate(signals_of(account, known, **alone))
    note, severity, share, saving = expected
    assert (finding.status, finding.note, finding.severity) == ("fail", note, severity)
    assert finding.share_percent == pytest.approx(share)
    assert (finding.saving_ms and finding.saving_ms.high) == saving


def test_cores_that_are_not_full_are_a_note_even_on_the_steps(
    signals_of: Any, shares: Any
) -> None:
    processor = Processors(16, (25.0,) * 12, 12.0, 12.0, 21)
    ready = WithoutCore((round(2 * PS_PER_MS),) * 12, (0,) * 12)
    known = {processor_signals: {"vm": processor}, time_without_core: {"vm": ready}}
    alone = {"device": DeviceSignals(recorded="host_only")}
    account = shares(device=None, rest="sync", host_compute=8.0)
    finding = evaluate(signals_of(account, known, **alone))
    assert (finding.note, finding.severity) == ("ready", "info")


COUNT = "$/app/train.py:27 aggregate"
BESIDE = "samples beside the steps of {}, 100 a second"


def test_the_thread_that_needs_a_core_longest_is_named() -> None:
    """`statistics` is awake for 180 of 200 ms, `log` for 20, a library's for all."""
    lines = on_host() + machine(pressure=60.0, threads=64)
    pool = "$/v/site-packages/pool.py:3 work"
    for thread, function, awake_us in (
        ("log", "$/app/log.py:3 write", 20_000.0),
        ("statistics", COUNT, 180_000.0),
        ("pool", pool, 200_000.0),
    ):
        lines.append((BESIDE.format(thread), function, 0.0, 200_000.0))
        lines += core_time(thread, [(0.0, awake_us)])
    finding = found_in(lines)
    (part,) = finding.parts
    assert (part.thread, part.function) == ("statistics", "aggregate")
    assert part.share_percent == pytest.approx(90.0, abs=0.1)
    assert (finding.note, finding.severity) == ("thread", "warn")
