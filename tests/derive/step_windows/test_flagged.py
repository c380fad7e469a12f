"""What flags a window, worked out by hand and at each threshold."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.support.traces.literal_tables import (
    activity_of,
    correlation_of,
    kinds_of,
    steps_of,
    tables_of,
)

from stepscope.derive.intervals.spans import Spans
from stepscope.derive.names.event_kinds import EventFlag, HostClass
from stepscope.derive.step_windows.flags import (
    FLAGS,
    cold_start,
    device_work,
    host_work,
    steps_of_other_kinds,
    steps_with_fewer_records,
    warm_up,
    window_flags,
)

# Steps of other kinds.


def others(
    steps: list[dict[int, int]],
    *,
    judged: list[bool] | None = None,
    durations: dict[int, int] | None = None,
) -> list[int]:
    """The steps of another kind among steps that ran each type so many times."""
    work = [
        (step, kind, (durations or {}).get(kind, 10))
        for step, kinds in enumerate(steps)
        for kind, count in kinds.items()
        for _ in range(count)
    ]
    step, kind, dur = (
        np.array(column, dtype)
        for column, dtype in zip(
            zip(*work, strict=True), (np.int32, np.int32, np.int64), strict=True
        )
    )
    chosen = np.ones(len(steps), np.bool_) if judged is None else np.array(judged)
    found = steps_of_other_kinds((step, kind, dur), len(steps), chosen)
    return np.flatnonzero(found).tolist()


USUAL = {1: 2, 2: 2}


@pytest.mark.parametrize(
    ("unusual", "is_other"),
    [
        ({1: 2, 2: 2, 3: 4}, False),  # 4 of 8 in common
        ({1: 2, 2: 2, 3: 5}, True),  # 4 of 9
        ({1: 2}, False),  # 2 of 4
        ({1: 1}, True),
        ({}, True),
    ],
)
def test_a_step_that_shares_less_than_half_of_the_work_is_of_another_kind(
    unusual: dict[int, int], *, is_other: bool
) -> None:
    assert others([USUAL, unusual, USUAL, USUAL]) == ([1] if is_other else [])


def test_work_is_weighed_by_the_mean_time_of_its_name() -> None:
    """Four entries more, but of 1 against 10: 40 of 44 in common."""
    steps = [USUAL, {1: 2, 2: 2, 3: 4}, USUAL, USUAL]
    assert others(steps, durations={3: 1}) == []
    assert others([USUAL, {1: 2, 2: 2, 3: 1}, USUAL, USUAL], durations={3: 41}) == [1]
    assert others([USUAL, {1: 2, 2: 2, 3: 1}, USUAL, USUAL], durations={3: 40}) == []


@pytest.mark.parametrize(
    ("count", "unusual", "rare"),
    [
        (20, 3, True),  # 0.15 of 20
        (19, 3, False),
        (4, 1, True),  # one is always rare
        (5, 2, False),
        (3, 1, False),  # three steps are too few to compare
    ],
)
def test_only_a_few_steps_are_of_another_kind(
    count: int, unusual: int, *, rare: bool
) -> None:
    steps = [*[USUAL] * (count - unusual), *[{7: 9}] * unusual]
    expected = list(range(count - unusual, count)) if rare else []
    assert others(steps) == expected


def test_steps_that_are_not_judged_are_neither_compared_nor_flagged() -> None:
    steps = [{9: 3}, USUAL, {8: 9}, USUAL, USUAL, USUAL]
    judged = [False, True, True, True, True, True]
    assert others(steps, judged=judged) == [2]
    judged = [False, True, True, True, False, False]
    assert others(steps, judged=judged) == []


def test_without_work_no_step_is_of_another_kind() -> None:
    every = np.ones(5, np.bool_)
    nothing = (np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.int64))
    assert not steps_of_other_kinds(None, 5, every).any()
    assert not steps_of_other_kinds(nothing, 5, every).any()


def test_the_work_of_the_device_is_kernels_and_collectives() -> None:
    kinds = ("kernel", "h2d", "collective", "kernel", "memset")
    rows = [(0, 0, kind, 10 + k, k, k + 1) for k, kind in enumerate(kinds)]
    step = np.array([0, 1, 2, -1, 3], np.int32)
    found = device_work(activity_of(rows), step)
    assert found is not None
    assert [column.tolist() for column in found] == [
        [0, -1, 2, -1, -1],
        [10, 11, 12, 13, 14],
        [1, 2, 3, 4, 5],
    ]
    assert (
        device_work(activity_of(rows), np.array([-1, 0, -1, -1, 0], np.int32)) is None
    )


OPS = kinds_of(
    6,
    ops=[0, 3, 4],
    flags={
        1: EventFlag.FUNCTION_CALL,
        3: EventFlag.DATASET,
        4: EventFlag.ALLOCATOR,
        5: EventFlag.PYTHON_FRAME,
    },
)


def test_the_work_of_the_host_is_what_the_thread_of_a_step_ran_until_the_next() -> None:
    """Ops and calls of programs; no iterators, no memory, no workers of the input."""
    lines = [
        *((0, 0, 5, 1), (0, 0, 10, 2), (0, 1, 19, 3), (0, 0, 20, 4), (0, 0, 99, 5)),
        *((0, kind, 12, 6) for kind in (2, 3, 4, 5)),
        *((1, 0, 12, 7), (1, 1, 30, 8), (1, 0, 41, 9)),
        (2, 0, 30, 3),
        (3, 0, 30, 3),
    ]
    tracks, events = tables_of(lines, ["a", "b", "c", "tf_data_x"])
    steps = steps_of([10, 20, 30, 40], track=[0, 0, 1, 3])
    found = host_work(steps, tracks, events, OPS)
    assert found is not None
    assert sorted(zip(*(column.tolist() for column in found), strict=True)) == [
        *((0, 0, 2), (0, 1, 3), (1, 0, 4), (1, 0, 5)),
        *((2, 0, 9), (2, 1, 8)),
    ]


def test_without_a_thread_of_the_steps_their_work_on_the_host_is_unknown() -> None:
    tracks, events = tables_of([(0, 0, 10, 2)], ["a"])
    assert host_work(steps_of([0], track=[0]), tracks, events, OPS) is not None
    for steps in (
        steps_of([0], track=[0], on_device=True),
        steps_of([0, 5], track=[0, None]),
        steps_of([11], track=[0]),
    ):
        assert host_work(steps, tracks, events, OPS) is None


# Warm-up.

WAITS = kinds_of(2, classes={0: HostClass.INPUT_WAIT})


def warm(
    waits: list[int], *, length: int = 100, track: int = 0, on_device: bool = False
) -> list[int]:
    """The steps of warm-up among steps with these waits and a last one."""
    lines = [
        (track, 0, length * step + 1, wait) for step, wait in enumerate(waits) if wait
    ]
    lines += [(0, 1, length * step, length) for step in range(len(waits))]
    _, events = tables_of(lines, ["a", "b"])
    starts = [length * step for step in range(len(waits) + 1)]
    steps = steps_of(starts, track=[0] * len(starts), on_device=on_device)
    return np.flatnonzero(warm_up(steps, events, WAITS)).tolist()


def test_steps_that_found_their_batches_ready_are_warm_up() -> None:
    cases: list[tuple[list[int], list[int]]] = [
        ([1, 1, *[40] * 8], [0, 1]),
        ([1, 1, *[40] * 7], []),  # eight others are needed
        # A wait of half the usual one is not a batch that was ready.
        ([1, 19, *[40] * 8], [0, 1]),
        ([1, 20, *[40] * 8], []),  # 1 of 1 by chance: (1 / 11) ^ 1 = 0.09
        ([1, *[40] * 8], []),  # (1 / 10) ^ 1
        ([1, 1, 40, 1, 1, *[40] * 7], []),  # ((2 + 1) / 12) ^ 2 = 0.0625
        ([1, 1, 40, 1, *[40] * 8], [0, 1]),  # ((1 + 1) / 12) ^ 2 = 0.028
        ([1, 1, *[5] * 8], [0, 1]),  # waits of 5 %
        ([1, 1, *[4] * 8], []),
        ([40] * 10, []),
        # The later half waits 22 at the median; its first step counts.
        ([*[1] * 8, *[40] * 3, *[4] * 5, *[40] * 4], list(range(8))),
    ]
    for waits, expected in cases:
        assert warm(waits) == expected


def test_only_waits_of_the_threads_of_the_steps_count_on_the_host() -> None:
    waits = [1, 1, *[40] * 8]
    assert warm(waits, track=1) == []
    assert warm(waits, on_device=True) == []


# A cold start.


def cold(
    first: int,
    others: list[int],
    events: list[tuple[int, int, int]] = (),
) -> bool:
    """Whether the first of some windows is cold; the last one is never compared."""
    lengths = np.array([first, *others, 10_000])
    ends = np.cumsum(lengths)
    _, frame = tables_of([(0, *event) for event in events], ["a"])
    found = cold_start(ends - lengths, ends, frame)
    assert not found[1:].any()
    return bool(found[0])


@pytest.mark.parametrize(
    ("first", "others", "is_cold"),
    [
        (301, [100] * 8, True),
        (300, [100] * 8, False),  # three medians
        (301, [100] * 7, False),  # seven others
        (361, [*[100] * 7, 180], True),
        (360, [*[100] * 7, 180], False),  # twice the longest
    ],
)
def test_a_cold_first_window_is_far_longer_than_the_others(
    first: int, others: list[int], *, is_cold: bool
) -> None:
    assert cold(first, others) is is_cold


def test_what_runs_in_no_other_window_explains_a_long_first_one() -> None:
    cases: list[tuple[list[tuple[int, int, int]], bool]] = [
        ([(1, 0, 149)], True),  # less than half of the 300 that it takes too long
        ([(1, 0, 150)], False),
        ([(1, 250, 150)], False),
        ([(1, 251, 150)], True),  # ends after the window
        ([(1, 0, 150), (1, 400, 1)], True),  # runs again
        ([(1, 0, 150), (1, 399, 1)], False),  # again, but in the same window
        ([(1, 0, 150), (2, 200, 150), (1, 500, 9)], False),  # another does not
        ([(1, 0, 150), (2, 200, 150), (1, 500, 9), (2, 900, 1)], True),
    ]
    for events, is_cold in cases:
        assert cold(400, [100] * 8, events) is is_cold


# All flags together.


def flags_of(
    starts: list[int],
    ends: list[int],
    *,
    names: list[str] | None = None,
    lines: list[tuple[int, int, int, int]] = (),
    activity: pl.DataFrame | None = None,
    activity_steps: list[int] | None = None,
    correlation: Any = None,
    complete_until_ps: int | None = None,
    recorded: Any = (),
    dispatch_only: bool = False,
    cut: list[bool | None] | None = None,
    classes: dict[int, HostClass] | None = None,
) -> list[list[str]]:
    count = len(starts)
    tracks, events = tables_of(lines, ["a", "b"])
    labels = names or ["x", "y"]
    rows = pl.DataFrame(
        {
            "step_row": pl.Series(range(count), dtype=pl.Int32),
            "start_ps": starts,
            "end_ps": ends,
            "open_end": [False] * (count - 1) + [True],
        }
    )
    steps = steps_of(starts, track=[0] * count, cut=cut or [False] * count)
    fewer = None
    if correlation is not None:
        fewer = steps_with_fewer_records(steps, correlation)
    found = window_flags(
        rows,
        steps,
        trace=None,
        tracks=tracks,
        events=events,
        event_types=pl.DataFrame({"name": labels}),
        event_kinds=kinds_of(len(labels), classes=classes),
        host_values=None,
        complete_until_ps=complete_until_ps,
        profiler_work=Spans.of(recorded),
        device_activity=activity,
        activity_steps=None
        if activity_steps is None
        else np.array(activity_steps, np.int32),
        fewer_records=fewer,
        dispatch_only=dispatch_only,
    )
    assert found.dtype == pl.List(pl.String)
    assert found.name == "flags"
    every = [list(each) for each in found.to_list()]
    assert all(each == [name for name in FLAGS if name in each] for each in every)
    return every


@pytest.mark.parametrize(
    ("count", "end", "flags"), [(9, 15, []), (9, 16, ["warm_up"]), (8, 16, [])]
)
def test_a_step_that_a_profiler_fills_is_left_out_beside_eight_others(
    count: int, end: int, flags: list[str]
) -> None:
    starts = list(range(0, 10 * count, 10))
    ends = [start + 10 for start in starts]
    found = flags_of(starts, ends, recorded=[(8, 9), (10, end)])
    assert found == [["first"], flags, *[[]] * (count - 3), ["open_end"]]


def test_the_first_window_is_first_and_the_last_open() -> None:
    assert flags_of([0, 10, 20], [10, 20, 30]) == [["first"], [], ["open_end"]]
    assert flags_of([0], [10]) == [["first", "open_end"]]


def test_every_window_only_dispatches_and_cut_steps_are_cut() -> None:
    found = flags_of(
        [0, 10, 20], [10, 20, 30], dispatch_only=True, cut=[True, None, False]
    )
    assert found == [
        ["first", "cut", "dispatch_only"],
        ["dispatch_only"],
        ["open_end", "dispatch_only"],
    ]


def test_windows_that_end_after_the_last_complete_time_are_not_recorded() -> None:
    found = flags_of([0, 10, 20], [10, 20, 30], complete_until_ps=20)
    assert found == [["first"], [], ["open_end", "unrecorded"]]
    found = flags_of([0, 10, 20], [10, 20, 30], complete_until_ps=19)
    assert found == [["first"], ["unrecorded"], ["open_end", "unrecorded"]]


def test_a_window_compiles_where_any_part_of_it_does() -> None:
    """A compilation of no length, or one that ends as the window begins, is none."""
    classes = {1: HostClass.COMPILE}
    lines = [(1, 1, 9, 1), (0, 1, 15, 0), (0, 0, 12, 3), (1, 1, 29, 20)]
    found = flags_of([0, 10, 20, 30], [10, 20, 30, 40], lines=lines, classes=classes)
    assert found == [
        ["first", "compile"],
        [],
        ["compile"],
        ["open_end", "compile"],
    ]


def test_kernels_and_calls_that_try_implementations_are_autotuning() -> None:
    names = ["x", "XlaAutotuner", "redzone_checker"]
    activity = activity_of([(0, 0, "kernel", 2, 12, 3), (0, 0, "kernel", 0, 25, 3)])
    found = flags_of(
        [0, 10, 20, 30],
        [10, 20, 30, 40],
        names=names,
        lines=[(1, 1, 31, 2), (0, 0, 21, 2)],
        activity=activity,
    )
    assert found == [["first"], ["autotune"], [], ["open_end", "autotune"]]
    found = flags_of([0, 10, 20], [10, 20, 30], names=names, lines=[(0, 2, 12, 1)])
    assert found == [["first"], ["autotune"], ["open_end"]]


@pytest.mark.parametrize(
    ("lengths", "outliers"),
    [
        ([100, 100, 100, 100, 110], []),  # a tenth above the median
        ([100, 100, 100, 100, 111], [4]),
        ([80, 90, 100, 110, 120, 150], []),  # median 105, deviation 15
        # Median 100, deviation 4: 20 above it.
        ([96, 96, 100, 104, 104, 100, 100, 121, 90], [7]),
        ([96, 96, 100, 104, 104, 100, 100, 120, 90], []),
        ([100, 100, 100, 50, 100], []),  # shorter ones are not outliers
    ],
)
def test_an_outlier_is_a_tenth_and_five_deviations_longer_than_the_median(
    lengths: list[int], outliers: list[int]
) -> None:
    starts = np.append(0, np.cumsum(lengths)).tolist()
    found = flags_of(starts, [*starts[1:], starts[-1] + 9_999])
    assert [k for k, each in enumerate(found) if "outlier" in each] == outliers


# What was not recorded.


def recorded(steps: list[tuple[int, int]], **columns: Any) -> list[list[str]]:
    """Flags of steps of 100 with so many calls, of which so many led to a kernel."""
    launches, launch_of, activity, of_step = [], [], [], []
    for step, (calls, kernels) in enumerate(steps):
        for call in range(calls):
            if call < kernels:
                launch_of.append(len(launches))
                activity.append((0, 0, "kernel", 0, 100 * step + call, 1))
                of_step.append(step)
            launches.append((0, 1, 100 * step + call, 1))
    starts = [100 * step for step in range(len(steps))]
    frame = activity_of(activity)
    return flags_of(
        starts,
        [start + 100 for start in starts],
        activity=frame,
        activity_steps=of_step,
        correlation=correlation_of(frame, launches, launch_of),
        **columns,
    )


def test_steps_at_the_edges_with_fewer_records_than_calls_are_not_recorded() -> None:
    cases: list[tuple[list[tuple[int, int]], list[int]]] = [
        ([(10, 8), (10, 10), (10, 10), (10, 10)], [0]),
        ([(10, 9), (10, 10), (10, 10), (10, 10)], []),  # nine tenths
        ([(10, 10), (10, 8), (10, 10), (10, 10)], []),  # between complete ones
        ([(10, 8), (10, 7), (10, 10), (10, 10)], [0, 1]),
        ([(10, 10), (10, 10), (10, 3), (10, 3)], [2]),  # the last is `cut`
        ([(0, 0), (10, 8), (10, 10), (10, 10)], []),  # the first has no calls
        ([(20, 10), (10, 8), (20, 20), (10, 10)], [0, 1]),
    ]
    for steps, unrecorded in cases:
        found = recorded(steps)
        assert [k for k, each in enumerate(found) if "unrecorded" in each] == unrecorded


@pytest.mark.parametrize(
    ("steps", "is_cut"),
    [
        ([(10, 10), (10, 10), (10, 8)], True),
        ([(10, 10), (10, 10), (10, 9)], False),
        ([(10, 5), (10, 5), (10, 4)], True),  # 0.4 against 0.9 × 0.5
        ([(10, 10), (10, 10), (0, 0)], False),
        ([(0, 0), (0, 0), (10, 1)], False),
        ([(10, 1)], False),
    ],
)
def test_a_last_step_with_fewer_records_than_the_others_is_cut(
    steps: list[tuple[int, int]], *, is_cut: bool
) -> None:
    assert ("cut" in recorded(steps)[-1]) is is_cut
