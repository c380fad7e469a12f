"""Measure the page "From slow to fast": programs with none, one … all of their fixes.

    python benchmarks/from_slow_to_fast.py [--turns 3] [--only torch] [--folder DIR]
        [--write docs/from-slow-to-fast.md]

`stepscope run` records each program of `examples/from_slow_to_fast` with each number of
fixes, one after the other, in several turns. Of the recordings of a stage the one with
the median step counts: its first sentence, its mean step, and what it predicts for the
action that the next fix carries out. So recorded steps are compared with recorded ones,
as in `gains.py`. A step is inside a prediction if its 90 % interval contains the step.
Recordings that are in the folder already are not made again.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import stepscope as ss
from overhead import interpreter
from pages import machine, markdown_table, replace_section
from recorded_programs import SURROUNDINGS
from stepscope.advice.finding import Finding
from stepscope.derive.predictions.step_times import StepTime

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = ROOT / "examples" / "from_slow_to_fast"
#: Steps before the recording, steps in it, and steps of the program. What a program
#: does in every 40th step is in one of the recorded steps.
SKIPPED, RECORDED, STEPS = 10, 40, 52
#: File with the system load average before a recording.
LOAD = "load"
#: Seconds after which a recording ends, and after which a program is killed.
MOST_RECORDED_S, LIMIT_S = 120, 600
#: One thread computes: the machine has others to run.
ONE_THREAD = {
    "TF_NUM_INTRAOP_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
}
HEAD = (
    *("fixes", "first sentence of the report", "step, ms", "next fix"),
    *("predicted step, ms", "measured step, ms"),
)


@dataclass(frozen=True)
class Fix:
    """A fix of a program, and the advice that it carries out.

    Attributes:
        rule: Id of the finding.
        action: Id of the action of this finding.
        line: The changed line of the program.
    """

    rule: str
    action: str
    line: str


FIXES = {
    "torch": (
        Fix("gap.gc", "do_not_collect_by_hand", "if fixes < 1:"),
        Fix("input.bound", "load_in_workers", "num_workers=2"),
        Fix("input.bound", "make_workers_cheaper_in", "scale_image if fixes >= 3"),
        Fix("host.work", "ask_model_rarely", "40 if fixes >= 4 else 4"),
        Fix("gap.output", "write_less_often", "40 if fixes >= 5 else 4"),
    ),
    "jax": (
        Fix("xla.recompile", "jit_once", "LONGEST // PATCH if fixes >= 1"),
        Fix("host.work", "vectorise_own_lines", "smooth_signal if fixes >= 2"),
        Fix("launch.eager", "compile_whole_step", "jax.jit(update) if fixes >= 3"),
        Fix("gap.output", "write_less_often", "40 if fixes >= 4 else 4"),
        Fix("host.work", "summarise_rarely", "10 if fixes >= 5 else 1"),
    ),
    "tensorflow": (
        Fix("launch.eager", "put_step_into_graph", "tf.function(train_step)"),
        Fix("xla.recompile", "fix_signature", "tf.constant(rate) if fixes >= 2"),
        Fix("gap.output", "write_less_often", "40 if fixes >= 3 else 4"),
        Fix("input.bound", "cache_in_memory", "data.cache()"),
        Fix("debug.print", "take_tf_print", "if fixes < 5:"),
    ),
}


@dataclass(frozen=True)
class Stage:
    """The recording of a program with some fixes that has the median step.

    Attributes:
        loads: System load averages before all recordings of the stage.
    """

    step_ms: float
    headline: str
    findings: tuple[Finding, ...]
    loads: tuple[float, ...]


def main(arguments: Sequence[str] | None = None) -> int:
    """Record, and print or write the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--only", choices=FIXES, help="the framework to measure")
    parser.add_argument("--folder", type=Path, help="the folder for the recordings")
    parser.add_argument("--write", type=Path, help="the page to write the tables into")
    options = parser.parse_args(arguments)
    begun = machine()
    with tempfile.TemporaryDirectory() as made:
        folder = options.folder or Path(made)
        for framework in [options.only] if options.only else FIXES:
            stages = record_stages(framework, folder / framework, options.turns)
            text = "\n".join(section_lines(framework, stages, begun))
            if options.write is None:
                sys.stdout.write(f"{text}\n\n")
            else:
                replace_section(options.write, framework, text)
    return 0


def record_stages(framework: str, folder: Path, turns: int) -> list[Stage]:
    """Record all stages in turns, and return the median recording of each."""
    counts = range(len(FIXES[framework]) + 1)
    for turn in range(turns):
        for fixes in counts:
            record_program(framework, fixes, folder / f"{fixes} fixes, turn {turn}")
    return [
        median_recording(
            [folder / f"{fixes} fixes, turn {turn}" for turn in range(turns)]
        )
        for fixes in counts
    ]


