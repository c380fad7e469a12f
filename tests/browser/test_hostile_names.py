"""Names in a profile are somebody else's: on every page they are text only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.sites.browser import HOSTILE_HOST, HOSTILE_RUN, MARKUP, SCRIPT
from tests.support.sites.view import PAGES

if TYPE_CHECKING:
    from tests.support.sites.view import View

#: Elements that no page of ours makes, or only with names of ours.
FOREIGN = """() => [...document.querySelectorAll(
    'main img, main script, main iframe, [onerror], [onmouseover]')]
    .map((each) => each.outerHTML)"""


@pytest.fixture
def watched(view: View) -> View:
    view.page.add_init_script("window.hostile = () => { window.ran = true; };")
    return view


def inert(view: View) -> None:
    assert view.page.evaluate("window.ran ?? false") is False
    assert view.page.evaluate(FOREIGN) == []


@pytest.mark.sweep(every=4)
@pytest.mark.parametrize("page", PAGES)
def test_markup_is_inert(page: str, watched: View) -> None:
    watched.go(page, run=HOSTILE_RUN)
    inert(watched)
    for twin in watched.page.locator("main button[data-twin]").all():
        twin.click()
    for unfolded in watched.page.locator("main summary").all():
        if unfolded.is_visible():
            # What one opens may cover the next one.
            unfolded.evaluate("summary => { summary.parentElement.open = true }")
    watched.settle()
    inert(watched)


@pytest.mark.sweep(every=2)
@pytest.mark.parametrize(
    ("page", "name"),
    [
        ("framework_op_stats", f"model/{MARKUP}/MatMul"),
        ("framework_op_stats", f"{SCRIPT}MatMul"),
        ("kernel_stats", f"sgemm{MARKUP}"),
        ("kernel_stats", f'=HYPERLINK("{SCRIPT}")'),
        ("overview_page", f"model/{MARKUP}/MatMul"),
        ("input_pipeline_analyzer", f"Iterator::Root::Map{MARKUP}"),
        ("tf_data_bottleneck_analysis", HOSTILE_HOST),
    ],
)
def test_the_name_is_read_as_it_is_written(page: str, name: str, watched: View) -> None:
    watched.go(page, run=HOSTILE_RUN)
    assert name in watched.page.locator("main").inner_text()
    assert HOSTILE_RUN in watched.picker("Run").inner_text()
    assert HOSTILE_HOST in watched.picker("Hosts").inner_text()
    inert(watched)


def test_a_hostile_op_opens_and_its_link_is_inert(watched: View) -> None:
    watched.go("framework_op_stats", run=HOSTILE_RUN)
    cell = watched.page.locator("td[data-column=name]", has_text=MARKUP).first
    op = cell.get_attribute("title")
    assert op is not None
    cell.click()
    watched.settle()
    assert watched.fragment["op"] == op
    assert op in watched.page.get_by_role("region", name="Op in detail").inner_text()
    inert(watched)


def test_hostile_state_in_the_address_is_inert(watched: View) -> None:
    state = {"op": MARKUP, "q": SCRIPT, "mem": MARKUP, "step": SCRIPT, "find": MARKUP}
    for page in ("framework_op_stats", "memory_profile", "pod_viewer", "kernel_stats"):
        watched.go(page, run="vector", **state)
        inert(watched)
    watched.expected("400")  # no op has such a name
    watched.go(MARKUP, run="vector")
    assert MARKUP in watched.page.locator(".notice").inner_text()
    inert(watched)
