"""`%%stepscope` and reports in a notebook that `nbconvert` executes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.programs.notebook import notebook_of, run_in_venv
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
    "profile": "ss.open('cell')",
    "tool": "ss.open('cell').tool('overview_page')",
    "finding": "ss.report('cell').findings[0]",
    "raise": "%%stepscope other\n1 / 0",
    "start": "ss.start('other')",
    "refused": "%%stepscope\nprint('not executed')",
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


def test_marimo_shows_the_page(executed: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = executed
    (folder / "app.py").write_text(MARIMO, "utf-8")
    command = ["-m", "marimo", "export", "html", "app.py", "-o", "app.html"]
    run_in_venv(command, folder)
    html = (folder / "app.html").read_text("utf-8")
    assert "srcdoc=" in html
    assert "step_count\\u003C" in html


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
