"""Model views: cost by scope as a tree that unfolds, and the other views."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.sites.browser import PROGRAMS

if TYPE_CHECKING:
    from tests.support.sites.browser import Server
    from tests.support.sites.view import View

TOOL = "model_views"


def names(view: View) -> list[str]:
    cells = view.page.locator("[role=treegrid] tbody th")
    found: list[str] = cells.evaluate_all("(all) => all.map((each) => each.title)")
    return found


def test_scopes_unfold_and_fold_by_keyboard(view: View) -> None:
    view.go("model_views", run="vector")
    assert "In total 2.72 ms of self time" in view.page.locator("main").inner_text()
    shown = names(view)
    assert {"model", "model/dense", "model/dense_1"} <= set(shown)
    row = view.page.locator("[role=treegrid] tr", has_text="model").first
    assert row.get_attribute("aria-expanded") == "true"
    assert "1,600" in row.inner_text()
    view.page.get_by_role("button", name="Fold model", exact=True).focus()
    view.page.keyboard.press("Enter")
    view.settle()
    assert "model/dense" not in names(view)
    unfold = view.page.get_by_role("button", name="Unfold model", exact=True)
    assert unfold.count() == 1


@pytest.mark.sweep(every=2)
@pytest.mark.parametrize("by", ["scope", "graph", "op", "code"])
def test_every_view_has_the_tool_s_rows(by: str, view: View, server: Server) -> None:
    view.go("model_views", run="vector", view=by)
    data = server.show("vector", TOOL)["data"]
    assert view.check_values(data)
    roots = [row["name"] for row in data[by] if row["parent"] is None]
    shown = [name for name in names(view) if name in roots]
    assert shown == roots
    view.page.locator("main button[data-twin]").first.click()
    view.settle()
    assert view.check_tables(data, TOOL) == {by: len(data[by])}


def test_a_scope_leads_to_its_ops(view: View) -> None:
    view.go("model_views", run="vector")
    view.page.get_by_role("button", name="model/dense", exact=True).click()
    view.settle()
    assert view.fragment["page"] == "framework_op_stats"
    assert view.fragment["scope"] == "model/dense"
    said = view.page.get_by_role("region", name="Op in detail").inner_text()
    assert "model/dense" in said


def test_names_can_be_chosen_by_pattern(view: View) -> None:
    view.go("model_views", run="vector", view="graph")
    view.page.get_by_label("Name matches").fill("dense_1")
    view.page.keyboard.press("Enter")
    view.settle()
    assert "model/dense_1/MatMul" in names(view)
    assert "model/dense/MatMul" not in names(view)
    assert view.fragment["find"] == "dense_1"


def test_ranges_of_the_program_and_one_closely(view: View, server: Server) -> None:
    view.go("model_views", run="vector", view="annotation")
    data = server.show("vector", TOOL)["data"]
    assert view.check_values(data)
    assert names(view) == [row["name"] for row in data["annotation"]] == ["train"]
    view.page.get_by_role("button", name="train", exact=True).click()
    view.settle()
    assert view.fragment["op"] == "train"
    closely = view.page.get_by_role("region", name="Annotation in detail")
    assert "train, 8 calls" in closely.inner_text()
    assert "cuLaunchKernel" not in closely.inner_text()
    view.page.get_by_role("button", name="All annotations").click()
    view.settle()
    assert "op" not in view.fragment


def test_lines_have_their_time_beside_the_text(view: View, server: Server) -> None:
    view.go("model_views", run="jax", view="source")
    rows = server.show("jax", TOOL)["data"]["source"]
    lines = {row["line"]: row for row in rows if row["file"]}
    assert len(lines) == 3
    text = (PROGRAMS / "record_jax.py").read_text("utf-8").split("\n")
    shown = view.page.locator("table.source tbody tr")
    assert shown.count() == len(text)
    costliest = max(lines.values(), key=lambda row: row["self_us"])
    for number, row in lines.items():
        cells = shown.nth(number - 1)
        assert cells.locator("code").text_content() == text[number - 1]
        heat = cells.locator("td.barred").first
        said = float(heat.inner_text().replace(",", ""))
        assert said == pytest.approx(row["self_us"], abs=0.51)
        width = heat.evaluate("(one) => one.style.getPropertyValue('--length')")
        share = 100 * row["self_us"] / costliest["self_us"]
        assert float(width.removesuffix("%")) == pytest.approx(share)
    assert shown.locator("td.barred").count() == 2 * len(lines)
    view.page.get_by_role("button", name="As a table").click()
    view.settle()
    assert view.check_tables({"source": rows}, TOOL) == {"source": len(rows)}


def test_a_line_is_reached_and_left_for_its_op_by_keyboard(view: View) -> None:
    view.go("model_views", run="jax", view="source")
    first = view.page.locator("main .controls button", has_text="Line ").first
    number = first.inner_text().split(":")[0].removeprefix("Line ")
    first.focus()
    view.page.keyboard.press("Enter")
    focused = view.page.evaluate("document.activeElement.id")
    assert focused == f"line-{number}"
    assert view.page.locator(f"#{focused}").is_visible()
    view.page.keyboard.press("Enter")
    view.settle()
    assert view.fragment["page"] == "framework_op_stats"
    assert view.page.get_by_role("region", name="Op in detail").count() == 1


def test_without_the_text_lines_are_a_table_and_the_reason_is_said(
    view: View, server: Server
) -> None:
    view.go("model_views", run="compiled", view="source")
    assert "--source" in view.page.locator("main .summary").inner_text()
    assert view.page.locator("table.source").count() == 0
    rows = server.show("compiled", TOOL)["data"]["source"]
    assert view.check_tables({"source": rows}, TOOL) == {"source": len(rows)}
    view.page.locator("main tbody tr").first.press("Enter")
    view.settle()
    assert view.fragment["page"] == "framework_op_stats"


def test_scopes_are_nested_as_wide_as_their_cost(view: View, server: Server) -> None:
    view.go("model_views", run="keras")
    rows = server.show("keras", TOOL)["data"]["scope"]
    total = {row["name"]: row["total_us"] for row in rows}
    spans = view.page.locator(".icicle g[data-span]").evaluate_all(
        """(all) => all.map((each) => [each.dataset.span,
            each.querySelector('rect').width.baseVal.value])"""
    )
    assert len(spans) > 2
    widest, widest_width = max(spans, key=lambda span: span[1])
    for name, width in spans:
        assert width == pytest.approx(
            widest_width * total[name] / total[widest], rel=0.02
        )
    assert (
        view.page.locator(".icicle g[data-span] title").first.text_content() or ""
    ).startswith(f"{spans[0][0]}: ")


def test_a_flame_graph_is_the_icicle_turned_over(view: View) -> None:
    view.go("model_views", run="keras")

    def rows() -> dict[str, float]:
        found: dict[str, float] = view.page.evaluate(
            """() => Object.fromEntries(
                [...document.querySelectorAll('.icicle g[data-span]')].map((each) =>
                    [each.dataset.span, each.querySelector('rect').y.baseVal.value]))"""
        )
        return found

    before = rows()
    view.page.get_by_role("button", name="Root below").click()
    after = rows()
    deepest = max(before.values())
    assert deepest > 0
    assert after == {name: deepest - y for name, y in before.items()}


def test_the_tree_says_the_last_part_of_a_scope(view: View) -> None:
    view.go("model_views", run="keras")
    shown = view.page.locator("[role=treegrid] tbody tr[aria-level='2'] th")
    assert shown.count() > 0
    for cell in shown.all():
        whole = cell.get_attribute("title") or ""
        assert "/" in whole
        assert cell.inner_text().endswith(whole.rpartition("/")[2])


def test_a_flame_graph_is_walked_through_by_key(view: View) -> None:
    view.go("model_views", run="vector")
    page, chosen = view.page, "document.activeElement.dataset.span"
    page.locator(".icicle").get_by_role("button", name="Root below").click()
    spans = page.locator(".icicle g[data-span]")
    assert (
        spans.evaluate_all("(all) => all.filter((g) => g.tabIndex === 0).length") == 1
    )
    page.keyboard.press("Tab")
    whole = page.evaluate(chosen)
    assert whole == spans.first.get_attribute("data-span")
    # Its parts stand above it, the largest first; of equal ones each is reached.
    page.keyboard.press("ArrowUp")
    part = page.evaluate(chosen)
    assert part.startswith(whole)
    assert part != whole
    page.keyboard.press("ArrowRight")
    other = page.evaluate(chosen)
    assert other.startswith(whole)
    assert other != part
    assert other in page.locator(".icicle .hint").inner_text()
    page.keyboard.press("ArrowDown")
    assert page.evaluate(chosen) == whole
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    view.settle()
    assert part in page.locator("main").inner_text()
    assert part in view.fragment.values()
