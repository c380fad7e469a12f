"""Pages on runs that are made for one sentence or one picture each."""

from __future__ import annotations

import os
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.sites.browser import OLDEST, Server
from tests.support.sites.serve import running
from tests.support.traces import blueprint

from stepscope.reporting.words.names import CATEGORY_NAMES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.sites.view import View

INPUT = "input_pipeline_analyzer"
TF_DATA = "tf_data_bottleneck_analysis"


def steps(count: int, *more: blueprint.Line) -> list[blueprint.Line]:
    """Marked steps of 1,000 µs."""
    marked: list[blueprint.Line] = [
        ("main", "train", 1000 * at, 1000, {"_r": 1, "step_num": at})
        for at in range(count)
    ]
    return [*marked, *more]


def hidden_wait() -> bytes:
    """Each of two steps waits 400 µs for input; one of two devices works meanwhile."""
    lines = steps(2)
    for step in range(2):
        begin, first, second = 1000 * step, step, 10 + step
        lines += [
            ("main", "cuLaunchKernel", begin, 0, {"correlation_id": first}),
            ("main", "IteratorGetNext", begin, 400),
            ("main", "cuLaunchKernel", begin + 400, 0, {"correlation_id": second}),
            ("gpu:0/7(Compute)", "sgemm", begin, 400, {"correlation_id": first}),
            ("gpu:1/7(Compute)", "sgemm", begin + 400, 100, {"correlation_id": second}),
        ]
    both = {0: blueprint.A100, 1: blueprint.A100}
    return bytes(blueprint.trace(lines, devices=both).data)


def passing_stage() -> bytes:
    """`Model` takes 90 µs and its only real stage 10 µs."""
    pipeline = (
        ("t", "Iterator::Model", 100, 100, {"id": 1}),
        ("t", "Iterator::Model::Map", 105, 10, {"id": 2, "parent_id": 1}),
    )
    return bytes(blueprint.trace(steps(3, *pipeline)).data)


def starving_steps() -> bytes:
    """Three steps that wait 600 µs each for a `Map`."""
    lines = steps(3)
    for step in range(3):
        begin = 1000 * step + 100
        lines += [
            ("main", "IteratorGetNext", begin, 600),
            ("main", "Iterator::Map", begin, 600, {"id": step}),
        ]
    return bytes(blueprint.trace(lines).data)


def one_step(kernel_us: int) -> bytes:
    kernel = ("gpu:0/7(Compute)", "sgemm", 100, kernel_us, {"correlation_id": 1})
    launch = ("main", "cuLaunchKernel", 90, 5, {"correlation_id": 1})
    lines = steps(1, launch, kernel)
    return bytes(blueprint.trace(lines, devices={0: blueprint.A100}).data)


RUNS = {
    "hidden": hidden_wait(),
    "passing": passing_stage(),
    "starving": starving_steps(),
    "many": bytes(blueprint.trace(steps(60)).data),
    "slow": one_step(800),
    "quick": one_step(200),
}


