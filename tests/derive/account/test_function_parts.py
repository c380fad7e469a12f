"""Which functions a stretch of one thread's time goes to."""

from __future__ import annotations

import numpy as np
from tests.support.traces import blueprint

from stepscope.derive.account.function_parts import calling_function, function_parts
from stepscope.derive.host.placed_frames import function_frames
from stepscope.derive.intervals.spans import Spans
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_US

LIBRARY = "/v/lib/python3.12/site-packages"


def found(
    lines: list[blueprint.Line], windows: list[tuple[int, int]]
) -> list[tuple[str, str | None, int]]:
    """Function, what most of it is, and its time in µs."""
    profile = blueprint.profile(blueprint.trace(lines))
    frames = profile.derived("vm", function_frames)
    assert not isinstance(frames, Unavailable)
    start, end = np.array(windows, np.int64).T * PS_PER_US
    parts = function_parts(
        frames,
        Spans.from_events(start, end - start),
        track=int(frames.track[0]),
        windows=(start, end),
    )
    return [
        (
            frames.names[part.type].function,
            None if part.detail < 0 else frames.names[part.detail].function,
            part.time_ps // PS_PER_US,
        )
        for part in parts
    ]


def test_a_function_of_one_long_step_keeps_its_time() -> None:
    """The second step is longer, as it alone writes a checkpoint."""
    assert found(
        [
            ("main", "app/train.py(1): train", 0, 350),
            ("main", "app/train.py(30): keep", 110, 130),
            ("main", f"{LIBRARY}/torch/serialization.py(900): save", 112, 126),
        ],
        [(0, 100), (100, 250), (250, 350)],
    ) == [("train", None, 220), ("keep", "save", 130)]


def test_a_function_that_samples_join_across_steps_keeps_its_time() -> None:
    """It ran in the first step and in the second: around neither of them."""
    assert found(
        [
            ("main", "app/train.py(1): train", 0, 300),
            ("main", "app/data.py(5): scale", 40, 150),
            ("main", f"{LIBRARY}/numpy/core.py(7): sort", 40, 150),
        ],
        [(0, 100), (100, 200), (200, 300)],
    ) == [("train", None, 150), ("scale", "sort", 150)]


def test_a_function_that_samples_join_across_many_steps_keeps_its_time() -> None:
    """Looks find nothing else in two steps, and then again in three."""
    steps = [(at, at + 100) for at in range(0, 1000, 100)]
    assert found(
        [
            ("main", "app/train.py(1): train", 0, 1000),
            ("main", "app/train.py(5): update", 5, 5),
            ("main", "app/train.py(9): log_metrics", 10, 290),
            ("main", "app/train.py(9): log_metrics", 310, 90),
            ("main", "app/train.py(9): log_metrics", 410, 390),
            ("main", "/usr/lib/python3.12/logging/__init__.py(7): flush", 410, 390),
            ("main", "app/train.py(9): log_metrics", 810, 90),
            ("main", "app/train.py(9): log_metrics", 910, 90),
        ],
        steps,
    ) == [("log_metrics", None, 950), ("train", None, 50)]


def test_what_runs_around_steps_is_their_loop() -> None:
    assert found(
        [
            ("main", "app/train.py(1): train", 0, 200),
            ("main", f"{LIBRARY}/numpy/core.py(7): sort", 0, 90),
            ("main", f"{LIBRARY}/numpy/core.py(7): sort", 100, 90),
        ],
        [(0, 100), (100, 200)],
    ) == [("train", "sort", 180), ("train", None, 20)]


def test_time_in_a_library_is_that_of_the_function_that_called_it() -> None:
    """Samples that all find one function of a library join the steps around it."""
    logging = "/usr/lib/python3.12/logging/__init__.py"
    assert found(
        [
            ("main", "app/train.py(1): train", 0, 300),
            ("main", "app/train.py(30): write_logs", 0, 290),
            ("main", f"{logging}(1500): Logger.info", 0, 290),
            ("main", f"{logging}(1087): StreamHandler.flush", 0, 290),
        ],
        [(0, 100), (100, 200), (200, 300)],
    ) == [("write_logs", "StreamHandler.flush", 290), ("train", None, 10)]


def test_a_function_that_a_library_calls_back_has_its_own_time() -> None:
    keras = f"{LIBRARY}/keras/trainer.py"
    assert found(
        [
            ("main", "app/train.py(1): train", 0, 200),
            ("main", f"{keras}(10): fit", 0, 200),
            ("main", f"{keras}(50): on_batch_end", 50, 50),
            ("main", "app/train.py(9): log_metrics", 52, 40),
            ("main", f"{keras}(50): on_batch_end", 150, 50),
            ("main", "app/train.py(9): log_metrics", 152, 40),
        ],
        [(0, 100), (100, 200)],
    ) == [
        ("train", "fit", 100),
        ("log_metrics", None, 80),
        ("train", "on_batch_end", 20),
    ]


def test_a_function_gives_way_to_another_through_a_library() -> None:
    assert found(
        [
            ("main", "app/train.py(1): train", 0, 300),
            ("main", "app/data.py(5): load", 10, 100),
            ("main", f"{LIBRARY}/pandas/core.py(7): apply", 10, 100),
            ("main", "app/data.py(20): parse", 10, 90),
        ],
        [(0, 100), (100, 200), (200, 300)],
    ) == [("train", None, 200), ("parse", None, 90), ("load", "apply", 10)]


def test_without_any_file_of_the_program_libraries_are_told() -> None:
    keras = f"{LIBRARY}/keras/trainer.py"
    assert found(
        [
            ("main", f"{keras}(10): fit", 0, 200),
            ("main", f"{keras}(50): train_step", 0, 90),
            ("main", f"{keras}(50): train_step", 100, 90),
        ],
        [(0, 100), (100, 200)],
    ) == [("train_step", None, 180), ("fit", None, 20)]


