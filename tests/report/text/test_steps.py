"""What the report says of time that nobody explains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.results.statements import accounted, read

from stepscope.report import to_text
from stepscope.report.page import plain_text
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from pathlib import Path

#: From this share on it is said how to name it.
MUCH = 5.0


def test_much_unexplained_time_has_a_way_to_record_it(
    recorded_run: str, shared_profile: Any
) -> None:
    path: Path = shared_profile(recorded_run)
    profile, document = read(path)
    overview = document.overview
    if isinstance(overview, Unavailable) or not overview.breakdown_ms:
        return  # hosts that do not run in lock step have no common page
    if not accounted(profile):
        return  # there is no account
    whole = sum(overview.breakdown_ms.values())
    share = 100 * (overview.breakdown_detail_ms.get("unexplained") or 0.0) / whole
    text = plain_text(to_text.render(document, width=400))
    advised = any(
        one.status == "fail" and action.cause in {"unexplained", "annotate", "damaged"}
        for one in document.findings
        for action in one.actions
    )
    assert (advised or "To name what is unexplained:" in text) is (share >= MUCH)
