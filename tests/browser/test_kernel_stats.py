"""Kernels: the pie of the costliest and the fourteen columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.sites.browser import Server
    from tests.support.sites.view import View

TOOL = "kernel_stats"
PROMISED = {
    "rank",
    "kernel_name",
    "registers",
    "shared_memory_bytes",
    "block_dim",
    "grid_dim",
    "tensor_core_eligible",
    "uses_tensor_core",
    "op_name",
    "occurrences",
    "total_us",
    "avg_us",
    "min_us",
    "max_us",
}


def test_a_known_kernel(view: View) -> None:
    view.go("kernel_stats", run="vector")
    row = view.page.locator("tbody tr", has_text="ampere_sgemm_32x32")
    cells = dict(
        row.locator("td").evaluate_all(
            "(all) => all.map((each) => [each.dataset.column, each.textContent])"
        )
    )
    assert cells.keys() >= PROMISED
    assert cells["registers"] == "32"
    assert cells["shared_memory_bytes"] == "100"
    assert cells["block_dim"] == "128,1,1"
    assert cells["grid_dim"] == "10,1,1"
    assert cells["tensor_core_eligible"] == "yes"
    assert cells["uses_tensor_core"] == "no"
    assert cells["op_name"] == "model/dense_1/MatMul"
    assert cells["occurrences"] == "8"
    assert cells["total_us"] == "800.0"
    assert cells["avg_us"] == cells["min_us"] == cells["max_us"] == "100.0"


def test_the_pie_names_what_the_tool_names(view: View, server: Server) -> None:
    view.go("kernel_stats", run="vector")
    told = server.show("vector", TOOL)["data"]["pie"]
    shown = [
        item.inner_text().split("\n") for item in view.page.locator(".slices li").all()
    ]
    assert shown == [[each["name"], f"{each['percent']:.1f} %"] for each in told]


def test_rows_by_kernel_and_op(view: View, server: Server) -> None:
    view.go("kernel_stats", run="vector")
    view.page.get_by_label("One row").select_option("by_pair")
    view.settle()
    told = server.show("vector", TOOL)["data"]
    assert view.check_tables(told, TOOL) == {"by_pair": len(told["by_pair"])}
    assert view.fragment["by"] == "by_pair"


def test_a_run_without_a_device_says_why(view: View, server: Server) -> None:
    view.go("kernel_stats", run="loop")
    why = server.show("loop", TOOL)["unavailable"]
    panel = view.page.locator(".absent")
    assert panel.get_attribute("data-code") == why["code"]
    assert why["reason"] in panel.inner_text()
    assert why["remedy"] in panel.inner_text()
    assert view.page.locator("table, svg").count() == 0
