"""The page as JupyterLab shows it: in a frame that needs no server of ours."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.conftest import ROOT
from tests.support.programs.notebook import jupyterlab, notebook_of, run_in_venv

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.framework, pytest.mark.integration]


def test_a_profile_shows_the_page(tmp_path: Path, chromium: Any) -> None:
    cells = {"open": f"import stepscope as ss\nss.open('{ROOT}/tests/data/jax_marked')"}
    (tmp_path / "open.ipynb").write_text(json.dumps(notebook_of(cells)), "utf-8")
    command = ["-m", "nbconvert", "--to", "notebook", "--execute", "open.ipynb"]
    run_in_venv([*command, "--output", "executed.ipynb"], tmp_path)
    with jupyterlab(tmp_path) as address:
        page = chromium.new_page()
        page.goto(f"{address}lab/tree/executed.ipynb")
        frame = page.frame_locator("iframe[title=stepscope]")
        frame.locator("nav a", has_text="Model views").click(timeout=60_000)
        frame.locator("main h1", has_text="Model views").wait_for()
        frame.locator("nav a", has_text="Trace").click()
        frame.locator(".trace canvas").first.wait_for()
        page.close()
