"""Memory: six fields, the timeline and what was alive, on allocations known by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.sites.browser import Server
    from tests.support.sites.view import View

TOOL = "memory_profile"
OF = "memories.GPU_0_bfc"


def test_the_six_fields_of_known_allocations(view: View) -> None:
    view.go("memory_profile", run="allocator")
    values = view.values()
    assert view.page.get_by_label("Memory ID").input_value() == "GPU_0_bfc"
    assert values[f"{OF}.allocations"] == ("4", "4")
    assert values[f"{OF}.deallocations"] == ("3", "3")
    assert values[f"{OF}.capacity_bytes"] == ("1048576000", "1,000 MiB")
    assert values[f"{OF}.peak_heap_lifetime_bytes"] == ("650117120", "620.0 MiB")
    assert values[f"{OF}.peak.memory_in_use_bytes"] == ("650117120", "620.0 MiB")
    assert values[f"{OF}.peak.time_ms"][1] == "0.0300 ms"
    assert values[f"{OF}.peak.stack_bytes"][0] == "0"
    assert values[f"{OF}.peak.free_bytes"] == ("398458880", "380.0 MiB")
    assert values[f"{OF}.peak.fragmentation"] == ("0.25", "25.0 %")


def test_what_was_alive_at_the_peak(view: View, server: Server) -> None:
    view.go("memory_profile", run="allocator")
    told = server.show("allocator", TOOL)["data"]
    name = f"{OF}.breakdown"
    assert view.check_tables(told, TOOL) == {name: 4}
    rows = view.page.locator("td[data-column=op_name]").all_inner_texts()
    before = "allocated before the profile started"
    assert rows == [before, "b:MatMul", "a:Conv", "w:Var"]


def heights(view: View) -> dict[str, float]:
    """Level → the share of the chart's height that it reaches at its highest."""
    found: dict[str, float] = view.page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll('path[data-level]')]
            .map((path) => {
                const axis = [...document.querySelectorAll('.series .axis line')]
                    .map((line) => line.y1.baseVal.value);
                const box = path.getBBox();
                return [path.dataset.level, Math.max(...axis) - box.y];
            }))"""
    )
    return found


def test_what_is_used_fills_the_scale_and_the_peak_is_marked(view: View) -> None:
    view.go("memory_profile", run="allocator")
    view.page.get_by_label("Scale of").select_option("used")
    drawn = heights(view)
    assert set(drawn) == {"Stack", "Heap"}
    mark = view.page.locator(".series .level text")
    assert mark.text_content() == "peak 620.0 MiB"
    view.page.get_by_label("Scale of").select_option("capacity")
    whole = heights(view)
    assert set(whole) == {"Stack", "Heap", "Free"}
    # 620 of 1,000 MiB are used at most.
    assert whole["Heap"] == pytest.approx(0.62 * drawn["Heap"], rel=0.01)
    assert whole["Free"] == pytest.approx(drawn["Heap"], rel=0.01)
    assert view.fragment["view"] == "capacity"


def test_a_heap_far_below_the_capacity_has_a_scale_of_its_own(
    view: View, server: Server
) -> None:
    view.go("memory_profile", run="keras")
    memories = server.show("keras", TOOL)["data"]["memories"]
    (memory,) = memories.values()
    assert memory["capacity_bytes"] is None or (
        memory["peak"]["memory_in_use_bytes"] < memory["capacity_bytes"] / 2
    )
    assert set(heights(view)) == {"Stack", "Heap"}
    assert "Memory (MiB)" in str(view.page.locator(".series .axis").text_content())


def test_the_cursor_goes_by_keyboard_and_says_true_values(
    view: View, server: Server
) -> None:
    view.go("memory_profile", run="allocator")
    rows = server.show("allocator", TOOL)["data"]["memories"]["GPU_0_bfc"]["timeline"]
    chart = view.page.get_by_role("slider", name="Memory of GPU_0_bfc over time")
    chart.focus()
    view.page.keyboard.press("Home")
    for row in rows[:3]:
        said = view.page.locator("figure .under").inner_text()
        in_use = row["memory_in_use_bytes"] / 2**20
        assert f"in use {in_use:.1f} MiB" in said.replace(",", "")
        assert chart.get_attribute("aria-valuetext") == said
        view.page.keyboard.press("ArrowRight")


def test_the_timeline_is_drawn_and_clickable(view: View, server: Server) -> None:
    view.go("memory_profile", run="keras")
    chart = view.page.get_by_role("slider", name="Memory of")
    box = chart.bounding_box()
    assert box is not None
    middle = {"x": box["width"] / 2, "y": box["height"] / 2}
    chart.hover(position=middle)
    assert "in use" in view.page.locator("figure .under").inner_text()
    chart.click(position=middle)
    view.settle()
    memory, at_ms = view.fragment["mem"], view.fragment["at"]
    told = server.show("keras", TOOL, "--memory", memory, "--at-ms", at_ms)["data"]
    assert view.check_tables(told, TOOL)
    view.click("button", "Back to the peak")
    assert "at" not in view.fragment


def test_every_memory_can_be_chosen(view: View, server: Server) -> None:
    view.go("memory_profile", run="keras")
    told = server.show("keras", TOOL)["data"]
    chosen = view.page.get_by_label("Memory ID")
    offered = chosen.locator("option").all_inner_texts()
    assert offered == list(told["memories"])
    for name in offered:
        chosen.select_option(name)
        view.settle()
        assert f"memories.{name}.allocations" in view.check_values(told)


def test_a_run_without_allocations_says_why(view: View, server: Server) -> None:
    view.go("memory_profile", run="jax")
    why = server.show("jax", TOOL)["unavailable"]
    said = view.page.locator(".absent").inner_text()
    assert why["reason"] in said
    # The page shows what is to be typed as code, without marks around it.
    assert why["remedy"].replace("`", "") in said
