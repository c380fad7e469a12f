"""Launches, queues and copies of literal devices: every field, worked out by hand."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.traces.literal import (
    ABSENT,
    OTHER,
    Tables,
    activities,
    events_at,
    fields_of,
    spans_of,
    types_named,
    windows_at,
)

from stepscope.derive.device.correlation import LaunchFacts
from stepscope.derive.facts.devices.contention import (
    busy_threads,
    contention_signals,
)
from stepscope.derive.facts.devices.launching import (
    LaunchSignals,
    launch_signals,
    launches_one_program,
    queue_signals,
)
from stepscope.derive.facts.devices.moved_data import MovedData, host_moves, moved_data
from stepscope.derive.names.event_kinds import EventFlag
from stepscope.derive.step_time.host_time import HostCode
from stepscope.derive.verdicts.recorded_devices import NO_KERNELS
from stepscope.unavailable import Unavailable

US = 1_000_000
MS = 1_000_000_000
KIB = 1024


# --- launches ---


def facts(**fields: Any) -> LaunchFacts:
    return LaunchFacts(
        **{
            "latency_ps": 5,
            "latency_samples": 9,
            "median_call_ps": 4,
            "median_kernel_ps": 7,
            "kernels": 30,
            "graph_percent": 12.5,
            "clock_error_ps": 0,
            "lost": 0,
            "lost_ps": 0,
            **fields,
        }
    )


def test_the_host_with_most_kernels_says_what_launches_cost() -> None:
    hosts = {
        "a": facts(kernels=10, latency_ps=99),
        "b": facts(kernels=50),
        "c": facts(kernels=60, median_kernel_ps=None),
        "d": ABSENT,
    }
    placed = {
        "a": windows_at((0, 1), (1, 2)),
        "b": windows_at((0, 1), (1, 2), (2, 3)),
        "c": windows_at((0, 9), has_steps=False),
        "d": windows_at((0, 1)),
    }
    one_program = {"a": False, "b": True, "d": ABSENT}
    found = launch_signals.function(
        launch_facts=hosts, windows=placed, launches_one_program=one_program
    )
    assert fields_of(found) == fields_of(
        LaunchSignals(
            latency_ps=5,
            latency_samples=9,
            median_kernel_ps=7,
            median_call_ps=4,
            kernels_per_step=120 / 5,
            graph_percent=12.5,
            one_program=True,
        )
    )
    short = launch_signals.function(
        launch_facts={"b": facts(median_kernel_ps=0)},
        windows={},
        launches_one_program={},
    )
    assert (short.median_kernel_ps, short.one_program) == (0, None)
    without = launch_signals.function(
        launch_facts={"b": facts(graph_percent=None, median_call_ps=None)},
        windows={"b": ABSENT},
        launches_one_program={"b": OTHER},
    )
    assert (without.kernels_per_step, without.graph_percent) == (None, 0.0)
    assert (without.median_call_ps, without.one_program) == (None, None)


@pytest.mark.parametrize(
    ("hosts", "why"),
    [
        ({"a": OTHER, "b": ABSENT}, OTHER),
        ({"a": facts(median_kernel_ps=None)}, NO_KERNELS),
        ({"a": facts(median_kernel_ps=None), "b": ABSENT}, ABSENT),
        ({}, NO_KERNELS),
    ],
)
def test_without_kernels_launches_cost_nothing_known(
    hosts: Any, why: Unavailable
) -> None:
    found = launch_signals.function(
        launch_facts=hosts, windows={}, launches_one_program={}
    )
    assert found == why


def tied(
    activity: pl.DataFrame, launches: pl.DataFrame, launch_of: list[int], **more: Any
) -> Any:
    of = np.array(launch_of, np.int32)
    count = np.bincount(of[of >= 0], minlength=len(launches))
    return SimpleNamespace(
        activity=activity,
        launches=launches,
        launch_of_activity=of,
        activity_count_of_launch=count.astype(np.int32),
        **more,
    )


def test_steps_that_launch_all_in_one_call_are_one_program() -> None:
    cases: list[tuple[list[tuple[int, int]], list[int], bool | None]] = [
        # Of five launches of kernels four are in one of two program calls: 80 %.
        ([(0, 50), (100, 50)], [0, 1, 2, 3, 4], True),
        ([(0, 25), (100, 50)], [0, 1, 2, 3, 4], False),
        # Three program calls launch in two steps.
        ([(0, 15), (16, 19), (100, 50)], [0, 1, 2, 3, 4], False),
        # The third call launches nothing.
        ([(0, 50), (100, 50), (160, 5)], [0, 1, 2, 3, 4], True),
        # Without a launch of a kernel nobody knows.
        ([(0, 50)], [-1, -1, -1, -1, -1], None),
        # Without programs: one launch in each of two steps is a graph.
        ([], [0, 0, 0, 2, 2], True),
        ([], [0, 1, 2, 2, 2], False),
        ([], [-1, -1, -1, -1, -1], False),
    ]
    for calls, launch_of, one in cases:
        activity = activities(
            ("kernel", 0, 10, 1),
            ("kernel", 0, 20, 1),
            ("collective", 0, 30, 1),
            ("kernel", 0, 110, 1),
            ("kernel", 0, 170, 1),
            ("d2h", 0, 171, 1),
        )
        launches = events_at(*((0, 0, at, 2) for at in (10, 20, 30, 110, 170, 180)))
        kinds = SimpleNamespace(
            has=lambda flag: np.array(
                [0, flag & EventFlag.PJIT, flag & EventFlag.EXECUTABLE], np.bool_
            )
        )
        given = {
            "correlation": tied(activity, launches, [*launch_of, 5]),
            "event_kinds": kinds,
            "events": events_at(
                (0, 0, 0, 500),
                *((1 + index % 2, 0, *call) for index, call in enumerate(calls)),
            ),
        }
        steps = windows_at((0, 100), (100, 200))
        assert launches_one_program(windows=steps, **given) is one
        no_steps = windows_at((0, 200), has_steps=False)
        assert launches_one_program(windows=no_steps, **given) is None


def test_a_queue_is_averaged_over_tenths_of_steps() -> None:
    """Two steps of 100 ps. Device 0 waits with one activity from 10 to 40, with a

    second from 20 to 60 in the first step, and with one from 150 to 170 in the second.
    """
    activity = activities(
        ("kernel", 0, 40, 5),
        ("kernel", 0, 60, 5),
        ("kernel", 1, 70, 5),
        ("kernel", 0, 170, 5),
        ("kernel", 0, 90, 5),
        ("kernel", 0, 250, 5),
    )
    slow = 51 * US
    launches = pl.DataFrame(
        {
            "start_ps": [10, 20, 30, 150, 240],
            "dur_ps": [slow, 50 * US, 1, slow, slow],
        }
    )
    late = 101 * US
    found = queue_signals.function(
        correlation=tied(
            activity,
            launches,
            [0, 1, 2, 3, -1, 4],
            latency_ps=np.array([late, 100 * US, late, 0, late, late]),
        ),
        windows=windows_at((0, 100), (100, 200)),
    )
    first = np.array([0, 1, 2, 2, 1, 1, 0, 0, 0, 0])
    second = np.array([0, 0, 0, 0, 0, 1, 1, 0, 0, 0])
    assert list(found) == [0, 1]
    assert found[0].lengths == pytest.approx(tuple((first + second) / 2))
    # At 40 the second one waits too; an activity that begins has just waited.
    assert (found[0].longest, found[0].slow_calls) == (2, 1.0)
    assert found[0].late_starts == 0.5
    assert found[1].lengths == pytest.approx((0, 0, 0, 0.5, 0.5, 0.5, 0.5, 0, 0, 0))
    assert (found[1].longest, found[1].slow_calls) == (1, 0.0)
    assert found[1].late_starts == 0.5


def test_a_step_may_be_shorter_than_ten_picoseconds() -> None:
    """Of the tenths of 4 ps the third, fifth, eighth and last last 1 ps."""
    found = queue_signals.function(
        correlation=tied(
            activities(("kernel", 0, 4, 5)),
            pl.DataFrame({"start_ps": [0], "dur_ps": [1]}),
            [0],
            latency_ps=np.array([4]),
        ),
        windows=windows_at((0, 4)),
    )
    assert found[0].lengths == (0, 0, 1, 0, 1, 0, 0, 1, 0, 1)
    assert found[0].longest == 0


# --- contention ---


def host_threads(by_thread: dict[int, dict[HostCode, Any]], driving: list[int]) -> Any:
    return SimpleNamespace(
        by_thread=by_thread, threads=SimpleNamespace(driving_tracks=lambda: driving)
    )


def test_busy_threads_of_the_pipeline_are_counted_over_time() -> None:
    busy = busy_threads(
        host_threads(
            {
                1: {HostCode.PIPELINE: spans_of((0, 10), (20, 30))},
                2: {
                    HostCode.ITERATOR: spans_of((5, 25)),
                    HostCode.HOST_COMPUTE: spans_of((0, 99)),
                },
                3: {HostCode.PIPELINE: spans_of((0, 99))},
            },
            driving=[3],
        )
    )
    assert busy is not None
    assert busy.start_ps.tolist() == [0, 5, 10, 20, 25, 30]
    assert busy.lasting_ps.tolist() == [5, 5, 10, 5, 5, 0]
    assert busy.count.tolist() == [1, 2, 1, 2, 1, 0]
    assert busy.spans_with_at_least(2) == spans_of((5, 10), (20, 25))
    assert busy.spans_with_at_least(1.0) == spans_of((0, 30))
    assert busy_threads(host_threads({3: {}}, driving=[])) is None


PAUSES = st.lists(st.integers(1, 6), min_size=1, max_size=8)


def launches_with(busy: list[int], quiet: list[int]) -> tuple[pl.DataFrame, int]:
    """Launches from 0 on with the busy pauses, and of another thread with the quiet."""
    begins = [0, *itertools.accumulate(busy)]
    last = begins[-1] + 1
    later = [last, *(last + begun for begun in itertools.accumulate(quiet))]
    rows = [(0, 0, at, 0) for at in begins] + [(0, 1, at, 0) for at in later]
    return events_at(*reversed(rows)), last


def contended(launches: pl.DataFrame, until: int, **given: Any) -> Any:
    """A machine of two cores, of whose input threads one is busy until a time."""
    classes = host_threads(
        {
            1: {HostCode.PIPELINE: spans_of((0, until))},
            2: {HostCode.ITERATOR: spans_of((0, 10**12))},
        },
        driving=[],
    )
    devices = (
        SimpleNamespace(device=0, idle={"launch": spans_of((2, 8), (15, 18))}),
        SimpleNamespace(device=None, idle={}),
    )
    types = types_named("core 0 CPU (percent)", "core 1 CPU (percent)", "core x")
    return contention_signals.function(
        **{
            "trace": Tables(event_types=types),
            "account": SimpleNamespace(devices=devices),
            "host_classes": classes,
            "launches": launches,
            "windows": windows_at((0, 10), (10, 10**9)),
            **given,
        }
    )


@settings(max_examples=20, deadline=None)
@given(PAUSES, PAUSES)
def test_pauses_in_busy_time_are_compared_with_others(
    busy: list[int], quiet: list[int]
) -> None:
    launches, last = launches_with(busy, quiet)
    found = contended(launches, last)[0]
    assert (found.busy_launches, found.quiet_launches) == (len(busy), len(quiet))
    assert found.busy_pace_ps == pytest.approx(np.percentile(busy, 90))
    assert found.quiet_pace_ps == pytest.approx(np.percentile(quiet, 90))
    assert found.pace == pytest.approx(found.busy_pace_ps / found.quiet_pace_ps)
    # Mann and Whitney: how often a busy pause is longer, equal counts half.
    pairs = list(itertools.product(busy, quiet))
    wins = sum((a > b) + (a == b) / 2 for a, b in pairs)
    every, total = [*busy, *quiet], len(busy) + len(quiet)
    ties = sum(every.count(value) ** 3 - every.count(value) for value in set(every))
    variance = len(pairs) / 12 * (total + 1 - ties / (total * (total - 1)))
    if len(set(every)) == 1:
        chance = 1.0
    else:
        chance = math.erfc((wins - len(pairs) / 2) / math.sqrt(2 * variance)) / 2
    assert found.chance == pytest.approx(chance)


def test_every_field_of_contention() -> None:
    launches = events_at(
        *((0, 0, at, 0) for at in (0, 4, 10, 20, 20 + MS, 21 + 2 * MS)),
        (0, 1, 3, 0),
    )
    found = contended(launches, 17, windows=windows_at((0, 10), (10, 20 + 3 * MS)))
    # Pauses of 4 and 6 end while two of two cores are busy; 10 and 1 ms do not, and
    # what is longer than 1 ms is no pause.
    assert fields_of(found) == {
        0: {
            "cores": 2,
            "contended_ps": (6, 2),
            "busy_launches": 2,
            "quiet_launches": 2,
            "busy_pace_ps": pytest.approx(5.8),
            "quiet_pace_ps": pytest.approx(10 + 0.9 * (MS - 10)),
            "chance": pytest.approx(math.erfc(-2 / math.sqrt(2 * 4 / 12 * 5)) / 2),
        }
    }
    # Launches outside the judged steps count nowhere.
    nowhere = contended(launches, 17, windows=windows_at((0, 1)))[0]
    assert (nowhere.busy_launches, nowhere.quiet_launches) == (0, 0)
    assert (nowhere.busy_pace_ps, nowhere.quiet_pace_ps) == (None, None)
    assert (nowhere.chance, nowhere.pace) == (None, None)
    # Only the pause of 4 ends in a step that begins later.
    later = contended(launches, 17, windows=windows_at((4, 5)))[0]
    assert (later.busy_launches, later.busy_pace_ps, later.contended_ps) == (1, 4, (1,))
    only_busy = contended(launches, 17, windows=windows_at((0, 11)))[0]
    assert (only_busy.busy_launches, only_busy.quiet_launches) == (2, 0)
    assert (only_busy.chance, only_busy.pace) == (None, None)


def test_contention_needs_cores_and_threads() -> None:
    launches, last = launches_with([1], [1])
    no_cores = contended(launches, last, trace=Tables(event_types=types_named("x")))
    assert isinstance(no_cores, Unavailable)
    assert no_cores.code == "NOT_RECORDED"
    no_threads = contended(launches, last, host_classes=host_threads({}, []))
    assert isinstance(no_threads, Unavailable)
    assert no_threads.code == "NO_TFDATA_EVENTS"


# --- copies to several devices ---

LARGE, SMALL = 64 * KIB, 64 * KIB - 1


def moves(activity: pl.DataFrame, alone: list[int], **given: Any) -> Any:
    """Of three devices that are idle all the time, in two steps of 100 ps."""
    devices = (
        *(
            SimpleNamespace(
                device=number, idle={"a": spans_of((0, 150)), "b": spans_of((140, 200))}
            )
            for number in (2, 0, 1)
        ),
        SimpleNamespace(device=None, idle={}),
    )
    return host_moves(
        **{
            "trace": Tables("h"),
            "device_activity": activity,
            "account": SimpleNamespace(devices=devices),
            "exposure": SimpleNamespace(alone_ps=np.array(alone, np.int64)),
            "steps": SimpleNamespace(source="marker", confidence=0.9),
            "windows": windows_at((0, 100), (100, 200)),
            **given,
        }
    )


def test_devices_that_are_fed_in_turn_wait_for_each_other() -> None:
    """Device 2 is fed last in the first step and device 1 in the second.

    Device 2 waits from 10, where the feeding begins, to 40, of which 5 nobody is fed.
    """
    activity = activities(
        ("h2d", 0, 10, 10),
        ("h2d", 1, 25, 15),
        ("h2d", 2, 40, 10),
        ("h2d", 2, 0, 9),
        ("h2d", 2, 100, 10),
        ("h2d", 1, 110, 10),
        ("p2p_copy", 0, 60, 20),
        ("p2p_copy", 1, 60, 10),
        ("p2p_copy", 1, 120, 30),
        ("d2h", 1, 80, 10),
        ("d2h", 1, 180, 10),
        ("d2h", 0, 90, 10),
        ("kernel", 0, 95, 1),
        ("h2d", 0, 250, 10),
        bytes=[
            *(LARGE, None, LARGE, SMALL, LARGE, LARGE),
            *(LARGE, 7, 8, LARGE, None, SMALL, None, LARGE),
        ],
    )
    alone = [1, 1, 1, 1, 1, 1, 12, 4, 9, 6, 5, 3, 2, 2]
    expected = MovedData(
        host="h",
        devices=("h:2", "h:0", "h:1"),
        step_source="marker",
        step_confidence=0.9,
        window_ps=(100, 100),
        in_turn_ps=(25, 10),
        between_ps=(4, 9),
        gathered_ps=(6, 5),
        gathering="h:1",
        bytes={
            ("host", "h:0"): LARGE / 2,
            ("h:0", "host"): SMALL / 2,
            ("h:0", "other devices"): LARGE / 2,
            ("host", "h:1"): LARGE / 2,
            ("h:1", "host"): LARGE / 2,
            ("h:1", "other devices"): 15 / 2,
            ("host", "h:2"): (2 * LARGE + SMALL) / 2,
        },
    )
    assert fields_of(moves(activity, alone)) == fields_of(expected)


def test_devices_that_are_fed_in_parallel_do_not_wait() -> None:
    """Together 15 of 20 ps are less than 80 %; 16 are not."""
    parallel = activities(("h2d", 0, 10, 10), ("h2d", 1, 15, 10), bytes=[LARGE, LARGE])
    found = moves(parallel, [0, 0])
    assert found.in_turn_ps == (0, 0)
    assert found.devices == ("h:0", "h:1", "h:2")
    in_turn = activities(("h2d", 0, 10, 10), ("h2d", 1, 16, 10), bytes=[LARGE, LARGE])
    found = moves(in_turn, [0, 0])
    # Device 1 waits from 10 to 16.
    assert found.in_turn_ps == (6, 0)
    assert found.devices == ("h:1", "h:0", "h:2")


def test_a_device_waits_until_its_first_input() -> None:
    """Device 1 is fed from 25 on, and again at 60; device 0 at 10 and at 45."""
    activity = activities(
        *(("h2d", 0, 10, 10), ("h2d", 1, 25, 10)),
        *(("h2d", 0, 45, 10), ("h2d", 1, 60, 10)),
        bytes=[LARGE] * 4,
    )
    found = moves(activity, [0] * 4)
    assert (found.in_turn_ps, found.devices) == ((10, 0), ("h:1", "h:0", "h:2"))


def test_a_step_in_which_one_device_is_fed_says_nothing_of_turns() -> None:
    activity = activities(
        *(("h2d", 0, 10, 10), ("h2d", 0, 110, 10), ("h2d", 1, 125, 10)),
        bytes=[LARGE] * 3,
    )
    found = moves(activity, [0] * 3)
    assert (found.in_turn_ps, found.devices) == ((0, 10), ("h:1", "h:0", "h:2"))


def test_results_of_two_devices_are_not_gathered() -> None:
    activity = activities(
        ("d2h", 0, 10, 10),
        ("d2h", 2, 15, 10),
        ("d2h", 1, 15, 10),
        bytes=[LARGE] * 2 + [1],
    )
    found = moves(activity, [5, 5, 5], steps=ABSENT)
    assert (found.gathered_ps, found.gathering) == ((0, 0), None)
    assert (found.step_source, found.step_confidence) == (None, 0.0)
    assert found.between_ps == (0, 0)


def test_one_device_moves_nothing_between_devices() -> None:
    one = SimpleNamespace(
        devices=(
            SimpleNamespace(device=0, idle={}),
            SimpleNamespace(device=None, idle={}),
        )
    )
    assert moves(activities(), [], account=one) is None


def test_of_several_hosts_the_one_with_most_delay_is_judged() -> None:
    def moved(host: str, window: int, **times: tuple[int, ...]) -> MovedData:
        usual = {"in_turn_ps": (0,), "between_ps": (0,), "gathered_ps": (0,)}
        return MovedData(
            **{
                "host": host,
                "devices": (),
                "step_source": None,
                "step_confidence": 0.0,
                "window_ps": (window,),
                "gathering": None,
                "bytes": {},
                **usual,
                **times,
            }
        )

    hosts = {
        "none": None,
        "unknown": ABSENT,
        "a": moved("a", 10, in_turn_ps=(2,), between_ps=(1,), gathered_ps=(1,)),
        "b": moved("b", 20, in_turn_ps=(7,)),
        "c": moved("c", 0),
    }
    found = moved_data.function(host_moves=hosts)
    assert found.host == "a"
    assert moved_data.function(host_moves={"a": None, "b": OTHER}) == OTHER
    assert moved_data.function(host_moves={"a": None}) is None
