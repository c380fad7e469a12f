"""Overview: the five promised parts, and their numbers on a trace known by hand."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from tests.support.sites.view import drawn_heights

if TYPE_CHECKING:
    from tests.support.sites.browser import Server
    from tests.support.sites.view import View

#: Where each millisecond of step 103 of the first acceptance vector goes: nothing is
#: queued for 505 µs.
VECTOR = {
    "input": 0.07,
    "output": 0.01,
    "kernel_launch": 0.505,
    "device_collectives": 0.06,
    "device_compute_16": 0.1,
    "device_compute_32": 0.1,
    "other": 0.155,
    "compilation": 0.0,
    "host_compute": 0.0,
    "device_to_device": 0.0,
}


def test_the_step_of_a_known_trace(view: View) -> None:
    view.go("overview_page", run="vector")
    values = view.values()
    parts = {
        field.removeprefix("breakdown_ms."): float(exact or "nan")
        for field, (exact, _) in values.items()
        if field.startswith("breakdown_ms.")
    }
    # The first of the seven steps has 100 µs before its first launch.
    mean = {"kernel_launch": 0.505 - 0.1 / 7, "other": 0.155 + 0.1 / 7}
    assert parts == pytest.approx(VECTOR | mean)
    assert sum(parts.values()) == pytest.approx(1.0)
    assert values["step_time_ms.mean"] == ("1", "1 ms")
    assert values["input_percent"][1] == "7.0 %"
    assert values["kernel_launch_percent"][1] == "49.1 %"
    assert values["device_execution_percent"][1] == "34.0 %"
    assert values["precision.compute_16bit_percent"][1] == "50.0 %"
    assert values["environment.device_count"] == ("1", "1")


def test_all_promised_parts_are_there(view: View, server: Server) -> None:
    view.go("overview_page", run="vector")
    page = view.page
    for region in ("Performance summary", "Run environment", "Op placement"):
        assert page.get_by_role("region", name=region).is_visible()
    told = server.show("vector", "overview_page")["data"]
    columns = page.get_by_role("list", name="One column for each step")
    assert columns.get_by_role("listitem").count() == len(told["steps"]) == 8
    ops = page.locator("td[data-column=name]").all_inner_texts()
    assert ops == [op["name"] for op in told["top_ops"]]
    advice = page.get_by_role("list", name="Recommendation for next steps")
    advice.get_by_text("Why, and how certain").first.click()
    assert advice.get_by_role("link", name="Reason and instructions").count() > 0
    checklist = page.get_by_role("region", name="Checklist")
    assert checklist.locator(".stage").count() > 5


def test_a_column_names_its_parts_by_pointer_and_by_keyboard(view: View) -> None:
    view.go("overview_page", run="vector")
    column = view.page.get_by_role("listitem", name=re.compile("^step 103:"))
    under = view.page.locator(".columns .under")
    column.focus()
    assert "step 103" in under.inner_text()
    assert "Kernel launch 0.51 ms" in under.inner_text()
    assert sorted(drawn_heights(column)) == sorted(
        name for name, ms in VECTOR.items() if ms
    )


def test_heights_are_as_the_times(view: View) -> None:
    view.go("overview_page", run="vector")
    column = view.page.get_by_role("listitem", name=re.compile("^step 103:"))
    heights = drawn_heights(column)
    scale = heights["other"] / VECTOR["other"]
    for name, height in heights.items():
        assert height == pytest.approx(scale * VECTOR[name], abs=0.01)


def test_mean_and_95th_percentile_are_drawn(view: View, server: Server) -> None:
    view.go("overview_page", run="keras")
    times = server.show("keras", "overview_page")["data"]["step_time_ms"]
    levels = view.page.locator(".columns .level")
    shown = {
        level.get_attribute("data-level"): level.locator("text").text_content()
        for level in levels.all()
    }
    assert shown == {
        "mean": f"mean {times['mean']:.2f}",
        "p95": f"p95 {times['p95']:.2f}",
    }
    assert "Time of a step (ms)" in str(
        view.page.locator(".columns .axis").text_content()
    )


def test_a_step_is_chosen_for_all_pages(view: View) -> None:
    view.go("overview_page", run="two_hosts")
    view.page.get_by_role("listitem", name=re.compile("^step 104:")).first.click()
    assert view.fragment["step"] == "104"
    view.click("link", "Pod viewer")
    assert "Step 104" in view.page.locator("figure h2").first.inner_text()
    chosen = view.page.get_by_role("button", name="Step 104: back to all steps")
    chosen.click()
    view.settle()
    assert "step" not in view.fragment
    assert chosen.count() == 0


def test_steps_of_several_hosts_stand_apart(view: View) -> None:
    view.go("overview_page", run="two_hosts")
    groups = view.page.locator(".columns .groups text").all_text_contents()
    assert sorted(groups) == ["b", "vm"]


def test_columns_are_one_stop_of_the_tab_key(view: View) -> None:
    view.go("overview_page", run="vector")
    columns = view.page.locator(".columns [role=listitem]")
    stops = columns.evaluate_all("(all) => all.map((each) => each.tabIndex)")
    assert stops == [0] + [-1] * (len(stops) - 1)
    columns.first.focus()
    view.page.keyboard.press("ArrowRight")
    reached = view.page.evaluate("document.activeElement.ariaLabel")
    assert reached == columns.nth(1).get_attribute("aria-label")


@pytest.mark.profiles
def test_one_step_is_no_chart(view: View) -> None:
    view.go("overview_page", run="launch_bound")
    figure = view.page.locator("figure", has_text="Step-time graph")
    assert "Only one step was recorded: 11.05 ms." in figure.inner_text()
    assert figure.locator("svg").count() == 0


def test_a_number_explains_itself(view: View) -> None:
    view.go("overview_page", run="vector")
    view.page.locator("[data-field=input_percent]").click()
    details = view.page.get_by_role("complementary", name="Details")
    # Definitions are fetched when the first is asked for.
    details.get_by_text("Definition").wait_for()
    assert "overview_page: input_percent" in details.inner_text()
    details.get_by_role("button", name="Close").click()
    view.settle()
    assert details.count() == 0
    focused = view.page.evaluate("document.activeElement.dataset.field")
    assert focused == "input_percent"


def test_one_host_can_be_chosen(view: View, server: Server) -> None:
    view.go("overview_page", run="two_hosts")
    both = view.values()["breakdown_ms.device_compute_32"][0]
    view.picker("Hosts").select_option("b")
    view.settle()
    told = server.show("two_hosts", "overview_page", "--host", "b")["data"]
    assert view.check_values(told)
    assert view.values()["breakdown_ms.device_compute_32"][0] == "0.11"
    assert both == "0.105"
    view.page.go_back()
    view.settle()
    assert view.values()["breakdown_ms.device_compute_32"][0] == both


def test_the_headline_and_the_named_parts_stand_on_the_page(
    view: View, server: Server
) -> None:
    view.go("overview_page", run="keras")
    headline = view.page.get_by_role("region", name="Headline")
    assert server.report("keras")["headline"]["text"] in headline.inner_text()
    account = view.page.get_by_role("region", name="Account of the step")
    told = server.show("keras", "overview_page")["data"]["account"]
    owners = account.locator("tr[data-owner]").evaluate_all(
        "(all) => all.map((each) => each.dataset.owner)"
    )
    assert sorted(owners) == sorted(entry["owner"] for entry in told)
    said = account.inner_text()
    named = [
        entry["parts"][0] for entry in told if entry["parts"] and entry["percent"] > 1
    ]
    assert any(part["name"] for part in named)
    assert [p["name"] for p in named if p["name"] and p["name"] not in said] == []
