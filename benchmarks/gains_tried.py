"""Let `stepscope try` carry out changes, and compare the steps with its promises.

    python benchmarks/gains_tried.py [--count 8] [--seed 1] [--seconds 600]
        [--budget 3m]

The programs are those of `gains.py` whose faults `try` can change from outside. It
records each, promises what its changes gain, and times it in turns with and without
them. The table is that of `gains.py`: each row is a change that `try` carried out.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gains import PROGRAM, Case, Outcome, draw_cases, row_of, score_lines
from overhead import interpreter
from pages import machine
from recorded_programs import HERE, SURROUNDINGS
from stepscope.derive.predictions.step_times import Prediction, StepTime

#: Faults that a knob answers → the finding about them.
TRIED = {"loader0": "input.bound", "loader1": "input.bound", "collect": "gap.gc"}
_PATHS = os.pathsep.join([str(HERE.parent / "src"), str(HERE / "causes")])
#: A program takes steps for longer than a turn.
_LASTS_S = 600.0
#: `try` stops by itself; one that does not is killed after so many seconds.
_LIMIT_S = 600.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw, try, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--budget", default="3m", help="of each program")
    options = parser.parse_args(arguments)
    ends = time.monotonic() + options.seconds
    outcomes: list[Outcome] = []
    for case in draw_cases(options.count, options.seed, tuple(TRIED)):
        if time.monotonic() > ends:
            sys.stderr.write(f"no time is left for {case.name}\n")
            break
        tried = try_case(case, options.budget)
        sys.stdout.writelines(f"{row_of(one)}\n" for one in tried)
        sys.stdout.flush()
        outcomes += tried
    lines = ["", machine(), f"load {os.getloadavg()[0]:.1f}", *score_lines(outcomes)]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def try_case(case: Case, budget: str) -> list[Outcome]:
    """Run `stepscope try` on a program, and return what its changes brought."""
    plan = {**case.plan, "change": None, "timed_s": _LASTS_S}
    is_plain = case.plan["framework"] == "plain"
    python = sys.executable if is_plain else str(interpreter(case.plan["framework"]))
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            **SURROUNDINGS,
            "PYTHONPATH": _PATHS,
            "PROGRAM_TRUTH": str(Path(folder, "truth")),
            "GAINS_PLAN": json.dumps(plan),
        }
        rule = TRIED[case.plan["fault"]]
        asked = ["try", rule, "--budget", budget, "--format", "json"]
        command = [sys.executable, "-m", "stepscope", *asked, "--logdir", folder]
        command += ["--", python, str(PROGRAM)]
        told = subprocess.run(
            command,
            env=environment,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
    if not told.stdout.startswith("{"):
        last = told.stderr.strip().rpartition("\n")[2]
        sys.stderr.write(f"not tried: {case.name}: {last}\n")
        return []
    rows = json.loads(told.stdout)["trials"]
    return [_outcome(case, row) for row in rows if row["step_time"] is not None]


def _outcome(case: Case, row: dict[str, Any]) -> Outcome:
    step_time, promise = row["step_time"], row["promise"]
    before_ms = step_time["base_ms"]
    prediction = None
    if promise is not None and promise["basis"] == "model":
        low_ms = before_ms - promise["high_ms"]
        high_ms = before_ms - promise["low_ms"]
        step_ms = StepTime(low=low_ms, mid=before_ms - promise["mid_ms"], high=high_ms)
        prediction = Prediction(action=row["change"], step_ms=step_ms, model="queue")
    return Outcome(
        case.name,
        row["change"],
        before_ms,
        before_ms + step_time["change_ms"],
        prediction,
        promise["effect_ms"] if promise else None,
        f"{row['finding']} {row['outcome']}",
    )


if __name__ == "__main__":
    raise SystemExit(main())
