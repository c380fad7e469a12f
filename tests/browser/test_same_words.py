"""Words and units that fit what is shown, and are the same from page to page."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.sites.browser import Server
    from tests.support.sites.view import View

#: Sizes as the page writes them.
SIZE = re.compile(r"[\d,.]+ ([KMG]?i?B)")


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("overview_page", "Breakdown of the recorded time"),
        ("input_pipeline_analyzer", "the shares above are of the whole recording"),
        ("pod_viewer", "Workers over the whole recording"),
    ],
)
def test_a_recording_without_steps_is_not_shown_as_a_step(
    view: View, page: str, said: str
) -> None:
    view.go(page, run="unstepped")
    shown = view.page.locator("main").inner_text()
    assert said in shown
    for words in ("Step-time", "of a step", "step by step", "over all steps"):
        assert words not in shown


def test_the_roofline_of_a_host_has_the_self_times_of_the_other_pages(
    view: View, server: Server
) -> None:
    """It was sorted by self time, and showed the time with all that an op calls."""
    view.go("roofline_model", run="keras")
    (table,) = view.tables()
    shown = {}
    for row in table["cells"]:
        cells = {column: exact for column, exact, _ in row}
        shown[cells["name"]] = float(cells["self_us"])
    ops = server.show("keras", "framework_op_stats")["data"]["rows"]
    own = {row["name"]: row["total_self_time_us"] for row in ops}
    assert len(shown) > 50
    assert shown == pytest.approx({name: own[name] for name in shown})


def test_sizes_of_a_column_have_one_unit(view: View) -> None:
    view.go("memory_profile", run="keras")
    assert "#" not in view.page.locator("main").inner_text()
    table = list(view.tables())[-1]
    for name in ("allocation_bytes", "requested_bytes"):
        cells = [
            text for row in table["cells"] for column, _, text in row if column == name
        ]
        units = [found[1] for text in cells if (found := SIZE.search(text))]
        assert len(units) > 3
        assert len(set(units)) == 1


@pytest.mark.profiles
def test_a_large_size_does_not_hide_the_small_ones(view: View, server: Server) -> None:
    """Beside 1.82 GiB most rows said <0.01 GiB."""
    if "starved" not in server.runs:
        pytest.skip("needs the profiles of others")
    view.go("memory_profile", run="starved")
    table = list(view.tables())[-1]
    sizes = [
        (int(exact), text)
        for row in table["cells"]
        for column, exact, text in row
        if column == "allocation_bytes"
    ]
    assert all(text.endswith(" MiB") for _, text in sizes)
    hidden = [exact for exact, text in sizes if text.startswith("<")]
    assert max(hidden) < 2**20 / 100


def test_input_work_that_nothing_could_show_is_not_said_to_be_none(
    view: View, server: Server
) -> None:
    view.go("input_pipeline_analyzer", run="keras")
    told = server.show("keras", "input_pipeline_analyzer")
    field = "host_breakdown_us.enqueue"
    (why,) = [it["reason"] for it in told["missing"] if it["field"] == field]
    shown = view.page.locator(f'[data-field="{field}"]')
    assert (shown.inner_text(), shown.get_attribute("title")) == ("–", why)


#: Whether anything of the table below a heading is out of sight.
HIDDEN = """(heading) => {
    const table = [...document.querySelectorAll('main .panel')]
        .find((each) => each.querySelector('h2')?.textContent === heading)
        .querySelector('table');
    const room = table.parentElement;
    return room.scrollWidth > room.clientWidth + 1;
}"""


@pytest.mark.parametrize(
    ("page", "run", "heading"),
    [
        ("pod_viewer", "two_hosts", "Workers over all steps"),
        ("overview_page", "busy_gpu", "Top 10 operations on the device"),
    ],
)
def test_a_table_of_few_columns_needs_no_sideways_scroll(
    view: View, page: str, run: str, heading: str
) -> None:
    view.go(page, run=run)
    assert view.page.evaluate(HIDDEN, heading) is False


def test_parts_of_a_workers_step_have_the_names_of_their_categories(
    view: View,
) -> None:
    view.go("pod_viewer", run="two_hosts")
    panel = view.page.locator(".panel", has_text="Workers over all steps")
    panel.locator("summary", has_text="Columns").click()
    assert "Host compute (ms)" in panel.inner_text()
    assert "Breakdown" not in panel.inner_text()


@pytest.mark.parametrize(("run", "tables"), [("keras", 0), ("two_hosts", 1)])
def test_the_shares_of_workers_are_listed_where_there_are_several(
    view: View, run: str, tables: int
) -> None:
    view.go("input_pipeline_analyzer", run=run)
    found = [it for it in view.tables() if "table=devices" in it["csv"]]
    assert len(found) == tables


@pytest.mark.parametrize(
    ("run", "title"),
    [("keras", "Step time by step"), ("busy_gpu", "Device side: step time by step")],
)
def test_a_side_is_that_of_a_device_only_where_there_is_one(
    view: View, run: str, title: str
) -> None:
    view.go("input_pipeline_analyzer", run=run)
    titles = view.page.locator("figure h2").all_inner_texts()
    assert title in titles


@pytest.mark.profiles
def test_one_step_has_no_statistics(view: View, server: Server) -> None:
    """All six were the same number."""
    if "starved" not in server.runs:
        pytest.skip("needs the profiles of others")
    view.go("overview_page", run="starved")
    shown = view.page.locator("main").inner_text()
    assert "Of 1 step; the parts add up to its time." in shown
    for words in ("95th percentile", "Standard deviation", "Step time, average"):
        assert words not in shown


def test_a_long_name_of_a_run_does_not_widen_a_phones_page(
    window: Callable[..., Any],
) -> None:
    view = window(width=390)
    view.go("compare", run="keras")
    wide = view.page.evaluate(
        """() => {
            document.querySelector('.bases a').textContent = 'run_'.repeat(30);
            return document.documentElement.scrollWidth;
        }"""
    )
    assert wide <= 390
