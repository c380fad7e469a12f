"""Stopping: nothing that a recording does to end stands in it, and what it costs."""

from __future__ import annotations

import sys
import threading
import time
import types
from typing import TYPE_CHECKING

import pytest

import stepscope as ss
from stepscope.capture.base import run as ended
from stepscope.capture.collectors import model
from stepscope.capture.collectors.contract import Collected
from stepscope.capture.collectors.registry import COLLECTORS, make_collector
from stepscope.capture.collectors.torch import activities as kineto_activities
from stepscope.capture.collectors.torch.activities import (
    exported_activities,
)
from stepscope.capture.launching.plan import RunPlan
from stepscope.capture.launching.window import Window
from stepscope.capture.recording import session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from stepscope.capture.base.clock import ClockPair
    from stepscope.capture.base.options import ProfilerOptions
    from stepscope.capture.collectors.contract import Collector
    from stepscope.unavailable import Unavailable


def put_together() -> None:
    """What a collector of this test calls to hand over."""


class Framework:
    """A framework that says when it is called; it may note Python calls."""

    def __init__(self, name: str, calls: list[str], *, traces_python: bool) -> None:
        self.name = name
        self.traces_python = False
        self._traces = traces_python
        self._calls = calls

    def why_unavailable(self) -> Unavailable | None:
        return None

    def start_collecting(self, options: ProfilerOptions, clock: ClockPair) -> None:
        del clock
        self.traces_python = self._traces and bool(options.python_tracer_level)

    def halt_collecting(self) -> None:
        self._calls.append(f"{self.name} halts")

    def hand_over(self) -> Collected:
        put_together()
        self._calls.append(f"{self.name} hands over")
        return Collected(b"")

    def drop_events(self) -> None:
        self._calls.append(f"{self.name} is dropped")


