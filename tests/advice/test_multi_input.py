"""`multi.input` on whole traces."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.traces import blueprint
from tests.support.traces.training import findings, on_host, parallel, together

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


def test_without_a_pipeline_it_cannot_tell() -> None:
    assert found_in(parallel()).status == "cannot_tell"
    assert findings(on_host())["multi.input"].status == "not_applicable"


@pytest.mark.parametrize("table", ["iterators", "events", "device_activity"])
@pytest.mark.sweep(every=3)
def test_without_a_table_it_cannot_tell(table: str) -> None:
    finding = found_in(loaded(12_000.0, waits_us=6_000.0), without=table)
    assert finding.status == "cannot_tell"
    assert finding.unavailable.remedy
