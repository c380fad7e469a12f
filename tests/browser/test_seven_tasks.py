"""Seven questions, each answered in at most four clicks from the first page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Locator
    from tests.support.sites.view import View

MOST = 4


class Reader:
    """Starts on the first page of a run, and counts what is clicked or chosen."""

    def __init__(self, view: View, run: str) -> None:
        self.view = view
        self.clicks = 0
        view.go(run=run)

    def click(self, what: Locator) -> None:
        what.click()
        self._count()

    def choose(self, what: Locator, option: str) -> None:
        what.select_option(label=option)
        self._count()

    def open_page(self, title: str) -> None:
        tools = self.view.page.get_by_role("navigation", name="Tools")
        self.click(tools.get_by_role("link", name=title, exact=True))

    def _count(self) -> None:
        self.clicks += 1
        self.view.settle()
        assert self.clicks <= MOST

    @property
    def said(self) -> str:
        return self.view.page.locator("main").inner_text()


@pytest.fixture
def start(view: View) -> Callable[[str], Reader]:
    return lambda run: Reader(view, run)


def test_why_a_step_is_slow(start: Callable[[str], Reader]) -> None:
    reader = start("keras")
    reader.open_page("Overview")
    page = reader.view.page
    steps = reader.view.server.show("keras", "overview_page")["data"]["steps"]
    column = page.locator(".columns g.column").nth(len(steps) // 2)
    reader.click(column)
    chosen = reader.view.fragment["step"]
    panel = page.get_by_role("region", name="Two steps")
    assert f"What makes step {chosen}" in panel.inner_text()
    step = next(one for one in steps if str(one["step"]) == chosen)
    times = panel.locator("tbody tr").last.locator("td")
    assert float(times.nth(1).get_attribute("title") or "nan") == step["duration_ms"]
    # The parts of each step add up to it, and the differences to the difference.
    rows = panel.locator("tbody tr[data-category]").all()
    for at in range(3):
        parts = [
            float(row.locator("td").nth(at).get_attribute("title")) for row in rows
        ]
        whole = float(times.nth(at).get_attribute("title") or "nan")
        assert sum(parts) == pytest.approx(whole, abs=1e-6)


def test_which_kernel_belongs_to_an_op(start: Callable[[str], Reader]) -> None:
    reader = start("vector")
    reader.open_page("Op stats")
    rows = reader.view.server.show("vector", "kernel_stats")["data"]["rows"]
    op = rows[0]["op_name"]
    reader.click(
        reader.view.page.locator("tbody tr", has_text=op).first.locator("td").first
    )
    assert reader.view.fragment["op"] == op
    kernels = {row["kernel_name"] for row in rows if row["op_name"] == op}
    assert kernels
    for kernel in kernels:
        assert kernel in reader.said


def test_what_to_change_first(start: Callable[[str], Reader]) -> None:
    reader = start("unstepped")
    first = reader.view.page.get_by_role(
        "list", name="Recommendation for next steps"
    ).locator("> li")
    assert first.first.is_visible()
    assert first.first.inner_text().startswith("Do first")
    reader.click(first.first.locator("a.main"))
    assert reader.view.fragment["page"] in {"trace_viewer", "findings"}


def test_whether_a_worker_is_slow_or_waits(start: Callable[[str], Reader]) -> None:
    reader = start("two_hosts")
    reader.open_page("Pod viewer")
    told = reader.view.server.show("two_hosts", "pod_viewer")["data"]["workers"]
    for worker in told:
        row = reader.view.page.locator("section.table tr", has_text=worker["host"])
        assert row.first.locator("td[data-column=waited_for_ms]").count() == 1
        assert row.first.locator("td[data-column=collective_wait_ms]").count() == 1


def test_what_grew_between_two_runs(start: Callable[[str], Reader]) -> None:
    reader = start("eager")
    reader.choose(reader.view.picker("Compare with"), "loop")
    assert reader.view.fragment["page"] == "compare"
    reader.view.page.wait_for_selector(".verdict")
    assert reader.view.page.locator(".verdict").inner_text()


def test_what_fills_memory_at_its_peak(start: Callable[[str], Reader]) -> None:
    reader = start("allocator")
    reader.open_page("Memory profile")
    rows = reader.view.page.locator("td[data-column=op_name]").all_inner_texts()
    assert "b:MatMul" in rows


def test_whether_the_loader_keeps_up(start: Callable[[str], Reader]) -> None:
    reader = start("input_bound")
    reader.open_page("Input pipeline")
    verdict = reader.view.page.locator("main .verdict").first
    assert "input" in verdict.inner_text().lower()
