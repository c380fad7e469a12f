"""A phone: the menu, room for fingers, and axe on every page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.browser.test_accessibility import violations
from tests.support.sites.timeline import STEP, STREAM, Timeline, box
from tests.support.sites.view import PAGES, RICH

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.sites.view import View

WIDTH = 390
#: What can be chosen and is lower than 40 px. Links and numbers of a sentence keep its
#: line; what lies in a chart or on the timeline is as large as what it shows.
TOO_SMALL = """() => [...document.querySelectorAll(
    'button, select, summary, input, label:has(input[type=checkbox]), a.button, nav a')]
    .filter((each) => each.checkVisibility() && !each.matches(
        '.link, .value, .lanes *, svg *, input[type=checkbox]'))
    .map((each) => [each.outerHTML.slice(0, 90), each.getBoundingClientRect().height])
    .filter(([, height]) => height < 39.5)"""
#: No frame is drawn between the two.
OPEN_AND_TAP_BESIDE = """async () => {
    const menu = document.querySelector('.menu button');
    menu.click();
    while (menu.getAttribute('aria-expanded') !== 'true') await null;
    document.body.dispatchEvent(new PointerEvent('pointerdown', {bubbles: true}));
    for (let round = 0; round < 100; round++) await null;
}"""


@pytest.fixture
def phone(window: Callable[..., View]) -> View:
    """A narrow window at which fingers point."""
    view = window(width=WIDTH)
    session = view.page.context.new_cdp_session(view.page)
    session.send("Emulation.setTouchEmulationEnabled", {"enabled": True})
    return view


def test_the_menu_leads_to_a_page_and_closes(phone: View) -> None:
    phone.go("overview_page", run="vector")
    assert (
        phone.page.locator("nav").count() == 0
        or not phone.page.locator("nav").is_visible()
    )
    phone.click("button", "Menu")
    links = phone.page.locator("nav a")
    assert links.count() == len(PAGES)
    links.filter(has_text="Kernels").click()
    phone.settle()
    assert phone.page.locator("main h1").inner_text() == "Kernels"
    assert not phone.page.locator("nav").is_visible()
    assert phone.page.evaluate("document.activeElement.id") == "content"


def test_the_menu_works_by_keys_and_closes_beside_it(phone: View) -> None:
    phone.go("overview_page", run="vector")
    menu = phone.page.get_by_role("button", name="Menu")
    menu.focus()
    phone.page.keyboard.press("Enter")
    assert menu.get_attribute("aria-expanded") == "true"
    phone.page.keyboard.press("Tab")
    assert phone.page.evaluate("document.activeElement.textContent") == "Findings"
    phone.page.keyboard.press("Escape")
    assert menu.get_attribute("aria-expanded") == "false"
    assert menu.evaluate("(each) => each === document.activeElement")
    menu.click()
    nav = phone.page.locator("nav")
    nav.wait_for()
    phone.page.mouse.click(WIDTH / 2, 880)
    nav.wait_for(state="hidden")


def test_the_menu_hears_a_tap_beside_it_from_the_moment_it_is_open(
    phone: View,
) -> None:
    phone.go("overview_page", run="vector")
    phone.page.evaluate(OPEN_AND_TAP_BESIDE)
    menu = phone.page.get_by_role("button", name="Menu")
    assert menu.get_attribute("aria-expanded") == "false"


def test_a_dialog_of_the_menu_stays_and_the_menu_behind_it(phone: View) -> None:
    phone.go("overview_page", run="vector")
    phone.click("button", "Menu")
    phone.click("button", "Find a run")
    dialog = phone.page.get_by_role("dialog", name="Runs")
    dialog.get_by_label("Search runs").click()
    assert dialog.is_visible()
    phone.page.keyboard.press("Escape")
    assert dialog.count() == 0
    assert phone.page.locator("nav").is_visible()
    phone.click("button", "Find a run")
    dialog.get_by_role("button", name="keras", exact=True).click()
    phone.settle()
    assert not phone.page.locator("nav").is_visible()
    assert phone.picker("Run").locator("option:checked").inner_text() == "keras"


# The other half of the pages is always tried in a wide window.
@pytest.mark.sweep(every=4)
@pytest.mark.parametrize("page", [*PAGES[1:], PAGES[0]])
def test_fingers_have_room_and_axe_finds_nothing(
    page: str, phone: View, axe: str
) -> None:
    phone.go(page, run=RICH.get(page, "vector"))
    assert phone.page.evaluate("matchMedia('(pointer: coarse)').matches")
    for details in phone.page.locator("main details").all():
        details.evaluate("(each) => { each.open = true; }")
    phone.settle()
    assert phone.page.evaluate(TOO_SMALL) == []
    assert phone.page.evaluate("document.documentElement.scrollWidth") <= WIDTH
    phone.click("button", "Menu")
    assert phone.page.evaluate(TOO_SMALL) == []
    # Colours do not depend on the width: a wide window is tried in both themes.
    assert violations(phone, axe) == []


def test_a_finger_uses_all_four_tools_and_asks_for_sums(phone: View) -> None:
    timeline = Timeline(phone).open(**STEP)
    session = phone.page.context.new_cdp_session(phone.page)

    def touch(kind: str, *places: tuple[float, float]) -> None:
        points = [{"x": x, "y": y, "id": 0} for x, y in places]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    def drag(y: float, *xs: float) -> None:
        touch("touchStart", (xs[0], y))
        for x in xs[1:]:
            touch("touchMove", (x, y))
        touch("touchEnd")
        timeline.settle()

    corner = box(timeline.canvas)
    x, y = timeline.place(STREAM, 3480)
    drag(corner["y"] + y, corner["x"] + x)
    assert "ampere_sgemm_32x32" in timeline.heading.inner_text()
    ruler = box(phone.page.locator(".ruler"))
    begin, end = timeline.window
    drag(ruler["y"] + 10, corner["x"] + 60, corner["x"] + 100, corner["x"] + 140)
    assert timeline.window == (begin, end)
    assert timeline.details.locator("[data-spans]").count() == 1
    timeline.click_tool("Zoom")
    corner = box(timeline.canvas)
    drag(corner["y"] + y, corner["x"] + 60, corner["x"] + 100, corner["x"] + 140)
    seen = timeline.window
    assert begin < seen[0] < seen[1] < end
    assert seen[1] - seen[0] == pytest.approx(
        (end - begin) * 80 / corner["width"], rel=0.25
    )
    timeline.click_tool("Timing")
    corner = box(timeline.canvas)
    drag(corner["y"] + y, corner["x"] + 60, corner["x"] + 100, corner["x"] + 140)
    assert timeline.window == seen
    assert "Measured" in timeline.said
    timeline.click_tool("Pan")
    corner = box(timeline.canvas)
    drag(corner["y"] + y, corner["x"] + 140, corner["x"] + 100, corner["x"] + 60)
    assert timeline.window[0] > seen[0]
    assert timeline.window[1] - timeline.window[0] == pytest.approx(seen[1] - seen[0])
