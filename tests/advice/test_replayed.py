"""Gains that findings promise: by a replay where it can tell, by the account else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.results.statements import read
from tests.support.traces import blueprint
from tests.support.traces import replayed as by_hand
from tests.support.traces.judged import Judged

import stepscope as ss
from stepscope.advice.engine import evaluate, signals_of
from stepscope.advice.signals import Signals
from stepscope.derive.facts.evidence import Limits, Saving
from stepscope.derive.facts.savings.predicted_savings import (
    ReplaySignals,
    replay_signals,
)
from stepscope.derive.facts.savings.what_if_changes import Gone
from stepscope.derive.facts.step_shares import account_signals
from stepscope.derive.step_time.device_sets import device_sets
from stepscope.derive.step_time.owners import IDLE_OWNERS
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from stepscope.advice.finding import Finding
    from stepscope.derive.profile_data import ProfileData
    from stepscope.derive.run_derivation import RunDerivation


def findings(signals: Signals) -> Mapping[str, Finding]:
    return Judged(signals)


def signals_of_lines(lines: list[blueprint.Line]) -> Signals:
    trace = blueprint.trace(lines, devices={0: blueprint.A100})
    return signals_of(blueprint.profile(trace))


def test_a_finding_promises_what_the_replay_gains() -> None:
    """900 of 1000 µs, and 730 of the last step's: the account alone promises nothing.

    The low end of the gain is below the mean by what the last step's smaller gain adds
    to its uncertainty: at most by drawing that step four times of eight.
    """
    found = findings(signals_of_lines(by_hand.launch_bound()))["launch.delay"]
    saving, effect = found.saving_ms, found.ms_per_step
    assert saving is not None
    assert effect is not None
    assert saving.basis == "replay"
    assert saving.identity_error_percent == pytest.approx(0, abs=1)
    mean = (7 * 0.9 + 0.73) / 8
    assert saving.high == effect == pytest.approx(mean)
    assert (4 * 0.9 + 4 * 0.73) / 8 < saving.low < mean


def test_what_hides_behind_other_work_is_not_promised() -> None:
    """The host's 370 µs could go, but no more than the kernel leaves: 605 µs stay."""
    signals = signals_of_lines(by_hand.synchronising())
    replays = signals.of(replay_signals)
    saving = replays.saving_of_changes((Gone(("host_compute",), "any"),), "vm:0")
    assert saving is not None
    assert saving.high <= 1.0 - 0.595


def test_claims_together_promise_no_more_than_each_alone() -> None:
    replays = signals_of_lines(by_hand.synchronising()).of(replay_signals)
    claims = (Gone(("host_compute",), "any"), Gone(("launch", "sync"), "any"))
    singles = [replays.saving_of_changes((claim,), "vm:0") for claim in claims]
    together = replays.saving_of_changes(claims, "vm:0")
    assert together is not None
    assert together.high <= sum(one.high for one in singles if one is not None) + 1e-9


def test_after_the_host_the_kernels_are_next() -> None:
    replays = signals_of_lines(by_hand.synchronising()).of(replay_signals)
    after = replays.next_bottleneck((Gone(("host_compute",), "any"),), "vm:0")
    assert after is not None
    owner, percent = after
    assert owner == "compute_32"
    # 595 of the 630 µs that are left are the kernel; the last step ends 10 earlier.
    assert percent == pytest.approx(100 * 8 * 595 / (8 * 630 - 10))


def test_the_recording_itself_is_never_what_comes_next(repository: Path) -> None:
    """2.8 of its 20 ms are the profiler's start, which no one launching holds up."""
    profile = ss.open(repository / "tests/data/gpu/torch_launch_bound")
    replays = signals_of(profile).of(replay_signals)
    changes = (Gone(("launch",), "any"),)
    replay = replays.usable_replay("localhost:0")
    assert replay is not None
    assert (
        next(iter(replay.path_owners(replay.edits_for_changes(changes, 0))))
        == "profiler"
    )
    after = replays.next_bottleneck(changes, "localhost:0")
    assert after is not None
    assert after[0] != "profiler"


def without_replay(signals: Signals) -> Signals:
    """The same signals, of a recording whose graph is incomplete."""

    def value_of(wanted: RunDerivation[Any]) -> Any:
        value = signals.of(wanted)
        if wanted is not replay_signals:
            return value
        hosts = {
            host: msgspec.structs.replace(
                one,
                identity=msgspec.structs.replace(one.identity, unexplained_percent=11),
            )
            for host, one in value.hosts.items()
        }
        return ReplaySignals(hosts)

    return Signals(value_of)


def test_where_the_graph_is_incomplete_the_account_limits_the_gain() -> None:
    signals = without_replay(signals_of_lines(by_hand.launch_bound()))
    found = findings(signals)["launch.delay"]
    assert found.ms_per_step is not None
    # Nothing is promised without a replay.
    assert found.saving_ms == Saving(low=0.0, high=found.ms_per_step, basis="bound")
    why = signals.of(replay_signals).reason("vm:0")
    assert why is not None
    assert "graph incomplete" in why.reason


