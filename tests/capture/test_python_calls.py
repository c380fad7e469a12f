"""Python calls: of functions, generators and what raises, on every thread in reach."""

from __future__ import annotations

import gc
import sys
import threading
import time
import weakref
from typing import TYPE_CHECKING

import pytest

import stepscope as ss
from stepscope.capture.collectors import python_calls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

CALLS = ss.ProfilerOptions(
    python_tracer_level=1, collectors=("host", "python_calls"), counters_hz=0
)
MONITORED = sys.version_info >= (3, 12)


def leaf() -> int:
    return 1


def branch() -> int:
    return leaf() + leaf()


def numbers() -> Iterator[int]:
    yield 1
    yield 2


def raising() -> None:
    raise KeyError("mine")


def name_of(function: Callable[..., object]) -> str:
    code = function.__code__
    return f"$test_python_calls.py:{code.co_firstlineno} {code.co_name}"


def calls_in(path: Path) -> list[tuple[str, str, int, int]]:
    """Track, name, begin and end in ps of every call of this file's functions."""
    profile = ss.open(path)
    (host,) = profile.hosts
    trace = profile.trace(host)
    tracks = trace.table("tracks")["name"].to_list()
    names = trace.table("event_types")["name"].to_list()
    return [
        (tracks[track], names[kind], start, start + dur)
        for track, kind, start, dur in trace.table("events")
        .select("track", "type", "start_ps", "dur_ps")
        .iter_rows()
        if names[kind].startswith("$test_python_calls.py")
    ]


def test_calls_nest_and_each_is_there(tmp_path: Path) -> None:
    with ss.Profile(tmp_path, CALLS) as run:
        answer = branch()
    assert answer == 2
    assert run.path is not None
    calls = calls_in(run.path)
    (outer,) = (call for call in calls if call[1] == name_of(branch))
    inner = [call for call in calls if call[1] == name_of(leaf)]
    assert len(inner) == 2
    assert all(outer[2] <= call[2] <= call[3] <= outer[3] for call in inner)
    assert inner[0][3] <= inner[1][2]


def test_a_generator_has_an_event_for_each_time_it_ran(tmp_path: Path) -> None:
    with ss.Profile(tmp_path, CALLS) as run:
        values = list(numbers())
    assert values == [1, 2]
    assert run.path is not None
    names = [call[1] for call in calls_in(run.path)]
    assert names.count(name_of(numbers)) == 3


def test_what_raises_ends_there_and_the_exception_passes(tmp_path: Path) -> None:
    with ss.Profile(tmp_path, CALLS) as run, pytest.raises(KeyError, match="mine"):
        raising()
    assert run.path is not None
    names = [call[1] for call in calls_in(run.path)]
    assert names.count(name_of(raising)) == 1


def test_threads_that_start_later_are_reached(tmp_path: Path) -> None:
    with ss.Profile(tmp_path, CALLS) as run:
        thread = threading.Thread(target=branch, name="later")
        thread.start()
        thread.join()
        time.sleep(0.25)
    assert run.path is not None
    found = [call[1] for call in calls_in(run.path)]
    assert found.count(name_of(branch)) == 1
    assert found.count(name_of(leaf)) == 2


def begun_by_another_thread(logdir: Path) -> ss.Profile:
    """A recording that a thread of the program begins."""
    recording = ss.Profile(logdir, CALLS)
    thread = threading.Thread(target=recording.__enter__)
    thread.start()
    thread.join()
    return recording


def test_the_main_thread_is_reached_whoever_begins_to_record(tmp_path: Path) -> None:
    recording = begun_by_another_thread(tmp_path)
    branch()
    recording.__exit__(None, None, None)
    assert recording.path is not None
    found = [call[1] for call in calls_in(recording.path)]
    assert found.count(name_of(branch)) == 1
    assert found.count(name_of(leaf)) == 2
    assert not any("main thread" in warning for warning in recording.warnings)
    branch()
    assert sys.getprofile() is None


@pytest.mark.skipif(MONITORED, reason="others may have the hook of this thread")
def test_a_hook_of_the_main_thread_stays_and_is_told(tmp_path: Path) -> None:
    def mine(*_: object) -> None:
        return

    sys.setprofile(mine)
    try:
        recording = begun_by_another_thread(tmp_path)
        branch()
        recording.__exit__(None, None, None)
        assert sys.getprofile() is mine
    finally:
        sys.setprofile(None)
    assert recording.path is not None
    assert calls_in(recording.path) == []
    (told,) = (text for text in recording.warnings if "main thread" in text)
    assert "mine" in told
    assert "uses Python's profiling hook" in told


@pytest.mark.slow(seconds=0.5)
def test_threads_that_record_are_left_out(tmp_path: Path) -> None:
    # A collection is told wherever it happens, on a thread of ours too.
    gc.disable()
    try:
        with ss.Profile(tmp_path, CALLS) as run:
            time.sleep(0.5)
    finally:
        gc.enable()
    assert run.path is not None
    profile = ss.open(run.path)
    (host,) = profile.hosts
    tracks = profile.trace(host).table("tracks")["name"].to_list()
    assert not [name for name in tracks if name.startswith("stepscope-")]


