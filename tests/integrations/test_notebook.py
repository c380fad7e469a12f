"""`%%stepscope` and reports in a notebook that `nbconvert` executes."""

from __future__ import annotations

import json
import os
import re
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from tests.browser.conftest import chromium  # noqa: F401 - a fixture
from tests.support.programs.frameworks import ROOT, interpreter
from tests.support.programs.trainers import recorded_steps

import stepscope as ss

if TYPE_CHECKING:
    from collections.abc import Iterator
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
    "profile": "ss.open('cell')",
    "tool": "ss.open('cell').tool('overview_page')",
    "finding": "ss.report('cell').findings[0]",
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


MARIMO = """
import marimo
app = marimo.App()

@app.cell
def _():
    import stepscope as ss
    ss.open("cell")

@app.cell
def _():
    import stepscope as opened
    opened.open("cell").tool("overview_page")
"""


def run_in_venv(arguments: list[str], folder: Path) -> str:
    """Run a module of the notebook's environment; what it prints."""
    done = subprocess.run(
        [interpreter("notebook"), *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "POLARS_MAX_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def jupyterlab(folder: Path) -> Iterator[str]:
    """A JupyterLab that trusts the executed notebook of a folder; its address."""
    run_in_venv(["-m", "jupyter", "trust", "executed.ipynb"], folder)
    options = (
        *("--allow-root", "--no-browser", "--ip=127.0.0.1", "--port=0"),
        *("--IdentityProvider.token=", f"--ServerApp.root_dir={folder}"),
    )
    process = subprocess.Popen(
        [interpreter("notebook"), "-m", "jupyterlab", *options],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "JUPYTER_CONFIG_DIR": str(folder / "config")},
    )
    assert process.stderr is not None
    try:
        said = iter(process.stderr)
        found = next(
            filter(None, (re.search(r"http://127[^ ]*:\d+/", it) for it in said))
        )
        yield found[0]
    finally:
        process.terminate()
        process.wait(timeout=30)
        process.stderr.close()


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Folder of the notebook, and the outputs of each cell."""
    folder = tmp_path_factory.mktemp("notebook")
    (folder / "train.ipynb").write_text(json.dumps(notebook_of(CELLS)), "utf-8")
    command = ["-m", "nbconvert", "--to", "notebook", "--execute", "train.ipynb"]
    run_in_venv([*command, "--output", "executed.ipynb"], folder)
    cells = json.loads((folder / "executed.ipynb").read_text("utf-8"))["cells"]
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


def test_a_profile_shows_the_page_and_others_their_numbers(
    executed: tuple[Path, dict[str, Any]],
) -> None:
    _, outputs = executed
    page = shown(outputs["profile"], "text/html")
    assert page.startswith('<iframe sandbox="allow-scripts allow-downloads" ')
    assert "events of" in shown(outputs["profile"], "text/plain")
    assert "<dt>step_count</dt>" in shown(outputs["tool"], "text/html")
    finding = ss.report(executed[0] / "cell").findings[0]
    assert finding.title in shown(outputs["finding"], "text/html")


@pytest.mark.browser
def test_jupyterlab_shows_the_page(
    executed: tuple[Path, dict[str, Any]],
    chromium: Any,  # noqa: F811 - the fixture
) -> None:
    folder, _ = executed
    with jupyterlab(folder) as address:
        page = chromium.new_page()
        page.goto(f"{address}lab/tree/executed.ipynb")
        frame = page.frame_locator("iframe[title=stepscope]")
        frame.locator("nav a", has_text="Model views").click(timeout=60_000)
        frame.locator("main h1", has_text="Model views").wait_for()
        page.close()


def test_marimo_shows_the_page(executed: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = executed
    (folder / "app.py").write_text(MARIMO, "utf-8")
    command = ["-m", "marimo", "export", "html", "app.py", "-o", "app.html"]
    run_in_venv(command, folder)
    html = (folder / "app.html").read_text("utf-8")
    assert "srcdoc=" in html
    assert "shape: (" in html


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
