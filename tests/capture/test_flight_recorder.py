"""The flight recorder: what goes wrong is written and named, and nothing else changes.

Programs of `flight_program.py` wait until the recorder has seen what was planted, so
that a busy machine only makes them longer.
"""

from __future__ import annotations

import errno
import gc
import json
import os
import re
import signal
import subprocess
import sys
import time
import weakref
from pathlib import Path

import pytest

import stepscope as ss
import stepscope._core.recorder as annotations
from stepscope.capture.base.run import Run
from stepscope.capture.base.spool import Spool
from stepscope.capture.flight import recorder
from stepscope.capture.flight.recent_events import RecentEvents
from stepscope.capture.flight.ring import Ring
from stepscope.errors import BadUsage

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).with_name("flight_program.py")
LIMIT_S = 180


def ran(logdir: object, *how: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, PROGRAM, str(logdir), *how],
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )


def no_processor_ns(pid: int) -> int:
    """How long all threads of a program were ready and had no processor."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(it.read_text(encoding="ascii").split()[1]) for it in threads)


def runs(logdir: Path) -> list[Path]:
    return sorted(logdir.rglob("*.xplane.pb"))


def step_numbers(path: Path) -> list[int | None]:
    return [step.step for step in ss.open(path).tool("overview_page").steps]


def test_a_slow_step_is_written_and_what_it_waited_for_is_said(tmp_path: Path) -> None:
    done = ran(tmp_path, "slow")
    assert done.returncode == 0
    (line,) = (it for it in done.stderr.splitlines() if "train 40 took" in it)
    took = re.match(r"stepscope: slow step: train 40 took ([\d.]+) s", line)
    assert took is not None, line
    # It sleeps for 1.5 s, or for longer on a busy machine.
    assert float(took[1]) >= 1.5
    assert "flight_program.py" in line
    assert "stall" in line
    path = Path(line.partition("written to ")[2])
    assert 40 in step_numbers(path)
    assert list(tmp_path.rglob("*.part")) == []


def test_a_hang_is_written_with_where_the_program_is(tmp_path: Path) -> None:
    done = ran(tmp_path, "hang")
    # A busy machine may make a pause before this one.
    *_, line = (it for it in done.stderr.splitlines() if "hang" in it)
    assert "the last one was train 39" in line
    assert "stuck" in line
    assert 39 in step_numbers(Path(line.partition("written to ")[2]))


def test_the_signal_is_heard_while_the_main_thread_waits(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, PROGRAM, str(tmp_path), "signal"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == f"{sum(range(40))}\n"
        assert program.stdout.readline() == "ready\n"
        program.send_signal(signal.SIGUSR2)
        _, said = program.communicate(timeout=LIMIT_S)
    assert program.returncode == 0
    assert "signal: a signal asked for it" in said


@pytest.mark.sweep(every=3)
@pytest.mark.parametrize("how", ["exception", "exit", "fork"])
def test_output_and_status_are_those_without_it(how: str, tmp_path: Path) -> None:
    with_it, without = ran(tmp_path, how), ran("-", how)
    assert (with_it.returncode, with_it.stdout) == (without.returncode, without.stdout)
    assert with_it.stderr.splitlines()[-1:] == without.stderr.splitlines()[-1:] or (
        how == "fork"
    )


def test_before_an_exception_ends_the_program_its_steps_are_written(
    tmp_path: Path,
) -> None:
    done = ran(tmp_path, "exception")
    assert "ended by ValueError: the loss is not a number" in done.stderr
    assert done.stderr.splitlines()[-1] == "ValueError: the loss is not a number"
    named = next(it for it in done.stderr.splitlines() if "exception:" in it)
    assert step_numbers(Path(named.partition("written to ")[2])) == list(range(40))


def test_without_a_fault_nothing_is_left(tmp_path: Path) -> None:
    with ss.flight_recorder(tmp_path):
        for step in range(5):
            with ss.StepTrace(step):
                pass
    assert [it for it in tmp_path.rglob("*") if it.is_file()] == []
    assert not annotations.is_recording()


def test_what_a_forked_child_does_is_not_in_it(tmp_path: Path) -> None:
    assert ran(tmp_path, "fork").returncode == 0
    (path,) = runs(tmp_path)
    assert step_numbers(path) == list(range(40))


@pytest.mark.skipif(sys.platform != "linux", reason="the clock is Linux's")
def test_a_kill_loses_the_last_second_at_most(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, PROGRAM, str(tmp_path), "kill"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as program:
        assert program.stdout is not None
        ended: dict[int, int] = {}
        # Until all of it is imported on a busy machine, nothing comes.
        until_s = float("inf")
        while time.monotonic() < until_s:
            number, at = program.stdout.readline().split()
            ended[int(number)] = int(at)
            until_s = min(until_s, time.monotonic() + 3)
        waited_ns = no_processor_ns(program.pid)
        killed_ns = time.monotonic_ns()
        program.kill()
        program.wait()
    (left,) = tmp_path.rglob("*.xplane.pb.part")
    found = step_numbers(left)
    assert found == list(range(len(found)))
    # One second between two flushes, half of one for the disk, and for how long the
    # machine gave no processor to any of the program's threads.
    late_ns = 1_500_000_000 + waited_ns
    assert ended
    assert {it for it, at in ended.items() if at < killed_ns - late_ns} <= set(found)
    assert len(found) > 1


def test_it_gives_way_to_a_recording_and_goes_on_after_it(tmp_path: Path) -> None:
    def loop(first: int) -> None:
        for step in range(first, first + 5):
            with ss.StepTrace(step):
                time.sleep(0.001)

    with ss.flight_recorder(tmp_path / "flight") as recorder:
        loop(0)
        with ss.Profile(tmp_path / "profile") as profile:
            loop(5)
        loop(10)
        written = recorder.dump()
    assert written.path is not None
    assert profile.path is not None
    assert step_numbers(profile.path) == [5, 6, 7, 8, 9]
    assert step_numbers(written.path) == [0, 1, 2, 3, 4, 10, 11, 12, 13, 14]
    # Also what came before a dump is in the next.
    assert recorder.written == (written,)


def test_the_ring_keeps_the_last_and_begins_with_it(tmp_path: Path) -> None:
    ring = Ring(tmp_path, ss.ProfilerOptions(), RecentEvents(), max_bytes=2**20)
    ring.resume_recording()
    steps = 0
    for _ in range(30):
        for _ in range(4000):
            now = annotations.clock_ns()
            annotations.keep_annotation("train", now, now + 100, step_num=steps, _r=1)
            steps += 1
        ring.store_new_events()
    ring.store_running_functions()
    (part,) = tmp_path.rglob("*.part")
    assert part.stat().st_size <= 2**20
    # As a kill would leave it.
    assert step_numbers(part)[-1] == steps - 1
    saved = ring.write_run("asked for")
    ring.end_recording(keep=False)
    assert saved.path is not None
    profile = ss.open(saved.path)
    found = step_numbers(saved.path)
    assert found[-1] == steps - 1
    assert found == list(range(steps - len(found), steps))
    assert 0 < len(found) < steps
    environment = profile.trace(profile.hosts[0]).table("environment")
    assert not isinstance(environment, ss.Unavailable)
    # The profile begins with the first that is kept, not with the ring.
    assert 0 <= environment["begin_ps"][0] < 10**6


def test_a_second_one_and_numbers_that_cannot_be_are_refused(tmp_path: Path) -> None:
    for wrong in (
        *({"slower_than": 1.0}, {"hang_s": 0}, {"most": 0}),
        *({"ring_bytes": 9}, {"disk_bytes": 9}),
    ):
        with pytest.raises(BadUsage, match="is out of range; give"):
            ss.flight_recorder(tmp_path, **wrong)
    with (
        ss.flight_recorder(tmp_path),
        pytest.raises(BadUsage, match="has a flight recorder already"),
    ):
        ss.flight_recorder(tmp_path)


def test_nothing_of_it_lives_on_after_its_end(tmp_path: Path) -> None:
    kept = ss.flight_recorder(tmp_path, on_signal=None)
    gone = weakref.ref(kept)
    kept.stop()
    del kept
    # On a busy machine its thread ends later.
    until_s = time.monotonic() + LIMIT_S
    while gone() is not None and time.monotonic() < until_s:
        gc.collect()
        time.sleep(0.01)
    assert gone() is None


def test_the_steps_that_follow_belong_to_what_was_written_before_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program asks for a profile itself while these steps are recorded."""

    def following(*_: object, **__: object) -> Run:
        kept.dump()
        return Run(path=tmp_path / "after", run="after", warnings=())

    monkeypatch.setattr(recorder, "record_following", following)
    with ss.flight_recorder(tmp_path, on_signal=None, most=5) as kept:
        kept._write_with_following("slow step", "it took long")
        first, second = kept.written
    assert (first.why, first.following) == ("slow step", tmp_path / "after")
    assert (second.why, second.following) == ("asked for", None)


