"""What recording a program costs: from given lengths of steps, and from a run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from stepscope.cli.main import main
from stepscope.doctor.recording_cost import Trial, cost_checks

if TYPE_CHECKING:
    from pathlib import Path

#: Medians of 10 ms and of 12 ms, middle halves from 9 to 11 and from 11.5 to 12.5.
OTHERS = (0.008, 0.009, 0.010, 0.011, 0.012)
RECORDED = (0.011, 0.0115, 0.012, 0.0125, 0.013)
TRIAL = Trial(
    program="train.py",
    size=20 * 2**10,
    first=21,
    last=40,
    seconds=None,
    unrecorded_s=OTHERS,
    recorded_s=RECORDED,
    start_s=0.5,
    stop_s=0.025,
    wanted=40,
)


def said(trial: Trial) -> dict[str, tuple[str, str]]:
    """State and fact of each check, by its name."""
    checks = cost_checks(trial)
    assert {check.group for check in checks} == {"recording train.py"}
    return {check.name: (check.state, check.fact) for check in checks}


def test_size_and_slowdown_are_those_of_the_steps() -> None:
    found = said(TRIAL)
    # 1 KiB a step of 12 ms.
    size = "20.0 KiB for 20 steps: 1.00 KiB a step, 83.3 KiB a second"
    assert found["size"] == ("ok", f"{size}; 100 steps about 100 KiB")
    recorded = "recorded steps took 12.0 ms (11.5 ms to 12.5 ms)"
    before = "the steps before them 10.0 ms (9.00 ms to 11.0 ms): +20.0 %"
    assert found["slowdown"] == ("ok", f"{recorded}, {before}")
    assert (
        "waited 500 ms for the recording to begin, and 25.0 ms"
        in (found["start and stop"][1])
    )
    assert found["how it was measured"][1].startswith("steps 21 to 40 of one run")


def test_a_difference_that_steps_have_anyway_is_none() -> None:
    noisy = TRIAL._replace(unrecorded_s=(0.008, 0.009, 0.010, 0.0116, 0.012))
    state, text = said(noisy)["slowdown"]
    assert state == "ok"
    assert text.endswith("+20.0 %; but the two ranges overlap")


def test_a_slowdown_that_a_run_would_not_allow_is_a_warning() -> None:
    slow = TRIAL._replace(recorded_s=tuple(5 * it for it in OTHERS))
    assert said(slow)["slowdown"][0] == "ok"
    slower = TRIAL._replace(recorded_s=tuple(5.1 * it for it in OTHERS))
    state, text = said(slower)["slowdown"]
    assert state == "warn"
    assert text.endswith("above +400% stepscope run records less")


def test_too_few_steps_give_a_size_and_no_slowdown() -> None:
    found = said(TRIAL._replace(last=23, recorded_s=RECORDED[:2]))
    assert found["size"][1].startswith("20.0 KiB for 3 steps: 6.67 KiB a step")
    assert found["slowdown"] == (
        "warn",
        "the program ended after step 23 of 40, so the cost is unknown",
    )


def test_without_steps_there_is_a_size_by_time() -> None:
    found = said(TRIAL._replace(first=None, last=None, seconds=5.0))
    assert found["size"] == ("ok", "20.0 KiB in 5 s: 4.00 KiB a second")
    assert found["slowdown"][0] == "skip"


@pytest.mark.parametrize(
    "trial",
    [TRIAL._replace(size=None), TRIAL._replace(first=None, last=None)],
)
def test_what_was_not_recorded_is_not_known(trial: Trial) -> None:
    ((state, text),) = said(trial).values()
    assert state == "warn"
    assert text.endswith("so the cost is unknown")


PROGRAM = """
import sys, time
import stepscope as ss
for number in range(60):
    with ss.StepTrace(number):
        time.sleep(0.002)
print("trained", sys.argv[1:])
sys.exit(7)
"""


@pytest.mark.slow
@pytest.mark.parametrize("form", ["text", "json"])
def test_a_program_is_measured_and_nothing_is_left(tmp_path: Path, form: str) -> None:
    """It is started as a process of its own."""
    (tmp_path / "train.py").write_text(PROGRAM, encoding="utf-8")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    options = ("--format", form, "--", "train.py", "--format", "-x")
    done = subprocess.run(
        [sys.executable, "-m", "stepscope", "doctor", *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "TMPDIR": str(scratch)},
    )
    assert done.returncode == 7
    first, *rest = done.stdout.splitlines()
    assert first == "trained ['--format', '-x']"
    if form == "json":
        checks = json.loads(rest[-1])["checks"]
        assert [check["name"] for check in checks] == [
            *("size", "slowdown", "start and stop", "how it was measured"),
        ]
        assert "for 20 steps" in checks[0]["fact"]
        assert "steps 21 to 40" in checks[3]["fact"]
    else:
        assert rest == []
        assert "20 steps: " in done.stderr
    assert list(scratch.iterdir()) == []
    assert [path.name for path in tmp_path.iterdir() if path != scratch] == ["train.py"]


def test_a_path_and_a_program_are_one_too_many() -> None:
    done = CliRunner().invoke(main, ["doctor", "logs", "--", "train.py"])
    assert done.exit_code == 2
    assert "the doctor checks only one" in done.stderr
