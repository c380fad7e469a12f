"""What worker processes do: shares by hand, and what is waiting and what is work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.traces import blueprint
from tests.support.traces.training import on_host

from stepscope.derive.account.time_by_cause import account
from stepscope.derive.host.function_frames import (
    MIN_INTERVAL_SAMPLES,
    non_step_frames,
)
from stepscope.derive.host.placed_frames import function_frames
from stepscope.derive.input_pipeline.worker_functions import (
    WorkerFunction,
    WorkerFunctions,
    worker_functions,
)
from stepscope.derive.trace_rows.drawn_rows import trace_timeline
from stepscope.remedies import Remedy
from stepscope.unavailable import Unavailable
from stepscope.xspace.samples_line import SamplesLine
from stepscope.xspace.vocabulary import UNSAMPLED

if TYPE_CHECKING:
    from collections.abc import Sequence

MS = 1_000_000_000
FIRST = "samples beside the steps of worker process Process-1, 50 a second"
SECOND = "samples beside the steps of worker process Process-2, 50 a second"
LINES = "source lines of worker process Process-1, 50 a second"
LIB = "/usr/lib/python3.12"
LOOP = f"${LIB}/site-packages/torch/utils/data/_utils/worker.py:244 _worker_loop"
FETCH = f"${LIB}/site-packages/torch/utils/data/_utils/fetch.py:49 fetch"
STACK = f"${LIB}/site-packages/torch/utils/data/_utils/collate.py:246 stack"
GET = f"${LIB}/multiprocessing/queues.py:98 Queue.get"
PUT = f"${LIB}/multiprocessing/queues.py:86 Queue.put"
POLL = f"${LIB}/multiprocessing/connection.py:253 _ConnectionBase.poll"
RECV = f"${LIB}/multiprocessing/connection.py:246 _ConnectionBase.recv"
CALL = f"${LIB}/multiprocessing/managers.py:818 BaseProxy._callmethod"
ITEM, AUGMENT = "$/app/data.py:12 Data.__getitem__", "$/app/data.py:41 augment"
#: Steps of 10 ms: 0 to 100 ms; the step thread does nothing that is known.
STEPS = [
    ("main", "train", 10_000.0 * number, 10_000.0, {"_r": 1, "step_num": number})
    for number in range(10)
]


def within(line: str, begin_ms: float, *names_ms: Any) -> list[blueprint.Line]:
    """Nested runs of functions, all from one moment on: name, how many ms, …"""
    pairs = zip(names_ms[::2], names_ms[1::2], strict=True)
    return [(line, name, 1_000 * begin_ms, 1_000 * ms) for name, ms in pairs]


def found(lines: Sequence[blueprint.Line]) -> WorkerFunctions | Unavailable:
    profile = blueprint.profile(blueprint.trace(lines))
    answer: WorkerFunctions | Unavailable = profile.derived("vm", worker_functions)
    return answer


def seen(lines: Sequence[blueprint.Line]) -> WorkerFunctions:
    answer = found(lines)
    assert not isinstance(answer, Unavailable), answer
    return answer


def ms_of(answer: WorkerFunctions) -> dict[str, float]:
    return {one.function: one.time_ps / MS for one in answer.functions}


#: Of 100 ms the first worker fetches for 80, 70 of them in `augment`, hands over for 5
#: and waits for 15; the second one is looked at for 50 ms, and waits for all of them.
WHOLE = [
    *STEPS,
    *within(FIRST, 0, LOOP, 100, FETCH, 80, ITEM, 78, AUGMENT, 70),
    *within(FIRST, 80, PUT, 5),
    *within(FIRST, 85, GET, 15, POLL, 15),
    *within(SECOND, 50, LOOP, 50, GET, 50),
]


def test_shares_are_of_the_time_for_which_workers_were_looked_at() -> None:
    answer = seen(WHOLE)
    assert (answer.workers, answer.looks) == (2, 8)
    assert answer.sampled_ps == 150 * MS
    assert (answer.waits_ps, answer.gives_ps) == (65 * MS, 5 * MS)
    assert ms_of(answer) == {"augment": 70, "Data.__getitem__": 8, "fetch": 2}
    assert answer.most is not None
    assert (answer.most.function, answer.most.line) == ("augment", 41)
    assert (answer.most.file, answer.most.time_ps) == ("/app/data.py", 70 * MS)


def test_their_time_is_no_functions_of_the_steps_and_no_owners() -> None:
    with_them = blueprint.profile(blueprint.trace(WHOLE))
    without = blueprint.profile(blueprint.trace(STEPS))
    for derived in (function_frames, non_step_frames):
        assert isinstance(with_them.derived("vm", derived), Unavailable)
    rows = with_them.derived("vm", account).rows
    assert rows.equals(without.derived("vm", account).rows)


def test_only_time_within_the_steps_counts() -> None:
    """Two steps of 10 ms, from 50 ms on; the worker worked before and after, too."""
    late = [("main", "train", 50_000.0, 10_000.0, {"_r": 1, "step_num": 0})]
    late += [("main", "train", 60_000.0, 10_000.0, {"_r": 1, "step_num": 1})]
    answer = seen([*late, *within(FIRST, 0, LOOP, 100, ITEM, 60, AUGMENT, 54)])
    assert answer.sampled_ps == 20 * MS
    # Of the 20 ms 10 are in `__getitem__`, 4 of them in `augment`.
    assert sum(ms_of(answer).values()) == 20
    assert answer.most is not None
    assert answer.most.time_ps == 10 * MS


def test_what_a_library_does_by_itself_is_the_librarys() -> None:
    """As with a dataset of `torchvision`: no function is the program's own."""
    answer = seen([*STEPS, *within(FIRST, 0, LOOP, 100, FETCH, 95, STACK, 90)])
    assert answer.most is None
    assert answer.functions[0].time_ps >= 90 * MS
    assert answer.functions[0].function == "stack"


