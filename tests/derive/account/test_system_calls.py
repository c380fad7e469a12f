"""Idle time in which the launching thread asks the operating system, or has no core."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.traces.nsight import (
    KERNEL,
    MEMCPY,
    NVTX,
    RUNTIME,
    call,
    copy,
    global_id,
    kernel,
    read_file,
    span,
    write,
)

from stepscope.derive.account.parts import AccountParts, account_parts
from stepscope.derive.account.time_by_cause import Account, account
from stepscope.derive.account.topics import IdleTopics, idle_topics
from stepscope.derive.profile_data import ProfileData
from stepscope.derive.step_time.owners import IDLE_OWNERS

if TYPE_CHECKING:
    from pathlib import Path

US = 1_000_000
#: Global ids: another thread of the program, and a thread of another program.
LOADER = global_id(thread=2)
FOREIGN = global_id(process=9, thread=9)


def asked(name: str, start: int, end: int, **more: Any) -> dict[str, Any]:
    """A call of the operating system by the thread that launches, in µs."""
    row = {
        "start": start * 1000,
        "end": end * 1000,
        "nameId": name,
        "globalTid": global_id(thread=1),
    }
    return {**row, **more}


def turn(cpu: int, thread: int, at: int, *, on: bool) -> dict[str, Any]:
    """A thread gets a core or loses it, in µs."""
    return {"start": at * 1000, "cpu": cpu, "isSchedIn": int(on), "globalTid": thread}


def loop(folder: Path, **more: Any) -> ProfileData:
    """Two kernels of 1 ms: the device is idle until 10 and from 1,010 to 6,040 µs.

    Their calls begin at 0 and 6,030 µs and last 10 µs, which the launches take.
    """
    rows = {
        RUNTIME: [
            call("cudaLaunchKernel_v7000", 0, 10_000, 1),
            call("cudaLaunchKernel_v7000", 6_030_000, 6_040_000, 2),
        ],
        KERNEL: [
            kernel("first", 10_000, 1_010_000, 1),
            kernel("second", 6_040_000, 7_040_000, 2),
        ],
        **more,
    }
    trace = read_file(write(folder / "a.sqlite", rows))
    return ProfileData("a", {trace.host: trace})


def owned_us(profile: ProfileData) -> dict[str, float]:
    """The owners of idle time, in µs."""
    found = profile.derived(profile.hosts[0], account)
    assert isinstance(found, Account), found
    found.self_check()
    (row,) = found.rows.iter_rows(named=True)
    return {it: row[f"{it}_ps"] / US for it in IDLE_OWNERS if row.get(f"{it}_ps")}


def named(profile: ProfileData, owner: str) -> list[str | None]:
    found = profile.derived(profile.hosts[0], account_parts)
    assert isinstance(found, AccountParts), found
    return found.rows.filter(owner=owner)["name"].to_list()


#: The launches, and the time from the end of a call of the system to the second one;
#: what precedes the call has no reason.
AROUND = {"launch": 10 + 10 + 10, "unexplained": 10}


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        ("sem_wait", "sync"),
        ("pthread_cond_timedwait", "sync"),
        ("poll", "sync"),
        ("clock_nanosleep", "sync"),
        ("read", "input"),
        ("pread64", "input"),
        ("ioctl", "host_compute"),
        ("mmap64", "host_compute"),
        ("write", "host_compute"),
    ],
)
def test_a_call_of_the_system_owns_what_the_device_waits(
    tmp_path: Path, name: str, owner: str
) -> None:
    profile = loop(tmp_path, OSRT_API=[asked(name, 1_020, 6_020)])
    assert owned_us(profile) == {owner: 5_000, **AROUND}
    assert named(profile, owner) == [name]


def test_a_function_that_nobody_knows_owns_nothing(tmp_path: Path) -> None:
    profile = loop(tmp_path, OSRT_API=[asked("qsort", 1_020, 6_020)])
    assert "unexplained" in owned_us(profile)
    assert not {"sync", "input", "host_compute"} & owned_us(profile).keys()


def test_a_range_of_the_program_is_no_call_of_the_system(tmp_path: Path) -> None:
    profile = loop(tmp_path, **{NVTX: [span("read", 1_020_000, 6_020_000)]})
    assert "input" not in owned_us(profile)


def test_what_a_call_of_cuda_asks_of_the_system_is_its_own(tmp_path: Path) -> None:
    calls = [
        call("cudaLaunchKernel_v7000", 0, 10_000, 1),
        call("cudaMalloc_v3020", 1_015_000, 6_025_000, None),
        call("cudaLaunchKernel_v7000", 6_030_000, 6_040_000, 2),
    ]
    inner = [asked("ioctl", 1_020, 4_000), asked("sem_wait", 4_100, 6_020)]
    profile = loop(tmp_path, **{RUNTIME: calls}, OSRT_API=inner)
    assert owned_us(profile) == {"launch": 10 + 5_010 + 5 + 10, "unexplained": 5}


def test_a_short_call_of_the_system_says_nothing_of_a_long_silence(
    tmp_path: Path,
) -> None:
    profile = loop(tmp_path, OSRT_API=[asked("sem_wait", 2_000, 2_099)])
    found = owned_us(profile)
    assert found.keys() == {"launch", "unexplained"}


def test_a_wait_is_told_with_what_another_thread_did(tmp_path: Path) -> None:
    """The loader decodes during 4,000 of the 5,000 µs of the wait."""
    ranges = [span("decode", 1_020_000, 5_020_000, globalTid=LOADER)]
    profile = loop(
        tmp_path, **{NVTX: ranges}, OSRT_API=[asked("sem_wait", 1_020, 6_020)]
    )
    assert owned_us(profile)["sync"] == 5_000
    assert named(profile, "sync") == ["sem_wait, while thread 2 is in decode"]


def test_a_wait_is_told_alone_where_others_did_something_else(tmp_path: Path) -> None:
    """Of the wait another thread is in a range for 2,400 µs, and waits itself."""
    ranges = [span("decode", 1_020_000, 3_420_000, globalTid=LOADER)]
    waits = [
        asked("sem_wait", 1_020, 6_020),
        asked("pthread_cond_wait", 3_500, 6_020, globalTid=LOADER),
    ]
    profile = loop(tmp_path, **{NVTX: ranges}, OSRT_API=waits)
    assert named(profile, "sync") == ["sem_wait"]


def test_a_wait_while_another_thread_makes_a_batch_is_for_the_batch(
    tmp_path: Path,
) -> None:
    """The loader makes it during 4,000 of the 5,000 µs of the wait."""
    ranges = [span("load_batch", 1_020_000, 5_020_000, globalTid=LOADER)]
    waits = [asked("sem_wait", 1_020, 6_020)]
    profile = loop(tmp_path, **{NVTX: ranges}, OSRT_API=waits)
    assert owned_us(profile) == {"input": 4_000, "sync": 1_000, **AROUND}
    assert named(profile, "input") == ["load_batch"]


def test_a_batch_that_is_made_beside_work_is_not_waited_for(tmp_path: Path) -> None:
    ranges = [span("load_batch", 1_020_000, 5_020_000, globalTid=LOADER)]
    calls = [asked("ioctl", 1_020, 6_020)]
    profile = loop(tmp_path, **{NVTX: ranges}, OSRT_API=calls)
    assert owned_us(profile) == {"host_compute": 5_000, **AROUND}


def topics_us(profile: ProfileData) -> dict[str, float]:
    found = profile.derived(profile.hosts[0], idle_topics)
    assert isinstance(found, IdleTopics)
    (only,) = found.devices
    return {it: spans.length_ps / US for it, spans in only.spans.items() if len(spans)}


def test_a_wait_for_another_thread_reads_no_result_back(tmp_path: Path) -> None:
    waits = {"OSRT_API": [asked("pthread_cond_wait", 1_020, 6_020)]}
    assert "read_back" not in topics_us(loop(tmp_path, **waits))


def test_a_wait_until_a_batch_is_copied_may_be_for_the_batch(tmp_path: Path) -> None:
    """A batch of 1 MB is copied after the wait; nobody recorded who made it."""
    more = {
        RUNTIME: [
            call("cudaLaunchKernel_v7000", 0, 10_000, 1),
            call("cudaMemcpyAsync_v3020", 6_030_000, 6_040_000, 2),
        ],
        KERNEL: [kernel("first", 10_000, 1_010_000, 1)],
        MEMCPY: [copy(1, 6_040_000, 7_040_000, 2, bytes=1_000_000)],
        "OSRT_API": [asked("poll", 1_020, 6_020)],
    }
    profile = loop(tmp_path, **more)
    assert owned_us(profile)["sync"] == 5_000
    assert topics_us(profile)["unfed"] >= 5_000


# ------------------------------------------------------------------ without a core


def test_a_thread_without_a_core_waits_for_who_has_it(tmp_path: Path) -> None:
    mine = global_id(thread=1)
    turns = [
        turn(0, mine, 0, on=True),
        turn(0, mine, 1_020, on=False),
        turn(0, FOREIGN, 1_021, on=True),
        turn(0, FOREIGN, 6_019, on=False),
        turn(0, mine, 6_020, on=True),
    ]
    profile = loop(tmp_path, SCHED_EVENTS=turns)
    found = owned_us(profile)
    assert found["sync"] == 5_000
    assert named(profile, "sync") == ["off the core: the core runs another program"]


def test_queued_work_that_waits_for_a_load_of_kernels_is_not_blamed_on_others(
    tmp_path: Path,
) -> None:
    """The second kernel is launched, and the third one's code is loaded meanwhile."""
    calls = [
        call("cudaLaunchKernel_v7000", 0, 10_000, 1),
        call("cudaLaunchKernel_v7000", 980_000, 990_000, 2),
        call("cudaLaunchKernel_v7000", 995_000, 6_035_000, 3),
        call("cuLibraryLoadData", 1_010_000, 6_010_000, None),
    ]
    kernels = [
        kernel("first", 10_000, 1_010_000, 1),
        kernel("second", 6_010_000, 6_030_000, 2),
        kernel("third", 6_040_000, 7_040_000, 3),
    ]
    profile = loop(tmp_path, **{RUNTIME: calls, KERNEL: kernels})
    found = owned_us(profile)
    assert found["compile"] == 5_000
    assert "queued" not in found
    assert named(profile, "compile") == ["cuLibraryLoadData"]


