"""Every fifth step of a really recorded program waits longer, or none does.

The steps wait for a clock, and do not compute, so that others on the machine hardly
disturb their rhythm.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.integration

PERIOD: Final = 5
LONGER_MS: Final = 120
PROGRAM: Final = f"""
import sys, time
import stepscope as ss

def refresh_vocabulary():
    time.sleep({LONGER_MS} / 1000)

for step in range(60):
    with ss.StepTrace(step):
        time.sleep(0.03)
        if sys.argv[1] == "periodic" and step % {PERIOD} == {PERIOD} - 1:
            refresh_vocabulary()
"""
#: Rule → the fault on which it fails.
FAULTS: Final = {"step.periodic": "periodic"}


def recorded_finding(folder: Path, fault: str) -> dict[str, Any]:
    (folder / "program.py").write_text(PROGRAM)

    def stepscope(*arguments: str) -> str:
        asked = [sys.executable, "-m", "stepscope", *arguments]
        return subprocess.run(
            asked, cwd=folder, capture_output=True, text=True, check=True, timeout=120
        ).stdout

    asked = ("--steps", "40", "--no-report", "--logdir", "log")
    stepscope("run", *asked, "--", sys.executable, "program.py", fault)
    said = json.loads(stepscope("report", "--format", "json", "log"))
    (found,) = (one for one in said["findings"] if one["id"] == "step.periodic")
    return dict(found)


def test_a_wait_in_every_fifth_step_is_found_with_its_period(tmp_path: Path) -> None:
    found = recorded_finding(tmp_path, FAULTS["step.periodic"])
    assert found["status"] == "fail"
    facts = {fact["name"]: fact["value"] for fact in found["facts"]}
    assert facts["every"] == PERIOD
    assert facts["longer"] == pytest.approx(1000 * LONGER_MS, rel=0.1)
    assert found["parts"][0]["function"] == "refresh_vocabulary"


def test_steps_that_all_wait_equally_have_no_period(tmp_path: Path) -> None:
    assert recorded_finding(tmp_path, "healthy")["status"] == "pass"
