"""`multi.copies` on whole traces."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.traces import blueprint
from tests.support.traces.training import fed, findings, on_host, parallel, together

DEVICES = dict.fromkeys(range(8), blueprint.A100)
FOUR = dict.fromkeys(range(4), blueprint.A100)
PEER = "kind_src:device kind_dst:device size:8388608 dest:1 async:1"


def test_devices_that_are_fed_in_turn_are_found() -> None:
    finding = findings(fed(in_turn=True), devices=DEVICES)["multi.copies"]
    assert (finding.status, finding.severity) == ("fail", "warn")
    # Seven copies of 290 µs come before that to the last device.
    assert finding.ms_per_step == pytest.approx(7 * 0.29, abs=0.01)
    assert finding.causes[0].cause == "in_turn"
    assert "device 7 last" in finding.parts[0].name
    assert finding.devices[0] == "vm:7"
    assert finding.saving_ms.low == 0.0
    moved = {fact.note: fact.value for fact in finding.facts}
    assert moved["per step, from host to vm:3"] == pytest.approx(8.0)


def test_what_in_turn_feeding_explains_is_promised_once() -> None:
    found = findings(fed(in_turn=True), devices=DEVICES)
    about = ("copy.exposed", "input.bound", "multi.stagger", "allreduce.arrival")
    failing = [found[name] for name in about if found[name].status == "fail"]
    assert [
        one.id
        for one in failing
        if one.severity != "info" and one.explained_by != ("multi.copies",)
    ] == []


def test_devices_that_are_fed_at_once_are_fine() -> None:
    finding = findings(fed(in_turn=False), devices=DEVICES)["multi.copies"]
    assert (finding.status, finding.value) == ("pass", 0.0)


def _copied(*, every: int, kind: str = "MemcpyP2P", only: int = 0) -> list[Any]:
    """B8 of four devices with a copy of 1 ms before each n-th step's computing."""
    lines = parallel(begins_us=(1_000.0,) * 4, steps=6)
    begins = [line[2] + 30.0 for line in lines if line[1] == "train"]
    called = {"MemcpyP2P": "cuMemcpyPeerAsync", "MemcpyD2H": "cuMemcpyDtoHAsync"}[kind]
    for number, begin in enumerate(begins):
        if number % every == 0:
            stats = {"correlation_id": 2_000_000 + number}
            lines += [
                ("main", called, begin - 12.0, 6.0, stats),
                (
                    f"gpu:{only}/11({kind})",
                    kind,
                    begin,
                    900.0,
                    {**stats, "memcpy_details": PEER},
                ),
            ]
    return lines


def test_copies_between_devices_that_nothing_hides_are_found() -> None:
    finding = findings(_copied(every=1), devices=FOUR)["multi.copies"]
    assert (finding.status, finding.causes[0].cause) == ("fail", "between")
    assert finding.ms_per_step == pytest.approx(0.9, abs=0.01)


def test_results_that_one_device_copies_are_found() -> None:
    lines = _copied(every=1, kind="MemcpyD2H")
    finding = findings(lines, devices=FOUR)["multi.copies"]
    assert (finding.status, finding.causes[0].cause) == ("fail", "gathered")
    assert "only device 0" in finding.parts[0].name


def test_weights_that_are_sent_once_are_no_habit() -> None:
    finding = findings(_copied(every=6), devices=FOUR)["multi.copies"]
    assert finding.status == "pass" or finding.severity == "info"


@pytest.mark.parametrize("lines", [together(), on_host()], ids=["one", "none"])
def test_without_several_devices_it_does_not_apply(lines: list[Any]) -> None:
    assert findings(lines)["multi.copies"].status == "not_applicable"


@pytest.mark.parametrize("table", ["device_activity"])
def test_without_a_table_it_cannot_tell(table: str) -> None:
    lines = fed(in_turn=True)
    found = findings(lines, devices=DEVICES, without=table)["multi.copies"]
    assert found.status == "cannot_tell"
    assert found.unavailable is not None
    assert found.unavailable.remedy


def test_copies_need_no_launches() -> None:
    lines = fed(in_turn=True)
    found = findings(lines, devices=DEVICES, without="launches")["multi.copies"]
    assert found.status == "fail"
