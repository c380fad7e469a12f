"""Whether the last step of a recording ends by itself, and not with the recording."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from tests.support.traces import blueprint
from tests.support.traces.literal_tables import (
    activity_of,
    correlation_of,
    steps_of,
    tables_of,
)

from stepscope.derive.step_windows.closing import is_last_closed
from stepscope.derive.step_windows.windows import Windows, windows
from stepscope.derive.steps.chosen import AFTER_STEPS, activity_steps, steps_of_calls


def windows_of(lines: list[tuple[Any, ...]]) -> Windows:
    found = blueprint.profile(blueprint.trace(lines)).derived("vm", windows)
    assert isinstance(found, Windows), found
    return found


def active(k: int, *, ops: int = 20, gap: float = 1.0) -> list[tuple[Any, ...]]:
    """A step of PyTorch's profiler of 100 µs, which runs ops of 4 µs."""
    begin = 100.0 * k
    return [
        ("main", f"ProfilerStep#{k}", begin, 100.0 - gap),
        *(("main", "aten::mm", begin + 1 + 4.5 * at, 4.0) for at in range(ops)),
    ]


@pytest.mark.parametrize(
    ("last", "is_open"),
    [
        ({}, False),
        ({"ops": 19}, False),
        # The recording was ended while it went on, …
        ({"ops": 12}, True),
        # … or before it began: nothing but the range is there.
        ({"ops": 0}, True),
    ],
)
def test_the_last_step_of_pytorchs_profiler_is_whole_where_it_holds_as_much(
    last: dict[str, Any], *, is_open: bool
) -> None:
    """`step()` closes the range of the last active step, and then the recording."""
    found = windows_of([*active(2), *active(3), *active(4, **last)])
    assert found.rows["open_end"].to_list() == [False, False, is_open]
    assert ("open_end" in found.rows["flags"][-1]) == is_open
    assert len(found.measured) == (2 if is_open else 3)


def test_ranges_that_leave_time_between_steps_do_not_close_the_last_one() -> None:
    found = windows_of([line for k in (2, 3, 4) for line in active(k, gap=12.0)])
    assert found.rows["open_end"].to_list() == [False, False, True]


STREAM = "gpu:0/7(Compute)"


def launched(k: int, call: float, start: float, dur: float) -> list[tuple[Any, ...]]:
    stats = {"correlation_id": k}
    return [
        ("main", "cuLaunchKernel", call, 2, stats),
        (STREAM, "gemm", start, dur, stats),
    ]


def tutorial(*, marker: str = "ProfilerStep#{}") -> list[tuple[Any, ...]]:
    """Three steps of 100 µs, as PyTorch's tutorial records them (`active=3`).

    The host runs 40 µs ahead of the device, and the profiler waits for it at the end.
    """
    lines: list[tuple[Any, ...]] = [
        ("main", "cudaDeviceSynchronize", 505, 35, {"correlation_id": 99})
    ]
    for k in (2, 3, 4):
        begin = 100.0 * k
        lines.append(("main", marker.format(k), begin, 99.5))
        for j in range(4):
            call = begin + 5 + 20 * j
            lines += launched(10 * k + j, call, begin + 40 + 25 * j, 24)
    return lines


@pytest.mark.parametrize("marker", ["ProfilerStep#{}", "step {}", "iteration#{}"])
def test_the_devices_last_work_closes_the_last_step(marker: str) -> None:
    """All steps are judged, although the host's last mark ends before the device."""
    found = windows_of(tutorial(marker=marker))
    assert found.anchor == "device"
    rows = found.rows.select("start_ps", "end_ps").rows()
    spans = [(start / 1e6, end / 1e6) for start, end in rows]
    assert spans == [(240, 340), (340, 440), (440, 539)]
    assert len(found.measured) == 3
    assert found.rows["flags"].to_list() == [["first"], [], []]


def test_a_step_begins_with_the_wait_for_its_own_batch() -> None:
    """Three steps load for 63 of 100 µs, then launch what ends in the next step's load.

    So each of the recorded waits lies in a judged step.
    """
    lines: list[tuple[Any, ...]] = []
    for k in (2, 3, 4):
        begin = 100.0 * k
        lines.append(("main", f"ProfilerStep#{k}", begin, 99.5))
        for j in range(2):
            stats = 10 * k + j, begin + 64 + 3 * j, begin + 66 + 22 * j, 22
            lines += launched(*stats)
    found = windows_of(lines)
    rows = found.rows.select("start_ps", "end_ps").rows()
    spans = [(start / 1e6, end / 1e6) for start, end in rows]
    assert (found.anchor, spans) == ("device", [(200, 310), (310, 410), (410, 510)])
    assert len(found.measured) == 3


