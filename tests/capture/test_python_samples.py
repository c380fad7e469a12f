"""Samples of functions: which are found, on which threads, and for how long."""

from __future__ import annotations

import ctypes
import linecache
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import stepscope as ss
from stepscope.capture.base.clock import ClockPair
from stepscope.capture.collectors import python_samples
from stepscope.capture.collectors.contract import Collected
from stepscope.capture.collectors.python_samples import PythonSamplesCollector
from stepscope.derive.host.core_time import core_time
from stepscope.derive.host.function_frames import (
    FunctionFrames,
    non_step_frames,
)
from stepscope.derive.host.function_names import FunctionName
from stepscope.derive.host.placed_frames import function_frames, function_lines
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stepscope._core.recorder import Stack

PATIENCE_S = 60
#: So many looks find whatever lasts that long.
SOME = 10
OPTIONS = ss.ProfilerOptions(counters_hz=0, collectors=("host", "python_samples"))


def pause(seconds: float) -> None:
    time.sleep(seconds)


def compute(seconds: float) -> int:
    """Compute without ever giving the interpreter's lock away."""
    end, rounds = time.perf_counter() + seconds, 0
    while time.perf_counter() < end:
        rounds += 1
    return rounds


class Looks:
    """Counts the looks at each thread: a busy machine makes them fewer than asked."""

    def __init__(self) -> None:
        self.at: Counter[int] = Counter()

    def note(self, threads: Sequence[int]) -> None:
        self.at.update(threads)

    def wait(self, count: int = SOME) -> None:
        """Wait until the calling thread was looked at so many times more."""
        self.reach(self.at[threading.get_ident()] + count)

    def reach(self, total: int) -> None:
        """Wait until the calling thread was looked at so many times in all."""
        mine, end_s = threading.get_ident(), time.monotonic() + PATIENCE_S
        while self.at[mine] < total:
            assert time.monotonic() < end_s, f"{self.at[mine]} of {total} looks"
            pause(0.01)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    found, stacks_of = Looks(), python_samples.recorder.thread_stacks

    def noted(threads: list[int]) -> list[Stack]:
        stacks = stacks_of(threads)
        found.note(threads)
        return stacks

    monkeypatch.setattr(python_samples.recorder, "thread_stacks", noted)
    return found


def frames_of(run: ss.Run) -> tuple[FunctionFrames, list[str]]:
    """The frames, and the names of the tracks."""
    assert run.path is not None
    profile = ss.open(run.path)
    (host,) = profile.hosts
    found = profile.derived(host, function_frames)
    assert not isinstance(found, Unavailable), found
    tracks = profile.trace(host).table("tracks")
    assert not isinstance(tracks, Unavailable)
    return found, tracks["name"].to_list()


@pytest.fixture(name="of_the_test")
def _of_the_test() -> Callable[[str], bool]:
    """Whether a track is a thread of the test: what runs tests has some of its own."""
    others = {f"thread {one.name}" for one in Path("/proc/self/task").glob("*")}
    return lambda track: not any(f"{one}," in f"{track}," for one in others)


def seconds_in(found: FunctionFrames, function: str) -> float:
    """Seconds in which a function was innermost."""
    return sum(
        own / 1e12
        for kind, own in zip(found.type.tolist(), found.self_ps.tolist(), strict=True)
        if found.names[kind].function == function
    )


def seconds_of_lines(run: ss.Run, function: str) -> Counter[str]:
    """Seconds of each line of a function with what it called, by the line's text.

    They add up to the function's, to the picosecond.
    """
    assert run.path is not None
    profile = ss.open(run.path)
    (host,) = profile.hosts
    lines = profile.derived(host, function_lines)
    frames = profile.derived(host, function_frames)
    assert not isinstance(lines, Unavailable), lines
    assert not isinstance(frames, Unavailable), frames
    whole = {}
    for name, rows in (("lines", lines), ("frames", frames)):
        mine = [rows.names[kind].function == function for kind in rows.type.tolist()]
        whole[name] = int((rows.end_ps - rows.start_ps)[mine].sum())
    assert whole["lines"] == whole["frames"]
    found: Counter[str] = Counter()
    for kind, line, start_ps, end_ps in zip(
        lines.type.tolist(),
        lines.line.tolist(),
        lines.start_ps.tolist(),
        lines.end_ps.tolist(),
        strict=True,
    ):
        if lines.names[kind].function == function:
            found[linecache.getline(__file__, line).strip()] += (
                end_ps - start_ps
            ) / 1e12
    return found


