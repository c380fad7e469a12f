"""Memory that is full, fragmented or too small in really recorded programs.

Each fault has a healthy twin, the same program without it. Limits of memory are those
of the CPU: the allocator's (TF_MKL_ALLOC_MAX_BYTES), or the process's (RLIMIT_AS).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from tests.support.programs.frameworks import interpreter

pytestmark = [pytest.mark.framework, pytest.mark.integration]

PROGRAMS: Final = Path(__file__).parent / "programs"
HEALTHY: Final = "healthy"
MIB: Final = 1 << 20
LIMIT: Final = 256 * MIB
#: Rule → the framework of the program, and the fault, on which it fails.
FAULTS: Final = {
    "mem.peak": ("tensorflow", "full"),
    "mem.fragmentation": ("tensorflow", "fragmented"),
    "mem.oom": ("torch", "too_large"),
}


def recorded_findings(folder: Path, framework: str, fault: str) -> dict[str, Any]:
    """Record a program and return the findings about memory, by rule."""

    def stepscope(*arguments: object, ends_well: bool = True) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "stepscope", *map(str, arguments)],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
            env={
                **os.environ,
                "CUDA_VISIBLE_DEVICES": "-1",
                "TF_CPP_MIN_LOG_LEVEL": "3",
                "TF_MKL_ALLOC_MAX_BYTES": str(LIMIT),
            },
        )
        assert (done.returncode == 0) is ends_well, done.stderr
        return done.stdout

    program = PROGRAMS / f"memory_{framework}.py"
    asked = ("--profile-memory", "--no-report", "--logdir", "log")
    command = ("--", interpreter(framework), program, fault)
    stepscope("run", *asked, *command, ends_well=fault != "too_large")
    said = json.loads(stepscope("report", "--format", "json", "log"))
    return {one["id"]: one for one in said["findings"]}


def facts_of(finding: dict[str, Any]) -> dict[str, Any]:
    return {fact["name"]: fact["value"] for fact in finding["facts"]}


@pytest.mark.parametrize("framework", ["tensorflow", "torch"])
def test_a_program_with_enough_memory_has_no_fault(
    framework: str, tmp_path: Path
) -> None:
    found = recorded_findings(tmp_path, framework, HEALTHY)
    judged = {rule for rule, (of, _) in FAULTS.items() if of == framework}
    assert {rule: found[rule]["status"] for rule in judged} == dict.fromkeys(
        judged, "pass"
    )
    assert all(found[rule]["calibrated"] for rule in judged)
    # Of the memory of a process alone the rule says nothing good.
    assert found["mem.peak"]["status"] in {"pass", "cannot_tell"}


def test_an_allocator_that_is_nearly_full_is_found(tmp_path: Path) -> None:
    found = recorded_findings(tmp_path, *FAULTS["mem.peak"])
    # 242 pieces of 1 MiB are held, and a step adds a piece, its double and a sum.
    assert (found["mem.peak"]["status"], found["mem.peak"]["severity"]) == (
        "fail",
        "warn",
    )
    assert 242 / 256 <= found["mem.peak"]["value"] <= 246 / 256
    assert found["mem.fragmentation"]["status"] == "pass"


def test_a_process_near_its_limit_is_found(tmp_path: Path) -> None:
    found = recorded_findings(tmp_path, "torch", "full")["mem.peak"]
    assert (found["status"], found["severity"]) in {
        ("fail", "warn"),
        ("fail", "critical"),
    }
    (label,) = found["devices"]
    assert label.endswith(":process")
    # The limit leaves 1 GiB, of which 950 MiB are held.
    facts = facts_of(found)
    assert 0 <= facts["capacity_gib"] - facts["peak_gib"] <= 74 / 1024


def test_free_memory_between_what_is_kept_is_fragmented(tmp_path: Path) -> None:
    found = recorded_findings(tmp_path, *FAULTS["mem.fragmentation"])
    assert found["mem.fragmentation"]["status"] == "fail"
    facts = facts_of(found["mem.fragmentation"])
    # Of 256 MiB 121 are kept; the largest chunk is what was never allocated.
    assert 130 / 1024 <= facts["free_gib"] <= 135 / 1024
    assert 11 / 1024 <= facts["largest_gib"] <= 14 / 1024
    assert found["mem.peak"]["status"] == "pass"


def test_an_allocation_that_does_not_fit_is_found(tmp_path: Path) -> None:
    found = recorded_findings(tmp_path, *FAULTS["mem.oom"])["mem.oom"]
    assert (found["status"], found["severity"]) == ("fail", "critical")
    facts = facts_of(found)
    # 2,000,000 rows of 512 numbers of four bytes.
    assert facts["asked_gib"] == pytest.approx(2e6 * 512 * 4 / 2**30, rel=0.01)
    # The host's allocator reserves nothing in advance.
    assert facts["kept_gib"] is None
