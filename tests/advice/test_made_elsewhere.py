"""`input.bound` where others make the batches: what it advises, by what evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.traces.nsight import (
    KERNEL,
    MEMCPY,
    NVTX,
    RUNTIME,
    call,
    copy,
    global_id,
    kernel,
    read_file,
    span,
    write,
)

from stepscope.advice.engine import evaluate as all_rules
from stepscope.advice.engine import signals_of as signals_of_profile
from stepscope.advice.rules.input_pipeline.input_waits import (
    judge_input_wait as evaluate,
)
from stepscope.derive.facts.hosts.batch_production import (
    ProductionWaits,
    made_elsewhere,
)
from stepscope.derive.profile_data import ProfileData
from stepscope.session import open_profile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepscope.advice.finding import Finding

MS = 1_000_000
SENT, THREADS = "send the data", "Let more threads produce batches"
OWN = "worker processes and fetch ahead"


def found_in(profile: ProfileData) -> Finding:
    signals = signals_of_profile(profile)
    (found,) = (one for one in all_rules(signals) if one.id == "input.bound")
    return found


def facts(found: Finding) -> dict[str, float | None]:
    return {fact.name: fact.value for fact in found.facts}


@pytest.mark.parametrize(
    ("name", "advice", "sent", "threads"),
    [
        # A DataLoader with one worker process, which takes longer than a step.
        # In the ten judged steps it polls for 29.0 of the 40.9 ms of waits.
        ("gpu/tiers/timeline.sqlite.gz", SENT, 70.9, 0.0),
        # A loader in a thread of the program's own.
        ("nsight_cpu/train.sqlite.gz", THREADS, 0.0, 99.4),
    ],
)
def test_who_waits_for_others_is_not_told_to_have_some(
    shared_profile: Callable[[str], Path],
    name: str,
    advice: str,
    sent: float,
    threads: float,
) -> None:
    found = found_in(open_profile(shared_profile(name)))
    texts = [one.text for one in found.actions]
    assert advice in texts[0]
    assert not any(OWN in text or "in another process while" in text for text in texts)
    told = facts(found)
    assert told["waits_for_sent"] == pytest.approx(sent, abs=0.1)
    assert told["waits_for_threads"] == pytest.approx(threads, abs=0.1)


@pytest.mark.parametrize(
    ("waits", "advice"),
    [((60.0, 20.0), SENT), ((20.0, 60.0), THREADS), ((20.0, 20.0), OWN), (None, OWN)],
)
def test_half_of_the_waits_decide(
    signals_of: Any, shares: Any, waits: tuple[float, float] | None, advice: str
) -> None:
    known = {} if waits is None else {"vm:0": {"fetch": ProductionWaits(*waits)}}
    signals = signals_of(shares(input=3.0), {made_elsewhere: known})
    texts = [one.text for one in evaluate(signals).actions]
    assert any(advice in text for text in texts)


def loop(folder: Path, *, calls: str | None, ranges: bool) -> ProfileData:
    """Twelve steps of 10 ms: 6 ms until a batch is there, its copy, a kernel of 3 ms.

    Args:
        folder: Where the database is written.
        calls: The call of the system in which the thread is for 5 of the 6 ms.
        ranges: Whether the program put a range around the fetch.
    """
    rows: dict[str, list[Any]] = {RUNTIME: [], KERNEL: [], MEMCPY: [], NVTX: []}
    asked: list[Any] = []
    for number in range(12):
        at = 10 * MS * number
        rows[NVTX].append(span(f"step {number}", at, at + 9_900_000))
        if ranges:
            rows[NVTX].append(span("load_batch", at + 20_000, at + 6 * MS))
        if calls is not None:
            asked.append(
                {
                    "start": at + 500_000,
                    "end": at + 5_500_000,
                    "nameId": calls,
                    "globalTid": global_id(thread=1),
                }
            )
        first, second = 2 * number + 1, 2 * number + 2
        rows[RUNTIME] += [
            call("cudaMemcpyAsync_v3020", at + 6_010_000, at + 6_020_000, first),
            call("cudaLaunchKernel_v7000", at + 6_030_000, at + 6_040_000, second),
        ]
        rows[MEMCPY].append(
            copy(1, at + 6_030_000, at + 6_500_000, first, bytes=1_000_000)
        )
        rows[KERNEL].append(kernel("k", at + 6_510_000, at + 9_510_000, second))
    rows |= {"OSRT_API": asked} if asked else {}
    trace = read_file(write(folder / "a.sqlite", rows))
    return ProfileData("a", {trace.host: trace})


@pytest.mark.parametrize(
    ("calls", "ranges", "advice"),
    [
        ("poll", True, SENT),
        ("sem_wait", True, THREADS),
        (None, True, "fetch ahead"),
        # It waits for a file that it reads itself.
        ("read", True, "fetch ahead"),
        ("poll", False, SENT),
    ],
)
def test_what_its_thread_is_in_says_for_whom_it_waits(
    tmp_path: Path, calls: str | None, advice: str, *, ranges: bool
) -> None:
    found = found_in(loop(tmp_path, calls=calls, ranges=ranges))
    assert found.status == "fail"
    texts = [one.text for one in found.actions]
    assert any(advice in text for text in texts)
    assert any("range around the batch fetch" in it for it in texts) is not ranges
