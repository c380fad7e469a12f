"""What the report says of the parts of a step, and of time that nobody explains."""

from __future__ import annotations

from itertools import dropwhile, takewhile
from typing import TYPE_CHECKING, NamedTuple

import pytest
from tests.support.results.pages import page
from tests.support.results.statements import accounted, read
from tests.support.traces import blueprint

from stepscope.reporting.outline import as_text
from stepscope.reporting.outline.report import report_outline
from stepscope.reporting.page import plain_text
from stepscope.reporting.words.names import time_heading
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepscope.analysis.tools import ProfileWithTools
    from stepscope.reporting.document import Document

#: From this share on it is said how to name it.
MUCH = 5.0


class Told(NamedTuple):
    """A profile, what its report says as data, and as text."""

    profile: ProfileWithTools
    document: Document
    text: str


@pytest.fixture(scope="module")
def told(recorded_run: str, shared_profile: Callable[[str], Path]) -> Told:
    profile, document = read(shared_profile(recorded_run))
    return Told(
        profile,
        document,
        plain_text(as_text.render(report_outline(document), width=400)),
    )


def test_much_unexplained_time_has_a_way_to_record_it(told: Told) -> None:
    overview = told.document.overview
    if isinstance(overview, Unavailable) or not overview.breakdown_ms:
        return  # hosts that do not run in lock step have no common page
    if not accounted(told.profile):
        return  # there is no account
    whole = sum(overview.breakdown_ms.values())
    share = 100 * (overview.breakdown_detail_ms.get("unexplained") or 0.0) / whole
    advised = any(
        one.status == "fail" and action.cause in {"unexplained", "annotate", "damaged"}
        for one in told.document.findings
        for action in one.actions
    )
    way = "To name the unexplained time:"
    assert (advised or way in told.text) is (share >= MUCH)


def _is_no_title(text: str) -> bool:
    return text not in {time_heading("steps"), time_heading("profile")}


def test_without_steps_the_breakdown_is_of_the_recorded_time() -> None:
    """It was called that of the step, and said below that there is none."""
    alone = blueprint.trace([("main", "a:MatMul", 0, 900), ("main", "b:Add", 950, 30)])
    steps, whole = time_heading("steps"), time_heading("profile")
    without, marked = page(alone).splitlines(), page(blueprint.a2()).splitlines()
    assert (whole in without, steps in without) == (True, False)
    assert (whole in marked, steps in marked) == (False, True)


def test_what_has_one_name_in_a_category_is_one_line(told: Told) -> None:
    named = []
    category = ""
    for text in takewhile(str.strip, dropwhile(_is_no_title, told.text.splitlines())):
        if text.startswith("      "):
            named.append((category, text.rpartition("  ")[0]))
        else:
            category = text
    assert len(named) == len(set(named))