@pytest.fixture
def calls(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[list[str]]:
    """What two frameworks did, of which `request.param` names who traces Python."""
    done: list[str] = []
    used: dict[str, Collector] = {
        name: Framework(name, done, traces_python=name == request.param)
        for name in ("first", "second")
    }

    def make(name: str) -> Collector:
        return used[name] if name in used else make_collector(name)

    others = dict(COLLECTORS)
    monkeypatch.setattr(session, "make_collector", make)
    COLLECTORS.clear()
    COLLECTORS.update(dict.fromkeys(used, ("", "")) | others)
    yield done
    # Their order counts, in which a monkeypatch would not restore them.
    COLLECTORS.clear()
    COLLECTORS.update(others)


@pytest.mark.parametrize("calls", ["first", "second", "none"], indirect=True)
def test_who_notes_python_calls_halts_first_and_all_before_one_hands_over(
    tmp_path: Path, calls: list[str], request: pytest.FixtureRequest
) -> None:
    """1.4 million of a recording's events were once our own search for models."""
    with ss.Profile(tmp_path, options=ss.ProfilerOptions(python_tracer_level=1)):
        pass
    tracer = request.node.callspec.params["calls"]
    first, second = ("first", "second") if tracer == "first" else ("second", "first")
    assert calls == [
        f"{first} halts",
        f"{second} halts",
        "second hands over",
        "first hands over",
    ]


@pytest.mark.parametrize("calls", ["none"], indirect=True)
def test_a_recording_that_steps_replace_is_dropped_without_being_read(
    tmp_path: Path, calls: list[str]
) -> None:
    """Reading one of five seconds kept a program from its first steps for 29 s."""
    plan = RunPlan(logdir=str(tmp_path), run="r", notes=str(tmp_path), skip_steps=0)
    window = Window(plan, begun=lambda: None, left=lambda: None, over=lambda: None)
    window.open_by_time()
    window.step_begins(1)
    assert calls == [
        "second halts",
        "first halts",
        "second is dropped",
        "first is dropped",
    ]
    # The next step begins outside of what was under way in the recording by time.
    window.step_begins(2)
    window.close_window()
    assert calls[-2:] == ["second hands over", "first hands over"]


@pytest.mark.slow(seconds=0.9)
@pytest.mark.parametrize("calls", ["none"], indirect=True)
def test_how_long_the_program_waited_is_kept_and_said_where_it_is_long(
    tmp_path: Path,
    calls: list[str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    pause_s = 0.2
    monkeypatch.setattr(Framework, "halt_collecting", lambda _: time.sleep(pause_s))
    began_s = time.monotonic()
    recording = session.Session.start(tmp_path)
    # Another thread reads and stores what was recorded: nobody waits for that.
    recording.halt()
    stopping = threading.Thread(target=recording.stop)
    stopping.start()
    stopping.join()
    assert calls == ["second hands over", "first hands over"]
    waited_s = recording.stop().waited_s
    assert 2 * pause_s <= waited_s < time.monotonic() - began_s
    assert "waited" not in caplog.text
    monkeypatch.setattr(ended, "LONG_WAIT_S", 2 * pause_s)
    session.Session.start(tmp_path).stop()
    assert "the program waited 0." in caplog.text


@pytest.mark.parametrize("calls", ["none"], indirect=True)
def test_our_own_tracer_of_python_calls_sees_no_other_collector_end(
    tmp_path: Path, calls: list[str]
) -> None:
    with ss.Profile(tmp_path, options=ss.ProfilerOptions(python_tracer_level=1)):
        sum(i for i in range(3))
    assert calls
    profile = ss.open(tmp_path)
    (host,) = profile.hosts
    names = profile.table(host, "event_types")["name"].to_list()
    assert any("genexpr" in name for name in names)
    here = {name for name in names if name.startswith("$test_stopping.py")}
    assert not {name for name in here if name.endswith((" put_together", " halt"))}


def test_a_search_for_models_that_takes_too_long_is_cut_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Model:
        weights = ()
        optimizer = "sgd"

    keras = types.ModuleType("keras")
    keras.Model = Model  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "keras", keras)
    monkeypatch.setattr(model, "_SEARCH_S", -1.0)
    options = ss.ProfilerOptions(collectors=("model", "host"))
    with ss.Profile(tmp_path, options=options) as recording:
        pass
    (told,) = recording.run.warnings
    assert told.startswith("no model is described: in -1 s only 0 of the program's ")
    assert told.endswith("Name the model with stepscope.describe(model)")
    profile = ss.open(tmp_path)
    (host,) = profile.hosts
    messages = profile.trace(host).table("quality")["message"].to_list()
    assert any(message.endswith(told) for message in messages)


def event(name: str, category: str, at_us: int) -> str:
    return (
        f'{{"ph":"X","cat":"{category}","name":"{name}","pid":1,"tid":1,'
        f'"ts":{at_us},"dur":1}}'
    )


def test_of_too_many_events_the_latest_python_calls_are_left_out_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kineto_activities, "_MAX_EVENTS", 7)
    monkeypatch.setattr(kineto_activities, "_MAX_CALLS", 3)
    ops = [event(f"op {at}", "cpu_op", at) for at in range(5)]
    # The latest comes first: the order means nothing.
    made = [event(f"call {at}", "python_function", at) for at in (9, 8, 2, 1)]

    def kept(*events: str) -> tuple[list[str], int, int | None]:
        document = f'{{"traceEvents":[{",".join(events)}]}}'
        found = exported_activities(document.encode())
        return sorted(found.name), found.left_out, found.complete_until_ns

    # Last stands when the first event began that is left out.
    assert kept(*ops[:3]) == (["op 0", "op 1", "op 2"], 0, None)
    assert kept(*made, ops[0]) == (["call 1", "call 2", "call 8", "op 0"], 1, 9000)
    all_ops = [f"op {at}" for at in range(5)]
    assert kept(*made, *ops) == (sorted(["call 1", "call 2", *all_ops]), 2, 8000)
    many = [event(f"op {at}", "cpu_op", at) for at in range(9)]
    assert kept(*made, *many) == ([f"op {at}" for at in range(7)], 6, 1000)
    # What says where steps lie is kept before all others.
    step = event("step", "user_annotation", 8)
    assert kept(step, *many) == ([*(f"op {at}" for at in range(6)), "step"], 3, 6000)
