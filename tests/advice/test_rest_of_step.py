"""What else a step gains where a cause goes that runs on the step's own cores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.support.traces import blueprint
from tests.support.traces.training import contended, cores, findings, on_host

from stepscope.advice.engine import signals_of
from stepscope.advice.finding import Saving
from stepscope.advice.rest_of_step import with_rest_of_step
from stepscope.advice.signals.loading.busy_threads import slowed_by_input
from stepscope.thresholds import THRESHOLDS

if TYPE_CHECKING:
    from stepscope.advice.signals.signal import Signals


def starved(*, wait_us: float) -> list[Any]:
    """Steps of 10 ms on the host that begin with the wait for a batch."""
    lines = on_host(lead_us=wait_us + 50.0)
    return [
        (track, name, start, wait_us if name == "IteratorGetNext" else dur, *rest)
        for track, name, start, dur, *rest in lines
    ]


def beside(*, from_us: float, dur_us: float) -> list[Any]:
    """An input thread that works at the same time of each of the 20 steps."""
    return [
        ("tf_data/0", "Iterator::Prefetch::Map", 10_000.0 * at + from_us, dur_us)
        for at in range(20)
    ]


def slowed(lines: list[Any]) -> tuple[float, float]:
    """What a step may lose to input threads, and what it loses for sure, in ms."""
    (found,) = signals(lines).of(slowed_by_input).values()
    return found.most_ms, found.full_ms


def compiling(dur_us: float) -> Saving:
    """What a step of 10 ms gains that compiles for so long."""
    lines = on_host(lead_us=dur_us + 50.0)
    lines += [
        ("main", "compilation of train_step", 10_000.0 * at + 40.0, dur_us)
        for at in range(20)
    ]
    saving = findings(lines, devices=None)["xla.recompile"].saving_ms
    assert saving is not None
    return saving


def signals(lines: list[Any]) -> Signals:
    trace = blueprint.trace(lines, devices={})
    return signals_of(blueprint.profile(trace), THRESHOLDS)


def test_a_fifth_of_the_time_may_come_on_top() -> None:
    """The step waits 3 ms; the rest runs faster without the wait."""
    found = findings(starved(wait_us=3000.0), devices=None)["input.bound"]
    assert found.ms_per_step == pytest.approx(3.0)
    assert found.saving_ms is not None
    assert found.saving_ms.high == pytest.approx(3.6)
    assert found.saving_ms.low == pytest.approx(1.8)


def test_the_rest_of_a_step_does_not_go() -> None:
    """Ops and pauses of 0.3 ms are left of 10."""
    found = findings(starved(wait_us=9700.0), devices=None)["input.bound"]
    assert found.saving_ms is not None
    assert found.saving_ms.high == pytest.approx(9.7 + 0.75 * 0.3)


def test_what_was_just_compiled_runs_for_the_first_time() -> None:
    """Four tenths of 4 ms go besides; where less is left, nearly all of that."""
    assert compiling(4000.0).high == pytest.approx(5.6)
    assert compiling(4000.0).low == pytest.approx(2.8)
    assert compiling(9800.0).high == pytest.approx(9.8 + 0.95 * 0.2)


def test_a_device_is_no_slower_beside_a_wait() -> None:
    lines = contended(busy_us=16.0, quiet_us=6.4)
    found = findings(lines)["launch.delay"]
    assert (found.status, found.devices[0]) == ("fail", "vm:0")
    read = signals_of(blueprint.profile(blueprint.trace(lines)), THRESHOLDS)
    assert with_rest_of_step(found, read) == found


def test_what_is_gained_for_sure_stays() -> None:
    found = findings(starved(wait_us=3000.0), devices=None)["input.bound"]
    sure = msgspec.structs.replace(found, saving_ms=Saving(low=2.9, high=3.0))
    mended = with_rest_of_step(sure, signals(starved(wait_us=3000.0)))
    assert mended.saving_ms == Saving(low=2.9, high=pytest.approx(3.6))


def test_input_threads_take_cores_from_the_steps_own_work() -> None:
    """Of 6.9 ms of ops 3 ms run beside one input thread: on 2 cores a third of that."""
    lines = starved(wait_us=3000.0) + beside(from_us=5000.0, dur_us=3000.0)
    assert slowed(lines + cores(2)) == pytest.approx((1.0, 1.0))
    found = findings(lines + cores(2), devices=None)["input.bound"]
    assert found.saving_ms is not None
    assert found.saving_ms.high == pytest.approx(3.6 + 1.0)
    # That thread and the step's keep both cores busy: half of it is in the low end.
    assert found.saving_ms.low == pytest.approx((3.6 + 1.0) / 2)
    # How many cores there are must be known.
    assert signals(lines).of(slowed_by_input) == {}


def test_a_thread_that_works_while_the_step_waits_takes_nothing() -> None:
    lines = starved(wait_us=3000.0) + beside(from_us=100.0, dur_us=2800.0)
    assert signals(lines + cores(2)).of(slowed_by_input) == {}


def test_several_threads_take_more() -> None:
    """Two of them on 2 cores: half of 3 ms."""
    lines = starved(wait_us=3000.0) + beside(from_us=5000.0, dur_us=3000.0)
    lines += [
        ("tf_data/1", *rest) for _, *rest in beside(from_us=5000.0, dur_us=3000.0)
    ]
    assert slowed(lines + cores(2)) == pytest.approx((1.5, 1.5))


def test_threads_that_leave_cores_free_raise_the_high_end_alone() -> None:
    """One of them on 16 cores: a seventeenth of 3 ms, if the ops want every core."""
    lines = starved(wait_us=3000.0) + beside(from_us=5000.0, dur_us=3000.0)
    assert slowed(lines + cores(16)) == pytest.approx((3 / 17, 0.0))
    found = findings(lines + cores(16), devices=None)["input.bound"]
    assert found.saving_ms is not None
    assert found.saving_ms.high == pytest.approx(3.6 + 3 / 17)
    assert found.saving_ms.low == pytest.approx(1.8)
