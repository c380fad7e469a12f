"""Samples that show a wait for ops, and the times at which ops ran."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.traces import blueprint

from stepscope.derive.host.function_frames import recorded_frames
from stepscope.derive.host.function_lines import recorded_lines
from stepscope.derive.host.placed_frames import function_frames, function_lines
from stepscope.derive.host.running_python import RunningPython
from stepscope.derive.intervals.spans import Spans
from stepscope.unavailable import Unavailable

#: A sample every 10 ms; times are in µs.
SAMPLES, LINES = "samples of main, 100 a second", "source lines of main, 100 a second"
TRAIN, FETCH = "$/app/train.py:60 train", "$/app/train.py:9 fetch"
WAIT = "$/v/site-packages/jax/_src/api.py:3 block_until_ready"
TRY = "$/v/site-packages/jax/_src/api.py:7 try_to_block"
MS = 1_000_000_000


def placed(
    lines: list[Any],
    ops_ms: list[tuple[int, int]] | None,
    python_ms: tuple[int, int] | None = None,
) -> list[tuple[str, int, int]]:
    """Function, start and end in ms of each frame, and the same of the lines."""
    trace = blueprint.trace(lines)
    profile = blueprint.profile(trace)
    frames, rows = (
        profile.derived("vm", wanted) for wanted in (recorded_frames, recorded_lines)
    )
    ops: Spans | Unavailable = Unavailable(code="NOT_RECORDED", reason="", remedy="")
    if ops_ms is not None:
        ops = Spans.of([(begin * MS, end * MS) for begin, end in ops_ms])
    runs = [] if python_ms is None else [tuple(at * MS for at in python_ms)]
    given: Any = {
        **{name: trace.table(name) for name in ("tracks", "events")},
        "recorded_frames": frames,
        "ops_without_device": ops,
        "running_python": RunningPython(
            {5: Spans.of(runs), 0: Spans.of([(0, 40 * MS)])}
        ),
    }
    found = function_frames(**given)
    assert not isinstance(found, Unavailable)
    main = found.track == 0
    assert found.self_ps[main].sum() == found.spans(main).length_ps
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


#: `fetch`, then a wait of 20 ms, which also calls a function, then `fetch`.
STEP = sampled(
    (TRAIN, 0, 40_000),
    (FETCH, 0, 5_000),
    (WAIT, 5_000, 20_000),
    (TRY, 5_000, 20_000),
    (FETCH, 25_000, 15_000),
)
AS_SAMPLED = [
    ("block_until_ready", 5, 25),
    ("fetch", 0, 5),
    ("fetch", 25, 40),
    ("train", 0, 40),
    ("try_to_block", 5, 25),
]


def test_short_gaps_between_ops_belong_to_the_nearest_sample_of_other_work() -> None:
    assert placed(STEP, [(10, 14), (20, 24)]) == [
        ("block_until_ready", 10, 14),
        ("block_until_ready", 20, 24),
        ("fetch", 0, 10),
        ("fetch", 14, 20),
        ("fetch", 24, 40),
        ("train", 0, 40),
        ("try_to_block", 10, 14),
        ("try_to_block", 20, 24),
    ]


@pytest.mark.parametrize(
    "ops_ms",
    [
        # No op is known, or a device runs them.
        None,
        # Ops run all the time, or a gap is as long as the interval, so it was sampled.
        [(0, 40)],
        [(5, 10), (20, 25)],
        [(5, 8), (24, 25)],
    ],
)
def test_other_samples_stay_where_they_are(ops_ms: Any) -> None:
    assert placed(STEP, ops_ms) == AS_SAMPLED


def test_a_thread_that_only_waits_has_no_other_sample() -> None:
    lines = sampled((WAIT, 0, 20_000), (TRY, 0, 20_000))
    assert placed(lines, [(5, 8), (14, 16)]) == [
        ("block_until_ready", 0, 20),
        ("try_to_block", 0, 20),
    ]


def test_traced_calls_and_calls_without_a_wait_are_exact() -> None:
    for thread, wait in (("main", WAIT), (SAMPLES, "$/app/train.py:20 wait")):
        lines = [(thread, TRAIN, 0, 30_000), (thread, wait, 5_000, 20_000)]
        name = wait.rpartition(" ")[2]
        frames = sorted([("train", 0, 30), (name, 5, 25)])
        assert placed(lines, [(10, 14)]) == frames


def test_what_ops_call_back_is_no_gap() -> None:
    pool = "samples of pool, 100 a second"
    begins = ("$/usr/lib/python3.12/threading.py:9 Thread._bootstrap", 0, 40_000)
    of_framework = (pool, "$/app/train.py:30 observe", 14_000, 6_000)
    lines = [(SAMPLES, *begins), *STEP, of_framework]
    lines += [
        (LINES, *begins),
        (pool.replace("samples", "source lines"), *of_framework[1:]),
    ]
    found = placed(lines, [(10, 14), (20, 24)])
    assert [it for it in found if it[0] == "try_to_block"] == [("try_to_block", 10, 24)]


def test_a_thread_that_runs_python_keeps_the_interpreter_s_lock() -> None:
    found = placed(STEP, [(10, 14), (20, 24)], python_ms=(14, 19))
    assert [it for it in found if it[0] == "try_to_block"] == [
        ("try_to_block", 10, 19),
        ("try_to_block", 20, 24),
    ]
