"""Op stats: up to four pies, a row for each op, idle in or out, one op closely."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.sites.browser import HOSTILE_RUN, Server
from tests.support.sites.serve import put, running
from tests.support.sites.view import PATIENCE_MS, View
from tests.support.traces import blueprint

from stepscope.serve.runs import cutting

if TYPE_CHECKING:
    from pathlib import Path

TOOL = "framework_op_stats"
COLUMNS = [
    "rank",
    "total_self_time_us",
    "device_self_percent",
    "host_self_percent",
    "name",
    "type",
    "host_or_device",
    "occurrences",
    "total_time_us",
    "avg_time_us",
    "avg_self_time_us",
    "device_cumulative_percent",
    "host_cumulative_percent",
]


def slices(view: View, title: str) -> list[list[str]]:
    pie = view.page.locator("figure.chart", has_text=title)
    items = pie.locator("ol.slices li")
    return [item.inner_text().split("\n") for item in items.all()]


def test_the_columns_are_those_promised(view: View) -> None:
    view.go("framework_op_stats", run="vector")
    row = view.page.locator("tbody tr").first.locator("td")
    shown = row.evaluate_all("(all) => all.map((each) => each.dataset.column)")
    assert shown == COLUMNS


def test_a_pie_says_names_and_shares(view: View, server: Server) -> None:
    view.go("framework_op_stats", run="vector")
    pies = server.show("vector", TOOL)["data"]["pies"]
    told = pies["device_by_type"]["without_idle"]
    shown = slices(view, "On the device, by type")
    assert shown == [[each["name"], f"{each['percent']:.1f} %"] for each in told]
    # A step's two matrix products take 200 of 340 µs on the device, copies included.
    assert shown[0] == ["MatMul", "58.8 %"]


def test_shares_are_bars_until_a_pie_is_asked_for(view: View) -> None:
    view.go("framework_op_stats", run="vector")
    chart = view.page.locator("figure.chart", has_text="On the device, by type")
    bars = chart.locator("li.barred").evaluate_all(
        """(all) => all.map((each) => [parseFloat(each.innerText.split("\\n")[1]),
            parseFloat(each.style.getPropertyValue("--length"))])"""
    )
    assert bars
    # A bar of 9.4 % filled its row where no share was larger.
    for share, length in bars:
        assert length == pytest.approx(share, abs=0.06)
    assert chart.locator("svg").count() == 0
    told = slices(view, "On the device, by type")
    chart.get_by_role("button", name="As a pie").click()
    assert chart.locator("svg path").count() == len(told)
    assert slices(view, "On the device, by type") == told


def test_a_run_on_the_cpu_says_why_it_has_no_device_pie(
    view: View, server: Server
) -> None:
    view.go("framework_op_stats", run="loop")
    told = server.show("loop", TOOL)
    reasons = {each["field"]: each["reason"] for each in told["missing"]}
    for title, field in (
        ("On the device, by type", "device_by_type"),
        ("On the device, by op", "device_by_op"),
    ):
        panel = view.page.locator(".absent", has_text=title)
        assert told["data"]["pies"][field] is None
        why = reasons.get(f"pies.{field}") or reasons["pies"]
        assert why in panel.inner_text()


def test_idle_time_can_be_counted(view: View, server: Server) -> None:
    view.go("framework_op_stats", run="vector")
    view.page.get_by_label("Include idle time").check()
    view.settle()
    told = server.show("vector", TOOL, "--include-idle")["data"]
    assert view.check_tables(told, TOOL) == {"rows": len(told["rows"])}
    names = {slice_[0] for slice_ in slices(view, "On the device, by op")}
    assert "IDLE" in names
    assert view.fragment["idle"] == "true"
    view.page.reload()
    view.settle()
    assert view.page.get_by_label("Include idle time").is_checked()


def test_an_op_opens_by_click_and_by_key(view: View, server: Server) -> None:
    view.go("framework_op_stats", run="vector")
    row = view.page.locator("tbody tr", has_text="model/dense_1/MatMul")
    row.focus()
    view.page.keyboard.press("Enter")
    view.settle()
    assert view.fragment["op"] == "model/dense_1/MatMul"
    told = server.show("vector", TOOL, "--op", "model/dense_1/MatMul")["data"]
    detail = view.page.get_by_role("region", name="Op in detail")
    assert "model/dense_1/MatMul, 8 calls" in detail.inner_text()
    assert view.check_values(told)
    assert view.check_tables(told, TOOL)
    view.page.go_back()
    view.settle()
    assert "op" not in view.fragment


def test_rows_sort_and_filter_at_the_server(view: View, server: Server) -> None:
    view.go("framework_op_stats", run="keras")
    told = server.show("keras", TOOL)["data"]["rows"]
    heading = view.page.get_by_role("button", name="Occurrences")
    heading.click()
    view.settle()
    header = view.page.locator("th", has=heading)
    assert header.get_attribute("aria-sort") == "descending"
    shown = view.page.locator("td[data-column=occurrences]")
    first = [int(cell.get_attribute("title") or "") for cell in shown.all()[:20]]
    counts = sorted((row["occurrences"] for row in told), reverse=True)
    assert first == counts[:20]
    view.page.get_by_label("Filter ops").fill("conv2d")
    texts = ("host_or_device", "type", "name")
    matching = [r for r in told if any("conv2d" in str(r[t]).lower() for t in texts)]
    assert 0 < len(matching) < len(told)
    # The page asks a moment after the last key.
    counted = f"{len(matching)} of {len(told)} ops"
    caption = view.page.locator("table caption")
    caption.filter(has_text=counted).wait_for(timeout=PATIENCE_MS)
    assert caption.inner_text() == counted


def test_the_csv_is_that_of_the_command_line(view: View, server: Server) -> None:
    view.go("framework_op_stats", run="vector")
    with view.page.expect_download() as download:
        view.page.get_by_role("link", name="Export as CSV").click()
    content = download.value.path().read_bytes()
    assert content == server.csv("vector", TOOL, "rows")


def test_columns_can_be_chosen(view: View) -> None:
    view.go("framework_op_stats", run="vector")
    headings = view.page.locator("thead th").all_inner_texts()
    view.page.get_by_text("Columns", exact=True).click()
    # The menu has the words of the headings.
    menu = view.page.get_by_role("group", name="Columns shown").locator("label")
    offered = {text.strip() for text in menu.all_inner_texts()}
    assert {text.rstrip(" ▾▴") for text in headings} < offered
    view.page.get_by_label("Rank", exact=True).uncheck()
    view.settle()
    row = view.page.locator("tbody tr").first.locator("td")
    shown = row.evaluate_all("(all) => all.map((each) => each.dataset.column)")
    assert shown == COLUMNS[1:]
    headings = view.page.locator("thead th").all_inner_texts()
    assert headings[:2] == ["Total self time (µs)", "Device self (%)"]
    assert row.all_inner_texts()[3:5] == ["model/dense/MatMul", "MatMul"]


def test_order_filter_and_columns_are_part_of_the_link(view: View) -> None:
    view.go("framework_op_stats", run="vector")
    view.page.get_by_role("button", name="Occurrences").click()
    view.page.get_by_text("Columns", exact=True).click()
    view.page.get_by_label("Rank", exact=True).uncheck()
    view.page.get_by_label("Filter ops").fill("a;b,c~")
    view.page.wait_for_url(re.compile("a%253Bb%252Cc%7E"))
    view.page.get_by_label("Filter ops").fill("dense")
    view.page.wait_for_url(re.compile("%3Bdense"))
    view.settle()
    rows = view.page.locator("main table").inner_text()
    assert "model/dense/MatMul" in rows
    view.page.reload()
    view.settle()
    assert view.page.get_by_label("Filter ops").input_value() == "dense"
    assert view.page.locator("main table").inner_text() == rows
    header = view.page.locator("th[aria-sort=descending]")
    assert header.all_inner_texts() == ["Occurrences ▾"]
    assert "Rank" not in rows


def test_rows_are_one_stop_of_the_tab_key_and_have_names(view: View) -> None:
    view.go("framework_op_stats", run="vector")
    rows = view.page.locator("main tbody tr")
    stops = rows.evaluate_all("(all) => all.filter((row) => row.tabIndex === 0).length")
    assert (stops, rows.count() > 2) == (1, True)
    names = view.page.locator("td[data-column=name]").all_inner_texts()
    labels = [row.get_attribute("aria-label") for row in rows.all()]
    assert labels == names
    rows.first.focus()
    for key, reached in (("ArrowDown", 1), ("End", rows.count() - 1), ("Home", 0)):
        view.page.keyboard.press(key)
        focused = view.page.evaluate("document.activeElement.ariaLabel")
        assert focused == names[reached]
    view.page.keyboard.press("ArrowUp")
    view.page.keyboard.press("Enter")
    view.settle()
    assert view.fragment["op"] == names[0]


def test_copying_works_without_the_clipboard_of_safe_pages(view: View) -> None:
    # Pages of plain http from another machine have none.
    view.page.add_init_script(
        "Object.defineProperty(navigator, 'clipboard', {get: () => undefined});"
    )
    view.go("framework_op_stats", run="vector")
    view.page.evaluate(
        """document.addEventListener("copy", () => {
            window.copied = document.activeElement.value; })"""
    )
    view.page.get_by_role("button", name="Copy", exact=True).click()
    rows = view.page.locator("main tbody tr").count()
    said = view.page.get_by_role("status").filter(has_text="Copied")
    assert said.inner_text() == f"Copied {rows} rows."
    lines = view.page.evaluate("window.copied").split("\n")
    assert lines[0].split("\t") == COLUMNS
    assert len(lines) == rows + 1


def test_what_is_copied_is_no_formula_of_a_spreadsheet(view: View) -> None:
    view.page.add_init_script(
        """Object.defineProperty(navigator, 'clipboard', {get: () => ({
            writeText: (text) => { window.copied = text; return Promise.resolve(); }
        })});"""
    )
    view.go("kernel_stats", run=HOSTILE_RUN)
    view.page.get_by_role("button", name="Copy", exact=True).first.click()
    view.page.get_by_role("status").filter(has_text="Copied").wait_for()
    cells = re.split(r"[\t\n]", view.page.evaluate("window.copied"))
    named = [cell for cell in cells if "HYPERLINK" in cell]
    assert named
    assert {cell[:2] for cell in named} == {"'="}


def test_long_times_are_written_in_seconds(chromium: Any, tmp_path: Path) -> None:
    """77,773,216 µs is no time that a reader takes in."""
    minute = 60_000_000
    ops: list[Any] = [
        ("main", "long:MatMul", 0, minute),
        ("main", "short:Add", minute, 500_000),
    ]
    put(tmp_path, "long", "vm", bytes(blueprint.trace(ops).data))
    with running(tmp_path) as site:
        server = Server(f"http://127.0.0.1:{site.port}/", tmp_path, {})
        view = View(chromium.new_context(), server)
        view.go(TOOL)
        table = view.page.get_by_role("group", name="ops", exact=True)
        assert "Total self time (s)" in table.locator("thead").inner_text()
        cells = table.locator("td[data-column=total_self_time_us]")
        assert cells.all_inner_texts() == ["60.00", "0.50"]
        assert cells.first.get_attribute("title") == str(minute)
        assert view.close() == []


def test_bars_are_as_long_as_their_numbers(view: View) -> None:
    view.go("framework_op_stats", run="vector")
    cells = view.page.locator("td[data-column=total_self_time_us]")
    found = cells.evaluate_all(
        """(all) => all.map((each) => [Number(each.title),
            parseFloat(each.style.getPropertyValue("--length"))])"""
    )
    largest = max(time for time, _ in found)
    assert [length for _, length in found] == [
        pytest.approx(100 * time / largest, abs=0.01) for time, _ in found
    ]


def test_a_table_that_the_server_cut_says_so(
    chromium: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ops: list[Any] = [
        ("main", f"op{at:02d}{'n' * 990}:MatMul", at * 10, 5) for at in range(50)
    ]
    put(tmp_path, "many", "vm", bytes(blueprint.trace(ops).data))
    # Ten names fit into it, and no eleventh.
    monkeypatch.setattr(cutting.count_fitting_rows, "__defaults__", (10_900,))
    with running(tmp_path) as site:
        server = Server(f"http://127.0.0.1:{site.port}/", tmp_path, {})
        view = View(chromium.new_context(), server)
        view.go(TOOL)
        table = view.page.get_by_role("group", name="ops", exact=True)
        assert table.locator("tbody tr").count() == 10
        assert "Only the first 10 rows are shown" in table.inner_text()
        assert table.get_by_role("button", name="Show more rows").count() == 0
        table.get_by_label("Filter ops").fill("op42")
        table.locator("tbody tr").nth(1).wait_for(state="detached")
        assert table.locator("tbody tr").count() == 1
        assert table.locator(".cut").count() == 0
        assert view.close() == []


def test_without_a_device_no_column_is_about_devices(
    view: View, server: Server
) -> None:
    view.go("framework_op_stats", run="keras")
    assert server.show("keras", "framework_op_stats")["data"]["device_idle_us"] is None
    heads = view.page.locator(".table th[scope=col]").all_inner_texts()
    assert any("Host self" in head for head in heads)
    assert not any(head.startswith("Device") for head in heads)
