"""One turn: the program runs with some knobs set until its window of steps is over.

The program has its own process group and writes into files. After the window, or when
the user interrupts, all its processes are killed: code that would run on a polite
signal could write files. A process belongs to the turn if its environment contains the
turn's folder, so one that left the process group is found too.
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

import msgspec

from stepscope.capture.launching.launcher import armed_environment
from stepscope.capture.launching.notes import read_notes
from stepscope.capture.launching.outcome import BY_SIGNAL, keep_the_best
from stepscope.capture.launching.plan import VARIABLE as RUN_VARIABLE
from stepscope.compare.timing import RunTimes
from stepscope.errors import BadUsage
from stepscope.frozen import Frozen
from stepscope.trials.inside.plan import VARIABLE, TurnPlan
from stepscope.trials.inside.process_report import read_reports
from stepscope.units import PS_PER_NS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from stepscope.capture.launching.plan import RunPlan
    from stepscope.trials.inside.process_report import ProcessTimes
    from stepscope.trials.knobs import Change

#: Seconds between two looks at what the processes have reported.
_POLL_S: Final = 0.05
#: Steps without which a process is not one that trains.
_MIN_STEPS: Final = 3
#: A process has at least this share of the steps of the one with most steps.
_MIN_SHARE: Final = 0.5
#: Seconds in which helpers that remove shared memory may end by themselves.
_CLEANING_S: Final = 0.3
_CLEANERS: Final = (b"resource_tracker", b"torch_shm_manager")
#: Losses as programs print them: `loss: 0.25`, `loss=2.5e-1`, `train_loss 0.25`.
_PRINTED_LOSS: Final = re.compile(
    r"loss\W{0,4}\s*([0-9]+(?:\.[0-9]+)?(?:e[-+]?[0-9]+)?)", re.IGNORECASE
)
_SHOWN_ERROR_CHARACTERS: Final = 160


class Output(Frozen, frozen=True):
    """What a turn printed, as files."""

    out: Path
    err: Path

    def last_error(self) -> str:
        """Return the last line of standard error that is the program's; "" if none."""
        text = self.err.read_text("utf-8", "replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        own = [line for line in lines if not line.startswith("stepscope:")]
        return own[-1][:_SHOWN_ERROR_CHARACTERS] if own else ""

    def losses(self) -> tuple[float, ...]:
        """Return the losses that were printed, in order."""
        texts = (path.read_text("utf-8", "replace") for path in (self.out, self.err))
        return tuple(
            float(each) for text in texts for each in _PRINTED_LOSS.findall(text)
        )


class Turn(Frozen, frozen=True):
    """The program with some knobs set.

    Attributes:
        times: Durations of the window's batches; None if fewer than three were timed.
        status: Exit status; None if stepscope ended the program.
        output: What it printed.
        seconds: Duration of the turn.
        changed: Knob → what it changed inside the program.
        same: Knob → what has its value already.
        faults: Knob → why it could not be set.
        frameworks: Frameworks that the program has imported, and "gpu" if it uses one.
        losses: Losses of its backward passes or, if unknown, those that it printed.
        is_late: Whether the program was ended before its window was over.
    """

    times: RunTimes | None
    status: int | None
    output: Output
    seconds: float
    changed: dict[str, str] = msgspec.field(default_factory=dict)
    same: dict[str, str] = msgspec.field(default_factory=dict)
    faults: dict[str, str] = msgspec.field(default_factory=dict)
    frameworks: frozenset[str] = frozenset()
    losses: tuple[float, ...] = ()
    is_late: bool = False


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
        self, changes: Sequence[Change], plan: TurnPlan, limit_s: float
    ) -> Turn:
        """Run a turn that times a window of steps without recording it.

        Args:
            plan: Window to time; its folder and settings are set here.
            limit_s: Seconds after which the turn ends in any case.
        """
        plan, environment = self._armed(changes, plan)
        began_s = time.monotonic()

        def is_over() -> bool:
            training = [each for each in read_reports(plan.folder) if each.counted]
            return bool(training) and all(each.is_over for each in training)

        status, is_late, output = self._run(environment, plan, is_over, limit_s)
        every = read_reports(plan.folder)
        reports = _training_processes(every)
        losses = tuple(each.losses for each in reports if each.losses)
        return Turn(
            times=_run_times(reports),
            status=status,
            output=output,
            seconds=time.monotonic() - began_s,
            changed=_joined(each.changed for each in every),
            same=_joined(each.same for each in every),
            faults=_joined(each.faults for each in every),
            frameworks=frozenset().union(*(each.frameworks for each in reports)),
            losses=losses[0] if losses else output.losses(),
            is_late=is_late,
        )

    def record(self, changes: Sequence[Change], run: RunPlan, limit_s: float) -> Output:
        """Run a turn that `stepscope run` records, and keep what trained."""
        plan, environment = self._armed(changes, TurnPlan(""))
        environment[RUN_VARIABLE] = run._replace(notes=plan.folder).to_text()

        def is_over() -> bool:
            counting = {path.stem for path in Path(plan.folder).glob("*.steps")}
            noted = {str(note.process) for note in read_notes(plan.folder)}
            return bool(counting) and counting <= noted

        _, _, output = self._run(environment, plan, is_over, limit_s)
        keep_the_best(read_notes(plan.folder))
        return output

    def _armed(
        self, changes: Sequence[Change], plan: TurnPlan
    ) -> tuple[TurnPlan, dict[str, str]]:
        turns = sum(1 for _ in self.folder.glob("turn-*"))
        folder = self.folder / f"turn-{turns + 1}"
        folder.mkdir(mode=0o700)
        plan = plan._replace(
            folder=str(folder), settings=tuple(change.setting for change in changes)
        )
        environment = dict(self.environment)
        for change in changes:
            environment |= change.environment
        return plan, armed_environment(environment, VARIABLE, plan.to_text())

    def _run(
        self,
        environment: Mapping[str, str],
        plan: TurnPlan,
        is_over: Callable[[], bool],
        limit_s: float,
    ) -> tuple[int | None, bool, Output]:
        """Run the program until its end or its window's end, and leave no process."""
        folder = Path(plan.folder)
        output = Output(folder / "out", folder / "err")
        ends_s = time.monotonic() + limit_s
        status: int | None = None
        is_late = False
        try:
            with output.out.open("wb") as out, output.err.open("wb") as err:
                process = _start(
                    self.arguments, environment, out.fileno(), err.fileno()
                )
            while status is None and not is_late and not is_over():
                with suppress(subprocess.TimeoutExpired):
                    status = process.wait(_POLL_S)
                is_late = status is None and time.monotonic() > ends_s
        finally:
            end_processes(plan.folder)
        _end_group(process)
        if status is not None and status < 0:
            status = BY_SIGNAL - status
        return status, is_late, output


