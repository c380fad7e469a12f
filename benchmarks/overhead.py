"""Measure what recording costs: a call of each kind, a training loop, memory, bytes.

    python benchmarks/overhead.py [--pairs 5] [--steps 100] [--write docs/overhead.md]
    python benchmarks/overhead.py --gpu [--python torch=/path/to/python]...
    python benchmarks/overhead.py --stops [--write docs/overhead.md]
    python benchmarks/overhead.py --samples [--write docs/overhead.md]
    python benchmarks/overhead.py --flight [--write docs/overhead.md]

Each training loop runs in fresh processes, with and without stepscope in turn, and the
order changes from pair to pair; the ratio of a pair is the cost of the recording. The
cost is also measured within one process, parts of which are recorded and others not in
turn: there a busy machine disturbs less. Every loop runs with short steps, where a
recording costs most, and with a fifth of the steps at eight times the rows, as in real
training. Loops of frameworks run in the environments of `make frameworks`; a missing
one is skipped and named. Annotations are compared with an empty context manager in one
process, in alternating blocks.

With `--gpu` only the loops of JAX and PyTorch are measured, on this machine's GPU and
with more rows. With `--stops` only the time of `stop` is measured, with
`--samples` only what samples of functions add, in loops without a framework, and
`--flight` only what the flight recorder costs there.
"""

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pages import machine, replace_section

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
PROGRAM = HERE / "overhead_program.py"
LOOPS = {
    "numpy": "NumPy, a layer and its gradient",
    "jax": "JAX, two layers, jitted",
    "torch": "PyTorch, a small CNN, one thread",
    "tensorflow": "TensorFlow, a small CNN, `tf.function`",
}
REFERENCE = "an empty context manager"
#: Factor on the rows of a step → the share of the steps that such a loop runs.
BATCHES = {1: 1, 8: 5}
GPU_BATCHES = {64: 1, 1024: 5}
GPU_LOOPS = {
    "jax": LOOPS["jax"],
    "torch": "PyTorch, a small CNN",
}
KINDS = (
    REFERENCE,
    "Trace(name)",
    "Trace(name, step_num=i, _r=1)",
    "mark_step(i)",
)
PATHS = (str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")]))
#: NumPy computes on one thread, and libraries print nothing. Freed memory stays with
#: the process: where glibc returns it to the system, the speed of PyTorch's loop
#: differs by a fifth from process to process, recorded or not.
SURROUNDINGS = {
    "PYTHONPATH": os.pathsep.join(PATHS),
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "OPENBLAS_NUM_THREADS": "1",
    "MALLOC_MMAP_THRESHOLD_": str(2**32),
    "MALLOC_TRIM_THRESHOLD_": str(2**33),
}
NO_GPU = {"CUDA_VISIBLE_DEVICES": "-1", "JAX_PLATFORMS": "cpu"}
SLOWED = (
    *("loop", "step, ms", "recorded, wall", "recorded, CPU"),
    *("only the framework's profiler, wall", "only the framework's profiler, CPU"),
)
STRETCHES = (
    *("loop", "recorded, wall", "recorded, CPU"),
    *("without the framework's profiler, wall", "without it, CPU"),
    *("start, ms", "stop, ms", "KiB a step"),
)
SAMPLED = (
    *("loop", "step, ms", "recorded, wall", "recorded, CPU"),
    *("without samples, wall", "without samples, CPU"),
)
SAMPLED_LOOPS = {
    "numpy": LOOPS["numpy"],
    "python": "Python alone, a call of a function for each number",
}
STOPS = ("loop", "`python_tracer_level`", "stop, ms", "CPU, ms", "file, KiB")
#: Steps of a recording (the default of `stepscope run`), and number of recordings.
STOPPED_STEPS, STOPPED = 10, 3
#: Frameworks with a profiler of their own: NumPy has none.
NO_OWN = ("numpy",)
#: Number of processes in which recorded and unrecorded parts alternate.
STRETCHED = 3
MIB = 2**20
KIB = 2**10


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables, and put them into the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--write", type=Path, metavar="PAGE")
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--stops", action="store_true")
    parser.add_argument("--samples", action="store_true")
    parser.add_argument("--flight", action="store_true")
    parser.add_argument("--python", action="append", default=[], metavar="NAME=PYTHON")
    options = parser.parse_args(arguments)
    pythons = dict(it.split("=", 1) for it in options.python)
    lines = [machine(), ""]
    if options.stops:
        os.environ.update(NO_GPU)
        lines += [
            *stop_table(pythons),
            "",
            f"System load average after: {os.getloadavg()[0]:.2f}.",
        ]
        return _told("\n".join(lines), options.write, "stops")
    for apart in ("samples", "flight"):
        if getattr(options, apart):
            lines += [*turns_table(apart, options.steps), ""]
            lines += [f"System load average after: {os.getloadavg()[0]:.2f}."]
            return _told("\n".join(lines), options.write, apart)
    if options.gpu:
        words, sizes, section = GPU_LOOPS, GPU_BATCHES, "overhead on a GPU"
    else:
        words, sizes, section = LOOPS, BATCHES, "overhead"
        os.environ.update(NO_GPU)
        lines += [*annotation_table(options.pairs), ""]
    loops = [
        Loop(named, framework, batches, options.steps // parts)
        for framework, named in words.items()
        for batches, parts in sizes.items()
    ]
    lines += [*loop_tables(loops, options.pairs, pythons), ""]
    if not options.gpu:
        lines += memory_lines()
    lines += [f"System load average after the end: {os.getloadavg()[0]:.2f}."]
    return _told("\n".join(lines), options.write, section)


def _told(text: str, page: Path | None, section: str) -> int:
    sys.stdout.write(text + "\n")
    if page is not None:
        replace_section(page, section, text)
    return 0


def annotation_table(runs: int) -> list[str]:
    """Measure the nanoseconds of a call: medians of fresh processes."""
    found = [measured(sys.executable, "annotations") for _ in range(runs)]
    lines = ["| call | nothing records, ns | recording, ns |", "|---|--:|--:|"]
    for kind in KINDS:
        off, on = (
            statistics.median(one[f"{kind}, {state}"] for one in found)
            for state in ("off", "on")
        )
        shown = kind if kind == REFERENCE else f"`{kind}`"
        lines.append(f"| {shown} | {off:.0f} | {on:.0f} |")
    return lines


@dataclass(frozen=True)
class Loop:
    """A loop to be measured.

    Attributes:
        named: Words for the loop.
        framework: A key of `LOOPS`.
        batches: Factor on the rows of the shortest step.
        steps: Number of steps.
    """

    named: str
    framework: str
    batches: int
    steps: int

    @property
    def words(self) -> str:
        """Return words for the loop and its size."""
        more = f", {self.batches} times the rows"
        return self.named if self.batches == 1 else self.named + more


@dataclass(frozen=True)
class Measured:
    """The measurements of one loop.

    Attributes:
        loop: The loop.
        sides: Side → measurements of its processes, in the order of the pairs.
        turns: Measurements of the processes in which recorded and unrecorded parts
            alternate.
    """

    loop: Loop
    sides: Mapping[str, Sequence[Mapping[str, float]]]
    turns: Sequence[Mapping[str, float]]

    def median(self, side: str, key: str) -> float:
        """Return the median over the processes of a side."""
        return statistics.median(one[key] for one in self.sides[side])

    def slowed(self, side: str, key: str) -> str:
        """Write the cost of recording in percent: the median pair and middle half."""
        pairs = zip(self.sides[side], self.sides["without"], strict=False)
        ratios = [100 * (one[key] / other[key] - 1) for one, other in pairs]
        if len(ratios) < 2:
            return "–" if not ratios else f"{ratios[0]:+.1f} %"
        low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
        return f"{middle:+.1f} % ({low:+.1f} to {high:+.1f})"

    def in_stretches(self, kind: str) -> str:
        """Write the cost of recording in percent, measured within one process."""
        percent = statistics.median(one[f"{kind}_percent"] for one in self.turns)
        return f"{percent:+.1f} %"


def loop_tables(
    asked: Sequence[Loop], pairs: int, pythons: Mapping[str, str]
) -> list[str]:
    """Write the tables of loops with and without recording."""
    loops: list[Measured] = []
    missing: list[str] = []
    for one in asked:
        python = pythons.get(one.framework) or interpreter(one.framework)
        if python is None:
            missing.append(f"Not measured: {one.words}. Run `make frameworks`.")
        else:
            found = _measured_loop(one, python, pairs)
            loops.append(found)
            slower = found.slowed("with", "loop_s")
            sys.stderr.write(f"{one.words}: {slower}\n")
    counts = sorted({one.steps for one in asked}, reverse=True)
    steps = " or ".join(map(str, counts))
    slowed = [
        (
            one.loop.words,
            f"{1000 * one.median('without', 'loop_s') / one.loop.steps:.1f}",
            *(
                one.slowed(side, key)
                for side in ("with", "own")
                for key in ("loop_s", "loop_cpu_s")
            ),
        )
        for one in loops
    ]
    stretches = [
        (
            one.loop.words,
            *map(one.in_stretches, ("all_wall", "all_cpu", "ours_wall", "ours_cpu")),
            f"{1000 * one.median('with', 'start_s'):.1f}",
            f"{1000 * one.median('with', 'stop_s'):.0f}",
            f"{one.median('with', 'file_bytes') / one.loop.steps / KIB:.2f}",
        )
        for one in loops
    ]
    return [
        f"{pairs} pairs of fresh processes with {steps} steps each: the median pair,",
        "and in parentheses the range of the middle half of the pairs.",
        "",
        *_table(SLOWED, slowed),
        "",
        f"Medians of parts of {steps} steps that alternate in one process.",
        "",
        *_table(STRETCHES, stretches),
        *missing,
    ]


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(cells)} |" for cells in (columns, *rows)]
    return [lines[0], f"|---|{'--:|' * (len(columns) - 1)}", *lines[1:]]


def _measured_loop(asked: Loop, python: str, pairs: int) -> Measured:
    names = ["without", "with"]
    if asked.framework not in NO_OWN:
        names.append("own")
    step = (asked.framework, str(asked.batches))
    sides: dict[str, list[dict[str, float]]] = {"own": [], **{it: [] for it in names}}
    for pair in range(pairs):
        # The order changes from pair to pair.
        at = pair % len(names)
        for side in names[at:] + names[:at]:
            with tempfile.TemporaryDirectory() as folder:
                arguments = ("loop", *step, side, folder, str(asked.steps))
                sides[side].append(measured(python, *arguments))
    turns = []
    for _ in range(STRETCHED):
        with tempfile.TemporaryDirectory() as folder:
            stretched = ("stretches", *step, folder, str(asked.steps))
            turns.append(measured(python, *stretched))
    return Measured(asked, sides, turns)


def stop_table(pythons: Mapping[str, str]) -> list[str]:
    """Write the time of `stop` after some steps, with and without every Python call."""
    rows = []
    for framework, named in LOOPS.items():
        python = pythons.get(framework) or interpreter(framework)
        for level in ("0", "1") if python is not None else ():
            found = []
            for _ in range(STOPPED):
                with tempfile.TemporaryDirectory() as folder:
                    given = (framework, level, folder, str(STOPPED_STEPS))
                    found.append(measured(str(python), "stop", *given))
            ms, cpu, size = (
                statistics.median(one[key] for one in found)
                for key in ("stop_s", "stop_cpu_s", "file_bytes")
            )
            figures = (f"{1000 * ms:.0f}", f"{1000 * cpu:.0f}", f"{size / KIB:.0f}")
            rows.append((named, level, *figures))
    return _table(STOPS, rows)


def turns_table(what: str, steps: int) -> list[str]:
    """Write the cost of recording plain loops, with and without samples.

    Args:
        what: "samples" records, "flight" keeps the last steps.
        steps: Of short steps; of longer ones fewer.
    """
    keys = ("sampled_wall", "sampled_cpu", "unsampled_wall", "unsampled_cpu")
    rows = []
    for framework, named in SAMPLED_LOOPS.items():
        for batches, parts in BATCHES.items():
            found = []
            for _ in range(STRETCHED):
                with tempfile.TemporaryDirectory() as folder:
                    given = (framework, str(batches), folder, str(steps // parts))
                    found.append(measured(sys.executable, what, *given))
            loop = Loop(named, framework, batches, steps // parts)
            turns = Measured(loop, {}, found)
            step_ms = statistics.median(one["step_ms"] for one in found)
            shown = map(turns.in_stretches, keys)
            rows.append((loop.words, f"{step_ms:.1f}", *shown))
            sys.stderr.write(f"{rows[-1]}\n")
    return _table(SAMPLED, rows)


def memory_lines() -> list[str]:
    """Write the memory of annotations that wait to be stored, and the time to store."""
    ring = measured(sys.executable, "ring")
    kept = measured(sys.executable, "stored")
    plain, valued = ring["plain"] / MIB, ring["with two values"] / MIB
    return [
        f"The annotation buffer holds at most {ring['events']:,.0f} entries. It takes",
        f"{plain:.1f} MiB, or {valued:.1f} MiB if each annotation has two values.",
        "While the program runs, a separate thread stores annotations, which takes",
        f"{kept['store_ns']:.0f} ns for an annotation with two values. After",
        f"{kept['events']:,.0f} annotations, `stop` takes",
        f"{1e6 * kept['stop_s'] / kept['events']:.2f} µs for each.",
        f"Each annotation takes {kept['bytes_each']:.1f} bytes in the file.",
        "",
    ]


def measured(python: str, *arguments: str) -> dict[str, float]:
    """Return the measurements of one process."""
    done = subprocess.run(
        [python, str(PROGRAM), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **SURROUNDINGS},
    )
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(arguments)}: {done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def interpreter(framework: str) -> str | None:
    """Return the interpreter that has a framework; None where there is none."""
    if framework == "numpy":
        return sys.executable
    path = ROOT / "build_tools" / "framework_venv.py"
    spec = importlib.util.spec_from_file_location("framework_venv", path)
    if spec is None or spec.loader is None:
        return None
    venvs = importlib.util.module_from_spec(spec)
    # dataclasses look their module up while it is being executed.
    sys.modules[spec.name] = venvs
    spec.loader.exec_module(venvs)
    python: Path = venvs.python_of(framework)
    return str(python) if python.exists() else None


if __name__ == "__main__":
    sys.exit(main())
