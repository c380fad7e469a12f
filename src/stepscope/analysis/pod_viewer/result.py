"""What `pod_viewer` answers: the Structs of its result."""

from __future__ import annotations

import msgspec

from stepscope.analysis.pod_viewer.comparison import SlowestWorker, StepComparison
from stepscope.analysis.pod_viewer.workers import Worker, WorkerSummary
from stepscope.trace.quality import QualityNote
from stepscope.unavailable import Missing


class Category(msgspec.Struct, frozen=True, kw_only=True):
    """One of the ten categories.

    Attributes:
        id: Number of the category in TensorBoard's pod viewer, which has one category
            for both precisions.
        category: Name of the category in `breakdown_ms`.
        name: Category of TensorFlow's guides that this one is part of.
    """

    id: int
    category: str
    name: str


class Clock(msgspec.Struct, frozen=True, kw_only=True):
    """How surely the times of a host can be compared with those of the others.

    Attributes:
        host: Name of the host.
        source: What ties the host's clock to the others: `reference` (the host that the
            others are aligned to), `collectives` (which all members leave together),
            `recorded` (both hosts recorded absolute times; nothing checks them),
            `steps` (which they share) or `none`.
        shift_us: Time to add to a time of this host to get the reference's, in µs; null
            where nothing ties the two clocks together.
        offset_us: How far the host's recorded clock is ahead of the reference's, in µs;
            null where unknown.
        doubt_us: Error of the alignment if the members of a collective leave it
            together, in µs; null where unknown.
        bound_us: Largest error of the alignment, whenever members left, in µs; null
            where unknown.
        samples: Number of collectives or steps that the alignment was taken from.
    """

    host: str
    source: str
    shift_us: float | None
    offset_us: float | None
    doubt_us: float | None
    bound_us: float | None
    samples: int


class PodStep(StepComparison, frozen=True, kw_only=True):
    """One step of the run, on all workers.

    Attributes:
        step: Number of the step; null for the whole profile.
        name: Name of the step; null where it has none.
        counted: Whether statistics use the step.
        complete: Whether all hosts that run in lock step have the step.
        hosts: Hosts that ran the step. Steps of hosts that do not run in lock step have
            one host.
        workers: One entry per worker of the step.
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
        slowest: The worker that holds up the others; null where none does.
        imbalance: Median over the steps of largest device work / median device work -
            1; null where unknown.
        start_skew_ms: Median over the steps of the time between the first and the last
            worker to begin to compute; null where unknown.
        hosts_matched_by: How the steps of several hosts were matched: `step_num`,
            `time` or `none`; `one_host` where there is nothing to match.
        in_lock_step: Whether the hosts take part in the same steps.
        processes: Number of processes that take part in the run, as its files state;
            null where none does.
        clocks: How surely the times of each host can be compared with those of the
            others.
        collectives_matched: Number of calls of collectives that were found on other
            workers.
        collectives_unmatched: Number of calls of collectives that were not found on
            other workers, so that waiting in them is unknown.
        unused_devices: Host → devices that its recording lists without any activity.
            They are no idle workers: other processes may use them.
        categories: Names of the categories here and in TensorBoard's pod viewer.
        quality: Doubts that only a comparison of all hosts raises.
        missing: Null fields and left-out categories with their reasons.
        inputs: Host → how many rows of each table were read.
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
