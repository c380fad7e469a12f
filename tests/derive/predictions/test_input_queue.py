"""Producers, buffer and steps as a queue: what a person works out by hand."""

from __future__ import annotations

import pytest

from stepscope.derive.predictions.input_queue import (
    InputTimes,
    Work,
    enough_workers,
    predict_queue,
    worker_numbers,
)

WAITING, COMPUTING = Work(cores=0.0), Work(cores=1.0)
IN_PYTHON = Work(cores=1.0, locked=1.0)


def mids(times: InputTimes, workers: tuple[int, ...]) -> list[float | None]:
    predicted = predict_queue(times, workers)
    return [predicted[number].mid for number in workers]


def test_waits_hide_behind_steps_and_behind_each_other() -> None:
    times = InputTimes([40.0] * 10, [2.0] * 10, 2, WAITING)
    # 42, then 40 / workers until the step itself is longer.
    assert mids(times, (0, 1, 2, 4, 8, 32)) == pytest.approx([42, 40, 20, 10, 5, 2])


def test_computing_workers_share_the_cores_with_the_step() -> None:
    times = InputTimes([40.0] * 10, [2.0] * 10, 2, COMPUTING)
    # Two cores have 42 ms of work for each step: 21 ms, however many workers.
    assert mids(times, (0, 1, 2, 4)) == pytest.approx([42, 40, 21, 21])


def test_long_steps_hide_one_producer() -> None:
    times = InputTimes([20.0] * 10, [25.0] * 10, 2, COMPUTING)
    assert mids(times, (0, 1, 2)) == pytest.approx([45, 25, 25])


def test_a_step_on_all_cores_gives_half_of_one_to_a_producer() -> None:
    # 25 ms on two cores are 50 of work; with the batch 70 on two cores.
    times = InputTimes([20.0] * 10, [25.0] * 10, 2, COMPUTING, Work(cores=2.0))
    assert mids(times, (1,)) == pytest.approx([35], rel=0.03)


def test_threads_that_compute_in_python_take_turns() -> None:
    times = InputTimes([20.0] * 10, [25.0] * 10, 8, IN_PYTHON, IN_PYTHON)
    assert mids(times, (0, 1, 4)) == pytest.approx([45, 45, 45])


def test_unequal_batches_leave_a_wait_that_a_deeper_buffer_hides() -> None:
    times = InputTimes([5.0, 35.0] * 6, [20.0] * 12, None, WAITING)
    shallow, deep = (
        predict_queue(times, (1,), depth=depth)[1].mid for depth in (1, 16)
    )
    assert shallow is not None
    assert deep is not None
    assert shallow > deep + 2


def test_unequal_steps_give_an_interval_and_equal_steps_none() -> None:
    equal = predict_queue(InputTimes([5.0] * 9, [20.0] * 9, 2), (1,))[1]
    assert (equal.low, equal.mid, equal.high) == pytest.approx((20, 20, 20))
    unequal = predict_queue(InputTimes([5.0] * 9, [16.0, 20, 24] * 3, 2), (1,))[1]
    assert unequal.high is not None
    assert unequal.low < 19.5
    assert unequal.high > 20.5


def test_the_fewest_workers_within_two_percent_are_enough() -> None:
    times = InputTimes([40.0] * 10, [10.1] * 10, 8, COMPUTING)
    predicted = predict_queue(times, worker_numbers(8))
    assert [predicted[number].mid for number in (1, 2, 4, 8)] == pytest.approx(
        [40, 20, 10.1, 10.1]
    )
    assert enough_workers(predicted) == 4


def test_numbers_of_workers_double_up_to_the_cores() -> None:
    assert worker_numbers(2) == (1, 2)
    assert worker_numbers(6) == (1, 2, 4, 6)


def test_two_steps_have_no_interval() -> None:
    with pytest.raises(ValueError, match="needs 3 steps"):
        predict_queue(InputTimes([1.0] * 2, [1.0] * 2), (1,))
