"""Looks at a stack become frames: worked out by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.capture.collectors.sampled_frames import Frame, Look, SampledFrames

if TYPE_CHECKING:
    from types import CodeType


def code(name: str) -> CodeType:
    return (lambda: None).__code__.replace(co_name=name)


MAIN, STEP, LOAD, TRAIN = map(code, ("main", "step", "load", "train"))


def frames(*looks: tuple[int, int, list[CodeType]]) -> list[tuple[str, int, int]]:
    """Name, begin and end of the frames of looks: when due, when taken, what ran."""
    sampled, found = SampledFrames(), []
    for due, at, stack in looks:
        found += sampled.add(Look(1, due, at, stack))
    found += sampled.end()
    return [(it.code.co_name, it.begin_ns, it.end_ns) for it in found]


def test_what_looks_in_a_row_found_is_one_frame() -> None:
    assert frames(
        (0, 0, [MAIN, STEP, LOAD]),
        (10, 10, [MAIN, STEP, LOAD]),
        (20, 20, [MAIN, STEP, TRAIN]),
        (30, 30, [MAIN]),
        (40, 40, [MAIN]),
    ) == [("load", 0, 15), ("step", 0, 25), ("train", 15, 25), ("main", 0, 40)]


def test_a_frame_above_ends_those_below_it() -> None:
    assert frames((0, 0, [MAIN, STEP]), (10, 10, [LOAD, STEP])) == [
        ("main", 0, 5),
        ("step", 0, 5),
        ("load", 5, 10),
        ("step", 5, 10),
    ]


def test_a_late_look_says_what_kept_it_waiting() -> None:
    """Due at 10, taken at 90: the thread held the lock from 10 on."""
    assert frames((0, 0, [LOAD]), (10, 90, [TRAIN]), (100, 100, [LOAD])) == [
        ("load", 0, 5),
        ("train", 5, 95),
        ("load", 95, 100),
    ]


def test_a_look_that_was_due_before_the_last_was_taken_divides_nothing() -> None:
    assert frames((0, 30, [LOAD]), (10, 31, [TRAIN])) == [
        ("load", 30, 30),
        ("train", 30, 31),
    ]


def test_a_thread_that_runs_nothing_is_in_nothing() -> None:
    assert frames((0, 0, [LOAD]), (10, 10, []), (20, 20, [LOAD]), (30, 30, [])) == [
        ("load", 0, 5),
        ("load", 15, 25),
    ]


def test_threads_are_apart() -> None:
    sampled = SampledFrames()
    assert sampled.add(Look(1, 0, 0, [LOAD])) == []
    assert sampled.add(Look(2, 0, 4, [TRAIN])) == []
    assert sampled.add(Look(1, 10, 10, [])) == [Frame(LOAD, 1, 0, 5)]
    assert sampled.end() == [Frame(TRAIN, 2, 4, 4)]


def test_a_function_that_calls_itself_is_as_many_frames() -> None:
    assert frames((0, 0, [LOAD]), (10, 10, [LOAD, LOAD]), (20, 20, [LOAD])) == [
        ("load", 5, 15),
        ("load", 0, 20),
    ]
