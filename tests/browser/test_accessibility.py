"""axe on every page, in both themes, with everything unfolded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.sites.timeline import COPIES, STEP, STREAM
from tests.support.sites.view import PAGES, RICH

if TYPE_CHECKING:
    from tests.support.sites.timeline import Timeline
    from tests.support.sites.view import View

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
#: Only what is wrong is of interest: axe need not collect the rest, nor how to find it.
RUN = """async (rules) => (await axe.run(document,
    {runOnly: rules, resultTypes: ['violations'], selectors: false})).violations.map(
    (each) => [each.id, each.nodes.map((node) => node.html.slice(0, 120))])"""
#: The colour of the paper tells which theme is in force.
PAPER = {"light": "rgb(255, 255, 255)", "dark": "rgb(15, 20, 25)"}


def violations(view: View, axe: str) -> list[object]:
    if view.page.evaluate("typeof window.axe") == "undefined":
        view.page.evaluate(axe)
    found: list[object] = view.page.evaluate(RUN, RULES)
    return found


def switch(view: View, theme: str) -> None:
    """Have the page follow a system that prefers this theme."""
    view.page.emulate_media(color_scheme=theme)
    view.settle()
    paper = view.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == PAPER[theme]


@pytest.mark.sweep(every=3)
@pytest.mark.parametrize("page", PAGES)
def test_axe_finds_nothing(page: str, view: View, axe: str) -> None:
    view.go(page, run=RICH.get(page, "vector"))
    for details in view.page.locator("main details").all():
        details.evaluate("(each) => { each.open = true; }")
    for twin in view.page.locator("main button[data-twin]").all():
        twin.click()
    view.settle()
    value = view.page.locator("[data-field]").first
    if value.count():
        value.click()
    for theme in PAPER:
        switch(view, theme)
        assert violations(view, axe) == []


@pytest.mark.parametrize("run", ["jax", "compiled"])
def test_axe_finds_nothing_beside_the_text_of_the_program(
    run: str, view: View, axe: str
) -> None:
    view.go("model_views", run=run, view="source")
    assert view.page.locator("table.source").count() == (run == "jax")
    for theme in PAPER:
        switch(view, theme)
        assert violations(view, axe) == []


def test_axe_finds_nothing_where_there_is_nothing_to_show(view: View, axe: str) -> None:
    for page in (
        "kernel_stats",
        "memory_profile",
        "tf_data_bottleneck_analysis",
        "inference_profile",
    ):
        view.go(page, run="jax")
        assert view.page.locator(".absent").count() == 1
        for theme in PAPER:
            switch(view, theme)
            assert violations(view, axe) == []


def test_axe_finds_nothing_in_what_is_chosen_on_the_timeline(
    timeline: Timeline, axe: str
) -> None:
    timeline.open(q="sgemm", **STEP)
    timeline.click(STREAM, 3480)
    timeline.press("m")
    timeline.page.get_by_text("Marks (1)").click()
    for theme in PAPER:
        switch(timeline.view, theme)
        assert violations(timeline.view, axe) == []
    timeline.page.get_by_text("Marks (1)").click()
    timeline.drag((STREAM, 3300), (COPIES, 3700))
    assert timeline.details.locator("[data-spans]").count() == 1
    for theme in PAPER:
        switch(timeline.view, theme)
        assert violations(timeline.view, axe) == []


def test_motion_stops_for_those_who_ask(view: View) -> None:
    view.page.emulate_media(reduced_motion="reduce")
    view.go("overview_page", run="vector")
    animated = view.page.evaluate(
        "document.getAnimations().filter((each) => each.playState === 'running').length"
    )
    assert animated == 0
