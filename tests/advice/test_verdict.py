"""The interval of a median, and the order of statuses, against independent oracles."""

from __future__ import annotations

import random
import statistics
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.advice.engine import staged
from stepscope.advice.finding import Finding, Saving
from stepscope.advice.registry import RULES
from stepscope.advice.verdict import judge, median_interval
from stepscope.thresholds import THRESHOLDS, Threshold

MS = 1_000_000_000


@pytest.mark.parametrize("count", [3, 7, 12, 30, 101])
def test_the_interval_is_that_of_drawing_at_random(count: int) -> None:
    random_state = random.Random(count)  # noqa: S311 - a fixed stream for a test
    values = [random_state.randrange(10**6) for _ in range(count)]
    medians = sorted(
        statistics.median_high(random_state.choices(values, k=count))
        if count % 2
        else statistics.median_low(random_state.choices(values, k=count))
        for _ in range(20_000)
    )
    low, high = median_interval(values)
    ranks = sorted(values)

    def near(drawn: int, exact: int) -> bool:
        return abs(ranks.index(drawn) - ranks.index(exact)) <= 1

    assert near(medians[500], low)
    assert near(medians[19_499], high)


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=60))
def test_the_interval_holds_the_median(values: list[int]) -> None:
    low, high = median_interval(values)
    assert low <= statistics.median_low(values)
    assert high >= statistics.median_high(values) or len(values) < 3


def test_many_steps_get_a_narrow_interval_quickly() -> None:
    low, high = median_interval(range(100_001))
    assert 49_600 < low < 50_000 < high < 50_400


def test_a_median_that_may_be_far_lower_is_noisy(series: Any) -> None:
    one = series([0.1, 0.1, 0.9, 0.9, 0.9], part="fetch")
    verdict = judge(
        one,
        warn=THRESHOLDS.input_warn,
        critical=THRESHOLDS.input_critical,
        thresholds=THRESHOLDS,
    )
    assert (verdict.status, verdict.severity, verdict.note) == ("fail", "info", "noisy")


def test_a_pass_that_may_be_higher_is_borderline(series: Any) -> None:
    one = series([0.1, 0.1, 0.1, 0.9, 0.9], part="fetch")
    verdict = judge(
        one,
        warn=THRESHOLDS.input_warn,
        critical=THRESHOLDS.input_critical,
        thresholds=THRESHOLDS,
    )
    assert (verdict.status, verdict.note) == ("pass", "borderline")


@pytest.mark.parametrize(
    ("effects_ms", "step_ms", "note"),
    [
        # 90 us of 500: 18 %, but less than 100 us.
        ([0.09] * 12, 0.5, "short"),
        # The median lies between two kinds of steps, of which half wait.
        ([0.0] * 5 + [8.0] * 5, 10.0, "seldom"),
        ([0.1] * 12, 10.0, None),
    ],
)
def test_a_pass_beyond_the_threshold_says_why_it_is_one(
    series: Any, effects_ms: list[float], step_ms: float, note: str | None
) -> None:
    verdict = judge(
        series(effects_ms, part="fetch", step_ms=step_ms),
        warn=THRESHOLDS.input_warn,
        critical=THRESHOLDS.input_critical,
        thresholds=THRESHOLDS,
    )
    assert (verdict.status, verdict.note) == ("pass", note)
    beyond = verdict.typical_percent >= THRESHOLDS.input_warn.value
    assert beyond == (note is not None)


def _finding(stage: int, gain: float, severity: Any = "warn") -> Finding:
    return Finding(
        id=f"stage.{stage}",
        title="",
        stage=stage,
        status="fail",
        severity=severity,
        saving_ms=Saving(low=0, high=gain),
    )


def test_later_stages_wait_unless_they_promise_twice_as_much() -> None:
    found = staged([_finding(6, 5.0), _finding(1, 3.0), _finding(3, 6.0)])
    assert [(one.stage, one.after_stage) for one in found] == [
        (1, None),
        (3, None),
        (6, 1),
    ]


def test_information_opens_no_stage() -> None:
    found = staged([_finding(1, 1.0, "info"), _finding(3, 0.5)])
    assert [one.after_stage for one in found] == [None, None]


def test_every_rule_has_a_name_of_its_own_and_stands_in_the_guides_order() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES)
    assert [rule.stage for rule in RULES] == sorted(rule.stage for rule in RULES)


def test_every_threshold_says_where_it_comes_from() -> None:
    silent = [
        name
        for name in THRESHOLDS.__struct_fields__
        if not (one := getattr(THRESHOLDS, name)).source or not one.meaning
    ]
    assert silent == []
    assert isinstance(THRESHOLDS.input_warn, Threshold)
