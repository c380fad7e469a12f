"""The timeline in a browser, on a recording whose every span is known.

The run `vector` is eight steps of a millisecond: kernels on stream 7, copies on stream
8, each launched 200 µs before it starts (`tests/support/traces/blueprint.py`, A.1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.support.sites.timeline import (
    COPIES,
    MAIN,
    STEP,
    STREAM,
    US,
    Timeline,
    asked,
    box,
    fetched,
    track_of,
)

from stepscope.serve.frames import decode_frame

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.sites.view import View


def test_sections_and_tracks_stand_in_the_order_of_the_server(
    timeline: Timeline,
) -> None:
    timeline.open()
    told = asked(timeline, "catalogue")
    sections = timeline.page.locator(".section b").all_text_contents()
    assert sections == [each["name"] for each in told["sections"]]
    shown = [each for each in told["tracks"] if not each["folded"]]
    assert timeline.names == [each["name"] for each in shown if each["drawn_rows"]]


def test_what_is_drawn_is_what_happened(timeline: Timeline) -> None:
    timeline.open(**STEP)
    seen = {us: timeline.colour(STREAM, us) for us in (3250, 3350, 3470, 3530, 3570)}
    assert seen == {
        3250: "page",
        3350: "compute",
        3470: "compute",
        3530: "page",
        3570: "collective",
    }
    seen = {us: timeline.colour(COPIES, us) for us in (3590, 3620, 3645, 3665, 3695)}
    assert seen == {
        3590: "page",
        3620: "input",
        3645: "page",
        3665: "input",
        3695: "output",
    }


def test_a_derived_span_is_filled_as_it_is_busy_and_outlined(
    timeline: Timeline,
) -> None:
    timeline.open(**STEP)
    # Six calls of 5 µs from 3,100 to 3,495 µs; the first of them is a launch.
    assert timeline.colour("Launch Stats", 3300) == "page"
    assert timeline.strength("Launch Stats", 3300) == pytest.approx(30 / 395, abs=0.01)
    # A scope of two kernels of 100 µs in 220 µs, and each of them alone.
    scopes = "Framework Name Scope"
    assert timeline.strength(scopes, 3350) == pytest.approx(200 / 220, abs=0.01)
    assert timeline.strength(scopes, 3350, row=1) == 1
    # The outline reaches from the first call to the end of the last one.
    for edge in (3100.5, 3494.5):
        assert timeline.strength("Launch Stats", edge) > 0.3
    timeline.click("Launch Stats", 3300)
    assert timeline.ps("Duration") == 395 * US
    assert timeline.ps("Busy") == 30 * US
    timeline.click("Steps", 3350)
    assert timeline.fact("Busy").count() == 0


def test_arguments_say_what_they_belong_to(timeline: Timeline) -> None:
    timeline.open(**STEP)
    timeline.click("Launch Stats", 3300)
    assert timeline.fact("num_launches").inner_text() == "6"
    assert timeline.fact("avg_launch_time_us").inner_text() == "5"
    # The id of the first call says nothing of the others.
    assert timeline.fact("correlation_id").count() == 0
    timeline.click("Framework Name Scope", 3350)
    heading = timeline.details.get_by_role("heading", name="Arguments")
    assert heading.inner_text() == "Arguments of its first event, volta_fp16_s884gemm"
    heading.get_by_role("button").click()
    timeline.settle()
    assert "Stream #7" in timeline.fact("Track").inner_text()
    heading = timeline.details.get_by_role("heading", name="Arguments")
    assert heading.inner_text() == "Arguments"


def test_colours_are_those_of_the_theme(window: Callable[..., View]) -> None:
    timeline = Timeline(window(theme="dark")).open(**STEP)
    assert timeline.colour(STREAM, 3350) == "compute"
    timeline.page.locator("header label", has_text="Theme").locator(
        "select"
    ).select_option("light")
    timeline.settle()
    assert timeline.colour(STREAM, 3350) == "compute"
    assert timeline.colour(STREAM, 3250) == "page"


def test_a_click_chooses_an_event_and_says_all_of_it(timeline: Timeline) -> None:
    timeline.open(**STEP)
    timeline.click(STREAM, 3480)
    assert "ampere_sgemm_32x32" in timeline.heading.inner_text()
    assert timeline.ps("Duration") == 100 * US
    assert timeline.ps("Start") == 3420 * US
    assert timeline.fact("Step").inner_text() == "103"
    assert timeline.fact("Events with this name").inner_text() == "8, together 800 µs"
    assert timeline.fact("Category").inner_text().startswith("Device compute")
    track = track_of(timeline, STREAM)
    assert timeline.selected is not None
    assert timeline.selected.startswith(f"{track}:")
    assert timeline.view.fragment["sel"] == timeline.selected


def test_a_kernel_leads_to_its_launch_and_back(timeline: Timeline) -> None:
    timeline.open(**STEP)
    timeline.click(STREAM, 3480)
    related = timeline.details.get_by_role("list").filter(has_text="launched by")
    related.get_by_role("button", name="cuLaunchKernel").click()
    timeline.settle()
    assert timeline.ps("Start") == 3220 * US
    assert timeline.ps("Duration") == 5 * US
    timeline.details.get_by_role("button", name="ampere_sgemm_32x32").click()
    timeline.settle()
    assert timeline.ps("Start") == 3420 * US


def test_arrow_keys_walk_over_events(timeline: Timeline) -> None:
    timeline.open(**STEP)
    timeline.click(STREAM, 3350)
    assert timeline.ps("Start") == 3300 * US
    timeline.press("ArrowRight")
    assert timeline.ps("Start") == 3420 * US
    timeline.press("ArrowRight")
    assert timeline.ps("Start") == 3540 * US
    timeline.press("ArrowLeft", "ArrowLeft")
    assert timeline.ps("Start") == 3300 * US
    timeline.press("ArrowDown")
    assert "Stream #8" in timeline.fact("Track").inner_text()
    timeline.press("ArrowUp")
    assert "Stream #7" in timeline.fact("Track").inner_text()


def test_two_clicks_fill_the_window_with_an_event(timeline: Timeline) -> None:
    timeline.open(**STEP)
    x, y = timeline.place(STREAM, 3570)
    timeline.canvas.dblclick(position={"x": x, "y": y})
    timeline.settle()
    begin, end = timeline.window
    assert (end - begin) * 0.6 == pytest.approx(60, rel=0.01)
    assert timeline.shows(3540, 3600)


def test_events_too_short_to_be_told_apart_are_counted(timeline: Timeline) -> None:
    timeline.open(run="keras")
    begin, end = timeline.window
    told = asked(timeline, "catalogue", run="keras")
    level = int(timeline.root.get_attribute("data-level") or "")
    shown = [each for each in told["tracks"] if each["drawn_rows"]]
    # The widest folded slice of the first track that has threads' work.
    track = next(each for each in shown if each["kind"] == "thread")
    middle = int((begin + end) / 2 * US / (told["tile_buckets"] << level))
    where = {"track": track["track"], "level": level, "index": middle}
    frame = decode_frame(fetched(timeline, "tiles", run="keras", **where))
    columns = {column.name: column.values for column in frame.columns}
    long = columns["end_ps"] - columns["start_ps"]
    seen = (columns["start_ps"] > begin * US) & (columns["end_ps"] < end * US)
    widest = int(np.argmax(np.where(seen & (columns["count"] > 1), long, 0)))
    assert columns["count"][widest] > 1
    at = (columns["start_ps"][widest] + long[widest] / 2) / US
    timeline.click(track["name"], at, row=int(columns["row"][widest]))
    count = int(columns["count"][widest])
    assert timeline.heading.inner_text() == (
        f"{count} events, too short to be drawn separately"
    )
    assert timeline.ps("From first to last") == int(long[widest])
    assert timeline.ps("Busy") == int(columns["busy_ps"][widest])
    timeline.page.get_by_role("button", name="Zoom in on these events").click()
    timeline.settle()
    assert timeline.window[1] - timeline.window[0] < (end - begin) / 10


def test_full_stop_and_comma_go_to_the_events_of_the_same_name(
    timeline: Timeline,
) -> None:
    timeline.open(**STEP)
    timeline.click(STREAM, 3570)
    timeline.press(".")
    assert timeline.ps("Start") == 4540 * US
    assert timeline.shows(4540, 4600)
    timeline.press(",", ",")
    assert timeline.ps("Start") == 2540 * US
    timeline.press(",", ",", ",")
    assert timeline.ps("Start") == 540 * US
    assert timeline.said == "This was the first event with this name."


def test_keys_move_the_window(timeline: Timeline) -> None:
    timeline.open(**STEP)
    begin, end = timeline.window
    timeline.press("w")
    assert timeline.window[1] - timeline.window[0] == pytest.approx((end - begin) / 1.6)
    timeline.press("s")
    assert timeline.window == pytest.approx((begin, end), abs=0.01)
    timeline.press("d")
    assert timeline.window[0] == pytest.approx(begin + 0.2 * (end - begin), abs=0.01)
    timeline.press("a")
    assert timeline.window == pytest.approx((begin, end), abs=0.01)
    timeline.press("0")
    assert timeline.shows(0, 7700)
    timeline.click(STREAM, 3350)
    timeline.press("f")
    begin, end = timeline.window
    assert (end - begin) * 0.6 == pytest.approx(100, rel=0.01)
    assert (begin + end) / 2 == pytest.approx(3350, rel=0.001)


def test_single_letters_can_be_switched_off(timeline: Timeline) -> None:
    timeline.open(**STEP)
    timeline.press("?")
    timeline.page.get_by_label("Single-letter keys").uncheck()
    timeline.page.get_by_role("dialog").get_by_role("button", name="Close").click()
    before = timeline.window
    timeline.press("w", "2")
    assert timeline.window == before
    assert timeline.root.get_attribute("data-tool") == "select"


def test_keys_work_from_the_buttons_and_not_while_writing(timeline: Timeline) -> None:
    timeline.open(**STEP)
    begin, end = timeline.window
    timeline.click_tool("Pan")
    timeline.page.keyboard.press("w")
    timeline.settle()
    assert timeline.window[1] - timeline.window[0] == pytest.approx((end - begin) / 1.6)
    window = timeline.window
    timeline.page.get_by_role("searchbox", name="Search events").focus()
    timeline.page.keyboard.type("wasd")
    timeline.settle()
    assert timeline.window == window


@pytest.mark.sweep(every=2)
@pytest.mark.parametrize(
    ("key", "name"), [("1", "Select"), ("2", "Pan"), ("3", "Zoom"), ("4", "Timing")]
)
def test_tools_are_chosen_by_key_and_by_button(
    key: str, name: str, timeline: Timeline
) -> None:
    timeline.open(tool="pan" if key != "2" else "zoom", **STEP)
    timeline.press(key)
    assert timeline.root.get_attribute("data-tool") == name.lower()
    button = timeline.page.get_by_role("button", name=name, exact=True)
    assert button.get_attribute("aria-pressed") == "true"
    timeline.click_tool("Pan" if key != "2" else "Zoom")
    assert button.get_attribute("aria-pressed") == "false"
    button.click()
    timeline.settle()
    assert timeline.view.fragment["tool"] == name.lower()


def test_pan_drags_the_window(timeline: Timeline) -> None:
    timeline.open(tool="pan", **STEP)
    begin, end = timeline.window
    timeline.drag((STREAM, 3500), (STREAM, 3700))
    assert timeline.window == pytest.approx((begin - 200, end - 200), abs=2)
    assert not timeline.selected
    timeline.press("ArrowRight")
    assert timeline.window[0] == pytest.approx(begin - 200 + 0.2 * (end - begin), abs=2)


def test_zoom_shows_what_was_dragged_over(timeline: Timeline) -> None:
    timeline.open(tool="zoom", **STEP)
    timeline.drag((MAIN, 3960), (MAIN, 3200))
    assert timeline.window == pytest.approx((3200, 3960), abs=2)
    timeline.press("ArrowUp")
    begin, end = timeline.window
    assert end - begin == pytest.approx(760 / 1.6, abs=2)


def test_timing_measures_from_edge_to_edge(timeline: Timeline) -> None:
    timeline.open(tool="timing", **STEP)
    timeline.drag((STREAM, 3301), (STREAM, 3519))
    assert timeline.said == "Measured 220 µs."
    timeline.press("Escape")
    timeline.press("1")
    timeline.drag((STREAM, 3541), (STREAM, 3599), shift=True)
    assert timeline.said == "Measured 60 µs."


def test_timing_stretches_by_key(timeline: Timeline) -> None:
    timeline.open(**STEP)
    timeline.click(STREAM, 3350)
    timeline.press("4", "ArrowRight")
    assert timeline.said == "Measured 220 µs."
    timeline.press("ArrowRight")
    assert timeline.said == "Measured 300 µs."


def test_the_search_counts_and_goes_around(timeline: Timeline) -> None:
    timeline.open(**STEP)
    box = timeline.page.get_by_role("searchbox", name="Search events")
    for keys in ("/", "Control+f"):
        timeline.press(keys)
        assert box.evaluate("(each) => each === document.activeElement")
    box.fill("ampere_SGEMM")
    box.press("Enter")
    timeline.settle()
    timeline.page.locator("output[data-found]").wait_for()
    told = asked(timeline, "search", text="ampere_sgemm")["count"]
    assert int(timeline.page.locator("output").get_attribute("data-found") or 0) == told
    assert told >= 8
    assert timeline.ps("Start") == 3420 * US
    box.press("Enter")
    timeline.settle()
    assert timeline.ps("Start") == 4420 * US
    box.press("Shift+Enter")
    box.press("Shift+Enter")
    timeline.settle()
    assert timeline.view.fragment["q"] == "ampere_SGEMM"


def test_a_search_leaves_what_it_does_not_mean_pale(timeline: Timeline) -> None:
    timeline.open(q="nccl", **STEP)
    assert timeline.colour(STREAM, 3570) == "collective"
    assert timeline.colour(STREAM, 3350) != "compute"
    timeline.press("Escape")
    assert timeline.colour(STREAM, 3350) == "compute"


def test_a_pattern_is_a_regular_expression(timeline: Timeline) -> None:
    timeline.open(q="/^(nccl|volta)/", **STEP)
    told = asked(timeline, "search", text="/^(nccl|volta)/")["count"]
    assert told >= 16
    found = timeline.page.locator("output[data-found]")
    assert int(found.get_attribute("data-found") or 0) == told


def test_counters_are_drawn_over_time(timeline: Timeline) -> None:
    timeline.open(run="allocator")
    told = asked(timeline, "catalogue", run="allocator")
    counter = next(each for each in told["tracks"] if each["counter"])
    frame = decode_frame(
        fetched(
            timeline,
            "counters",
            run="allocator",
            track=counter["track"],
            level=told["coarsest_level"],
            index=0,
        )
    )
    columns = {column.name: column.values for column in frame.columns}
    high = columns["last"] >= 0.9 * counter["greatest"]
    held = np.diff(columns["start_ps"])
    longest = int(np.argmax(np.where(high[:-1], held, 0)))
    middle = columns["start_ps"][longest] + held[longest] / 2
    # Half way up the lane the area is filled where the value is near its greatest.
    assert timeline.colour(counter["name"], middle / US, row=1) != "page"
    first = columns["start_ps"][0] / US
    assert timeline.colour(counter["name"], first - 1, row=1) == "page"


def test_a_counter_says_its_value(timeline: Timeline) -> None:
    # MiB in use: 430 from 21 µs on, 420 from 25, 620 from 30, 420 again from 40.
    timeline.open(run="allocator")
    counter = "Memory in use: GPU_0_bfc"
    at = {name: box(timeline.canvas)[name] for name in ("x", "y")}
    card = timeline.page.locator(".card")
    for us, value in ((23, "430 MiB"), (42, "420 MiB"), (35, "620 MiB")):
        x, y = timeline.place(counter, us, row=1)
        timeline.page.mouse.move(at["x"] + x, at["y"] + y)
        timeline.settle()
        assert card.inner_text() == f"{counter}\n{value}"
        timeline.click(counter, us, row=1)
        assert timeline.heading.inner_text() == counter
        assert timeline.fact("Value").inner_text() == value
        assert timeline.said == f"{counter}: {value}"
    assert timeline.fact("Greatest").inner_text() == "620 MiB"
    assert timeline.ps("Set at") == 30 * US
    # Keys go to when a value was set, to those before, and to the lanes above.
    for since, value in ((30, "620 MiB"), (25, "420 MiB")):
        timeline.press("ArrowLeft")
        assert timeline.fact("Value").inner_text() == value
        assert timeline.ps("At") == since * US
    timeline.page.reload()
    timeline.settle()
    assert timeline.fact("Value").inner_text() == "420 MiB"
    timeline.press("g")
    assert "no gaps" in timeline.said
    timeline.press("ArrowUp")
    assert timeline.fact("Track").count() == 1
    timeline.press("ArrowDown")
    assert timeline.heading.inner_text() == counter
    timeline.click(counter, 7, row=1)
    assert timeline.fact("Value").inner_text() == "no value before this time"


def test_the_card_at_the_pointer_goes_with_the_keys(timeline: Timeline) -> None:
    timeline.open(**STEP)
    x, y = timeline.place(STREAM, 3350)
    corner = box(timeline.canvas)
    timeline.canvas.focus()
    timeline.page.mouse.move(corner["x"] + x, corner["y"] + y)
    timeline.settle()
    card = timeline.page.locator(".card")
    assert "volta_fp16_s884gemm" in card.inner_text()
    # A fifth of 1,100 µs later the pointer is at 3,570 µs.
    timeline.page.keyboard.press("d")
    timeline.settle()
    assert "ncclDevKernel_AllReduce" in card.inner_text()
    # And another one later, at 3,790 µs, nothing runs.
    timeline.page.keyboard.press("d")
    timeline.settle()
    assert card.count() == 0
    timeline.page.keyboard.press("a")
    timeline.settle()
    assert "ncclDevKernel_AllReduce" in card.inner_text()
    # Zooming is at the pointer, also where keys brought it.
    timeline.page.keyboard.press("w")
    timeline.settle()
    assert "ncclDevKernel_AllReduce" in card.inner_text()


def test_the_wheel_with_control_zooms_at_the_pointer(timeline: Timeline) -> None:
    timeline.open(**STEP)
    x, y = timeline.place(STREAM, 3350)
    corner = box(timeline.canvas)
    timeline.page.mouse.move(corner["x"] + x, corner["y"] + y)
    timeline.page.keyboard.down("Control")
    timeline.page.mouse.wheel(0, -300)
    timeline.page.keyboard.up("Control")
    timeline.page.wait_for_function(
        "(before) => document.querySelector('.trace').dataset.begin !== before",
        arg=str(2950 * US),
    )
    timeline.settle()
    after, _ = timeline.place(STREAM, 3350)
    assert after == pytest.approx(x, abs=1)
    begin, end = timeline.window
    assert end - begin < 1000


def test_fingers_pan_and_pinch_on_a_narrow_screen(
    window: Callable[..., View],
) -> None:
    timeline = Timeline(window(width=390)).open(**STEP)
    root = "document.documentElement"
    assert timeline.page.evaluate(f"{root}.scrollWidth") <= 390
    timeline.canvas.scroll_into_view_if_needed()
    corner = box(timeline.canvas)
    x, y = corner["x"] + corner["width"] / 2, corner["y"] + 60
    session = timeline.page.context.new_cdp_session(timeline.page)

    def touch(kind: str, *places: tuple[float, float]) -> None:
        points = [
            {"x": at[0], "y": at[1], "id": number} for number, at in enumerate(places)
        ]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    begin, end = timeline.window
    touch("touchStart", (x, y))
    touch("touchMove", (x - 20, y))
    touch("touchMove", (x - 60, y))
    touch("touchEnd")
    timeline.settle()
    moved = (end - begin) * 60 / corner["width"]
    assert timeline.window[0] == pytest.approx(begin + moved, abs=8)
    begin, end = timeline.window
    touch("touchStart", (x - 20, y), (x + 20, y))
    touch("touchMove", (x - 30, y), (x + 30, y))
    touch("touchMove", (x - 40, y), (x + 40, y))
    touch("touchEnd")
    timeline.settle()
    assert timeline.window[1] - timeline.window[0] == pytest.approx(
        (end - begin) / 2, rel=0.1
    )
