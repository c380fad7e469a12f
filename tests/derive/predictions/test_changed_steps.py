"""Steps without work, with rare work, and with work elsewhere: worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from stepscope.derive.predictions.changed_steps import (
    DividedSteps,
    bound_step,
    do_work_rarely,
    overlap_work,
    pause_in_background,
    remove_work,
    replayed_step,
)
from stepscope.derive.predictions.input_queue import Work
from stepscope.derive.predictions.step_times import (
    StepTime,
    half_width,
    mean_of_other_steps,
    span_of_cases,
    student_quantile,
)

ALONE = Work(cores=1.0)


def steps(rest: list[float], work: list[float]) -> DividedSteps:
    return DividedSteps(np.asarray(rest), np.asarray(work))


EQUAL = steps([10.0] * 8, [30.0] * 8)


def numbers(time: StepTime) -> tuple[float, float | None, float | None]:
    return (time.low, time.mid, time.high)


def test_quantiles_are_those_of_the_printed_table() -> None:
    # 2.920, 2.132, 1.833, 1.699 for 2, 4, 9 and 29 degrees of freedom.
    counts = (3, 5, 10, 30)
    table = [student_quantile(count) for count in counts]
    assert table == pytest.approx([2.920, 2.132, 1.833, 1.699], rel=0.013)


def test_the_mean_of_other_steps_scatters_twice() -> None:
    # Deviation 1, so 2.920 · √(2/3) on each side.
    assert numbers(mean_of_other_steps([9.0, 10.0, 11.0])) == pytest.approx(
        (10 - 2.384, 10, 10 + 2.384), rel=0.004
    )


def test_the_mean_scatters_more_if_the_machine_is_slower_for_some_steps() -> None:
    # Four blocks of 9, 9, 11 and 11: deviation 1.155, so 2.353 · 1.155 · √(2/4).
    slower = [9.0] * 8 + [11.0] * 8
    assert half_width(slower) == pytest.approx(1.921, rel=0.01)
    # In turns each block has both: the deviation of steps is 1.033.
    in_turns = [9.0, 11.0] * 8
    assert half_width(in_turns) == pytest.approx(1.753 * 1.033 * 8**-0.5, rel=0.01)


def test_a_step_without_its_work_may_be_shorter_than_what_remains() -> None:
    time = StepTime(low=8, mid=10, high=12)
    assert numbers(time.with_shorter_rest(0.9)) == pytest.approx((7.2, 9, 12))
    assert numbers(StepTime(low=8).with_shorter_rest(0.5)) == (4, None, None)


def test_removed_and_rare_work() -> None:
    assert numbers(remove_work(EQUAL)) == (10, 10, 10)
    assert numbers(do_work_rarely(EQUAL, every=10)) == (13, 13, 13)


def test_cheaper_work_has_a_lower_bound_only() -> None:
    assert numbers(bound_step(EQUAL)) == (10, None, None)


def test_no_step_falls_below_a_floor_and_no_middle_below_what_remains() -> None:
    time = StepTime(low=8, mid=9, high=10)
    assert numbers(time.not_below(7, 9.5)) == (8, 9.5, 10)
    assert numbers(time.not_below(8.5, 11)) == (8.5, 11, 11)
    assert numbers(StepTime(low=8).not_below(8.5, 11)) == (8.5, None, None)


def test_long_waits_cannot_hide_behind_short_steps() -> None:
    overlapped = overlap_work(EQUAL, cores=2, working=[Work(0.0)], stepping=ALONE)
    assert numbers(overlapped) == pytest.approx((30, 30, 30))


def test_work_of_unknown_kind_waits_or_computes() -> None:
    one_core = overlap_work(
        EQUAL, cores=1, working=[Work(0.0), Work(1.0)], stepping=ALONE
    )
    # Waiting 30 ms hides the step; computing shares the only core with it: 40.
    assert numbers(one_core) == pytest.approx((30, 35, 40))


def test_rare_work_hides_behind_all_steps_until_it_comes_again() -> None:
    rare = steps([10.0] * 8, [0, 0, 0, 20.0, 0, 0, 0, 20.0])
    overlapped = overlap_work(rare, cores=2, working=[Work(0.0)], stepping=ALONE)
    assert numbers(overlapped) == pytest.approx((10, 10, 10))


def test_a_pause_in_the_background_is_hidden_or_copied() -> None:
    pauses = steps([10.0] * 8, [4.0] * 8)
    # At most half of the pause is copied.
    assert numbers(pause_in_background(pauses)) == (10, 11, 12)
    # 30 ms of writing for each 10 ms of steps delay the next pause by 20.
    assert numbers(pause_in_background(EQUAL)) == (30, 30, 30)


def test_a_replay_gives_its_range_and_the_scatter_of_the_rest() -> None:
    assert numbers(replayed_step(EQUAL, gain_ms=(20.0, 30.0))) == (10, 15, 20)
    scattered = steps([9.0, 10.0, 11.0], [5.0] * 3)
    doubt = half_width([9.0, 10.0, 11.0])
    assert numbers(replayed_step(scattered, gain_ms=(5.0, 5.0))) == pytest.approx(
        (10 - doubt, 10, 10 + doubt)
    )


def test_undecided_cases_span_their_intervals() -> None:
    cases = (StepTime(low=1, mid=2, high=3), StepTime(low=4, mid=5, high=6))
    assert numbers(span_of_cases(cases)) == (1, 3.5, 6)
    assert numbers(span_of_cases((StepTime(low=1), StepTime(low=2)))) == (1, None, None)


def test_another_run_adds_its_own_scatter() -> None:
    # 3 and 4 % of 100 are 5 % together, and 5 and 12 % are 13 %.
    time = StepTime(low=97, mid=100, high=105).of_another_run(0.04, 0.12)
    assert numbers(time) == pytest.approx((95, 100, 113))
    assert numbers(StepTime(low=100).of_another_run(0.04, 0.12)) == (96, None, None)
