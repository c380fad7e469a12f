"""One Chromium and one server for all tests; a fresh, watched page for each."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.conftest import ROOT
from tests.support.sites.browser import (
    Server,
    chromium_path,
    whole_server,
    why_no_browser,
)
from tests.support.sites.timeline import Timeline
from tests.support.sites.view import View

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HERE = Path(__file__).parent
ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test of this folder needs the browser."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.browser)


def absent(why: str) -> None:
    """Skip, or fail where a browser was promised."""
    if os.environ.get("STEPSCOPE_BROWSER") == "required":
        pytest.fail(why)
    pytest.skip(why)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    why = why_no_browser()
    if why is not None:
        absent(why)
    try:
        from playwright.sync_api import sync_playwright  # noqa: PLC0415 - an extra
    except ImportError:
        absent("playwright is not installed (pip install -e '.[test]')")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(
            executable_path=chromium_path(), args=list(ARGUMENTS)
        )
        yield found
        found.close()


@pytest.fixture(scope="session")
def server(chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    del chromium  # without one there is nobody to serve
    with whole_server(tmp_path_factory.mktemp("logs")) as found:
        yield found


@pytest.fixture(scope="session")
def axe() -> str:
    """The accessibility checker's script; a build may remove it for a moment."""
    path = ROOT / "web/node_modules/axe-core/axe.min.js"
    if not path.is_file():
        absent("axe-core is not installed (npm ci in web/)")
    return path.read_text("utf-8")


@pytest.fixture(scope="session")
def reader(chromium: Any) -> Any:
    """Who opens all pages; Chromium takes longer for a new one than for a page."""
    return chromium.new_context(accept_downloads=True)


@pytest.fixture
def window(reader: Any, server: Server) -> Iterator[Callable[..., View]]:
    """`window(width=760, theme="dark")`: a view of the page.

    The test fails on an error in the console, an uncaught error, or a request to
    anywhere but the server.
    """
    opened: list[View] = []

    def window(*, width: int = 1440, theme: str = "light") -> View:
        view = View(reader, server)
        view.page.set_viewport_size({"width": width, "height": 900})
        view.page.emulate_media(color_scheme=theme)
        opened.append(view)
        return view

    yield window
    problems = [problem for view in opened for problem in view.close()]
    assert problems == []


@pytest.fixture
def view(window: Callable[..., View]) -> View:
    return window()


@pytest.fixture
def timeline(view: View) -> Timeline:
    return Timeline(view)