def test_without_steps_nothing_is_replayed() -> None:
    lines = [line for line in by_hand.launch_bound() if line[1] != "train"][:4]
    replays = signals_of_lines(lines).of(replay_signals)
    assert replays.saving_of_changes((Gone(("launch",), "any"),), "vm:0") is None
    why = replays.reason("vm:0")
    assert why is not None
    assert why.code == "NO_STEPS"


def step_and_busy_ms(profile: ProfileData, label: str) -> tuple[float, float]:
    """The mean step of a device or host, and how long the device is busy in it."""
    shares = signals_of(profile).of(account_signals)
    assert not isinstance(shares, Unavailable)
    (mine,) = (one for one in shares.shares if one.label == label)
    starts, ends = np.array(mine.bounds).T
    step_ms = float((ends - starts).mean()) / 1e9
    sets = profile.derived(mine.host, device_sets)
    if mine.device is None or isinstance(sets, Unavailable):
        return step_ms, 0.0
    (device,) = (one for one in sets.devices if one.device == mine.device)
    return step_ms, float(device.busy.within(starts, ends).mean()) / 1e9


def test_no_finding_promises_more_than_its_time_nor_than_the_step(
    recorded_run: str, shared_profile: Callable[[str], Path]
) -> None:
    profile, document = read(shared_profile(recorded_run))
    for found in document.findings:
        assert_limited(found, profile)


def assert_limited(found: Finding, profile: ProfileData) -> None:
    """A device's own work is still done where its idle time goes."""
    saving = found.saving_ms
    if saving is None:
        return
    step_ms, busy_ms = step_and_busy_ms(profile, found.devices[0])
    idle = bool(found.owners) and set(found.owners) <= set(IDLE_OWNERS)
    most = step_ms - busy_ms if idle else step_ms
    if found.ms_per_step is not None:
        most = min(most, found.ms_per_step)
    assert 0 <= saving.low <= saving.high <= most + 1e-9, found.id


#: Of each step: the host's work before its launch, and the length of its kernel.
UNEVEN_STEPS = st.lists(
    st.tuples(st.integers(10, 2_000), st.integers(10, 2_000)), min_size=3, max_size=9
)


@pytest.mark.slow(seconds=1.8)
@settings(max_examples=25, deadline=None)
@given(lengths=UNEVEN_STEPS, on_device=st.booleans())
def test_no_finding_on_any_program_promises_more_than_its_time_nor_than_the_step(
    lengths: list[tuple[int, int]], *, on_device: bool
) -> None:
    lines: list[Any] = []
    begin = 0
    for number, (pause, work) in enumerate(lengths):
        launch = begin + pause
        lines += [
            by_hand.step(number, begin, pause + work + 30),
            ("main", "IteratorGetNext", begin + 1, pause // 2 + 1),
        ]
        if on_device:
            lines += [
                by_hand.call(number + 1, launch, 5),
                by_hand.kernel(number + 1, launch + 8, work),
                ("main", "cuDeviceSynchronize", launch + 6, work + 4),
            ]
        else:
            lines.append(("main", "MatMul", launch, work))
        begin += pause + work + 40
    trace = blueprint.trace(lines, devices={0: blueprint.A100} if on_device else {})
    profile = blueprint.profile(trace)
    for found in evaluate(signals_of(profile)):
        assert_limited(found, profile)


@given(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3), st.floats(0, 1e3), st.floats(0, 1e3))
def test_a_saving_within_limits_is_neither_negative_nor_above_them(
    low: float, high: float, effect_ms: float, floor_ms: float
) -> None:
    limits = Limits(effect_ms, 500.0, floor_ms)
    saving = Saving(low=low, high=high).within(limits)
    assert 0 <= saving.low <= saving.high
    assert saving.high <= min(effect_ms, max(500.0 - floor_ms, 0.0))


def test_mended_together_findings_gain_at_most_their_sum(
    recorded_run: str, shared_profile: Callable[[str], Path]
) -> None:
    profile, document = read(shared_profile(recorded_run))
    told = document.together
    by_id = {one.id: one for one in document.findings}
    singles = [by_id[one].saving_ms for one in told.findings]
    assert all(one is not None and one.basis == "replay" for one in singles)
    assert not set(told.findings) & set(told.left_out)
    # Changes of the same kernels cannot always be carried out together.
    assert told.saving_ms is None or len(singles) > 1
    known = [one for one in singles if one is not None]
    if told.saving_ms is not None:
        step_ms, _ = step_and_busy_ms(profile, by_id[told.findings[0]].devices[0])
        assert told.saving_ms.high <= step_ms
        for end in ("low", "high"):
            ends = [getattr(one, end) for one in known]
            together = getattr(told.saving_ms, end)
            assert max(ends) - 1e-9 <= together <= sum(ends) + 1e-9