@pytest.mark.parametrize(
    ("stack", "waits"),
    [
        ((LOOP, GET), True),
        ((LOOP, GET, POLL), True),
        # As workers of an environment do: `command = remote.recv()`.
        (("$/app/env.py:7 serve", RECV), True),
        # An object of a manager is asked for: that is work of this batch.
        ((LOOP, ITEM, CALL, RECV), False),
        ((LOOP, "$/app/cache.py:3 Cache.get"), False),
        ((LOOP, PUT), False),
    ],
)
def test_waiting_for_work_is_told_from_work(
    stack: tuple[str, ...], *, waits: bool
) -> None:
    names = [it for name in stack for it in (name, 100)]
    answer = seen([*STEPS, *within(FIRST, 0, *names)])
    assert answer.waits_ps == (100 * MS if waits else 0)
    assert answer.gives_ps == (100 * MS if PUT in stack else 0)


def test_the_line_with_most_of_a_function_is_told() -> None:
    lines = [
        (LINES, LOOP, 0, 100_000, {"source_line": 300}),
        (LINES, AUGMENT, 0, 30_000, {"source_line": 43}),
        (LINES, AUGMENT, 30_000, 70_000, {"source_line": 47}),
    ]
    whole = [*STEPS, *within(FIRST, 0, LOOP, 100, AUGMENT, 100), *lines]
    (one,) = (it for it in seen(whole).functions if it.function == "augment")
    assert one.hot_line == 47
    shown = blueprint.profile(blueprint.trace(whole)).derived("vm", trace_timeline)
    assert not isinstance(shown, Unavailable)
    names = shown.tracks["name"].to_list()
    assert FIRST in names
    assert LINES not in names


@pytest.mark.parametrize(("second", "idle"), [(GET, 1.0), (AUGMENT, 0.0), (None, 1.0)])
def test_no_worker_at_work_while_the_step_waits_is_told(
    second: str | None, idle: float
) -> None:
    """One at work is enough: batches are handed over in turn."""
    lines = [*on_host(), *within(FIRST, 0, LOOP, 200, GET, 200)]
    if second is not None:
        lines += within(SECOND, 0, LOOP, 200, second, 200)
    answer = seen(lines)
    assert answer.awaited_ps > 0
    assert answer.idle_ps == idle * answer.awaited_ps


def test_where_they_were_not_looked_at_the_reason_is_said() -> None:
    others = found(STEPS)
    assert isinstance(others, Unavailable)
    assert (others.code, others.remedy) == (
        "NOT_RECORDED",
        Remedy.RECORD_WITH_STEPSCOPE,
    )
    before = found([*STEPS, *within(FIRST, 200, LOOP, 10)])
    assert isinstance(before, Unavailable)
    assert "measured steps" in before.reason


def test_each_reason_is_known_again_by_its_warning() -> None:

    from stepscope.xspace.vocabulary import unseen_reason  # noqa: PLC0415 - as a reader

    for one in UNSAMPLED.values():
        assert unseen_reason(f"The producer reports: {one.warning}") == one
    assert unseen_reason("dropped 3 events") is None


@pytest.mark.parametrize(
    ("kind", "thread"), [("functions_of_worker", 77), ("source_lines_of_worker", 2**22)]
)
def test_lines_of_workers_are_read_as_they_are_written(kind: Any, thread: int) -> None:
    written = SamplesLine(thread, "ForkProcess-1, the first", 25.0, kind)
    assert SamplesLine.of(written.id, written.name) == written


