"""Record programs with planted faults and without, each run in a process of its own."""

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from recorded_programs import record_programs, request

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ROOT / "tests" / "frameworks" / "programs"
#: Size → rows of a batch by framework, as part of the program's own, and the seed.
SIZES = {"whole": (1, 0), "half": (2, 1)}
ROWS = {"jax": 64, "plain": 128, "tensorflow": 128, "torch": 128}
FRAMEWORKS = {
    "tensorflow": "TensorFlow",
    "jax": "JAX",
    "torch": "PyTorch",
    "plain": "Python",
}
#: Steps before those that are recorded, and those; one more ends the last by its clock.
SKIPPED, STEPS = 2, 11
#: Steps of a program that is killed before it has taken so many.
ENDLESS = 100_000
#: The steps that its own clock times.
TIMED = range(SKIPPED + 1, SKIPPED + STEPS - 1)
HEALTHY = "healthy"
#: File that says how long recording took, and the load.
CONDITIONS = "conditions"
#: Faults whose twin is another program than the healthy one: a loop by hand, compiled;
#: the same with a prefetch; two ranks with as much work.
OTHER_TWINS = {
    ("tensorflow", "eager"): "by_hand",
    ("tensorflow", "retrace"): "by_hand",
    ("tensorflow", "print"): "by_hand",
    ("tensorflow", "no_prefetch"): "prefetched",
    ("torch", "straggler"): "ranks",
}
#: Steps of a twin after those that stopped it which are not timed: caches are cold.
COLD = 2


class Fault(NamedTuple):
    """What was planted.

    Attributes:
        what: It in a few words.
        name: The function that the first sentence must name, else the rule or the op.
        every: It happens in the last of so many steps.
    """

    what: str
    name: str
    every: int = 1

    def hit(self, steps: range) -> list[bool]:
        """Return of steps whether it happens in each; the first of all is 0."""
        return [step % self.every == self.every - 1 for step in steps]


#: Folder, within that of a fault's run, of its twin that ran before and after it.
AROUND = "around"

#: (Framework, fault) → what the program does then.
PLANTED = {
    ("tensorflow", "sequential_map"): Fault(
        "a map without parallel calls", "input.bound"
    ),
    ("tensorflow", "numpy_function"): Fault("a map in Python", "`parse_by_hand`"),
    ("tensorflow", "eager"): Fault("a step that is not compiled", "launch.eager"),
    ("tensorflow", "retrace"): Fault("a new shape every step", "xla.recompile"),
    ("tensorflow", "callback"): Fault("a callback that sleeps", "`log_metrics`"),
    ("tensorflow", "checkpoint"): Fault(
        "writes weights to a file", "`save_checkpoint`"
    ),
    ("tensorflow", "no_prefetch"): Fault("no prefetching of batches", "input.bound"),
    ("tensorflow", "print"): Fault("prints weights in the graph", "debug.print"),
    ("jax", "slow_transform"): Fault("sorts each batch many times", "`transform`"),
    ("jax", "read_back"): Fault("copies every weight to the host", "`read_norms`"),
    ("jax", "eager"): Fault("a step that is not compiled", "launch.eager"),
    ("jax", "callback"): Fault("logging that sleeps", "`log_metrics`"),
    ("jax", "recompile"): Fault("a new shape every step", "xla.recompile"),
    ("jax", "checkpoint"): Fault(
        "writes weights every second step", "`save_checkpoint`", 2
    ),
    ("jax", "outside"): Fault("sorts a batch before the step marker", "`transform`"),
    ("jax", "debug"): Fault("prints gradients in the graph", "debug.print"),
    ("torch", "slow_transform"): Fault(
        "converts rows to Python lists", "`normalize_by_hand`"
    ),
    ("torch", "slow_collate"): Fault("collates in Python", "`slow_collate`"),
    ("torch", "read_back"): Fault(
        "copies each value to the host separately", "`read_losses`"
    ),
    ("torch", "callback"): Fault("logging that sleeps", "`log_metrics`"),
    ("torch", "checkpoint"): Fault("writes weights to a file", "`save_checkpoint`"),
    ("torch", "collect"): Fault("explicit garbage collections", "gap.gc"),
    ("torch", "tiny_ops"): Fault("thousands of tiny ops", "launch.small"),
    ("torch", "straggler"): Fault("one of two ranks also sorts", "aten::sort"),
    ("torch", "leak"): Fault("keeps the graphs of gradients", "`LOSSES`"),
    ("plain", "python_loop"): Fault("a double loop in Python", "`count_words`"),
    ("plain", "lock"): Fault("a lock that another thread holds", "`read_shared`"),
    ("plain", "logging"): Fault("writes thousands of log lines", "`write_logs`"),
    ("plain", "collect"): Fault("explicit garbage collections", "gap.gc"),
    ("plain", "slow_loader"): Fault(
        "sorts each batch many times", "`normalize_slowly`"
    ),
    ("plain", "slow_shard"): Fault("every fourth read is slow", "`read_shard`", 4),
    ("plain", "callback"): Fault("a callback that sleeps", "`Logs.on_batch_end`"),
    ("plain", "bursts"): Fault("validates every sixth step", "`validate`", 6),
    ("plain", "checkpoint"): Fault(
        "writes a file every third step", "`save_checkpoint`", 3
    ),
}


