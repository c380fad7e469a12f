"""axe on every page, in both themes, with everything unfolded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.sites.timeline import COPIES, STEP, STREAM, Timeline
from tests.support.sites.view import PAGES, RICH

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.sites.view import View

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
RUN = """async (rules) => (await axe.run(document, {runOnly: rules})).violations.map(
    (each) => [each.id, each.nodes.map((node) => node.html.slice(0, 120))])"""
#: Runs on which the page has something to show.


def violations(view: View, axe: str) -> list[object]:
    view.page.evaluate(axe)
    found: list[object] = view.page.evaluate(RUN, RULES)
    return found


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("page", PAGES)
def test_axe_finds_nothing(
    page: str, theme: str, window: Callable[..., View], axe: str
) -> None:
    view = window(theme=theme)
    view.go(page, run=RICH.get(page, "vector"))
    assert violations(view, axe) == []
    for details in view.page.locator("main details").all():
        details.evaluate("(each) => { each.open = true; }")
    for twin in view.page.locator("main button[data-twin]").all():
        twin.click()
    view.settle()
    value = view.page.locator("[data-field]").first
    if value.count():
        value.click()
    assert violations(view, axe) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_where_there_is_nothing_to_show(
    theme: str, window: Callable[..., View], axe: str
) -> None:
    view = window(theme=theme)
    for page in (
        "kernel_stats",
        "memory_profile",
        "tf_data_bottleneck_analysis",
        "inference_profile",
    ):
        view.go(page, run="jax")
        assert view.page.locator(".absent").count() == 1
        assert violations(view, axe) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_in_what_is_chosen_on_the_timeline(
    theme: str, window: Callable[..., View], axe: str
) -> None:
    timeline = Timeline(window(theme=theme)).open(q="sgemm", **STEP)
    timeline.click(STREAM, 3480)
    timeline.press("m")
    timeline.page.get_by_text("Marks (1)").click()
    assert violations(timeline.view, axe) == []
    timeline.page.get_by_text("Marks (1)").click()
    timeline.drag((STREAM, 3300), (COPIES, 3700))
    assert timeline.details.locator("[data-spans]").count() == 1
    assert violations(timeline.view, axe) == []


def test_motion_stops_for_those_who_ask(view: View) -> None:
    view.page.emulate_media(reduced_motion="reduce")
    view.go("overview_page", run="vector")
    animated = view.page.evaluate(
        "document.getAnimations().filter((each) => each.playState === 'running').length"
    )
    assert animated == 0
