"""Signals written out by hand: what a rule sees, on one screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from stepscope.advice.signals import Signals
from stepscope.derive.facts.devices.all_reduces import communication_signals
from stepscope.derive.facts.devices.kernel_precision import (
    PrecisionSignals,
    precision_signals,
)
from stepscope.derive.facts.devices.launching import LaunchSignals, launch_signals
from stepscope.derive.facts.devices.set_up import set_up_signals
from stepscope.derive.facts.hosts.batch_fetches import InputSignals, input_signals
from stepscope.derive.facts.hosts.batch_production import (
    batch_times,
    loader_calls,
    loader_work,
    made_elsewhere,
    made_in_own_threads,
    python_elements,
)
from stepscope.derive.facts.hosts.busy_threads import busiest_threads
from stepscope.derive.facts.hosts.callbacks import called_back
from stepscope.derive.facts.hosts.function_divisions import (
    function_divisions,
    rare_functions,
)
from stepscope.derive.facts.hosts.function_runs import function_runs
from stepscope.derive.facts.hosts.own_lines import enclosing_functions
from stepscope.derive.facts.hosts.pipeline_buffers import pipeline_buffers
from stepscope.derive.facts.hosts.pipeline_stages import (
    PipelineSignals,
    pipeline_signals,
)
from stepscope.derive.facts.hosts.worker_processes import (
    loader_workers,
    machine_cores,
    worker_time,
)
from stepscope.derive.facts.judged_steps import unexplained_outside
from stepscope.derive.facts.memory_use import kept_growth
from stepscope.derive.facts.processors import asleep
from stepscope.derive.facts.program_traits import collected_by_hand
from stepscope.derive.facts.recording import (
    CaptureSignals,
    capture_signals,
    record_grade,
)
from stepscope.derive.facts.savings.predicted_savings import (
    ReplaySignals,
    replay_signals,
)
from stepscope.derive.facts.step_shares import (
    AccountSignals,
    NamedTime,
    StepShares,
    account_signals,
)
from stepscope.derive.frameworks import frameworks_used
from stepscope.derive.verdicts.recorded_devices import DeviceSignals, device_signals
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from stepscope.derive.run_derivation import RunDerivation

MS = 1_000_000_000
US = 1_000_000
NOT_RECORDED = Unavailable(code="NOT_RECORDED", reason="Not here.", remedy="Record.")
RECORDED = DeviceSignals(recorded="recorded", compute_capability=((8, 0),))


def shares(
    *,
    step_ms: float = 10.0,
    steps: int = 12,
    device: int | None = 0,
    between: Mapping[str, float | Sequence[float]] | None = None,
    names: Sequence[NamedTime] = (),
    host: str = "vm",
    missing: Sequence[str] = (),
    working_ms: float = 5.0,
    rest: str | None = None,
    fields: Mapping[str, Any] | None = None,
    **owners: float | Sequence[float],
) -> StepShares:
    """An account: owner=ms in each step; the rest computes, or works on the host."""
    inside = {owner: _each(ms, steps) for owner, ms in owners.items()}
    out = {owner: _each(ms, steps) for owner, ms in (between or {}).items()}
    window = (round(step_ms * MS),) * steps
    taken = [sum(times) for times in zip(*inside.values(), *out.values(), strict=True)]
    rest = rest or ("host_compute" if device is None else "compute_16")
    inside[rest] = tuple(
        length - used + own
        for length, used, own in zip(
            window, taken or [0] * steps, inside.get(rest, (0,) * steps), strict=True
        )
    )
    return StepShares(
        **{
            "host": host,
            "device": device,
            "step_source": "marker",
            "step_confidence": 1.0,
            "closed": True,
            "window_ps": window,
            "inside_ps": inside,
            "between_ps": out,
            "missing": dict.fromkeys(missing, NOT_RECORDED),
            "working_ps": round(working_ms * MS) * steps,
            "names": tuple(names),
            "callers": (),
            "gaps": 0,
            "clock_error_ps": 0,
            "lost_ps": 0,
            "ranges": {},
            **(fields or {}),
        }
    )


def _each(ms: float | Sequence[float], steps: int) -> tuple[int, ...]:
    times = [ms] * steps if isinstance(ms, int | float) else list(ms)
    return tuple(round(one * MS) for one in times)


def fetching_of(**fields: Any) -> InputSignals:
    return InputSignals(
        **{
            "consumer_recorded": True,
            "parallel": False,
            "ahead": False,
            "mean_fetch_ps": {},
            "hidden_fetch_ps": {},
            **fields,
        }
    )


def launch_of(**fields: Any) -> LaunchSignals:
    return LaunchSignals(
        **{
            "latency_ps": 10 * US,
            "latency_samples": 200,
            "median_kernel_ps": 30 * US,
            "median_call_ps": 6 * US,
            "kernels_per_step": 150.0,
            "graph_percent": 0.0,
            "one_program": False,
            **fields,
        }
    )


def capture_of(**fields: Any) -> CaptureSignals:
    return CaptureSignals(
        **{
            "damaged": False,
            "dropped": 0,
            "ranks": None,
            "hosts": 1,
            "devices": 1,
            "computing": 1,
            "copying": 0,
            "functions": False,
            "few_looks": None,
            "replays": True,
            "without_launch_percent": 0.0,
            **fields,
        }
    )


def precision_of(**fields: Any) -> PrecisionSignals:
    """The B1 base: all matrix products in bfloat16, 62 % of compute eligible."""
    return PrecisionSignals(
        **{
            "compute_ps": 9_700 * US,
            "narrow_ps": 6_000 * US,
            "eligible_ps": 6_000 * US,
            "eligible_narrow_ps": 6_000 * US,
            "eligible_tf32_ps": 0,
            "eligible_unknown_ps": 0,
            "undecided_ps": 0,
            "undecided_narrow_ps": 0,
            "undecided_16_ps": 0,
            "undecided_with_op_ps": 0,
            "wide_per_step_ps": 0,
            "tf32_per_step_ps": 0,
            "step_confidence": 1.0,
            "step_ps": 10 * MS,
            "steps": 12,
            "kernels": 150,
            "narrow_kernels": 20,
            **fields,
        }
    )


def signals_of(
    *accounts: StepShares | Mapping[RunDerivation[Any], Any], **given: Any
) -> Signals:
    """These accounts on a recorded device, and other signals, by themselves or by name.

    `fetching`, `launching`, `capture`, `exchanged`, `around`, `device`, `precision` and
    `account` replace what a recorded run without a fault has.
    """
    found = tuple(one for one in accounts if isinstance(one, StepShares))
    known: dict[RunDerivation[Any], Any] = {
        account_signals: AccountSignals(found) if found else NOT_RECORDED,
        device_signals: RECORDED,
        record_grade: 1.0,
        input_signals: fetching_of(),
        launch_signals: launch_of(),
        capture_signals: capture_of(),
        enclosing_functions: {},
        function_runs: {},
        kept_growth: (),
        asleep: {},
        collected_by_hand: {},
        called_back: {},
        function_divisions: {},
        rare_functions: {},
        busiest_threads: {},
        frameworks_used: (),
        unexplained_outside: {},
        set_up_signals: {},
        batch_times: {},
        loader_calls: {},
        loader_work: {},
        loader_workers: {},
        machine_cores: {},
        worker_time: {},
        made_elsewhere: {},
        made_in_own_threads: frozenset(),
        pipeline_buffers: {},
        pipeline_signals: PipelineSignals(None, (), own_process=False, absent=None),
        python_elements: {},
        replay_signals: ReplaySignals({}),
    }
    by_name: dict[str, RunDerivation[Any]] = {
        "account": account_signals,
        "device": device_signals,
        "fetching": input_signals,
        "launching": launch_signals,
        "capture": capture_signals,
        "around": enclosing_functions,
        "exchanged": communication_signals,
        "precision": precision_signals,
    }
    known |= {by_name[name]: value for name, value in given.items()}
    for one in accounts:
        if not isinstance(one, StepShares):
            known |= one
    return Signals(lambda signal: known.get(signal, NOT_RECORDED))


@pytest.fixture(name="shares")
def _shares() -> Callable[..., StepShares]:
    return shares


@pytest.fixture(name="fetching_of")
def _fetching_of() -> Callable[..., InputSignals]:
    return fetching_of


@pytest.fixture(name="launch_of")
def _launch_of() -> Callable[..., LaunchSignals]:
    return launch_of


@pytest.fixture(name="capture_of")
def _capture_of() -> Callable[..., CaptureSignals]:
    return capture_of


@pytest.fixture(name="precision_of")
def _precision_of() -> Callable[..., PrecisionSignals]:
    return precision_of


@pytest.fixture(name="signals_of")
def _signals_of() -> Callable[..., Signals]:
    return signals_of