@dataclass(frozen=True)
class Run:
    """One recorded run.

    Attributes:
        framework: A key of `FRAMEWORKS`.
        fault: What was planted, or the name of a twin.
        size: A key of `SIZES`.
        again: Whether it repeats a run: twins are recorded before and after.
        around: The fault before and after which it ran; None for a run by itself.
    """

    framework: str
    fault: str
    size: str
    again: bool = False
    around: str | None = None

    @property
    def is_twin(self) -> bool:
        """Whether nothing was planted."""
        return self.fault in {HEALTHY, *OTHER_TWINS.values()}

    @property
    def twin(self) -> str:
        """The name of the same work without the fault."""
        return OTHER_TWINS.get((self.framework, self.fault), HEALTHY)

    @property
    def twin_around(self) -> "Run | None":
        """Its twin that runs before and after it, so that both see the same load."""
        if self.is_twin:
            return None
        return Run(self.framework, self.twin, self.size, around=self.fault)

    def folder(self, under: Path) -> Path:
        """The folder of its recording and its clock."""
        if self.around is not None:
            led = Run(self.framework, self.around, self.size)
            return led.folder(under) / AROUND
        again = "-again" if self.again else ""
        return under / f"{self.framework}-{self.fault}-{self.size}{again}"

    def steps_ms(self, under: Path) -> list[float]:
        """The recorded steps by its own clock; none where it failed.

        The first and the last one are left out: the recording begins and ends in them.
        """
        if not (self.folder(under) / "clock").exists():
            return []
        return [1000 * (end - begin) for begin, end in pairwise(self.begun(under))]

    def begun(self, under: Path) -> list[float]:
        """The seconds at which the timed steps began, and the last one ended."""
        lines = (self.folder(under) / "clock").read_text().splitlines()
        steps = slice(TIMED.start, None if self.around else TIMED.stop + 1)
        return [float(line) for line in lines[steps]]

    def twin_ms(self, under: Path) -> tuple[list[float], list[float]]:
        """The steps of its twin before it and after it; none where that failed."""
        twin, mine = self.twin_around, self.begun(under)
        if twin is None or not (twin.folder(under) / "clock").exists():
            return [], []
        return turns_ms(twin.begun(under), mine[0], mine[-1])


def turns_ms(
    begun: Sequence[float], start: float, end: float
) -> tuple[list[float], list[float]]:
    """Return the steps in ms that a program took before a time, and those after it.

    It is stopped in between: the step that the stop is in, and the `COLD` ones after
    it, belong to neither.

    Args:
        begun: The seconds at which its steps began.
        start: Begin of the time.
        end: End of the time.
    """
    steps = list(pairwise(begun))
    before = [1000 * (after - at) for at, after in steps if after <= start]
    later = [1000 * (after - at) for at, after in steps if at >= end]
    return before, later[COLD:]


def share_recorded(fault: Fault) -> float:
    """Return how often a fault is in recorded steps, beside how often in timed ones."""
    recorded, timed = fault.hit(range(SKIPPED, SKIPPED + STEPS)), fault.hit(TIMED)
    return sum(recorded) / len(recorded) / (sum(timed) / len(timed))


def runs() -> Iterator[Run]:
    """All runs, in the order in which they are recorded."""
    for framework in FRAMEWORKS:
        mine = [fault for name, fault in PLANTED if name == framework]
        twins = sorted({Run(framework, fault, "").twin for fault in mine})
        for size in SIZES:
            for fault in (*twins, *mine):
                yield Run(framework, fault, size)
        for size in SIZES:
            for twin in twins:
                yield Run(framework, twin, size, again=True)


def record(under: Path, seconds: float) -> None:
    """Record the runs that are not there yet; none begins after so many seconds."""
    begun = time.monotonic()
    under.mkdir(parents=True, exist_ok=True)
    if all(one.steps_ms(under) for one in runs()):
        return

    for framework in FRAMEWORKS:
        left = seconds - (time.monotonic() - begun)
        _record_framework(framework, under, max(left, 0))
    load = f"at a system load average of {os.getloadavg()[0]:.1f}"
    took = f"{time.monotonic() - begun:.0f} s, {load}"
    (under / CONDITIONS).write_text(took)


def _record_framework(framework: str, under: Path, seconds: float) -> None:
    wanted = [
        {**_request(one, under), "around": _around(one, under)}
        for one in runs()
        if one.framework == framework and not one.steps_ms(under)
    ]
    record_programs(framework, wanted, under / f"{framework}.json", seconds)


def _around(run: Run, under: Path) -> dict[str, object] | None:
    """Return what is to run before a run and after it."""
    twin = run.twin_around
    return None if twin is None else _request(twin, under)


def _request(run: Run, under: Path) -> dict[str, object]:
    folder = run.folder(under)
    parts, seed = SIZES[run.size]
    steps = STEPS if run.around is None else ENDLESS
    return request(
        PROGRAMS / f"{run.framework}_program.py",
        folder,
        arguments=[run.fault],
        environment={
            "PROGRAM_STEPS": str(SKIPPED + steps + 1),
            "PROGRAM_ROWS": str(ROWS[run.framework] // parts),
            "PROGRAM_SEED": str(seed),
            "PROGRAM_CLOCK": str(folder / "clock"),
        },
        plan={"skip_steps": SKIPPED, "steps": steps, "max_s": 120.0, "wait_s": 600.0},
    )
