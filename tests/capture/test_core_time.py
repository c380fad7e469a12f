"""When threads wanted a core: readings of clocks become ranges, worked out by hand."""

from __future__ import annotations

import hashlib
import os
import sys
import threading
import time
from pathlib import Path

import pytest

from stepscope.capture.collectors import core_time
from stepscope.capture.collectors.core_time import (
    CoreClocks,
    CoreTime,
    CoreTimes,
    Reading,
)
from stepscope.xspace.samples_line import OTHER_THREADS

MS = 1_000_000
ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="clocks of Linux")


def seen(*readings: tuple[int, int] | tuple[int, int, bool]) -> CoreTimes:
    """What comes of readings: at which ms, how many ms of a core were wanted so far."""
    found = CoreTime()
    for at, wanted, *in_system in readings:
        found.add_reading(Reading(1, at * MS, wanted * MS, in_system=any(in_system)))
    (one,) = found.take_times()
    return one


def awake_ms(one: CoreTimes) -> list[tuple[int, int]]:
    return [(begin // MS, end // MS) for begin, end in one.awake_ns]


def test_time_without_a_core_is_part_of_the_awake_time() -> None:
    """Of 6 ms it had no core for 2, then for 3 of 10; the rest it ran or slept."""
    found = CoreTime()
    for at, wanted, ready in [(0, 0, 0), (10, 6, 2), (20, 16, 5), (30, 18, 5)]:
        found.add_reading(Reading(1, at * MS, wanted * MS, ready * MS))
    (one,) = found.take_times()
    assert awake_ms(one) == [(4, 22)]
    assert [(begin // MS, end // MS) for begin, end in one.ready_ns] == [
        (4, 6),
        (10, 13),
    ]


def test_a_thread_that_sleeps_is_seen_and_nowhere_awake() -> None:
    one = seen((0, 7), (10, 7), (20, 7))
    assert (one.begin_ns, one.end_ns) == (0, 20 * MS)
    assert (one.awake_ns, one.system_ns) == ((), ())
    assert one.read_ns == (0, 10 * MS, 20 * MS)


def test_work_over_several_readings_is_one_range() -> None:
    """It begins 4 ms before the second reading and goes on for 3 ms after the third."""
    one = seen((0, 0), (10, 4), (20, 14), (30, 17), (40, 17))
    assert awake_ms(one) == [(6, 23)]


def test_work_that_ended_begins_anew() -> None:
    one = seen((0, 0), (10, 2), (20, 4), (30, 4), (40, 7))
    assert awake_ms(one) == [(8, 12), (37, 40)]


def test_a_long_wait_for_a_core_is_no_sleep() -> None:
    """The system counts it when it ends: 28 ms at once, of which 18 lie before."""
    one = seen((0, 0), (10, 0), (20, 0), (30, 28), (40, 28))
    assert awake_ms(one) == [(2, 30)]


def test_nothing_is_told_of_the_time_before_the_first_reading() -> None:
    assert awake_ms(seen((0, 0), (10, 30))) == [(0, 10)]


def test_waits_for_the_system_follow_what_was_awake() -> None:
    """Up to 30 it worked for most of the time, and waits only since a moment."""
    one = seen((0, 0), (10, 3, True), (20, 3, True), (30, 9, True), (40, 16))
    assert [(begin // MS, end // MS) for begin, end in one.system_ns] == [(3, 20)]
    assert awake_ms(one) == [(0, 3), (24, 37)]


def test_what_was_taken_is_not_told_again() -> None:
    found = CoreTime()
    for at, wanted in ((0, 0), (10, 10)):
        found.add_reading(Reading(1, at * MS, wanted * MS))
    assert awake_ms(found.take_times()[0]) == [(0, 10)]
    assert found.take_times() == []
    for at, wanted in ((30, 13), (40, 16)):
        found.add_reading(Reading(1, at * MS, wanted * MS))
    (one,) = found.take_times()
    assert (one.begin_ns, one.end_ns) == (30 * MS, 40 * MS)
    assert awake_ms(one) == [(37, 40)]
    assert one.read_ns == (30 * MS, 40 * MS)


def read_after(clocks: CoreClocks) -> dict[int, int]:
    return {one.thread: one.wanted_ns for one in clocks.read(time.monotonic_ns())}


@ON_LINUX
def test_a_clock_counts_what_its_thread_computes() -> None:
    clocks, mine = CoreClocks(), threading.get_native_id()
    clocks.watch_threads([mine])
    before, ran = read_after(clocks), time.thread_time_ns()
    while time.thread_time_ns() < ran + 10 * MS:
        pass
    after, ran = read_after(clocks), time.thread_time_ns() - ran
    assert after[mine] - before[mine] >= ran - MS
    clocks.close_files()
    assert clocks.read(time.monotonic_ns()) == []


@ON_LINUX
def test_a_thread_that_is_gone_has_no_reading() -> None:
    go = threading.Event()
    thread = threading.Thread(target=go.wait)
    thread.start()
    assert thread.native_id is not None
    clocks = CoreClocks()
    clocks.watch_threads([os.getpid(), thread.native_id])
    assert set(read_after(clocks)) == {os.getpid(), thread.native_id, OTHER_THREADS}
    go.set()
    thread.join()
    # The system takes a moment to let go of it.
    end = time.monotonic() + 60
    while thread.native_id in read_after(clocks):
        assert time.monotonic() < end
    clocks.close_files()


@ON_LINUX
def test_threads_of_pools_that_share_a_core_are_ready_half_of_the_time() -> None:
    core, over = min(os.sched_getaffinity(0)), threading.Event()

    def compute() -> None:
        os.sched_setaffinity(0, {core})
        while not over.is_set():
            # It computes without the interpreter's lock.
            hashlib.pbkdf2_hmac("sha256", b"", b"", 1000)

    pool = [threading.Thread(target=compute) for _ in range(2)]
    for thread in pool:
        thread.start()
    clocks, times = CoreClocks(), CoreTime()
    clocks.watch_threads([os.getpid()])
    end_ns = time.monotonic_ns() + 500 * MS
    while (now_ns := time.monotonic_ns()) < end_ns:
        for reading in clocks.read(now_ns):
            times.add_reading(reading)
        time.sleep(0.01)
    over.set()
    for thread in pool:
        thread.join()
    clocks.close_files()
    (others,) = (one for one in times.take_times() if one.thread == OTHER_THREADS)
    ready_ns = sum(end - begin for begin, end in others.ready_ns)
    assert 100 * MS <= ready_ns <= 500 * MS


@ON_LINUX
def test_threads_are_listed_without_a_descriptor_that_the_program_could_get() -> None:
    over = threading.Event()
    threads = [threading.Thread(target=over.wait) for _ in range(5)]
    for thread in threads:
        thread.start()
    listed = core_time._listed_threads()
    assert listed == {int(task.name) for task in Path("/proc/self/task").iterdir()}
    assert listed >= {thread.native_id for thread in threads}
    over.set()
    for thread in threads:
        thread.join()


@ON_LINUX
def test_a_file_of_the_program_is_not_taken_for_ours() -> None:
    assert core_time._open_own_file(f"/proc/self/task/{os.getpid()}/schedstat")
    assert core_time._open_own_file(__file__) is None


@ON_LINUX
def test_texts_of_the_system_are_read_only_where_they_can_be_news(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A thread that computes, and one that did nothing since, have not waited."""
    read = []
    delay = CoreClocks._read_delay

    def counted(self: CoreClocks, file: int, at_ns: int, ran_ns: int) -> object:
        read.append(at_ns)
        return delay(self, file, at_ns, ran_ns)

    monkeypatch.setattr(CoreClocks, "_read_delay", counted)
    ran_ns = iter((5 * MS, 5 * MS, 15 * MS, 25 * MS, 28 * MS))
    clocks, mine = CoreClocks(), threading.get_native_id()
    clock = ~mine << 3 | 6
    monkeypatch.setattr(
        time, "clock_gettime_ns", lambda asked: next(ran_ns) if asked == clock else 0
    )
    clocks.watch_threads([mine])
    for at_ms in (0, 10, 20, 30, 40):
        clocks.read(at_ms * MS)
    # Until 10 it had not run at all; of the time until 20 since it was last read half
    # is left, until 30 nothing, until 40 again 7 ms.
    assert read == [0, 20 * MS, 40 * MS]
    clocks.close_files()
