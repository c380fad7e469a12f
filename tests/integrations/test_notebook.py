"""`%%stepscope` and reports in a notebook that `nbconvert` executes."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.programs.frameworks import ROOT, interpreter
from tests.support.programs.trainers import recorded_steps

import stepscope as ss

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.framework, pytest.mark.integration]

CELLS = {
    "load": "%load_ext stepscope",
    "record": """%%stepscope cell
import time
import stepscope as ss
for number in range(8):
    with ss.StepTrace(number):
        with ss.Trace("load rows"):
            time.sleep(0.02)
        total = sum(range(100_000))""",
    "open": "print(total)\nss.report('cell')",
    "raise": "%%stepscope other\n1 / 0",
    "start": "ss.start('other')",
    "refused": "%%stepscope\nprint('not executed')",
}


def notebook_of(cells: dict[str, str]) -> dict[str, Any]:
    """A notebook in the format of Jupyter."""
    written = [
        {
            "cell_type": "code",
            "execution_count": None,
            "id": name,
            "metadata": {"tags": ["raises-exception"]},
            "outputs": [],
            "source": source,
        }
        for name, source in cells.items()
    ]
    kernel = {"display_name": "Python", "language": "python", "name": "python3"}
    return {
        "cells": written,
        "metadata": {"kernelspec": kernel},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Folder of the notebook, and the outputs of each cell."""
    folder = tmp_path_factory.mktemp("notebook")
    (folder / "train.ipynb").write_text(json.dumps(notebook_of(CELLS)), "utf-8")
    command = [interpreter("notebook"), "-m", "nbconvert", "--to", "notebook"]
    done = subprocess.run(
        [*command, "--execute", "--stdout", "train.ipynb"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "POLARS_MAX_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    cells = json.loads(done.stdout)["cells"]
    return folder, {cell["id"]: cell["outputs"] for cell in cells}


def shown(outputs: list[dict[str, Any]], kind: str) -> str:
    """Text of the only value that a cell shows."""
    (data,) = (output["data"] for output in outputs if "data" in output)
    return "".join(data[kind])


def test_a_recorded_cell_shows_its_report(
    executed: tuple[Path, dict[str, Any]],
) -> None:
    folder, outputs = executed
    report = ss.report(folder / "cell")
    for cell in ("record", "open"):
        assert shown(outputs[cell], "text/markdown") == report.to_markdown()
        assert shown(outputs[cell], "text/plain") == report.to_text().rstrip()
    assert list(recorded_steps(folder / "cell").values()) == [list(range(8))]
    assert outputs["open"][0]["text"] == ["4999950000\n"]


def test_a_cell_that_raises_shows_its_exception(
    executed: tuple[Path, dict[str, Any]],
) -> None:
    kinds = [output["output_type"] for output in executed[1]["raise"]]
    assert kinds == ["error"]
    assert executed[1]["raise"][0]["ename"] == "ZeroDivisionError"


def test_a_recording_within_another_is_refused_in_a_line(
    executed: tuple[Path, dict[str, Any]],
) -> None:
    (output,) = executed[1]["refused"]
    (line,) = output["text"]
    assert line.startswith("stepscope: already recording since")