def test_a_ring_that_cannot_be_read_is_said_to_be_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(_: Spool) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    ring = Ring(tmp_path, ss.ProfilerOptions(), RecentEvents(), max_bytes=2**20)
    with monkeypatch.context() as patched:
        patched.setattr(Spool, "read_content", failing)
        saved = ring.write_run("asked for")
    ring.end_recording(keep=False)
    assert saved.path is None
    assert saved.why_not.startswith("the kept events could not be read")


def test_noise_does_not_silence_the_recorder_and_one_line_says_what_is_not_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """After ten profiles, written within seconds, no hang and no exception was told."""
    with ss.flight_recorder(tmp_path, most=2, on_signal=None) as kept:
        for lost_ms in (7, 9, 5, 6, 8):
            text = f"{lost_ms} ms"
            kept._write_profile("slow step", text, lost_ns=lost_ms * 1_000_000)
        kept._write_profile("hang", "planted")
        kept._write_profile("exception", "planted")
        on_disk = [it.text for it in kept.written if it.path is not None]
        assert on_disk == ["9 ms", "8 ms", "planted", "planted"]
        assert {it.path for it in kept.written} - {None} == set(runs(tmp_path))
    refused = [it for it in caplog.messages if "not written" in it]
    (line,) = refused
    assert line == (
        "slow step: 5 ms; not written: 2 worse steps of the last hour are kept (most=…)"
    )


def test_the_example_writes_the_step_that_waits_for_its_batch(
    repository: Path, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, repository / "examples" / "flight_recorder.py", tmp_path],
        capture_output=True,
        text=True,
        check=True,
        timeout=LIMIT_S,
    )
    line = next(it for it in done.stdout.splitlines() if "train 45 " in it)
    assert "in next_batch" in line


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
@pytest.mark.parametrize("millions", [2, pytest.param(10, marks=pytest.mark.thorough)])
def test_memory_stays_flat_over_millions_of_steps(
    millions: int, tmp_path: Path
) -> None:
    done = ran(tmp_path, "flat", str(millions))
    resident = json.loads(done.stdout)
    before, after = max(resident[:4]), max(resident[4:])
    assert after - before < 8 * 2**20, resident