@pytest.mark.slow(seconds=1.0)
def test_functions_have_the_time_that_they_took(
    tmp_path: Path, of_the_test: Callable[[str], bool], looks: Looks
) -> None:
    paused_s = computed_s = 0.0
    with ss.Profile(tmp_path, OPTIONS) as run:
        for step in range(10):
            with ss.StepTrace(step):
                begun = time.perf_counter()
                pause(0.03)
                between = time.perf_counter()
                compute(0.06)
                paused_s += between - begun
                computed_s += time.perf_counter() - between
        looked = looks.at[threading.get_ident()]
    found, tracks = frames_of(run)
    assert (found.sampled, found.hz) == (True, 100)
    # A look that a busy machine leaves out may give its time to the wrong function.
    missing_s = max(paused_s + computed_s - looked / found.hz, 0)
    for name, own_s in (("pause", paused_s), ("compute", computed_s)):
        assert abs(seconds_in(found, name) - own_s) < 0.1 + missing_s
    of_line = seconds_of_lines(run, "test_functions_have_the_time_that_they_took")
    for text, whole_s in (("pause(0.03)", paused_s), ("compute(0.06)", computed_s)):
        assert abs(of_line[text] - whole_s) < 0.1 + missing_s
    names = {found.names[kind].function: found.names[kind] for kind in set(found.type)}
    line = pause.__code__.co_firstlineno
    assert names["pause"] == FunctionName("pause", __file__, line, library=False)
    seen = {tracks[track] for track in found.track.tolist()}
    assert set(filter(of_the_test, seen)) == {"MainThread"}


def test_what_the_last_look_found_lasts_until_the_next_would_have_come(
    tmp_path: Path, looks: Looks
) -> None:
    """One look a second, and a recording of 0.2 s: the look stands for all of it."""
    seldom = ss.ProfilerOptions(
        counters_hz=0, collectors=("host", "python_samples"), python_sampling_hz=1.0
    )
    with ss.Profile(tmp_path, seldom) as run:
        looks.reach(1)
        with ss.Trace("afterwards"):
            time.sleep(0.1)
    found, _ = frames_of(run)
    assert run.path is not None
    profile = ss.open(run.path)
    events = profile.trace(*profile.hosts).table("events")
    types = profile.trace(*profile.hosts).table("event_types")
    assert not isinstance(events, Unavailable)
    assert not isinstance(types, Unavailable)
    kind = types["name"].to_list().index("afterwards")
    ends = (events["start_ps"] + events["dur_ps"]).filter(events["type"] == kind)
    assert found.end_ps.max() >= ends.item()


def test_by_default_functions_are_found(tmp_path: Path, looks: Looks) -> None:
    with ss.Profile(tmp_path) as run:
        looks.wait()
    found, _ = frames_of(run)
    assert seconds_in(found, "pause") > 0.05


def test_nothing_of_the_recording_itself_is_found(tmp_path: Path, looks: Looks) -> None:
    with ss.Profile(tmp_path) as run:
        looks.wait()
    found, _ = frames_of(run)
    files = {found.names[kind].file or "" for kind in found.type.tolist()}
    assert not any("stepscope/capture" in file for file in files)
    inner = {
        found.names[kind].function for kind in found.type[found.parent >= 0].tolist()
    }
    assert "Thread.start" not in inner


@pytest.mark.slow
def test_threads_that_annotate_drive_steps_and_no_others(
    tmp_path: Path, of_the_test: Callable[[str], bool], looks: Looks
) -> None:
    silent_may_end = threading.Event()

    def annotating() -> None:
        for _ in range(2):
            with ss.Trace("work"):
                pause(0.02)
        # Who annotated is known from the next time on that events are stored.
        looks.wait()

    silent = threading.Thread(target=silent_may_end.wait, name="silent")
    worker = threading.Thread(target=annotating, name="worker")
    with ss.Profile(tmp_path, OPTIONS) as run, ss.Trace("all"):
        silent.start()
        worker.start()
        worker.join()
        silent_may_end.set()
        silent.join()
    found, tracks = frames_of(run)
    seen = {tracks[track] for track in found.track.tolist()}
    assert set(filter(of_the_test, seen)) == {"MainThread", "worker"}
    assert "samples of worker, 100 a second" in tracks
    assert not any(name.startswith("samples of silent") for name in tracks)


