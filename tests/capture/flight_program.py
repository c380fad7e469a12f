"""A loop under the flight recorder that goes wrong in a way that is asked for.

    python flight_program.py LOGDIR|- HOW

`-` does not import stepscope: what is printed and the status are to be the same.
"""

from __future__ import annotations

import contextlib
import os
import resource
import sys
import threading
import time
from pathlib import Path
from typing import Any

PATIENCE_S = 60
SLOW = 40


def stall() -> None:
    time.sleep(1.5)


def stuck(until: Any) -> None:
    ends_s = time.monotonic() + PATIENCE_S
    while not until() and time.monotonic() < ends_s:
        time.sleep(0.05)


def steps(step_trace: Any, first: int, last: int) -> int:
    total = 0
    for step in range(first, last):
        with step_trace(step):
            total += step
            stall() if step == SLOW else time.sleep(0.01)
    return total


def flat(step_trace: Any, count: int) -> list[int]:
    """Resident bytes after each of eight parts of so many steps."""
    found = []
    for _ in range(8):
        for step in range(count // 8):
            with step_trace(step):
                pass
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
        found.append(int(pages) * resource.getpagesize())
    return found


def say(text: object) -> None:
    os.write(1, f"{text}\n".encode())


def run_until_killed(step_trace: Any) -> None:
    for step in range(100_000):
        with step_trace(step):
            time.sleep(0.02)
        say(f"{step} {time.monotonic_ns()}")


def wait_for_signal(wrote: Any) -> None:
    done = threading.Event()
    threading.Thread(target=lambda: (stuck(wrote("signal")), done.set())).start()
    say("ready")
    done.wait()


def fork(step_trace: Any, recorder: Any) -> None:
    child = os.fork()
    if child == 0:
        steps(step_trace, 1000, 1010)
        os._exit(7)
    say(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    if recorder is not None:
        recorder.dump()


def go_wrong(how: str, step_trace: Any, recorder: Any) -> None:
    def wrote(what: str) -> Any:
        def has_written() -> bool:
            written = () if recorder is None else recorder.written
            told = (text for it in written for text in (it.why, it.text))
            return recorder is None or any(text.startswith(what) for text in told)

        return has_written

    if how == "slow":
        stuck(wrote(f"train {SLOW} "))
    elif how == "hang":
        stuck(wrote("hang"))
    elif how == "signal":
        wait_for_signal(wrote)
    elif how == "exception":
        raise ValueError("the loss is not a number")
    elif how == "exit":
        sys.exit(3)
    elif how == "fork":
        fork(step_trace, recorder)


def main(logdir: str, how: str, millions: str = "") -> None:
    recorder: Any = None
    step_trace: Any = contextlib.nullcontext
    if logdir != "-":
        import stepscope as ss  # noqa: PLC0415 - not without

        step_trace = ss.StepTrace
        # A step of nothing is slow whenever another program has the core; to write what
        # came before it needs modules, whose memory is no growth.
        slow = 1e9 if how == "flat" else 20
        recorder = ss.flight_recorder(logdir, slower_than=slow, hang_s=2)
    if how == "flat":
        say(flat(step_trace, int(millions) * 1_000_000))
    elif how == "kill":
        run_until_killed(step_trace)
    else:
        say(steps(step_trace, 0, SLOW + 5 if how == "slow" else SLOW))
        go_wrong(how, step_trace, recorder)


if __name__ == "__main__":
    main(*sys.argv[1:])
