"""When the program's thread sleeps, and for whom, worked out by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.support.traces.literal_tables import tables_of

from stepscope.derive.account.host_waits import HostWaits, host_waits
from stepscope.derive.account.naming import Name
from stepscope.derive.account.thread_waits import thread_sleep
from stepscope.derive.host.core_time import CoreTime, ThreadTime
from stepscope.derive.host.function_frames import FunctionFrames
from stepscope.derive.host.function_names import FunctionName
from stepscope.derive.host.function_purposes import FunctionPurpose, FunctionPurposes
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.step_time.host_time import HostCode
from stepscope.unavailable import Unavailable

WHY = Unavailable(code="NOT_RECORDED", reason="no", remedy="record it")
Pairs = list[tuple[int, int]]
#: The program's thread, then four others, the last one of another process.
IDS = (1, 2, 3, 4, 5)


def frames_of(rows: list[tuple[int, str, int, int]]) -> FunctionFrames:
    """(track, function, start, end), none inside another; `_x` is of a library.

    Functions that end in `queue` are in that file of Python.
    """
    names = list(dict.fromkeys(row[1] for row in rows))
    start = np.array([row[2] for row in rows], np.int64)
    end = np.array([row[3] for row in rows], np.int64)
    return FunctionFrames(
        track=np.array([row[0] for row in rows], np.int32),
        start_ps=start,
        end_ps=end,
        parent=np.full(len(rows), -1, np.int32),
        self_ps=end - start,
        type=np.array([names.index(row[1]) for row in rows], np.int32),
        event=np.arange(len(rows), dtype=np.int32),
        sampled=True,
        hz=None,
        names={
            at: FunctionName(
                name,
                "/lib/queue.py" if name.endswith("queue") else f"/app/{name}.py",
                1,
                name.startswith("_"),
            )
            for at, name in enumerate(names)
        },
    )


def clock(name: str, awake: Pairs, *, seen: Pairs = (), system: Pairs = ()) -> Any:
    return ThreadTime(
        name, Spans.of(seen or [(0, 100)]), Spans.of(awake), Spans.of(system)
    )


#: No thread outside of Python computes.
SILENT = clock("rest", [])
PURPOSES = {
    "wait": FunctionPurpose.AWAIT,
    "synchronize": FunctionPurpose.SYNC,
    "compile": FunctionPurpose.COMPILE,
}
TWO_STEPS = (np.array([0, 50]), np.array([50, 100]))


def waits(
    main: ThreadTime | None,
    others: dict[int, ThreadTime] = {},  # noqa: B006 - read only
    *,
    rows: Any = ((0, "load", 0, 100),),
    rest: ThreadTime | None = SILENT,
    ops: Pairs = (),
    steps: Any = TWO_STEPS,
    full: bool = False,
    device: int | None = None,
    **change: Any,
) -> HostWaits | Unavailable:
    """The program is in its functions from 0 to 100, in two steps."""
    tracks, _ = tables_of(
        [], [{"name": f"t{at}", "id": at, "process": 9 if at < 5 else 8} for at in IDS]
    )
    frames = frames_of(list(rows))

    def name(table: Any, kind: int, detail: int = -1) -> Name:
        return Name(table.names[kind].function, None if detail < 0 else str(detail))

    naming = SimpleNamespace(
        function_tracks=(0,), windows=steps, function_name=name, ran=None
    )
    threads = {("p", 9, at): each for at, each in others.items() if at < 5}
    threads |= {("p", 8, at): each for at, each in others.items() if at == 5}
    if main is not None:
        threads[("p", 9, 1)] = main
    purposes = np.array(
        [PURPOSES.get(row[1], FunctionPurpose.UNKNOWN) for row in rows], np.uint8
    )
    values: dict[str, Any] = {
        "core_time": CoreTime(
            threads, {} if rest is None else {("p", 9): rest}, are_full=full
        ),
        "function_frames": frames,
        "function_purposes": FunctionPurposes(purposes, {}),
    }
    values |= {key: change.pop(key) for key in list(change) if key in values}
    classes: Any = SimpleNamespace(
        host_compute=Spans.of(ops),
        no_device=device is None,
        by_thread={0: {HostCode.HOST_COMPUTE: Spans.of(ops)}},
    )
    sleep = Spans.empty()
    if not any(isinstance(values[key], Unavailable) for key in list(values)[1:]):
        slept = thread_sleep(
            tracks=tracks,
            host_classes=classes,
            function_lines=WHY,
            non_step_frames=WHY,
            **values,
        )
        sleep = slept.spans.get(0, sleep)
    values |= {
        "account": SimpleNamespace(
            devices=[
                SimpleNamespace(
                    device=device, idle={"wait": sleep, "input": Spans.empty()}
                )
            ]
        ),
        "naming": naming,
        "windows": SimpleNamespace(judged=Spans.of([(0, 100)])),
        "non_step_frames": WHY,
    }
    answer = host_waits(tracks=tracks, **values | change)
    return answer if isinstance(answer, Unavailable) else answer["wait"]


def found(*given: Any, **options: Any) -> HostWaits:
    answer = waits(*given, **options)
    assert isinstance(answer, HostWaits), answer
    return answer


WORKS = clock("worker", [(50, 90)])


def test_a_thread_that_works_while_the_program_sleeps_is_awaited() -> None:
    """It sleeps from 40 to 100; the worker works for 40 of that."""
    rows = [(0, "load", 0, 100), (1, "make", 40, 75), (1, "_pack", 75, 100)]
    answer = found(clock("main", [(0, 40)]), {2: WORKS}, rows=rows)
    assert answer.spans == Spans.of([(40, 100)])
    assert answer.function == Name("load", loop=True)
    assert (answer.thread, answer.works) == ("worker", True)
    assert answer.running == Name("make")
    assert not answer.of_library


@pytest.mark.parametrize(
    ("awake", "works"), [([(50, 80)], True), ([(50, 79)], False), ([(0, 40)], False)]
)
def test_a_thread_works_if_it_does_for_half_of_the_sleep(
    awake: Pairs, *, works: bool
) -> None:
    answer = found(clock("main", [(0, 40)]), {2: clock("worker", awake)})
    assert answer.works is works
    assert answer.thread == ("worker" if works else None)
    assert answer.running is None


def test_the_thread_that_works_most_is_awaited_and_a_pool_is_one_thread() -> None:
    others = {2: clock("pool-1", [(50, 70)]), 3: clock("pool-2", [(60, 75)])}
    single = {4: clock("single", [(50, 84)])}
    main = clock("main", [(0, 40)])
    assert found(main, others | single).thread == "pool"
    assert found(main, {2: others[2]} | single).thread == "single"
    assert found(main, {2: others[2], 4: clock("x", [(71, 90)])}).thread == "pool-1"
    # A thread of another process is none of the program's.
    assert found(main, {5: WORKS}).thread is None


def test_where_no_thread_works_the_only_one_in_a_function_is_awaited() -> None:
    """It is in `fetch` for 30 of 60; waits for threads are no such function."""
    main, asleep = clock("main", [(0, 40)]), clock("worker", [(0, 1)])
    rows = [(0, "load", 0, 100), (1, "fetch", 40, 70), (1, "get_queue", 70, 100)]
    answer = found(main, {2: asleep}, rows=rows)
    assert (answer.thread, answer.works) == ("worker", False)
    assert answer.running == Name("fetch")
    short = [rows[0], (1, "fetch", 40, 69), (1, "get_queue", 69, 100)]
    assert found(main, {2: asleep}, rows=short).thread is None
    library = [rows[0], (1, "_fetch", 40, 70)]
    assert found(main, {2: asleep}, rows=library).thread is None
    two = [*rows, (2, "fetch", 40, 80)]
    assert found(main, {2: asleep, 3: clock("x", [(0, 1)])}, rows=two).thread is None


def test_a_library_s_thread_is_said_to_be_one() -> None:
    rows = [(0, "load", 0, 100), (1, "_manage", 0, 100)]
    answer = found(clock("main", [(0, 40)]), {2: WORKS}, rows=rows)
    assert answer.of_library
    assert answer.running is not None
    assert answer.running.name == "_manage"


def test_only_judged_time_without_ops_is_a_sleep() -> None:
    main = clock("main", [(0, 20)])
    answer = found(main, ops=[(20, 50)])
    assert answer.spans == Spans.of([(50, 100)])
    windows = SimpleNamespace(judged=Spans.of([(0, 60)]))
    assert found(main, windows=windows).spans == Spans.of([(20, 60)])


def test_a_thread_sleeps_only_where_its_clock_was_read() -> None:
    answer = found(clock("main", [], seen=[(50, 100)]))
    assert answer.spans == Spans.of([(50, 100)])


@pytest.mark.parametrize("name", ["naming", "function_frames", "function_purposes"])
def test_without_functions_sleep_is_unknown(name: str) -> None:
    main = clock("main", [(0, 40)])
    unread = waits(main, **{name: WHY})
    assert isinstance(unread, Unavailable)
    # One that never sleeps is known not to.
    awake = waits(clock("main", [(0, 100)]))
    assert isinstance(awake, Unavailable)
    assert awake != unread


def test_without_clocks_only_functions_that_wait_are_known() -> None:
    """Nor is it known what other threads do meanwhile."""
    rows = [(0, "load", 0, 40), (0, "wait", 40, 70), (0, "load", 70, 100)]
    for change in ({"core_time": WHY}, {}):
        answer = found(None, rows=rows, **change)
        assert answer.spans == Spans.of([(40, 70)])
    assert (found(None, rows=rows, core_time=WHY).works, answer.works) == (None, False)
    assert isinstance(waits(None), Unavailable)


def test_waits_for_a_device_and_for_compilers_are_no_waits_of_the_program() -> None:
    main = clock("main", [(0, 40)], system=[(40, 100)])
    rows = [(0, "synchronize", 0, 60), (0, "compile", 60, 80), (0, "load", 80, 100)]
    assert found(main, rows=rows).spans == Spans.of([(80, 100)])


@pytest.mark.parametrize(
    ("computing", "spans"),
    [
        ([(40, 46)], [(40, 100)]),  # a tenth of the sleep
        ([(40, 47)], [(80, 100)]),
        ([], [(40, 100)]),
        ([(80, 100)], [(40, 100)]),  # during a system call
    ],
)
def test_threads_outside_of_python_may_compute_for_a_tenth_of_the_sleep(
    computing: Pairs, spans: Pairs
) -> None:
    """The last 20 of the sleep are a system call."""
    main = clock("main", [(0, 40)], system=[(80, 100)])
    assert found(main, rest=clock("rest", computing)).spans == Spans.of(spans)
    # A device may compute whatever the threads do.
    on_device = found(main, rest=clock("rest", computing), device=0)
    assert on_device.spans == Spans.of([(80, 100)])


def test_with_all_cores_in_use_a_pool_that_computes_hardly_gets_a_core() -> None:
    """It computes for a fiftieth of the sleep of 50, or a little longer."""
    main = clock("main", [(0, 50)])
    for end, spans in ((51, [(50, 100)]), (52, [])):
        rest = clock("rest", [(50, end)])
        answer = waits(main, rest=rest, full=True)
        assert isinstance(answer, HostWaits) is bool(spans)
        assert isinstance(answer, Unavailable) or answer.spans == Spans.of(spans)
        assert found(main, rest=rest).spans == Spans.of([(50, 100)])
    assert isinstance(waits(main, rest=None), Unavailable)


def test_functions_of_threads_beside_the_steps_are_recorded_too() -> None:
    beside = frames_of([(1, "make", 0, 100)])
    main = clock("main", [(0, 40)])
    answer = found(main, {2: WORKS}, non_step_frames=beside)
    assert answer.running == Name("make", loop=True)
    own = [(0, "load", 0, 100), (1, "fetch", 0, 100)]
    first = found(main, {2: WORKS}, rows=own, non_step_frames=beside)
    assert first.running == Name("fetch", loop=True)


def test_a_function_around_all_of_a_thread_s_time_in_the_only_step_is_its_loop() -> (
    None
):
    rows = [(0, "load", 0, 100), (1, "make", 45, 95)]
    only = (np.array([0]), np.array([100]))
    answer = found(clock("main", [(0, 40)]), {2: WORKS}, rows=rows, steps=only)
    assert answer.running == Name("make", loop=True)
    several = found(clock("main", [(0, 40)]), {2: WORKS}, rows=rows)
    assert several.running == Name("make")


@pytest.mark.parametrize(
    ("awake", "spans"),
    [
        # Of 60 in `wait` it sleeps 48 somewhere: the clock is read too rarely.
        ([(0, 52)], [(40, 100)]),
        # It sleeps for too short a time, so it spins in some of these waits.
        ([(0, 53)], [(53, 100)]),
        ([], [(0, 100)]),
    ],
)
def test_a_thread_sleeps_in_all_waits_if_it_sleeps_about_as_long(
    awake: Pairs, spans: Pairs
) -> None:
    rows = [(0, "load", 0, 100), (0, "wait", 40, 60), (0, "wait", 60, 100)]
    assert found(clock("main", awake), rows=rows).spans == Spans.of(spans)
