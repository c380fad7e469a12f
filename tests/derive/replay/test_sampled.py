"""Which steps are run again: a first one that loads its kernels is none of them."""

from __future__ import annotations

import pytest
from tests.support.traces import blueprint

from stepscope.derive.replay.activities import Sampled, sample_windows
from stepscope.derive.step_windows.windows import Windows, windows
from stepscope.unavailable import Unavailable

US = 1_000_000


def chosen(lengths: list[float], *, compiled: bool = True) -> Sampled:
    """Marked steps of these lengths in µs, each with a kernel of 50 µs at its begin.

    Something is compiled in the first one for 100 µs.
    """
    lines: list[blueprint.Line] = []
    if compiled:
        lines.append(("main", "XlaCompile", 100, 100))
    begin = 0.0
    for number, length in enumerate(lengths):
        stats = {"correlation_id": number + 1}
        marks = {"_r": 1, "step_num": number}
        lines += [
            ("main", "train", begin, length - 1, marks),
            ("main", "cuLaunchKernel", begin + 1, 5, stats),
            ("gpu:0/7(Compute)", "gemm", begin + 10, 50, stats),
        ]
        begin += length
    found = blueprint.profile(blueprint.trace(lines)).derived("vm", windows)
    assert isinstance(found, Windows)
    picked = sample_windows(found)
    assert not isinstance(picked, Unavailable)
    return picked


@pytest.mark.parametrize(
    ("lengths", "rows"),
    [
        pytest.param(
            [900, 200, 201, 199, 200, 200], [1, 2, 3, 4, 5], id="a cold first"
        ),
        pytest.param(
            [200, 200, 201, 199, 200, 200], [0, 1, 2, 3, 4, 5], id="all alike"
        ),
        pytest.param(
            [200, 200, 201, 900, 200, 200], [0, 1, 2, 3, 4, 5], id="a later one"
        ),
        # The last one has fewer events than the other, and is open.
        pytest.param([900, 200], [0], id="nothing else"),
    ],
)
def test_a_first_step_far_longer_than_the_others_is_not_replayed(
    lengths: list[float], rows: list[int]
) -> None:
    found = chosen(lengths)
    assert found.rows.tolist() == rows
    bounds = [sum(lengths[:at]) for at in (rows[0], rows[-1] + 1)]
    # The last step ends with its marker, 1 µs before another would begin.
    bounds[1] -= rows[-1] + 1 == len(lengths)
    assert [found.first_ps, found.last_ps] == [round(it * US) for it in bounds]


def test_a_long_first_step_that_compiles_nothing_is_replayed() -> None:
    """It may have waited for its first batch, as the first step of each epoch does."""
    found = chosen([900, 200, 201, 199, 200, 200], compiled=False)
    assert found.rows.tolist() == [0, 1, 2, 3, 4, 5]