@pytest.mark.parametrize(
    "options",
    [
        ss.ProfilerOptions(python_sampling_hz=0),
        ss.ProfilerOptions(python_tracer_level=1),
    ],
)
def test_none_where_none_are_asked_for_or_calls_are(
    tmp_path: Path, options: ss.ProfilerOptions
) -> None:
    with ss.Profile(tmp_path, options) as run:
        pause(0.05)
        running = {thread.name for thread in threading.enumerate()}
    assert "stepscope-samples" not in running
    assert run.path is not None
    profile = ss.open(run.path)
    (host,) = profile.hosts
    tracks = profile.trace(host).table("tracks")
    assert not isinstance(tracks, Unavailable)
    assert "samples" not in tracks["kind"].to_list()


def test_a_recursion_without_end_is_found_as_far_as_its_outer_part(
    tmp_path: Path, looks: Looks
) -> None:
    def deeper(left: int) -> None:
        if left:
            deeper(left - 1)
        else:
            looks.wait()

    with ss.Profile(tmp_path, OPTIONS) as run:
        deeper(400)
    found, _ = frames_of(run)
    assert 0 < len(found.track) < 400
    name = "test_a_recursion_without_end_is_found_as_far_as_its_outer_part"
    assert seconds_in(found, f"{name}.<locals>.deeper") > 0.05


def test_a_failing_look_is_a_warning_and_harms_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(_: object) -> list[list[object]]:
        raise RuntimeError("no frames here")

    monkeypatch.setattr(python_samples.recorder, "thread_stacks", failing)
    with ss.Profile(tmp_path, OPTIONS) as run:
        pause(0.05)
    assert [it for it in run.warnings if "no frames here" in it]


#: A program of its own: the one that runs the tests may have threads already.
ALONE = """
import sys, threading, time
import stepscope as ss

usual = sys.getswitchinterval()
may_compute, may_end = threading.Event(), threading.Event()

def other():
    may_compute.wait()
    while not may_end.is_set():
        sum(range(1000))

def changed_from(interval):
    end_s = time.monotonic() + 30
    while sys.getswitchinterval() == interval and time.monotonic() < end_s:
        time.sleep(0.01)
    return sys.getswitchinterval()

thread = threading.Thread(target=other)
options = ss.ProfilerOptions(counters_hz=0, collectors=("host", "python_samples"))
with ss.Profile(sys.argv[1], options):
    alone = sys.getswitchinterval()
    thread.start()
    time.sleep(1)
    beside_one_that_waits = sys.getswitchinterval()
    may_compute.set()
    beside_one_that_computes = changed_from(beside_one_that_waits)
may_end.set()
thread.join()
# A loop that lets go of the lock every few tenths of a millisecond, as one that calls
# NumPy does, was found where it lets go: `Policy.act` in place of a deep copy.
assert alone <= 0.00005 < usual, (alone, usual)
assert beside_one_that_waits == alone, beside_one_that_waits
assert beside_one_that_computes == sys.getswitchinterval() == usual
"""
#: One function keeps the interpreter's lock in what is no call, and lets go of it where
#: the next one begins.
HELD = """
import sys, time
import stepscope as ss

def keeps(many):
    copy = many + many + many + many + many + many
    begins()
    return copy

def begins():
    global begun_s
    begin_s = time.perf_counter()
    while time.perf_counter() < begin_s + 0.002:
        pass
    begun_s += time.perf_counter() - begin_s

many, begun_s = [None] * 300_000, 0
options = ss.ProfilerOptions(counters_hz=0, collectors=("host", "python_samples"))
with ss.Profile(sys.argv[1], options):
    first_s = time.perf_counter()
    for _ in range(200):
        keeps(many)
    last_s = time.perf_counter()
print(begun_s / (last_s - first_s))
"""


