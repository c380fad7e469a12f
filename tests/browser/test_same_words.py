"""Words and units that fit what is shown, and are the same from page to page."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
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


def test_input_work_that_nothing_could_show_is_not_said_to_be_none(
    view: View, server: Server
) -> None:
    view.go("input_pipeline_analyzer", run="keras")
    told = server.show("keras", "input_pipeline_analyzer")
    field = "host_breakdown_us.enqueue"
    (why,) = [it["reason"] for it in told["missing"] if it["field"] == field]
    shown = view.page.locator(f'[data-field="{field}"]')
    assert (shown.inner_text(), shown.get_attribute("title")) == ("–", why)
