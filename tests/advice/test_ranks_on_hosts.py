"""Ranks that compute on the CPU and exchange there: who is last, who has more to do.

Two of them step every 10 ms: work, then an exchange that both leave after 9 ms.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.traces import blueprint
from tests.support.traces.judged import Judged
from tests.support.traces.training import cores

from stepscope.advice.engine import signals_of
from stepscope.reporting.words.findings import finding_headline

STEPS = 12
PERIOD_US = 10_000


def judged(*work_us: list[int]) -> Judged:
    """Judge ranks by the work of each in each step."""
    ranks = []
    for number, of_steps in enumerate(work_us):
        lines: list[blueprint.Line] = []
        for step, work in enumerate(of_steps):
            begin = 100 + PERIOD_US * step
            lines += [
                ("main", "train", begin, 9_500, {"_r": 1, "step_num": step}),
                ("main", "aten::mm", begin, work),
                ("pool", "gloo:all_reduce", begin + work, 9_000 - work),
            ]
        ranks.append(blueprint.trace(lines, host=f"rank{number}"))
    return Judged(signals_of(blueprint.profile(*ranks)))


def test_of_two_ranks_one_waits_for_all_that_the_other_is_late() -> None:
    """The late one waits for nobody: a median of both would halve the wait."""
    found = judged([2_000] * STEPS, [8_000] * STEPS)["allreduce.arrival"]
    assert (found.status, found.severity) == ("fail", "critical")
    assert found.parts[0].name == "rank1"
    assert found.ms_per_step == pytest.approx(6.0, abs=0.01)
    # The last of the twelve steps ends with its mark of 9.5 ms.
    assert found.share_percent == pytest.approx(100 * 72 / 119.5, abs=0.1)


def test_the_rank_with_more_work_is_named_without_devices() -> None:
    found = judged([2_000] * STEPS, [8_000] * STEPS)["multi.balance"]
    assert (found.status, found.devices[0]) == ("fail", "rank1")
    assert found.ms_per_step == pytest.approx(6.0, abs=0.01)
    assert found.saving_ms is not None
    # Divided between both it is half of that, without it all.
    assert found.saving_ms.low <= 3.0
    assert found.saving_ms.high == pytest.approx(6.0, abs=0.01)


def test_what_the_busiest_rank_does_beyond_the_others_is_named() -> None:
    ranks = []
    for number, sorted_us in enumerate((0, 4_000)):
        lines: list[blueprint.Line] = []
        for step in range(STEPS):
            begin = 100 + PERIOD_US * step
            end = begin + 3_000 + sorted_us
            lines += [
                ("main", "train", begin, 9_500, {"_r": 1, "step_num": step}),
                ("main", "aten::mm", begin, 3_000),
                ("pool", "gloo:all_reduce", end, begin + 9_000 - end),
            ]
            if sorted_us:
                lines.append(("main", "aten::sort", begin + 3_000, sorted_us))
        ranks.append(blueprint.trace(lines, host=f"rank{number}"))
    found = Judged(signals_of(blueprint.profile(*ranks)))["multi.balance"]
    assert (found.parts[0].name, found.parts[0].detail) == ("rank1", "aten::sort")
    assert "worker, rank1, has" in finding_headline(found)
    assert "most of it in aten::sort" in finding_headline(found)


def test_ranks_with_as_much_work_pass() -> None:
    found = judged([5_000] * STEPS, [5_000] * STEPS)
    assert found["multi.balance"].status == "pass"
    assert found["allreduce.arrival"].status == "pass"


def test_work_that_is_now_this_ranks_and_now_the_others_is_nobodys_fault() -> None:
    turns = [2_000, 8_000] * (STEPS // 2)
    found = judged(turns, turns[::-1])["multi.balance"]
    assert (found.status, found.note) == ("pass", "changing")


def on_full_cores(
    *,
    pressed: float = 25.0,
    busy: float = 98.0,
    extra: str | None = None,
    more_us: int = 800,
) -> Judged:
    """Rank 1 takes longer, in each step of 10 ms, than rank 0.

    Args:
        pressed: For how much of the time threads wait for a core, in percent.
        busy: How busy each of the two cores is, in percent.
        extra: What rank 1 alone does for that time; None where it runs the same op.
        more_us: How much longer it takes.
    """
    used = {"CPU pressure (percent)": pressed, "process CPU (percent)": busy}
    ranks = []
    for number, longer_us in enumerate((0, more_us)):
        lines: list[blueprint.Line] = list(cores(2, busy=busy, **used))
        for step in range(STEPS):
            begin = 100 + PERIOD_US * step
            work = 4_000 if extra else 4_000 + longer_us
            end = begin + 4_000 + longer_us
            lines += [
                ("main", "train", begin, 9_500, {"_r": 1, "step_num": step}),
                ("main", "aten::mm", begin, work),
                ("pool", "gloo:all_reduce", end, begin + 9_000 - end),
            ]
            if extra and longer_us:
                lines.append(("main", extra, begin + 4_000, longer_us))
        ranks.append(blueprint.trace(lines, host=f"rank{number}"))
    return Judged(signals_of(blueprint.profile(*ranks)))


def test_who_has_no_more_to_do_and_waits_for_a_core_is_not_blamed() -> None:
    found = on_full_cores()["allreduce.arrival"]
    assert (found.status, found.severity, found.note) == ("fail", "info", "cores")
    assert found.share_percent == pytest.approx(8.0, abs=0.1)
    said = finding_headline(found)
    assert "The other workers wait for rank1, 800 µs a step, although it runs" in said
    assert "threads wait for a core 25.0 % of the time" in said
    assert found.actions[0].cause == "cores"


@pytest.mark.parametrize(
    "how",
    [
        # Threads wait for a core in less time than the others wait for the rank.
        {"pressed": 7.0},
        # A core is free.
        {"busy": 60.0},
        # It runs an op, or a function, that the other does not.
        {"extra": "aten::sort"},
        {"extra": "/app/train.py(12): tokenise"},
        # It waits for its batch.
        {"extra": "IteratorGetNext"},
    ],
    ids=["hardly any wait", "free cores", "an op more", "a function more", "a batch"],
)
def test_who_has_more_to_do_or_a_core_to_itself_is(how: dict[str, Any]) -> None:
    found = on_full_cores(**how)["allreduce.arrival"]
    assert (found.status, found.severity, found.note) == ("fail", "warn", None)
    assert "why the last worker takes longer" in found.actions[0].text


def test_nor_is_it_said_to_have_more_work() -> None:
    """1.2 ms of 9.2: beyond what two equal workers differ by otherwise."""
    found = on_full_cores(more_us=1_200)["multi.balance"]
    assert (found.status, found.severity, found.note) == ("fail", "info", "cores")
    assert "in the same ops, equally often" in finding_headline(found)
    found = on_full_cores(more_us=1_200, busy=60.0)["multi.balance"]
    assert (found.status, found.severity, found.note) == ("fail", "warn", None)