@pytest.mark.slow
def test_what_keeps_the_lock_has_its_time_and_not_who_is_called_next(
    tmp_path: Path,
) -> None:
    """Without the rule `begins` had 93 % of the time, of which it takes 20 %."""
    ran = subprocess.run(
        [sys.executable, "-c", HELD, tmp_path],
        check=True,
        timeout=60,
        capture_output=True,
        text=True,
    )
    profile = ss.open(tmp_path)
    (host,) = profile.hosts
    found = profile.derived(host, function_frames)
    assert not isinstance(found, Unavailable), found
    seconds = [seconds_in(found, name) for name in ("keeps", "begins")]
    share = seconds[1] / sum(seconds)
    assert share == pytest.approx(float(ran.stdout), abs=0.2)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such clocks")
def test_the_switch_interval_is_short_while_the_main_thread_is_alone(
    tmp_path: Path,
) -> None:
    subprocess.run([sys.executable, "-c", ALONE, tmp_path], check=True, timeout=60)


def test_an_interval_that_the_program_sets_stays(tmp_path: Path) -> None:
    usual = sys.getswitchinterval()
    try:
        with ss.Profile(tmp_path, OPTIONS):
            sys.setswitchinterval(0.001)
        assert sys.getswitchinterval() == 0.001
    finally:
        sys.setswitchinterval(usual)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("version", [0x030B_09F0, 0x030C_01F0, 0x030D_00F0])
def test_without_compiled_kernels_programs_of_newer_pythons_are_left_alone(
    monkeypatch: pytest.MonkeyPatch, *, compiled: bool, version: int
) -> None:
    monkeypatch.setattr(python_samples.wire, "COMPILED", compiled)
    monkeypatch.setattr(python_samples.sys, "hexversion", version)
    why = PythonSamplesCollector().why_unavailable()
    assert (why is None) is (compiled or version < 0x030C_0000)
    assert why is None or "C compiler" in why.remedy


def test_a_stop_without_a_start_gives_nothing() -> None:
    assert PythonSamplesCollector().hand_over() == Collected(b"")


def test_functions_of_one_name_in_two_files_stay_two(
    tmp_path: Path, looks: Looks
) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "same.py").write_text(
            "def same(wait):\n    wait()\n", encoding="utf-8"
        )
    names: dict[str, dict[str, object]] = {"a": {}, "b": {}}
    for folder, scope in names.items():
        path = tmp_path / folder / "same.py"
        exec(compile(path.read_text("utf-8"), str(path), "exec"), scope)  # noqa: S102
    with ss.Profile(tmp_path / "logs", OPTIONS) as run:
        for scope in names.values():
            scope["same"](looks.wait)  # type: ignore[operator]
    found, _ = frames_of(run)
    files = {
        found.names[kind].file
        for kind in found.type.tolist()
        if found.names[kind].function == "same"
    }
    assert files == {str(tmp_path / folder / "same.py") for folder in "ab"}


