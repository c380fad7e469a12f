"""Which candidate defines the steps, and the step of each activity, by plain loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.traces.literal_tables import activity_of, correlation_of, steps_of

from stepscope.derive.steps.candidates import (
    STEP_ROWS,
    Candidate,
    CandidateSteps,
    median_period,
)
from stepscope.derive.steps.chosen import (
    StepCandidates,
    Steps,
    activity_steps,
    choose_steps,
    steps,
)
from stepscope.derive.steps.stored import STORED_STEPS
from stepscope.unavailable import Unavailable

WHY = Unavailable(code="NOT_RECORDED", reason="no", remedy="record it")


def candidate(
    source: str, confidence: float, *, accepted: bool, n: int = 3
) -> CandidateSteps:
    about = Candidate(
        source=source,
        what=f"a {source}",
        n=n,
        period_ps=10,
        coverage=None,
        cv=None,
        confidence=confidence,
        accepted=accepted,
    )
    rows = pl.DataFrame(schema=STEP_ROWS)
    on_device = source == "device_line"
    return CandidateSteps(about, rows, on_device=on_device, last_end_ps=n)


def found_of(*found: CandidateSteps) -> StepCandidates:
    return StepCandidates(found, pl.DataFrame(schema=STORED_STEPS))


def test_the_first_accepted_candidate_defines_the_steps() -> None:
    every = [
        candidate("period", 0.9, accepted=False),
        candidate("device_line", 0.7, accepted=True, n=5),
        candidate("marker", 1.0, accepted=True),
    ]
    found = steps(step_candidates=found_of(*every))
    assert isinstance(found, Steps)
    assert found.rows is every[1].rows
    assert (found.source, found.confidence) == ("device_line", 0.7)
    assert (found.on_device, found.last_end_ps) == (True, 5)
    assert found.inferred is False
    order = [every[at].candidate for at in (1, 0, 2)]
    assert list(found.candidates) == order
    other = choose_steps(found_of(*every), 0)
    assert (other.source, other.on_device, other.inferred) == ("period", False, True)


@pytest.mark.parametrize("source", ["marker", "device_line", "stored_call"])
def test_recorded_steps_are_not_inferred(source: str) -> None:
    assert not choose_steps(found_of(candidate(source, 1.0, accepted=True)), 0).inferred


def test_without_an_accepted_candidate_the_best_is_named() -> None:
    found = steps(
        step_candidates=found_of(
            candidate("period", 0.31, accepted=False),
            candidate("launch", 0.58, accepted=False, n=7),
        )
    )
    assert isinstance(found, Unavailable)
    assert found.code == "NO_STEPS"
    assert "7 times a launch, has a confidence of 0.58 and 0.60" in found.reason
    nothing = steps(step_candidates=found_of())
    assert isinstance(nothing, Unavailable)
    assert nothing.code == "NO_STEPS"


@pytest.mark.parametrize(
    ("starts", "period"),
    [([], None), ([5], None), ([5, 9], 4), ([0, 1, 10], 5), ([0, 7, 9, 12], 3)],
)
def test_the_period_is_the_median_distance(
    starts: list[int], period: int | None
) -> None:
    assert median_period(np.array(starts, np.int64)) == period


# The step of each activity.

STARTS = [10, 20, 40, 50]


def last_begun(time: int, end: int | None = None) -> int:
    """The last step that began by a time; -1 for none, or after the end of all."""
    if end is not None and time >= end:
        return -1
    return sum(start <= time for start in STARTS) - 1


def filled(tracks: list[int], found: list[int]) -> list[int]:
    """Each gap is filled from the row before on the same track."""
    answer: list[int] = []
    for row, step in enumerate(found):
        before = answer[row - 1] if row and tracks[row - 1] == tracks[row] else -1
        answer.append(step if step >= 0 else before)
    return answer


ROW = st.tuples(
    st.integers(0, 2),  # track
    st.integers(0, 70),  # start
    st.integers(0, 30),  # duration
    st.integers(-1, 3),  # launch
    st.sampled_from((None, None, None, 6, 8, 99)),  # group
)
CALLS = st.lists(st.integers(0, 60), min_size=4, max_size=4)


@given(rows=st.lists(ROW, max_size=9), calls=CALLS, grouped=st.booleans())
def test_an_activity_belongs_to_the_step_of_its_group_else_of_its_call_on_the_host(
    rows: list[Any], calls: list[int], *, grouped: bool
) -> None:
    rows.sort(key=lambda row: row[:2])
    activity = activity_of(
        [(row[0], 0, "kernel", 0, row[1], row[2]) for row in rows],
        group=[row[4] for row in rows],
    )
    launches = [(0, 0, start, 1) for start in calls]
    matched = correlation_of(activity, launches, [row[3] for row in rows])
    groups = [8, None, 6, 5] if grouped else [None] * 4
    given_steps = steps_of(STARTS, group=groups)
    for correlation in (matched, WHY):
        known = []
        for row in rows:
            step = -1
            if correlation is not WHY and row[3] >= 0:
                step = last_begun(calls[row[3]])
            if grouped and row[4] in groups and row[4] is not None:
                step = groups.index(row[4])
            known.append(step)
        found = activity_steps(
            recording_end=None,
            steps=given_steps,
            device_activity=activity,
            correlation=correlation,
        )
        if correlation is WHY and max(known, default=-1) < 0:
            assert found is WHY
            continue
        assert not isinstance(found, Unavailable)
        assert found.dtype == np.int32
        assert found.tolist() == filled([row[0] for row in rows], known)


@given(rows=st.lists(ROW, max_size=9), ended=st.booleans())
def test_on_the_device_an_activity_belongs_to_the_step_in_which_it_or_its_call_ran(
    rows: list[Any], *, ended: bool
) -> None:
    rows.sort(key=lambda row: row[:2])
    activity = activity_of([(row[0], 0, "kernel", 0, row[1], row[2]) for row in rows])
    launches = [(0, 0, 0, 1)] * 4
    matched = correlation_of(activity, launches, [row[3] for row in rows])
    end = 60 if ended else None
    given_steps = steps_of(STARTS, on_device=True, end_ps=[20, 40, 50, end])
    for correlation in (matched, WHY):
        known = []
        for row in rows:
            step = last_begun(row[1], end)
            own = [each for each in rows if each[3] == row[3]]
            if correlation is not WHY and row[3] >= 0 and len(own) > 1:
                first = min(each[1] for each in own)
                last = max(each[1] + each[2] for each in own)
                begins, ends = last_begun(first), last_begun(last)
                is_one = ends - begins <= 1
                if ends - begins == 2:
                    inner = STARTS[begins + 2] - STARTS[begins + 1]
                    is_one = last - first < 1.5 * inner
                if is_one:
                    step = last_begun(first + (last - first) // 2, end)
            known.append(step)
        found = activity_steps(
            recording_end=None,
            steps=given_steps,
            device_activity=activity,
            correlation=correlation,
        )
        assert not isinstance(found, Unavailable)
        assert found.tolist() == filled([row[0] for row in rows], known)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([(15, 1), (44, 0)], [1, 1]),
        ([(14, 1), (44, 0)], [0, 2]),  # exactly 1.5 times the inner step of 20
        ([(15, 1), (50, 0)], [0, 3]),  # spans four steps
    ],
)
def test_work_of_one_call_within_three_steps_is_of_one_if_it_is_short(
    parts: list[tuple[int, int]], expected: list[int]
) -> None:
    activity = activity_of([(0, 0, "kernel", 0, *part) for part in parts])
    found = activity_steps(
        recording_end=None,
        steps=steps_of(STARTS, on_device=True),
        device_activity=activity,
        correlation=correlation_of(activity, [(0, 0, 0, 1)], [0, 0]),
    )
    assert not isinstance(found, Unavailable)
    assert found.tolist() == expected


@pytest.mark.parametrize("on_device", [False, True])
def test_many_times_in_order_are_searched_as_few_are(*, on_device: bool) -> None:
    """6,000 activities on two streams; their calls are in order too."""
    times = np.repeat(np.arange(0, 60), 50)
    rows = [(track, 0, "kernel", 0, int(time), 1) for track in (0, 1) for time in times]
    activity = activity_of(rows)
    calls = [(track, 0, time, 1) for track, _, _, _, time, _ in rows]
    found = activity_steps(
        recording_end=None,
        steps=steps_of(STARTS, on_device=on_device),
        device_activity=activity,
        correlation=correlation_of(activity, calls, range(len(rows))),
    )
    assert not isinstance(found, Unavailable)
    assert found.tolist() == [last_begun(row[4]) for row in rows]
