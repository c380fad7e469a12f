"""Asynchronous work is shown on a thread without having run there."""

from __future__ import annotations

from tests.support.traces import blueprint

from stepscope.derive.host.event_nesting import event_nesting
from stepscope.unavailable import Unavailable

LINES: list[blueprint.Line] = [
    ("main", "outer", 0, 100),
    ("main", "asynchronous", 10, 200, {"_a": 1}),
    ("main", "inner", 20, 30),
]


def test_asynchronous_events_neither_nest_nor_hold_others() -> None:
    found = blueprint.profile(blueprint.trace(LINES)).derived("vm", event_nesting)
    assert found.parent.tolist() == [-1, -1, 0]
    assert (found.self_ps // 1_000_000).tolist() == [70, 200, 30]


def test_a_flag_of_zero_changes_nothing() -> None:
    lines = [LINES[0], (*LINES[2], {"_a": 0})]
    found = blueprint.profile(blueprint.trace(lines)).derived("vm", event_nesting)
    assert found.parent.tolist() == [-1, 0]


def test_without_values_everything_nests() -> None:
    why = Unavailable(code="NOT_RECORDED", reason="no stats.", remedy="record.")
    trace = blueprint.trace(LINES).without("stats", why)
    found = blueprint.profile(trace).derived("vm", event_nesting)
    assert found.parent.tolist() == [-1, 0, 1]