def _start(
    arguments: Sequence[str], environment: Mapping[str, str], out: int, err: int
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(  # noqa: S603 - the command is the user's
            arguments,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            process_group=0,
        )
    except OSError as error:
        raise BadUsage(
            f"{arguments[0]}: cannot be run ({error.strerror}). Name a program that "
            "the system can run"
        ) from error


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a program's process group, where /proc does not show its processes."""
    if process.poll() is None:
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def end_processes(folder: str) -> None:
    """Kill all processes whose environment contains the folder of a turn."""
    waits_until_s = time.monotonic() + _CLEANING_S
    while marked := _marked_processes(folder.encode()):
        for process, cleans in marked.items():
            if not cleans or time.monotonic() > waits_until_s:
                with suppress(OSError):
                    os.kill(process, signal.SIGKILL)
        time.sleep(_POLL_S / 5)


def _marked_processes(mark: bytes) -> dict[int, bool]:
    """Return processes with a mark in their environment → whether they clean."""
    found: dict[int, bool] = {}
    try:
        with os.scandir("/proc") as entries:
            numbers = [int(each.name) for each in entries if each.name.isdigit()]
    except OSError:
        return found
    for number in numbers:
        # A process that ended, or is another user's, cannot be read.
        with suppress(OSError):
            if mark in Path(f"/proc/{number}/environ").read_bytes():
                command = Path(f"/proc/{number}/cmdline").read_bytes()
                found[number] = any(name in command for name in _CLEANERS)
    return found


def _training_processes(reports: Sequence[ProcessTimes]) -> list[ProcessTimes]:
    most = max((len(each.steps_ns) for each in reports), default=0)
    least = max(_MIN_STEPS, most * _MIN_SHARE)
    return [each for each in reports if len(each.steps_ns) >= least]


def _run_times(reports: Sequence[ProcessTimes]) -> RunTimes | None:
    """Return the times of all processes, each with an equal number of steps.

    What devices needed after the last step belongs to all steps of the window.
    """
    if not reports:
        return None
    count = min(len(each.steps_ns) for each in reports)
    window_ps: list[int] = []
    for each in reports:
        drained_ns = each.drain_ns / len(each.steps_ns)
        window_ps += [
            round((step_ns + drained_ns) * PS_PER_NS)
            for step_ns in each.steps_ns[:count]
        ]
    return RunTimes(window_ps=tuple(window_ps), hosts=len(reports))


def _joined(parts: Iterable[dict[str, str]]) -> dict[str, str]:
    return {name: text for part in parts for name, text in part.items()}