def test_a_thread_that_is_called_so_is_no_worker() -> None:
    thread = SamplesLine(9, "worker process 3", 100.0, "functions_beside")
    assert SamplesLine.of(thread.id, thread.name) == thread


def answer_with(
    *,
    most: int | None = None,
    first: int = 0,
    looks: int = MIN_INTERVAL_SAMPLES,
    waits: int = 0,
) -> WorkerFunctions:
    """Workers sampled for 100 ps, with the time of functions in ps."""

    def function(name: str, time_ps: int) -> WorkerFunction:
        return WorkerFunction(name, None, None, None, None, time_ps)

    return WorkerFunctions(
        workers=1,
        sampled_ps=100,
        waits_ps=waits,
        gives_ps=0,
        functions=(function("first", first),) if first else (),
        most=None if most is None else function("most", most),
        looks=looks,
        awaited_ps=0,
        idle_ps=0,
    )


def test_a_function_is_named_for_most_of_the_work_and_a_fifth_of_the_time() -> None:
    cases: list[Any] = [
        (answer_with(most=20), "most"),
        (answer_with(most=19), None),
        (answer_with(most=90, looks=MIN_INTERVAL_SAMPLES - 1), None),
        (answer_with(most=20, first=80), "most"),
        (answer_with(first=50), "first"),
        (answer_with(first=49), None),
        (answer_with(first=30, waits=40), "first"),
        (answer_with(first=29, waits=40), None),
        (answer_with(), None),
    ]
    for answer, named in cases:
        worth = answer.worth_naming
        assert (worth.function if worth else None) == named


def test_workers_count_that_were_sampled_in_a_step() -> None:
    """Times before time 0 of the steps do not shift those of the second worker."""
    late = [
        ("main", "train", 50_000.0 + 10_000.0 * k, 10_000.0, {"_r": 1, "step_num": k})
        for k in range(2)
    ]
    third = FIRST.replace("Process-1", "Process-3")
    answer = seen(
        [
            *late,
            *within(FIRST, 10, LOOP, 45, GET, 45),
            *within(SECOND, 52, LOOP, 30, ITEM, 30),
            *within(SECOND, 66, PUT, 6),
            *within(third, 10, LOOP, 20),
        ]
    )
    # Steps are from 50 to 70 ms.
    assert (answer.workers, answer.sampled_ps) == (2, 23 * MS)
    assert (answer.waits_ps, answer.gives_ps) == (5 * MS, 4 * MS)
    assert answer.works_ps == 14 * MS
    assert ms_of(answer) == {"Data.__getitem__": 14}
    assert answer.looks == round(0.023 * 50)
    assert answer.most is not None
    assert answer.most.function == "Data.__getitem__"
    assert (answer.awaited_ps, answer.idle_ps) == (0, 0)


def test_the_line_of_a_function_is_that_of_most_time_in_the_steps() -> None:
    lines = [
        (LINES, LOOP, 0, 200_000, {"source_line": 300}),
        (LINES, AUGMENT, 0, 20_000, {"source_line": 43}),
        (LINES, AUGMENT, 20_000, 55_000, {"source_line": 47}),
        (LINES, AUGMENT, 75_000, 25_000, {"source_line": 44}),
        # After the steps.
        (LINES, AUGMENT, 100_000, 100_000, {"source_line": 43}),
    ]
    whole = [*STEPS, *within(FIRST, 0, LOOP, 200, AUGMENT, 200), *lines]
    answer = seen(whole)
    assert answer.most is not None
    assert (answer.most.hot_line, answer.most.inside) == (47, None)
    assert seen(whole[: len(STEPS) + 2]).functions[0].hot_line is None


@pytest.mark.parametrize(
    ("first", "second"),
    [((90, 60), (80, 10)), ((0, 10), (-20, 30)), ((95, 5), (0, 15))],
)
def test_what_a_worker_does_beside_the_steps_is_not_another_worker_s(
    first: tuple[int, int], second: tuple[int, int]
) -> None:
    """Steps are from 0 to 100 ms; in them each has 10 ms, or 5 and 15."""
    lines = [*within(FIRST, first[0], LOOP, first[1])]
    lines += within(SECOND, second[0], LOOP, second[1], GET, second[1])
    answer = seen([*STEPS, *lines])
    inside = [
        max(0, min(100, begin + long) - max(0, begin))
        for begin, long in (first, second)
    ]
    assert (answer.workers, sum(inside)) == (2, 20)
    assert answer.sampled_ps == 20 * MS
    assert answer.waits_ps == inside[1] * MS
