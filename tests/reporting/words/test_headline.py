"""The first sentence, where it is about time of which no finding speaks."""

from __future__ import annotations

import pytest

from stepscope.advice.headline import Lead
from stepscope.derive.facts.evidence import Part
from stepscope.reporting.words.first_sentence import first_sentence


@pytest.mark.parametrize(
    ("owner", "said"),
    [
        ("sync", "49.0 % of the step is synchronising, mostly x, and no check"),
        # No part of a step lies between steps.
        ("between", "49.0 % of the time is between steps, mostly x, and no check"),
    ],
)
def test_idle_time_that_no_check_explains(owner: str, said: str) -> None:
    part = Part(name="x", share_percent=40.0)
    lead = Lead(kind="idle", owner=owner, percent=49.0, parts=(part,))
    assert first_sentence(lead, []) == f"{said} explains this time."
