"""The large profile that benchmarks measure on must be possible on real hardware."""

from __future__ import annotations

import importlib
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pytest

from stepscope.xspace.reading.decode import decode_bytes

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.xspace.reading.columns import XSpace

STEPS = 3
SEED = 5
KERNELS_PER_STEP = 915


@dataclass(frozen=True)
class Event:
    """One event of the profile, read back."""

    name: str
    start_ps: int
    end_ps: int
    stats: dict[str, int]


@pytest.fixture(scope="module")
def lines(repository: Path) -> dict[tuple[str, str], list[Event]]:
    """(plane, line) → its events, of a short run that was written and read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(repository / "benchmarks"))
        gpu_shaped = importlib.import_module("gpu_shaped")
        profile, size = gpu_shaped.build(STEPS, seed=SEED)
        again, _ = gpu_shaped.build(STEPS, seed=SEED)
    written = profile.to_bytes()
    assert written == again.to_bytes()
    space = decode_bytes(written)
    assert (len(space.events), len(space.stats)) == (size.events, size.stats)
    return {
        (plane.name, space.strings[space.lines.name[line]]): events_of(space, line)
        for plane in space.planes
        for line in range(plane.line_begin, plane.line_end)
    }


def test_kernels_begin_after_their_launch_call(
    lines: dict[tuple[str, str], list[Event]],
) -> None:
    called, ran = (by_correlation(lines, plane) for plane in ("/host", "/device"))
    assert len(ran) == STEPS * (KERNELS_PER_STEP + 4 + 4 + 1)
    assert called.keys() == ran.keys()
    assert all(ran[key].start_ps > call.end_ps for key, call in called.items())


def test_activities_of_one_stream_do_not_overlap(
    lines: dict[tuple[str, str], list[Event]],
) -> None:
    streams = {name: found for (plane, name), found in lines.items() if "GPU" in plane}
    assert list(streams) == [
        "Stream #7(Compute)",
        "Stream #8(MemcpyH2D)",
        "Stream #9(MemcpyD2H)",
        "Stream #20(Compute)",
    ]
    for found in streams.values():
        for before, after in itertools.pairwise(found):
            assert after.start_ps >= before.end_ps


def test_events_of_a_thread_lie_inside_each_other_or_apart(
    lines: dict[tuple[str, str], list[Event]],
) -> None:
    for (plane, name), found in lines.items():
        open_ends: list[int] = []
        for event in found:
            while open_ends and open_ends[-1] <= event.start_ps:
                open_ends.pop()
            assert not open_ends or event.end_ps <= open_ends[-1], (plane, name)
            if event.end_ps > event.start_ps:
                open_ends.append(event.end_ps)


def test_every_activity_lies_in_the_marker_of_its_step(
    lines: dict[tuple[str, str], list[Event]],
) -> None:
    python = lines["/host:CPU", "python"]
    markers = [event for event in python if event.name == "train"]
    assert [marker.stats["step_num"] for marker in markers] == list(range(STEPS))
    inside = [
        [
            event
            for event in by_correlation(lines, "/device").values()
            if marker.start_ps <= event.start_ps and event.end_ps <= marker.end_ps
        ]
        for marker in markers
    ]
    assert [len(found) for found in inside] == [KERNELS_PER_STEP + 9] * STEPS


def test_the_allocator_says_what_its_events_add_up_to(
    lines: dict[tuple[str, str], list[Event]],
) -> None:
    signs = {"MemoryAllocation": 1, "MemoryDeallocation": -1}
    changes = sorted(
        (
            event.start_ps,
            event.stats["bytes_allocated"],
            signs[event.name] * event.stats["allocation_bytes"],
        )
        for found in lines.values()
        for event in found
        if event.name in signs
    )
    # 747 ops in closures of 16, in turn on two threads: 379 and 368; every seventh.
    assert len(changes) == STEPS * 2 * (55 + 53)
    _, first, change = changes[0]
    level = first - change
    for _, recorded, change in changes:
        level += change
        assert recorded == level


def events_of(space: XSpace, line: int) -> list[Event]:
    begin, end = space.lines.event_begin[line], space.lines.event_end[line]
    stats: list[dict[str, int]] = [{} for _ in range(end - begin)]
    for row in range(*np.searchsorted(space.stats.event, (begin, end))):
        key = space.strings[space.stats.key[row]]
        stats[space.stats.event[row] - begin][key] = int(space.stats.value[row])
    names = [space.strings[handle] for handle in space.event_types.name]
    starts = space.events.offset_ps[begin:end]
    ends = starts + space.events.dur_ps[begin:end]
    assert np.all(starts[1:] >= starts[:-1])
    return [
        Event(names[kind], int(start), int(stop), values)
        for kind, start, stop, values in zip(
            space.events.type[begin:end], starts, ends, stats, strict=True
        )
    ]


def by_correlation(
    lines: dict[tuple[str, str], list[Event]], plane: str
) -> dict[int, Event]:
    return {
        event.stats["correlation_id"]: event
        for (name, _), found in lines.items()
        if name.startswith(plane)
        for event in found
        if "correlation_id" in event.stats
    }