def test_without_the_option_nothing_is_hooked(tmp_path: Path) -> None:
    with ss.Profile(tmp_path, ss.ProfilerOptions(collectors=("python_calls",))) as run:
        assert sys.getprofile() is None
        branch()
    assert run.path is not None
    assert calls_in(run.path) == []


def test_the_hook_is_given_back(tmp_path: Path) -> None:
    with ss.Profile(tmp_path, CALLS):
        branch()
    assert sys.getprofile() is None
    if MONITORED:
        assert sys.monitoring.get_tool(sys.monitoring.PROFILER_ID) is None
    else:
        assert threading.getprofile() is None


def test_where_another_has_the_hook_it_is_named_and_left_alone(tmp_path: Path) -> None:
    def theirs(*_: object) -> None:
        """Of a coverage tool, say."""

    if MONITORED:
        sys.monitoring.use_tool_id(sys.monitoring.PROFILER_ID, "theirs")
    else:
        sys.setprofile(theirs)
    try:
        with ss.Profile(tmp_path, CALLS) as run:
            branch()
        still = (
            sys.monitoring.get_tool(sys.monitoring.PROFILER_ID)
            if MONITORED
            else sys.getprofile().__name__
        )
    finally:
        if MONITORED:
            sys.monitoring.free_tool_id(sys.monitoring.PROFILER_ID)
        else:
            sys.setprofile(None)
    assert still == "theirs"
    (warning,) = run.warnings
    assert "theirs" in warning
    assert run.path is not None
    assert calls_in(run.path) == []


def test_more_calls_than_are_kept_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(python_calls, "_RING_NOTES", 50)
    with ss.Profile(tmp_path, CALLS) as run:
        for _ in range(200):
            leaf()
    assert run.path is not None
    assert len(calls_in(run.path)) < 200
    profile = ss.open(run.path)
    (host,) = profile.hosts
    quality = profile.trace(host).table("quality")
    (lost,) = quality.filter(quality["kind"] == "dropped_events")["count"].to_list()
    assert lost >= 200 - 50


@pytest.mark.skipif(MONITORED, reason="this Python has no such hook")
def test_the_hook_outlives_its_recording(tmp_path: Path) -> None:
    """Python may be on its way to call it when it is taken away: that was a crash."""
    with ss.Profile(tmp_path, CALLS):
        hook = weakref.ref(sys.getprofile() or leaf)
    gc.collect()
    called = hook()
    assert called is not None
    called(sys._getframe(), "call", None)
    assert sys.getprofile() is None


class Calls:
    """The interface of Python 3.12's `sys.monitoring`, as far as it is used."""

    PROFILER_ID = 2

    class events:  # noqa: N801 - Python's name
        PY_START, PY_RESUME, PY_THROW, PY_RETURN, PY_YIELD, PY_UNWIND = (
            1 << bit for bit in range(6)
        )

    def __init__(self) -> None:
        self.tools: dict[int, str] = {}
        self.callbacks: dict[int, Callable[..., object]] = {}
        self.wanted = 0
        self.local = -1

    def get_tool(self, tool: int) -> str | None:
        return self.tools.get(tool)

    def use_tool_id(self, tool: int, name: str) -> None:
        self.tools[tool] = name

    def free_tool_id(self, tool: int) -> None:
        del self.tools[tool]

    def register_callback(
        self, _tool: int, event: int, callback: Callable[..., object] | None
    ) -> None:
        if callback is None:
            del self.callbacks[event]
        else:
            self.callbacks[event] = callback

    def set_events(self, _tool: int, events: int) -> None:
        self.wanted = events

    def set_local_events(self, _tool: int, _code: object, events: int) -> None:
        self.local = events


@pytest.mark.skipif(MONITORED, reason="the real interface is there and was tested")
def test_on_newer_pythons_the_monitoring_interface_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monitoring = Calls()
    monkeypatch.setattr(sys, "monitoring", monitoring, raising=False)
    monkeypatch.setattr(python_calls.sys, "version_info", (3, 12, 0))
    events, code = monitoring.events, leaf.__code__
    with ss.Profile(tmp_path, CALLS) as run:
        assert monitoring.tools == {2: "stepscope"}
        assert monitoring.wanted == 2**6 - 1
        monitoring.callbacks[events.PY_START](code, 0)
        monitoring.callbacks[events.PY_YIELD](code, 4, 1)
        monitoring.callbacks[events.PY_RESUME](code, 4)
        monitoring.callbacks[events.PY_UNWIND](code, 8, KeyError("mine"))
    monkeypatch.undo()
    assert monitoring.tools == {}
    # Those of the function by which it was measured what a note takes.
    assert (monitoring.wanted, monitoring.local) == (0, 0)
    assert run.path is not None
    assert [call[1] for call in calls_in(run.path)] == [name_of(leaf)] * 2
