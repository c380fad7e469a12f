"""Rules about several devices, on whole traces: faults, clean twins, near misses."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.traces import blueprint
from tests.support.traces.judged import Judged
from tests.support.traces.training import fed, findings, parallel, together

from stepscope.advice.engine import signals_of
from stepscope.advice.judging.worker_comparison import short_worker_name
from stepscope.trace.tables import TABLES

H100 = blueprint.A100 | {"gpu_device_name": "NVIDIA H100 80GB HBM3"}
STAGE = (
    "allreduce.count",
    "multi.balance",
    "multi.sequential",
    "allreduce.time",
    "allreduce.arrival",
    "multi.stagger",
)
MIB = 2**20


def found_in(lines: list[Any], devices: int = 4, **given: Any) -> dict[str, Any]:
    described = dict.fromkeys(range(devices), blueprint.A100)
    return findings(lines, devices=described, **given)


def test_equal_workers_pass() -> None:
    found = found_in(parallel())
    assert {name: found[name].status for name in STAGE} == dict.fromkeys(STAGE, "pass")


def test_one_device_is_not_compared() -> None:
    found = findings(together())
    assert {found[name].status for name in STAGE} == {"not_applicable"}


def test_the_worker_that_comes_last_is_named() -> None:
    # 2 of 8.59 ms: three workers wait for the fourth.
    found = found_in(parallel(begins_us=(0, 0, 0, 2_000.0)))
    arrival = found["allreduce.arrival"]
    assert (arrival.status, arrival.severity) == ("fail", "warn")
    assert arrival.share_percent == pytest.approx(100 * 2_000 / 8_590, abs=0.1)
    assert arrival.parts[0].name == "device 3"
    assert arrival.devices[0] == "vm:3"
    stagger = found["multi.stagger"]
    assert stagger.status == "fail"
    assert stagger.ms_per_step == pytest.approx(2.0, abs=0.01)
    assert found["multi.balance"].status == "pass"
    assert stagger.explained_by == ("allreduce.arrival",)


def test_long_transfers_on_all_workers_are_no_waiting() -> None:
    # 4 ms for 64 MiB of 4 members: 96 MiB over the link, 25 of 225 GB/s.
    found = found_in(parallel(exchanges=((64 * MIB, 4_000.0),)))
    assert found["allreduce.arrival"].status == "pass"
    assert found["multi.stagger"].status == "pass"


def test_exposed_exchanges_show_the_longest_of_them_and_no_bookkeeping() -> None:
    """On a real trace the evidence was two ranges of 2 µs, of 14 ms a step."""
    found = found_in(parallel(exchanges=((MIB, 20.0), (64 * MIB, 4_000.0))))
    exposed = found["comm.exposed"]
    assert exposed.status == "fail"
    # Steps begin at 1 ms, compute 6 ms, exchange for 20 and 4,000 µs, and rest for 50.
    begins = [1_000.0 + 6_000.0 + 20.0 + 10_070.0 * step for step in range(3)]
    assert [
        (one.start_ps / 1e6, (one.end_ps - one.start_ps) / 1e6, one.ops)
        for one in exposed.evidence
    ] == [
        (begin, 4_000.0, ("ncclDevKernel_AllReduce_Sum_f32_RING_LL",))
        for begin in begins
    ]
    assert {one.track for one in exposed.evidence} == {"Stream #9(Compute)"}


def test_the_worker_with_more_work_is_named() -> None:
    found = found_in(parallel(work_us=(8_000.0, 6_000.0, 6_000.0, 6_000.0)))
    balance = found["multi.balance"]
    assert balance.status == "fail"
    assert balance.parts[0].name == "device 0"
    assert balance.ms_per_step == pytest.approx(2.0, abs=0.02)
    assert balance.share_percent == pytest.approx(100 * 2_000 / 8_590, abs=0.2)
    # How long the others wait for it is part of their exchanges: nothing is replayed.
    assert balance.saving_ms.basis == "bound"


def rank(lines: list[Any], device: int) -> list[Any]:
    """What one rank records: its device alone, with all launches early in a step."""
    mine = [line for line in lines if line[0].startswith(f"gpu:{device}/")]
    marks = [line for line in lines if line[1] == "train"]
    found = [(line[0].replace(f":{device}/", ":0/"), *line[1:]) for line in mine]
    for mark in marks:
        begin, end = mark[2], mark[2] + mark[3]
        calls = [line[4] for line in mine if begin <= line[2] < end]
        for at, stats in enumerate(calls):
            called = begin + 1.0 + 2.0 * at
            known = {"correlation_id": stats["correlation_id"]}
            found.append(("main", "cuLaunchKernel", called, 1.5, known))
        waits = begin + 1.0 + 2.0 * len(calls)
        found.append(("main", "cuStreamSynchronize", waits, end - 15.0 - waits))
    return found + marks


def test_a_rank_with_more_work_is_levelled_in_a_replay() -> None:
    """Its exchange begins when it is done: 2 ms earlier, or half of that."""
    lines = parallel(work_us=(6_000.0, 8_000.0, 6_000.0, 6_000.0))
    ranks = [
        blueprint.trace(
            rank(lines, device),
            host=f"rank{device}",
            devices={0: blueprint.A100},
        )
        for device in range(4)
    ]
    balance = Judged(signals_of(blueprint.profile(*ranks)))["multi.balance"]
    assert (balance.status, balance.devices[0]) == ("fail", "rank1:0")
    assert balance.saving_ms is not None
    assert balance.saving_ms.basis == "replay"
    assert balance.saving_ms.high == pytest.approx(2.0, abs=0.02)
    assert balance.saving_ms.low == pytest.approx(1.0, abs=0.02)


def test_work_that_differs_by_turns_is_nobodys_fault() -> None:
    lines: list[Any] = []
    steps = [parallel(work_us=_with(9_000.0, at), steps=1) for at in (0, 1, 2, 3, 1, 0)]
    begin, correlation = 0.0, 0
    for number, step in enumerate(steps):
        for track, name, start, dur, stats in step:
            moved = dict(stats)
            if "correlation_id" in moved:
                moved["correlation_id"] += correlation
            if "step_num" in moved:
                moved["step_num"] = number
            lines.append((track, name, start + begin, dur, moved))
        begin += 9_600.0
        correlation += 1_000
    balance = found_in(lines)["multi.balance"]
    assert (balance.status, balance.note) == ("pass", "changing")


def _with(most: float, at: int) -> tuple[float, ...]:
    return tuple(most if device == at else 6_000.0 for device in range(4))


def test_devices_that_take_turns_are_found() -> None:
    turns = tuple(2_000.0 * device for device in range(4))
    found = found_in(parallel(work_us=(2_000.0,) * 4, begins_us=turns, exchanges=()))
    sequential = found["multi.sequential"]
    assert (sequential.status, sequential.severity) == ("fail", "critical")
    facts = {fact.name: fact.value for fact in sequential.facts}
    assert facts["at_a_time"] == pytest.approx(1.0, abs=0.01)
    assert facts["devices_of_host"] == 4
    # Waiting for the turn is at most three quarters of the step.
    assert sequential.saving_ms.high == pytest.approx(6.0, abs=0.1)


def test_a_second_device_with_other_work_need_not_work_beside_the_first() -> None:
    found = found_in(
        parallel(work_us=(6_000.0, 1_000.0), begins_us=(0, 6_000.0), exchanges=()), 2
    )
    assert found["multi.sequential"].status == "not_applicable"
    assert found["multi.stagger"].status == "not_applicable"


def test_many_small_exchanges_are_counted() -> None:
    # 160 of 0.4 MiB, all exposed: 3 would carry the 64 MiB.
    exchanges = ((4 * MIB // 10 // 4 * 4, 20.0),) * 160
    count = found_in(parallel(exchanges=exchanges, steps=4))["allreduce.count"]
    assert (count.status, count.severity) == ("fail", "critical")
    facts = {fact.name: fact.value for fact in count.facts}
    assert (facts["count"], facts["expected"]) == (160, 3)
    exposed = 160 * 20.0 / 1_000
    assert count.ms_per_step == pytest.approx(exposed * 157 / 160, rel=0.02)


def test_an_exchange_that_is_slower_than_its_link_is_found() -> None:
    # 96 MiB over a link of 0.75 × 450 GB/s need 0.30 ms and the latency of 0.02.
    lines = parallel(exchanges=((64 * MIB, 1_600.0),))
    described = dict.fromkeys(range(4), H100)
    slow = findings(lines, devices=described)["allreduce.time"]
    needed = 96 * MIB / (0.75 * 450e9) * 1e3 + 0.02
    assert (slow.status, slow.severity) == ("fail", "critical")
    assert slow.value == pytest.approx(100 * needed / 1.6, abs=0.5)
    assert slow.saving_ms.high == pytest.approx(1.6 - needed, abs=0.01)
    fast = findings(parallel(exchanges=((64 * MIB, 340.0),)), devices=described)[
        "allreduce.time"
    ]
    assert fast.status == "pass"


def test_waiting_is_no_slowness_of_the_link() -> None:
    lines = parallel(begins_us=(0, 0, 0, 3_000.0), exchanges=((64 * MIB, 340.0),))
    found = findings(lines, devices=dict.fromkeys(range(4), H100))
    assert found["allreduce.time"].status == "pass"


#: Rule → a program on which it fails, and its devices.
FAULTS: dict[str, tuple[list[Any], dict[int, Any]]] = {
    "allreduce.count": (
        parallel(exchanges=((2**20 // 10 * 4, 20.0),) * 160, steps=4),
        dict.fromkeys(range(4), blueprint.A100),
    ),
    "allreduce.time": (
        parallel(exchanges=((64 * MIB, 1_600.0),)),
        dict.fromkeys(range(4), H100),
    ),
    "allreduce.pack": (
        parallel(pack_us=250.0),
        dict.fromkeys(range(4), blueprint.A100),
    ),
    "allreduce.arrival": (
        parallel(begins_us=(0, 0, 0, 2_000.0)),
        dict.fromkeys(range(4), blueprint.A100),
    ),
    "multi.stagger": (
        parallel(begins_us=(0, 0, 0, 2_000.0)),
        dict.fromkeys(range(4), blueprint.A100),
    ),
    "multi.balance": (
        parallel(work_us=(8_000.0, 6_000.0, 6_000.0, 6_000.0)),
        dict.fromkeys(range(4), blueprint.A100),
    ),
    "multi.sequential": (
        parallel(
            work_us=(2_000.0,) * 4,
            begins_us=tuple(2_000.0 * device for device in range(4)),
            exchanges=(),
        ),
        dict.fromkeys(range(4), blueprint.A100),
    ),
    "multi.copies": (
        fed(in_turn=True),
        dict.fromkeys(range(8), blueprint.A100),
    ),
}


@pytest.mark.parametrize("rule", sorted(FAULTS))
@pytest.mark.parametrize("table", [None, *sorted(TABLES)])
@pytest.mark.sweep(every=4)
def test_a_missing_table_is_no_proof_that_workers_do_well(
    rule: str, table: str | None
) -> None:
    """Nor is it one that there is a single worker, or no exchange."""
    lines, devices = FAULTS[rule]
    found = findings(lines, devices=devices, without=table)[rule]
    assert found.status in ({"fail"} if table is None else {"fail", "cannot_tell"})


@pytest.mark.parametrize("table", ["device_activity"])
def test_without_device_work_nothing_passes(table: str) -> None:
    found = found_in(parallel(), without=table)
    assert {found[name].status for name in STAGE} == {"cannot_tell"}


@pytest.mark.parametrize(
    ("label", "workers", "said"),
    [
        ("rank7:7", ("rank6:6", "rank7:7"), "rank7"),
        ("vm:3", ("vm:2", "vm:3"), "device 3"),
        ("b:1", ("a:0", "b:0", "b:1"), "b, device 1"),
        ("b", ("a", "b"), "b"),
    ],
)
def test_a_worker_is_told_from_the_others_in_words(
    label: str, workers: tuple[str, ...], said: str
) -> None:
    assert short_worker_name(label, workers) == said
