"""A finding that a test asks for alone is the one among all findings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.support.traces import blueprint
from tests.support.traces.judged import Judged, related
from tests.support.traces.training import ahead, on_host, paced, together

from stepscope.advice.engine import evaluate, signals_of
from stepscope.advice.registry import RULES

if TYPE_CHECKING:
    from collections.abc import Callable

#: Traces in which rules of several families fail, and explain each other.
TRACES: dict[str, Callable[[], list[Any]]] = {
    "starved": lambda: together(fetch_us=3_000.0),
    "launches": lambda: paced(early_us=10.0),
    "clean": ahead,
    "paused": lambda: on_host(pause="checkpoint", pause_us=3_000.0, every=2),
}


@pytest.mark.slow  # Judges every rule of every trace by itself.
@pytest.mark.parametrize("name", TRACES)
def test_a_finding_alone_is_the_one_among_all(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.support.traces.judged.is_brief", lambda: True)
    lines = TRACES[name]()
    used = any(line[0].startswith("gpu:") for line in lines)
    trace = blueprint.trace(lines, devices={0: blueprint.A100} if used else {})
    signals = signals_of(blueprint.profile(trace))
    found = {one.id: one for one in evaluate(signals)}
    for rule in RULES:
        # For which stage it waits is known among all only.
        expected = msgspec.structs.replace(found[rule.item.id], after_stage=None)
        alone = Judged(signals)[rule.item.id]
        assert msgspec.structs.replace(alone, after_stage=None) == expected


def test_who_explains_whom_is_judged_together() -> None:
    assert related("kernel.bound") == {"kernel.bound"}
    assert {"step.periodic", "input.bound", "gap.output"} <= related("step.outlier")
    assert {"launch.delay", "gaps.between"} <= related("place.host")
