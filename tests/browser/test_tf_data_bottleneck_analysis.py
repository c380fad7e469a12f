"""tf.data: the summary, all pipelines, and the graph with its bottleneck."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

from tests.conftest import ROOT
from tests.support.sites.browser import Server, printed
from tests.support.sites.serve import put, running
from tests.support.sites.view import View

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TOOL = "tf_data_bottleneck_analysis"


def test_summary_names_the_bottleneck_and_the_remedy(
    view: View, server: Server
) -> None:
    view.go("tf_data_bottleneck_analysis", run="keras")
    told = server.show("keras", TOOL)["data"]["summary"]
    said = view.page.get_by_role(
        "region", name="Performance analysis summary"
    ).inner_text()
    assert told["text"] in said
    assert "The bottleneck is Map, the slowest stage that the call waited for" in said
    assert told["bottleneck"]["long_name"] in said
    assert told["suggestion"] in said


def test_the_graph_marks_path_and_bottleneck(view: View, server: Server) -> None:
    view.go("tf_data_bottleneck_analysis", run="keras")
    graph = server.show("keras", TOOL)["data"]["graphs"][0]
    nodes = view.page.locator(".graph .node")
    assert nodes.count() == len(graph["nodes"]) == 5
    for index, node in enumerate(graph["nodes"]):
        said = nodes.nth(index).inner_text()
        kind = nodes.nth(index).get_attribute("class") or ""
        assert said.startswith(node["type"])
        calls = "call" if node["calls"] == 1 else "calls"
        assert said.endswith(f"\n{node['calls']} {calls}")
        # Not by colour alone: the bottleneck says so.
        assert ("bottleneck" in said) == node["bottleneck"]
        assert ("bottleneck" in kind) == node["bottleneck"]
        critical = node["critical"] and not node["bottleneck"]
        assert ("critical" in kind) == critical
        for word in ("Start", "Total", "Self"):
            assert word in said
    assert view.page.locator(".graph path.edge").count() == len(graph["edges"])


def test_the_graph_is_the_one_that_the_summary_is_about(
    chromium: Any, tmp_path: Path
) -> None:
    """Of two hosts the first was drawn, its own bottleneck in red under the other's."""
    hosts = {"a": "tests/data/tf_keras_fit", "b": "tests/data/tf_cpu/sequential_map"}
    for host, place in hosts.items():
        (packed,) = (ROOT / place).rglob("*.xplane.pb.gz")
        put(tmp_path, "both", host, gzip.decompress(packed.read_bytes()))
    with running(tmp_path) as site:
        server = Server(f"http://127.0.0.1:{site.port}/", tmp_path, {})
        view = View(chromium.new_context(), server)
        view.go(TOOL)
        told = printed("show", TOOL, str(tmp_path), "--format", "json")
        summary = json.loads(told)["data"]["summary"]
        assert summary["host"] == "b"
        chart = view.page.locator("figure.chart", has_text="Input pipeline graph")
        assert chart.locator("select").first.input_value() == "b"
        named = view.page.locator(".node.bottleneck b").inner_text()
        assert named == summary["bottleneck"]["type"]
        assert view.close() == []


def test_a_stage_opens_its_details(view: View, server: Server) -> None:
    view.go("tf_data_bottleneck_analysis", run="keras")
    node = next(
        each
        for each in server.show("keras", TOOL)["data"]["graphs"][0]["nodes"]
        if each["bottleneck"]
    )
    view.page.locator(".node.bottleneck").click()
    details = view.page.get_by_role("complementary", name="Details")
    assert node["name"] in details.inner_text()


def test_another_call_can_be_chosen(view: View, server: Server) -> None:
    view.go("tf_data_bottleneck_analysis", run="keras")
    view.page.get_by_label("Rank").fill("2")
    view.page.keyboard.press("Tab")
    view.settle()
    told = server.show("keras", TOOL, "--rank", "2")["data"]["graphs"][0]
    said = view.page.locator(
        "figure.chart", has_text="Input pipeline graph"
    ).inner_text()
    shown = f"{told['latency_us'] / 1000:.2f} ms"
    assert told["rank"] == 2
    assert shown in said


def test_a_program_without_tf_data_says_why(view: View, server: Server) -> None:
    view.go("tf_data_bottleneck_analysis", run="jax")
    why = server.show("jax", TOOL)["unavailable"]
    said = view.page.locator(".absent").inner_text()
    assert why["reason"] in said
    assert why["remedy"] in said


def test_the_graph_begins_at_the_bottleneck(window: Callable[..., View]) -> None:
    view = window(width=760)
    view.go("tf_data_bottleneck_analysis", run="sequential_map")
    graph = view.page.locator(".graph")
    inside = graph.evaluate(
        """(graph) => {
            const node =
                graph.querySelector(".node.bottleneck").getBoundingClientRect();
            const box = graph.getBoundingClientRect();
            return [node.left - box.left, box.right - node.right];
        }"""
    )
    assert min(inside) >= 0
