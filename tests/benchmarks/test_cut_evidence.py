"""Data are cut out of traces as if nobody had recorded them, and outcomes counted."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.traces import blueprint
from tests.support.traces.training import apart

from stepscope.advice.finding import Finding
from stepscope.unavailable import Unavailable

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
WHY = Unavailable(code="NOT_RECORDED", reason="Not here.", remedy="Record.")


@pytest.fixture(name="cutting", scope="module")
def _cutting() -> Any:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        return importlib.import_module("cut_evidence")
    finally:
        sys.path.remove(str(BENCHMARKS))


def cut_of(cutting: Any, name: str) -> Any:
    (cut,) = (cut for cut in cutting.CUTS if cut.name == name)
    return cut


def test_rows_that_stay_refer_to_the_same_rows(cutting: Any) -> None:
    """Without the host's threads each kernel still has its own event and name."""
    profile = blueprint.profile(blueprint.trace(apart()))
    cut = cutting.cut_profile(profile, cut_of(cutting, "host threads"))
    before, after = (run.table("vm", "device_activity") for run in (profile, cut))
    assert after.drop("event", "track").equals(before.drop("event", "track"))
    events, tracks = cut.table("vm", "events"), cut.table("vm", "tracks")
    assert 0 < len(events) < len(profile.table("vm", "events"))
    assert events["start_ps"].gather(after["event"]).equals(after["start_ps"])
    assert events["track"].gather(after["event"]).equals(after["track"])
    assert set(tracks["kind"]) & {"thread"} == set()
    assert tracks["event_end"].max() == len(events)
    assert cut.table("vm", "launches").code == "NOT_RECORDED"


def test_a_trace_without_the_data_has_no_cut(cutting: Any) -> None:
    profile = blueprint.profile(blueprint.trace(apart()))
    assert cutting.cut_profile(profile, cut_of(cutting, "allocations")) is None


def finding_of(rule: str, status: Any, share: float = 0.0, **fields: Any) -> Finding:
    severity = "warn" if status == "fail" else "info"
    return Finding(
        id=rule,
        title=rule,
        stage=1,
        status=status,
        severity=severity,
        share_percent=share,
        **fields,
    )


@pytest.mark.parametrize(
    ("after", "other", "outcome"),
    [
        (finding_of("a", "fail", 9.0), finding_of("b", "pass"), "still_found"),
        (
            finding_of("a", "cannot_tell", unavailable=WHY),
            finding_of("b", "pass"),
            "cannot_tell",
        ),
        # A reason is due.
        (finding_of("a", "cannot_tell"), finding_of("b", "pass"), "false_pass"),
        (finding_of("a", "pass", 1.0), finding_of("b", "pass", 30.0), "false_pass"),
        # Of 9 % that were lost, half is 4.5 %.
        (finding_of("a", "pass", 1.0), finding_of("b", "fail", 4.5), "elsewhere"),
        (finding_of("a", "pass", 1.0), finding_of("b", "fail", 4.4), "false_pass"),
    ],
)
def test_a_pass_is_false_unless_another_finding_holds_the_time(
    cutting: Any, after: Finding, other: Finding, outcome: str
) -> None:
    before = {"a": finding_of("a", "fail", 10.0), "b": finding_of("b", "pass", 2.0)}
    assert cutting.outcome_of("a", before, {"a": after, "b": other}) == outcome
