"""Kills a recording program at every point of its life, and looks at what is left.

    python tests/capture/kill_loop.py [--kills 300] [--seed 1] [--every-ms 50]

A training loop is recorded and killed by SIGKILL, each time 50 ms later than the time
before (and a random part of it), from before the recording begins until after its file
is written; then from the beginning again. Three kinds of recording take turns: a plain
one, one that has so much to say that its end takes long, and one whose budget is so
small that the oldest events are dropped all the while.

After every kill (`check`): a file that has its final name is whole; what is there
opens; the steps that it holds are the program's own, without a hole; no step is lost
that ended more than the flush interval, the patience given for a busy machine, and the
time for which that gave the program's threads no processor before the kill. The
program's loss is that of the same loop without stepscope.

Definition: docs/capture.md#what-can-go-wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import stepscope as ss
from stepscope.capture.recording.saving import FLUSH_S
from stepscope.derive.steps.chosen import steps
from stepscope.errors import BadInput
from stepscope.unavailable import Unavailable

PROGRAM = Path(__file__).with_name("hurt_program.py")
#: Options of the program, by the kind of recording.
KINDS = {
    "plain": ("--steps", "500"),
    "long end": ("--steps", "300", "--nested", "600", "--step-ms", "4"),
    "dropping": (
        *("--steps", "300", "--nested", "20", "--step-ms", "4"),
        *("--pad", "300", "--max-bytes", str(2**20)),
    ),
}
#: How late the thread that stores events may be on a busy machine.
PATIENCE_S = 1.0
#: No program of this loop lives longer.
LONGEST_S = 60


@dataclass(frozen=True)
class Killed:
    """What a program had said when it was killed.

    Attributes:
        kind: Of recording.
        after_s: Since it said that it starts.
        at_ns: When it was killed, on the monotonic clock.
        said: Its lines.
        status: Its exit status: that of SIGKILL, or 0 where it was faster.
        waited_s: How long its threads together were ready and had no processor.
    """

    kind: str
    after_s: float
    at_ns: int
    said: tuple[str, ...]
    status: int
    waited_s: float

    @property
    def steps(self) -> dict[int, int]:
        """Step → when it ended, on the monotonic clock."""
        lines = [line.split() for line in self.said if line.startswith("step ")]
        return {int(step): int(ended) for _, step, ended in lines}

    def has_said(self, word: str) -> bool:
        return any(line.split()[0] == word for line in self.said)


@dataclass
class Seen:
    """What a loop of kills saw.

    Attributes:
        kills: Programs that were killed; others were faster than the signal.
        phases: What the program was at when it was killed → how often.
        late_s: Longest time before a kill from which nothing was left.
    """

    kills: int = 0
    late_s: float = 0.0
    phases: dict[str, int] | None = None

    def add(self, phase: str, late_s: float) -> None:
        self.kills += 1
        self.late_s = max(self.late_s, late_s)
        self.phases = self.phases or {}
        self.phases[phase] = self.phases.get(phase, 0) + 1


def loss_without_us(kind: str) -> str:
    """What the loop of this kind prints when nobody records."""
    done = subprocess.run(
        [sys.executable, PROGRAM, "-", *KINDS[kind], "--step-ms", "0"],
        capture_output=True,
        text=True,
        check=True,
        timeout=LONGEST_S,
    )
    return _loss(done.stdout.splitlines())


def kill(logdir: Path, kind: str, after_s: float) -> Killed:
    """Start the program and kill it so long after it said that it starts."""
    with subprocess.Popen(
        [sys.executable, PROGRAM, logdir, *KINDS[kind]],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stdout is not None
        assert program.stderr is not None
        first = program.stdout.readline()
        assert first == "starting\n", program.stderr.read()
        # Its lines fit into the pipe until the kill; what it says later is waited for.
        with contextlib.suppress(subprocess.TimeoutExpired):
            program.wait(after_s)
        waited_s = _no_processor_s(program.pid)
        at_ns = time.monotonic_ns()
        program.kill()
        said = (first + program.stdout.read()).splitlines()
        errors = program.stderr.read()
    assert "Traceback" not in errors, errors
    # The line that was being written when the kill came is none.
    whole = [line for line in said if line.split()[0] != "step" or line.count(" ") == 2]
    return Killed(kind, after_s, at_ns, tuple(whole), program.returncode, waited_s)


def _no_processor_s(pid: int) -> float:
    """How long all threads of a program were ready and had no processor, on Linux."""
    waited_ns = 0
    for thread in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        # One of them may have ended meanwhile.
        with contextlib.suppress(OSError, IndexError):
            waited_ns += int(thread.read_text(encoding="ascii").split()[1])
    return waited_ns / 1e9


def check(killed: Killed, logdir: Path, *, loss: str) -> tuple[str, float]:
    """Look at what a kill left; (what the program was at, seconds that are lost).

    Raises:
        AssertionError: Something is wrong that must not be.
    """
    assert killed.status in {0, -signal.SIGKILL}, killed.status
    if killed.has_said("loss"):
        assert _loss(killed.said) == loss
    everything = range(int(KINDS[killed.kind][1]))
    finished = list(logdir.rglob("*.xplane.pb"))
    for path in finished:
        # Whole or not at all.
        assert _steps(path)[-1] == everything[-1]
    spools = list(logdir.rglob("*.xplane.pb.part"))
    if killed.has_said("stopped"):
        assert (len(finished), len(spools)) == (1, 0)
    if not killed.has_said("began"):
        # Nothing was promised; what is there already must not be in the way.
        with contextlib.suppress(BadInput):
            _steps(logdir)
        return "starting", 0.0
    steps = _steps(logdir)
    assert steps == list(range(steps[0], steps[-1] + 1)) if steps else True, steps
    assert killed.kind == "dropping" or not steps or steps[0] == 0
    told = killed.steps
    if steps:
        # A step may have ended that could not be printed any more.
        assert steps[-1] <= max(told, default=-1) + 1
    lost = [told[step] for step in told if not steps or step > steps[-1]]
    late_s = (killed.at_ns - min(lost)) / 1e9 if lost else 0.0
    patience_s = PATIENCE_S + killed.waited_s
    assert late_s < FLUSH_S + patience_s, f"{late_s:.3f} s are lost"
    if not finished:
        assert "unfinished_recording" in _notes(logdir)
    phase = "stopped" if killed.has_said("stopped") else "recording"
    return (
        "stopping" if phase == "recording" and killed.has_said("stopping") else phase
    ), late_s


def loop(kills: int, *, seed: int, every_ms: float = 50) -> Seen:
    """Kill so many programs, and check what each leaves."""
    seen = Seen()
    losses = {kind: loss_without_us(kind) for kind in KINDS}
    moments = random.Random(seed)  # noqa: S311 - moments of a test
    after_s = dict.fromkeys(KINDS, 0.0)
    at = 0
    while seen.kills < kills:
        kind = list(KINDS)[at % len(KINDS)]
        at += 1
        moment = after_s[kind] + moments.random() * every_ms / 1000
        after_s[kind] += every_ms / 1000
        logdir = Path(tempfile.mkdtemp(prefix="stepscope_kill_"))
        killed = kill(logdir, kind, moment)
        try:
            phase, late_s = check(killed, logdir, loss=losses[kind])
        except BaseException:
            print(  # noqa: T201 - a program
                f"{kind}, killed after {moment:.4f} s; what is left is in {logdir}",
                file=sys.stderr,
            )
            raise
        shutil.rmtree(logdir)
        if killed.status == 0:
            # It was faster: from its beginning again.
            after_s[kind] = 0.0
        else:
            seen.add(phase, late_s)
    return seen


def _loss(lines: list[str] | tuple[str, ...]) -> str:
    (loss,) = (line for line in lines if line.startswith("loss "))
    return loss


def _steps(path: Path) -> list[int]:
    """The numbers of the steps that a profile holds."""
    profile = ss.open(path)
    (host,) = profile.hosts
    found = profile.derived(host, steps)
    return [] if isinstance(found, Unavailable) else found.rows["step"].to_list()


def _notes(path: Path) -> set[str]:
    profile = ss.open(path)
    (host,) = profile.hosts
    return set(profile.trace(host).table("quality")["kind"])


def main() -> int:
    """Run the loop and say what was seen."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--every-ms", type=float, default=50)
    options = parser.parse_args()
    seen = loop(options.kills, seed=options.seed, every_ms=options.every_ms)
    phases = ", ".join(
        f"{count} while {it}" for it, count in (seen.phases or {}).items()
    )
    print(  # noqa: T201 - a program
        f"{seen.kills} kills ({phases}): every file that was left is whole; "
        f"at most the last {seen.late_s:.2f} s are lost"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
