"""What pictures of the pages showed once: texts that are cut, repeated or in codes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from tests.support.sites.view import PAGES, RICH

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.sites.browser import Server
    from tests.support.sites.view import View

#: A plural after a one, or a unit after what is not known.
UNGRAMMATICAL = re.compile(
    r"(?<![\d.,])1 (calls|steps|ops|kernels|hosts|devices|workers|requests|events"
    r"|findings|stages|launches|runs|batches|waits)\b|– (ms|µs|%|[KMG]iB)"
    r"|\bNaN\b|\bundefined\b|`"
)
#: Codes of answers that have words.
CODES = re.compile(r"\b(device_compute_\d\d|kernel_launch|demanded_file_read)\b")
#: Names that reach under the arrow beside them, or out of their cell.
CUT_NAMES = """() => [...document.querySelectorAll('main td .name')].filter((each) => {
    const cell = each.closest('td'), arrow = cell.querySelector('.to-trace');
    const end = (arrow ?? cell).getBoundingClientRect();
    return each.getBoundingClientRect().right > (arrow ? end.left : end.right) + 2;
}).map((each) => each.textContent)"""
#: Cells that stick out of the box that the table scrolls in.
CUT_TOTALS = """() => {
    const end = document.querySelector('main .scroll:has(.account)')
        .getBoundingClientRect().right;
    return [...document.querySelectorAll('.account td.number')]
        .filter((each) => each.getBoundingClientRect().right > end + 1)
        .map((each) => each.textContent);
}"""


@pytest.mark.sweep(every=4)
@pytest.mark.parametrize("page", PAGES)
def test_every_page_speaks_plainly(page: str, view: View) -> None:
    view.go(page, run=RICH.get(page, "vector"))
    said = view.page.locator("main").inner_text()
    assert [each[0] for each in UNGRAMMATICAL.finditer(said)] == []
    assert CODES.findall(said) == []


def test_names_end_before_the_arrow_beside_them(view: View) -> None:
    view.go("framework_op_stats", run="keras")
    assert view.page.locator("main td:has(.to-trace) .name").count() > 5
    assert view.page.evaluate(CUT_NAMES) == []


def test_the_account_fits_on_a_phone(window: Callable[..., View]) -> None:
    view = window(width=390)
    for run in ("vector", "keras"):
        view.go("overview_page", run=run)
        assert view.page.locator(".account td.number").count() > 4
        assert view.page.evaluate(CUT_TOTALS) == []


#: Left and right edges of a table's first name and of the first number beside it, and
#: of the box that the table scrolls in.
NAME_AND_NUMBER = """(row) => [row.querySelector('[data-name]'), row.querySelector(
    'td.number:not([data-column=rank])'), row.closest('.scroll')].map((each) => {
        const box = each.getBoundingClientRect();
        return [box.left, box.right];
    })"""


@pytest.mark.sweep(every=2)
@pytest.mark.parametrize(
    ("page", "run", "name"),
    [
        ("framework_op_stats", "keras", "td[data-column=name]"),
        ("kernel_stats", "busy_gpu", "td[data-column=kernel_name]"),
        ("model_views", "busy_gpu", "[role=treegrid] tbody th"),
    ],
)
def test_a_phone_shows_names_beside_their_numbers(
    page: str, run: str, name: str, window: Callable[..., View]
) -> None:
    view = window(width=390)
    view.go(page, run=run)
    first = view.page.locator(f"main .scroll {name}").first
    first.evaluate("(each) => { each.dataset.name = ''; }")
    row = view.page.locator("main .scroll tr:has([data-name])")
    named, number, box = row.evaluate(NAME_AND_NUMBER)
    assert box[0] <= named[0] < named[1] <= number[0] + 1
    assert named[1] - named[0] > 90
    assert number[1] <= box[1] + 1


def test_a_short_name_has_two_lines_at_most_on_a_phone(
    window: Callable[..., View],
) -> None:
    view = window(width=390)
    for page, run in (("pod_viewer", "compiled"), ("kernel_stats", "busy_gpu")):
        view.go(page, run=run)
        plain = view.page.locator("main td .plain")
        assert plain.count() > 0
        heights = plain.evaluate_all(
            "(all) => all.map((each) => each.getBoundingClientRect().height)"
        )
        assert max(heights) <= 36


def test_code_in_a_remedy_is_set_as_code(view: View) -> None:
    view.go("inference_profile", run="jax")
    remedy = view.page.locator(".absent dd").last
    assert "Trace(" in remedy.locator("code").inner_text()
    assert "`" not in remedy.inner_text()


def test_no_line_ends_between_a_number_and_its_unit(view: View) -> None:
    view.go("findings", run="keras")
    headline = view.page.locator(".headline .verdict")
    whole = headline.locator(".whole").first
    assert re.fullmatch(r"[\d.,]+ (%|ms|µs|s)", whole.inner_text())
    assert whole.evaluate("(each) => getComputedStyle(each).whiteSpace") == "nowrap"


def test_names_of_runs_can_be_read_on_a_phone(window: Callable[..., View]) -> None:
    view = window(width=390)
    view.go("findings", run="vector")
    view.click("button", "Menu")
    view.click("button", "Find a run")
    dialog = view.page.get_by_role("dialog", name="Runs")
    box = dialog.locator("tbody th").first.bounding_box()
    assert box is not None
    assert box["width"] > 90
    assert dialog.evaluate("(each) => each.scrollWidth <= each.clientWidth")


def test_steps_that_are_in_no_mean_are_pale_and_counted(
    view: View, server: Server
) -> None:
    told = server.show("requests", "overview_page")["data"]
    outside = [step for step in told["steps"] if "open_end" in step["flags"]]
    assert len(outside) == len(told["steps"]) - told["step_count"] == 1
    view.go("overview_page", run="requests")
    chart = view.page.locator(".columns")
    pale, last = chart.locator(".outside"), chart.locator(".catch").last
    assert pale.count() == 1
    assert pale.get_attribute("x") == last.get_attribute("x")
    said = view.page.locator("main").inner_text()
    assert "Left out: 1 unknown end." in said
    assert "The mean excludes pale columns." in said


def test_one_worker_is_compared_with_none(view: View) -> None:
    view.go("pod_viewer", run="vector")
    said = view.page.locator("main").inner_text()
    assert "Only one worker was recorded" in said
    for word in ("Imbalance", "slowest first"):
        assert word not in said


def test_columns_that_are_unknown_in_every_row_wait_to_be_asked_for(
    view: View, server: Server
) -> None:
    told = server.show("vector", "pod_viewer")["data"]["workers"]
    assert {row["waited_for_ms"] for row in told} == {None}
    view.go("pod_viewer", run="vector")
    table = view.page.get_by_role("group", name="workers", exact=True)
    heads = table.locator("thead").inner_text()
    assert "Step (ms)" in heads
    assert "waited for it" not in heads
    table.locator("summary", has_text="Columns").click()
    table.get_by_label("Others waited for this worker (ms)").check()
    view.settle()
    assert "waited for this worker" in table.locator("thead").inner_text()
