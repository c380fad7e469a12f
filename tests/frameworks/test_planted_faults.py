"""Faults planted in really recorded programs: each is what the report says first."""

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
#: (Framework, fault) → owner of the headline, and what it says.
FAULTS: Final = {
    ("plain", "python_loop"): ("host_compute", "count_words"),
    ("plain", "lock"): ("host_compute", "read_shared"),
    ("plain", "logging"): ("host_compute", "write_logs"),
    ("plain", "collect"): ("host_compute", "garbage collection"),
    ("plain", "slow_loader"): ("input", "waiting for data"),
    # Without a device the program's own work between steps is host compute too.
    ("plain", "callback"): ("host_compute", "on_batch_end"),
    ("plain", "checkpoint"): ("output", "save_checkpoint"),
    ("torch", "slow_transform"): ("host_compute", "normalize_by_hand"),
    ("torch", "slow_collate"): ("input", "waiting for data"),
    ("tensorflow", "sequential_map"): ("input", "waiting for data"),
    ("jax", "callback"): ("host_compute", "log_metrics"),
    ("jax", "recompile"): ("compile", "compil"),
    ("jax", "checkpoint"): ("output", "save_checkpoint"),
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
    owner, said = FAULTS[framework, fault]
    headline = report(framework, fault)["headline"]
    assert headline["owner"] == owner, headline
    assert said in headline["text"], headline


@pytest.mark.parametrize("framework", ["plain", "torch", "jax"])
def test_its_healthy_twin_has_none(
    framework: str, report: Callable[[str, str], Any]
) -> None:
    said = report(framework, "healthy")
    failing = [
        one["id"]
        for one in said["findings"]
        if one["status"] == "fail" and one["severity"] != "info"
    ]
    assert failing == []
    assert said["headline"]["finding"] is None
    assert said["headline"]["owner"] == "host_compute"
