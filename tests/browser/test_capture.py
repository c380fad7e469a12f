"""Recording a plain program of Python from the page."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from tests.conftest import ROOT
from tests.support.sites.browser import COMMITTED, Server, fill_run, serving
from tests.support.sites.view import View

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Locator

pytest.importorskip("grpc")

#: Takes steps until it is killed.
PROGRAM = """
import stepscope as ss

server = ss.server.start(0)
print(server.address, flush=True)
number = 0
while True:
    with ss.StepTrace(number):
        sum(range(20_000))
    number += 1
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A running program; the address of its server."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait(timeout=20)
        process.stdout.close()


@contextmanager
def opened(
    chromium: Any, folder: Path, *addresses: str
) -> Iterator[tuple[View, Locator]]:
    """The page of a server that may record these programs, with the dialog open."""
    fill_run(folder, "old", ROOT / COMMITTED["loop"])
    options = [part for one in addresses for part in ("--capture", one)]
    with serving(folder, *options) as address:
        view = View(chromium.new_context(), Server(address, folder, {}))
        view.page.goto(address)
        view.settle()
        view.page.get_by_role("button", name="Capture", exact=True).click()
        yield view, view.page.get_by_role("dialog", name="Capture")
        assert view.close() == []


def test_a_program_is_recorded_and_its_run_is_shown(
    chromium: Any, tmp_path: Path, program: str
) -> None:
    with opened(chromium, tmp_path / "logs", program) as (view, dialog):
        dialog.get_by_label("Duration (ms)").fill("300")
        dialog.get_by_role("button", name="Record").click()
        dialog.get_by_text("All programs were recorded.").wait_for()
        outcome = dialog.locator("li[data-state=ok]").inner_text()
        assert re.match(
            rf"{re.escape(program)} recorded: [\d.,]+ [KM]?i?B in ", outcome
        )
        dialog.get_by_role("button", name="Show the run").click()
        dialog.wait_for(state="detached")
        view.settle()
        (new,) = (
            one.name
            for one in (tmp_path / "logs/plugins/profile").iterdir()
            if one.name != "old"
        )
        assert view.picker("Run").locator("option:checked").inner_text() == new
        view.page.goto(f"{view.page.url}&page=overview_page")
        view.settle()
        assert view.page.locator(".columns g.column").count() > 1


def test_a_part_is_not_called_a_success(
    chromium: Any, tmp_path: Path, program: str
) -> None:
    nobody = "127.0.0.1:9"
    with opened(chromium, tmp_path / "logs", program, nobody) as (view, dialog):
        dialog.get_by_label("Duration (ms)").fill("200")
        dialog.get_by_label("Attempts per program").fill("1")
        dialog.get_by_role("button", name="Record").click()
        dialog.get_by_text("1 of 2 programs were not recorded.").wait_for()
        assert nobody in dialog.locator("li[data-state=error]").inner_text()
        assert program in dialog.locator("li[data-state=ok]").inner_text()
        dialog.get_by_role("button", name="Close").click()
        dialog.wait_for(state="detached")
        assert view.page.get_by_role("button", name="Capture", exact=True).is_visible()


def test_no_program_no_button(view: View) -> None:
    view.go("overview_page", run="vector")
    assert view.page.get_by_role("button", name="Capture").count() == 0
