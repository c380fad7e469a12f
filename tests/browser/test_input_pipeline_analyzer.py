"""Input pipeline: summary, device side and host side as promised."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.sites.view import drawn_heights

if TYPE_CHECKING:
    from tests.support.sites.browser import Server
    from tests.support.sites.view import View

TOOL = "input_pipeline_analyzer"
KINDS = (
    "demanded_file_read",
    "advanced_file_read",
    "preprocessing",
    "enqueue",
    "unclassified",
)
OP_COLUMNS = [
    "self_time_us",
    "self_time_percent",
    "name",
    "category",
    "count",
    "total_time_us",
    "total_time_percent",
]


def test_the_three_sections(view: View, server: Server) -> None:
    view.go("input_pipeline_analyzer", run="keras")
    told = server.show("keras", TOOL)["data"]
    page = view.page
    summary = page.get_by_role("region", name="Summary", exact=True)
    assert told["text"] in summary.inner_text()
    columns = page.get_by_role("list", name="One column for each step")
    assert columns.get_by_role("listitem").count() == len(told["steps"]) == 8
    host_side = page.get_by_role("region", name="Host side")
    for words in ("Reading on demand", "Reading ahead"):
        assert words in host_side.inner_text()
    assert {f"host_breakdown_us.{kind}" for kind in KINDS} <= view.values().keys()
    for name in ("mean", "std", "min", "max"):
        assert f"step_time_ms.{name}" in view.values()


def test_input_op_statistics_unfold(view: View, server: Server) -> None:
    view.go("input_pipeline_analyzer", run="keras")
    table = view.page.get_by_role("group", name="input ops", exact=True)
    columns = table.locator("tbody tr").first.locator("td")
    names = columns.evaluate_all("(all) => all.map((each) => each.dataset.column)")
    assert names == OP_COLUMNS
    told = server.show("keras", TOOL)["data"]["input_ops"]
    assert table.locator("tbody tr").count() == len(told)
    view.page.get_by_text("Input op statistics").click()
    assert not table.is_visible()


def test_waiting_against_working_has_two_parts(view: View, server: Server) -> None:
    view.go("input_pipeline_analyzer", run="input_bound")
    view.page.get_by_label("Parts shown").select_option("waiting")
    step = server.show("input_bound", TOOL)["data"]["steps"][3]
    column = view.page.locator("g.column").nth(3)
    heights = drawn_heights(column)
    assert heights.keys() == {"input", "device_compute_32"}
    ratio = step["idle_input_ms"] / step["device_working_ms"]
    drawn = heights["input"] / heights["device_compute_32"]
    assert drawn == pytest.approx(ratio, abs=0.02)
    assert view.fragment["view"] == "waiting"


def test_the_share_of_input_is_drawn_over_the_steps(view: View, server: Server) -> None:
    view.go("input_pipeline_analyzer", run="keras")
    steps = server.show("keras", TOOL)["data"]["steps"]
    known = [one["input_percent_avg"] for one in steps if one["input_percent_avg"]]
    path = view.page.locator("path.mean").get_attribute("d") or ""
    points = [part.split() for part in path.removeprefix("M").split("L")]
    assert len(points) == len(
        [one for one in steps if one["input_percent_avg"] is not None]
    )
    heights = [float(y) for _, y in points]
    # Higher on the screen is more.
    assert heights.index(min(heights)) == [
        one["input_percent_avg"] for one in steps
    ].index(max(known))


def test_the_page_says_where_other_numbers_come_from(view: View) -> None:
    view.go("input_pipeline_analyzer", run="keras")
    view.page.get_by_text("TensorFlow's page may show another share").click()
    said = view.page.get_by_role("region", name="Summary").inner_text()
    assert "A step lasts until the next step starts" in said


def test_what_worker_processes_do_has_a_table_of_its_own(
    view: View, server: Server
) -> None:
    view.go("input_pipeline_analyzer", run="workers")
    told = server.show("workers", TOOL)["data"]["worker_functions"]
    panel = view.page.get_by_role("region", name="Worker processes")
    table = panel.get_by_role("group", name="functions of worker processes")
    rows = table.locator("tbody tr")
    assert rows.count() == len(told) == 2
    assert "augment" in rows.first.inner_text()
    assert "data.py" in rows.first.inner_text()
    view.go("input_pipeline_analyzer", run="keras")
    assert view.page.get_by_role("region", name="Host side").is_visible()
    assert panel.count() == 0
