"""Stretches of the timeline: gaps, explanations, areas and their sums, tables."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from tests.support.sites.timeline import MAIN, STEP, STREAM, US, asked, track_of

if TYPE_CHECKING:
    from tests.support.sites.timeline import Timeline


def test_gaps_are_chosen_by_key_and_by_click(timeline: Timeline) -> None:
    timeline.open(**STEP)
    timeline.click(STREAM, 3350)
    timeline.press("g")
    heading = timeline.heading
    assert heading.inner_text() == "No event ran here for 20 µs"
    timeline.press("g")
    assert heading.inner_text() == "No event ran here for 20 µs"
    assert timeline.selected != ""
    timeline.press("Shift+G")
    assert heading.inner_text() == "No event ran here for 20 µs"
    timeline.click(MAIN, 3950)
    assert "No event ran here" in heading.inner_text()


def test_a_gap_is_as_long_as_it_is_however_little_of_it_is_seen(
    timeline: Timeline,
) -> None:
    timeline.page.route(
        "**/data/explain?*", lambda route: route.fulfill(json=EXPLAINED)
    )
    timeline.open(t0=str(3800 * US), t1=str(3802 * US))
    timeline.click(STREAM, 3801)
    heading = timeline.heading
    # From the end of the step's last kernel to the first one of the next step.
    assert heading.inner_text() == "No event ran here for 700 µs"
    timeline.open(t0=str(7800 * US), t1=str(7802 * US))
    timeline.click(STREAM, 7801)
    assert heading.locator("[data-ps]").get_attribute("data-ps") == str(
        asked(timeline, "catalogue")["end_ps"] - 7600 * US
    )


def test_a_gap_that_ends_beyond_the_window_is_chosen_by_key(timeline: Timeline) -> None:
    # The last kernel of a step from 3,540 to 3,600 µs; a microsecond after it is seen.
    timeline.open(t0=str(3580 * US), t1=str(3601 * US))
    timeline.click(STREAM, 3590)
    timeline.press("g")
    assert timeline.heading.inner_text() == "No event ran here for 700 µs"
    assert "from 3.600 ms to 4.300 ms" in timeline.details.inner_text()


EXPLAINED = {
    "schema": 1,
    "unavailable": None,
    "text": "Device 0 is idle for 20 µs.",
    "begin_ps": 3400 * US,
    "end_ps": 3420 * US,
    "dur_ps": 20 * US,
    "owners": [
        {
            "owner": "launch",
            "label": "waiting for launches",
            "ps": 15 * US,
            "percent": 75.0,
            "parts": [{"name": "Python between ops", "ps": 15 * US}],
            "intervals": [
                {
                    "begin_ps": 3400 * US,
                    "end_ps": 3415 * US,
                    "track": None,
                    "item": None,
                    "name": None,
                }
            ],
        }
    ],
    "before": None,
    "after": None,
    "meanwhile": [],
    "not_explained_percent": 25.0,
    "confidence": "medium",
    "remedy": "Record with the Python tracer.",
}


def test_idle_time_of_a_device_is_explained(timeline: Timeline) -> None:
    questions: list[str] = []

    def answer(route: Any) -> None:
        questions.append(route.request.url)
        route.fulfill(json=EXPLAINED)

    timeline.page.route("**/data/explain?*", answer)
    timeline.open(t0=str(3395 * US), t1=str(3425 * US))
    before = timeline.overlaid(STREAM, 3410)
    timeline.click(STREAM, 3410)
    told = timeline.details.get_by_role("region", name="Explanation")
    assert "Device 0 is idle for 20 µs." in told.inner_text()
    owner = told.locator("tr[data-owner=launch]").inner_text()
    assert "waiting for launches" in owner
    assert "15 µs" in owner
    assert "75.0 %" in owner
    assert "Record with the Python tracer." in told.inner_text()
    (question,) = questions
    given = parse_qs(urlsplit(question).query)
    assert given["device"] == ["0"]
    assert 3400 * US < int(given["at_ps"][0]) < 3420 * US
    # The owner's interval lies over the lanes, and nothing beyond it.
    assert timeline.overlaid(STREAM, 3410) != before
    assert timeline.overlaid(STREAM, 3418) == before


def test_other_gaps_are_explained_on_request(timeline: Timeline) -> None:
    timeline.page.route(
        "**/data/explain?*", lambda route: route.fulfill(json=EXPLAINED)
    )
    timeline.open(**STEP)
    timeline.click(MAIN, 3950)
    told = timeline.details.get_by_role("region", name="Explanation")
    assert told.count() == 0
    timeline.press("e")
    assert told.count() == 1
    timeline.press("Escape")
    assert told.count() == 0


def test_a_server_that_explains_nothing_is_said(timeline: Timeline) -> None:
    refusal = {"error": {"code": "not_found", "message": "There is no such page."}}
    timeline.page.route(
        "**/data/explain?*", lambda route: route.fulfill(status=404, json=refusal)
    )
    timeline.open(**STEP)
    timeline.click(STREAM, 3410)
    assert "An explanation is not available from this server." in (
        timeline.details.inner_text()
    )
    timeline.view.expected("404")


def test_an_area_is_summed_by_owner_op_and_kernel(timeline: Timeline) -> None:
    timeline.open(**STEP)
    timeline.drag((STREAM, 3300), (STREAM, 3599.9))
    track = track_of(timeline, STREAM)
    assert timeline.selected == f"area:{3300 * US}:{3600 * US}:{track}"
    told = asked(timeline, "totals", begin_ps=3300 * US, end_ps=3600 * US, track=track)
    events = timeline.details.locator("[data-spans]")
    assert events.get_attribute("data-spans") == str(told["spans"]) == "3"
    shown = {
        row.get_attribute("data-owner"): int(
            row.locator("[data-ps]").get_attribute("data-ps") or ""
        )
        for row in timeline.details.locator("tr[data-owner]").all()
    }
    assert shown == {
        each["owner"]: each["time_ps"] for each in told["owners"] if each["time_ps"]
    }
    assert sum(shown.values()) == 300 * US
    kernels = timeline.details.locator("table", has_text="Kernels").inner_text()
    assert "ampere_sgemm_32x32" in kernels
    assert "ncclDevKernel_AllReduce" in kernels
    assert "model/dense_1/MatMul" in timeline.details.inner_text()


def test_ops_of_the_host_and_of_the_device_are_summed_apart(
    timeline: Timeline,
) -> None:
    timeline.open(run="unstepped")
    begin, end = (round(us * US) for us in timeline.window)
    told = asked(timeline, "totals", run="unstepped", begin_ps=begin, end_ps=end)
    both = {each["name"] for each in told["ops"]} & {
        each["name"] for each in told["host_ops"]
    }
    assert both
    timeline.open(run="unstepped", sel=f"area:{begin}:{end}")
    for title, field in (("device", "ops"), ("host", "host_ops")):
        table = timeline.details.locator("table", has_text=f"Ops on the {title}")
        shown = [
            int(cell.get_attribute("data-ps") or "")
            for cell in table.locator("[data-ps]").all()
        ]
        assert shown == [each["time_ps"] for each in told[field][:12]]


def test_a_measured_time_is_summed_by_key(timeline: Timeline) -> None:
    timeline.open(**STEP)
    timeline.click(STREAM, 3350)
    timeline.press("Shift+ArrowRight", "r")
    assert timeline.selected == f"area:{3300 * US}:{3520 * US}"
    assert timeline.details.locator("[data-spans]").count() == 1


def test_the_table_lists_the_events_in_view(timeline: Timeline) -> None:
    timeline.open(**STEP)
    begin, end = timeline.window
    timeline.press("t")
    table = timeline.page.locator(".trace table")
    tracks = [
        each["track"]
        for each in asked(timeline, "catalogue")["tracks"]
        if each["drawn_rows"]
    ]
    query = [("begin_ps", begin * US), ("end_ps", end * US)]
    told = asked(
        timeline,
        "events",
        limit=100,
        **{name: int(value) for name, value in query},
        track=tracks,
    )
    assert table.get_attribute("aria-rowcount") == str(told["total"])
    rows = table.locator("tbody tr")
    assert rows.count() == len(told["events"])
    names = [each["name"] for each in told["events"]]
    assert rows.locator("th").all_inner_texts() == names
    table.get_by_role("button", name="volta_fp16_s884gemm").first.click()
    timeline.settle()
    assert timeline.ps("Duration") == 100 * US
    timeline.page.get_by_role("button", name="As a timeline").click()
    timeline.settle()
    assert timeline.colour(STREAM, 3350) == "compute"


def test_the_selected_time_is_a_table_by_name(timeline: Timeline) -> None:
    timeline.open(**STEP)
    timeline.drag((STREAM, 3300), (STREAM, 3520))
    timeline.page.get_by_role("button", name="Events by name").click()
    timeline.settle()
    table = timeline.page.locator(".trace > .table table")
    sel = timeline.page.locator(".trace").get_attribute("data-selected") or ""
    _, begin, end, track = sel.split(":")
    area = {"begin_ps": begin, "end_ps": end, "track": track, "by": "name"}
    told = asked(timeline, "groups", **area)
    assert told["spans"] > 0
    assert f"Events of the selected time: {told['spans']}" in table.inner_text()
    rows = table.locator("tbody tr")
    assert [row.locator("th").get_attribute("title") for row in rows.all()] == [
        each["group"] for each in told["groups"]
    ]
    totals = [row.locator("td").nth(1).get_attribute("title") for row in rows.all()]
    assert totals == [f"{each['time_ps']} ps" for each in told["groups"]]
    timeline.page.reload()
    timeline.settle()
    assert table.locator("tbody tr").count() == len(told["groups"])
    timeline.page.get_by_label("Rows").select_option("events")
    timeline.settle()
    assert table.get_attribute("aria-rowcount") == str(told["spans"])


def test_a_search_lists_all_that_it_finds(timeline: Timeline) -> None:
    timeline.open(**STEP)
    timeline.page.get_by_label("Search events").fill("volta")
    timeline.settle()
    found = timeline.page.locator("[data-found]").get_attribute("data-found")
    timeline.page.get_by_role("button", name="List", exact=True).click()
    timeline.settle()
    table = timeline.page.locator(".trace > .table table")
    assert table.get_attribute("aria-rowcount") == found
    names = table.locator("tbody th").all_inner_texts()
    assert names
    assert all("volta" in name for name in names)
    table.locator("tbody th button").last.click()
    timeline.settle()
    assert "volta" in timeline.heading.inner_text()


def test_a_selected_time_has_a_flame_graph(timeline: Timeline) -> None:
    timeline.open(**STEP)
    timeline.drag((MAIN, 3000), (MAIN, 3900))
    timeline.page.get_by_text("Flame graph of this time").click()
    timeline.settle()
    graph = timeline.page.get_by_role("list", name="Flame graph of the selected time")
    sel = timeline.page.locator(".trace").get_attribute("data-selected") or ""
    _, begin, end, track = sel.split(":")
    told = asked(timeline, "calls", begin_ps=begin, end_ps=end, track=track)["calls"]
    widths = {
        each.get_attribute("data-span"): float(
            each.locator("rect").get_attribute("width") or 0
        )
        for each in graph.locator("g").all()
    }
    assert MAIN in widths
    assert len(widths) > 2
    whole = told[0]["time_ps"]
    for call in told:
        share = widths[call["name"]] / widths[MAIN]
        assert abs(share - call["time_ps"] / whole) < 0.01, call


def test_counters_of_a_selected_time_have_their_mean(timeline: Timeline) -> None:
    timeline.open(run="keras")
    begin, end = timeline.window
    third = (end - begin) / 3
    timeline.page.locator("canvas.ruler").scroll_into_view_if_needed()
    state = {"begin_ps": int((begin + third) * US), "end_ps": int((end - third) * US)}
    timeline.open(run="keras", sel=f"area:{state['begin_ps']}:{state['end_ps']}")
    timeline.settle()
    told = asked(timeline, "totals", run="keras", **state)["counters"]
    assert told
    table = timeline.page.locator("table", has_text="Counters").last
    shown = [
        [cell.get_attribute("data-value") for cell in row.locator("td").all()]
        for row in table.locator("tbody tr").all()
    ]
    assert [[float(value or "nan") for value in row] for row in shown] == [
        [each["least"], each["mean"], each["greatest"]] for each in told
    ]


def test_the_minimap_moves_the_window(timeline: Timeline) -> None:
    timeline.open(**STEP)
    begin, end = timeline.window
    minimap = timeline.page.locator("canvas.minimap")
    size = minimap.bounding_box()
    assert size is not None
    minimap.click(position={"x": size["width"] * 0.8, "y": 10})
    timeline.settle()
    later = timeline.window
    assert later[0] > end
    assert abs((later[1] - later[0]) - (end - begin)) < 1
    # It shows the whole recording, in the colours of the lanes.
    painted = minimap.evaluate(
        """canvas => {
          const {width, height} = canvas;
          const {data} = canvas.getContext('2d').getImageData(0, 0, width, height);
          return data.filter((value, k) => k % 4 === 3 && value > 0).length;
        }"""
    )
    assert painted > 100


def test_counters_are_in_no_table_and_no_sum(timeline: Timeline) -> None:
    timeline.open(run="keras")
    tracks = asked(timeline, "catalogue", run="keras")["tracks"]
    assert any(each["counter"] for each in tracks)
    timeline.press("t")
    assert timeline.page.locator(".trace tbody tr").count() == 100
    timeline.page.keyboard.press("t")
    timeline.settle()
    counter = next(each["name"] for each in tracks if each["counter"])
    timeline.label(counter).scroll_into_view_if_needed()
    timeline.settle()
    begin, end = timeline.window
    middle = (begin + end) / 2
    timeline.drag((counter, middle), (counter, middle + (end - begin) / 10))
    assert timeline.details.locator("[data-spans]").count() == 1
    assert str(timeline.selected).count(":") == 2


def test_the_window_is_saved_for_other_viewers(timeline: Timeline) -> None:
    timeline.open(**STEP)
    with timeline.page.expect_download() as found:
        timeline.page.get_by_role("button", name="Save", exact=True).click()
    told = json.loads(found.value.path().read_bytes())
    names = [each["name"] for each in told["traceEvents"] if each.get("ph") == "X"]
    assert names.count("ampere_sgemm_32x32") == 1


def test_a_window_of_too_many_events_says_why_it_is_not_saved(
    timeline: Timeline,
) -> None:
    """The link of a download shows no refusal: nothing happened, without a word."""
    why = "the range has 2,000,000 spans; at most 1,000,000 are exported. Zoom in"
    refusal = json.dumps({"error": {"code": "too_large", "message": why}})
    timeline.page.route(
        "**/data/trace/window?*",
        lambda route: route.fulfill(status=413, body=refusal),
    )
    timeline.open(**STEP)
    timeline.page.get_by_role("button", name="Save", exact=True).click()
    timeline.page.get_by_text(why).wait_for()
    assert timeline.said == why
    timeline.view.expected("status of 413")


def test_the_ruler_s_steps_choose_their_time(timeline: Timeline) -> None:
    timeline.open(**STEP)
    ruler = timeline.page.locator(".ruler")
    x, _ = timeline.place(STREAM, 3500)
    ruler.click(position={"x": x, "y": 32})
    timeline.settle()
    steps = asked(timeline, "catalogue")["steps"]
    step = next(each for each in steps if each["number"] == 103)
    assert timeline.selected == f"area:{step['start_ps']}:{step['end_ps']}"
    assert timeline.said == "Step 103"
