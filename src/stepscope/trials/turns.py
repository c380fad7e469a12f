"""One turn: the program runs with some knobs set until its window of steps is over.

The program has its own process group and writes into files. After the window, or when
the user interrupts, all its processes are killed: a polite signal would run code that
may write files. A process belongs to the turn if its environment contains the turn's
folder, so a process that left the group is found too.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from stepscope.capture.launching.launcher import armed_environment
from stepscope.capture.launching.notes import read_notes
from stepscope.capture.launching.outcome import BY_SIGNAL, keep_the_best
from stepscope.capture.launching.plan import VARIABLE as RUN_VARIABLE
from stepscope.compare.timing import RunTimes
from stepscope.frozen import Frozen
from stepscope.trials.inside.turn_files import VARIABLE, TurnPlan, read_facts
from stepscope.units import PS_PER_NS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from stepscope.capture.launching.plan import RunPlan
    from stepscope.trials.inside.turn_files import Facts
    from stepscope.trials.knobs import Change

#: Seconds between two looks at what the processes have written.
_POLL_S: Final = 0.05
#: Steps without which a process does not train, and the least share of the steps of
#: the process with most steps.
_MIN_STEPS: Final = 3
_MIN_SHARE: Final = 0.5
#: Losses as programs print them: `loss: 0.25`, `loss=2.5e-1`, `train_loss 0.25`.
_PRINTED_LOSS: Final = re.compile(
    r"loss\W{0,4}\s*([0-9]+(?:\.[0-9]+)?(?:e[-+]?[0-9]+)?)", re.IGNORECASE
)
_MAX_ERROR_CHARACTERS: Final = 160


class Turn(Frozen, frozen=True):
    """The program with some knobs set.

    Attributes:
        times: Durations of the window's batches; None if fewer than three were timed.
        status: Exit status; None if stepscope ended the program.
        out: What it printed on standard output.
        err: What it printed on standard error.
        seconds: Duration of the turn.
        applied: Knobs that took effect.
        faults: Knob → why it could not be set.
        frameworks: Frameworks that the program has imported.
    """

    times: RunTimes | None
    status: int | None
    out: str
    err: str
    seconds: float
    applied: frozenset[str] = frozenset()
    faults: tuple[str, ...] = ()
    frameworks: frozenset[str] = frozenset()

    @property
    def last_error(self) -> str:
        """Last line of the program's standard error; "" without one."""
        lines = [line.strip() for line in self.err.splitlines() if line.strip()]
        own = [line for line in lines if not line.startswith("stepscope:")]
        return own[-1][:_MAX_ERROR_CHARACTERS] if own else ""

    @property
    def losses(self) -> tuple[float, ...]:
        """Losses that the program printed, in order."""
        return tuple(map(float, _PRINTED_LOSS.findall(f"{self.out}\n{self.err}")))


