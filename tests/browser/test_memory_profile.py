"""Memory: six fields, the timeline and what was alive, on allocations known by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    assert values[f"{OF}.capacity_bytes"] == ("1048576000", "0.977 GiB")
    assert values[f"{OF}.peak_heap_lifetime_bytes"] == ("650117120", "0.605 GiB")
    assert values[f"{OF}.peak.memory_in_use_bytes"] == ("650117120", "0.605 GiB")
    assert values[f"{OF}.peak.time_ms"][1] == "0.0300 ms"
    assert values[f"{OF}.peak.stack_bytes"][0] == "0"
    assert values[f"{OF}.peak.free_bytes"] == ("398458880", "0.371 GiB")
    assert values[f"{OF}.peak.fragmentation"] == ("0.25", "25.0 %")


def test_what_was_alive_at_the_peak(view: View, server: Server) -> None:
    view.go("memory_profile", run="allocator")
    told = server.show("allocator", TOOL)["data"]
    name = f"{OF}.breakdown"
    assert view.check_tables(told, TOOL) == {name: 4}
    rows = view.page.locator("td[data-column=op_name]").all_inner_texts()
    before = "allocated before the profile started"
    assert rows == ["b:MatMul", "a:Conv", "w:Var", before]


def test_the_timeline_is_drawn_and_clickable(view: View, server: Server) -> None:
    view.go("memory_profile", run="keras")
    plot = view.page.locator(".series canvas")
    assert (
        plot.evaluate(
            """(canvas) => {
            const ink = canvas.getContext('2d')
                .getImageData(0, 0, canvas.width, canvas.height).data;
            const seen = new Set();
            for (let at = 0; at < ink.length; at += 4)
                seen.add(ink.slice(at, at + 4).join());
            return seen.size;
        }"""
        )
        > 10
    )
    over = view.page.locator(".series .u-over")
    box = over.bounding_box()
    assert box is not None
    over.hover(position={"x": box["width"] / 2, "y": box["height"] / 2})
    view.page.wait_for_timeout(100)
    assert "GiB" in view.page.locator("figure .under").inner_text()
    over.click(position={"x": box["width"] / 2, "y": box["height"] / 2})
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
    assert why["remedy"] in said
