"""A type checker knows what a derivation and a tool give."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path
from typing import get_overloads

import pytest

import stepscope as ss
from stepscope.analysis.tools import TOOLS

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@pytest.mark.slow
def test_mypy_agrees_with_what_is_said_of_the_public_surface() -> None:
    pytest.importorskip("mypy", reason="mypy checks types; the extra `dev` has it")
    run = subprocess.run(
        [sys.executable, "-m", "mypy", HERE / "api.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_every_tool_is_typed_by_all_its_names() -> None:
    said = {}
    *of_tools, _of_any_name = get_overloads(ss.ProfileData.tool)
    for overload in of_tools:
        signature = inspect.signature(overload)
        names = ast.literal_eval(
            signature.parameters["name"].annotation.removeprefix("Literal")
        )
        said[tuple(names)] = signature.return_annotation
    declared = {}
    for tool in TOOLS:
        returned = inspect.signature(tool.analyse).return_annotation
        declared[tool.name, *tool.aliases] = f"{tool.name}.{returned}"
    assert said == declared


def test_what_is_opened_is_the_public_class() -> None:
    profile = ss.open(ROOT / "tests" / "data" / "torch_train")
    assert isinstance(profile, ss.ProfileData)
    assert isinstance(profile.select(profile.hosts), ss.ProfileData)
