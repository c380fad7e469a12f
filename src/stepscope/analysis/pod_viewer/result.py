"""What `pod_viewer` answers: the Structs of its result."""

from __future__ import annotations

import msgspec

from stepscope.analysis.pod_viewer.comparison import SlowestWorker, StepComparison
from stepscope.analysis.pod_viewer.workers import Worker, WorkerSummary
from stepscope.trace.quality import QualityNote
from stepscope.unavailable import Missing

__all__ = ["Category", "Clock", "PodStep", "PodViewerResult"]


class Category(msgspec.Struct, frozen=True, kw_only=True):
    """One of the ten categories.

    Attributes:
        id: Its number in TensorBoard's pod viewer, which takes both precisions as one.
        category: Its name in `breakdown_ms`.
        name: The category of the guides that it is part of.
    """

    id: int
    category: str
    name: str


class Clock(msgspec.Struct, frozen=True, kw_only=True):
    """How surely the times of a host stand beside those of the others.

    Attributes:
        host: Its name.
        source: `reference` (the host that the others are laid over), `collectives`
            (which all members leave together), `recorded` (both recorded absolute
            times; nothing checks them), `steps` (which they share) or `none`.
        offset_us: How far its recorded clock is ahead of the reference's.
        doubt_us: How far off that is if the members of a collective leave it together.
        bound_us: How far off it can be at most, whoever left when.
        samples: Collectives or steps that it was taken from.
    """

    host: str
    source: str
    offset_us: float | None
    doubt_us: float | None
    bound_us: float | None
    samples: int


class PodStep(StepComparison, frozen=True, kw_only=True):
    """One step of the run, on all workers.

    Attributes:
        step: Its number; null for the whole profile.
        name: Its name.
        counted: Statistics use it.
        complete: All hosts that run in lock step have it.
        hosts: Its hosts. Steps of hosts that do not run in lock step stand alone.
        workers: What each of them did.
    """

    step: int | None
    name: str | None
    counted: bool
    complete: bool
    hosts: tuple[str, ...]
    workers: tuple[Worker, ...]


class PodViewerResult(msgspec.Struct, frozen=True, kw_only=True):
    """Every step on every worker; nulls are in `missing`.

    Attributes:
        workers: Each worker alone: means of its steps.
        steps: Every step of the run, in order.
        slowest: The worker that holds up the others.
        imbalance: Median of the steps.
        start_skew_ms: Median of the steps.
        hosts_matched_by: `step_num`, `time`, `none` or `one_host`.
        in_lock_step: The hosts take part in the same steps.
        processes: Processes that take part in the run, as its files say.
        clocks: How surely the hosts' times stand side by side.
        collectives_matched: Calls of collectives that were found on other workers.
        collectives_unmatched: Those that were not: waiting is not told apart there.
        unused_devices: Host → devices that its recording lists and on which it saw
            nothing run. They are no idle workers: other processes may use them.
        categories: What the categories are called elsewhere.
        quality: Doubts that only a look at all hosts raises.
        missing: Null fields and left-out categories with their reasons.
        inputs: Host → what was read, counted.
    """

    workers: tuple[WorkerSummary, ...]
    steps: tuple[PodStep, ...]
    slowest: SlowestWorker | None
    imbalance: float | None
    start_skew_ms: float | None
    hosts_matched_by: str
    in_lock_step: bool
    processes: int | None
    clocks: tuple[Clock, ...]
    collectives_matched: int
    collectives_unmatched: int
    unused_devices: dict[str, tuple[int, ...]]
    categories: tuple[Category, ...]
    quality: tuple[QualityNote, ...]
    missing: tuple[Missing, ...]
    inputs: dict[str, dict[str, int | None]]
