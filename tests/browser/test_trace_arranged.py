"""The timeline as a reader arranges it: tracks, marks, and links that keep them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.sites.timeline import (
    COPIES,
    MAIN,
    STEP,
    STREAM,
    US,
    Timeline,
    asked,
    box,
)
from tests.support.sites.view import View

if TYPE_CHECKING:
    from tests.support.sites.browser import Server


def test_sections_and_tracks_fold(timeline: Timeline) -> None:
    timeline.open(**STEP)
    names = timeline.names
    section = timeline.page.locator(".section").first
    section.click()
    timeline.settle()
    assert section.get_attribute("aria-expanded") == "false"
    assert len(timeline.names) < len(names)
    assert timeline.view.fragment["folded"] == "s0"
    timeline.page.reload()
    timeline.settle()
    assert timeline.page.locator(".section").first.get_attribute("aria-expanded") == (
        "false"
    )
    timeline.page.locator(".section").first.click()
    timeline.settle()
    assert timeline.names == names


def test_tracks_are_hidden_and_come_back(timeline: Timeline) -> None:
    timeline.open(**STEP)
    names = timeline.names
    track = timeline.label(COPIES)
    track.hover()
    track.get_by_role("button", name="Hide").click()
    timeline.settle()
    assert [name for name in names if name not in timeline.names] == [
        name for name in names if COPIES in name
    ]
    timeline.page.get_by_text("1 hidden").click()
    timeline.page.get_by_role("button", name="Show all").click()
    timeline.settle()
    assert timeline.names == names


def test_a_pinned_track_stays_on_top(timeline: Timeline) -> None:
    timeline.open(**STEP)
    label = timeline.label(MAIN)
    label.locator(".name").focus()
    timeline.page.keyboard.press("p")
    timeline.settle()
    assert timeline.names[0] == MAIN
    assert timeline.names.count(MAIN) == 1
    assert timeline.colour(STREAM, 3350) == "compute"
    assert timeline.colour(MAIN, 3500) != "page"


def test_tracks_are_filtered_by_their_name(timeline: Timeline) -> None:
    timeline.open(**STEP)
    names = timeline.names
    box_of_filter = timeline.page.get_by_label("Filter tracks")
    box_of_filter.fill("stream #8")
    timeline.settle()
    assert [COPIES in name for name in timeline.names] == [True]
    timeline.page.reload()
    timeline.settle()
    assert [COPIES in name for name in timeline.names] == [True]
    # A section's name stands for all of its tracks.
    box_of_filter.fill("host threads")
    timeline.settle()
    assert MAIN in timeline.names
    assert not any(COPIES in name for name in timeline.names)
    # What is gone to is shown, filtered or not.
    box_of_filter.fill("stream #8")
    timeline.settle()
    timeline.page.get_by_label("Search events").fill("volta")
    timeline.page.get_by_label("Search events").press("Enter")
    timeline.settle()
    assert timeline.names == names


def test_the_focus_stays_with_a_track_that_goes_elsewhere(timeline: Timeline) -> None:
    timeline.open(**STEP)
    names = timeline.names
    focused = "document.activeElement.getAttribute('aria-label')"
    keyboard = timeline.page.keyboard
    timeline.label(MAIN).locator(".name").focus()
    for key, pinned in (("p", True), ("p", False)):
        keyboard.press(key)
        timeline.settle()
        assert (timeline.names[0] == MAIN) is pinned
        assert timeline.page.evaluate(focused) == MAIN
    assert timeline.names == names
    # Of a track that is hidden, to the one that takes its place.
    timeline.label(COPIES).locator(".name").focus()
    place = next(at for at, name in enumerate(names) if COPIES in name)
    keyboard.press("h")
    timeline.settle()
    assert len(timeline.names) == len(names) - 1
    reached = timeline.page.evaluate(focused)
    assert reached.startswith((timeline.names[place], "Host Threads"))


def test_fingers_pin_and_hide_tracks(chromium: Any, server: Server) -> None:
    context = chromium.new_context(
        has_touch=True, is_mobile=True, viewport={"width": 390, "height": 800}
    )
    view = View(context, server)
    timeline = Timeline(view).open(**STEP)
    names = timeline.names
    timeline.label(COPIES).locator(".name").tap()
    actions = timeline.page.get_by_role("group", name="Track Stream #8")

    def touch(name: str) -> None:
        button = actions.get_by_role("button", name=name, exact=True)
        assert box(button)["height"] >= 40
        button.tap()
        timeline.settle()

    touch("Pin")
    assert COPIES in timeline.names[0]
    touch("Unpin")
    assert timeline.names == names
    touch("Hide")
    assert len(timeline.names) == len(names) - 1
    assert actions.count() == 0
    assert view.close() == []
    context.close()


def test_marks_and_notes_are_in_the_address(timeline: Timeline) -> None:
    timeline.open(**STEP)
    timeline.click(STREAM, 3350)
    timeline.press("m")
    assert timeline.said == "Mark 1 set."
    timeline.page.get_by_text("Marks (1)").click()
    note = timeline.page.get_by_label("Note of mark 1")
    note.fill("slow, ~20 % more")
    note.press("Tab")
    timeline.settle()
    timeline.page.reload()
    timeline.settle()
    timeline.page.get_by_text("Marks (1)").click()
    assert timeline.page.get_by_label("Note of mark 1").input_value() == (
        "slow, ~20 % more"
    )
    timeline.press("m")
    assert timeline.page.get_by_text("Marks", exact=True).is_visible()


def test_a_link_opens_the_same_view(timeline: Timeline) -> None:
    timeline.open(**STEP)
    timeline.click(STREAM, 3480)
    timeline.press("2")
    timeline.page.wait_for_url("**t0=2950**")
    before, window = timeline.view.fragment, timeline.window
    timeline.page.reload()
    timeline.settle()
    assert timeline.window == window
    assert timeline.view.fragment == before
    assert timeline.ps("Start") == 3420 * US


def test_a_link_to_an_event_brings_it_into_view(timeline: Timeline) -> None:
    timeline.open(**STEP)
    timeline.click(STREAM, 3480)
    chosen = timeline.selected
    assert chosen
    timeline.open(sel=chosen)
    assert timeline.shows(3420, 3520)


def test_a_link_to_a_step_shows_it(timeline: Timeline) -> None:
    timeline.open(step="105")
    assert timeline.shows(5000, 5900)
    assert not timeline.shows(4900, 6100)


def test_an_op_in_detail_leads_to_its_events(timeline: Timeline) -> None:
    timeline.view.go("framework_op_stats", run="vector", op="model/dense_1/MatMul")
    timeline.page.get_by_role("link", name="Events of this op in Trace").click()
    timeline.settle()
    assert timeline.page.locator("main h1").inner_text() == "Trace"
    found = timeline.page.locator("output[data-found]")
    told = asked(timeline, "search", text="model/dense_1/MatMul")["count"]
    assert int(found.get_attribute("data-found") or 0) == told > 0


def test_a_damaged_link_shows_the_whole(timeline: Timeline) -> None:
    timeline.open(t0="x", t1="-", sel="no", marks="a,b", folded="s99", pinned="99")
    assert timeline.shows(0, 7700)
    assert timeline.names


def test_names_of_tracks_are_one_stop_of_the_tab_key(timeline: Timeline) -> None:
    timeline.open(**STEP)
    page = timeline.page
    focused = "document.activeElement.textContent"
    timeline.page.locator(".section").first.focus()
    first = page.evaluate(focused)
    page.keyboard.press("Tab")
    assert timeline.canvas.evaluate("(each) => each === document.activeElement")
    page.keyboard.press("Shift+Tab")
    assert page.evaluate(focused) == first
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    second = timeline.names[1]
    assert second in page.evaluate(focused)
    assert timeline.selected is None or timeline.selected == ""
    # From a track its own buttons come next, then the canvas.
    page.keyboard.press("Tab")
    label = page.evaluate("document.activeElement.getAttribute('aria-label')")
    assert label == f"Pin {second}"
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert timeline.canvas.evaluate("(each) => each === document.activeElement")
    page.keyboard.press("Shift+Tab")
    assert second in page.evaluate(focused)
