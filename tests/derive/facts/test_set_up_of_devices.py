"""Waits of a device for set-up, first runs, captures and the end, by hand."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.support.traces.literal import (
    ABSENT,
    Tables,
    events_at,
    spans_of,
    types_named,
    windows_at,
)
from tests.support.traces.literal_tables import kinds_of

from stepscope.derive.account.host_states import min_work_gap_ps
from stepscope.derive.facts.devices.set_up import set_up_signals
from stepscope.derive.host.function_purposes import FunctionPurpose
from stepscope.derive.names.event_kinds import HostClass

#: The length from which a call is long; all times are in it.
M = min_work_gap_ps(0)
MALLOC, LOAD, OUTER, INNER, BEGIN, END = range(6)
NAMES = types_named(
    *("cudaMalloc", "cuModuleLoad", "aten::conv", "aten::inner"),
    *("cudaStreamBeginCapture_v1", "hipStreamEndCapture"),
)
KINDS = kinds_of(
    6, classes={MALLOC: HostClass.API, LOAD: HostClass.API}, ops=[OUTER, INNER]
)
# Type, start and length, in M; the third call is too short, the fourth in input time.
CALLS = (
    (MALLOC, 2, 10),
    (LOAD, 12, 3),
    (MALLOC, 20, 0.99),
    (MALLOC, 56, 4),
    (LOAD, 45, 10),
)
OPS = (
    *((OUTER, 25, 6), (INNER, 26, 4)),
    *((type_, at, 0.1) for type_ in (OUTER, INNER) for at in (60, 61, 62)),
)
IDLE = {
    "launch": ((0, 40), (90, 100)),
    "host_compute": ((40, 50),),
    "input": ((50, 60),),
}


def span_of(pairs: Any) -> Any:
    return spans_of(*((round(a * M), round(b * M)) for a, b in pairs))


def device(number: int | None = 0, **idle: Any) -> Any:
    return SimpleNamespace(
        device=number,
        idle={owner: span_of(pairs) for owner, pairs in (IDLE | idle).items()},
    )


def sampled(*frames: tuple[int, float, float]) -> Any:
    """Frames of functions that call a runtime: type, start and end."""
    kind = np.array([frame[0] for frame in frames], np.int32)
    start, end = (np.array([round(f[i] * M) for f in frames], np.int64) for i in (1, 2))
    return SimpleNamespace(
        type=kind,
        start_ps=start,
        end_ps=end,
        names={
            row: SimpleNamespace(function=f"function {row}") for row in kind.tolist()
        },
    )


def found(
    calls: Any = CALLS + OPS,
    devices: Any = None,
    *,
    windows: Any = None,
    frames: Any = ABSENT,
    calling: Any = (),
    **given: Any,
) -> Any:
    events = events_at(
        *(
            (type_, *(thread or [0]), round(at * M), round(dur * M))
            for type_, at, dur, *thread in calls
        )
    )
    call, other = FunctionPurpose.CALL, FunctionPurpose.SYNC
    purposes = [call if each else other for each in calling]
    usual = {
        "trace": Tables(events=events, event_types=NAMES),
        "account": SimpleNamespace(devices=devices or (device(),)),
        "launch_facts": SimpleNamespace(latency_ps=0),
        "windows": windows or windows_at((0, 100 * M), has_steps=False),
        "event_kinds": KINDS,
        "function_frames": frames,
        "function_purposes": SimpleNamespace(purpose=np.array(purposes)),
    }
    signals = set_up_signals.function(**(usual | given))
    return {
        number: (
            of.kind,
            pytest.approx(of.percent),
            {part.name: pytest.approx(part.share_percent) for part in of.calls},
        )
        for number, of in signals.items()
    }


SET_UP = {"cudaMalloc": 10.0, "cuModuleLoad": 8.0, "aten::inner": 4.0}


def test_long_calls_and_first_runs_set_a_device_up() -> None:
    """Of the second load, 5 of 10 M are waits; of the two ops, the inner counts."""
    assert found() == {0: ("set_up", 22.0, SET_UP)}
    # Events and their order do not matter, nor does a thread of its own.
    turned = [(*call, 1) for call in (CALLS + OPS)[::-1]]
    assert found(turned) == {0: ("set_up", 22.0, SET_UP)}
    assert found(CALLS) == {
        0: ("set_up", 18.0, {"cudaMalloc": 10.0, "cuModuleLoad": 8.0})
    }


def test_only_devices_wait_and_each_has_its_own_waits() -> None:
    others = (
        device(None),
        device(3, launch=((0, 5),), host_compute=()),
        device(2, launch=(), host_compute=()),
        device(1),
    )
    assert found(devices=others) == {
        3: ("set_up", 3.0, {"cudaMalloc": 3.0}),
        1: ("set_up", 22.0, SET_UP),
    }


def test_time_that_is_recorded_and_sampled_counts_once() -> None:
    """Of 14 to 17 M, a load was recorded until 15; the op is in the rest of 27."""
    frames = sampled((4, 14, 17), (5, 26, 27), (4, 30, 30.9), (4, 32, 39))
    signals = found(frames=frames, calling=[True, True, True, False])
    assert signals == {0: ("set_up", 24.0, SET_UP | {"aten::inner": 3.0})}
    short_end = device(launch=((0, 40), (95, 100)))
    only = found(OPS, (short_end,), frames=frames, calling=[True, True, True, False])
    names = {"function 4": 3.0, "function 5": 1.0, "aten::inner": 3.0}
    assert only == {0: ("set_up", 7.0, names)}


def test_first_runs_are_most_if_calls_are_less_than_half() -> None:
    """The op lasts 16 M, of which calls take the half, or a little less."""
    ops = tuple((INNER, *rest) for rest in ((2, 16), (60, 0.1), (61, 0.1), (62, 0.1)))
    half = found(((LOAD, 4, 8), *ops))
    assert half == {0: ("set_up", 16.0, {"cuModuleLoad": 8.0, "aten::inner": 8.0})}
    less = found(((LOAD, 4, 7.9), *ops))
    assert less[0][:2] == ("first_runs", 16.0)
    assert found(ops)[0] == ("first_runs", 16.0, {"aten::inner": 16.0})


@pytest.mark.parametrize(
    ("later", "first", "known"),
    [
        ((0.5, 1, 2), 20, True),
        ((0.5, 1, 2), 19.9, False),
        ((0.01, 0.01), 20, False),
        ((0.01, 0.01, 0.01), 11, True),
    ],
)
def test_a_first_run_is_far_longer_than_three_later(
    later: tuple[float, ...], first: float, *, known: bool
) -> None:
    at = range(60, 60 + 3 * len(later), 3)
    others = [(OUTER, *each) for each in zip(at, later, strict=True)]
    runs = [(OUTER, 1, first), *others]
    name = found(runs)[0][0]
    assert name == ("first_runs" if known else "over")


def test_kernels_launched_into_a_captured_graph_do_not_run() -> None:
    captures = ((END, 1, 0), (BEGIN, 5, 0), (END, 45, 0), (BEGIN, 95, 0))
    assert found((*CALLS, *captures)) == {0: ("captured", 40.0, {})}
    # Long calls outside the capture last longer than it.
    short = ((BEGIN, 16, 0), (END, 18, 0))
    assert found((*CALLS, *short))[0][:2] == ("set_up", 18.0)
    # A capture hides the calls in it.
    part = ((BEGIN, 2, 0), (END, 7, 0))
    assert found((*CALLS, *part)) == {
        0: ("set_up", 13.0, {"cuModuleLoad": 8.0, "cudaMalloc": 5.0})
    }


def test_after_the_last_activity_the_program_is_over() -> None:
    """Busy from 10 to 20 M; then short calls count too."""
    ending = device(launch=((0, 10), (20, 100)), host_compute=(), input=())
    calls = ((MALLOC, 2, 5), (MALLOC, 30, 0.5), (LOAD, 50, 30))
    frames = sampled((7, 60, 60.5), (7, 85, 85.25))
    signals = found(calls, (ending,), frames=frames, calling=[True, True])
    expected = {"cuModuleLoad": 30.0, "cudaMalloc": 0.5, "function 7": 0.25}
    assert signals == {0: ("over", 80.0, expected)}
    first_run = ((INNER, 82, 2), *((INNER, at, 0.01) for at in (95, 96, 97)))
    signals = found((*calls, *first_run), (ending,))
    expected = {"cuModuleLoad": 30.0, "aten::inner": 2.0, "cudaMalloc": 0.5}
    assert signals == {0: ("over", 80.0, expected)}
    # With steps, the program goes on after the recording.
    steps = windows_at((0, 60 * M), (60 * M, 100 * M))
    on = found(calls, (ending,), windows=steps)
    assert on == {0: ("set_up", 35.0, {"cuModuleLoad": 30.0, "cudaMalloc": 5.0})}
    # A device that did nothing has no last activity.
    never = device(launch=((0, 100),), host_compute=(), input=())
    assert found(calls, (never,))[0][:2] == ("set_up", 35.0)


def test_waits_in_three_steps_are_usual() -> None:
    cuts = [0, 30, 60, 100]
    bounds = [(a * M, b * M) for a, b in itertools.pairwise(cuts)]
    assert found(windows=windows_at(*bounds)) == {}
    # Of two judged steps of 60 M together, the third being left out, 0 to 60 M.
    left = windows_at(*bounds, flags=[[], [], ["warm_up"]])
    assert found(windows=left) == {
        0: (
            "set_up",
            pytest.approx(100 * 22 / 60),
            {name: pytest.approx(share / 0.6) for name, share in SET_UP.items()},
        )
    }


def test_calls_are_long_from_a_length_on() -> None:
    busy = device(launch=((0, 40),), host_compute=(), input=())
    recorded = found(((MALLOC, 2, 1), (LOAD, 5, 0.999)), (busy,))
    assert recorded == {0: ("set_up", 1.0, {"cudaMalloc": 1.0})}
    frames = sampled((4, 2, 3), (5, 7, 7.999))
    told = found((), (busy,), frames=frames, calling=[True, True])
    assert told == {0: ("set_up", 1.0, {"function 4": 1.0})}


def test_slow_launches_make_more_calls_short() -> None:
    slow = SimpleNamespace(latency_ps=10**15)
    assert found(launch_facts=slow) == {0: ("over", 10.0, {})}
