"""Which inferred candidates are found and listed, worked out by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from tests.support.traces.literal_tables import (
    activity_of,
    correlation_of,
    kinds_of,
    tables_of,
    types_of,
)

from stepscope.derive.names.event_kinds import EventFlag, HostClass
from stepscope.derive.steps.candidates import SourceTables
from stepscope.derive.steps.inferred import find_inferred
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.derive.steps.candidates import CandidateSteps

WHY = Unavailable(code="NOT_RECORDED", reason="no", remedy="record it")
NAMES = ["load", "mul", "add", "pjit", "layer", "gemm", "relu", "fetch"]
LOAD, MUL, ADD, PJIT, LAYER, GEMM, RELU, FETCH = range(8)
KINDS = kinds_of(
    8,
    ops=[LOAD, MUL, ADD],
    classes={FETCH: HostClass.INPUT_WAIT},
    flags={PJIT: EventFlag.PJIT, LAYER: EventFlag.MODULE_CALL},
)


def found(
    lines: list[tuple[int, int, int, int]],
    *,
    activity: Any = WHY,
    correlation: Any = WHY,
    tracks: Any = ("main", "second", {"name": "stream", "kind": "stream", "device": 0}),
) -> list[CandidateSteps]:
    nothing = pl.DataFrame()
    no_trace: Any = None
    return find_inferred(
        SourceTables(
            *(no_trace, *tables_of(lines, list(tracks)), types_of(NAMES), KINDS),
            *(nothing, nothing),
        ),
        host_values=WHY,
        device_activity=activity,
        correlation=correlation,
    )


def cycles(
    *ops: tuple[int, int, int], count: int = 5, track: int = 0, period: int = 100
) -> list[tuple[int, int, int, int]]:
    """Ops (kind, start, length) once in each cycle."""
    return [
        (track, kind, period * at + start, length)
        for at in range(count)
        for kind, start, length in ops
    ]


def about(each: CandidateSteps) -> tuple[str, str, int, bool]:
    known = each.candidate
    return known.source, known.what, known.n, known.accepted


def test_nothing_is_found_without_ops_calls_or_kernels() -> None:
    assert found([(0, FETCH, 0, 5), (0, GEMM, 10, 5)]) == []


def test_calls_of_a_program_are_steps_with_all_that_is_known_of_them() -> None:
    """Each call holds two ops; the cycle begins with the call, after a pause of 30."""
    lines = cycles((PJIT, 0, 70), (MUL, 10, 20), (ADD, 40, 20))
    first, *others = found(lines)
    assert about(first) == (
        *("launch", "launches of pjit on main, by the ops of thread main", 5),
        True,
    )
    known = first.candidate
    assert (known.coverage, known.cv, known.period_ps) == (1.0, 0.0, 100)
    assert known.confidence == 0.9
    assert first.on_device is False
    assert first.last_end_ps == 460
    rows = first.rows
    assert rows["start_ps"].to_list() == [0, 100, 200, 300, 400]
    assert rows["track"].to_list() == [0] * 5
    assert rows["slack_ps"].to_list() == [0, 30, 30, 30, 30]
    assert rows["cut"].to_list() == [False] * 5
    assert others == []


def test_a_step_begins_with_the_fetch_before_its_call() -> None:
    lines = cycles((FETCH, 5, 10), (PJIT, 20, 60), (MUL, 30, 10), (ADD, 50, 10))
    first, *_ = found(lines)
    assert first.rows["start_ps"].to_list() == [5, 105, 205, 305, 405]
    assert first.rows["slack_ps"].to_list() == [0, 25, 25, 25, 25]


def test_ops_of_a_thread_repeat_with_a_fetch_in_each_repetition() -> None:
    """Without an edge they may be layers, and are listed with the reason."""
    ops = ((MUL, 10, 20), (ADD, 40, 20))
    (plain, *_) = found(cycles(*ops))
    assert about(plain)[0] == "period"
    assert not plain.candidate.accepted
    assert plain.candidate.confidence == 0.59
    assert plain.candidate.why_not != ""
    first, *others = found(cycles((FETCH, 0, 5), *ops))
    source, what, number, accepted = about(first)
    assert (source, number, accepted) == ("period", 5, True)
    assert what in (
        "mul among the ops of thread main",
        "add among the ops of thread main",
    )
    assert first.rows["start_ps"].to_list() == [0, 100, 200, 300, 400]
    assert first.rows["track"].to_list() == [0] * 5
    assert all(not each.candidate.accepted for each in others)


def test_the_same_step_on_two_threads_is_one_sequence() -> None:
    """Workers of a server, each with calls of its own."""
    lines = [
        *cycles((PJIT, 0, 70), (MUL, 10, 20), (ADD, 40, 20)),
        *(
            (1, kind, start + 50, length)
            for _, kind, start, length in cycles(
                (PJIT, 0, 70), (MUL, 10, 20), (ADD, 40, 20)
            )
        ),
    ]
    first, *_ = found(lines)
    assert first.candidate.n == 10
    assert first.candidate.period_ps == 50
    assert first.rows["start_ps"].to_list() == [50 * at for at in range(10)]
    assert first.rows["track"].to_list() == [0, 1] * 5


def kernels(
    *kinds: str, count: int = 5, group: int = 1
) -> tuple[Any, list[tuple[int, int, int, int]]]:
    """Activity of each kind once a cycle, and a call for each so many of them."""
    rows = [
        (2, 0, kind, GEMM if at % 2 else RELU, 100 * cycle + 10 * at, 8)
        for cycle in range(count)
        for at, kind in enumerate(kinds)
    ]
    calls = [(0, LOAD, row[4] - 5, 2) for row in rows[::group]]
    return activity_of(rows), calls


@pytest.mark.parametrize(
    ("kinds", "accepted"),
    [
        (("h2d", "kernel", "kernel"), True),
        (("kernel", "kernel", "d2h"), True),
        (("kernel", "kernel", "kernel"), False),
        (("memset", "kernel", "kernel"), False),
    ],
)
def test_kernels_repeat_with_a_copy_in_each_repetition(
    kinds: tuple[str, ...], *, accepted: bool
) -> None:
    activity, _ = kernels(*kinds)
    first, *_ = found([(1, FETCH, 0, 1)], activity=activity)
    assert first.candidate.source == "period"
    assert first.candidate.accepted is accepted
    assert first.on_device
    assert first.rows["track"].to_list() == [None] * first.candidate.n


def test_a_graph_launch_for_each_repetition_makes_steps() -> None:
    """One call for three kernels, without any copy."""
    activity, calls = kernels("kernel", "kernel", "kernel", group=3)
    of = [row // 3 for row in range(15)]
    lines = [(1, FETCH, 0, 1)]
    matched = correlation_of(activity, calls, of)
    first, *_ = found(lines, activity=activity, correlation=matched)
    assert first.candidate.accepted
    assert first.candidate.n == 5
    alone = correlation_of(
        activity, kernels("kernel", "kernel", "kernel")[1], range(15)
    )
    other, *_ = found(lines, activity=activity, correlation=alone)
    assert not other.candidate.accepted


@pytest.mark.parametrize(
    ("count", "runs", "accepted"),
    [(5, 1, False), (5, 5, True), (6, 4, False), (7, 5, True)],
)
def test_repetitions_inside_one_execution_of_a_program_are_layers(
    count: int, runs: int, *, accepted: bool
) -> None:
    """At least 1.5 repetitions in each call of a program."""
    activity, calls = kernels("h2d", "kernel", "kernel", count=count)
    length = 100 * count // runs
    lines = [(0, PJIT, length * at - 5, length - 1) for at in range(runs)]
    matched = correlation_of(activity, calls, range(3 * count))
    answer = found(lines, activity=activity, correlation=matched)
    chosen = [each for each in answer if each.candidate.accepted]
    assert bool(chosen) is accepted
    periods = [each for each in answer if each.candidate.source == "period"]
    if not accepted:
        assert periods
        assert all(each.candidate.confidence <= 0.59 for each in periods)


def test_programs_on_a_line_of_a_device_are_launches_of_it() -> None:
    core = {"name": "XLA Modules", "kind": "derived", "derived": "xla_modules"}
    lines = cycles((PJIT, 0, 80), (LAYER, 80, 10), track=1)
    answer = found(lines, tracks=["main", core | {"device": 0}])
    where = "XLA Modules, by the programs of XLA Modules of device 0"
    assert {about(each)[:2] for each in answer} == {
        ("launch", f"launches of {name} on {where}") for name in ("pjit", "layer")
    }
    assert answer[0].on_device
    assert answer[0].candidate.accepted
    assert answer[0].candidate.confidence == 0.9
    assert [each.candidate.accepted for each in answer[1:]] == [False]


def test_at_most_twelve_rejected_candidates_are_listed_by_confidence() -> None:
    """Fifteen threads call the program unevenly; one calls it evenly."""
    rng = np.random.default_rng(4)
    lines = cycles((PJIT, 0, 70), (MUL, 10, 20), (ADD, 40, 20), count=9)
    tracks = ["main"]
    for track in range(1, 16):
        tracks.append(f"thread {track}")
        at = 0
        for _ in range(4 + track % 3):
            at += int(rng.integers(80, 200))
            lines += [(track, PJIT, at, 50), (track, MUL, at + 5, 20)]
            if rng.random() < 0.5:
                lines.append((track, ADD, at + 30, 10))
    answer = found(lines, tracks=tracks)
    accepted = [each.candidate.accepted for each in answer]
    assert accepted == [True] + [False] * 12
    rejected = [each.candidate.confidence for each in answer[1:]]
    assert rejected == sorted(rejected, reverse=True)
    assert all(each.candidate.why_not for each in answer[1:])