def test_a_last_step_whose_kernels_were_not_kept_stays_open() -> None:
    kept = [line for line in tutorial() if line[0] != STREAM or line[2] < 480]
    found = windows_of(kept)
    assert found.rows["open_end"].to_list() == [False, False, True]
    assert "cut" in found.rows["flags"][-1]


def test_work_after_the_last_step_belongs_to_no_step() -> None:
    """A benchmark of 97 µs follows two steps of 57: it is not divided among them."""
    lines: list[tuple[Any, ...]] = []
    for k in range(2):
        lines.append(("main", f"step {k}", 60.0 * k, 59.0))
        lines += launched(k + 1, 60.0 * k + 5, 60.0 * k + 10, 47)
    lines += launched(3, 125, 130, 97)
    profile = blueprint.profile(blueprint.trace(lines))
    assert profile.derived("vm", activity_steps).tolist() == [0, 1, -1]
    found = profile.derived("vm", windows)
    assert isinstance(found, Windows)
    assert found.rows["end_ps"].to_list() == [60_000_000, 119_000_000]
    assert len(found.measured) == 2


@pytest.mark.parametrize(
    ("ends", "called", "expected"),
    [
        # Calls before the first step, in steps, and after the end of the last.
        ([19, 29, 39], [5, 10, 25, 38, 39, 50], [-1, 0, 1, 2, -2, -2]),
        # Where other steps go on until 3 after their end, so does the last.
        ([16, 29, 39], [19, 25, 38, 42, 43], [0, 1, 2, 2, -2]),
        # An inferred step is as long as the longest other.
        ([None, None, None], [12, 25, 39, 40], [0, 1, 2, -2]),
        # Nothing is known of the length of a single one.
        ([None], [12, 900], [0, 0]),
        ([19], [12, 900], [0, -2]),
    ],
)
def test_calls_belong_to_the_step_in_which_they_began(
    ends: list[int | None], called: list[int], expected: list[int]
) -> None:
    steps = steps_of(
        [10, 20, 30][: len(ends)], end_ps=ends, track=[0] * len(ends), source="marker"
    )
    calls = [(0, 0, start, 1) for start in called]
    launches = correlation_of(activity_of([]), calls, []).launches
    assert AFTER_STEPS == -2
    assert steps_of_calls(steps, launches).tolist() == expected
    # Another thread may still launch work of the last step.
    of_other = correlation_of(activity_of([]), [(1, 0, 900, 1)], []).launches
    assert steps_of_calls(steps, of_other).tolist() == [len(ends) - 1]


def test_other_markers_close_the_last_step_too() -> None:
    found = windows_of(
        [("main", "train", 100.0 * k, 99.5, {"step_num": k, "_r": 1}) for k in range(3)]
    )
    assert found.rows["open_end"].to_list() == [False] * 3


def closed(spans: list[tuple[int, int]], held: list[int], **fields: Any) -> bool:
    """Whether the last of some steps is closed; so many events begin in each."""
    lines = [(0, 0, *span) for span in spans]
    for (start, _), count in zip(spans, held, strict=True):
        lines += [(0, 1, start + 1 + k, 0) for k in range(count)]
    lines += [(1, 1, 305, 0)] * 30
    _, events = tables_of(lines, ["main", "other"])
    starts = [start for start, _ in spans]
    ends = [start + dur for start, dur in spans]
    rows = pl.DataFrame(
        {
            "start_ps": starts,
            "end_ps": [*starts[1:], ends[-1]],
            "gap_start_ps": ends,
            "gap_end_ps": [*starts[1:], ends[-1]],
        }
    )
    steps = steps_of(starts, **{"end_ps": ends, "track": [0] * len(spans)} | fields)
    return is_last_closed(rows, steps, events, None, None)


@pytest.mark.parametrize(
    ("spans", "held", "is_closed"),
    [
        ([(0, 95), (100, 95), (200, 100)], [19, 30, 19], True),
        ([(0, 88), (100, 92), (200, 100)], [19, 30, 19], False),  # pauses of 20
        ([(0, 88), (100, 93), (200, 100)], [19, 30, 19], True),  # of 19
        ([(0, 95), (100, 95), (200, 100)], [19, 30, 17], True),  # 18 of 20
        ([(0, 95), (100, 95), (200, 100)], [19, 30, 16], False),  # 17 of 20
        ([(0, 95)], [19], False),
    ],
)
def test_the_last_step_is_closed_where_it_is_as_full_as_the_others(
    spans: list[tuple[int, int]], held: list[int], *, is_closed: bool
) -> None:
    assert closed(spans, held) is is_closed


def test_steps_that_are_cut_or_without_an_end_close_no_window() -> None:
    spans, held = [(0, 99), (100, 99)], [5, 5]
    assert closed(spans, held)
    assert not closed(spans, held, cut=[False, True])
    assert not closed(spans, held, end_ps=[99, None])
    # The end of a repetition was not recorded, and need not be.
    assert closed(spans, held, end_ps=[None, None], source="period")