@pytest.fixture(scope="module")
def server(chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    del chromium  # without one there is nobody to serve
    logs = tmp_path_factory.mktemp("made")
    for name, content in RUNS.items():
        write(logs, name, content)
    with running(logs) as site:
        runs = {one["name"]: one["id"] for one in site.get("data/runs").json["runs"]}
        yield Server(f"http://127.0.0.1:{site.port}/", logs, runs)


def write(logs: Path, name: str, content: bytes) -> None:
    run = logs / "plugins" / "profile" / name
    run.mkdir(parents=True)
    file = run / "vm.xplane.pb"
    file.write_bytes(content)
    os.utime(file, (OLDEST, OLDEST))


def test_a_wait_that_a_device_hides_is_told_from_what_the_step_lost(
    view: View,
) -> None:
    view.go(INPUT, run="hidden")
    said = view.page.get_by_role("region", name="Host side").inner_text()
    # 0.4 ms a step on the host; one of two devices idles meanwhile, the other works.
    assert "waited 0.400 ms per step, in 2 waits; " in said
    assert "0.200 ms of this time count as input of the step" in said


def test_advice_on_input_that_holds_nothing_up_is_called_so(view: View) -> None:
    for run, title in (("starving", "What to do"), ("passing", "What would make")):
        view.go(INPUT, run=run)
        summary = view.page.get_by_role("region", name="Summary")
        titles = summary.locator("h3").all_inner_texts()
        assert [each[: len(title)] for each in titles] == [title]


def test_a_longer_stage_that_is_no_bottleneck_says_why(view: View) -> None:
    view.go(TF_DATA, run="passing")
    marked = view.page.locator(".node.bottleneck").inner_text()
    assert marked.startswith("Map")
    figure = view.page.locator("figure", has_text="Input pipeline graph")
    told = "only pass elements on, and are not bottlenecks: Model."
    assert told in figure.inner_text()


def test_one_step_of_each_run_is_a_table_and_no_chart(
    view: View, server: Server
) -> None:
    view.go("compare", run="quick", base=server.runs["slow"])
    view.page.wait_for_selector(".verdict")
    assert view.page.locator("main .columns").count() == 0
    table = view.page.get_by_role("region", name="One step of each").locator("table")
    rows = {
        cells[0]: cells[1:]
        for cells in (
            row.locator("th, td").all_inner_texts()
            for row in table.locator("tbody tr").all()
        )
    }
    assert rows["Device compute, 32-bit"] == ["0.80", "0.20"]
    assert rows["the whole step"] == ["1.00", "1.00"]


def test_a_program_without_lines_says_how_they_are_recorded(view: View) -> None:
    view.go("model_views", run="slow", view="source")
    assert "names a line of the program" in view.page.locator("main").inner_text()


def test_lines_of_the_chart_are_named_once_where_there_is_no_room_beside(
    window: Callable[..., View],
) -> None:
    view = window(width=390)
    view.go("overview_page", run="hidden")
    texts = view.page.locator(".columns .level text").all_text_contents()
    # Both steps last 1 ms, so both lines lie on one another.
    assert texts == ["mean 1 · p95 1"]


def test_the_legend_of_two_runs_names_every_colour_of_both(
    view: View, server: Server
) -> None:
    # The base was recorded without a device, so its columns lack the device's colours.
    view.go("compare", run="hidden", base=server.runs["passing"])
    view.page.wait_for_selector(".verdict")
    drawn = view.page.locator(".columns path[data-category]").evaluate_all(
        """(all) => all.filter((each) => each.getAttribute('d'))
            .map((each) => each.dataset.category)"""
    )
    assert "device_compute_32" in drawn
    (legend,) = view.page.locator("figure .legend").all()
    titles = {each.strip() for each in legend.locator("li").all_inner_texts()}
    assert {CATEGORY_NAMES[name] for name in drawn} == titles


def test_columns_that_are_thin_have_no_edge_that_pales_them(
    window: Callable[..., View],
) -> None:
    for width, edges in ((1440, True), (390, False)):
        view = window(width=width)
        view.go("overview_page", run="many")
        mark = view.page.locator(".columns .parts path:not([d=''])").first
        stroke = mark.evaluate("(each) => getComputedStyle(each).stroke")
        assert (stroke != "none") == edges
        path = mark.get_attribute("d") or ""
        columns = [
            (float(left), float(across))
            for left, across in re.findall(r"M([\d.]+) [\d.]+h([\d.]+)", path)
        ]
        gaps = {
            round(after - left - across, 3)
            for (left, across), (after, _) in pairwise(columns)
        }
        assert len(columns) == 60
        assert len(gaps) == 1


def test_what_tells_tracks_apart_is_never_cut(window: Callable[..., View]) -> None:
    view = window(width=390)
    view.go("trace_viewer", run="hidden")
    view.page.wait_for_selector(".trace[aria-busy=false]")
    outside = view.page.evaluate(
        """() => [...document.querySelectorAll('.ended')].filter((each) => {
            const tail = each.lastElementChild.getBoundingClientRect();
            const names = each.closest('.track, .section').getBoundingClientRect();
            return tail.right > names.right + 0.5;
        }).map((each) => each.textContent)"""
    )
    assert outside == []
    tails = view.page.locator(".section .ended > :last-child").all_inner_texts()
    assert tails[:2] == [":GPU:0", ":GPU:1"]
