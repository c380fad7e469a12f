"""Signals written out by hand: what a rule sees, on one screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from stepscope.advice.signals.device import DeviceSignals, device_signals
from stepscope.advice.signals.input import InputSignals
from stepscope.advice.signals.launch import LaunchSignals
from stepscope.advice.signals.precision import PrecisionSignals
from stepscope.advice.signals.record import record_grade
from stepscope.advice.signals.signal import Signal, Signals
from stepscope.advice.signals.step_series import StepSeries
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

MS = 1_000_000_000
US = 1_000_000
NOT_RECORDED = Unavailable(code="NOT_RECORDED", reason="Not here.", remedy="Record.")
RECORDED = DeviceSignals(recorded="recorded", compute_capability=((8, 0),))


def series(
    effect_ms: Sequence[float],
    *,
    part: str,
    step_ms: float = 10.0,
    device: int | None = 0,
    **fields: Any,
) -> StepSeries:
    count = len(effect_ms)
    return StepSeries(
        **{
            "host": "vm",
            "device": device,
            "step_source": "marker",
            "step_confidence": 1.0,
            "window_ps": (round(step_ms * MS),) * count,
            "parts_ps": {part: tuple(round(one * MS) for one in effect_ms)},
            "unknown_ps": (0,) * count,
            "working_ps": (5 * MS,) * count,
            **fields,
        }
    )


def input_of(*found: StepSeries, **fields: Any) -> InputSignals:
    return InputSignals(**{"series": found, "consumer_recorded": True, **fields})


def launch_of(*found: StepSeries, **fields: Any) -> LaunchSignals:
    return LaunchSignals(
        **{
            "series": found,
            "latency_ps": 10 * US,
            "latency_samples": 200,
            "median_kernel_ps": 30 * US,
            "median_call_ps": 6 * US,
            "kernels_per_step": 150.0,
            "drained_percent": 0.0,
            "graph_percent": 0.0,
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
            "wide_per_step_ps": 0,
            "step_confidence": 1.0,
            "step_ps": 10 * MS,
            "steps": 12,
            "kernels": 150,
            "narrow_kernels": 20,
            **fields,
        }
    )


def signals_of(given: Mapping[Signal[Any], Any]) -> Signals:
    """These signals on a recorded device; all others were not recorded."""
    values = {device_signals: RECORDED, record_grade: 1.0, **given}
    return Signals(lambda signal: values.get(signal, NOT_RECORDED))


@pytest.fixture(name="series")
def _series() -> Callable[..., StepSeries]:
    return series


@pytest.fixture(name="input_of")
def _input_of() -> Callable[..., InputSignals]:
    return input_of


@pytest.fixture(name="launch_of")
def _launch_of() -> Callable[..., LaunchSignals]:
    return launch_of


@pytest.fixture(name="precision_of")
def _precision_of() -> Callable[..., PrecisionSignals]:
    return precision_of


@pytest.fixture(name="signals_of")
def _signals_of() -> Callable[..., Signals]:
    return signals_of