def record_program(framework: str, fixes: int, folder: Path) -> None:
    """Record a program with its first fixes, unless that was done before.

    Raises:
        SystemExit: The environment of the framework is missing, or the program failed.
    """
    if (folder / "log").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    (folder / LOAD).write_text(str(os.getloadavg()[0]))
    python = interpreter(framework)
    if python is None:
        raise SystemExit(f"{framework} is not there. Run `make frameworks`.")
    window = ("--skip-steps", SKIPPED, "--steps", RECORDED, "--max-s", MOST_RECORDED_S)
    program = (PROGRAMS / f"train_{framework}.py", "--fixes", fixes, "--steps", STEPS)
    command = ("run", "--no-report", *window, "--logdir", folder / "log", "--", python)
    done = subprocess.run(
        [sys.executable, "-m", "stepscope", *map(str, (*command, *program))],
        env={**os.environ, **SURROUNDINGS, **ONE_THREAD},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    sys.stderr.write(f"{folder.name}: {done.stdout.strip().rpartition(chr(10))[2]}\n")
    if done.returncode:
        raise SystemExit(done.stderr)


def median_recording(folders: Sequence[Path]) -> Stage:
    """Return the recording with the median step.

    Raises:
        SystemExit: A recording has no steps.
    """
    by_step = []
    loads = tuple(float((folder / LOAD).read_text()) for folder in folders)
    for folder in folders:
        report = ss.report(folder / "log")
        overview = report.document.overview
        if isinstance(overview, ss.Unavailable) or not overview.steps:
            raise SystemExit(f"{folder} has no steps.")
        step_ms = statistics.mean(step.duration_ms for step in overview.steps)
        by_step.append(Stage(step_ms, report.headline, report.findings, loads))
    return sorted(by_step, key=lambda stage: stage.step_ms)[len(by_step) // 2]


def section_lines(framework: str, stages: Sequence[Stage], begun: str) -> list[str]:
    """Write the table of a program, and what all fixes together brought."""
    before, after = stages[0].step_ms, stages[-1].step_ms
    loads = sorted(load for stage in stages for load in stage.loads)
    return [
        f"{begun.partition(' System load')[0]} {versions(framework)}.",
        f"System load average at the recordings: {loads[0]:.1f} to {loads[-1]:.1f}.",
        "",
        *markdown_table(HEAD, table_rows(FIXES[framework], stages)),
        "",
        (
            f"Before the fixes a step took {before:.1f} ms, after them {after:.1f} ms: "
            f"{before / after:.1f} times as fast."
        ),
    ]


def table_rows(
    fixes: Sequence[Fix], stages: Sequence[Stage]
) -> Iterator[Sequence[str]]:
    """Write a row for each stage: what was said, changed, predicted and measured."""
    for number, stage in enumerate(stages):
        row = (str(number), stage.headline, f"{stage.step_ms:.1f}")
        if number == len(fixes):
            yield (*row, "–", "–", "–")
            continue
        fix, measured_ms = fixes[number], stages[number + 1].step_ms
        change = (
            f"`{fix.line}` ([`{fix.rule}`](advice/{fix.rule.replace('.', '_')}.md))"
        )
        predicted = step_after(stage.findings, fix)
        yield (*row, change, *prediction_cells(predicted, measured_ms))


def step_after(findings: Sequence[Finding], fix: Fix) -> StepTime | None:
    """Return the predicted step after a fix; None if no model is for it.

    Raises:
        SystemExit: The report does not advise the fix.
    """
    finding = next((it for it in findings if it.id == fix.rule), None)
    failed = finding is not None and finding.status == "fail"
    if finding is None or fix.action not in {it.id for it in finding.actions if failed}:
        raise SystemExit(f"The report does not advise {fix.rule}, {fix.action}.")
    own = (it.step_ms for it in finding.predictions if it.action == fix.action)
    return next(own, None)


def prediction_cells(predicted: StepTime | None, measured_ms: float) -> tuple[str, str]:
    """Write a prediction, and where the measured step is relative to it."""
    measured = f"{measured_ms:.1f}"
    if predicted is None:
        return "not known", measured
    if predicted.mid is None or predicted.high is None:
        place = "below" if measured_ms < predicted.low else "above"
        return f"at least {predicted.low:.1f}", f"{measured}, {place}"
    place = "inside"
    if not predicted.low <= measured_ms <= predicted.high:
        place = "below" if measured_ms < predicted.low else "above"
    interval = f"{predicted.mid:.1f} ({predicted.low:.1f} to {predicted.high:.1f})"
    return interval, f"{measured}, {place}"


def versions(framework: str) -> str:
    """Name the versions of a framework's environment."""
    names = {"tensorflow": ("tensorflow-cpu", "keras")}.get(framework, (framework,))
    code = (
        "import sys, importlib.metadata as m;"
        "print(', '.join(f'{name} {m.version(name)}' for name in sys.argv[1:]))"
    )
    told = subprocess.run(
        [str(interpreter(framework)), "-c", code, *names, "numpy"],
        check=True,
        capture_output=True,
        text=True,
    )
    return told.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
