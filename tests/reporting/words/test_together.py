"""What several findings gain together, in words."""

from __future__ import annotations

from stepscope.advice.predicted_gains import Together
from stepscope.derive.facts.evidence import Saving
from stepscope.reporting.words.checks import joint_gain_text

FOUND = Together(
    findings=("launch.delay", "gap.readback"),
    saving_ms=Saving(low=10.0, high=10.0, basis="replay"),
    next_owner="compute_32",
    next_percent=45.7,
)


def test_ids_name_findings_where_ids_are_in_sight() -> None:
    assert joint_gain_text(FOUND) == (
        "Fixing launch.delay and gap.readback together may save 10.0 ms a step. Once "
        "launch.delay is fixed, the longest part of a step would be computing in "
        "32-bit precision (45.7 % of its critical path)."
    )


def test_titles_name_findings_elsewhere() -> None:
    assert joint_gain_text(FOUND, by_title=True) == (
        "Fixing “the device waits for the host to launch its work” and “the host "
        "waits for a result before it continues” together may save 10.0 ms a step. "
        "Once the first finding is fixed, the longest part of a step would be "
        "computing in 32-bit precision (45.7 % of its critical path)."
    )
    alone = Together(
        findings=("input.bound",),
        next_owner="launch",
        next_percent=95.9,
        next_hidden=True,
    )
    assert joint_gain_text(alone, by_title=True) == (
        "Once “the step waits for its data” is fixed, the longest part of a step "
        "would be more waiting for launches, which other work hides now (95.9 % "
        "of its critical path)."
    )
