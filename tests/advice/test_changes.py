"""What rules would change about a step, replayed on programs worked out by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.traces import blueprint
from tests.support.traces import replayed as by_hand
from tests.support.traces.judged import Judged
from tests.support.traces.training import KERNELS, MATMUL, SGEMM, read_back
from tests.support.traces.training import together as unmarked_waits

from stepscope.advice.engine import evaluate, signals_of
from stepscope.advice.predicted_gains import replay_together
from stepscope.derive.facts.savings.predicted_savings import replay_signals
from stepscope.derive.facts.savings.what_if_changes import Carried, Joined
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepscope.advice.finding import Finding
    from stepscope.advice.signals import Signals

US = 1_000_000


def signals_of_lines(lines: list[Any]) -> Signals:
    trace = blueprint.trace(lines, devices={0: blueprint.A100})
    return signals_of(blueprint.profile(trace))


def found_in(lines: list[Any]) -> Mapping[str, Finding]:
    return Judged(signals_of_lines(lines))


def copying_back() -> list[Any]:
    """The copy of 400 µs goes to the host; 500 µs of kernels wait for it."""
    names = {"MemcpyH2D": "MemcpyD2H", "cuMemcpyHtoDAsync": "cuMemcpyDtoHAsync"}
    return [
        (track, names.get(name, name), *rest)
        for track, name, *rest in by_hand.copying()
    ]


def test_faster_products_shorten_a_step_that_they_fill() -> None:
    """998 of 1000 µs; the host needs 300, so that two thirds can go."""
    found = found_in(by_hand.device_bound())
    unused = found["tc.unused"].saving_ms
    assert unused is not None
    assert unused.basis == "replay"
    assert (unused.low, unused.high) == pytest.approx((0.998 / 3, 2 * 0.998 / 3))
    narrow = found["amp.share"].saving_ms
    assert narrow is not None
    assert narrow.basis == "replay"
    assert narrow.low == pytest.approx(0.998 * (1 - 1 / 1.3))


def test_faster_products_gain_nothing_where_launches_are_late() -> None:
    """Five products of 20 µs, launched every 200: the account would promise 66 µs."""
    found = found_in(by_hand.launch_bound())
    for rule in ("tc.unused", "amp.share"):
        saving = found[rule].saving_ms
        assert saving is not None
        assert saving.basis == "replay"
        assert saving.high == pytest.approx(0, abs=1e-6)


@pytest.mark.slow(seconds=0.4)
@pytest.mark.parametrize(
    ("fetch_us", "basis", "low"),
    # Where the device is busy for 9.7 of 10 ms, its products decide: a third of 6 ms
    # goes at least. Where it idles for 1.1 ms, the host may work for all of the step.
    [(40.0, "replay", 2.0), (900.0, "bound", 0.0)],
)
def test_a_wait_that_nothing_recorded_is_no_work_of_the_host(
    fetch_us: float, basis: str, low: float
) -> None:
    """The host is silent for 9 of 10 ms while the device works: nobody knows why."""
    products = [(SGEMM, 300.0, MATMUL)] * 20
    lines = unmarked_waits(fetch_us=fetch_us, kernels=[*products, *KERNELS[20:]])
    saving = found_in(lines)["tc.unused"].saving_ms
    assert saving is not None
    assert saving.basis == basis
    assert saving.low == pytest.approx(low, abs=0.01)
    assert saving.high == pytest.approx(4.0, abs=0.01)


def test_a_copy_of_results_hides_behind_kernels() -> None:
    saving = found_in(copying_back())["copy.exposed"].saving_ms
    assert saving is not None
    assert saving.basis == "replay"
    # 15 µs to the second call, 20 for its launch, 495 of kernels, 4 to the next step.
    assert saving.high == pytest.approx((910 - (15 + 20 + 495 + 4)) / 1000, abs=0.001)


def test_a_number_that_nobody_waits_for_costs_no_idle_time() -> None:
    found = found_in(read_back(idle_us=400.0))["gap.readback"]
    assert found.saving_ms is not None
    assert found.saving_ms.basis == "replay"
    assert found.ms_per_step is not None
    assert found.saving_ms.low > 0.8 * found.ms_per_step
    assert found.saving_ms.high <= found.ms_per_step


def test_an_exchange_gains_what_its_link_lets_it() -> None:
    """The activity of 400 µs takes 100 of them: 300 µs of each step."""
    signals = signals_of_lines(by_hand.copying())
    replays = signals.of(replay_signals)
    found = replays.usable_replay("vm:0")
    assert found is not None
    nodes = found.graph.nodes
    slow = nodes.row[(nodes.row >= 0) & (nodes.dur_ps == 400 * US)]
    saving = replays.saving_of_changes(
        (Carried(dict.fromkeys(slow.tolist(), 100 * US)),), "vm:0"
    )
    assert saving is not None
    assert saving.high == pytest.approx(0.3, abs=0.005)


def test_runs_are_of_kernels_that_follow_each_other_in_one_step() -> None:
    """Five kernels launched as one: four calls of 200 µs go; no run reaches further."""
    signals = signals_of_lines(by_hand.launch_bound())
    replays = signals.of(replay_signals)
    found = replays.usable_replay("vm:0")
    assert found is not None
    every = range(int(found.recorded.class_of.max()) + 1)
    saving = replays.saving_of_changes((Joined(every, 2),), "vm:0")
    assert saving is not None
    assert saving.high == pytest.approx(0.8, abs=0.005)
    alone = replays.saving_of_changes((Joined(every, 6),), "vm:0")
    assert alone is not None
    assert alone.high == 0


def test_findings_gain_together_what_the_largest_floor_leaves() -> None:
    """Beside kernels of 165 µs the copy of 400 stays: 910 - 400 in all."""
    signals = signals_of_lines(copying_back())
    found = evaluate(signals)
    told = replay_together(found, signals, first="copy.exposed")
    assert told.findings == ("copy.exposed", "amp.share")
    assert told.saving_ms is not None
    assert told.saving_ms.high == pytest.approx(0.51, abs=0.001)
    assert told.next_owner == "compute_32"
    # 495 of 534 µs.
    assert told.next_percent == pytest.approx(100 * 495 / 534, abs=0.5)


def test_the_finding_that_is_shown_first_is_the_one_that_goes() -> None:
    signals = signals_of_lines(copying_back())
    told = replay_together(evaluate(signals), signals, first="amp.share")
    assert told.findings[0] == "amp.share"
    # The copy takes 400 µs, the products 165 of 495.
    assert told.next_owner == "copy_out"


def test_what_follows_a_finding_that_no_replay_removed_is_unknown() -> None:
    signals = signals_of_lines(copying_back())
    told = replay_together(evaluate(signals), signals, first="gap.output")
    assert told.findings == ("copy.exposed", "amp.share")
    assert told.next_owner is None


def test_without_a_replay_nothing_is_said_of_several_findings() -> None:
    lines = [line for line in by_hand.launch_bound() if line[1] != "train"][:4]
    signals = signals_of_lines(lines)
    told = replay_together(evaluate(signals), signals)
    assert told.findings == ()
    assert told.saving_ms is None
    assert told.next_owner is None
    assert isinstance(signals.of(replay_signals).hosts["vm"], Unavailable)
