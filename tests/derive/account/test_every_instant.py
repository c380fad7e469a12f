"""The owner of every instant, against a second implementation, instant by instant."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.traces.literal_tables import activity_of, correlation_of

from stepscope.derive.account.thread_waits import ThreadSleep
from stepscope.derive.account.time_by_cause import (
    Account,
    account,
    divided_gaps,
)
from stepscope.derive.device.correlation import (
    DeviceRows,
    LaunchLatency,
    device_timeline,
)
from stepscope.derive.device.precision import Precision, PrecisionEvidence
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.step_time.device_sets import DeviceSets, device_sets
from stepscope.derive.step_time.owners import BUSY_OWNERS, IDLE_OWNERS, OWNERS
from stepscope.derive.step_windows.windows import WINDOW_ROWS, Windows
from stepscope.unavailable import Unavailable

WHY = Unavailable(code="NOT_RECORDED", reason="no", remedy="record it")
NO_SLEEP = ThreadSleep({}, {}, {})
NO_DEVICE = Unavailable(code="NO_DEVICE_PLANE", reason="none", remedy="none")
BOUNDS = (10, 40, 70)
#: A latency of 2; a gap of at most 3 is a switch; a launch explains 4.
FACTS = LaunchLatency(2, 9, 3, 4)


def windows_of(*bounds: int) -> Windows:
    count = len(bounds) - 1
    rows = pl.DataFrame(
        {
            "step_row": range(count),
            "start_ps": bounds[:-1],
            "end_ps": bounds[1:],
            "open_end": [False] * count,
            "flags": [[]] * count,
            **{name: [None] * count for name in list(WINDOW_ROWS)[5:]},
        },
        schema=WINDOW_ROWS,
    )
    return Windows(rows, "host", has_steps=True, device_spans=pl.DataFrame())


class States:
    """What the host did: the same for all threads, but for the thread 7."""

    def __init__(self, claims: dict[str, list[tuple[int, int]]]) -> None:
        self.of_any = [
            (owner, Spans.of((a, a + b) for a, b in pairs))
            for owner, pairs in claims.items()
            if owner != "profiler"
        ]
        self.profiler = Spans.of((a, a + b) for a, b in claims.get("profiler", []))

    def loading_spans(self, within: Spans) -> Spans:
        del within
        return Spans.empty()

    def claims_of_any_thread(self, within: Spans) -> Any:
        del within
        return tuple(self.of_any)

    def claims_without_device(self, within: Spans) -> Any:
        del within
        return (("profiler", self.profiler), *self.of_any)

    def thread_claims(self, track: int, within: Spans, others: Any) -> Any:
        del within
        return (("compile", Spans.of([(20, 25)])), *others) if track == 7 else others


def classes_of(**unknown: Any) -> Any:
    known = {"unknown": None, "compile": Spans.empty(), "sync": Spans.empty()}
    return SimpleNamespace(**known | unknown)


#: (device, kind, start, duration, launch)
WORK = st.tuples(
    st.integers(0, 1),
    st.sampled_from(("kernel", "h2d", "d2h", "memset")),
    st.integers(0, 75),
    st.integers(0, 12),
    st.integers(-1, 4),
)
#: (thread, start, duration)
CALL = st.tuples(st.sampled_from((3, 7)), st.integers(0, 70), st.integers(0, 15))
PAIRS = st.lists(st.tuples(st.integers(0, 75), st.integers(1, 9)), max_size=3)
CLAIMS = st.fixed_dictionaries(
    {},
    optional={
        "profiler": PAIRS,
        "input": PAIRS,
        "host_compute": PAIRS,
        "launch": PAIRS,
        "between": PAIRS,
    },
)
BUSY = {"kernel": "compute_32", "h2d": "copy_in", "d2h": "copy_out", "memset": "memset"}


def sets_of(rows: list[Any], activity: pl.DataFrame) -> DeviceSets:
    is_kernel = np.array([row[1] == "kernel" for row in rows])
    no = np.zeros(len(rows), np.bool_)
    evidence = np.where(is_kernel, PrecisionEvidence.NAME, 0).astype(np.uint8)
    bits = np.where(is_kernel, 32, 0).astype(np.uint8)
    found = device_sets(
        device_activity=activity,
        precision=Precision(bits, no, no, evidence, np.empty((0, 4), np.uint8)),
        devices=WHY,
    )
    assert isinstance(found, DeviceSets)
    return found


def slow_owners(
    rows: list[Any], calls: list[Any], states: States, device: int, *, until: int
) -> dict[int, str]:
    """Instant → its owner, on one device of a program that starts `until` then."""
    own = sorted((row for row in rows if row[0] == device), key=lambda row: row[2])
    own = [row for row in own if row[3]]
    owners: dict[int, str] = {}
    for name in reversed(BUSY_OWNERS):
        for row in own:
            if BUSY[row[1]] == name:
                owners |= dict.fromkeys(range(row[2], row[2] + row[3]), name)
    charge_awaited_copies(own, owners)
    free = [t for t in range(BOUNDS[0], BOUNDS[-1]) if t not in owners]
    recording = {t for t in free if holds(states.profiler, t)}
    starting = {t for t in free if t < until}
    while free:
        start = end = free[0]
        while end in free:
            end += 1
        free = [t for t in free if t >= end]
        following = [row for row in own if row[2] >= end]
        owners |= slow_gap(start, end, following, calls, states)
    owners |= dict.fromkeys(starting, "startup")
    return owners | dict.fromkeys(recording, "profiler")


def charge_awaited_copies(own: list[Any], owners: dict[int, str]) -> None:
    """Give the time of two copies at once to those that end last in their stretch."""
    ran = {
        kind: {
            t for row in own if row[1] == kind for t in range(row[2], row[2] + row[3])
        }
        for kind in ("h2d", "d2h")
    }
    copying = {t for t, owner in owners.items() if owner in ("copy_in", "copy_out")}
    for begin in sorted(t for t in copying if t - 1 not in copying):
        end = begin
        while end in copying:
            end += 1
        last = {
            kind: max(
                (t for t in range(begin, end) if {t, t + 1} & at == {t}), default=-1
            )
            for kind, at in ran.items()
        }
        if last["h2d"] > last["d2h"]:
            both = [t for t in range(begin, end) if t in ran["h2d"] & ran["d2h"]]
            owners |= dict.fromkeys(both, "copy_in")


def slow_gap(
    start: int, end: int, following: list[Any], calls: list[Any], states: States
) -> dict[int, str]:
    """Instant → its owner, in one idle interval before the following activities."""
    last = following.pop(0) if following and following[0][2] == end else None
    queue = [calls[row[4]] for row in following if row[4] >= 0]
    queued_from = min((sum(call[1:]) for call in queue), default=10**6)
    call = calls[last[4]] if last is not None and last[4] >= 0 else None
    launched, arrived, on_its_way = end, end, "launch"
    in_time = call is not None and sum(call[1:]) <= start - 2
    if last is not None and call is not None and not in_time:
        launched = min(max(call[1], start), end)
        arrived = min(max(max(sum(call[1:]), start) + 4, launched), end)
        if last[1] in ("h2d", "d2h") and call[2] > last[3] + 2:
            on_its_way = "input" if last[1] == "h2d" else "output"
    claims = list(states.of_any)
    if call is not None and call[0] == 7:
        claims.insert(0, ("compile", Spans.of([(20, 25)])))
    owners = {}
    for t in range(start, end):
        if end - start <= 3:
            owners[t] = "switch"
        elif in_time or (queued_from <= t < launched) or t >= arrived:
            owners[t] = "queued"
        elif t >= launched:
            owners[t] = on_its_way
        else:
            claimed = (owner for owner, spans in claims if holds(spans, t))
            owners[t] = next(claimed, "unexplained")
    return owners


def holds(spans: Spans, t: int) -> bool:
    return bool(spans.within([t], [t + 1])[0])


def counted(owners: dict[int, str], window: int) -> dict[str, int]:
    times = dict.fromkeys((owner.name for owner in OWNERS), 0)
    for t in range(*BOUNDS[window : window + 2]):
        times[owners[t]] += 1
    return times


def times_of(frame: pl.DataFrame, row: int, names: Any) -> dict[str, int | None]:
    return {name: frame[f"{name}_ps"][row] for name in names}


@given(
    rows=st.lists(WORK, min_size=1, max_size=8),
    calls=st.lists(CALL, min_size=5, max_size=5),
    claims=CLAIMS,
    between=PAIRS,
    until=st.integers(0, 40),
)
def test_every_instant_of_every_device_has_the_owner_that_a_plain_loop_finds(
    rows: list[Any],
    calls: list[Any],
    claims: dict[str, Any],
    between: list[Any],
    until: int,
) -> None:
    rows = sorted(rows, key=lambda row: (row[0], row[2]))
    activity = activity_of([(row[0], *row[:2], 0, *row[2:4]) for row in rows])
    launches = [(track, 0, start, dur) for track, start, dur in calls]
    matched = correlation_of(activity, launches, [row[4] for row in rows])
    states: Any = States(claims)
    gaps = Spans.of((a, a + b) for a, b in between)
    sets = sets_of(rows, activity)
    found = account(
        windows=windows_of(*BOUNDS),
        between_steps=gaps,
        start_up=Spans.of([(0, until)]),
        host_states=states,
        host_classes=classes_of(),
        thread_sleep=NO_SLEEP,
        device_timeline=device_timeline(device_activity=activity),
        device_sets=sets,
        correlation=matched,
        launch_latency=FACTS,
    )
    assert isinstance(found, Account)
    found.self_check()
    assert found.missing == {}

    def works(device: int) -> bool:
        """Whether the device works within the windows."""
        return any(
            row[0] == device and row[3] and row[2] < 70 and row[2] + row[3] > 10
            for row in rows
        )

    every = sorted({row[0] for row in rows})
    numbers = [device for device in every if works(device)] or every
    assert [each.device for each in found.devices] == numbers
    owned = {one: slow_owners(rows, calls, states, one, until=until) for one in numbers}
    check_each_device(found, owned, gaps | Spans.of([(0, until)]), rows)
    check_all_devices(found, owned, sets)


def check_each_device(
    found: Account, owned: dict[int, dict[int, str]], gaps: Spans, rows: list[Any]
) -> None:
    """Compare every column of every window and device."""
    numbers = list(owned)
    listed = found.rows.select("window", "device").rows()
    assert listed == [(window, device) for window in (0, 1) for device in numbers]
    names = [owner.name for owner in OWNERS]
    assert found.overlapped is not None
    for row, (window, device) in enumerate(listed):
        owners = owned[device]
        times = counted(owners, window)
        assert times_of(found.rows, row, names) == times
        assert found.rows["window_ps"][row] == 30
        busy = sum(times[name] for name in BUSY_OWNERS)
        assert found.rows["device_busy_ps"][row] == busy
        working = busy - times["copy_in"] - times["transfer_wait"]
        assert found.rows["device_working_ps"][row] == working
        waiting = times["input"] + times["copy_in"]
        assert found.rows["idle_input_ps"][row] == waiting
        apart = {
            t: owner
            for t, owner in owners.items()
            if owner in IDLE_OWNERS and holds(gaps, t)
        }
        inside = {t: apart.get(t, "compute_16") for t in range(10, 70)}
        times = counted(inside, window)
        assert times_of(found.between, row, IDLE_OWNERS) == {
            name: times[name] for name in IDLE_OWNERS
        }
        for name in BUSY_OWNERS:
            ran = {
                t
                for each in rows
                if each[0] == device and BUSY[each[1]] == name
                for t in range(each[2], each[2] + each[3])
                if BOUNDS[window] <= t < BOUNDS[window + 1] and owners[t] != name
            }
            assert found.overlapped[f"{name}_ps"][row] == len(ran)


def check_all_devices(
    found: Account, owned: dict[int, dict[int, str]], sets: DeviceSets
) -> None:
    """All devices together are busy if any works, and else as the busiest."""
    lengths = {each.device: each.busy.length_ps for each in sets.devices}
    busiest = max(owned, key=lambda one: lengths[one])
    names = [owner.name for owner in OWNERS]
    for window in (0, 1):
        owners = {}
        for t in range(10, 70):
            ranks = [
                BUSY_OWNERS.index(owned[one][t])
                for one in owned
                if owned[one][t] in BUSY_OWNERS
            ]
            owners[t] = BUSY_OWNERS[min(ranks)] if ranks else owned[busiest][t]
        assert times_of(found.any_device, window, names) == counted(owners, window)
    assert found.any_device["device"].to_list() == [None, None]


@given(claims=CLAIMS, between=PAIRS, until=st.integers(0, 40))
def test_without_a_device_the_first_claim_owns_an_instant(
    claims: dict[str, Any], between: list[Any], until: int
) -> None:
    states: Any = States(claims)
    found = account(
        windows=windows_of(*BOUNDS),
        between_steps=Spans.of((a, a + b) for a, b in between),
        start_up=Spans.of([(0, until)]),
        host_states=states,
        host_classes=classes_of(),
        thread_sleep=NO_SLEEP,
        device_timeline=NO_DEVICE,
        device_sets=NO_DEVICE,
        correlation=NO_DEVICE,
        launch_latency=NO_DEVICE,
    )
    assert isinstance(found, Account)
    found.self_check()
    owners = {}
    for t in range(10, 70):
        owners[t] = "unexplained"
        for name, spans in reversed(states.claims_without_device(Spans.empty())):
            if holds(spans, t):
                owners[t] = name
        if t < until and not holds(states.profiler, t):
            owners[t] = "startup"
    lacking = {*BUSY_OWNERS, "switch", "queued", "launch"}
    assert found.missing == dict.fromkeys(lacking, NO_DEVICE)
    for window in (0, 1):
        times: dict[str, int | None] = {**counted(owners, window)}
        lost = times["launch"] or 0
        times |= dict.fromkeys(lacking, None)
        times["unexplained"] = (times["unexplained"] or 0) + lost
        names = [owner.name for owner in OWNERS]
        assert times_of(found.rows, window, names) == times
        assert found.rows["idle_input_ps"][window] == times["input"]
    assert found.rows["device"].to_list() == [None, None]
    assert found.rows["device_busy_ps"].to_list() == [None, None]
    assert found.overlapped is None
    assert found.any_device.equals(found.rows)
    assert [each.device for each in found.devices] == [None]


def test_owners_whose_time_is_unknown_are_missing_and_their_time_unexplained() -> None:
    cases: list[Any] = [
        ({}, set()),
        ({"correlation": WHY}, {"switch", "queued", "launch"}),
        ({"launch_latency": WHY}, {"switch", "queued", "launch"}),
        ({"device_timeline": WHY}, {"switch", "queued", "launch"}),
        ({"host_classes": classes_of(unknown=WHY)}, {"launch", "host_compute"}),
        ({"host_classes": classes_of(compile=WHY)}, {"compile"}),
        ({"host_classes": classes_of(sync=WHY)}, {"sync"}),
        (
            {"host_classes": WHY},
            {
                *("profiler", "compile", "peer", "input", "output"),
                *("wait", "host_compute", "launch", "sync"),
            },
        ),
        ({"thread_sleep": WHY}, {"wait"}),
        ({"host_states": WHY}, set()),
    ]
    for change, lacking in cases:
        rows = [(0, "kernel", 10, 5, 0), (0, "kernel", 50, 5, 1)]
        activity = activity_of([(row[0], *row[:2], 0, *row[2:4]) for row in rows])
        calls = [(3, 0, 5, 1), (3, 0, 45, 2)]
        claims = {"profiler": [(60, 1)], "launch": [(17, 3)], "host_compute": [(20, 9)]}
        given_values = {
            "between_steps": WHY,
            "start_up": WHY,
            "host_states": States(claims),
            "host_classes": classes_of(),
            "thread_sleep": NO_SLEEP,
            "device_timeline": device_timeline(device_activity=activity),
            "correlation": correlation_of(activity, calls, [0, 1]),
            "launch_latency": FACTS,
        }
        found = account(
            windows=windows_of(10, 70),
            device_sets=sets_of(rows, activity),
            **given_values | change,
        )
        assert isinstance(found, Account)
        found.self_check()
        assert set(found.missing) == lacking
        # [15, 50) and [55, 70) are idle; a call from 45 to 47 explains 5 of them.
        times = {"profiler": 1, "launch": 8, "host_compute": 9}
        if "host_states" in change:
            times = {}
        elif lacking >= {"switch", "queued", "launch"}:
            times["launch"] = 0
        times = {name: time for name, time in times.items() if name not in lacking}
        shown = {
            name: found.rows[f"{name}_ps"][0]
            for name in IDLE_OWNERS
            if found.rows[f"{name}_ps"][0]
        }
        rest = {"unexplained": 50 - sum(times.values())}
        assert shown == {name: time for name, time in times.items() if time} | rest
        assert all(found.rows[f"{name}_ps"][0] is None for name in lacking)
        assert found.between["unexplained_ps"].to_list() == [0]
        (device,) = found.devices
        assert Spans.union_of(device.idle.values()) == Spans.of([(15, 50), (55, 70)])
        assert sum(spans.length_ps for spans in device.idle.values()) == 50
        # Whose launch the gaps end with, and when it was on its way.
        launched = not change or change.keys() <= {"host_classes", "thread_sleep"}
        walked = {-1: Spans.of([(55, 70)]), 3: Spans.of([(15, 45)])}
        assert device.walked_by == (walked if launched else {})
        assert device.latency == (Spans.of([(45, 50)]) if launched else Spans.empty())


@pytest.mark.parametrize(
    ("returned", "times"),
    [
        (13, {"queued": 35}),  # a latency before the gap
        (14, {"launch": 4, "queued": 31}),
        (40, {"host_compute": 24, "launch": 5, "queued": 6}),
        (46, {"host_compute": 24, "launch": 11}),
        (55, {"host_compute": 24, "launch": 11}),  # after the kernel's begin
    ],
)
def test_a_launch_is_on_its_way_for_its_call_and_the_longest_usual_wait(
    returned: int, times: dict[str, int]
) -> None:
    """A gap from 15 to 50; calls begin at 39 or, if they return by then, at 11."""
    rows = [(0, "kernel", 10, 5, 0), (0, "kernel", 50, 5, 1)]
    activity = activity_of([(0, 0, "kernel", 0, *row[2:4]) for row in rows])
    begun = 39 if returned > 39 else 11
    states: Any = States({"host_compute": [(0, 90)]})
    calls = [(3, 0, 5, 1), (3, 0, begun, returned - begun)]
    found = account(
        windows=windows_of(10, 50),
        between_steps=WHY,
        start_up=WHY,
        host_states=states,
        host_classes=classes_of(),
        thread_sleep=NO_SLEEP,
        device_timeline=device_timeline(device_activity=activity),
        device_sets=sets_of(rows, activity),
        correlation=correlation_of(activity, calls, [0, 1]),
        launch_latency=FACTS,
    )
    assert isinstance(found, Account)
    shown = {name: found.rows[f"{name}_ps"][0] for name in IDLE_OWNERS}
    assert {name: time for name, time in shown.items() if time} == times


def test_every_column_of_divided_gaps() -> None:
    """A switch; a copy call that blocks; no call; a call in time; no activity."""
    kinds = {60: "kernel", 40: "kernel", 3: "kernel", 20: "h2d"}
    activity = activity_of([(0, 0, kind, 0, *(at, 1)) for at, kind in kinds.items()])
    calls = [(5, 0, 12, 10), (6, 0, 33, 2)]
    rows = DeviceRows(
        0, np.array([2, 3, 1, 0]), np.array([3, 20, 40, 60]), np.array([1, 2, 1, 1])
    )
    idle = Spans.of([(0, 3), (4, 20), (22, 40), (41, 60), (61, 70)])
    found = divided_gaps(
        *(idle, rows, correlation_of(activity, calls, [1, -1, -1, 0])), FACTS
    )
    assert found.switch == Spans.of([(0, 3)])
    # From the return of a later activity's call on, the queue is not empty.
    assert found.queued == Spans.of([(35, 40), (41, 60)])
    assert found.latency == Spans.empty()
    assert found.copy_call == Spans.of([(12, 20)])
    assert found.copy_call_rows.tolist() == [3]
    prepared = zip(
        *(found.prepare_start_ps.tolist(), found.prepare_end_ps.tolist()),
        found.prepare_track.tolist(),
        strict=True,
    )
    assert list(prepared) == [(4, 12, 5), (22, 35, -1), (61, 70, -1)]


@pytest.mark.parametrize(
    ("copy_ps", "is_first", "is_wait"),
    [(100, True, False), (10**11, True, True), (100, False, True)],
)
def test_the_first_copy_call_of_a_device_waits_for_set_up_not_for_its_copy(
    copy_ps: int, *, is_first: bool, is_wait: bool
) -> None:
    """A device is idle for 900 ms while a call, begun at 1 ms, makes a copy."""
    begin, end = 10**9, 900 * 10**9
    starts = [end] if is_first else [-9, end]
    durs = [copy_ps] if is_first else [9, copy_ps]
    rows = [(0, 0, "h2d", 0, *row) for row in zip(starts, durs, strict=True)]
    activity = activity_of(rows)
    timeline = DeviceRows(0, np.arange(len(rows)), np.array(starts), np.array(durs))
    tied = correlation_of(
        activity, [(5, 0, begin, 1000 * 10**9)], [-1, 0][-len(rows) :]
    )
    found = divided_gaps(Spans.of([(0, end)]), timeline, tied, FACTS)
    waited = Spans.of([(begin, end)])
    assert found.copy_call == (waited if is_wait else Spans.empty())
    assert found.latency == (Spans.empty() if is_wait else waited)
