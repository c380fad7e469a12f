"""Samples, and what is recorded exactly while they are taken."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.support.traces import blueprint

from stepscope.derive.host.core_time import CoreTime, thread_identities
from stepscope.derive.host.function_frames import recorded_frames
from stepscope.derive.host.function_lines import recorded_lines
from stepscope.derive.host.placed_frames import function_frames, function_lines
from stepscope.derive.intervals.spans import Spans
from stepscope.unavailable import Unavailable

#: A sample every 10 ms; times are in µs.
SAMPLES, LINES = "samples of main, 100 a second", "source lines of main, 100 a second"
TRAIN, FETCH = "$/app/train.py:60 train", "$/app/train.py:9 fetch"
FORWARD = "$/app/train.py:30 forward"
WAIT = "$/v/site-packages/jax/_src/api.py:3 block_until_ready"
TRY = "$/v/site-packages/jax/_src/api.py:7 try_to_block"
MS = 1_000_000_000
WHY = Unavailable(code="NOT_RECORDED", reason="", remedy="")


def spans(*pairs_ms: tuple[float, float]) -> Spans:
    return Spans.of([(round(begin * MS), round(end * MS)) for begin, end in pairs_ms])


def placed(
    lines: list[Any], activity: Any, at_ms: tuple[float, ...] | None = (5, 15, 25, 35)
) -> list[tuple[str, int, int]]:
    """Function, start and end in ms of each frame, which are those of its lines.

    Args:
        lines: Sampled frames and their lines.
        activity: Thread, 0 for `main` → its activities; None → ops of any thread.
        at_ms: When samples were taken.
    """
    trace = blueprint.trace(lines)
    profile = blueprint.profile(trace)
    frames, rows = (
        profile.derived("vm", wanted) for wanted in (recorded_frames, recorded_lines)
    )
    tables: Any = {name: trace.table(name) for name in ("tracks", "events")}
    core_time: Any = WHY
    if at_ms is not None:
        process = thread_identities(tables["tracks"])[0][:2]
        times = np.array([round(at * MS) for at in at_ms])
        core_time = CoreTime({}, {}, sampled_ps={process: times})
    given: Any = {
        **tables,
        "recorded_frames": frames,
        "core_time": core_time,
        "recorded_activity": activity,
    }
    found = function_frames(**given)
    assert not isinstance(found, Unavailable)
    assert found.self_ps.sum() == found.spans(found.track == 0).length_ps
    in_lines = function_lines(**given, recorded_lines=rows)
    assert not isinstance(in_lines, Unavailable)
    by_kind = [
        sorted(
            (it.names[kind].function, start // MS, end // MS)
            for kind, start, end in zip(
                it.type.tolist(), it.start_ps.tolist(), it.end_ps.tolist(), strict=True
            )
        )
        for it in (found, in_lines)
    ]
    assert by_kind[0] == by_kind[1]
    return by_kind[0]


def sampled(*frames: tuple[str, float, float]) -> list[Any]:
    """Frames, and one line for each of them; start and length in µs."""
    return [(SAMPLES, *frame) for frame in frames] + [
        (LINES, *frame, {"source_line": number})
        for number, frame in enumerate(frames, 10)
    ]


#: Two samples of `fetch`, one of `forward`, and one of `fetch`.
STEP = sampled(
    (TRAIN, 0, 40_000),
    (FETCH, 0, 20_000),
    (FORWARD, 20_000, 10_000),
    (FETCH, 30_000, 10_000),
)
AS_SAMPLED = [
    ("fetch", 0, 20),
    ("fetch", 30, 40),
    ("forward", 20, 30),
    ("train", 0, 40),
]
#: A sample of `fetch`, two of a wait for ops, and one of `fetch`.
BLOCKED = sampled(
    (TRAIN, 0, 40_000),
    (FETCH, 0, 10_000),
    (WAIT, 10_000, 20_000),
    (TRY, 10_000, 20_000),
    (FETCH, 30_000, 10_000),
)


def test_time_belongs_to_the_nearest_sample_of_the_same_activity() -> None:
    """An op runs while `forward` is sampled, at 25 ms, and none at 5, 15 and 35."""
    activity = {None: (), 0: (spans((8, 14), (22, 30)),)}
    assert placed(STEP, activity) == [
        ("fetch", 0, 8),
        ("fetch", 14, 22),
        ("fetch", 30, 40),
        ("forward", 8, 14),
        ("forward", 22, 30),
        ("train", 0, 40),
    ]


def test_kinds_of_activities_are_told_apart() -> None:
    """The samples of `fetch` at 5 and 15 ms are taken during an input wait."""
    activity = {None: (), 0: (spans((22, 36)), spans((0, 22)))}
    assert placed(STEP, activity) == [
        ("fetch", 0, 22),
        # Between 36 and 40 ms nothing was sampled: the sample there is of an op.
        ("fetch", 30, 40),
        ("forward", 22, 30),
        ("train", 0, 40),
    ]


def test_a_thread_that_waits_for_ops_waits_while_they_run() -> None:
    """Ops of other threads run at 15 and 25 ms; the gap has no sample."""
    assert placed(BLOCKED, {None: (spans((8, 16), (22, 30)),)}) == [
        ("block_until_ready", 8, 16),
        ("block_until_ready", 22, 30),
        ("fetch", 0, 8),
        # Up to 20 ms the first sample is nearest.
        ("fetch", 16, 20),
        ("fetch", 20, 22),
        ("fetch", 30, 40),
        ("train", 0, 40),
        ("try_to_block", 8, 16),
        ("try_to_block", 22, 30),
    ]


def test_a_wait_that_was_sampled_between_ops_is_one() -> None:
    """No op runs at 15 ms: the thread waits for something else there."""
    assert placed(BLOCKED, {None: (spans((8, 14), (22, 30)),)}) == [
        ("block_until_ready", 8, 30),
        ("fetch", 0, 8),
        ("fetch", 30, 40),
        ("train", 0, 40),
        ("try_to_block", 8, 30),
    ]


@pytest.mark.parametrize(
    ("activity", "at_ms"),
    [
        # Nothing is recorded, on a device's host it is unknown, or ops never stop.
        ({None: (), 0: ()}, (5, 15, 25, 35)),
        (WHY, (5, 15, 25, 35)),
        ({None: (), 0: (spans((0, 40)),)}, (5, 15, 25, 35)),
        # Short activities and short gaps between them.
        ({None: (), 0: (spans((8, 8.1), (14, 14.19)),)}, (5, 15, 25, 35)),
        ({None: (), 0: (spans((0, 8), (8.1, 40)),)}, (5, 15, 25, 35)),
        # An activity that no sample was taken in.
        ({None: (), 0: (spans((8, 14)),)}, (5, 15, 25, 35)),
        # When samples were taken is unknown.
        ({None: (), 0: (spans((8, 14), (22, 30)),)}, None),
        ({None: (), 0: (spans((8, 14), (22, 30)),)}, ()),
        ({None: (), 0: (spans((8, 14), (22, 30)),)}, (50, 60)),
    ],
)
def test_other_samples_stay_where_they_are(activity: Any, at_ms: Any) -> None:
    assert placed(STEP, activity, at_ms) == AS_SAMPLED


def test_the_time_before_a_late_sample_is_that_of_its_function() -> None:
    """The sample of `forward` was due at 25 ms, and taken at 33: before, no op ran."""
    activity = {None: (), 0: (spans((32, 34)),)}
    assert placed(STEP, activity, (5, 15, 33, 35)) == [
        ("fetch", 0, 20),
        ("fetch", 30, 40),
        ("forward", 20, 30),
        ("train", 0, 40),
    ]


def test_one_sample_is_the_nearest_of_all() -> None:
    activity = {None: (), 0: (spans((2, 8)),)}
    lines = sampled((FETCH, 0, 10_000))
    assert placed(lines, activity, (5,)) == [("fetch", 0, 10)]
