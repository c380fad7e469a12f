"""`mem.leak` over literal memories and on whole traces."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.advice.memories import memory, told
from tests.support.traces.keeping import keeping
from tests.support.traces.training import allocating, findings, leaking, together

from stepscope.advice.rules.memory.device_memory import judge_leak as evaluate
from stepscope.reporting.words.findings import lead_sentence
from stepscope.thresholds import THRESHOLDS

MIB = 2**20
GIB = 2**30


def use(*grown_mib: float, **fields: Any) -> Any:
    least = tuple(round(18 * GIB + mib * MIB) for mib in grown_mib)
    steps = tuple(float(at) for at in range(len(least)))
    return told(memory(least_bytes=least, at_step=steps, **fields))


@pytest.mark.parametrize(
    ("mib", "status"), [(60, "fail"), (41.5, "fail"), (40, "pass"), (0, "pass")]
)
def test_a_thousandth_of_the_memory_a_step_is_a_leak(
    signals_of: Any, mib: float, status: str
) -> None:
    finding = evaluate(signals_of(use(*[mib * at for at in range(12)])))
    assert finding.status == status
    assert finding.facts[0].value == mib


def test_a_memory_that_is_full_soon_is_critical(signals_of: Any) -> None:
    finding = evaluate(signals_of(use(*[60 * at for at in range(12)])))
    assert finding.severity == "critical"
    facts = {fact.name: fact.value for fact in finding.facts}
    # (22 GiB - 660 MiB) / 60 MiB
    assert facts["steps_left"] == pytest.approx(364, abs=1)
    large = use(
        *[45 * at for at in range(12)],
        capacity_bytes=44 * GIB,
    )
    assert evaluate(signals_of(large)).status == "pass"


@pytest.mark.parametrize(
    "grown",
    [
        [0, 500, 1000, 0, 500, 1000, 0, 500, 1000, 0, 500, 1000],
        [60 * min(at, 6) for at in range(14)],
        [300, -200, 400, -100, 500, -300, 200, -400, 300, -100, 400, 600],
        # A large block, whose pages are first written over four readings.
        [*[0] * 6, 250, 500, 750, *[1000] * 3],
    ],
    ids=["saw-tooth", "warm-up", "noise", "one block"],
)
def test_growth_that_does_not_go_on_is_none(signals_of: Any, grown: list[Any]) -> None:
    assert evaluate(signals_of(use(*grown))).status == "pass"


def test_too_few_steps_cannot_tell(signals_of: Any) -> None:
    for memories in (
        use(*[60 * at for at in range(8)]),
        use(*[60 * at for at in range(12)], capacity_bytes=None),
        told(),
    ):
        assert evaluate(signals_of(memories)).status == "cannot_tell"


def test_a_list_that_keeps_tensors_is_found_by_the_op_that_made_them() -> None:
    finding = findings(leaking(60))["mem.leak"]
    assert (finding.status, finding.severity) == ("fail", "critical")
    assert finding.facts[0].value == pytest.approx(60)
    assert finding.parts[0].name == "losses/stack:Pack"


@pytest.mark.parametrize("lines", [allocating(), leaking(0), leaking(60, steps=5)])
def test_memory_that_stays_passes(lines: list[Any]) -> None:
    assert findings(lines)["mem.leak"].status == "pass"


def test_a_process_that_grows_is_found() -> None:
    counters = [
        (
            "_counters_",
            name,
            10_000.0 * at,
            0.0,
            {"counter_value": float(value)},
        )
        for at in range(14)
        for name, value in (
            ("process RSS (bytes)", (2 + at / 4) * GIB),
            ("memory available (bytes)", (30 - at / 4) * GIB),
        )
    ]
    finding = findings(together() + counters)["mem.leak"]
    assert (finding.status, finding.devices) == ("fail", ("vm:process",))
    # The recording itself may be what grows.
    assert finding.severity == "info"
    msgspec.json.encode(finding)
    assert finding.facts[0].value == pytest.approx(256, rel=0.05)


def test_a_list_that_gains_arrays_in_each_step_is_named_with_its_function() -> None:
    finding = findings(together() + keeping(10, 20))["mem.leak"]
    assert (finding.status, finding.severity) == ("fail", "warn")
    assert lead_sentence(finding) == (
        "Memory grows in every step: `self.kept['all']` (train.py:12) gains 2 MiB of "
        "arrays a step; at that rate memory is full in 5,120 steps."
    )
    assert finding.parts[0].function == "Trainer.step"
    assert finding.parts[0].share_percent == 100
    # What it is judged by: 10 GiB, 2 MiB a step.
    assert (finding.value, finding.unit) == (5120, "count")
    assert finding.threshold == THRESHOLDS.kept_full


def test_a_graph_of_gradients_that_goes_on_is_said_to_hold_activations() -> None:
    finding = findings(together() + keeping(30, 0.1, 40))["mem.leak"]
    assert (finding.status, finding.severity) == ("fail", "warn")
    assert lead_sentence(finding) == (
        "Memory grows in every step: the gradient graph of `self.kept['all']` "
        "(train.py:12) gains 4 MiB of activations a step; at that rate memory is full "
        "in 2,554 steps."
    )


@pytest.mark.parametrize(
    ("items", "array_mib", "graph_mib"),
    # Not in each step; so little that 100,000 steps more do not fill the memory.
    [(7, 20, 7), (10, 1, 0), (10, 0.1, 0.9)],
)
def test_what_grows_seldom_or_by_little_is_no_leak(
    items: float, array_mib: float, graph_mib: float
) -> None:
    found = findings(together() + keeping(items, array_mib, graph_mib))["mem.leak"]
    assert found.status == "cannot_tell"


def test_a_process_that_stays_says_nothing_of_devices(signals_of: Any) -> None:
    flat = use(*[0.0] * 12, name="process")
    assert evaluate(signals_of(flat)).status == "cannot_tell"


def test_without_allocations_it_cannot_tell() -> None:
    assert findings(together())["mem.leak"].status == "cannot_tell"
    found = findings(leaking(60), without="allocations")["mem.leak"]
    assert found.status == "cannot_tell"
