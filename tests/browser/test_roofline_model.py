"""Roofline: circles under the roofs, the table behind them, and the keys."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from stepscope.reporting.words.names import UNIT_NAMES

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.sites.browser import Server
    from tests.support.sites.view import View

TOOL = "roofline_model"
RUN = "busy_gpu"


def drawn(view: View) -> list[dict[str, float]]:
    """Each circle: its place and its radius, in units of the picture."""
    found: list[dict[str, float]] = view.page.evaluate(
        """() => [...document.querySelectorAll('.roofline circle')].map((each) => ({
            x: each.cx.baseVal.value, y: each.cy.baseVal.value,
            r: each.r.baseVal.value}))"""
    )
    return found


def with_a_place(told: dict[str, Any], table: str = "ops") -> list[dict[str, Any]]:
    return [
        row
        for row in told[table]
        if row["operational_intensity"] and row["gflops_per_s"]
    ]


def test_circles_lie_where_intensity_and_rate_put_them(
    view: View, server: Server
) -> None:
    view.go(TOOL, run=RUN)
    rows = with_a_place(server.show(RUN, TOOL)["data"])
    circles = drawn(view)
    assert len(circles) == len(rows) > 3
    for axis, field, way in (
        ("x", "operational_intensity", 1),
        ("y", "gflops_per_s", -1),
    ):
        values = [way * math.log10(row[field]) for row in rows]
        low, high = min(values), max(values)
        places = [circle[axis] for circle in circles]
        first, last = places[values.index(low)], places[values.index(high)]
        assert first < last
        for value, place in zip(values, places, strict=True):
            part = (value - low) / (high - low)
            assert place == pytest.approx(first + part * (last - first), abs=0.01)


def test_every_unit_has_its_roof(view: View, server: Server) -> None:
    view.go(TOOL, run=RUN)
    roofs = server.show(RUN, TOOL)["data"]["roofs"]
    assert view.page.locator("path.roof").count() == len(roofs) > 1
    texts = view.page.locator("text.roof").all_text_contents()
    units = [UNIT_NAMES[it["unit"]] for it in roofs]
    assert [text.partition(":")[0] for text in texts] == units


def test_the_share_without_a_known_place_is_said(view: View, server: Server) -> None:
    view.go(TOOL, run=RUN)
    told = server.show(RUN, TOOL)["data"]
    shown = view.values()["unknown_ops_percent"]
    assert float(shown[0]) == pytest.approx(told["unknown_ops_percent"])
    view.page.get_by_label("Show").select_option("kernels")
    view.settle()
    assert view.fragment["by"] == "kernels"
    shown = view.values()["unknown_kernels_percent"]
    assert float(shown[0]) == pytest.approx(told["unknown_kernels_percent"])
    assert len(drawn(view)) == len(with_a_place(told, "kernels"))


def test_the_table_holds_every_row(view: View, server: Server) -> None:
    view.go(TOOL, run=RUN)
    told = server.show(RUN, TOOL)["data"]
    counts = view.check_tables(told, TOOL)
    assert counts["ops"] == len(told["ops"])
    view.page.locator("button[data-twin]").click()
    view.settle()
    assert view.page.locator(".roofline").count() == 0
    assert view.check_tables(told, TOOL)["ops"] == len(told["ops"])


def test_keys_go_from_point_to_point_and_into_the_op(
    view: View, server: Server
) -> None:
    rows = with_a_place(server.show(RUN, TOOL)["data"])
    view.go(TOOL, run=RUN)
    chart = view.page.locator(".roofline svg")
    chart.focus()
    for key, place in (("ArrowRight", 0), ("ArrowRight", 1), ("End", len(rows) - 1)):
        view.page.keyboard.press(key)
        said = chart.get_attribute("aria-valuetext") or ""
        assert said.startswith(rows[place]["name"])
        assert "from shapes and bytes" in said
    view.page.keyboard.press("Home")
    view.page.keyboard.press("Enter")
    view.settle()
    assert view.fragment["page"] == "framework_op_stats"
    assert view.fragment["op"] == rows[0]["name"]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_narrow_screen_shows_the_whole_chart(
    theme: str, window: Callable[..., View]
) -> None:
    view = window(theme=theme, width=390)
    view.go(TOOL, run=RUN)
    width = view.page.evaluate("document.documentElement.scrollWidth")
    assert width <= 390
    assert drawn(view)


def test_nothing_is_said_of_circles_where_none_is_drawn(
    view: View, server: Server
) -> None:
    view.go(TOOL, run="keras")
    told = server.show("keras", TOOL)["data"]
    assert with_a_place(told) == []
    said = view.page.locator("main").inner_text()
    assert "No row has a point in the chart" in said
    assert "A circle is" not in said
    assert view.page.locator("button[data-twin]").count() == 0
    assert view.check_tables(told, TOOL)["ops"] > 0