@pytest.mark.parametrize("range_name", ["forward", "aten::addmm", "train_step"])
def test_a_range_of_a_thread_without_a_core_is_no_work(
    tmp_path: Path, range_name: str
) -> None:
    """The thread is in its range from 500 µs on, and has no core for 5,000 µs."""
    mine = global_id(thread=1)
    turns = [turn(0, mine, at, on=on) for at, on in ((0, 1), (1_020, 0), (6_020, 1))]
    ranges = [span(range_name, 500_000, 6_035_000)]
    profile = loop(tmp_path, **{NVTX: ranges}, SCHED_EVENTS=turns)
    assert owned_us(profile)["sync"] == 5_000
    assert named(profile, "sync") == ["off the core: no recorded thread took the core"]


@pytest.mark.parametrize("call_name", [None, "usleep"])
def test_threads_that_take_turns_wait_for_the_lock_of_their_interpreter(
    tmp_path: Path, call_name: str | None
) -> None:
    """A waiting thread wakes every 5 ms and asks for the lock: three slices."""
    turns = []
    for thread, start in ((global_id(thread=1), 1_010), (LOADER, 16_010)):
        turns.append(turn(0, thread, 0, on=True))
        for at in range(start, start + 15_000, 5_000):
            turns.append(turn(0, thread, at, on=False))
            turns.append(turn(1, thread, at + 4_990, on=True))
    calls = [
        call("cudaLaunchKernel_v7000", 0, 10_000, 1),
        call("cudaLaunchKernel_v7000", 16_020_000, 16_030_000, 2),
        call("cudaStreamSynchronize_v3020", 0, 10_000, None, globalTid=LOADER),
    ]
    kernels = [
        kernel("first", 10_000, 1_010_000, 1),
        kernel("second", 16_030_000, 17_030_000, 2),
    ]
    ranges = [span("forward", 0, 16_020_000)]
    more = {RUNTIME: calls, KERNEL: kernels, NVTX: ranges, "SCHED_EVENTS": turns}
    if call_name is not None:
        slices = range(1_010, 16_010, 5_000)
        more["OSRT_API"] = [asked(call_name, at - 1, at + 4_991) for at in slices]
    names = named(loop(tmp_path, **more), "sync")
    told = "off the core: waits for the lock of Python's interpreter" in names
    assert told is (call_name is None)


