"""What is said of two runs side by side."""

from __future__ import annotations

from typing import Any

import pytest

from stepscope.compare.parity import Check
from stepscope.reporting.outline.comparison import check_text


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"topic": "kernels", "status": "same", "overlap": 0.75},
            "kernels of a step: almost the same (75 % in common)",
        ),
        (
            {"topic": "ops", "status": "same", "overlap": 1.0},
            "ops of a step: same (100 % in common)",
        ),
        (
            {"topic": "kernels", "status": "differs", "base": "1158", "new": "36"},
            "kernels of a step: differ (base 1,158, new 36)",
        ),
        (
            {"topic": "steps", "status": "same", "base": "7", "new": "8"},
            "steps: enough in both (base 7, new 8)",
        ),
        (
            {"topic": "batch", "status": "differs", "base": "8, 16", "new": "32"},
            "batch size: differs (base 8, 16, new 32)",
        ),
    ],
)
def test_what_two_runs_share_is_written_as_a_reader_counts(
    fields: dict[str, Any], said: str
) -> None:
    assert check_text(Check(**fields)) == said
