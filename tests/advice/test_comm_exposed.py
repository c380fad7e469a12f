"""`comm.exposed` over literal accounts: fires, stays silent, near miss, cannot tell."""

from __future__ import annotations

from typing import Any

import pytest

from stepscope.advice.rules.multi_device.exchanges import judge_collectives as evaluate
from stepscope.derive.facts.devices.all_reduces import CommunicationSignals
from stepscope.derive.facts.program_traits import ProgramTraits, program_traits
from stepscope.derive.verdicts.recorded_devices import DeviceSignals

EXCHANGED = CommunicationSignals(
    count={"vm:0": 24},
    exposed_ps={"vm:0": {"all-reduce": 300, "all-gather": 100}},
    longest={},
)


def test_exchanges_beside_which_nothing_runs_are_found_by_kind(
    signals_of: Any, shares: Any
) -> None:
    one = shares(collective=1.5, peer=0.5)
    finding = evaluate(signals_of(one, exchanged=EXCHANGED))
    assert (finding.status, finding.severity) == ("fail", "warn")
    assert finding.share_percent == pytest.approx(20.0)
    assert [(one.cause, one.share_percent) for one in finding.causes] == [
        ("collective", pytest.approx(15.0)),
        ("peer", pytest.approx(5.0)),
    ]
    assert [(one.name, one.share_percent) for one in finding.parts] == [
        ("all-reduce", pytest.approx(15.0)),
        ("all-gather", pytest.approx(5.0)),
    ]


@pytest.mark.parametrize(
    ("ms", "status"), [(1.01, "fail"), (0.99, "pass"), (0, "pass")]
)
def test_a_tenth_of_the_time_is_the_limit(
    signals_of: Any, shares: Any, ms: float, status: str
) -> None:
    signals = signals_of(shares(collective=ms), exchanged=EXCHANGED)
    assert evaluate(signals).status == status


@pytest.mark.parametrize(
    ("kinds", "causes"),
    [
        ({"all-reduce": 400}, {"any", "gradients"}),
        # The rows of experts; gradients beside them, as of a recommendation model.
        ({"all-to-all": 400}, {"any", "rows"}),
        ({"all-to-all": 300, "all-reduce": 100}, {"any", "rows", "gradients"}),
        ({}, {"any", "gradients"}),
    ],
)
def test_what_is_advised_fits_what_is_exchanged(
    signals_of: Any, shares: Any, kinds: dict[str, int], causes: set[str]
) -> None:
    exchanged = CommunicationSignals({"vm:0": 24}, {"vm:0": kinds}, {})
    finding = evaluate(signals_of(shares(collective=2.0), exchanged=exchanged))
    assert finding.status == "fail"
    assert {one.cause for one in finding.actions} == causes


@pytest.mark.parametrize("kind", ["all-reduce", "all-to-all"])
def test_inference_exchanges_no_gradients(
    signals_of: Any, shares: Any, kind: str
) -> None:
    """A layer is divided among devices, or experts are."""
    exchanged = CommunicationSignals({"vm:0": 24}, {"vm:0": {kind: 400}}, {})
    traits = {program_traits: ProgramTraits(updates=False, trains=False)}
    signals = signals_of(shares(collective=2.0), traits, exchanged=exchanged)
    found = {one.cause for one in evaluate(signals).actions}
    assert found == {"any", "rows" if kind == "all-to-all" else "activations"}


def test_devices_that_exchange_nothing_are_not_judged(
    signals_of: Any, shares: Any
) -> None:
    nothing = CommunicationSignals({}, {}, {})
    finding = evaluate(signals_of(shares(), exchanged=nothing))
    assert finding.status == "not_applicable"
    host_only = DeviceSignals(recorded="host_only")
    finding = evaluate(signals_of(shares(device=None), device=host_only))
    assert finding.status == "not_applicable"


def test_what_was_not_recorded_cannot_tell(signals_of: Any, shares: Any) -> None:
    for signals in (
        signals_of(exchanged=EXCHANGED),
        signals_of(shares(collective=2.0)),
        signals_of(shares(missing=["collective"]), exchanged=EXCHANGED),
    ):
        finding = evaluate(signals)
        assert finding.status == "cannot_tell"
        assert finding.unavailable is not None
