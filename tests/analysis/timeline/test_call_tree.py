"""The calls of threads as a tree, worked out by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.traces import blueprint

from stepscope.analysis.timeline.call_tree import CALL_COLUMNS, CallTree, call_tree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.derive.profile_data import ProfileData

US = 1_000_000
#: A loop that calls `step` twice; a range that begins in a call and outlasts it.
LINES: list[blueprint.Line] = [
    ("main", "loop", 0, 100_000),
    ("main", "step", 0, 40_000),
    ("main", "load", 10_000, 20_000),
    ("main", "step", 50_000, 30_000),
    ("main", "load", 50_000, 10_000),
    ("main", "enter", 80_000, 1_000),
    ("main", "range", 80_500, 19_500),
    ("main", "inside", 90_000, 5_000),
    ("main", "brief", 95_000, 40),
    ("main", "within brief", 95_010, 20),
    ("worker", "decode", 20_000, 20_000),
]


def calls_of(
    lines: list[blueprint.Line], begin_us: int, end_us: int, tracks: Sequence[int] = ()
) -> tuple[list[tuple[str, int, int]], int]:
    """Path, count and microseconds of each call; and how many were left out."""
    profile: ProfileData = blueprint.profile(blueprint.trace(lines))
    found = call_tree(
        profile, "vm", begin_ps=begin_us * US, end_ps=end_us * US, tracks=tracks
    )
    assert isinstance(found, CallTree)
    assert found.calls.schema == CALL_COLUMNS
    paths: list[str] = []
    told = []
    for parent, name, count, time_ps in found.calls.rows():
        paths.append(name if parent is None else f"{paths[parent]} > {name}")
        told.append((paths[-1], count, time_ps // US))
    return told, found.left_out


def test_calls_of_one_name_and_one_parent_are_one() -> None:
    told, left_out = calls_of(LINES, 0, 100_000)
    assert sorted(told) == [
        ("main", 1, 100_000),
        ("main > loop", 1, 100_000),
        ("main > loop > enter", 1, 1_000),
        ("main > loop > range", 1, 19_500),
        ("main > loop > range > inside", 1, 5_000),
        ("main > loop > step", 2, 70_000),
        ("main > loop > step > load", 2, 30_000),
        ("worker", 1, 20_000),
        ("worker > decode", 1, 20_000),
    ]
    # `brief` takes less than 1/2000; what it calls is left out with it.
    assert left_out == 1


def test_only_the_part_inside_the_window_counts() -> None:
    told, _ = calls_of(LINES, 20_000, 55_000)
    assert sorted(told) == [
        ("main", 1, 35_000),
        ("main > loop", 1, 35_000),
        ("main > loop > step", 2, 25_000),
        ("main > loop > step > load", 2, 15_000),
        ("worker", 1, 20_000),
        ("worker > decode", 1, 20_000),
    ]


@pytest.mark.parametrize("window", [(200_000, 300_000), (50_000, 50_000)])
def test_a_window_without_calls_has_none(window: tuple[int, int]) -> None:
    told, left_out = calls_of(LINES[-1:], *window)
    assert (told, left_out) == ([], 0)


def test_other_tracks_can_be_chosen() -> None:
    stream: list[blueprint.Line] = [
        ("gpu:0/7(Compute)", "kernel", at, 10_000) for at in (0, 20_000)
    ]
    profile = blueprint.profile(blueprint.trace([*LINES, *stream]))
    found = call_tree(profile, "vm", begin_ps=0, end_ps=10**11)
    assert isinstance(found, CallTree)
    threads = found.calls.filter(found.calls["parent"].is_null())["name"].to_list()
    assert threads == ["main", "worker"]
    chosen = call_tree(profile, "vm", begin_ps=0, end_ps=10**11, tracks=[0])
    assert isinstance(chosen, CallTree)
    assert "main" not in chosen.calls["name"].to_list()


def test_sampled_functions_are_a_tree_of_their_own() -> None:
    sampled: list[blueprint.Line] = [
        ("samples of main, 100 a second", "main.py:1: train", 0, 100_000),
        ("samples of main, 100 a second", "main.py:9: augment", 10_000, 50_000),
    ]
    told, _ = calls_of([("main", "loop", 0, 100_000), *sampled], 0, 100_000)
    (thread,) = (path for path, *_ in told if path.endswith("train"))
    assert (f"{thread} > main.py:9: augment", 1, 50_000) in told
