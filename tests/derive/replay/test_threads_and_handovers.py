"""The threads of a replay, and which of them lets another go on, by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.support.traces.literal_tables import tables_of

from stepscope.derive.intervals.nesting import flatten_tracks
from stepscope.derive.intervals.spans import Spans, TrackRows
from stepscope.derive.replay.activities import Activities, Sampled, Thread, find_threads
from stepscope.derive.replay.device_edges import event_edges
from stepscope.derive.replay.host_nodes import Releases, find_handovers
from stepscope.derive.step_time.host_time import HostCode as Code
from stepscope.derive.step_time.threads import EVIDENCE, StepThreads
from stepscope.trace.reading.stat_keys import StatKey
from stepscope.trace.tables import INT

US = 1_000_000
Pairs = list[tuple[float, float]]


def us(pairs: Pairs) -> Spans:
    return Spans.of([(round(a * US), round(b * US)) for a, b in pairs])


# Which thread lets another one go on.


def thread_of(number: int, alive: Pairs, **fields: Any) -> Thread:
    """The program's thread is the first; times are microseconds."""
    names = ("for_device", "for_thread", "handed", "dispatching")
    moments = [round(time * US) for time in fields.get("moments", [])]
    return Thread(
        track=number + 20,
        is_program=fields.get("is_program", number == 0),
        alive=us(alive),
        silent_for=fields.get("silent_for", False),
        moments=np.array(moments, np.int64),
        **{name: us(fields.get(name, [])) for name in names},
    )


def listed(releases: Releases) -> list[tuple[int, float, float, int, float]]:
    """(thread, when it goes on, begin of its wait, source, time of the source)."""
    thread, when, began, source, at = (column.tolist() for column in releases)
    times = [[time / US for time in column] for column in (when, began, at)]
    return list(zip(thread, times[0], times[1], source, times[2], strict=True))


def test_work_begins_while_the_program_runs_or_just_before_it_waits() -> None:
    """The program waits for the device from 500 to 900."""
    program = thread_of(0, [(0, 2000)], for_device=[(500, 900)])
    worker = thread_of(
        1, [(100, 200), (650, 660), (750, 760), (950, 999), (2100, 2200)]
    )
    _, found = find_handovers([program, worker])
    assert listed(found.starts) == [
        (1, 100, 100, 0, 100),
        (1, 650, 650, 0, 500),
        (1, 750, 750, -1, 750),  # 250 after the program began to wait
        (1, 950, 950, 0, 950),
        (1, 2100, 2100, -1, 2100),  # after the program's end
    ]
    assert listed(found.waits) == []


def test_work_begins_when_another_worker_ended_or_still_works() -> None:
    program = thread_of(0, [(0, 2000)], for_thread=[(10, 1990)])
    one = thread_of(1, [(300, 400), (1000, 1100)])
    other = thread_of(2, [(600, 700), (900, 950), (1050, 1060)])
    _, found = find_handovers([program, one, other])
    assert listed(found.starts) == [
        (1, 300, 300, -1, 300),
        (1, 1000, 1000, 2, 950),
        (2, 600, 600, 1, 400),  # 200 after it ended
        (2, 900, 900, -1, 900),
        (2, 1050, 1050, 1, 1050),  # the last of the others that still work
    ]


def test_a_wait_ends_shortly_after_the_work_of_another_thread() -> None:
    """A twentieth of 8000 µs is 400; of the others, 200 µs count."""
    program = thread_of(
        0,
        [(0, 20_000)],
        for_thread=[(100, 800), (1000, 1900), (2000, 10_000), (11_000, 12_000)],
    )
    worker = thread_of(1, [(300, 600), (1200, 1699), (3000, 9600), (10_500, 10_999)])
    _, found = find_handovers([program, worker])
    assert listed(found.waits) == [
        (0, 800, 100, 1, 600),
        (0, 1900, 1000, -1, 1900),  # 201 after it
        (0, 10_000, 2000, 1, 9600),
        (0, 12_000, 11_000, -1, 12_000),  # the work ended before the wait
    ]


def test_work_that_was_handed_over_may_go_on_after_the_wait() -> None:
    program = thread_of(0, [(0, 2000)], for_thread=[(100, 800)], handed=[(100, 800)])
    worker = thread_of(1, [(300, 1500)])
    _, found = find_handovers([program, worker])
    assert listed(found.waits) == [(0, 800, 100, 1, 800)]
    plain = thread_of(0, [(0, 2000)], for_thread=[(100, 800)])
    _, found = find_handovers([plain, worker])
    assert listed(found.waits) == [(0, 800, 100, -1, 800)]


