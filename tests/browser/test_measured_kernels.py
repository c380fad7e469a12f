"""The table of kernels with what Nsight Compute measured, where it was given."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.sites.browser import Server
from tests.support.sites.view import View
from tests.support.traces.nsight_compute import launch, line, long, long_rows, write

from stepscope.serve.app import App
from stepscope.serve.listening import listening_server
from stepscope.serve.pages import page_files
from stepscope.serve.runs.source import open_source
from stepscope.serve.runs.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator

SGEMM = launch(0, "ampere_sgemm_32x32", grid=(10, 1, 1))


@pytest.fixture(name="measured", scope="module")
def _measured(
    server: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """The same runs, beside them a table about one kernel."""
    rows = long_rows(
        SGEMM,
        ("Duration", "us", "90"),
        ("Compute (SM) Throughput", "%", "81.25"),
        ("Memory Throughput", "%", "40"),
    )
    said = ("SOL", "", "", "", "Rule", "OPT", "Use <b>more</b> warps.", "", "12.5")
    table = write(
        tmp_path_factory.mktemp("measured") / "kernels.csv",
        long(*rows, line(*SGEMM, *said)),
    )
    listener = listening_server("127.0.0.1", 0, lambda *_: [])
    store = Store(open_source(str(server.folder)), kernels=str(table))
    listener.app = App(store, page_files())
    thread = threading.Thread(target=listener.serve_forever, daemon=True)
    thread.start()
    yield Server(f"http://127.0.0.1:{listener.port}/", server.folder, server.runs)
    listener.shutdown()
    thread.join()
    listener.server_close()


def cells(view: View, kernel: str) -> dict[str, str]:
    found = view.page.locator("tbody tr", has_text=kernel).locator("td")
    return dict(
        found.evaluate_all(
            "(all) => all.map((each) => [each.dataset.column, each.textContent])"
        )
    )


def test_measures_stand_beside_their_kernel(measured: Server, chromium: Any) -> None:
    view = View(chromium.new_context(), measured)
    view.go("kernel_stats", run="vector")
    shown = cells(view, "ampere_sgemm_32x32")
    assert shown["bound"] == "compute"
    assert shown["compute_percent"].startswith("81.3")
    assert shown["match_confidence"].startswith("0.95")
    assert "compute" not in cells(view, "volta_fp16_s884gemm").values()
    view.page.get_by_label("One row").select_option("nvidia_rules")
    view.settle()
    assert cells(view, "Rule")["text"] == "Use <b>more</b> warps."
    view.page.get_by_label("One row").select_option("measured")
    view.settle()
    assert cells(view, "ampere_sgemm_32x32")["found"] == "yes"
    assert view.close() == []


def test_without_a_table_the_columns_are_not_there(view: View) -> None:
    view.go("kernel_stats", run="vector")
    assert "bound" not in cells(view, "ampere_sgemm_32x32")
    assert view.page.locator("option[value=measured]").count() == 0
