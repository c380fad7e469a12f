"""Faults planted in really recorded programs: each is what the report says first.

A fault takes more than half of a step, or is the only thing of its kind, so that a busy
machine does not hide it; what is asserted are owners and the program's own functions.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from tests.support.programs.frameworks import interpreter

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.framework

PROGRAMS: Final = Path(__file__).parent / "programs"
#: Owners and findings that a headline may be about. Which rule is first depends on
#: where a step ends, and that on what marks it; the function that is named does not.
BETWEEN: Final = ("host_compute", "gap.callbacks", "step.periodic")
WRITING: Final = ("output", "gap.output")
COLLECTING: Final = ("host_compute", "gap.gc")
COMPILING: Final = ("compile", "xla.recompile")
INPUT: Final = ("input",)
WORK: Final = ("host_compute",)
#: (Framework, fault) → owners or findings of the headline, and what it says.
FAULTS: Final = {
    ("plain", "python_loop"): (WORK, "`count_words` (plain_program.py:"),
    ("plain", "lock"): (WORK, "`read_shared` (plain_program.py:"),
    ("plain", "logging"): (WORK, "`write_logs` (plain_program.py:"),
    ("plain", "collect"): (COLLECTING, "garbage"),
    ("plain", "slow_loader"): (INPUT, "`normalize_slowly` (plain_program.py:"),
    # Without a device the program's own work between steps is host compute too.
    ("plain", "callback"): (BETWEEN, "`Logs.on_batch_end` (plain_program.py:"),
    ("plain", "bursts"): (BETWEEN, "`validate` (plain_program.py:"),
    ("plain", "checkpoint"): (WRITING, "`save_checkpoint` (plain_program.py:"),
    ("torch", "slow_transform"): (
        WORK,
        "`normalize_by_hand` (torch_program.py:",
    ),
    ("torch", "slow_collate"): (INPUT, "`slow_collate` (torch_program.py:"),
    ("torch", "read_back"): (WORK, "`read_losses` (torch_program.py:"),
    ("torch", "callback"): (BETWEEN, "`log_metrics` (torch_program.py:"),
    ("torch", "checkpoint"): (WRITING, "`save_checkpoint` (torch_program.py:"),
    ("torch", "collect"): (COLLECTING, "garbage"),
    ("tensorflow", "sequential_map"): (INPUT, "Input-bound"),
    ("tensorflow", "numpy_function"): (
        INPUT,
        "`parse_by_hand` (tensorflow_program.py:",
    ),
    ("tensorflow", "eager"): (("launch.eager",), "Ops run one by one outside a graph"),
    ("tensorflow", "retrace"): (COMPILING, "take_step"),
    ("tensorflow", "callback"): (
        BETWEEN,
        "`log_metrics` (tensorflow_program.py:",
    ),
    ("tensorflow", "checkpoint"): (
        WRITING,
        "`save_checkpoint` (tensorflow_program.py:",
    ),
    ("jax", "slow_transform"): (WORK, "`transform` (jax_program.py:"),
    ("jax", "read_back"): (WORK, "`read_norms` (jax_program.py:"),
    # A long collection or pause lies between no two ops: then the function is blamed.
    ("jax", "eager"): (("launch.eager", "host_compute"), "(jax_program.py:"),
    ("jax", "callback"): (BETWEEN, "`log_metrics` (jax_program.py:"),
    ("jax", "recompile"): (COMPILING, "update"),
    ("jax", "checkpoint"): (WRITING, "`save_checkpoint` (jax_program.py:"),
}
#: One thread for each program: the tests may share the machine.
_SURROUNDINGS: Final = {
    "CUDA_VISIBLE_DEVICES": "-1",
    "JAX_PLATFORMS": "cpu",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}


def stepscope(folder: Path, *arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "stepscope", *map(str, arguments)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
        env={**os.environ, **_SURROUNDINGS},
    )
    return done.stdout


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Any]:
    """Record a program at default options, and what the report says of it."""

    def recorded(framework: str, fault: str) -> Any:
        folder = tmp_path_factory.mktemp(f"{framework}-{fault}")
        python = sys.executable if framework == "plain" else interpreter(framework)
        program = PROGRAMS / f"{framework}_program.py"
        asked = ("--no-report", "--logdir", "log", "--", python, program, fault)
        stepscope(folder, "run", *asked)
        return json.loads(stepscope(folder, "report", "--format", "json", "log"))

    return recorded


@pytest.mark.parametrize(("framework", "fault"), list(FAULTS))
def test_the_fault_is_said_first(
    framework: str, fault: str, report: Callable[[str, str], Any]
) -> None:
    about, said = FAULTS[framework, fault]

    def is_named(headline: dict[str, Any]) -> bool:
        subjects = {headline["owner"], headline["finding"]}
        return bool(subjects.intersection(about)) and said in headline["text"]

    # What else the machine does may disturb one recording.
    tried = [report(framework, fault)["headline"]]
    if not is_named(tried[0]):
        tried.append(report(framework, fault)["headline"])
    assert is_named(tried[-1]), tried


@pytest.mark.parametrize("framework", ["plain", "torch", "tensorflow", "jax"])
def test_its_healthy_twin_has_none(
    framework: str, report: Callable[[str, str], Any]
) -> None:
    def alarms(said: Any) -> list[str]:
        return [
            one["id"]
            for one in said["findings"]
            if one["status"] == "fail" and one["severity"] != "info"
        ]

    said = report(framework, "healthy")
    if alarms(said):
        said = report(framework, "healthy")
    assert alarms(said) == []
    assert said["headline"]["finding"] is None
    assert said["headline"]["owner"] == "host_compute"
