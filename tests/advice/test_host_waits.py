"""`host.wait` where the program's thread waits and computes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.advice.conftest import shares, signals_of
from tests.advice.host_functions import MS, part_of
from tests.support.traces.training import cores, findings, on_host
from tests.support.traces.waiting import (
    AT_THE_TIME,
    GET,
    LOADER,
    core_time,
    decoding,
    waiting,
)

from stepscope.advice.catalogue import rule_item
from stepscope.advice.registry import RULES
from stepscope.derive.facts.hosts.worker_processes import (
    LoaderWorkers,
    WorkerTime,
    loader_workers,
    worker_time,
)
from stepscope.derive.facts.processors import Asleep, asleep
from stepscope.derive.verdicts.recorded_devices import DeviceSignals
from stepscope.reporting.words.findings import lead_sentence

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding


HOST_ONLY = DeviceSignals(recorded="host_only")
PRESSED: Any = {"CPU pressure (percent)": 60.0}


def said(lines: list[Any]) -> tuple[Finding, str]:
    """What is said of waits, else of work, where one of them fails."""
    judged = findings(lines, devices=None)
    waits = judged["host.wait"].status == "fail"
    found = judged["host.wait" if waits else "host.work"]
    return found, lead_sentence(found)


def test_a_wait_for_a_thread_that_works_names_it_and_its_function() -> None:
    found, text = said(waiting() + decoding(AT_THE_TIME))
    assert (found.status, found.severity) == ("fail", "critical")
    assert text == (
        "Waiting takes 38.0 % of the step: `take_batch` (train.py:41) waits while "
        "thread `loader` is in `decode` (data.py:7)."
    )
    assert [part.thread for part in found.parts[:2]] == [None, "loader"]
    assert "make that thread's function cheaper" in found.actions[0].text
    assert found.saving_ms is not None
    assert found.saving_ms.high == pytest.approx(3.8, abs=0.05)


def test_threads_of_a_pool_are_one() -> None:
    lines = waiting()
    for number in range(2):
        thread = f"pool-0_{number}"
        mine = AT_THE_TIME[number::2]
        line = f"samples beside the steps of {thread}, 100 a second"
        lines += [
            (line, "$/app/data.py:7 decode", begin, end - begin) for begin, end in mine
        ]
        lines += core_time(thread, mine)
    _, text = said(lines)
    assert "waits while thread `pool-0` is in `decode` (data.py:7)" in text


def test_where_all_threads_sleep_nothing_works() -> None:
    found, text = said(waiting() + decoding([]))
    assert text == (
        "Waiting takes 38.0 % of the step: `take_batch` (train.py:41) waits, and no "
        "thread of the program works meanwhile: thread `loader` is in `decode` "
        "(data.py:7) and also waits."
    )
    assert not any("Vectorise" in action.text for action in found.actions)


def test_a_wait_of_a_program_with_one_thread_is_one_too() -> None:
    _, text = said(waiting())
    assert text.endswith(
        "`take_batch` (train.py:41) waits, and no thread of the program works "
        "meanwhile."
    )


def test_a_wait_in_a_library_names_its_function_too() -> None:
    _, text = said(waiting(inner=GET) + decoding(AT_THE_TIME))
    assert "`take_batch` (train.py:41) waits in `Queue.get` while thread" in text


def test_steps_that_only_compute_are_not_hit_by_a_wait() -> None:
    """In 11 of 20 steps it sleeps for 3.8 of 10 ms, in the others it computes as long.

    Together it sleeps for 41.8 of 199.99 ms.
    """
    found, text = said(waiting(computing=range(0, 18, 2)))
    assert text.startswith("Waiting takes 20.")
    assert found.pattern is not None
    assert (found.pattern.kind, found.pattern.steps_hit, found.pattern.steps) == (
        *("bursts", 11, 20),
    )
    assert found.pattern.shortest_ms == pytest.approx(3.8, abs=0.05)
    assert (found.steps_hit, found.steps_clean) == (11, 20)


@pytest.mark.parametrize(
    ("share", "how", "helped_by", "is_wait"),
    [
        (0.05, {}, [], True),
        # Threads of a library may compute for whoever sleeps meanwhile, …
        (0.2, {}, [], False),
        (0.2, {}, AT_THE_TIME, False),
        # … but for nobody who waits for the system, or in a queue.
        (0.2, {"system": True}, [], True),
        (0.2, {"inner": GET}, AT_THE_TIME, True),
    ],
)
def test_what_a_pool_may_compute_is_no_wait(
    share: float, how: Any, helped_by: list[tuple[float, float]], *, is_wait: bool
) -> None:
    _, text = said(waiting(pool=share, **how) + decoding(helped_by))
    assert text.startswith("Waiting takes 38.0 %" if is_wait else "Work on the host")


def test_a_wait_while_worker_processes_work_tells_of_these() -> None:
    """As in `pool.map`: a thread of the library waits for the workers, too."""
    used: Any = {**PRESSED, "worker processes CPU (percent)": 180.0}
    pool = "$/usr/lib/python3.12/multiprocessing/pool.py:500 Pool._handle_workers"
    looks = [(LOADER, pool, begin, end - begin) for begin, end in AT_THE_TIME]
    lines = waiting(inner=GET) + looks + core_time("loader", [])
    found, text = said(lines + cores(4, busy=60.0, **used))
    assert text == (
        "Waiting takes 38.0 % of the step: `take_batch` (train.py:41) waits in "
        "`Queue.get` while worker processes of the program use 1.8 of the machine's "
        "cores."
    )
    assert "few large tasks" in found.actions[0].text
    _, text = said(lines)
    assert text.endswith("no thread of the program works meanwhile.")
    at_work = waiting(inner=GET) + looks + core_time("loader", AT_THE_TIME)
    _, text = said(at_work + cores(4, busy=60.0, **used))
    assert "worker processes of the program use 1.8 of the machine's cores" in text


@pytest.mark.parametrize(("busy", "is_wait"), [(40.0, True), (99.0, False)])
def test_a_pool_that_others_leave_no_core_may_compute_for_who_sleeps(
    busy: float, *, is_wait: bool
) -> None:
    """For a twentieth of the sleep it got a core: all it wanted, or all there were."""
    _, text = said(waiting(pool=0.05) + cores(2, busy=busy, **PRESSED))
    assert text.startswith("Waiting takes" if is_wait else "Work on the host")


def test_a_function_that_wants_a_core_works() -> None:
    """All of its time is on a core, or lost to others that have all cores."""
    lines = [line for line in waiting() if not line[0].startswith("core time")]
    found, text = said(lines + core_time("main", [(0.0, 200_000.0)]))
    assert text.startswith("Work on the host: `take_batch` (train.py:41) takes 38.0 %")
    assert "Vectorise" in found.actions[0].text


def test_without_clocks_nothing_is_said_of_waits() -> None:
    lines = [line for line in waiting() if not line[0].startswith("core time")]
    found, text = said(lines)
    assert text.startswith("Work on the host: `take_batch` (train.py:41) takes 38.0 %")
    assert not any(fact.name.startswith("waits") for fact in found.facts)


def test_what_a_thread_beside_the_steps_does_is_none_of_theirs() -> None:
    """A loader that works ahead all the time changes nothing of what the step is."""
    base = [line for line in on_host() if line[1] != "IteratorGetNext"]
    ahead = [(LOADER, "$/app/data.py:7 next_batch", 0.0, 200_000.0)]
    before = findings(base, devices=None)
    after = findings(base + ahead + core_time("loader", [(0.0, 200_000.0)]))
    assert {it: one.status for it, one in after.items()} == {
        it: one.status for it, one in before.items()
    }
    assert after["host.work"].parts == before["host.work"].parts


# --- every number, over literal waits ---

ITEM = rule_item("host.wait")
SLEEP, OTHER = part_of("sleep", 40.0), part_of("helper", 1.0)
AT_WORK = WorkerTime(2, 49.9, (part_of("make", 60.0),), part_of("make", 60.0), None)


def judged(account: Any, known: Any = {}, **fields: Any) -> Any:  # noqa: B006 - read only
    usual = {"times_ps": (4 * MS,) * 10, "share_percent": 40.0, "function": SLEEP}
    usual |= {"works": False, "other": None}
    slept = {asleep: {"vm": {"wait": Asleep(**{**usual, **fields})}}}
    given = signals_of(account, slept | known, device=HOST_ONLY)
    rule = next(rule for rule in RULES if rule.item.id == "host.wait")
    return rule.evaluate(given)


def facts_of(finding: Any) -> dict[str, float]:
    return {fact.name: fact.value for fact in finding.facts if fact.value is not None}


WAITS = shares(device=None, steps=10, wait=4.0)


@pytest.mark.parametrize(
    ("fields", "workers", "kind", "groups"),
    [
        ({}, None, "waits_for_nothing", ("default",)),
        ({"works": None}, None, "waits_only", ("default",)),
        (
            *({"work": "asks_the_network"}, None, "waits_for_nothing"),
            ("asks_the_network", "default"),
        ),
        # It waits for a thread of the program that works: that thread is the cause.
        (
            *({"work": "pauses", "works": True}, None, "waits_for_thread"),
            ("waits_for_thread",),
        ),
        ({"works": True}, None, "waits_for_thread", ("waits_for_thread",)),
        ({"workers": 1.5}, None, "waits_for_processes", ("waits_for_processes",)),
        # What processes were seen to do is more certain than their use of cores.
        ({}, 49.9, "waits_for_processes", ("waits_for_processes",)),
        ({}, 50.0, "waits_for_nothing", ("default",)),
        ({"workers": 1.5}, 50.0, "waits_for_nothing", ("default",)),
        ({"works": True}, 49.9, "waits_for_thread", ("waits_for_thread",)),
        (
            *({"works": True, "workers": 1.5}, 49.9, "waits_for_processes"),
            ("waits_for_processes",),
        ),
    ],
)
def test_for_whom_a_thread_waits(
    fields: Any, workers: float | None, kind: str, groups: Any
) -> None:
    known: dict[Any, Any] = {}
    if workers is not None:
        time = WorkerTime(2, workers, AT_WORK.functions, AT_WORK.most, None)
        known[worker_time] = {"vm": time}
        known[loader_workers] = {"vm": LoaderWorkers(2, 4)}
    finding = judged(WAITS, known, other=OTHER, **fields)
    told = facts_of(finding)
    assert (finding.status, finding.owners, told[kind]) == ("fail", ("wait",), 40.0)
    assert told.get("worker_cores") == fields.get("workers")
    expected = ITEM.chosen(*groups)
    if kind != "waits_for_processes":
        assert finding.actions == expected
        assert (finding.workers, "workers" in told) == ((), False)
        assert finding.parts[:2] == (SLEEP, OTHER)
        return
    assert OTHER not in finding.parts
    if workers is None:
        assert finding.actions == (*expected, ITEM.action("make_workers_cheaper"))
        assert finding.workers == ()
    else:
        assert finding.actions[1:] == expected
        assert "`make`" in finding.actions[0].text
        assert (finding.workers, told["workers"]) == (AT_WORK.functions, 2)


def test_waits_are_judged_by_their_share() -> None:
    for ms, status, severity in (
        *((0.49, "pass", "info"), (0.5, "fail", "warn")),
        *((1.99, "fail", "warn"), (2.0, "fail", "critical")),
    ):
        finding = judged(shares(device=None, steps=10, wait=ms))
        assert (finding.status, finding.severity) == (status, severity)
