"""What is said of a recording that is over before anything was seen."""

from __future__ import annotations

import re

from tests.support.results.pages import document_of, page
from tests.support.traces import blueprint

INSTANT = blueprint.trace([("main", "begun", 5.0, 0.0)])


def test_a_recording_without_time_begins_with_no_share() -> None:
    """It began "The largest part of the recording, 0.0 %, is the recording itself"."""
    assert document_of(INSTANT).headline.text == (
        "There is no time to explain. No activity of the program was recorded before "
        "the recording ended. Record for at least a second."
    )
    assert not re.search(r"\b0\.0 %", page(INSTANT))
