"""Below a path, as inside TensorBoard or behind a proxy, the page is the same."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.sites.browser import Server
from tests.support.sites.timeline import Timeline
from tests.support.sites.view import PAGES, View
from werkzeug.exceptions import NotFound
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from stepscope.serve.app import App
from stepscope.serve.listening import listening_server
from stepscope.serve.pages import page_files
from stepscope.serve.runs.source import open_source
from stepscope.serve.runs.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator

PREFIX = "/data/plugin/stepscope"


@pytest.fixture(scope="module")
def mounted(server: Server) -> Iterator[Server]:
    """The same runs, served below a path and nowhere else."""
    listener = listening_server("127.0.0.1", 0, lambda *_: [])
    app = App(Store(open_source(str(server.folder))), page_files())
    listener.app = DispatcherMiddleware(NotFound(), {PREFIX: app})
    thread = threading.Thread(target=listener.serve_forever, daemon=True)
    thread.start()
    address = f"http://127.0.0.1:{listener.port}{PREFIX}/"
    yield Server(address, server.folder, server.runs)
    listener.shutdown()
    thread.join()
    listener.server_close()


@pytest.mark.sweep(every=3)
@pytest.mark.parametrize("page", PAGES)
def test_every_page_works_there(page: str, mounted: Server, chromium: Any) -> None:
    view = View(chromium.new_context(), mounted)
    view.go(page, run="two_hosts")
    if page == "findings":
        assert view.page.locator("article.finding").count() > 0
    elif page == "trace_viewer":
        assert "Steps" in Timeline(view).names
    elif page == "compare":
        assert view.page.locator("main .bases a").count() > 0
    else:
        told = mounted.show("two_hosts", page)["data"]
        absent = view.page.locator(".absent").count() > 0
        assert view.check_values(told) if told else absent
    assert view.close() == []


def test_the_frame_of_tensorboard_goes_to_the_page(
    mounted: Server, chromium: Any
) -> None:
    view = View(chromium.new_context(), mounted)
    view.go("kernel_stats")
    # What TensorBoard does in the plugin's frame.
    view.page.evaluate(
        "async (at) => { (await import(at)).render(); }", f"{mounted.address}plugin.js"
    )
    view.page.wait_for_url("**/index.html")
    view.page.wait_for_load_state()
    view.settle()
    assert view.page.locator("main h1").inner_text() == "Findings"
    view.page.locator("nav a", has_text="Kernels").click()
    view.settle()
    assert view.page.url.startswith(f"{mounted.address}index.html#")
    assert view.close() == []