def test_another_thread_goes_on_as_the_program_begins_to_wait() -> None:
    cases: list[Any] = [
        ([(700, 900)], (1, 500, 100, 0, 500)),  # begins 200 later
        ([(701, 900)], (1, 500, 100, -1, 500)),
        ([(650, 900)], (1, 500, 100, 0, 500)),
        ([(300, 900)], (1, 500, 100, 0, 300)),
        ([(299, 900)], (1, 500, 100, -1, 500)),
        ([(90, 95), (450, 900)], (1, 500, 100, 0, 450)),
        ([(90, 900)], (1, 500, 100, -1, 500)),  # before the other began to wait
    ]
    for waits, expected in cases:
        program = thread_of(0, [(0, 2000)], for_thread=waits)
        worker = thread_of(1, [(0, 2000)], for_thread=[(100, 500)])
        _, found = find_handovers([program, worker])
        assert expected in listed(found.waits)


def test_a_silent_program_waits_for_the_threads_that_work_meanwhile() -> None:
    """From 100 to 600 it has no event; the worker works from 150 to 590."""
    moments = [0, 100, 600, 650, 2000]
    program = thread_of(0, [(0, 2000)], moments=moments)
    worker = thread_of(1, [(150, 590)], silent_for=True)
    _, found = find_handovers([program, worker])
    assert (0, 600, 150, 1, 590) in listed(found.waits)
    # A worker of another kind, or one that works less than half of it, is no reason.
    for other in (
        thread_of(1, [(150, 590)]),
        thread_of(1, [(350, 590)], silent_for=True),
    ):
        _, found = find_handovers([program, other])
        assert [each for each in listed(found.waits) if each[1] == 600] == []
    _, found = find_handovers([program, thread_of(1, [(350, 600)], silent_for=True)])
    assert (0, 600, 350, 1, 600) in listed(found.waits)


def test_within_a_launching_op_all_time_from_first_to_last_work_counts() -> None:
    """The workers work 50 and 60 of 500, at its begin and at its end."""
    fields = {"moments": [0, 100, 600, 650, 2000], "dispatching": [(90, 700)]}
    program = thread_of(0, [(0, 2000)], **fields)
    worker = thread_of(1, [(150, 200), (530, 590)], silent_for=True)
    _, found = find_handovers([program, worker])
    assert (0, 600, 150, 1, 590) in listed(found.waits)
    without = thread_of(0, [(0, 2000)], moments=fields["moments"])
    _, found = find_handovers([without, worker])
    assert [each for each in listed(found.waits) if each[1] == 600] == []


def test_short_unexplained_pauses_of_a_driving_thread_are_its_work() -> None:
    """A pause of a millisecond or less; the program waits all the time."""
    program = thread_of(0, [(0, 9000)], for_device=[(0, 9000)])
    pairs: Pairs = [(1000, 1500), (2500, 3000), (4001, 5000)]
    worker = thread_of(1, pairs, silent_for=True)
    threads, found = find_handovers([program, worker])
    assert threads[0].alive == program.alive
    assert threads[1].alive == us([(1000, 3000), (4001, 5000)])
    assert [each[1] for each in listed(found.starts)] == [1000, 4001]
    # Threads that drive no step are left as they are.
    threads, found = find_handovers([program, thread_of(1, pairs)])
    assert threads[1].alive == us(pairs)
    assert [each[1] for each in listed(found.starts)] == [1000, 2500, 4001]


def test_without_threads_nothing_is_handed_over() -> None:
    threads, found = find_handovers([])
    assert threads == ()
    assert (listed(found.starts), listed(found.waits)) == ([], [])


# The threads.

SAMPLED = Sampled(
    np.array([0]),
    np.array([100 * US, 1000 * US]),
    0,
    by_device=False,
    open_end=False,
)


def activities_on(callers: list[int], called_us: list[float]) -> Activities:
    count = len(callers)
    nothing = np.zeros(count, np.int64)
    small = np.zeros(count, np.int32)
    called = np.array([round(at * US) for at in called_us])
    return Activities(
        *(small, small, small, nothing, nothing, called, called, small),
        np.array(callers, np.int32),
        *(called, called, nothing.astype(np.bool_)),
    )


