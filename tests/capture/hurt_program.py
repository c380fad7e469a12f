"""A training loop that says how far it is: recorded by stepscope, or without it.

    python hurt_program.py LOGDIR|- [--steps 300] [--step-ms 2] [--nested 1]
        [--max-bytes N] [--pad 0] [--do WHAT] [--end HOW]

`-` does not even import stepscope: what it then prints is what every recorded run has
to print. Lines go to the pipe as they happen: `starting`, `began`, `step I NS` (when
step I had ended, on the monotonic clock), `stopping`, `stopped PATH`, `warning TEXT`,
and the loss with all its digits.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

FEATURES = 8


def say(text: str) -> None:
    """One line, at once: what was said before a kill has been said."""
    os.write(1, f"{text}\n".encode())


class Model:
    """A regression whose loss depends on every step, to the last digit."""

    def __init__(self) -> None:
        random = np.random.default_rng(7)
        self.rows = random.normal(size=(64, FEATURES))
        self.targets = self.rows @ random.normal(size=FEATURES)
        self.weights = np.zeros(FEATURES)
        self.loss = 0.0

    def step(self) -> None:
        error = self.rows @ self.weights - self.targets
        self.loss = float(error @ error) / len(error)
        self.weights -= 0.01 * (self.rows.T @ error) / len(error)


def annotated(step: int, options: argparse.Namespace, work: Callable[[], None]) -> None:
    """One step with marks in it, as a user writes them."""
    import stepscope as ss  # noqa: PLC0415 - only where we record

    with ss.StepTrace(step):
        for part in range(options.nested):
            # Texts that differ are stored each.
            text = f"{step} {part} {'x' * options.pad}" if options.pad else ""
            with ss.Trace("part", text=text):
                pass
        work()


def train(options: argparse.Namespace, model: Model) -> None:
    for step in range(options.steps):
        due = time.perf_counter() + options.step_ms / 1000
        if options.logdir == "-":
            model.step()
        else:
            annotated(step, options, model.step)
        if step == options.steps // 2:
            DOINGS[options.do](options)
        time.sleep(max(0.0, due - time.perf_counter()))
        say(f"step {step} {time.monotonic_ns()}")


def fork(options: argparse.Namespace) -> None:
    """A child that trains too, with marks of its own where we record."""
    child = os.fork()
    if child == 0:
        model = Model()
        for step in range(5):
            if options.logdir == "-":
                model.step()
            else:
                annotated(1000 + step, options, model.step)
        sys.exit(4)
    say(f"child {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}")


def _square(number: int) -> int:
    """What a worker of a pool does; it annotates where somebody records."""
    trace: Any = contextlib.nullcontext
    if "stepscope" in sys.modules:
        trace = sys.modules["stepscope"].Trace
    with trace("worker"):
        return number * number


def workers(options: argparse.Namespace) -> None:
    """A pool of workers, as a loader of data has."""
    del options
    import multiprocessing  # noqa: PLC0415 - here alone

    with multiprocessing.get_context("fork").Pool(2) as pool:
        say(f"squares {pool.map(_square, range(4))}")
        pool.close()
        pool.join()


def remove_logdir(options: argparse.Namespace) -> None:
    if options.logdir != "-":
        shutil.rmtree(options.logdir)


DOINGS: dict[str, Callable[[argparse.Namespace], None]] = {
    "nothing": lambda _: None,
    "fork": fork,
    "workers": workers,
    "remove": remove_logdir,
}


def leave(how: str) -> None:
    """End as training programs end."""
    if how == "exit":
        sys.exit(7)
    if how == "exception":
        raise RuntimeError("the program's own")
    if how == "SIGTERM":
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)


def start(options: argparse.Namespace) -> None:
    import stepscope as ss  # noqa: PLC0415 - only where we record

    more = {} if options.max_bytes is None else {"max_bytes": options.max_bytes}
    say("starting")
    ss.start(options.logdir, ss.ProfilerOptions(counters_hz=20, **more))
    say("began")


def stop() -> None:
    import stepscope as ss  # noqa: PLC0415 - after the harm

    say("stopping")
    run = ss.stop()
    for warning in run.warnings:
        say(f"warning {warning}")
    say(f"stopped {run.path}")


def main() -> int:
    """Train, with or without us."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("logdir")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--step-ms", type=float, default=2)
    parser.add_argument("--nested", type=int, default=1)
    parser.add_argument("--pad", type=int, default=0)
    parser.add_argument("--max-bytes", type=int)
    parser.add_argument("--do", choices=DOINGS, default="nothing")
    parser.add_argument("--end", default="")
    options = parser.parse_args()
    model = Model()
    if options.logdir != "-":
        start(options)
    train(options, model)
    # Last in the line is what the program is for.
    say(f"loss {model.loss!r}")
    leave(options.end)
    if options.logdir != "-":
        stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
