"""The frame of all pages: run and host, theme, links, Back, keys and notices."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest
from tests.conftest import DATA, ROOT
from tests.support.sites.browser import COMMITTED, Server, fill_run, serving
from tests.support.sites.view import View

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

FOCUSED = "document.activeElement.textContent || document.activeElement.tagName"


def test_the_newest_run_is_chosen_and_the_newest_come_first(view: View) -> None:
    view.go()
    picker = view.picker("Run")
    assert picker.locator("option").all_inner_texts() == list(view.server.runs)
    newest = next(iter(view.server.runs.values()))
    assert newest == view.server.runs["vector"] == picker.input_value()
    assert view.page.locator("main h1").inner_text() == "Findings"


def test_another_run_is_a_step_that_back_undoes(view: View) -> None:
    view.go("overview_page", run="vector")
    view.picker("Run").select_option("keras")
    view.settle()
    assert view.fragment == {"page": "overview_page", "run": view.server.runs["keras"]}
    assert view.values()["environment.device_type"][1] == "CPU"
    view.page.go_back()
    view.settle()
    assert view.fragment["run"] == view.server.runs["vector"]
    assert view.values()["breakdown_ms.input"][1] == "0.070 ms"


@pytest.mark.sweep(every=2)
@pytest.mark.parametrize(
    "state",
    [
        {"page": "framework_op_stats", "idle": "true"},
        {"page": "kernel_stats", "by": "by_pair"},
        {"page": "input_pipeline_analyzer", "view": "waiting"},
        {"page": "pod_viewer", "step": "104"},
        {"page": "framework_op_stats", "op": "model/dense/MatMul"},
        {"page": "overview_page", "hosts": "b"},
    ],
)
def test_a_link_opens_the_same_state_and_a_reload_keeps_it(
    state: dict[str, str], view: View
) -> None:
    view.go(run="two_hosts", **state)
    before = view.fragment
    assert state.items() <= before.items()
    said = view.page.locator("main").inner_text()
    view.page.reload()
    view.settle()
    assert view.fragment == before
    assert view.page.locator("main").inner_text() == said


def test_a_link_by_a_tool_s_short_name_goes_on_working(view: View) -> None:
    view.go("ops", run="vector", op="model/dense/MatMul")
    assert view.page.locator("main h1").inner_text() == "Op stats"
    current = view.page.locator("nav a[aria-current=page]")
    assert current.all_inner_texts() == ["Op stats"]
    assert view.page.locator(".notice").count() == 0
    assert view.page.get_by_role("region", name="Op in detail").is_visible()


def test_a_bad_link_gives_a_notice_and_no_error(view: View) -> None:
    view.page.goto(f"{view.server.address}#page=nothing&colour=red&step=%ff")
    view.settle()
    notice = view.page.locator(".notice")
    assert 'There is no page "nothing" here.' in notice.inner_text()
    assert view.page.locator("main h1").inner_text() == "Findings"
    notice.get_by_role("button", name="Close").click()
    assert notice.count() == 0


def test_a_link_to_a_run_that_is_gone_shows_the_newest(view: View) -> None:
    view.page.goto(f"{view.server.address}#page=overview_page&run=000000000000")
    view.settle()
    assert (
        "The run of this link is missing" in view.page.locator(".notice").inner_text()
    )
    assert view.picker("Run").input_value() == view.server.runs["vector"]
    assert "run" not in view.fragment


def test_the_theme_follows_the_system_until_it_is_chosen(
    window: Callable[..., View],
) -> None:
    view = window(theme="dark")
    view.go("overview_page", run="vector")

    def paper() -> str:
        found: str = view.page.evaluate(
            "getComputedStyle(document.body).backgroundColor"
        )
        return found

    assert paper() == "rgb(15, 20, 25)"
    view.picker("Theme").select_option("light")
    assert paper() == "rgb(255, 255, 255)"
    view.page.reload()
    view.settle()
    assert paper() == "rgb(255, 255, 255)"
    view.picker("Theme").select_option("system")
    assert paper() == "rgb(15, 20, 25)"


def tabbed(page: Any, *, until: str, most: int = 60) -> None:
    """Press Tab until the thing of this text has the focus."""
    for _ in range(most):
        page.keyboard.press("Tab")
        if page.evaluate(FOCUSED).strip() == until:
            return
    pytest.fail(f"Tab never reached {until!r}")


def test_everything_goes_by_keyboard(view: View) -> None:
    view.go(run="vector")
    page = view.page
    page.keyboard.press("Tab")
    assert page.evaluate(FOCUSED) == "Skip to the content"
    tabbed(page, until="Op stats")
    ring = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert ring == "solid"
    page.keyboard.press("Enter")
    view.settle()
    assert view.fragment["page"] == "framework_op_stats"
    page.keyboard.press("/")
    view.settle()
    assert page.evaluate("document.activeElement.type") == "search"
    page.keyboard.type("t?")
    assert page.evaluate("document.activeElement.value") == "t?"
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("t")
    view.settle()
    twin = page.locator("button[data-twin]").first
    assert twin.get_attribute("aria-pressed") == "true"


def test_the_help_opens_closes_and_switches_letters_off(view: View) -> None:
    view.go("overview_page", run="vector")
    page = view.page
    page.keyboard.press("?")
    view.settle()
    dialog = page.get_by_role("dialog", name="Keys")
    assert dialog.is_visible()
    dialog.get_by_label("Single-letter keys").uncheck()
    page.keyboard.press("Escape")
    view.settle()
    assert not dialog.is_visible()
    page.keyboard.press("t")
    view.settle()
    twin = page.locator("button[data-twin]").first
    assert twin.get_attribute("aria-pressed") == "false"


def test_a_list_closes_by_escape_and_by_a_click_outside(view: View) -> None:
    view.go("framework_op_stats", run="vector")
    columns = view.page.locator("details.choose").first
    summary = columns.locator("summary")
    summary.click()
    assert columns.get_attribute("open") is not None
    columns.locator("input").first.focus()
    view.page.keyboard.press("Escape")
    assert columns.get_attribute("open") is None
    assert summary.evaluate("(each) => each === document.activeElement")
    summary.click()
    # What is in the list leaves it open; what is outside does not.
    columns.locator("label").first.click()
    assert columns.get_attribute("open") is not None
    view.page.locator("main h1").click()
    assert columns.get_attribute("open") is None


def test_paper_has_no_controls_and_nothing_folded(view: View) -> None:
    view.go("findings", run="vector")
    folded = view.page.locator("main details:not([open])")
    before = folded.count()
    assert before > 0
    view.page.emulate_media(media="print")
    view.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert folded.count() == 0
    for gone in ("header.bar", "nav"):
        assert not view.page.locator(gone).is_visible()
    assert view.page.locator("main .verdict").first.is_visible()
    view.page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert folded.count() == before


def test_the_skip_link_goes_to_the_content(view: View) -> None:
    view.go("overview_page", run="vector")
    view.page.keyboard.press("Tab")
    view.page.keyboard.press("Enter")
    assert view.page.evaluate("document.activeElement.id") == "content"
    assert view.fragment["page"] == "overview_page"


def test_what_the_capture_lost_stands_under_the_bar(view: View, server: Server) -> None:
    told = server.show("eager", "overview_page")["quality"]
    assert told
    view.go("overview_page", run="eager")
    strip = view.page.locator(".quality")
    strip.locator("summary").click()
    for doubt in told:
        assert doubt["message"] in strip.inner_text()


def test_a_new_run_is_offered_without_a_reload(chromium: Any, tmp_path: Path) -> None:
    fill_run(tmp_path, "first", ROOT / COMMITTED["loop"])
    with serving(tmp_path) as address:
        context = chromium.new_context()
        view = View(context, Server(address, tmp_path, {}))
        view.go("overview_page")
        fill_run(tmp_path, "second", ROOT / COMMITTED["jax"], age=1)
        notice = view.page.locator(".notice")
        notice.wait_for(timeout=20_000)
        assert "second" in notice.inner_text()
        view.settle()
        chosen = view.picker("Run").locator("option:checked")
        assert chosen.inner_text() == "second"
        assert view.close() == []


def test_an_empty_folder_says_what_to_do(chromium: Any, tmp_path: Path) -> None:
    with serving(tmp_path) as address:
        view = View(chromium.new_context(), Server(address, tmp_path, {}))
        view.page.goto(address)
        panel = view.page.locator(".absent")
        panel.wait_for()
        assert "What to do" in panel.inner_text()
        assert view.close() == []


def test_an_unreadable_run_is_named_and_is_not_the_first_page(
    chromium: Any, tmp_path: Path
) -> None:
    fill_run(tmp_path, "good", ROOT / COMMITTED["loop"])
    bad = fill_run(tmp_path, "bad", ROOT / COMMITTED["loop"], age=1)
    for path in bad.iterdir():
        stamp = path.stat().st_mtime
        path.write_bytes(b"\xff" * 100)
        os.utime(path, (stamp, stamp))
    with serving(tmp_path) as address:
        view = View(chromium.new_context(), Server(address, tmp_path, {}))
        view.page.goto(address)
        view.page.locator(".headline .verdict").wait_for()
        assert view.picker("Run").locator("option:checked").inner_text() == "good"
        view.page.get_by_role("button", name="Find a run").click()
        row = view.page.locator("dialog tr[data-state=unreadable]")
        assert "localhost.xplane.pb.gz" in row.inner_text()
        row.get_by_role("button", name="bad").click()
        alert = view.page.get_by_role("alert").first
        alert.wait_for()
        assert "localhost.xplane.pb.gz" in alert.inner_text()
        view.picker("Run").select_option("good")
        view.settle()
        assert view.page.locator("article.finding").count() > 0
        view.expected("422")
        assert view.close() == []


def test_runs_are_found_by_name_and_what_cannot_be_shown_is_listed(
    chromium: Any, tmp_path: Path
) -> None:
    fill_run(tmp_path, "first", ROOT / COMMITTED["loop"])
    fill_run(tmp_path, "second", ROOT / COMMITTED["jax"], age=1)
    traces = DATA / "torch_cpu/no_schedule/trace.json.gz"
    (tmp_path / "loose").mkdir()
    (tmp_path / "loose" / "mine.json.gz").write_bytes(traces.read_bytes())
    chrome = '{"traceEvents": [{"ph": "X", "ts": 1, "dur": 1, "name": "a"}]}'
    (tmp_path / "loose" / "other.json").write_text(chrome)
    with serving(tmp_path) as address:
        view = View(chromium.new_context(), Server(address, tmp_path, {}))
        view.page.goto(f"{address}#page=overview_page")
        view.settle()
        view.page.get_by_role("button", name="Find a run").click()
        dialog = view.page.get_by_role("dialog", name="Runs")
        rows = dialog.locator("tbody tr")
        dialog.get_by_text("3 runs").wait_for()
        assert "Framework" in dialog.locator("thead").inner_text()
        names = rows.locator("th").all_inner_texts()
        assert set(names) == {"first", "second", "loose/mine.json.gz"}
        assert "other.json: a Chrome trace" in dialog.inner_text()
        dialog.get_by_label("Search runs").fill("kineto mine")
        dialog.get_by_text("1 of 3 runs").wait_for()
        assert rows.locator("th").all_inner_texts() == ["loose/mine.json.gz"]
        dialog.get_by_label("Search runs").fill("sec")
        rows.get_by_role("button", name="second").click()
        dialog.wait_for(state="detached")
        view.settle()
        chosen = view.picker("Run").locator("option:checked")
        assert chosen.inner_text() == "second"
        assert view.fragment["page"] == "overview_page"
        assert view.close() == []


@pytest.mark.sweep(every=2)
@pytest.mark.parametrize(
    ("page", "name", "value"),
    [
        ("overview_page", "hosts", "nobody"),
        ("model_views", "step", "abc"),
        ("framework_op_stats", "op", "no such op"),
        ("tf_data_bottleneck_analysis", "rank", "zz"),
        ("framework_op_stats", "tables", "rows;nothing;1;;"),
    ],
)
def test_a_bad_part_of_a_link_is_left_out_with_a_notice(
    page: str, name: str, value: str, view: View
) -> None:
    view.go(page, run="keras", **{name: value})
    notice = view.page.locator(".notice", has_text="A part of this link")
    notice.wait_for()
    view.settle()
    assert view.fragment == {"page": page, "run": view.server.runs["keras"]}
    assert view.page.locator("main table").count() > 0
    assert view.page.get_by_role("alert").count() == 0
    view.page.locator("nav a", has_text="Findings").click()
    view.settle()
    assert notice.count() == 0
    view.expected("400" if name != "hosts" else "40")


def test_a_server_that_is_away_for_a_moment_costs_nothing(view: View) -> None:
    view.go("overview_page", run="vector")
    shown = view.values()
    # Not `unroute`: Chromium may never answer a request that it holds at that moment.
    answers = threading.Event()
    view.page.route(
        "**/data/**",
        lambda route: route.continue_() if answers.is_set() else route.abort(),
    )
    away = view.page.locator(".notice", has_text="does not answer")
    away.wait_for()
    assert view.values() == shown
    view.page.locator("nav a", has_text="Op stats").click()
    answers.set()
    view.page.locator("td[data-column=name]").first.wait_for()
    away.wait_for(state="detached")
    assert view.page.get_by_role("alert").count() == 0
    view.expected("ERR_FAILED")


@pytest.mark.parametrize("first", ["findings", "framework_op_stats"])
def test_pages_without_data_are_marked_with_the_reason(
    view: View, server: Server, first: str
) -> None:
    """Whichever page is seen first: some showed it of none but themselves."""
    view.go(first, run="jax")
    why = server.show("jax", "kernel_stats")["unavailable"]["reason"]
    link = view.page.locator("nav a", has_text="Kernels")
    assert link.get_attribute("title") == why
    assert link.get_attribute("data-absent") is not None
    full = view.page.locator("nav a", has_text="Op stats")
    assert full.get_attribute("data-absent") is None
    view.picker("Run").select_option("vector")
    view.settle()
    assert link.get_attribute("data-absent") is None


def test_the_view_is_printed_and_its_link_copied_by_one_click(view: View) -> None:
    view.page.add_init_script(
        """window.print = () => { window.printed = true; };
        Object.defineProperty(navigator, 'clipboard', {get: () => ({
            writeText: (text) => { window.copied = text; return Promise.resolve(); }
        })});"""
    )
    view.go("kernel_stats", run="vector")
    view.click("button", "Print")
    assert view.page.evaluate("window.printed")
    view.click("button", "Copy link")
    view.page.get_by_role("button", name="Copied").wait_for()
    assert view.page.evaluate("window.copied") == view.page.url