def found_threads(
    lines: list[tuple[int, int, float, float]],
    *,
    marked: tuple[int, ...] = (),
    driving: tuple[int, ...] = (),
    programs: tuple[int, ...] = (),
    activities: Activities | None = None,
    sampled: Sampled = SAMPLED,
) -> tuple[Thread, ...]:
    """Four tracks, the last of a device; an event's kind is its code; below 30."""
    scaled = [(t, kind, round(at * US), round(dur * US)) for t, kind, at, dur in lines]
    names = ["a", "b", "c", {"name": "gpu", "kind": "stream", "device": 0}]
    tracks, events = tables_of(scaled, names)
    kinds = events["type"].to_numpy()
    code = np.where(kinds < 30, kinds, 0).astype(np.uint8)
    evidence = np.zeros((len(EVIDENCE), 4, 1), np.bool_)
    evidence[EVIDENCE.index("marker"), list(marked)] = True
    evidence[EVIDENCE.index("launch"), list(driving)] = True
    sets = flatten_tracks(tracks, events, code)
    rows = TrackRows.from_tables(tracks, events)
    nothing = Spans.empty()

    def code_spans(track: int, within: Spans) -> Any:
        return lambda code: within & sets.get(track, {}).get(code, nothing)

    classes: Any = SimpleNamespace(
        by_thread=sets,
        threads=StepThreads(evidence, np.array([0]), np.array([1000 * US])),
        code_spans=code_spans,
        rows=rows,
    )
    return find_threads(
        *(sampled, tracks, events),
        classes=classes,
        programs=programs,
        activities=activities,
    )


PLAIN = 30


def test_the_program_s_thread_has_the_marks_else_its_functions_else_it_asks() -> None:
    lines = [(track, Code.HOST_COMPUTE, 200, 50.0) for track in (0, 1, 2)]
    everyone = (0, 1, 2)

    def first(**given: Any) -> tuple[int, list[bool]]:
        found = found_threads(lines, driving=everyone, **given)
        return found[0].track, [each.is_program for each in found]

    assert first(marked=(2,), programs=(1,)) == (2, [True, False, False])
    assert first(programs=(1,)) == (1, [True, False, False])
    lines.append((2, Code.INPUT_WAIT, 300, 5))
    assert first()[0] == 2
    assert first(programs=(1,))[0] == 1
    del lines[-1]
    calls = activities_on([1, 1, 0], [210, 220, 230])
    assert first(activities=calls)[0] == 1
    lines[2] = (2, Code.HOST_COMPUTE, 200, 51.0)
    assert first()[0] == 2
    assert first(activities=calls)[0] == 1
    # A thread that drives no step is not the program's, whatever it has.
    found = found_threads(lines, driving=(0,), marked=(3,), programs=(1,))
    assert [each.track for each in found] == [0, 1, 2]


def test_the_program_lives_until_the_next_window_and_others_with_their_events() -> None:
    """Silences of more than 50 µs end a thread's work; the windows end at 1000."""
    lines = [
        *((0, Code.HOST_COMPUTE, 200, 100.0), (0, Code.HOST_COMPUTE, 600, 100.0)),
        *((1, Code.HOST_COMPUTE, 200, 100.0), (1, Code.HOST_COMPUTE, 350, 100.0)),
        *((1, Code.HOST_COMPUTE, 501, 100.0), (1, Code.HOST_COMPUTE, 950, 100.0)),
        (2, Code.HOST_COMPUTE, 1000, 100.0),
    ]
    first, second = found_threads(lines, driving=(0,), marked=(0,))
    assert first.alive == Spans.of([(0, 1000 * US + 1)])
    assert second.alive == us([(200, 450), (501, 601), (950, 1000)])
    assert (first.silent_for, second.silent_for) == (False, False)
    assert first.moments.tolist() == [200 * US, 300 * US, 600 * US, 700 * US]
    is_open = Sampled(
        SAMPLED.rows, SAMPLED.bounds_ps, 0, by_device=False, open_end=True
    )
    first, _ = found_threads(lines, driving=(0,), marked=(0,), sampled=is_open)
    assert first.alive == us([(0, 700)])


WAITS = (
    *(Code.SYNC, Code.READ_BACK, Code.BLOCKED),
    *(Code.INPUT_WAIT, Code.PEER, Code.SYSTEM_WAIT),
)


def test_calls_that_wait_for_the_device_wait_for_threads_without_one() -> None:
    for code in WAITS:
        for on_device in [True, False]:
            lines = [(0, code, 200, 100.0), (0, Code.DISPATCH, 400, 30.0)]
            calls = activities_on([1], [210]) if on_device else None
            (found,) = found_threads(lines, driving=(0,), marked=(0,), activities=calls)
            for_device = on_device and code in (Code.SYNC, Code.READ_BACK)
            wait, nothing = us([(200, 300)]), Spans.empty()
            assert found.for_device == (wait if for_device else nothing)
            assert found.for_thread == (nothing if for_device else wait)
            assert found.handed == (wait if code == Code.BLOCKED else nothing)
            assert found.dispatching == us([(400, 430)])
            assert found.silent_for is on_device


