"""The lines that Keras's callback prints after `fit`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.programs.frameworks import interpreter, run_program
from tests.support.programs.trainers import train

import stepscope as ss

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.framework, pytest.mark.integration]


def test_a_fit_prints_headline_and_place(repository: Path, tmp_path: Path) -> None:
    program = repository / "examples" / "keras_fit.py"
    done = train(program, tmp_path, KERAS_BACKEND="torch")
    assert done.status == 0, done.errors
    lines = done.last_lines()
    assert lines[0] == " ".join(ss.report(tmp_path).headline.split())
    assert lines[-1] == f"all findings: stepscope report {tmp_path}"


def test_without_polars_a_fit_says_what_a_report_needs(
    repository: Path, tmp_path: Path
) -> None:
    done = run_program(
        interpreter("keras_jax"),
        repository / "examples" / "keras_fit.py",
        tmp_path,
        environment={"KERAS_BACKEND": "jax"},
    )
    (line,) = (it for it in done.stderr.splitlines() if it.startswith("stepscope: "))
    assert "a report needs polars" in line
