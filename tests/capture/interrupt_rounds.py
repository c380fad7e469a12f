"""Records a loop again and again, each time with a signal at another line of ours.

    python tests/capture/interrupt_rounds.py block|window numpy|jax|torch|… ROUNDS

The program has a handler for the signal, and what it raises has to reach the program,
whichever line of stepscope's ran when the signal came: of the start, of a step, or of
the stop. Afterwards nothing of a recording is left over, or it goes on and can be
ended. `block` records between `ss.start` and `ss.stop`, `window` as `stepscope run`
does. Prints what is wrong, and how many lines were tried, as JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import itertools
import json
import logging
import shutil
import signal
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fault_rounds import LOOPS, left_over

import stepscope as ss
from stepscope.capture.launching.counting import FIT, StepCounter
from stepscope.capture.launching.harmless import harmless
from stepscope.capture.launching.plan import RunPlan
from stepscope.capture.launching.window import Phase, Window
from stepscope.capture.recording import session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    Train = Callable[[], float]

_CAPTURE = str(Path(session.__file__).parents[1])
_SIGNAL = signal.SIGUSR1


class Ended(BaseException):
    """What nobody catches by its class."""


#: Of each a handler raises one: an `OSError`, one that every `except Exception` would
#: catch, and those that ask to end.
_KINDS = (TimeoutError, RuntimeError, SystemExit, KeyboardInterrupt, Ended)


class Interrupts:
    """Counts the lines of ours that the main thread runs; one is met by a signal.

    Attributes:
        at: Which line, from 1; 0 is none.
        made: How many were run until now.
        where: File, function and number of the line that was met.
    """

    def __init__(self, at: int) -> None:
        self.at = at
        self.made = 0
        self.where = ""

    @contextlib.contextmanager
    def met(self) -> Iterator[None]:
        """Raise the signal within the block."""
        sys.settrace(self._call)
        try:
            yield
        finally:
            sys.settrace(None)

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        del event, argument
        file = frame.f_code.co_filename
        return self._line if file.startswith(_CAPTURE) else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        del argument
        if event == "line":
            self.made += 1
            if self.made == self.at:
                code = frame.f_code
                self.where = f"{Path(code.co_filename).name}:{frame.f_lineno}"
                signal.raise_signal(_SIGNAL)
        return self._line


class Block:
    """A recording between `ss.start` and `ss.stop`."""

    def __init__(self, train: Train) -> None:
        self._train = train
        self._run: ss.Run | None = None

    def record(self, logdir: str) -> None:
        self._run = None
        ss.start(logdir)
        self._train()
        recording = session.current_session()
        assert recording is not None
        recording.flush()
        self._run = ss.stop()

    def end(self, *, interrupted: bool) -> list[str]:
        """End what still goes on; what is wrong with it."""
        if session.current_session() is not None:
            # The signal came while a step was recorded.
            self._run = ss.stop()
        elif interrupted:
            return []
        run = self._run
        is_whole = run is not None and run.path is not None and not run.warnings
        return [] if is_whole else [f"it was not recorded as it should be: {run}"]


class Windowed:
    """The window of steps that `stepscope run` records."""

    def __init__(self, train: Train) -> None:
        self._train = train
        self._window: Window | None = None

    def record(self, logdir: str) -> None:
        plan = RunPlan(logdir, "run", tempfile.mkdtemp(dir=logdir), 2, 2)
        window = Window(plan, begun=_nothing, left=_nothing, over=_nothing)
        self._window = window
        counter = StepCounter(window)
        begins = harmless(window.abandon)(counter.begins)
        for _ in range(7):
            begins(FIT)
            self._train()
        window.close_window()

    def end(self, *, interrupted: bool) -> list[str]:
        """End what still goes on; what is wrong with it."""
        del interrupted
        window = self._window
        assert window is not None
        window.close_window()
        problems = [] if window.phase is Phase.OVER else ["the window did not close"]
        if session.current_session() is not None:
            problems.append("a recording goes on after the window")
        return problems


RECORDINGS = {"block": Block, "window": Windowed}


def rounds(recording: Block | Windowed, most: int) -> tuple[int, list[str]]:
    """Interrupt lines all over a recording; (lines tried, what is wrong)."""
    logging.disable(logging.CRITICAL)
    gc.collect()
    gc.freeze()
    counted = Interrupts(0)
    problems = [*_round(recording, counted, None), *_round(recording, counted, None)]
    lines = counted.made // 2
    tried = 0
    kinds = itertools.cycle(_KINDS)
    # An odd distance: no line of a loop is left out for good.
    for at in range(1, lines, max(1, lines // most) | 1):
        kind = next(kinds)
        interrupts = Interrupts(at)
        found = _round(recording, interrupts, kind)
        tried += bool(interrupts.where)
        problems += [f"{kind.__name__} at {interrupts.where}: {it}" for it in found]
    problems += _round(recording, Interrupts(0), None)
    logging.disable(logging.NOTSET)
    return tried, problems


def _round(
    recording: Block | Windowed,
    interrupts: Interrupts,
    kind: type[BaseException] | None,
) -> list[str]:
    """What is wrong with a recording in which a handler raises."""

    def handler(number: int, frame: FrameType | None) -> None:
        del number, frame
        if kind is not None:
            raise kind(8)

    logdir = tempfile.mkdtemp()
    signal.signal(_SIGNAL, handler)
    handlers = _handlers()
    threads = set(threading.enumerate())
    reached: BaseException | None = None
    try:
        with interrupts.met():
            recording.record(logdir)
    except BaseException as error:  # noqa: BLE001 - this is what is looked for
        reached = error
    expected = type(None) if not interrupts.where else kind
    problems = []
    if type(reached) is not expected:
        problems.append(f"the program got {reached!r}")
    problems += recording.end(interrupted=reached is not None)
    problems += left_over(threads)
    problems += [
        f"signal {number} is handled by {handler}"
        for number, handler in (_handlers() - handlers)
    ]
    shutil.rmtree(logdir)
    return problems


def _handlers() -> set[tuple[int, object]]:
    return {(number, signal.getsignal(number)) for number in signal.valid_signals()}


def _nothing() -> None:
    pass


def main() -> int:
    """Run the rounds of a framework and print what was seen."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("recording", choices=RECORDINGS)
    parser.add_argument("framework", choices=LOOPS)
    parser.add_argument("rounds", type=int)
    options = parser.parse_args()
    train = LOOPS[options.framework]()
    train()
    tried, problems = rounds(RECORDINGS[options.recording](train), options.rounds)
    print(json.dumps({"tried": tried, "problems": problems}))  # noqa: T201 - a program
    return 0


if __name__ == "__main__":
    sys.exit(main())
