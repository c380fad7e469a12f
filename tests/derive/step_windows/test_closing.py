"""Whether the last step of a recording ends by itself, and not with the recording."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.traces import blueprint

from stepscope.derive.step_windows.windows import Windows, windows


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
    found = windows_of([line for k in (2, 3, 4) for line in active(k, gap=8.0)])
    assert found.rows["open_end"].to_list() == [False, False, True]


def test_work_of_a_device_goes_on_after_the_last_range() -> None:
    lines = [line for k in (2, 3, 4) for line in active(k)]
    for k in (2, 3, 4):
        stats = {"correlation_id": k}
        lines += [
            ("main", "cuLaunchKernel", 100.0 * k + 95, 1, stats),
            ("gpu:0/7(Compute)", "gemm", 100.0 * k + 97, 20, stats),
        ]
    assert windows_of(lines).rows["open_end"].to_list() == [False, False, True]


def test_other_markers_do_not_say_that_the_last_step_is_whole() -> None:
    found = windows_of(
        [("main", "train", 100.0 * k, 99.5, {"step_num": k, "_r": 1}) for k in range(3)]
    )
    assert found.rows["open_end"].to_list() == [False, False, True]
