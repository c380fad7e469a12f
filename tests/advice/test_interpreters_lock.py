"""A wait for a result that nothing computes any more, while Python runs elsewhere.

The thread that waited needs the interpreter's lock to go on, and another thread of the
program keeps it for 5 ms at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.traces.training import findings, on_host
from tests.support.traces.waiting import STEPS, core_time

from stepscope.reporting.words.findings import lead_sentence

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepscope.advice.finding import Finding

SAMPLES = "samples of main, 1000 a second"
BESIDE = "samples beside the steps of statistics, 100 a second"
BLOCK = "$/v/site-packages/jax/_src/api.py:3060 block_until_ready"
COUNT = "$/app/train.py:9 count_words"
ALWAYS = [(0.0, 200_000.0)]
#: Of each step of 10 ms `main` is in JAX for 5.8 ms; ops run in the last 4.
WAITS = [(begin + 50.0, begin + 5_850.0) for begin in STEPS]


def blocked(
    *,
    called: str = BLOCK,
    awake: list[tuple[float, float]] = ALWAYS,
    function: str | None = COUNT,
    sleeps: bool = True,
    computed_us: float = 0.0,
) -> Mapping[str, Finding]:
    """What is said if `main` waits in JAX for 5.8 ms of each step.

    Args:
        called: The function that waits.
        awake: When the thread `statistics` wants a core, and …
        function: … what it is in.
        sleeps: Whether `main` is off the core while it waits.
        computed_us: For how long of each wait an op still runs, on another thread.
    """
    lines: list[Any] = [
        (SAMPLES, "$/app/train.py:60 main", 0.0, 200_050.0),
        *((SAMPLES, called, begin, end - begin) for begin, end in WAITS),
    ]
    if function is not None:
        lines.append((BESIDE, function, 0.0, 200_050.0))
    lines += core_time("statistics", awake)
    works = [(end, min(end + 4_200.0, 2e5)) for _, end in WAITS]
    lines += core_time("main", [(0.0, 50.0), *works] if sleeps else ALWAYS)
    base = [it for it in on_host(lead_us=6_000.0) if it[1] != "IteratorGetNext"]
    ops = [
        ("pool", "model/MatMul_9:MatMul", begin, computed_us, {"is_eager": 0})
        for begin, _ in WAITS
        if computed_us
    ]
    return findings([*lines, *base, *ops])


def shares(found: Mapping[str, Finding]) -> dict[str, float | None]:
    names = ("gap.readback", "host.wait")
    return {it: found[it].share_percent for it in names if found[it].status == "fail"}


#: 20 times 5.8 of 199.99 ms.
SHARE = pytest.approx(58.0, abs=0.1)


def test_the_lock_is_waited_for_when_nothing_computes_the_result() -> None:
    found = blocked()
    assert shares(found) == {"host.wait": SHARE}
    assert lead_sentence(found["host.wait"]) == (
        "Waiting takes 58.0 % of the step: `main` (train.py:60) waits in "
        "`block_until_ready` while thread `statistics` is in `count_words` "
        "(train.py:9)."
    )


def test_time_in_which_the_result_is_computed_is_no_wait() -> None:
    """An op runs for 2 ms of the 5.8."""
    found = blocked(computed_us=2_000.0)
    assert shares(found) == {"host.wait": pytest.approx(38.0, abs=0.1)}


@pytest.mark.parametrize(
    "change",
    [
        {"awake": []},
        # It is awake only while `main` works.
        {"awake": [(begin + 5_900.0, begin + 9_990.0) for begin in STEPS]},
        # It runs nothing of Python.
        {"function": None},
        # `main` is on a core.
        {"sleeps": False},
    ],
)
def test_else_the_result_is_waited_for(change: Any) -> None:
    assert shares(blocked(**change)) == {"gap.readback": SHARE}
