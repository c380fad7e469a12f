"""The named numbers that rules read: per step and device, or why there are none.

Nothing here looks at a profile; `signals/<topic>.py` does, and tests write signals out
by hand.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from stepscope.advice.finding import Evidence, Fact
from stepscope.unavailable import Unavailable

__all__ = [
    "DeviceSignals",
    "InputSignals",
    "LaunchSignals",
    "PrecisionSignals",
    "Recorded",
    "Signals",
    "StepSeries",
]

#: What a profile says about accelerators: their work was recorded; the program used
#: one but its work was not recorded; nothing points at one and ops ran on the host; no
#: sign either way.
Recorded = Literal["recorded", "silent", "host_only", "unknown"]


class StepSeries(msgspec.Struct, frozen=True, kw_only=True):
    """An effect on one device, or on one host's step threads, over its clean steps.

    Attributes:
        host: The host.
        device: Ordinal; null for the step threads of a run without devices.
        step_source: Where the steps come from; null where the window is the profile.
        step_confidence: 0 to 1; 0 without steps.
        closed: The windows end where the next step starts; a lone last step does not.
        window_ps: Length of each clean step's window.
        parts_ps: Cause → its time in each of these windows; parts never overlap.
        unknown_ps: Time of each window whose cause could not be told and that might
            belong to the effect.
        doubt_ps: How far the record's own flaws may move the effect, either way.
        excess_ps: How much of the effect lost records may have made up.
        working_ps: Time of each window in which the device computed or copied
            (spec: advice, A2: it chooses the device that is judged).
        total_window_ps: All closed windows, untypical ones too, added up; null where
            those are the clean ones.
        total_parts_ps: The parts added up over the same windows.
        total_steps: Number of these windows.
    """

    host: str
    device: int | None
    step_source: str | None
    step_confidence: float
    closed: bool = True
    window_ps: tuple[int, ...]
    parts_ps: dict[str, tuple[int, ...]]
    unknown_ps: tuple[int, ...]
    doubt_ps: int = 0
    excess_ps: int = 0
    working_ps: tuple[int, ...] = ()
    total_window_ps: int | None = None
    total_parts_ps: dict[str, int] = {}
    total_steps: int = 0

    @property
    def effect_ps(self) -> tuple[int, ...]:
        """The parts of each window added up."""
        return tuple(sum(parts) for parts in zip(*self.parts_ps.values(), strict=True))

    @property
    def label(self) -> str:
        """`host:device`, or the host where no device is concerned."""
        return self.host if self.device is None else f"{self.host}:{self.device}"


class DeviceSignals(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about the accelerators of the program.

    Attributes:
        recorded: See `Recorded`.
        sign: What points at a device whose work was not recorded.
        compute_capability: Of each device that did work; null where not recorded.
        reason: Why device work is absent; null where it is recorded.
    """

    recorded: Recorded
    sign: str | None = None
    compute_capability: tuple[tuple[int, int] | None, ...] = ()
    reason: Unavailable | None = None


class InputSignals(msgspec.Struct, frozen=True, kw_only=True):
    """How long steps wait for their data.

    Attributes:
        series: One per device (per host without devices); parts "fetch" (a step
            thread waits for its batch) and "transfer" (the batch is copied while the
            device computes nothing).
        consumer_recorded: Fetches of batches were recorded at all.
        mean_fetch_ps: By label of a series: mean duration of the fetches in each
            clean step that has some.
        hidden_fetch_ps: The part of it during which the device was busy.
        evidence: The longest waits of each series, by its label.
    """

    series: tuple[StepSeries, ...]
    consumer_recorded: bool
    mean_fetch_ps: dict[str, tuple[float, ...]] = {}
    hidden_fetch_ps: dict[str, tuple[float, ...]] = {}
    evidence: dict[str, tuple[Evidence, ...]] = {}


class LaunchSignals(msgspec.Struct, frozen=True, kw_only=True):
    """How long devices wait for launches inside a step.

    Attributes:
        series: One per device; parts "latency", "launch_call" and "python".
        latency_ps: Median from a launch call to its kernel on an idle device.
        latency_samples: Launches that the latency rests on; 0 where it is assumed.
        median_kernel_ps: Median duration of a kernel.
        median_call_ps: Median duration of a launch call.
        kernels_per_step: Mean number of kernels in a step; null without steps.
        drained_percent: Share of the starved intervals that a synchronisation
            precedes.
        graph_percent: Share of device time replayed from graphs without a row for
            each of their nodes.
        evidence: The longest starved intervals of each series, by its label.
    """

    series: tuple[StepSeries, ...]
    latency_ps: int
    latency_samples: int
    median_kernel_ps: int
    median_call_ps: int | None
    kernels_per_step: float | None
    drained_percent: float | None
    graph_percent: float
    evidence: dict[str, tuple[Evidence, ...]] = {}


class PrecisionSignals(msgspec.Struct, frozen=True, kw_only=True):
    """Device time of compute kernels by element type, over the whole profile.

    Eligible work is work that units for narrow types could do. Times are sums over
    kernels in ps.

    Attributes:
        compute_ps: All compute kernels.
        narrow_ps: Of them, in 16 bit or narrower.
        eligible_ps: Eligible kernels.
        eligible_narrow_ps: Of them, in 16 bit or narrower.
        eligible_tf32_ps: Of them, in TF32.
        eligible_unknown_ps: Of them, of unknown type.
        undecided_ps: Kernels of which eligibility is unknown.
        wide_per_step_ps: Eligible 32-bit time per step on the busiest device; null
            without steps.
        step_confidence: 0 to 1; 0 without steps.
        step_ps: Median step on that device; null without steps.
        steps: Clean steps behind the two numbers above.
        kernels: Number of compute kernels.
        narrow_kernels: Of them, in 16 bit or narrower.
        evidence_percent: Kind of evidence → share of the eligible time it decided.
        largest: Eligible 32-bit ops with their times in µs, largest first.
        devices: `host:device` of each device with compute kernels.
        evidence: The longest eligible 32-bit kernels.
    """

    compute_ps: int
    narrow_ps: int
    eligible_ps: int
    eligible_narrow_ps: int
    eligible_tf32_ps: int
    eligible_unknown_ps: int
    undecided_ps: int
    wide_per_step_ps: int | None
    step_confidence: float
    step_ps: int | None
    steps: int
    kernels: int
    narrow_kernels: int
    evidence_percent: dict[str, float] = {}
    largest: tuple[Fact, ...] = ()
    devices: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()


class Signals(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that rules may read.

    Attributes:
        device: What is known about accelerators.
        input: Waiting for data.
        launch: Waiting for launches.
        precision: Element types.
        record_grade: 1 where the record shows no flaw, less where it does.
    """

    device: DeviceSignals
    input: InputSignals | Unavailable
    launch: LaunchSignals | Unavailable
    precision: PrecisionSignals | Unavailable
    record_grade: float = 1.0
