"""`launch.delay` over literal accounts: fires, stays silent, near miss, cannot tell."""

from __future__ import annotations

from typing import Any

import pytest

from stepscope.advice.rules.launches.launch_delay import evaluate
from stepscope.derive.facts.devices.op_sides import HostPlaced, placement_signals
from stepscope.derive.facts.evidence import Saving
from stepscope.derive.facts.step_shares import NamedTime
from stepscope.derive.verdicts.recorded_devices import DeviceSignals
from stepscope.reporting.words.findings import lead_sentence
from stepscope.unavailable import Unavailable

MS = 1_000_000_000
US = 1_000_000


def op(ms: float) -> NamedTime:
    return NamedTime("host_compute", "inside", "aten::mm", time_ps=round(ms * MS))


#: The op was executed and launched nothing.
ON_HOST = {placement_signals: {"vm:0": (HostPlaced("aten::mm", "heavy", 1),)}}


def function(ms: float) -> NamedTime:
    named = "preprocess"
    return NamedTime(
        "host_compute", "inside", named, function=named, time_ps=round(ms * MS)
    )


def test_starved_kernels_fail_and_small_work_is_named(
    signals_of: Any, shares: Any, launch_of: Any
) -> None:
    launching = launch_of(median_kernel_ps=15 * US, kernels_per_step=400.0)
    one = shares(launch=2.0, between={"launch": 0.5})
    finding = evaluate(signals_of(one, launching=launching))
    assert (finding.status, finding.severity) == ("fail", "critical")
    assert finding.share_percent == pytest.approx(25.0)
    assert finding.because == ("small_work",)
    assert finding.saving_ms == Saving(high=2.5)
    facts = {fact.name: fact.value for fact in finding.facts}
    assert facts["kernels_per_step"] == 400.0
    assert facts["median_kernel"] == 15.0


@pytest.mark.parametrize(
    ("one_program", "compiled"), [(True, False), (False, True), (None, True)]
)
def test_a_step_that_is_one_program_need_not_be_compiled(
    signals_of: Any, shares: Any, launch_of: Any, one_program: Any, compiled: Any
) -> None:
    launching = launch_of(one_program=one_program)
    finding = evaluate(signals_of(shares(launch=2.0), launching=launching))
    for framework, advice in (
        ("JAX", "Compile the whole step"),
        ("PyTorch", "Compile the step"),
        ("TensorFlow", "one graph"),
    ):
        advised = [one.text for one in finding.actions if one.framework == framework]
        assert any(advice in one for one in advised) is compiled
    ahead = [one for one in finding.actions if one.cause == "one_program"]
    assert bool(ahead) is not compiled
    assert ("one_program" in finding.because) is not compiled


def test_ops_of_the_host_starve_the_device_too(signals_of: Any, shares: Any) -> None:
    one = shares(launch=2.0, host_compute=1.0, names=[op(12.0)])
    finding = evaluate(signals_of(one))
    assert finding.owners == ("launch", "host_compute")
    assert finding.share_percent == pytest.approx(30.0)
    assert {one.cause: one.share_percent for one in finding.causes} == {
        "launch": pytest.approx(20.0),
        "host_ops": pytest.approx(10.0),
    }


def test_functions_of_the_program_are_another_matter(
    signals_of: Any, shares: Any
) -> None:
    one = shares(launch=0.1, host_compute=5.0, names=[function(50.0), op(10.0)])
    finding = evaluate(signals_of(one))
    assert (finding.status, finding.owners) == ("pass", ("launch",))


@pytest.mark.parametrize("owner", ["queued", "switch", "sync"])
def test_idle_time_that_is_not_for_want_of_launches_passes(
    signals_of: Any, shares: Any, owner: str
) -> None:
    finding = evaluate(signals_of(shares(**{owner: 6.0})))
    assert (finding.status, finding.value) == ("pass", 0.0)


def test_long_launch_calls_name_the_slow_host(
    signals_of: Any, shares: Any, launch_of: Any
) -> None:
    slow = launch_of(median_call_ps=80 * US)
    finding = evaluate(signals_of(shares(launch=2.0), launching=slow))
    assert finding.because == ("slow_host",)


def test_a_run_on_the_host_alone_is_not_applicable(signals_of: Any) -> None:
    device = DeviceSignals(recorded="host_only")
    assert evaluate(signals_of(device=device)).status == "not_applicable"