def calling(
    lines: list[blueprint.Line], spans: list[tuple[int, int]], *, beside: bool = False
) -> tuple[str, int] | None:
    """The function that calls most of some spans in ten steps, and its time in µs."""
    profile = blueprint.profile(blueprint.trace(lines))
    frames = profile.derived("vm", function_frames)
    assert not isinstance(frames, Unavailable)
    start, end = np.array(spans, np.int64).T * PS_PER_US
    steps = np.arange(0, 1000, 100) * PS_PER_US
    found = calling_function(
        frames,
        Spans.from_events(start, end - start),
        tracks=np.unique(frames.track).tolist() if beside else [int(frames.track[0])],
        windows=(steps, steps + 100 * PS_PER_US),
        beside=beside,
    )
    return found and (frames.names[found.type].function, found.time_ps // PS_PER_US)


FETCHING = [(at, at + 40) for at in range(0, 1000, 100)]


def test_the_deepest_function_of_the_program_calls_what_a_library_does() -> None:
    lines: list[blueprint.Line] = [("main", "/app/train.py(1): train", 0, 1000)]
    for at in range(0, 1000, 100):
        torch = f"{LIBRARY}/torch/utils/data"
        lines += [
            ("main", f"{torch}/dataloader.py(7): __next__", at, 40),
            ("main", "/app/data.py(9): collate", at, 30),
            ("main", f"{LIBRARY}/numpy/core.py(7): sort", at, 30),
        ]
    assert calling(lines, FETCHING) == ("collate", 300)


def test_the_loop_calls_nothing_but_what_it_does_nearly_all_the_time() -> None:
    loop: list[blueprint.Line] = [("main", "/app/train.py(1): train", 0, 1000)]
    assert calling(loop, FETCHING) is None
    assert calling(loop, [(0, 950)]) == ("train", 950)


def test_the_programs_module_calls_everything_and_is_no_answer() -> None:
    module: list[blueprint.Line] = [("main", "/app/train.py(1): <module>", 0, 1000)]
    assert calling(module, [(0, 1000)]) is None
    step: blueprint.Line = ("main", "/app/train.py(9): fit", 0, 990)
    assert calling([*module, step], [(0, 1000)]) == ("fit", 990)


def test_a_function_whose_place_is_unknown_is_not_said_to_be_the_programs() -> None:
    """`compiler.py` may be anybody's, and PyTorch leaves out where packages lie."""
    for name in ("$compiler.py:7 compile", "torch/serialization.py(9): save"):
        assert calling([("main", name, 0, 40)], [(0, 40)]) is None


def test_what_a_framework_calls_on_its_own_thread_is_no_loop() -> None:
    """No look came between two calls: one run seems to be around four steps."""
    pool: list[blueprint.Line] = [
        ("pool", "/v/site-packages/tensorflow/script_ops.py(1): __call__", at, 450)
        for at in (0, 500)
    ]
    pool += [("pool", "/app/data.py(9): parse", at, 450) for at in (0, 500)]
    assert calling(pool, FETCHING, beside=True) == ("parse", 400)
    assert calling(pool, FETCHING) is None


def test_a_loop_that_python_began_on_another_thread_makes_no_batches() -> None:
    other: list[blueprint.Line] = [
        ("other", "/usr/lib/python3.12/threading.py(1): _bootstrap", 0, 1000),
        ("other", "/app/watch.py(9): watch", 0, 1000),
    ]
    assert calling(other, FETCHING, beside=True) is None
    made: list[blueprint.Line] = [
        ("pool", "/app/data.py(9): parse", at, 30) for at in range(0, 1000, 100)
    ]
    assert calling(other + made, FETCHING, beside=True) == ("parse", 300)


def test_what_is_around_nearly_all_of_the_only_window_is_its_loop() -> None:
    """The first look at the stack comes after the first event."""
    lines = [
        ("main", "app/start.py(3): begin", 0, 10),
        ("main", "app/rows.py(1): <module>", 10, 990),
        ("main", "app/rows.py(7): load", 10, 700),
        ("main", "app/rows.py(9): group", 710, 50),
    ]
    assert found(lines, [(0, 1000)]) == [
        ("load", None, 700),
        ("<module>", None, 240),
        ("group", None, 50),
        ("begin", None, 10),
    ]


def test_a_function_without_a_name_is_a_part_of_the_one_that_it_stands_in() -> None:
    """A library calls the lambda of `rank` back; `other` was handed one of `rank`'s."""
    key = "app/train.py(31): Board.rank.<locals>.<lambda>"
    assert found(
        [
            ("main", "app/train.py(1): train", 0, 100),
            ("main", "app/train.py(30): Board.rank", 10, 50),
            ("main", f"{LIBRARY}/heap.py(7): nlargest", 10, 50),
            ("main", key, 12, 46),
            ("main", "app/train.py(50): other", 60, 40),
            ("main", key, 60, 40),
        ],
        [(0, 100)],
    ) == [
        ("Board.rank", None, 50),
        ("Board.rank.<locals>.<lambda>", None, 40),
        ("train", None, 10),
    ]


def test_a_wait_is_told_by_the_first_function_that_waits() -> None:
    """Python's own functions wait by one another; what waits is `queue.get`."""
    python = "/usr/lib/python3.12"
    assert found(
        [
            ("main", "app/serve.py(1): serve", 0, 100),
            ("main", "app/serve.py(3): next_request", 10, 80),
            ("main", f"{python}/queue.py(154): get", 12, 76),
            ("main", f"{python}/threading.py(323): wait", 12, 76),
        ],
        [(0, 100)],
    )[0] == ("next_request", "get", 80)
