"""`host.work` advises what fits the way in which a function spends its time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.traces.training import KERNELS, Recorder, findings, on_host
from tests.support.traces.waiting import core_time

from stepscope.advice.rules.idle_gaps.host_work import evaluate
from stepscope.derive.facts.step_shares import NamedTime
from stepscope.reporting.words.findings import finding_headline

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding

FETCH = "$/app/train.py:41 fetch_rows"


def facts(found: Finding) -> dict[str, float | None]:
    return {fact.name: fact.value for fact in found.facts}


def launched(*, looks: int | None = None) -> list[Any]:
    """Ten steps of 20 ms; in the first 4 ms of each the device waits for `fetch_rows`.

    Args:
        looks: In how many steps a look found it; None where its calls are exact.
    """
    made = Recorder()
    for number in range(10):
        begin = 20_000.0 * number
        made.mark(number, begin, 19_900.0)
        called, start = begin + 4_100.0, begin + 4_120.0
        for kernel in KERNELS:
            made.launch(kernel, called, start)
            called += 6.0
            start += kernel[1] + 0.5
        if looks is None:
            made.host(FETCH, begin + 50.0, 4_000.0)
        elif number < looks:
            seen = "samples of main, 100 a second"
            made.host(FETCH, begin + 50.0, 10_000.0, track=seen)
    return made.lines


def beside_a_device(*, asleep: bool, others: float = 0.0) -> Finding:
    """A device waits 4 ms in each step for `fetch_rows`, which computes or sleeps.

    Args:
        asleep: Whether it sleeps.
        others: For which share of that threads outside of Python compute.
    """
    lines = launched()
    held = [(line[2], line[2] + line[3]) for line in lines if line[1] == FETCH]
    if asleep:
        begins = [0.0, *(end for _, end in held)]
        ends = [*(begin for begin, _ in held), 200_000.0]
        awake = list(zip(begins, ends, strict=True))
    else:
        awake = [(0.0, 200_000.0)]
    helped = [(begin, begin + others * (end - begin)) for begin, end in held]
    lines += core_time("main", awake)
    lines += core_time("other threads", helped if others else [])
    return findings(lines)["host.work"]


def test_beside_a_device_who_sleeps_is_not_told_to_compute_faster() -> None:
    found = beside_a_device(asleep=True)
    assert (found.status, found.parts[0].function) == ("fail", "fetch_rows")
    assert found.actions[0].text.startswith("Do not wait on the thread")
    assert not any("Vectorise" in one.text for one in found.actions)
    assert facts(found)["off_core"] == pytest.approx(100, abs=1)


def test_beside_a_device_who_computes_is() -> None:
    found = beside_a_device(asleep=False)
    assert found.actions[0].text.startswith(
        "Vectorise the named function: the program's"
    )
    assert facts(found)["off_core"] == 0
    assert facts(found)["own_lines"] == pytest.approx(100, abs=1)


def test_who_sleeps_while_threads_of_a_library_compute_may_wait_for_them() -> None:
    found = beside_a_device(asleep=True, others=0.7)
    assert found.actions[0].text.startswith(
        "Vectorise the named function: the program's"
    )
    assert facts(found)["off_core"] == pytest.approx(30, abs=1)


def test_without_clocks_nothing_is_known_of_waits() -> None:
    found = findings(launched())["host.work"]
    assert found.actions[0].text.startswith(
        "Vectorise the named function: the program's"
    )
    assert facts(found)["off_core"] is None


def test_what_was_seen_too_seldom_gets_advice_with_a_condition() -> None:
    """Looks find it in five steps of ten, for 4 ms of each in which the device waits.

    That is what two looks of 100 a second stand for.
    """
    found = findings(launched(looks=5))["host.work"]
    assert found.status == "fail"
    assert found.actions[0].text.startswith("Vectorise the loops over")
    assert "own_lines" not in facts(found)


@pytest.mark.parametrize(
    ("inner", "share", "advice"),
    [
        (
            "/opt/lib/python3.12/site-packages/numpy/core.py(9): sort",
            0.8,
            "Call the library",
        ),
        ("/opt/lib/python3.12/site-packages/numpy/core.py(9): sort", 0.3, "Vectorise"),
        (
            "/opt/lib/python3.12/site-packages/torch/_tensor.py(9): Tensor.__iter__",
            0.8,
            "Vectorise the named function: taking elements",
        ),
        # An element may be made by another function of the library.
        (
            "/opt/lib/python3.12/site-packages/torch/_tensor.py(9): unbind",
            0.8,
            "Call the library",
        ),
        (
            "/app/helpers.py(3): scale",
            0.7,
            "Vectorise the named function: the program's",
        ),
    ],
)
def test_on_a_host_alone_what_it_calls_decides(
    inner: str, share: float, advice: str
) -> None:
    """Of each step of 10 ms `prepare` takes 4, and so much of that one function."""
    lines = [it for it in on_host(lead_us=4_100.0) if it[1] != "IteratorGetNext"]
    for begin in [line[2] for line in lines if line[1] == "train"]:
        lines += [
            ("main", "/app/train.py(41): prepare", begin + 50.0, 4_000.0),
            ("main", inner, begin + 60.0, share * 4_000.0),
        ]
    found = findings(lines, devices=None)["host.work"]
    assert (found.status, found.parts[0].function) == ("fail", "prepare")
    assert found.actions[0].text.startswith(advice)
    told = facts(found)
    shares = [told[name] or 0.0 for name in ("own_lines", "one_by_one", "in_libraries")]
    assert sum(shares) == pytest.approx(100)


def test_what_most_of_the_function_is_stands_between_commas(
    signals_of: Any, shares: Any
) -> None:
    part = NamedTime(
        *("host_compute", "inside", "augment", "warp", "augment", "data/images.py", 41),
        time_ps=66_000_000_000,
    )
    found = evaluate(signals_of(shares(host_compute=5.7, names=[part])))
    said = "`augment` (images.py:41), most of it in `warp`, takes 55.0 % of the step"
    assert finding_headline(found).startswith(said)
