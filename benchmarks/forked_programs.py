"""Run programs of one framework, one after the other, each of them recorded.

    python forked_programs.py MODULES REQUESTS SECONDS

REQUESTS is a JSON list of objects with `program`, `arguments`, `environment`, `plan`
and `errors`, with `limit_s`, after which the run is killed, or null, and with `around`,
null or another such object: a program that takes steps before this run and after it,
and is stopped meanwhile. MODULES, names with commas between, are imported once; every
run is a forked child, armed as `stepscope run` arms what it starts, and none starts
after so many seconds. Prints nothing: each run leaves its recording and its clock.
"""

import contextlib
import importlib
import json
import math
import os
import runpy
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

#: A turn of a program around another one takes so many steps, and so long, at least.
_TURN_STEPS, _TURN_S = 14, 1.0


def main(modules: str, requests: str, seconds: str) -> None:
    """Run every request in a process of its own, one after the other."""
    ends = time.monotonic() + float(seconds)
    for name in filter(None, modules.split(",")):
        importlib.import_module(name)
    for request in json.loads(Path(requests).read_text()):
        if time.monotonic() > ends:
            return
        if not _run_both(request):
            return


def _run_both(request: dict[str, Any]) -> bool:
    """Run a request between two turns of what is around it; False in the children."""
    around, other = request["around"], 0
    if around is not None:
        other = os.fork()
        if other == 0:
            _run(around)
            return False
        clock = Path(around["environment"]["PROGRAM_CLOCK"])
        _await_steps(other, clock, around["plan"]["skip_steps"])
        os.kill(other, signal.SIGSTOP)
    child = os.fork()
    if child == 0:
        _run(request)
        return False
    _await_end(child, request["limit_s"])
    if other:
        os.kill(other, signal.SIGCONT)
        _await_steps(other, clock, _steps_of(clock))
        # Its recording is not wanted, only its clock.
        os.kill(other, signal.SIGKILL)
        os.waitpid(other, 0)
    return True


def _await_end(process: int, limit_s: float | None) -> None:
    """Wait for the end of a run; after so many seconds kill it, and its children."""
    ends = math.inf if limit_s is None else time.monotonic() + limit_s
    while os.waitpid(process, os.WNOHANG) == (0, 0):
        if time.monotonic() > ends:
            os.killpg(process, signal.SIGKILL)
            os.waitpid(process, 0)
            return
        time.sleep(0.02)


def _await_steps(process: int, clock: Path, begun: int) -> None:
    """Wait until a program has taken its turn: so many steps, and for so long.

    Args:
        process: The program; where it ends, waiting does too.
        clock: Its clock, a line for each step.
        begun: The steps that it began before its turn, or that are not timed.
    """
    first = None
    while os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        steps = _steps_of(clock) - begun
        if first is None and steps > 0:
            first = time.monotonic()
        long = first is not None and time.monotonic() - first > _TURN_S
        if long and steps > _TURN_STEPS:
            return
        time.sleep(0.02)


def _steps_of(clock: Path) -> int:
    return len(clock.read_text().splitlines()) if clock.exists() else 0


def _run(request: Mapping[str, Any]) -> None:
    """Record one run; it ends as a program does, by leaving `main`."""
    from stepscope.capture.launching.armed_process import (  # noqa: PLC0415 - only a run is armed
        Armed,
    )
    from stepscope.capture.launching.plan import (  # noqa: PLC0415 - only a run is armed
        RunPlan,
    )

    os.environ.update(request["environment"])
    if request["limit_s"] is not None:
        # A group of its own, which can be killed with all that it started.
        os.setpgid(0, 0)
    path = Path(request["program"])
    sys.path.insert(0, str(path.parent))
    errors = os.open(request["errors"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(errors, 2)
    Armed(RunPlan(**request["plan"])).begin_waiting()
    sys.argv = [str(path), *request["arguments"]]
    with contextlib.suppress(SystemExit):
        runpy.run_path(str(path), run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])