@pytest.mark.parametrize("absent", ["account", "launching"])
def test_absent_signals_cannot_tell_for_their_own_reason(
    signals_of: Any, shares: Any, absent: str
) -> None:
    why = Unavailable(code="NO_DEVICE_EVENTS", reason="None.", remedy="Record.")
    finding = evaluate(signals_of(shares(launch=2.0), **{absent: why}))
    assert (finding.status, finding.unavailable) == ("cannot_tell", why)


def test_unknown_launches_never_pass(signals_of: Any, shares: Any) -> None:
    finding = evaluate(signals_of(shares(missing=["launch"])))
    assert finding.status == "cannot_tell"


def test_replayed_graphs_without_nodes_cannot_tell(
    signals_of: Any, shares: Any, launch_of: Any
) -> None:
    launching = launch_of(graph_percent=80.0)
    finding = evaluate(signals_of(shares(), launching=launching))
    assert finding.status == "cannot_tell"


@pytest.mark.parametrize(("dark_ms", "status"), [(2.5, "cannot_tell"), (1.0, "pass")])
def test_much_unexplained_time_never_becomes_a_pass(
    signals_of: Any, shares: Any, dark_ms: float, status: str
) -> None:
    one = shares(launch=0.1, unexplained=dark_ms)
    assert evaluate(signals_of(one)).status == status


def test_a_clock_error_that_could_undo_the_verdict_cannot_tell(
    signals_of: Any, shares: Any
) -> None:
    one = shares(launch=0.5, fields={"gaps": 12, "clock_error_ps": MS})
    assert evaluate(signals_of(one)).status == "cannot_tell"


def test_without_steps_there_is_a_share_but_no_time_per_step(
    signals_of: Any, shares: Any
) -> None:
    whole = {"step_source": None, "step_confidence": 0.0, "closed": False}
    one = shares(launch=200.0, step_ms=1000.0, steps=1, fields=whole)
    finding = evaluate(signals_of(one))
    assert (finding.status, finding.severity) == ("fail", "warn")
    assert finding.share_percent == pytest.approx(20.0)
    assert finding.ms_per_step is None
    assert finding.saving_ms is None
    assert finding.steps_clean is None


def test_an_assumed_latency_says_so(
    signals_of: Any, shares: Any, launch_of: Any
) -> None:
    launching = launch_of(latency_samples=0)
    finding = evaluate(signals_of(shares(), launching=launching))
    notes = {fact.name: fact.note for fact in finding.facts}
    assert notes["launch_latency"].startswith("assumed")


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ([op(24.0)], True),
        # Less than half of the time; a function; as much in two ops.
        ([op(16.8)], False),
        ([op(16.8), function(7.2)], False),
    ],
)
def test_one_op_on_the_host_is_not_answered_with_fewer_launches(
    signals_of: Any, shares: Any, launch_of: Any, names: list[NamedTime], *, said: bool
) -> None:
    """The device waits 3 ms of 10 in 12 steps: 1 for launches, 2 for the host."""
    one = shares(launch=1.0, host_compute=2.0, names=names)
    finding = evaluate(signals_of(one, ON_HOST, launching=launch_of()))
    assert (finding.status, finding.share_percent) == ("fail", pytest.approx(30.0))
    assert ("host_op" in finding.because) is said
    assert ("20.0 % in aten::mm" in lead_sentence(finding)) is said
    texts = [action.text for action in finding.actions]
    assert any("on the device" in text for text in texts) is said
    assert any("Compile the step" in text for text in texts) is not said


@pytest.mark.parametrize("placed", [{}, {placement_signals: {"vm:0": ()}}])
def test_what_launches_or_compiles_is_no_op_for_the_device(
    signals_of: Any, shares: Any, launch_of: Any, placed: dict[Any, Any]
) -> None:
    """A range of a compiler, or an op that runs on the device, takes 2 of 3 ms.

    "Run the op on the device" was said of NVRTC's compilation.
    """
    one = shares(launch=1.0, host_compute=2.0, names=[op(24.0)])
    finding = evaluate(signals_of(one, placed, launching=launch_of()))
    assert "host_op" not in finding.because
    assert "in aten::mm" not in lead_sentence(finding)