class Program(Frozen, frozen=True):
    """The command, and where its turns write.

    Attributes:
        arguments: The command, with the path of its program or interpreter.
        folder: Temporary folder; each turn has a folder in it.
        environment: The user's environment.
    """

    arguments: tuple[str, ...]
    folder: Path
    environment: Mapping[str, str]

    def time_steps(
        self, changes: Sequence[Change], limit_s: float, plan: TurnPlan | None = None
    ) -> Turn:
        """Run a turn that times a window of steps without recording it.

        Args:
            limit_s: Seconds after which the turn ends in any case.
            plan: Window to time; its folder and settings are set here.
        """
        return self._run_turn(changes, limit_s, plan or TurnPlan(""), windows_are_over)

    def record_steps(
        self, changes: Sequence[Change], limit_s: float, run: RunPlan
    ) -> Turn:
        """Run a turn that is recorded as by `stepscope run`, and keep what trained."""
        return self._run_turn(changes, limit_s, TurnPlan(""), recordings_are_over, run)

    def _run_turn(
        self,
        changes: Sequence[Change],
        limit_s: float,
        plan: TurnPlan,
        is_over: Callable[[str], bool],
        run: RunPlan | None = None,
    ) -> Turn:
        folder = self.folder / f"turn-{sum(1 for _ in self.folder.glob('turn-*')) + 1}"
        folder.mkdir(mode=0o700)
        settings = tuple(each for change in changes for each in change.settings)
        plan = plan._replace(folder=str(folder), settings=settings)
        environment = armed_environment(self.environment, VARIABLE, plan.to_text())
        for change in changes:
            environment |= change.environment
        if run is not None:
            environment[RUN_VARIABLE] = run._replace(notes=plan.folder).to_text()
        began_s = time.monotonic()
        status = self._run_until(is_over, folder, environment, began_s + limit_s)
        if run is not None:
            keep_the_best(read_notes(plan.folder))
        processes = read_facts(plan.folder)
        return Turn(
            times=measured_times(processes),
            status=status,
            out=(folder / "out").read_text("utf-8", "replace"),
            err=(folder / "err").read_text("utf-8", "replace"),
            seconds=time.monotonic() - began_s,
            applied=frozenset(_all_texts(processes, "set")),
            faults=tuple(_all_texts(processes, "fault")),
            frameworks=frozenset(" ".join(_all_texts(processes, "frameworks")).split()),
        )

    def _run_until(
        self,
        is_over: Callable[[str], bool],
        folder: Path,
        environment: Mapping[str, str],
        ends_s: float,
    ) -> int | None:
        """Run the program until its windows are over, and leave no process."""
        with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
            process = subprocess.Popen(  # noqa: S603 - the command is the user's
                self.arguments,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                process_group=0,
            )
        status: int | None = None
        try:
            while status is None and time.monotonic() < ends_s:
                with suppress(subprocess.TimeoutExpired):
                    status = process.wait(_POLL_S)
                if is_over(str(folder)):
                    break
        finally:
            end_processes(str(folder))
            with suppress(OSError):
                # Where /proc does not show the environment, the group is known.
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return BY_SIGNAL - status if status is not None and status < 0 else status


def end_processes(folder: str) -> None:
    """Kill all processes whose environment contains the folder of a turn."""
    while processes := _processes_with(folder.encode()):
        for process in processes:
            with suppress(OSError):
                os.kill(process, signal.SIGKILL)
        time.sleep(_POLL_S / 5)


def _processes_with(mark: bytes) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        # A process that ended, or is another user's, cannot be read.
        with suppress(OSError):
            if mark in path.read_bytes():
                found.append(int(path.parent.name))
    return found


def windows_are_over(folder: str) -> bool:
    """Return whether every process that trains has timed its window."""
    training = [facts for facts in read_facts(folder) if "frameworks" in facts]
    return bool(training) and all("end" in facts for facts in training)


def recordings_are_over(folder: str) -> bool:
    """Return whether every process that counts steps has stored its recording."""
    counting = {path.stem for path in Path(folder).glob("*.steps")}
    return bool(counting) and counting <= {
        str(note.process) for note in read_notes(folder)
    }


def measured_times(processes: Sequence[Facts]) -> RunTimes | None:
    """Return the times of all processes that train, each with equally many steps.

    What devices needed after the last step belongs to all steps of the window.
    """
    most = max((len(facts.get("step", ())) for facts in processes), default=0)
    least = max(_MIN_STEPS, most * _MIN_SHARE)
    steps_ns = [
        [int(step) + drain / len(facts["step"]) for step in facts["step"]]
        for facts in processes
        for drain in [float(facts.get("drain", ["0"])[-1])]
        if len(facts.get("step", ())) >= least
    ]
    if not steps_ns:
        return None
    count = min(map(len, steps_ns))
    window_ps = (round(ns * PS_PER_NS) for each in steps_ns for ns in each[:count])
    return RunTimes(window_ps=tuple(window_ps), hosts=len(steps_ns))


def _all_texts(processes: Sequence[Facts], word: str) -> list[str]:
    return [text for facts in processes for text in facts.get(word, ())]
