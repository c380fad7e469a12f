"""Carry out the changes that advice names, and compare the steps with the predictions.

    python benchmarks/gains.py [--count 8] [--seed 1] [--folder DIR] [--seconds 170]
        [--only TEXT]

Each drawn program has one fault (`gains/gain_program.py`). It is recorded as it is, and
with each change that an action of a failing finding advises. A change counts as
predicted if such a finding has a prediction of its model and number, with an interval.
The table has the share of changes whose step time is inside the 90 % interval, the
median error and width, and the same for three guesses that need no model. Recorded
steps are compared with recorded ones, as `stepscope report --against` does: what a
recorder adds to a step it adds before and after. After the first recording come turns
without and with each change. Step times are taken relative to those without a change in
the same turns, so that the load of the machine cancels out; the row `unchanged` says
how much it changed since the first recording.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from pages import machine
from recorded_programs import HERE, SURROUNDINGS, record_programs, request
from stepscope.advice.engine import evaluate, signals_of
from stepscope.advice.finding import Finding
from stepscope.capture.base.options import MAX_EVENTS, MIN_WINDOW_S
from stepscope.derive.facts.step_shares import account_signals
from stepscope.derive.predictions.step_times import Prediction
from stepscope.errors import StepscopeError
from stepscope.session import open_profile

PROGRAM = HERE / "gains" / "gain_program.py"
_PATHS = os.pathsep.join([str(HERE.parent / "src"), str(HERE / "causes")])
KINDS = ("python", "numpy", "sleep")
#: Fault → in which programs, and its changes: what is changed, and a number.
FAULTS: dict[str, tuple[tuple[str, ...], tuple[tuple[str, int], ...]]] = {
    "batch": (("plain",), (("ahead", 1), ("cached", 1))),
    "loader0": (("torch",), (("workers", 1), ("workers", 2), ("cached", 1))),
    "loader1": (("torch",), (("workers", 2),)),
    "step": (("plain", "torch"), (("removed", 1), ("rarer", 10), ("thread", 1))),
    "collect": (("plain", "torch"), (("removed", 1), ("rarer", 10))),
    "checkpoint": (("plain", "torch"), (("rarer", 10), ("thread", 1))),
}
#: Change → the models that an action declares which advises it.
DECLARED = {
    "ahead": {"overlap", "queue"},
    "cached": {"removed"},
    "workers": {"queue"},
    "removed": {"removed"},
    "rarer": {"rarer"},
    "thread": {"overlap", "pause"},
}
#: Change → the models whose prediction is about it.
MODELS = {
    "ahead": {"queue", "overlap"},
    "cached": {"removed", "replay"},
    "workers": {"queue"},
    "removed": {"removed", "replay"},
    "rarer": {"rarer"},
    "thread": {"overlap", "pause"},
}
SKIPPED, RECORDED = 8, 20
#: So many steps hold what is done rarely as often as the program does it.
RARELY = 40
#: So many programs are recorded one after the other, then so many times in turns.
TOGETHER, TURNS = 6, 4
#: What is changed, and a number; None changes nothing.
Change = tuple[str, int] | None
LIMIT_S = 40.0


@dataclass(frozen=True)
class Case:
    """A drawn program, and its changes."""

    name: str
    plan: dict[str, Any]
    changes: tuple[tuple[str, int], ...]


@dataclass
class Outcome:
    """A change that was carried out.

    Attributes:
        before_ms: The mean step of the first recording.
        after_ms: That after the change, in terms of the first recording.
        prediction: What was predicted of it; None where no model is for it.
        effect_ms: What the finding says is lost per step; None without a finding.
    """

    case: str
    change: str
    before_ms: float
    after_ms: float
    prediction: Prediction | None
    effect_ms: float | None
    noted: str = ""


@dataclass
class Score:
    """How a way to predict fared: of how many, inside, errors and widths in percent."""

    name: str
    inside: list[bool] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)
    widths: list[float] = field(default_factory=list)

    def add(self, outcome: Outcome, low: float, mid: float, high: float) -> None:
        """Count an interval of the step after a change."""
        self.inside.append(low <= outcome.after_ms <= high)
        self.errors.append(100 * abs(mid - outcome.after_ms) / outcome.after_ms)
        self.widths.append(100 * (high - low) / outcome.before_ms)

    def row(self, of: int) -> str:
        """Return the row of the table."""
        count = len(self.inside)
        if not count:
            return f"{self.name:28} {0:3} of {of}"
        return (
            f"{self.name:28} {count:3} of {of}  inside {sum(self.inside) / count:4.0%}"
            f"  median error {statistics.median(self.errors):5.1f} %"
            f"  median width {statistics.median(self.widths):5.1f} % of the step before"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw, record, change, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="text in the programs' names")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--seconds", type=float, default=170)
    options = parser.parse_args(arguments)
    ends = time.monotonic() + options.seconds
    cases = [
        case
        for case in draw_cases(options.count, options.seed)
        if options.only in case.name
    ]
    with tempfile.TemporaryDirectory() as made:
        folder = (options.folder or Path(made)) / str(options.seed)
        outcomes = []
        for begin in range(0, len(cases), TOGETHER):
            if time.monotonic() > ends:
                sys.stderr.write(f"no time is left for {cases[begin].name}\n")
                break
            carried_out = carry_out(cases[begin : begin + TOGETHER], folder)
            sys.stdout.writelines(f"{row_of(one)}\n" for one in carried_out)
            sys.stdout.flush()
            outcomes += carried_out
    lines = ["", machine(), f"load {os.getloadavg()[0]:.1f}", *score_lines(outcomes)]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def draw_cases(
    count: int, seed: int, faults: Sequence[str] = tuple(FAULTS)
) -> list[Case]:
    """Draw programs; each fault comes in turn, with sizes and kinds at random."""
    dice = random.Random(seed)  # noqa: S311 - a draw that can be repeated
    per_ms = {kind: _rounds_per_ms(kind) for kind in (*KINDS, "rows", "checkpoint")}
    cases = []
    for number in range(count):
        fault = faults[number % len(faults)]
        frameworks, changes = FAULTS[fault]
        framework, kind = dice.choice(frameworks), dice.choice(KINDS)
        base_ms = 5 * 8 ** dice.random()
        work_ms = base_ms * 3 ** dice.uniform(-1, 1)
        amount = {"checkpoint": "checkpoint", "collect": "collect"}.get(fault, kind)
        if amount == "collect":
            rounds = 2000 * work_ms
        else:
            rounds = per_ms[amount] * work_ms * (4 if fault == "checkpoint" else 1)
        # PyTorch computes gradients too.
        rows = per_ms["rows"] * base_ms / {"plain": 1, "torch": 2}[framework]
        plan = {
            "framework": framework,
            "fault": fault,
            "kind": kind,
            "rounds": max(1, rounds),
            "rows": max(8, rows),
            "seed": dice.randrange(1000),
            "steps": SKIPPED + RECORDED + 1,
            "skip": SKIPPED,
            "starts": 0,
            "timed_s": 2 * MIN_WINDOW_S,
        }
        name = f"{number:02}-{framework}-{fault}-{kind}-{base_ms:.0f}+{work_ms:.0f}ms"
        cases.append(Case(name, plan, changes))
    return cases


def _rounds_per_ms(kind: str) -> float:
    """Return how many rounds of a kind of work take a millisecond."""
    code = (
        "import json,os,sys,time;"
        f"sys.path[:0]={[str(PROGRAM.parent), *_PATHS.split(os.pathsep)]!r};"
        "import gain_program as p,numpy as np;"
        "rows=lambda n:np.resize(p.WEIGHTS,(int(n),192));"
        "w={**p.WORKS,'rows':lambda n:p.train_plain(rows(n)),"
        "'checkpoint':lambda n:(p.PLAN.update(rounds=n),p.save_checkpoint(p.WEIGHTS))};"
        f"f=w[{kind!r}];n=256.0 if {kind!r}=='rows' else 16.0;f(n);t=[];\n"
        "for _ in range(9):\n b=time.perf_counter();f(n)\n"
        " t.append(time.perf_counter()-b)\n"
        "print(n/min(t)/1000)"
    )
    environment = {**os.environ, **SURROUNDINGS, "GAINS_PLAN": '{"seed": 1}'}
    told = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    return 1.0 if kind == "sleep" else float(told.stdout)


def carry_out(cases: Sequence[Case], folder: Path) -> list[Outcome]:
    """Record programs as they are, and then with each of their changes."""
    record_cases([(case, None, folder / case.name / "before") for case in cases])
    before = {case.name: read_case(folder / case.name / "before") for case in cases}
    places: dict[tuple[str, Change], list[Path]] = {}
    turns: list[list[tuple[Case, Change, Path]]] = [[] for _ in range(TURNS)]
    for case in cases:
        recorded = before[case.name]
        if recorded is None:
            continue
        advised = {
            model
            for finding in recorded[1]
            if finding.status == "fail"
            for action in finding.actions
            for model in action.models
        }
        changes = [one for one in case.changes if DECLARED[one[0]] & advised]
        for turn, change in product(range(TURNS), (None, *changes)):
            place = folder / case.name / f"{_name_of(change)} {turn}"
            places.setdefault((case.name, change), []).append(place)
            turns[turn].append((case, change, place))
    for wanted in turns:
        record_cases(wanted)
    step_ms = {key: _mean_step_ms(folders) for key, folders in places.items()}
    outcomes = []
    for (name, change), changed_ms in step_ms.items():
        recorded, unchanged_ms = before[name], step_ms[name, None]
        if recorded is None or changed_ms is None or unchanged_ms is None:
            continue
        before_ms, findings = recorded
        scale = 1.0 if change is None else before_ms / unchanged_ms
        told = _prediction_of(change, findings)
        after_ms = changed_ms * scale
        outcomes.append(Outcome(name, _name_of(change), before_ms, after_ms, *told))
    return outcomes


def _mean_step_ms(folders: Sequence[Path]) -> float | None:
    """Return the mean step of recordings; None if none can be read."""
    recorded = [one[0] for one in map(read_case, folders) if one is not None]
    return statistics.mean(recorded) if recorded else None


def _name_of(change: Change) -> str:
    return "unchanged" if change is None else f"{change[0]} {change[1]}"


def _prediction_of(
    change: Change, findings: Iterable[Finding]
) -> tuple[Prediction | None, float | None, str]:
    """Return the prediction of a change, the lost time, and which finding it is of."""
    failing = [finding for finding in findings if finding.status == "fail"]
    failing.sort(key=lambda one: -(one.saving_ms.high if one.saving_ms else 0.0))
    noted = ",".join(finding.id for finding in failing[:3])
    largest = next((one.saving_ms.high for one in failing if one.saving_ms), None)
    if change is None:
        return None, largest, noted
    what, number = change
    for finding in failing:
        for prediction in finding.predictions:
            parameter = prediction.parameter
            is_same = parameter is None or parameter.value == number
            is_bound = prediction.step_ms.mid is None
            if prediction.model in MODELS[what] and is_same and not is_bound:
                noted = f"{finding.id} {prediction.action}"
                effect_ms = finding.saving_ms.high if finding.saving_ms else largest
                return prediction, effect_ms, noted
    return None, largest, noted


def read_case(folder: Path) -> tuple[float, tuple[Finding, ...]] | None:
    """Return the mean step in ms of a recording, and the findings about it.

    None, and a line, if it cannot be read.
    """
    try:
        signals = signals_of(open_profile(folder / "log"))
    except StepscopeError as error:
        sys.stderr.write(f"not read: {folder}: {error}\n")
        return None
    account = signals.known(account_signals)
    if account is None:
        sys.stderr.write(f"no steps: {folder}\n")
        return None
    windows = account.shares[0].window_ps
    return sum(windows) / len(windows) / 1e9, evaluate(signals)


def record_cases(wanted: Sequence[tuple[Case, Change, Path]]) -> None:
    """Record programs with their changes, unless that was done before."""
    asked: dict[str, list[dict[str, Any]]] = {}
    for case, change, folder in wanted:
        if (folder / "truth").exists():
            continue
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "gain_program.py"
        file.write_text(PROGRAM.read_text())
        one = request(
            file,
            folder,
            environment={
                "PROGRAM_TRUTH": str(folder / "truth"),
                "PROGRAM_NOTES": str(folder / "notes"),
                "GAINS_PLAN": json.dumps({**case.plan, "change": change}),
            },
            plan={
                "skip_steps": SKIPPED,
                "steps": RARELY if change and change[0] == "rarer" else RECORDED,
                "least_s": MIN_WINDOW_S,
                "max_events": MAX_EVENTS,
            },
            limit_s=LIMIT_S,
        )
        asked.setdefault(case.plan["framework"], []).append(one)
    for framework, requests in asked.items():
        written = wanted[0][2].parent / f"{framework}.json"
        seconds, paths = LIMIT_S * len(requests), {"PYTHONPATH": _PATHS}
        record_programs(framework, requests, written, seconds, paths)


def row_of(outcome: Outcome) -> str:
    """Write what a change brought, and what was predicted of it."""
    told = "–"
    if outcome.prediction is not None:
        step = outcome.prediction.step_ms
        high = step.high or 0.0
        is_in = "in" if step.low <= outcome.after_ms <= high else "OUT"
        told = f"{step.mid:7.2f} ({step.low:.2f} to {high:.2f}) {is_in}"
    return (
        f"{outcome.case:38} {outcome.change:10} {outcome.before_ms:8.2f} → "
        f"{outcome.after_ms:8.2f}  {told:32} {outcome.noted}"
    )


def score_lines(outcomes: Sequence[Outcome]) -> list[str]:
    """Write how the predictions and the guesses fared."""
    predicted, everything = Score("predicted"), Score("all of it")
    half, of_step = Score("half to all"), Score("half to all of the step")
    unchanged = Score("unchanged, 5 % allowed")
    changed = [one for one in outcomes if one.change != "unchanged"]
    for outcome in outcomes:
        before, effect = outcome.before_ms, outcome.effect_ms
        if outcome.change == "unchanged":
            unchanged.add(outcome, before * 0.95, before, before * 1.05)
            continue
        if outcome.prediction is not None:
            step = outcome.prediction.step_ms
            predicted.add(outcome, step.low, step.mid or 0.0, step.high or 0.0)
        if effect is not None:
            rest = before - effect
            everything.add(outcome, rest * 0.9, rest, rest * 1.1)
            half.add(outcome, rest, rest + effect / 4, rest + effect / 2)
            of_step.add(outcome, 0.0, before / 4, before / 2)
    scores = (predicted, everything, half, of_step)
    unchanged_row = unchanged.row(len(outcomes) - len(changed))
    return [*(score.row(len(changed)) for score in scores), unchanged_row]


if __name__ == "__main__":
    raise SystemExit(main())