@pytest.mark.parametrize(
    ("length", "inner", "waits"),
    [
        (20, [], False),  # short
        (21, [], True),
        (400, [100.0] * 3, True),  # three events
        (400, [50.0] * 4, False),
        (2000, [0.0] * 4, True),
        (1999, [0.0] * 4, False),  # more than an event per 500 µs
    ],
)
def test_a_wait_that_is_full_of_events_is_work(
    length: float, inner: list[float], *, waits: bool
) -> None:
    at, lines = 20.5, [(0, Code.INPUT_WAIT, 20, length)]
    for dur in inner:
        lines.append((0, PLAIN, at, dur))
        at += dur
    long = Sampled(
        *(np.array([0]), np.array([10 * US, 9000 * US]), 0),
        by_device=False,
        open_end=False,
    )
    (found,) = found_threads(lines, driving=(0,), marked=(0,), sampled=long)
    assert found.for_thread == us([(20, 20 + length)] if waits else [])


@pytest.mark.parametrize(("called", "waits"), [(250, False), (199, True), (300, True)])
def test_a_wait_in_which_the_thread_launches_is_no_wait(
    called: float, *, waits: bool
) -> None:
    lines = [(0, Code.INPUT_WAIT, 200, 100.0)]
    calls = activities_on([0, 1], [called, 250])
    found = found_threads(lines, driving=(0,), marked=(0,), activities=calls)
    assert found[0].for_thread == us([(200, 300)] if waits else [])


# Waits of streams for each other.


def waited(
    events: list[dict[str, int]], *, devices: tuple[int | None, ...] = (None, 0, 1)
) -> list[tuple[int, int]]:
    """Pairs (source, target) of activities; each event is on the track `on`.

    Streams 7 and 8 of device 0 and 7 of device 1 run three activities each; activity
    `number` is launched by the call of that number.
    """
    rows = [(0, 7), (0, 7), (0, 7), (0, 8), (0, 8), (0, 8), (1, 7), (1, 7), (1, 7)]
    numbers = [1, 5, 9, 2, 6, -1, 3, 7, 11]
    starts = [0, 100, 200, 50, 150, 250, 60, 160, 260]
    count = len(rows)
    small = np.zeros(count, np.int32)
    start = np.array(starts)
    activities = Activities(
        *(small, small, np.array([row[0] for row in rows], np.int32)),
        *(np.array([row[1] for row in rows]), np.array(numbers), start, start + 10),
        *(small, small, start, start, small.astype(np.bool_)),
    )
    keys = [
        *(str(StatKey.STREAM), str(StatKey.CORRELATION)),
        *(str(StatKey.WAIT_ON_STREAM), str(StatKey.WAIT_ON_RECORD)),
    ]
    stats = [
        {"event": 10 * each["on"] + at, "key": keys.index(key), "kind": INT}
        | {"value": value, "length": 0}
        for at, each in enumerate(events)
        for key, value in zip(keys, each["values"], strict=True)
        if value is not None
    ]
    schema = {"event": pl.Int32, "key": pl.Int32, "kind": pl.UInt8}
    table = pl.DataFrame(
        sorted(stats, key=lambda row: row["event"]),
        schema=schema | {"value": pl.Int64, "length": pl.Int32},
    )
    tracks = pl.DataFrame(
        {
            "event_begin": [10 * at for at in range(len(devices))],
            "device": pl.Series(devices, dtype=pl.Int32),
        }
    )
    pace: Any = SimpleNamespace(late_ps=20)
    found = event_edges(activities, table, keys, tracks, first=0, pace=pace)
    gaps = start[found.target] - (start + 10)[found.source]
    assert found.lag_ps.tolist() == np.minimum(gaps, 20).tolist()
    return list(zip(found.source.tolist(), found.target.tolist(), strict=True))


def test_a_stream_waits_for_what_was_launched_before_the_event() -> None:
    cases: list[Any] = [
        # Stream 8 waits, by call 4, for what stream 7 was given before call 3.
        (1, (8, 4, 7, 3), [(0, 4)]),
        (1, (8, 4, 7, 1), []),  # nothing was launched before call 1
        (1, (8, 6, 7, 3), []),  # nothing after call 6
        (1, (7, 4, 8, 3), [(3, 1)]),
        (1, (8, 1, 7, 9), []),  # begins at 50, and the other's at 100
        (1, (9, 4, 7, 3), []),
        (2, (7, 4, 7, 4), [(6, 7)]),  # of device 1
        (2, (7, 4, 8, 4), []),
        (0, (8, 4, 7, 3), [(0, 4)]),  # on the host: any device
        (1, (8, None, 7, 3), []),
        (1, (8, 4, 7, None), []),
    ]
    for on, values, pairs in cases:
        event: Any = {"on": on, "values": values}
        assert waited([event]) == pairs


def test_waits_of_several_streams_are_found_together() -> None:
    events: Any = [
        {"on": 1, "values": (8, 4, 7, 3)},
        {"on": 1, "values": (7, 4, 8, 3)},
        {"on": 2, "values": (7, 4, 7, 4)},
    ]
    assert waited(events) == [(0, 4), (3, 1), (6, 7)]
    assert waited([]) == []
