"""What signal handlers of the program raise reaches it, wherever we are at work."""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.programs.frameworks import ROOT, interpreter

from stepscope._core import recorder
from stepscope.capture.base.signals import hold_exceptions
from stepscope.errors import is_from_handler, suppress_faults

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from types import FrameType

HERE = Path(__file__).parent


class TimedOut(Exception):
    """What a program's handler raises."""


def time_out(number: int, frame: FrameType | None) -> None:
    raise TimedOut(number, frame)


def time_out_without_arguments(*given: object) -> None:
    del given
    raise TimedOut


class Watchdog:
    def __call__(self, *_: object) -> None:
        raise TimedOut

    def hear(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        raise TimedOut


@pytest.fixture
def handle() -> Iterator[Callable[[Any], None]]:
    """Set the handler of SIGUSR1."""
    before = signal.getsignal(signal.SIGUSR1)
    yield functools.partial(signal.signal, signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, before)


def raised_by(call: Callable[[], object]) -> Exception:
    try:
        call()
    except Exception as error:  # noqa: BLE001 - this is what is looked at
        return error
    raise AssertionError("nothing was raised")


def meet_signal() -> None:
    signal.raise_signal(signal.SIGUSR1)


@pytest.mark.parametrize(
    "handler",
    [
        time_out,
        time_out_without_arguments,
        functools.partial(time_out_without_arguments, 5),
        Watchdog(),
        Watchdog().hear,
        lambda *_: time_out(0, None),
    ],
)
def test_what_a_handler_raises_is_known_by_its_traceback(
    handle: Callable[[Any], None], handler: Any
) -> None:
    handle(handler)
    error = raised_by(meet_signal)
    assert is_from_handler(error)
    # Put in its place by a framework that we call.
    assert is_from_handler(raised_by(lambda: wrapped(meet_signal)))


def wrapped(call: Callable[[], object]) -> None:
    try:
        call()
    except Exception as error:
        raise RuntimeError("the framework failed") from error


def test_a_handler_that_has_given_its_signal_back_is_known_too(
    handle: Callable[[Any], None],
) -> None:
    def time_out_once(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        raise TimedOut(frame)

    handle(time_out_once)
    assert is_from_handler(raised_by(meet_signal))


def test_what_is_raised_without_a_signal_is_a_fault(
    handle: Callable[[Any], None],
) -> None:
    assert not is_from_handler(raised_by(lambda: 1 // 0))
    assert not is_from_handler(raised_by(lambda: wrapped(lambda: 1 // 0)))
    # The program has caught what its handler raised, and now asks us.
    handle(time_out)
    try:
        meet_signal()
    except TimedOut:
        assert not is_from_handler(raised_by(lambda: 1 // 0))
    assert is_from_handler(KeyboardInterrupt())


def test_faults_are_suppressed_and_what_a_handler_raises_is_not(
    handle: Callable[[Any], None],
) -> None:
    with suppress_faults():
        raise RuntimeError("ours")
    handle(time_out)
    with pytest.raises(TimedOut), suppress_faults():
        meet_signal()


def test_while_exceptions_are_held_work_goes_on_and_the_first_is_raised_at_its_end(
    handle: Callable[[Any], None],
) -> None:
    heard: list[int] = []

    def hear(number: int, frame: FrameType | None) -> None:
        del number, frame
        heard.append(len(heard))
        raise TimedOut(len(heard))

    handle(hear)

    def work() -> None:
        with hold_exceptions():
            meet_signal()
            with hold_exceptions():
                meet_signal()
            assert heard == [0, 1]

    with pytest.raises(TimedOut, match="1"):
        work()
    assert signal.getsignal(signal.SIGUSR1) is hear
    with pytest.raises(TimedOut, match="3"):
        meet_signal()


@pytest.fixture
def handle_ctrl_c() -> Iterator[None]:
    """Python's own handler, also where the tests run in the background of a shell."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("handle_ctrl_c")
def test_a_second_ctrl_c_does_not_wait() -> None:
    reached = []

    def work() -> None:
        with hold_exceptions():
            signal.raise_signal(signal.SIGINT)
            reached.append("after the first")
            signal.raise_signal(signal.SIGINT)
            reached.append("after the second")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert reached == ["after the first"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_in_c_that_came_before_pythons_stays(
    handle: Callable[[Any], None],
) -> None:
    heard: list[int] = []
    handle(lambda number, _: heard.append(number))
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    faulthandler.register(signal.SIGUSR1, file=writing, all_threads=False, chain=True)
    try:
        with hold_exceptions():
            meet_signal()
        meet_signal()
        assert len(heard) == 2
        assert os.read(reading, 65_536).count(b"most recent call first") == 2
    finally:
        faulthandler.unregister(signal.SIGUSR1)
        os.close(reading)
        os.close(writing)


def test_a_child_that_is_forked_meanwhile_holds_nothing(
    handle: Callable[[Any], None],
) -> None:
    handle(time_out)
    with hold_exceptions():
        child = os.fork()
        if not child:
            status = 1
            with contextlib.suppress(BaseException):
                try:
                    meet_signal()
                except TimedOut:
                    status = 8
            os._exit(status)
        _, ended = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(ended) == 8


@pytest.mark.parametrize("where", ["begin", "__enter__", "__exit__"])
def test_an_annotation_that_a_signal_meets_in_a_recorder_beside_ours_is_not_lost(
    handle: Callable[[Any], None], where: str
) -> None:
    handle(time_out)

    class Beside:
        def __enter__(self) -> None:
            if where == "__enter__":
                meet_signal()

        def __exit__(self, *_: object) -> None:
            if where == "__exit__":
                meet_signal()

    def begin(name: str, stats: Mapping[str, object]) -> AbstractContextManager[object]:
        del name, stats
        if where == "begin":
            meet_signal()
        return Beside()

    recorder.start_recording(8)
    recorder.set_forward(begin)
    try:
        with pytest.raises(TimedOut), recorder.Trace("load"):
            pass
        # One that had begun is kept, and one that had not is not open.
        kept = recorder.drain_annotations().names
        assert kept == (["load"] if where == "__exit__" else [])
    finally:
        assert recorder.stop_recording() == 0
        recorder.drain_annotations()


def interrupted_lines(python: str, *arguments: object) -> int:
    """How many lines of ours met a signal, nothing being wrong."""
    done = subprocess.run(
        (python, HERE / "interrupt_rounds.py", *map(str, arguments)),
        capture_output=True,
        text=True,
        check=False,
        timeout=220,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "JAX_PLATFORMS": "cpu"},
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["problems"] == []
    tried: int = seen["tried"]
    return tried


@pytest.mark.slow(seconds=4)
@pytest.mark.parametrize("recording", ["block", "window"])
def test_a_signal_may_come_at_any_line_of_ours(recording: str) -> None:
    assert interrupted_lines(sys.executable, recording, "numpy", 60) > 40


@pytest.mark.framework(seconds=7)
@pytest.mark.sweep(every=2)
@pytest.mark.parametrize("recording", ["block", "window"])
def test_a_signal_may_come_while_pytorch_is_recorded(recording: str) -> None:
    assert interrupted_lines(interpreter("torch"), recording, "torch", 20) > 10


#: Its answer to a signal is an exit status. The signal comes where a window opens.
PROGRAM = """
import signal, sys, time
import stepscope as ss

class Preempted(Exception):
    pass

def answer(number, frame):
    raise Preempted

signal.signal(signal.SIGALRM, answer)

def look(frame, event, argument):
    if frame.f_code.co_qualname == "UnderWay._start_collectors":
        sys.settrace(None)
        signal.raise_signal(signal.SIGALRM)

try:
    for step in range(40):
        if step == 8:
            sys.settrace(look)
        with ss.StepTrace(step):
            time.sleep(0.001)
except Preempted:
    sys.exit(8)
"""


@pytest.mark.slow
def test_under_stepscope_run_the_exit_status_is_that_of_the_programs_answer(
    tmp_path: Path,
) -> None:
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "stepscope", "run", "--no-report", "program.py"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=tmp_path,
    )
    assert done.returncode == 8, done.stderr
    assert "Traceback" not in done.stderr
