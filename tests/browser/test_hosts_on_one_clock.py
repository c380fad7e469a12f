"""Several hosts in Trace: below each other, in one window, on one clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.sites.timeline import US, Timeline, box

if TYPE_CHECKING:
    from playwright.sync_api import Locator
    from tests.support.sites.view import View

RUN = "two_hosts"


def below(timeline: Timeline, host: str) -> Locator:
    return timeline.page.locator(f'.companion[aria-label^="{host},"]')


def window_of(companion: Locator) -> tuple[float, float]:
    begin, end = (
        int(companion.locator(".lanes").get_attribute(f"data-{name}") or "")
        for name in ("begin", "end")
    )
    return begin / US, end / US


def shift_us(view: View, host: str, below_it: str) -> float:
    """What is added to a time of the host below, by the clocks that the tool found."""
    clocks = view.server.show(RUN, "pod_viewer")["data"]["clocks"]
    shifts = {each["host"]: each["shift_us"] for each in clocks}
    found: float = shifts[below_it] - shifts[host]
    return found


@pytest.mark.parametrize(("host", "other"), [("vm", "b"), ("b", "vm")])
def test_a_host_below_shows_the_same_moments(
    timeline: Timeline, host: str, other: str
) -> None:
    timeline.open(run=RUN, host=host, beside=other)
    shift = shift_us(timeline.view, host, other)
    for key in ("", "w", "d"):
        if key:
            timeline.press(key)
        begin, end = timeline.window
        assert window_of(below(timeline, other)) == pytest.approx(
            (begin - shift, end - shift), abs=0.01
        )
    assert "aligned by collectives" in (below(timeline, other).inner_text())
    assert "with an error of at most" in below(timeline, other).inner_text()


def test_a_host_is_put_below_and_taken_away(timeline: Timeline) -> None:
    timeline.open(run=RUN, host="vm")
    assert timeline.page.locator(".companion").count() == 0
    timeline.page.locator("summary", has_text="Below").click()
    timeline.page.get_by_label("b", exact=True).check()
    timeline.settle()
    names = below(timeline, "b").locator(".track").all_inner_texts()
    assert any("Stream" in name for name in names)
    timeline.page.get_by_role("button", name="Take b away").click()
    timeline.settle()
    assert timeline.page.locator(".companion").count() == 0
    assert "beside" not in timeline.view.fragment


def test_an_event_below_is_chosen_on_its_own_host(timeline: Timeline) -> None:
    timeline.open(run=RUN, host="vm", beside="b")
    strip = below(timeline, "b")
    row = strip.locator(".track", has_text="Stream #7")
    canvas, lane = box(strip.locator(".overlay")), box(row)
    begin, end = window_of(strip)
    # Of host b the second step runs a kernel from 300 µs after its begin on.
    at = 1000 + 320
    x = (at - begin) / (end - begin) * canvas["width"]
    strip.locator(".overlay").click(
        position={"x": x, "y": lane["y"] - canvas["y"] + 12}
    )
    timeline.page.wait_for_selector(".chosen h2")
    timeline.settle()
    assert timeline.view.fragment["host"] == "b"
    assert timeline.view.fragment["beside"] == "vm"
    start, lasts = timeline.ps("Start") / US, timeline.ps("Duration") / US
    assert start <= at <= start + lasts
    assert timeline.window == pytest.approx((begin, end), abs=0.01)


def test_an_event_below_is_chosen_by_key(timeline: Timeline) -> None:
    timeline.open(run=RUN, host="vm", beside="b")
    strip = below(timeline, "b").get_by_role("application")
    # From the names, the canvas and the panels Tab leads here, and arrows to an event.
    strip.focus()
    selected = timeline.selected
    window = timeline.window
    for _ in range(20):
        timeline.page.keyboard.press("ArrowDown")
        if "Stream #7" in timeline.said:
            break
    first = timeline.said
    assert first.split(", ")[2:] == ["b", "Stream #7(Compute)"]
    timeline.page.keyboard.press("ArrowRight")
    assert timeline.said != first
    # The timeline above has keys of its own.
    assert (timeline.selected, timeline.window) == (selected, window)
    name = timeline.said.split(", ", maxsplit=1)[0]
    timeline.page.keyboard.press("Enter")
    timeline.page.wait_for_selector(".chosen h2")
    timeline.settle()
    assert timeline.view.fragment["host"] == "b"
    assert name in timeline.heading.inner_text()


def test_the_panel_below_scrolls_by_key(timeline: Timeline) -> None:
    timeline.open(run=RUN, host="vm", sel="area:0:8000000000")
    timeline.details.focus()
    timeline.page.keyboard.press("End")
    timeline.page.wait_for_function(
        "() => document.querySelector('.chosen').scrollTop > 0"
    )
    assert timeline.selected == "area:0:8000000000"


def test_the_pod_leads_to_the_slowest_below_the_fastest(view: View) -> None:
    view.go("pod_viewer", run=RUN)
    view.page.get_by_role("link", name="Show the slowest host below").click()
    view.page.wait_for_selector(".companion .lanes[data-begin]")
    view.settle()
    step = next(
        each
        for each in view.server.show(RUN, "pod_viewer")["data"]["steps"]
        if str(each["step"]) == view.fragment["step"]
    )
    work = {each["host"]: each["device_work_ms"] for each in step["workers"]}
    assert view.fragment["beside"] == step["slowest"]["host"]
    assert view.fragment["host"] == min(work, key=lambda host: work[host])
