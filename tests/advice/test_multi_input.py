"""`multi.input` on whole traces."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.advice.conftest import MS
from tests.support.traces import blueprint
from tests.support.traces.training import findings, on_host, parallel, together

from stepscope.advice.judging.worker_comparison import worker_signals
from stepscope.advice.rules.multi_device.multi_input import evaluate
from stepscope.derive.facts.hosts.pipeline_stages import Service, service_signals
from stepscope.derive.facts.recording import record_grade

NESTED = {"id": 2, "parent_id": 1}
DEVICES = dict.fromkeys(range(4), blueprint.A100)


def loaded(map_us: float, *, waits_us: float = 0.0, threads: int = 1) -> list[Any]:
    """B8 of four devices whose pipeline maps for so long per batch, on other threads.

    Args:
        map_us: Time of the map for a batch, by the threads together.
        waits_us: How long each step waits for its batch before the devices begin.
        threads: Number of threads that map side by side.
    """
    lines = parallel(begins_us=(waits_us,) * 4, steps=8)
    begins = [line[2] + 30.0 for line in lines if line[1] == "train"]
    each = map_us / threads
    for number, begin in enumerate(begins):
        if waits_us:
            lines.append(("main", "IteratorGetNext", begin - 25.0, waits_us - 60.0))
        whole = ("loader", "Iterator::ParallelMapV2", begin, each + 20.0, {"id": 1})
        lines.append(whole)
        for lane in range(threads):
            element = {"element_id": number * threads + lane}
            track = f"mapper {lane}"
            taken = begin + each + 12.0 + lane
            lines += [
                ("loader", "ParallelMapConsume", taken, 1.0, element),
                (track, "ParallelMapProduce", begin + 5.0, each + 5.0, element),
                (track, "Iterator::ParallelMapV2::Map", begin + 8.0, each, NESTED),
            ]
    return lines


def found_in(lines: list[Any], **given: Any) -> Any:
    return findings(lines, devices=DEVICES, **given)["multi.input"]


def test_a_full_pipeline_that_devices_wait_for_is_found() -> None:
    # A step waits 6 ms, computes 6 and exchanges 0.54; the map takes 12 of it.
    finding = found_in(loaded(12_000.0, waits_us=6_000.0))
    assert (finding.status, finding.severity) == ("fail", "warn")
    assert finding.value == pytest.approx(100 * 12_000 / 12_590, abs=0.5)
    facts = {fact.name: fact.value for fact in finding.facts}
    assert facts["workers"] == 4
    assert facts["at_once"] == 1
    # What the devices wait is promised by the rule about the input.
    assert finding.explained_by == ("input.bound",)
    assert finding.saving_ms is None


def test_a_pipeline_with_time_to_spare_tells_for_how_many_more() -> None:
    finding = found_in(loaded(2_600.0))
    assert (finding.status, finding.note) == ("pass", None)
    assert finding.value == pytest.approx(100 * 2_600 / 6_590, abs=0.5)
    facts = {fact.name: fact.value for fact in finding.facts}
    assert facts["feeds"] == 2


def test_threads_that_map_side_by_side_share_the_work() -> None:
    finding = found_in(loaded(12_000.0, threads=2))
    facts = {fact.name: fact.value for fact in finding.facts}
    assert facts["at_once"] == 2
    assert finding.value == pytest.approx(100 * 6_000 / 6_590, abs=0.5)


def test_a_full_pipeline_that_nobody_waits_for_is_no_fault() -> None:
    finding = found_in(loaded(6_300.0))
    assert (finding.status, finding.note) == ("pass", "full")


def test_one_device_that_waits_has_no_matter_of_several() -> None:
    lines = together(fetch_us=3_000.0)
    begins = [line[2] for line in lines if line[1] == "train"]
    lines += [
        ("loader", "Iterator::Batch", begin + 5.0, 12_900.0, {"id": 1})
        for begin in begins
    ]
    finding = findings(lines)["multi.input"]
    assert (finding.status, finding.note) == ("pass", "alone")


# --- over literal stages ---


def judged(
    signals_of: Any,
    account: Any,
    *services: Service,
    workers: int = 2,
    grade: float = 1,
) -> Any:
    compared = SimpleNamespace(workers=range(workers))
    known = {service_signals: services, worker_signals: compared, record_grade: grade}
    return evaluate(signals_of(account, known))


def stage(busy_percent: float, *, at_once: int = 2, host: str = "vm") -> Service:
    """A stage that is busy for so much of 10 ms between two batches."""
    return Service(
        host=host,
        stage="Map",
        batch_ps=busy_percent / 100 * at_once * 10 * MS,
        at_once=at_once,
        period_ps=10 * MS,
        batches=9,
    )


@pytest.mark.parametrize(
    ("busy", "waits_ms", "workers", "said"),
    [
        (90.0, 0.5, 2, ("fail", "warn", "full")),
        (99.9, 0.5, 2, ("fail", "warn", "full")),
        (100.0, 0.5, 2, ("fail", "critical", "full")),
        (89.9, 0.5, 2, ("pass", "info", None)),
        (100.0, 0.49, 2, ("pass", "info", "full")),
        (100.0, 0.49, 1, ("pass", "info", "full")),
        (100.0, 0.5, 1, ("pass", "info", "alone")),
        (30.0, 0.5, 1, ("pass", "info", "alone")),
        (30.0, 0.49, 1, ("pass", "info", None)),
    ],
)
def test_several_devices_must_wait_for_a_full_stage(
    signals_of: Any,
    shares: Any,
    *,
    busy: float,
    waits_ms: float,
    workers: int,
    said: Any,
) -> None:
    account = shares(input=waits_ms)
    found = judged(signals_of, account, stage(busy), workers=workers)
    assert (found.status, found.severity, found.note) == said
    assert found.explained_by == (("input.bound",) if said[0] == "fail" else ())


def test_every_number_of_every_host(signals_of: Any, shares: Any) -> None:
    account = shares(input=1.0, fields={"step_confidence": 0.7})
    stages = (stage(40.0, host="b"), stage(20.0, at_once=1))
    found = judged(signals_of, account, *stages, workers=3, grade=0.9)
    assert (found.value, found.confidence, found.devices) == (40.0, 0.7, ("vm:0",))
    assert [(fact.name, fact.value) for fact in found.facts] == [
        ("busy", 40.0),
        ("waits", 10.0),
        ("workers", 3),
        # At 40 % for these devices, it reaches 90 % with twice as many.
        ("feeds", 2.0),
        ("batch", 8_000.0),
        ("at_once", 2),
        ("period", 10_000.0),
        ("batch", 2_000.0),
        ("at_once", 1),
        ("period", 10_000.0),
    ]
    idle = judged(signals_of, shares(fields={"step_confidence": 0.0}), stage(0.0))
    assert idle.confidence == 0.5
    facts = {fact.name: fact.value for fact in idle.facts}
    assert facts.get("feeds") is None
    assert judged(signals_of, account, stage(40.0), grade=0.6).confidence == 0.6


def test_without_a_pipeline_it_cannot_tell() -> None:
    assert found_in(parallel()).status == "cannot_tell"
    assert findings(on_host())["multi.input"].status == "not_applicable"


@pytest.mark.parametrize("table", ["iterators", "events", "device_activity"])
@pytest.mark.sweep(every=3)
def test_without_a_table_it_cannot_tell(table: str) -> None:
    finding = found_in(loaded(12_000.0, waits_us=6_000.0), without=table)
    assert finding.status == "cannot_tell"
    assert finding.unavailable.remedy
