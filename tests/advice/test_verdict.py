"""Status, severity, interval and pattern of effects, worked out by hand."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.advice.engine import mark_explained_findings, mark_stage_order
from stepscope.advice.finding import Finding
from stepscope.advice.headline import costliest_finding
from stepscope.advice.item import Item, Rule, Sentences
from stepscope.advice.lost_time_verdict import (
    Verdict,
    effect_pattern,
    judge,
)
from stepscope.advice.registry import RULES
from stepscope.derive.facts.evidence import Saving
from stepscope.derive.verdicts.effect_status import (
    StepSeries,
    mean_interval_ms,
    ratio_interval,
)
from stepscope.thresholds import THRESHOLDS, Threshold

MS = 1_000_000_000


def series(effects_ms: Any, *, step_ms: float = 10.0, **fields: Any) -> StepSeries:
    return StepSeries(
        **{
            "step_source": "marker",
            "step_confidence": 1.0,
            "window_ps": (round(step_ms * MS),) * len(effects_ms),
            "parts_ps": {"wait": tuple(round(one * MS) for one in effects_ms)},
            **fields,
        }
    )


def judged(effects_ms: Any, **fields: Any) -> Verdict:
    """Against 5 % and 20 % of the time."""
    return judge(
        series(effects_ms, **fields), (THRESHOLDS.input_warn, THRESHOLDS.input_critical)
    )


def test_with_three_steps_the_interval_is_that_of_all_draws_of_two_blocks() -> None:
    # Blocks of two steps round the end: 0+3, 3+6, 6+0 of 10 each; two are drawn.
    sums = sorted(a + b for a, b in itertools.product((3, 9, 6), repeat=2))
    low, high = ratio_interval((0, 3, 6), (10, 10, 10))
    assert low == pytest.approx(100 * sums[0] / 40)
    assert high == pytest.approx(100 * sums[-1] / 40)


@given(st.lists(st.integers(0, 10**9), min_size=3, max_size=60))
def test_the_interval_holds_the_ratio_and_never_changes(effects: list[int]) -> None:
    window = [10**9] * len(effects)
    low, high = ratio_interval(effects, window)
    assert (low, high) == ratio_interval(effects, window)
    share = 100 * sum(effects) / sum(window)
    assert low <= share + 1e-6
    assert high >= share - 1e-6


@given(st.integers(0, 9000), st.integers(3, 40))
def test_the_interval_of_equal_steps_is_their_share(one: int, count: int) -> None:
    low, high = ratio_interval((one * MS // 1000,) * count, (10 * MS,) * count)
    assert low == pytest.approx(one / 100)
    assert high == pytest.approx(one / 100)


def test_many_steps_are_judged_quickly() -> None:
    low, high = ratio_interval(tuple(range(100_000)), (100_000,) * 100_000)
    assert 45 < low < 50 < high < 55


@pytest.mark.parametrize(
    ("effects_ms", "status", "severity", "note"),
    [
        # 10 % in every step.
        ([1.0] * 12, "fail", "warn", None),
        # 30 %: high, carried by twelve steps.
        ([3.0] * 12, "fail", "critical", None),
        # 25 % of four steps is high, but carried by few; 35 % is, however few.
        ([2.5] * 4, "fail", "warn", None),
        ([3.5] * 4, "fail", "critical", None),
        # Every other step waits: the median step does not, the time is lost.
        ([0.0, 4.0] * 8, "fail", "critical", None),
        # One step of twelve: without it nothing is left.
        ([0.0] * 11 + [9.0], "fail", "info", "once"),
        # 3 % are left without the one step that carries it; 5.5 % are a finding.
        ([0.3] * 11 + [9.0], "fail", "info", "once"),
        ([0.55] * 11 + [9.0], "fail", "warn", None),
        # A worst step that leaves 5 % behind is no excuse for the others.
        ([0.5] * 11 + [9.0], "fail", "warn", None),
        # Two steps of twelve: 6.7 % of the time, but perhaps by chance.
        ([0.0] * 5 + [4.0, 4.0] + [0.0] * 5, "fail", "info", "noisy"),
        # Fewer than three steps: the share alone, at most a warning.
        ([9.0], "fail", "warn", "few_steps"),
        ([9.0, 9.0], "fail", "warn", "few_steps"),
        ([0.0, 9.0], "fail", "info", "once"),
        ([0.4] * 12, "pass", "info", None),
        ([0.0] * 11 + [5.5], "pass", "info", "borderline"),
    ],
)
def test_the_share_of_all_time_decides(
    effects_ms: list[float], status: str, severity: str, note: str | None
) -> None:
    verdict = judged(effects_ms)
    assert (verdict.status, verdict.severity, verdict.note) == (status, severity, note)


@pytest.mark.parametrize(
    ("effects_ms", "step_ms", "severity", "note"),
    [
        # 5 % are a warning, 20 % are critical.
        ([0.5] * 12, 10, "warn", None),
        ([2.0] * 12, 10, "critical", None),
        ([1.99] * 12, 10, "warn", None),
        # Ten steps carry what is critical, nine do not; 30 % are so however few.
        ([2.5] * 10, 10, "critical", None),
        ([2.5] * 9, 10, "warn", None),
        ([3.0] * 4, 10, "critical", None),
        # Three steps are not few.
        ([1.0] * 3, 10, "warn", None),
        ([1.0] * 2, 10, "warn", "few_steps"),
        # 0.1 ms a step is long enough.
        ([0.1] * 12, 1, "warn", None),
    ],
)
def test_what_reaches_a_threshold_exceeds_it(
    effects_ms: list[float], step_ms: float, severity: str, note: str | None
) -> None:
    verdict = judged(effects_ms, step_ms=step_ms)
    assert (verdict.status, verdict.severity, verdict.note) == ("fail", severity, note)


@pytest.mark.parametrize(
    ("effect_ms", "doubt", "status"),
    [
        # 0.6 ms of twelve steps are 7.2 ms; 5 % are 6: 1.2 may be taken off.
        (0.6, {"excess_ps": 12 * MS // 10}, "fail"),
        (0.6, {"excess_ps": 13 * MS // 10}, "cannot_tell"),
        (0.6, {"doubt_ps": 12 * MS // 10}, "fail"),
        (0.6, {"doubt_ps": 13 * MS // 10}, "cannot_tell"),
        # Both may be wrong at once.
        (0.6, {"doubt_ps": 7 * MS // 10, "excess_ps": 6 * MS // 10}, "cannot_tell"),
        # 0.4 ms are 4.8 ms, which 1.2 more would make a finding.
        (0.4, {"unknown_ps": 12 * MS // 10}, "cannot_tell"),
        (0.4, {"unknown_ps": 11 * MS // 10}, "pass"),
        (0.4, {"doubt_ps": 12 * MS // 10}, "cannot_tell"),
        (0.4, {"doubt_ps": 11 * MS // 10}, "pass"),
        (0.4, {"doubt_ps": 6 * MS // 10, "unknown_ps": 6 * MS // 10}, "cannot_tell"),
    ],
)
def test_a_doubt_counts_once_it_changes_the_status(
    effect_ms: float, doubt: dict[str, int], status: str
) -> None:
    assert judged([effect_ms] * 12, **doubt).status == status


@pytest.mark.parametrize(
    ("unknown_us", "status"), [(959, "pass"), (960, "cannot_tell")]
)
def test_no_doubt_makes_a_finding_of_what_is_too_short_for_one(
    unknown_us: int, status: str
) -> None:
    """Of 0.5 ms a step 0.02 are lost, 4 %; a finding has 0.1, twelve of them 1.2."""
    verdict = judged([0.02] * 12, step_ms=0.5, unknown_ps=unknown_us * 1_000_000)
    assert verdict.status == status


def test_unknown_time_may_lengthen_what_is_too_short_for_a_finding() -> None:
    """0.06 of 1 ms are 6 %, but too short; with 0.05 ms more they are not."""
    assert judged([0.06] * 12, step_ms=1.0).note == "short"
    found = judged([0.06] * 12, step_ms=1.0, unknown_ps=12 * MS // 20)
    assert found.status == "cannot_tell"
    assert found.unavailable is not None
    assert found.unavailable.reason == (
        "The lost time is 6.0 %, but 5.0 % of the time has no known cause, and the "
        "verdict changes at 10 %."
    )


@pytest.mark.parametrize(
    ("idle_ms", "status"), [(0, "pass"), (89, "pass"), (91, "cannot_tell")]
)
def test_without_steps_time_without_work_may_be_outside_of_them(
    idle_ms: int, status: str
) -> None:
    """0.5 of 100 ms are 5 % of 10 ms, if no step is in the other 90 ms."""
    fields = {"step_source": None, "step_confidence": 0.0, "idle_ps": idle_ms * MS}
    found = judged([0.5], step_ms=100.0, **fields)
    assert found.status == status
    if found.unavailable is not None:
        assert found.unavailable.code == "NO_STEPS"
        assert "91.0 %" in found.unavailable.reason


def test_the_order_of_statuses_holds_for_short_steps_and_doubts() -> None:
    assert judged([0.09] * 12, step_ms=0.5).note == "short"
    assert judged([0.6] * 12, excess_ps=12 * MS // 5).status == "cannot_tell"
    assert judged([0.6] * 12, doubt_ps=12 * MS // 5).status == "cannot_tell"
    assert judged([0.4] * 12, unknown_ps=12 * MS // 5).status == "cannot_tell"
    # What is unknown can only raise an effect, what was lost only make one up.
    assert judged([0.6] * 12, unknown_ps=12 * MS).status == "fail"
    assert judged([0.4] * 12, excess_ps=12 * MS).status == "pass"


def test_a_doubt_names_its_source_and_is_at_most_all_of_the_time() -> None:
    # Twelve steps of 10 ms, and shifts that add up to twice as long.
    lost = judged([0.6] * 12, excess_ps=240 * MS).unavailable
    clocks = judged([0.6] * 12, doubt_ps=240 * MS).unavailable
    assert lost is not None
    assert clocks is not None
    assert "lost records may account for up to 100.0 %" in lost.reason
    assert "no record is dropped" in lost.remedy
    assert "differing clocks may account for up to 100.0 %" in clocks.reason
    assert "with one profiler" in clocks.remedy


@pytest.mark.parametrize(
    ("effects", "kind", "hit"),
    [
        ([5, 5, 6], "every", 3),
        ([0, 9, 0, 0], "once", 1),
        ([0, 9, 0, 9, 0, 0], "bursts", 2),
        ([7], "every", 1),
        ([0, 0, 0], "bursts", 0),
        # Three steps of five are 60 %.
        ([5, 5, 5, 0, 0], "every", 3),
        ([5, 5, 0, 0, 0], "bursts", 2),
        # Half of the mean is enough: 1 of 2.
        ([1, 3], "every", 2),
        ([9, 31], "once", 1),
        # Small waits in every step beside a few long ones: the long ones carry it.
        ([1, 1, 20, 1, 1, 20, 1, 1], "bursts", 2),
    ],
)
def test_a_pattern_counts_the_steps_that_carry_the_effect(
    effects: list[int], kind: str, hit: int
) -> None:
    found = effect_pattern(effects, every_percent=60)
    assert (found.kind, found.steps_hit, found.steps) == (kind, hit, len(effects))


def test_a_gain_is_known_as_well_as_the_mean_of_the_steps() -> None:
    """Five steps wait for 2 of 10 ms, five for 4: the mean is 3, give or take."""
    effects = tuple(ms * MS for ms in (2, 4) * 5)
    low, high = mean_interval_ms(effects)
    assert 2 < low < 2.9
    assert 3.1 < high < 4
    # The end of an interval is no gain: these steps lose 3 ms.
    assert Saving.of_part(3.0, low) == Saving(low=1.5, high=3.0)
    # Where the effects of steps differ much, even half of the mean may not come.
    assert Saving.of_part(3.0, 0.5) == Saving(low=0.5, high=3.0)


def test_how_many_steps_were_hit_is_no_doubt_of_a_gain() -> None:
    """Two steps of eleven wait for half a second: a gain is counted against these.

    One draw of steps in twenty holds neither of them, as if next to nothing came.
    """
    effects = [0] * 11
    effects[3] = effects[9] = 500 * MS
    mean = 1_000 / 11
    assert mean_interval_ms(effects) == pytest.approx((mean, mean))
    effects[9] = 600 * MS
    low, high = mean_interval_ms(effects)
    # Each of both may be either of them.
    assert low == pytest.approx(1_000 / 11)
    assert high == pytest.approx(1_200 / 11)


def test_steps_that_differ_leave_the_mean_in_doubt_whatever_the_share_is() -> None:
    """Of steps of 40 and 60 ms always half is lost: 20 or 30 ms, 25 in the mean."""
    effects = tuple(ms * MS // 2 for ms in (40, 60) * 5)
    low, high = mean_interval_ms(effects)
    assert 20 < low < 24.9
    assert 25.1 < high < 30


def test_no_more_is_promised_than_a_step_lasts() -> None:
    scattered = tuple(ms * MS for ms in (1, 3, 9, 2, 2, 9, 1, 3, 2, 3, 9, 1))
    assert mean_interval_ms(scattered)[1] > 15 / 4
    lost = judged([ms / MS for ms in scattered], window_ps=scattered).pattern
    assert lost.mean_ms is not None
    assert lost.mean_ms[1] == pytest.approx(15 / 4)
    # Where all steps are alike nothing is in doubt.
    assert judged([3] * 10).pattern.mean_ms == pytest.approx((3.0, 3.0))


@pytest.mark.parametrize("effects", [(3, 3, 3, 3), (1, 5)])
def test_equal_effects_and_few_have_no_interval(effects: tuple[int, ...]) -> None:
    times = tuple(ms * MS for ms in effects)
    assert mean_interval_ms(times) == (3.0, 3.0)


def _finding(stage: int, gain: float, severity: Any = "warn") -> Finding:
    return Finding(
        id=f"stage.{stage}",
        title="",
        stage=stage,
        status="fail",
        severity=severity,
        saving_ms=Saving(low=0, high=gain),
    )


def test_what_gains_less_than_an_earlier_stage_waits_for_it() -> None:
    found = mark_stage_order([_finding(6, 2.0), _finding(1, 3.0), _finding(3, 6.0)])
    assert [(one.stage, one.after_stage) for one in found] == [
        (1, None),
        (3, None),
        (6, 1),
    ]


@pytest.mark.parametrize(("earlier", "waits_for"), [(2.4, None), (2.6, 1)])
def test_what_gains_about_as_much_as_an_earlier_stage_need_not_wait(
    earlier: float, waits_for: int | None
) -> None:
    found = mark_stage_order([_finding(6, 2.0), _finding(1, earlier)])
    assert found[1].after_stage == waits_for


def test_all_wait_for_a_recording_that_hides_too_much() -> None:
    capture = Finding(
        id="capture", title="", stage=0, status="fail", severity="critical"
    )
    found = mark_stage_order([_finding(1, 3.0), capture])
    assert [one.after_stage for one in found] == [None, 0]


def test_nothing_waits_for_information() -> None:
    found = mark_stage_order([_finding(1, 1.0, "info"), _finding(3, 0.5)])
    assert [one.after_stage for one in found] == [None, None]


@pytest.mark.parametrize(
    ("share", "severity", "by"),
    [(6.0, "warn", "narrow"), (5.9, "warn", None), (9.0, "info", None)],
)
def test_a_narrower_finding_explains_a_broader_one(
    share: float, severity: Any, by: str | None
) -> None:
    broad = msgspec.structs.replace(_finding(2, 3.0), share_percent=10.0)
    narrow = msgspec.structs.replace(
        _finding(2, 2.0, severity), id="narrow", share_percent=share
    )
    words = Sentences(texts={})
    items = [
        Item(
            id=one.id,
            stage=2,
            place=1,
            module="",
            title="",
            about="",
            words=words,
            tools=(),
            explains=explains,
        )
        for one, explains in ((broad, ()), (narrow, (broad.id,)))
    ]
    found = mark_explained_findings(
        {one.id: one for one in (broad, narrow)},
        {},
        [Rule(item, lambda *_: broad, ()) for item in items],
    )
    assert found[broad.id].explained_by == (() if by is None else (by,))
    first = costliest_finding(mark_stage_order(found.values()))
    assert first is not None
    assert first.id == (by or broad.id)


@pytest.mark.parametrize(
    ("share", "note", "first"),
    [(20.0, "noisy", "stage.2"), (19.9, "noisy", None), (40.0, "once", None)],
)
def test_much_that_some_steps_lose_is_said_first(
    share: float, note: str, first: str | None
) -> None:
    burst = _finding(2, 3.0, "info")
    burst = msgspec.structs.replace(burst, share_percent=share, note=note)
    found = costliest_finding([burst])
    assert (found and found.id) == first


def test_every_rule_has_a_name_of_its_own_and_stands_in_the_guides_order() -> None:
    assert len({rule.item.id for rule in RULES}) == len(RULES)
    assert [rule.item.stage for rule in RULES] == sorted(
        rule.item.stage for rule in RULES
    )


def test_every_threshold_says_where_it_comes_from() -> None:
    silent = [
        name
        for name in THRESHOLDS.__struct_fields__
        if not (one := getattr(THRESHOLDS, name)).source or not one.meaning
    ]
    assert silent == []
    assert isinstance(THRESHOLDS.input_warn, Threshold)
