"""Ways from numbers to their events in Trace, and from an event back to its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.sites.timeline import STREAM, US, Timeline

if TYPE_CHECKING:
    from tests.support.sites.view import View


def to_trace(view: View, name: str) -> Timeline:
    """Follow the link of a row to the timeline."""
    view.page.get_by_role("link", name=f"{name} in Trace", exact=True).first.click()
    view.page.wait_for_selector(".trace[data-selected]")
    view.settle()
    return Timeline(view)


def longest(server: Any, run: str, kernel: str) -> int:
    rows = server.show(run, "kernel_stats")["data"]["rows"]
    return round(max(r["max_us"] for r in rows if r["kernel_name"] == kernel) * US)


@pytest.mark.parametrize("page", ["framework_op_stats", "overview_page"])
def test_an_op_leads_to_its_longest_event(view: View, page: str) -> None:
    view.go(page, run="vector")
    timeline = to_trace(view, "model/dense_1/MatMul")
    assert "ampere_sgemm_32x32" in timeline.heading.inner_text()
    assert timeline.ps("Duration") == 100 * US
    assert "kernel" not in view.fragment
    assert "op" not in view.fragment
    assert timeline.label(STREAM).is_visible()
    view.page.go_back()
    view.settle()
    assert view.fragment["page"] == page


def test_a_kernel_leads_to_its_longest_event_and_back_to_its_row(view: View) -> None:
    view.go("kernel_stats", run="keras")
    assert view.page.locator(".absent").count() == 1
    view.go("kernel_stats", run="two_hosts")
    name = "ampere_sgemm_32x32"
    timeline = to_trace(view, name)
    assert name in timeline.heading.inner_text()
    assert timeline.ps("Duration") == longest(view.server, "two_hosts", name)
    view.click("link", "This kernel in Kernels")
    rows = view.page.locator("main tbody tr")
    assert rows.count() > 0
    assert all(name in row for row in rows.all_inner_texts())
    assert view.page.get_by_label("Filter kernels").input_value() == name
    view.page.go_back()
    view.settle()
    assert name in timeline.heading.inner_text()


def test_an_event_leads_to_its_op(view: View) -> None:
    timeline = Timeline(view).open(run="vector", kernel="ampere_sgemm_32x32")
    view.page.wait_for_selector(".trace[data-selected]")
    view.settle()
    assert "ampere_sgemm_32x32" in timeline.heading.inner_text()
    view.click("link", "This op in Op stats")
    assert view.fragment["op"] == "model/dense_1/MatMul"


def test_a_bar_leads_to_its_longest_event(view: View) -> None:
    view.go("kernel_stats", run="vector")
    bar = view.page.locator(".slices a").first
    name = bar.inner_text().replace("\n", "")
    bar.click()
    view.page.wait_for_selector(".trace[data-selected]")
    view.settle()
    timeline = Timeline(view)
    assert timeline.heading.inner_text().strip().startswith(name[:20])
    assert timeline.ps("Duration") == longest(view.server, "vector", name)


def test_a_chosen_step_leads_to_its_time_on_its_host(view: View) -> None:
    view.go("overview_page", run="two_hosts")
    steps = view.server.show("two_hosts", "overview_page")["data"]["steps"]
    last = steps[-1]
    column = view.page.locator(".columns g.column").last
    drawn = column.get_attribute("aria-label") or ""
    host = next(one for one in ("vm", "b") if f" {one}," in drawn)
    column.click()
    view.settle()
    view.click("link", f"Step {last['step']} in Trace")
    timeline = Timeline(view)
    assert timeline.page.locator(".toolbar label select").input_value() == host
    begin, end = timeline.window
    assert end - begin < 3 * last["duration_ms"] * 1000


def test_what_is_not_on_the_timeline_is_said(view: View) -> None:
    Timeline(view).open(run="vector", kernel="no such kernel")
    view.page.wait_for_selector(".notice")
    notice = view.page.locator(".notice").inner_text()
    assert "No event of no such kernel is on the timeline." in notice
    assert "kernel" not in view.fragment


def test_a_row_of_kernels_leads_to_an_event_of_its_op(view: View) -> None:
    rows = view.server.show("unstepped", "kernel_stats")["data"]["rows"]
    greatest = {
        name: max(row["max_us"] for row in rows if row["kernel_name"] == name)
        for name in {row["kernel_name"] for row in rows}
    }
    # Of a kernel that several ops launch, the row of one whose events are shorter.
    row = next(
        row
        for row in rows
        if row["op_name"] and row["max_us"] < greatest[row["kernel_name"]]
    )
    view.go("kernel_stats", run="unstepped")
    view.page.get_by_label("Filter kernels").fill(row["kernel_name"])
    view.settle()
    shown = view.page.locator("main tbody tr").filter(
        has=view.page.locator(f'td[data-column=op_name][title="{row["op_name"]}"]')
    )
    shown = shown.filter(
        has=view.page.locator(f'td[data-column=grid_dim][title="{row["grid_dim"]}"]')
    )
    shown.first.locator("a.to-trace").click()
    view.page.wait_for_selector(".trace[data-selected]")
    view.settle()
    timeline = Timeline(view)
    assert timeline.ps("Duration") == round(row["max_us"] * US)
    view.click("link", "This op in Op stats")
    assert view.fragment["op"] == row["op_name"]


def test_a_row_of_ops_leads_to_the_side_that_it_is_of(view: View) -> None:
    rows = view.server.show("unstepped", "framework_op_stats")["data"]["rows"]
    name = "aten::cumsum"
    sides = {row["host_or_device"] for row in rows if row["name"] == name}
    assert sides == {"Host", "Device"}
    for side in sorted(sides):
        view.go("framework_op_stats", run="unstepped")
        view.page.get_by_label("Filter ops").fill(name)
        view.settle()
        row = view.page.locator("main tbody tr").filter(has_text=side)
        row.locator("a.to-trace").first.click()
        view.page.wait_for_selector(".trace[data-selected]")
        view.settle()
        track = Timeline(view).fact("Track").inner_text()
        assert ("GPU" in track) == (side == "Device"), track
