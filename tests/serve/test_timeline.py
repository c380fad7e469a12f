"""The timeline's routes: what they answer, and that they wait for no tool."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest
from tests.support.sites.serve import Answer, Site, put, running
from tests.support.traces import blueprint

from stepscope.serve import frames
from stepscope.serve.app import ROUTES
from stepscope.serve.runs import store
from stepscope.serve.runs.opened import Opened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

US = 1_000_000
#: Rows of the tracks of the first acceptance vector.
STEPS, STREAM, MAIN = 0, 4, 7


def asked(site: Site, route: str, **parameters: object) -> Answer:
    return site.get(f"data/trace/{route}?{urlencode(parameters, doseq=True)}")


def columns(answer: Answer) -> dict[str, list[Any]]:
    assert answer.status == 200
    found = frames.decode_frame(answer.body)
    return {
        one.name: [found.names[at] for at in one.values]
        if one.type == "text"
        else one.values.tolist()
        for one in found.columns
    }


def test_the_catalogue_lists_the_device_first_and_its_steps_at_the_top(
    site: Site,
) -> None:
    about = asked(site, "catalogue").json
    assert (about["host"], about["hosts"]) == ("vm", ["vm"])
    assert (about["begin_ps"], about["end_ps"]) == (0, 7900 * US)
    assert [one["name"] for one in about["sections"]] == [
        "/device:GPU:0",
        "Host Threads",
    ]
    names = [one["name"] for one in about["tracks"]]
    assert [names[track] for track in about["sections"][0]["tracks"]] == [
        "Steps",
        "Launch Stats",
        "Framework Name Scope",
        "Framework Ops",
        "Stream #7(Compute)",
        "Stream #8(MemcpyH2D)",
    ]
    assert [one["number"] for one in about["steps"]] == list(range(100, 108))
    assert about["steps"][1]["start_ps"] == 1000 * US
    assert {one["kind"] for one in about["steps"]} == {"main"}
    assert (about["unavailable"], about["missing"]) == (None, [])


def test_tiles_of_several_tracks_come_in_one_answer(site: Site) -> None:
    answer = asked(site, "tiles", track=[STREAM, STEPS], level=20, index=0)
    found = columns(answer)
    assert list(dict.fromkeys(found["track"])) == [STREAM, STEPS]
    first = found["track"].index(STEPS)
    assert (found["name"][first], found["start_ps"][first]) == ("train 100", 300 * US)
    assert found["end_ps"][first] == 700 * US
    # Each track alone has the same rows.
    for track in (STREAM, STEPS):
        alone = columns(asked(site, "tiles", track=track, level=20, index=0))
        assert alone == {
            name: [
                one
                for one, of in zip(values, found["track"], strict=True)
                if of == track
            ]
            for name, values in found.items()
        }


def test_a_slice_unfolds_into_its_spans(site: Site) -> None:
    whole = columns(asked(site, "tiles", track=STREAM, level=40, index=0))
    assert (whole["count"], whole["row"]) == ([24], [0])
    answer = asked(site, "unfold", track=STREAM, first=whole["first"][0], count=24)
    spans = answer.json["spans"]
    assert [one["start_ps"] for one in spans[:3]] == [300 * US, 420 * US, 540 * US]
    assert (len(spans), answer.json["left_out"]) == (24, 0)


def test_a_kernel_is_told_with_its_neighbours_and_its_arrow(site: Site) -> None:
    found = asked(site, "details", track=STREAM, item=3).json
    assert (found["name"], found["start_ps"]) == ("volta_fp16_s884gemm", 1300 * US)
    equal = found["same_name"]
    assert (equal["count"], equal["percentile"]) == (8, 100)
    assert equal["previous"]["start_ps"] == 300 * US
    assert equal["next"]["start_ps"] == 2300 * US
    assert found["links"] == {
        "op": "model/dense/MatMul",
        "kernel": "volta_fp16_s884gemm",
        "step": 101,
    }
    launch = found["launched_by"]["item"]
    call = asked(site, "details", track=MAIN, item=launch).json
    assert [(one["item"], one["start_ps"]) for one in call["launched"]] == [
        (3, 1300 * US)
    ]


def test_a_search_goes_from_span_to_span_and_back(site: Site) -> None:
    told = asked(site, "search", text="ampere_sgemm").json
    assert told["count"] == 8
    met = []
    after: dict[str, int] = {}
    for _ in range(9):
        answer = asked(site, "find", text="ampere_sgemm", direction="next", **after)
        place = answer.json["place"]
        if place is None:
            break
        met.append(place["item"])
        after = {"track": place["track"], "item": place["item"]}
    assert len(met) == len(set(met)) == 8
    back = asked(site, "find", text="ampere_sgemm", direction="previous", **after).json[
        "place"
    ]
    assert back["item"] == met[-2]
    last = asked(site, "find", text="ampere_sgemm", direction="previous").json
    assert last["place"]["item"] == met[-1]


def test_an_area_over_a_step_adds_up_to_it(site: Site) -> None:
    told = asked(site, "totals", begin_ps=1000 * US, end_ps=2000 * US).json
    owned = {one["owner"]: one["time_ps"] for one in told["owners"]}
    # Nobody recorded whether threads sleep.
    assert owned.pop("wait") is None
    assert sum(owned.values()) == told["account_ps"] == 1000 * US
    # 100 µs in 16 bit, 100 µs in 32 bit, and 60 µs of a collective.
    assert (owned["compute_16"], owned["compute_32"]) == (100 * US, 100 * US)
    assert {one["name"]: one["time_ps"] for one in told["kernels"]} == {
        "volta_fp16_s884gemm": 100 * US,
        "ampere_sgemm_32x32": 100 * US,
        "ncclDevKernel_AllReduce": 60 * US,
    }
    half = asked(site, "totals", begin_ps=1350 * US, end_ps=1360 * US).json
    assert half["kernels"][0]["time_ps"] == 10 * US
    assert told["missing"] == []


def test_the_spans_of_an_area_are_listed_a_page_at_a_time(site: Site) -> None:
    area = {"begin_ps": 1000 * US, "end_ps": 2000 * US, "track": STREAM}
    whole = asked(site, "events", **area).json
    assert whole["total"] == len(whole["events"]) == 3
    pages = [
        asked(site, "events", **area, limit=1, offset=at).json["events"]
        for at in range(4)
    ]
    assert [*pages[0], *pages[1], *pages[2]] == whole["events"]
    assert pages[3] == []


def test_a_window_is_saved_as_a_trace_with_its_spans_alone(site: Site) -> None:
    answer = asked(site, "window", begin_ps=1000 * US, end_ps=2000 * US)
    assert answer.headers["Content-Disposition"].startswith("attachment")
    events = answer.json["traceEvents"]
    spans = [one for one in events if one["ph"] == "X"]
    listed = asked(site, "events", begin_ps=1000 * US, end_ps=2000 * US, all=1).json
    assert len(spans) == listed["total"] > 10
    assert {one["ts"] for one in spans} == {
        one["start_ps"] / US for one in listed["events"]
    }
    ends = [one["id"] for one in events if one["ph"] == "f"]
    assert sorted(ends) == sorted(one["id"] for one in events if one["ph"] == "s")
    assert len(ends) == 6


def test_a_counter_keeps_its_value_into_the_next_tile(tmp_path: Path) -> None:
    lines = [
        ("main", "work", 0, 100),
        ("_counters_", "queue (items)", 10, 0, {"counter_value": 2.0}),
        ("_counters_", "queue (items)", 18, 0, {"counter_value": 7.5}),
        ("_counters_", "queue (items)", 20, 0, {"counter_value": 1}),
    ]
    put(tmp_path, "r1", "vm", bytes(blueprint.trace(lines).data))
    with running(tmp_path) as site:
        about = asked(site, "catalogue").json
        (curve,) = [one for one in about["tracks"] if one["counter"]]
        assert (curve["name"], curve["unit"]) == ("queue", "items")
        assert (curve["least"], curve["greatest"]) == (1, 7.5)
        assert about["sections"][-1]["tracks"] == [curve["track"]]
        # A bucket is 4.2 µs.
        tile = {"track": curve["track"], "level": 22}
        assert columns(asked(site, "counters", **tile, index=0)) == {
            "track": [curve["track"]] * 2,
            "start_ps": [10 * US, 18 * US],
            "min": [2, 1],
            "max": [2, 7.5],
            "last": [2, 1],
            "count": [1, 2],
        }
        later = columns(asked(site, "counters", **tile, index=1))
        assert (later["start_ps"], later["last"]) == ([20 * US], [1])
        assert columns(asked(site, "counters", **tile, index=-1))["track"] == []
        assert asked(site, "tiles", **tile, index=0).error == "bad_parameter"


def test_an_answer_that_names_its_version_may_be_kept_for_good(
    logdir: Path, a5_b: bytes
) -> None:
    with running(logdir) as site:
        version = asked(site, "catalogue").json["version"]
        tile = {"track": STREAM, "level": 20, "index": 0}
        for named, kept in ((version, True), ("another", False)):
            answer = asked(site, "tiles", **tile, version=named)
            assert ("immutable" in answer.headers["Cache-Control"]) is kept
        tag = asked(site, "tiles", **tile).headers["ETag"]
        again = site.ask(
            "GET",
            f"data/trace/tiles?{urlencode(tile)}",
            {"If-None-Match": tag},
        )
        assert (again.status, again.body) == (304, b"")
        put(logdir, "r1", "vm", a5_b)
        site.ask("POST", "data/reload", {"X-Stepscope": "1"})
        stale = asked(site, "tiles", **tile, version=version)
        assert "immutable" not in stale.headers["Cache-Control"]
        assert asked(site, "catalogue").json["version"] != version


@contextmanager
def held(
    monkeypatch: pytest.MonkeyPatch, owner: object, name: str
) -> Iterator[tuple[threading.Event, threading.Event]]:
    """Make a function wait: (set when it is entered, to be set to let it go on)."""
    entered, go_on = threading.Event(), threading.Event()
    real = getattr(owner, name)

    def waiting(*arguments: Any, **named: Any) -> Any:
        entered.set()
        assert go_on.wait(60)
        return real(*arguments, **named)

    monkeypatch.setattr(owner, name, waiting)
    try:
        yield entered, go_on
    finally:
        go_on.set()


#: One question of each route.
QUESTIONS = (
    "catalogue",
    f"tiles?track={STREAM}&level=20&index=0",
    f"unfold?track={STREAM}&first=0&count=3",
    f"details?track={STREAM}&item=3",
    "search?text=gemm",
    "find?text=gemm",
    "calls",
    "groups?by=name",
    "totals",
    "events",
    "window",
)


def test_no_answer_about_the_timeline_waits_for_a_tool(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    with held(monkeypatch, Opened, "tool_result") as (entered, go_on):
        told: list[int] = []
        tool = threading.Thread(
            target=lambda: told.append(site.get("data/tool/overview").status)
        )
        tool.start()
        # The tool's computation opened the run, and now holds the only turn.
        assert entered.wait(60)
        for question in QUESTIONS:
            assert site.get(f"data/trace/{question}").status == 200, question
        assert told == []
        go_on.set()
        tool.join()
    assert told == [200]


def test_a_tile_that_came_while_the_run_was_opened_does_not_wait_for_the_tool(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        held(monkeypatch, store, "open_found") as (opening, open_it),
        held(monkeypatch, Opened, "tool_result") as (computing, compute),
    ):
        tool = threading.Thread(target=lambda: site.get("data/tool/overview"))
        tool.start()
        assert opening.wait(60)
        told: list[int] = []
        tile = threading.Thread(
            target=lambda: told.append(site.get(f"data/trace/{QUESTIONS[1]}").status)
        )
        tile.start()
        open_it.set()
        assert computing.wait(60)
        tile.join(60)
        assert told == [200]
        compute.set()
        tool.join()


def test_the_evidence_of_findings_lies_on_the_timeline(
    shared_profile: Callable[[str], Path],
) -> None:
    with running(shared_profile("gpu/torch_launch_bound")) as site:
        findings = site.get("data/findings").json["findings"]
        shown = [
            (record, place)
            for one in findings
            for record, place in zip(
                one["evidence"], one["words"]["evidence"], strict=True
            )
        ]
        assert shown
        seen = 0
        for record, place in shown:
            assert place["start_ps"] == record["start_ps"]
            assert place["start_ps"] + place["dur_ps"] == record["end_ps"]
            if place["item"] is None:
                continue
            seen += 1
            span = asked(
                site, "details", **{name: place[name] for name in ("track", "item")}
            ).json
            assert span["start_ps"] < record["end_ps"]
            assert span["start_ps"] + span["dur_ps"] > record["start_ps"]
            if record["track"] is not None:
                assert span["track_name"] == record["track"]
        assert seen


def test_a_run_is_opened_for_a_tile_too(site: Site) -> None:
    assert site.get(f"data/trace/{QUESTIONS[1]}").status == 200
    assert site.get("data/tool/overview").status == 200


HUGE = 10**30
FAR = 2**62


@pytest.mark.parametrize(
    "question",
    [
        "tiles",
        "tiles?level=1&index=0",
        "tiles?track=4&index=0",
        "tiles?track=4&level=1",
        "tiles?track=-1&level=1&index=0",
        "tiles?track=8&level=1&index=0",
        f"tiles?track={HUGE}&level=1&index=0",
        "tiles?track=4&level=-1&index=0",
        "tiles?track=4&level=53&index=0",
        f"tiles?track=4&level={HUGE}&index=0",
        f"tiles?track=4&level=52&index={HUGE}",
        f"tiles?track=4&level=52&index=-{HUGE}",
        "tiles?track=4&level=1.5&index=0",
        "tiles?track=x&level=1&index=0",
        "tiles?track=4&level=1&level=2&index=0",
        "tiles?track=4&level=1&index=0&all=perhaps",
        "tiles?track=4&level=1&index=0&width=1000000",
        "tiles?level=1&index=0" + "&track=4" * 65,
        "counters?track=4&level=1&index=0",
        "counters?track=100&level=1&index=0",
        "unfold?track=4&first=0&count=0",
        "unfold?track=4&first=0&count=-1",
        "unfold?track=4&first=-1&count=1",
        "unfold?track=4&first=0&count=1000000000",
        f"unfold?track=4&first={FAR}&count={FAR}",
        "details?track=4&item=-1",
        "details?track=4&item=1000000000",
        "details?track=99&item=0",
        "details?track=4",
        "search",
        "search?text=",
        "search?text=/(/",
        "search?text=/((a{99}){99}){99}/",
        "find?text=a&direction=sideways",
        "find?text=a&track=4",
        "find?text=a&track=4&item=10000",
        "find?text=a&from_ps=soon",
        "calls?begin_ps=now",
        "calls?track=-1",
        "groups",
        "groups?by=colour",
        "groups?by=name&by=track",
        "groups?by=name&text=/(/",
        "totals?track=77",
        "totals?begin_ps=0.5",
        "events?track=77",
        "events?limit=all",
        "window?track=4",
    ],
)
@pytest.mark.sweep(every=4)
def test_what_makes_no_sense_is_refused(site: Site, question: str) -> None:
    answer = site.get(f"data/trace/{question}")
    assert (answer.status, answer.error) == (400, "bad_parameter")
    assert "\n" not in answer.json["error"]["message"]
    assert site.lives


@pytest.mark.parametrize(
    "question",
    [
        f"calls?begin_ps=-{HUGE}&end_ps={HUGE}",
        f"calls?begin_ps={HUGE}&end_ps=-{HUGE}",
        f"groups?by=name&begin_ps=-{HUGE}&end_ps={HUGE}",
        f"groups?by=track&begin_ps={HUGE}&end_ps=-{HUGE}",
        f"totals?begin_ps=-{HUGE}&end_ps={HUGE}",
        f"totals?begin_ps={HUGE}&end_ps=-{HUGE}",
        f"events?begin_ps=-{HUGE}&end_ps={HUGE}&limit={10**9}&offset={HUGE}",
        f"events?begin_ps=-5&end_ps=5&limit=-{HUGE}&offset=-1",
        f"window?begin_ps={HUGE}&end_ps=-{HUGE}",
        f"find?text=a&from_ps=-{HUGE}",
        "tiles?track=4&level=52&index=-1",
        "tiles?track=4&level=0&index=1000000000000",
    ],
)
@pytest.mark.sweep(every=4)
def test_numbers_beyond_every_time_are_brought_to_the_last_one(
    site: Site, question: str
) -> None:
    answer = site.get(f"data/trace/{question}")
    assert answer.status == 200
    assert len(answer.body) < 100_000


def test_unknown_hosts_and_runs_are_no_path(site: Site) -> None:
    for name in ("../vm", "/etc/passwd", "", "%00"):
        for question in QUESTIONS:
            mark = "&" if "?" in question else "?"
            answer = site.get(f"data/trace/{question}{mark}host={name}")
            assert (answer.status, answer.error) == (404, "unknown_host")
    assert site.get("data/trace/catalogue?run=..").error == "unknown_run"


@pytest.mark.parametrize("route", [one for one in ROUTES if "/trace/" in one.path])
def test_another_sites_page_is_given_no_part_of_a_timeline(
    site: Site, route: Any
) -> None:
    answer = site.ask("GET", route.path[1:], {"Sec-Fetch-Site": "cross-site"})
    assert (answer.status, answer.error) == (403, "refused")
    assert site.ask("POST", route.path[1:]).status == 405


def test_a_run_without_events_says_why(tmp_path: Path) -> None:
    put(tmp_path, "r1", "vm", bytes(blueprint.trace([]).data))
    with running(tmp_path) as site:
        about = asked(site, "catalogue").json
    assert (about["sections"], about["tracks"], about["steps"]) == ([], [], [])
    assert (about["begin_ps"], about["end_ps"]) == (None, None)
    assert [one["field"] for one in about["missing"]] == ["steps"]
