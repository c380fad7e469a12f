"""Four widths, both themes: nothing wider than the page, nothing out of its panel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.sites.view import PAGES, RICH

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.sites.view import View

WIDTHS = (1440, 1100, 760, 390)
#: Up to this width a menu holds the navigation.
NARROW = 800
#: Boxes whose content sticks out; those that scroll by design may.
STICKS_OUT = """() => [...document.querySelectorAll(
    'main, main .panel, main figure, main article, main .cards li, header, nav')]
    .filter((each) => each.scrollWidth > each.clientWidth + 1
        && getComputedStyle(each).overflowX === 'visible')
    .map((each) => `${each.tagName}.${each.className}:
        ${each.scrollWidth} > ${each.clientWidth}`)"""


# Every page is always tried, from one of the widths.
@pytest.mark.sweep(every=4)
@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("widths", [(1440, 1100), (390, 760)])
def test_nothing_is_wider_than_the_window(
    widths: tuple[int, ...], page: str, window: Callable[..., View]
) -> None:
    """As it opens, and after the window has changed."""
    view = window(width=widths[0])
    view.go(page, run=RICH.get(page, "vector"))
    root = "document.documentElement"
    value = view.page.locator("main [data-field]").first
    details = view.page.get_by_role("complementary", name="Details")
    for width in widths:
        view.page.set_viewport_size({"width": width, "height": 900})
        view.settle()
        assert view.page.evaluate(f"{root}.scrollWidth") <= width
        assert view.page.evaluate(STICKS_OUT) == []
        if value.count():
            value.click()
            assert details.is_visible()
            assert view.page.evaluate(f"{root}.scrollWidth") <= width
            assert view.page.evaluate(STICKS_OUT) == []
            details.get_by_role("button", name="Close").click()


@pytest.mark.sweep(every=2)
@pytest.mark.parametrize("width", WIDTHS)
def test_the_navigation_is_always_there(
    width: int, window: Callable[..., View]
) -> None:
    view = window(width=width)
    view.go("overview_page", run="vector")
    if width <= NARROW:
        view.click("button", "Menu")
    links = view.page.locator("nav a")
    assert links.count() == len(PAGES)
    for link in links.all():
        box = link.bounding_box()
        assert box is not None
        assert 0 <= box["x"] <= box["x"] + box["width"] <= width


@pytest.mark.sweep(every=2)
@pytest.mark.parametrize("width", WIDTHS)
def test_details_open_where_the_reader_is(
    width: int, window: Callable[..., View]
) -> None:
    view = window(width=width)
    view.go("overview_page", run="vector")
    value = view.page.locator("main [data-field]").last
    value.scroll_into_view_if_needed()
    before = view.page.evaluate("scrollY")
    assert before > 200
    value.click()
    view.settle()
    details = view.page.get_by_role("complementary", name="Details")
    box = details.get_by_role("heading").bounding_box()
    assert box is not None
    assert 0 < box["y"] < 900
    details.get_by_role("button", name="Close").click()
    view.settle()
    assert abs(view.page.evaluate("scrollY") - before) < 300


def test_twice_the_size_still_fits(window: Callable[..., View]) -> None:
    # 200 % zoom of a window of 1,400 px leaves 700 CSS pixels.
    view = window(width=700)
    for page in PAGES:
        view.go(page, run=RICH.get(page, "vector"))
        assert view.page.evaluate("document.documentElement.scrollWidth") <= 700


def test_category_colours_are_the_theme_s(window: Callable[..., View]) -> None:
    fills = {}
    for theme in ("light", "dark"):
        view = window(theme=theme)
        view.go("overview_page", run="vector")
        fills[theme] = view.page.locator(
            ".columns path[data-category=input]"
        ).first.evaluate("(each) => getComputedStyle(each).fill")
    assert fills == {"light": "rgb(189, 156, 6)", "dark": "rgb(246, 179, 45)"}