def test_looks_begin_at_once(looks: Looks) -> None:
    collector = PythonSamplesCollector()
    # The second look would come minutes later than anyone waits here.
    collector.start_collecting(
        ss.ProfilerOptions(python_sampling_hz=0.002), ClockPair.now()
    )
    looks.reach(1)
    assert collector.hand_over().xspace


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the thread")
@pytest.mark.slow
def test_functions_that_threads_of_others_call_are_found(
    tmp_path: Path, of_the_test: Callable[[str], bool], looks: Looks
) -> None:
    """A framework's pool calls Python as ctypes does here: from a thread of its own."""
    called_may_end = threading.Event()

    @ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
    def called(_: object) -> None:
        while not called_may_end.is_set():
            pause(0.1)

    libc = ctypes.CDLL(None)
    thread = ctypes.c_ulong()
    begun = time.perf_counter()
    with ss.Profile(tmp_path, OPTIONS) as run, ss.Trace("all"):
        libc.pthread_create(ctypes.byref(thread), None, called, None)
        looks.wait(3 * SOME)
        while_both = time.perf_counter()
        looks.wait(3 * SOME)
        while_both_s = time.perf_counter() - while_both
        called_may_end.set()
        libc.pthread_join(thread, None)
    whole_s = time.perf_counter() - begun
    found, tracks = frames_of(run)
    theirs_s: Counter[str] = Counter()
    for track, kind, own_ps in zip(
        found.track.tolist(), found.type.tolist(), found.self_ps.tolist(), strict=True
    ):
        function = found.names[kind].function
        if function and tracks[track] != "MainThread" and of_the_test(tracks[track]):
            theirs_s[function.rpartition(".")[2]] += own_ps / 1e12
    assert set(theirs_s) == {"called", "pause"}
    # It waited in `pause` while this thread did, and no longer than there was.
    assert while_both_s / 2 < theirs_s["pause"] < whole_s


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the thread")
def test_a_thread_of_others_that_logs_stays_one_of_theirs(
    tmp_path: Path, looks: Looks
) -> None:
    """`logging` asks for the name of its thread, and Python lists the thread then."""
    is_listed, may_end = threading.Event(), threading.Event()

    @ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
    def called(_: object) -> None:
        assert threading.current_thread() in threading.enumerate()
        is_listed.set()
        may_end.wait()

    libc, thread = ctypes.CDLL(None), ctypes.c_ulong()
    libc.pthread_create(ctypes.byref(thread), None, called, None)
    try:
        assert is_listed.wait(60.0)
        with ss.Profile(tmp_path, OPTIONS) as run:
            looks.wait()
    finally:
        may_end.set()
        libc.pthread_join(thread, None)
    found, _ = frames_of(run)
    functions = {found.names[kind].function for kind in found.type.tolist()}
    assert any(name.endswith("called") for name in functions)


_FORKED = """
import os, threading
from stepscope.capture.base.encoding import native_id
child = os.fork()
if child == 0:
    main = threading.main_thread()
    os._exit(native_id(main) != threading.get_native_id())
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="numbers threads by process")
def test_the_first_thread_of_a_forked_process_has_its_own_number() -> None:
    asked = [sys.executable, "-c", _FORKED]
    done = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "0\n"


def test_other_threads_are_found_apart_from_those_that_drive_steps(
    tmp_path: Path, looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What runs the tests may have threads of its own.
    monkeypatch.setattr(python_samples, "_MAX_OTHER_THREADS", 1_000)
    stop = threading.Event()

    def helper() -> None:
        while not stop.is_set():
            pause(0.01)

    thread = threading.Thread(target=helper, name="helper")
    thread.start()
    try:
        with ss.Profile(tmp_path, OPTIONS) as run:
            assert thread.ident is not None
            looks.wait()
    finally:
        stop.set()
        thread.join()
    found, tracks = frames_of(run)
    assert "helper" not in {tracks[track] for track in found.track.tolist()}
    assert run.path is not None
    profile = ss.open(run.path)
    beside = profile.derived(profile.hosts[0], non_step_frames)
    assert not isinstance(beside, Unavailable), beside
    lines = {tracks[track] for track in beside.track.tolist()}
    assert "samples beside the steps of helper, 100 a second" in lines
    assert not any("stepscope-" in line for line in lines)
    assert seconds_in(beside, "pause") > 0


@pytest.mark.skipif(sys.platform != "linux", reason="clocks of Linux")
def test_the_clocks_of_the_main_thread_and_of_the_rest_are_read(
    tmp_path: Path, looks: Looks
) -> None:
    with ss.Profile(tmp_path, OPTIONS) as run:
        looks.wait()
    assert run.path is not None
    profile = ss.open(run.path)
    found = profile.derived(profile.hosts[0], core_time)
    assert not isinstance(found, Unavailable), found
    (main,) = (one for one in found.threads.values() if one.name == "MainThread")
    (rest,) = found.rest.values()
    assert main.seen.length_ps > 0
    assert rest.seen.length_ps > 0
    assert not any("stepscope-" in one.name for one in found.threads.values())
    # Each sample reads them, from the first to the last one.
    (times,) = found.sampled_ps.values()
    assert (times[0], times[-1]) == rest.seen.time_range
    looked = frames_of(run)[0].looks()
    assert looked is not None
    assert len(times) >= looked / 2
    assert (np.diff(times) > 0).all()
