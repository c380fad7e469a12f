"""Whatever stands on the screen is what the command line says, on every run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.sites.browser import COMMITTED
from tests.support.sites.view import PAGES, RICH, TOOL_PAGES

if TYPE_CHECKING:
    from tests.support.sites.browser import Server
    from tests.support.sites.view import View

RUNS = [*COMMITTED, "two_hosts", "allocator", "vector"]


def test_the_navigation_leads_to_every_page(view: View) -> None:
    view.go(run="vector")
    links = view.page.locator("nav a")
    assert links.count() == len(PAGES)
    for index in range(links.count()):
        links.nth(index).click()
        view.settle()
        title = links.nth(index).inner_text()
        assert view.page.locator("main h1").inner_text() == title
        assert view.page.title() == f"{title} · stepscope"
        assert links.nth(index).get_attribute("aria-current") == "page"


# Every page and every run are in some of those that are always tried.
@pytest.mark.sweep(every=6)
@pytest.mark.parametrize("page", TOOL_PAGES)
@pytest.mark.parametrize("run", RUNS)
def test_all_numbers_are_those_of_the_tool(
    run: str, page: str, view: View, server: Server
) -> None:
    told = server.show(run, page)
    view.go(page, run=run)
    if told["data"] is None:
        shown = view.page.locator(".absent").inner_text()
        assert told["unavailable"]["reason"].replace("`", "") in shown
        # What a remedy writes between backticks is shown as code, without them.
        assert told["unavailable"]["remedy"].replace("`", "") in shown
        return
    fields = view.check_values(told["data"])
    tables = view.check_tables(told["data"], page)
    # One worker is compared with none, and allocations alone cost no time.
    lonely = page == "pod_viewer" and len(told["data"]["workers"]) == 1
    assert fields or lonely or (page, run) == ("model_views", "allocator")
    # A tree is no table until it is shown as one; allocations alone make no table, nor
    # does input that was not seen.
    unseen = page == "input_pipeline_analyzer" and not told["data"]["input_ops"]
    assert tables or unseen or page == "model_views" or run == "allocator"


@pytest.mark.sweep(every=4)
@pytest.mark.parametrize("page", TOOL_PAGES)
def test_a_chart_s_table_says_the_same_numbers(
    page: str, view: View, server: Server
) -> None:
    run = RICH.get(page, "two_hosts")
    view.go(page, run=run)
    twins = view.page.locator("main button[data-twin]")
    for index in range(twins.count()):
        twins.nth(index).click()
        assert twins.nth(index).get_attribute("aria-pressed") == "true"
    view.settle()
    told = server.show(run, page)
    if told["data"] is None:
        assert twins.count() == 0
        return
    assert view.check_tables(told["data"], page)
