"""Launch kernels: both forms against loops over plain lists."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

Forms = dict[str, "ModuleType"]
LEAST, WIDTH = -3, 8
IDS = st.lists(st.integers(LEAST, LEAST + WIDTH - 1))


@given(called=IDS, wanted=st.lists(st.integers(-(2**63), 2**63 - 1) | IDS.map(sum)))
def test_the_last_call_with_an_id_is_found(
    kernel_forms: Callable[[str], Forms], called: list[int], wanted: list[int]
) -> None:
    last = {identity: row for row, identity in enumerate(called)}
    expected = [last.get(identity, -1) for identity in wanted]
    for form in kernel_forms("launches").values():
        out = np.zeros(len(wanted), np.int32)
        count = np.zeros(len(called), np.int32)
        found = form.match_launches(
            np.array(called, np.int64),
            np.array(wanted, np.int64),
            LEAST,
            np.full(WIDTH, -1, np.int32),
            out,
            count,
        )
        assert expected == out.tolist()
        assert [expected.count(row) for row in range(len(called))] == count.tolist()
        assert sum(row >= 0 for row in expected) == found


def test_ids_at_the_ends_of_64_bits_are_not_found(
    kernel_forms: Callable[[str], Forms],
) -> None:
    for form in kernel_forms("launches").values():
        wanted = np.array([2**63 - 1, -(2**63), 0], np.int64)
        out, count = np.zeros(3, np.int32), np.zeros(1, np.int32)
        table = np.full(WIDTH, -1, np.int32)
        called = np.array([0], np.int64)
        assert form.match_launches(called, wanted, LEAST, table, out, count) == 1
        assert out.tolist() == [-1, -1, 0]


def test_a_called_id_outside_of_the_table_is_refused(
    kernel_forms: Callable[[str], Forms],
) -> None:
    for form in kernel_forms("launches").values():
        for identity in (LEAST - 1, LEAST + WIDTH):
            called = np.array([identity], np.int64)
            table, out = np.full(WIDTH, -1, np.int32), np.zeros(0, np.int32)
            count = np.zeros(1, np.int32)
            answer = form.match_launches(called, called[:0], LEAST, table, out, count)
            assert answer == form.BAD_RANGE


ACTIVITY = st.tuples(st.integers(-1, 2), st.integers(0, 20), st.integers(0, 20))
CALLS = [(5, 2), (9, 0), (12, 3)]


@given(activities=st.lists(ACTIVITY))
def test_waits_are_those_of_an_empty_queue(
    kernel_forms: Callable[[str], Forms], activities: list[tuple[int, int, int]]
) -> None:
    empty, latency, early = [], [], []
    for launch, begin, busy_until in activities:
        called, dur = CALLS[launch]
        known = launch >= 0
        waits = known and begin > called >= busy_until
        empty.append(int(waits))
        latency.append(max(begin - called - dur, 0) if waits else 0)
        if known and begin < called:
            early.append(called - begin)
    for form in kernel_forms("launches").values():
        rows = len(activities)
        out, delay = np.full(rows, 9, np.uint8), np.full(rows, 9, np.int64)
        skew = np.zeros(2, np.int64)
        columns = np.array(activities, np.int64).reshape(-1, 3)
        answer = form.find_idle_waits(
            columns[:, 0].astype(np.int32),
            columns[:, 1].copy(),
            columns[:, 2].copy(),
            np.array([start for start, _ in CALLS], np.int64),
            np.array([dur for _, dur in CALLS], np.int64),
            out,
            delay,
            skew,
        )
        assert empty == out.tolist()
        assert latency == delay.tolist()
        assert [len(early), max(early, default=0)] == skew.tolist()
        assert sum(empty) == answer


@given(rows=st.lists(st.tuples(st.integers(0, 3), st.integers(-1, 4))))
def test_executions_count_once_for_the_place_that_saw_them_first(
    kernel_forms: Callable[[str], Forms], rows: list[tuple[int, int]]
) -> None:
    owner = [-1] * 5
    spilled = []
    for row, (place, execution) in enumerate(rows):
        if execution < 0:
            continue
        if owner[execution] < 0:
            owner[execution] = place
        elif owner[execution] != place:
            spilled.append(row)
    for form in kernel_forms("launches").values():
        owners, count = np.full(5, -1, np.int32), np.zeros(4, np.int64)
        spills = np.full(len(rows), -1, np.int64)
        answer = form.count_executions(
            np.array([place for place, _ in rows], np.int32),
            np.array([execution for _, execution in rows], np.int32),
            owners,
            count,
            spills,
        )
        assert owner == owners.tolist()
        assert [owner.count(place) for place in range(4)] == count.tolist()
        assert spilled == spills.tolist()[: len(spilled)]
        assert len(spilled) == answer


def test_numbers_outside_of_their_tables_are_refused(
    kernel_forms: Callable[[str], Forms],
) -> None:
    for form in kernel_forms("launches").values():
        spills = np.zeros(0, np.int64)
        for place, execution in ((4, 0), (-1, 0), (0, 5)):
            answer = form.count_executions(
                np.array([place], np.int32),
                np.array([execution], np.int32),
                np.full(5, -1, np.int32),
                np.zeros(4, np.int64),
                spills,
            )
            assert answer == form.BAD_RANGE


NEVER = 2**63 - 1
#: (begin, duration, launch) of activities in order of begin.
ACTIVITIES = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 3), st.integers(-1, 2)), max_size=12
).map(lambda rows: sorted(rows, key=lambda row: row[0]))


@given(activities=ACTIVITIES, ends=st.sets(st.integers(0, 35), max_size=8))
def test_a_stretch_is_ended_by_the_first_activity_that_begins_at_its_end(
    kernel_forms: Callable[[str], Forms],
    activities: list[tuple[int, int, int]],
    ends: set[int],
) -> None:
    returned = [start + dur for start, dur in CALLS]
    lasting = [(at, row) for at, row in enumerate(activities) if row[1] > 0]
    expected = []
    for end in sorted(ends):
        later = [(at, row) for at, row in lasting if row[0] >= end]
        ending = later[0][0] if later and later[0][1][0] == end else -1
        behind = [returned[row[2]] for at, row in later if at != ending and row[2] >= 0]
        expected.append((ending, min(behind, default=NEVER)))
    # The launches are listed by row of another table, backwards here.
    count = len(activities)
    begin, dur, launch = np.array(activities, np.int64).reshape(-1, 3).T.copy()
    for form in kernel_forms("launches").values():
        place, behind = np.zeros(len(ends), np.int64), np.zeros(len(ends), np.int64)
        answer = form.find_idle_endings(
            np.array(sorted(ends), np.int64),
            begin,
            dur,
            np.arange(count)[::-1].copy(),
            launch[::-1].astype(np.int32),
            np.array([start for start, _ in CALLS], np.int64),
            np.array([dur for _, dur in CALLS], np.int64),
            place,
            behind,
        )
        assert expected == list(zip(place.tolist(), behind.tolist(), strict=True))
        assert sum(at >= 0 for at, _ in expected) == answer


@given(
    activities=st.lists(
        st.tuples(
            st.integers(0, 1), st.integers(0, 30), st.integers(0, 3), st.integers(-1, 2)
        ),
        max_size=12,
    ),
    ahead=st.integers(0, 5),
)
def test_gaps_are_those_before_work_that_waited(
    kernel_forms: Callable[[str], Forms],
    activities: list[tuple[int, int, int, int]],
    ahead: int,
) -> None:
    returned = [start + dur for start, dur in CALLS]
    expected = []
    for before, after in pairwise(activities):
        ended = before[1] + before[2]
        waited = after[3] >= 0 and returned[after[3]] <= ended - ahead
        if before[0] == after[0] and waited and after[1] > ended:
            expected.append(after[1] - ended)
    track, begin, dur, launch = np.array(activities, np.int64).reshape(-1, 4).T.copy()
    for form in kernel_forms("launches").values():
        out = np.zeros(len(activities), np.int64)
        answer = form.find_unlaunched_gaps(
            track.astype(np.int32),
            begin,
            dur,
            launch.astype(np.int32),
            np.array([start for start, _ in CALLS], np.int64),
            np.array([dur for _, dur in CALLS], np.int64),
            ahead,
            out,
        )
        assert expected == out[:answer].tolist()


def test_arrays_that_do_not_fit_together_are_refused(
    kernel_forms: Callable[[str], Forms],
) -> None:
    long, two = np.zeros(3, np.int64), np.zeros(2, np.int64)
    rows, few = np.zeros(3, np.int32), np.zeros(2, np.int32)
    for form in kernel_forms("launches").values():
        bad = form.BAD_RANGE
        endings = form.find_idle_endings
        lasting = np.ones(3, np.int64)
        fits = [long, long, lasting, long, rows, long, long, long.copy(), long.copy()]
        for at in (2, 3, 5, 7, 8):
            assert endings(*fits[:at], two.copy(), *fits[at + 1 :]) == bad
        outside = fits.copy()
        outside[3] = np.full(3, 3)
        assert endings(*outside) == bad
        outside[3:5] = long, np.full(3, 3, np.int32)
        assert endings(*outside) == bad
        gaps = [rows, long, long, rows, long, long]
        assert form.find_unlaunched_gaps(few, *gaps[1:], 0, long.copy()) == bad
        assert (
            form.find_unlaunched_gaps(*gaps[:2], two, *gaps[3:], 0, long.copy()) == bad
        )
        assert (
            form.find_unlaunched_gaps(*gaps[:3], few, *gaps[4:], 0, long.copy()) == bad
        )
        assert form.find_unlaunched_gaps(*gaps[:5], two, 0, long.copy()) == bad
        assert form.find_unlaunched_gaps(*gaps, 0, two.copy()) == bad
        beyond = np.full(3, 3, np.int32)
        assert (
            form.find_unlaunched_gaps(*gaps[:3], beyond, *gaps[4:], 0, long.copy())
            == bad
        )