def test_a_call_of_cuda_that_sleeps_keeps_its_time(tmp_path: Path) -> None:
    mine = global_id(thread=1)
    calls = [
        call("cudaLaunchKernel_v7000", 0, 10_000, 1),
        call("cudaMalloc_v3020", 1_015_000, 6_025_000, None),
        call("cudaLaunchKernel_v7000", 6_030_000, 6_040_000, 2),
    ]
    turns = [
        turn(0, mine, 0, on=True),
        turn(0, mine, 1_020, on=False),
        turn(0, mine, 6_020, on=True),
    ]
    profile = loop(tmp_path, **{RUNTIME: calls}, SCHED_EVENTS=turns)
    assert "sync" not in owned_us(profile)


def test_where_the_system_says_what_for_the_call_owns_the_wait(tmp_path: Path) -> None:
    mine = global_id(thread=1)
    turns = [
        turn(0, mine, 0, on=True),
        turn(0, mine, 1_030, on=False),
        turn(0, mine, 6_010, on=True),
    ]
    profile = loop(tmp_path, SCHED_EVENTS=turns, OSRT_API=[asked("read", 1_020, 6_020)])
    found = owned_us(profile)
    assert found["input"] == 5_000
    assert "sync" not in found


@pytest.mark.parametrize(
    ("until_us", "told"),
    [
        (5_520, "pthread_join, while thread 2 is in decode (go)"),
        # Of the wait less than half.
        (3_020, "pthread_join"),
    ],
)
def test_a_wait_for_a_thread_that_only_samples_show_names_its_function(
    tmp_path: Path, until_us: int, told: str
) -> None:
    """The loader named a range once, before: looks each 500 µs find it on a core."""
    at = range(1_020, until_us + 1, 500)
    stack = ("inflate", "decode(char*)", "main")
    tables = {
        "COMPOSITE_EVENTS": [
            {"id": number, "start": start * 1000, "globalTid": LOADER}
            for number, start in enumerate(at, 1)
        ],
        "SAMPLING_CALLCHAINS": [
            {
                "id": number,
                "symbol": symbol,
                "module": "/usr/lib/libz.so" if symbol == "inflate" else "/home/me/go",
                "unresolved": None,
                "stackDepth": depth,
            }
            for number, _ in enumerate(at, 1)
            for depth, symbol in enumerate(stack)
        ],
    }
    waits = {"OSRT_API": [asked("pthread_join", 1_020, 6_020)]}
    named_once = {NVTX: [span("begin", 100_000, 110_000, globalTid=LOADER)]}
    profile = loop(tmp_path, **named_once, **waits, **tables)
    assert owned_us(profile)["sync"] == pytest.approx(5_000, abs=1)
    assert named(profile, "sync") == [told]
