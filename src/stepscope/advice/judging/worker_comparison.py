"""Comparison of a run's workers: which waits for which, and how the work is divided.

A worker is a device of a host; a host without devices is one worker. Rules about
several workers read the comparison from this module.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stepscope.advice.catalogue import shared_texts
from stepscope.advice.judging.lost_time import judge_series
from stepscope.advice.signals import CannotTell, NotApplicable
from stepscope.derive.facts.devices.all_reduces import communication_signals
from stepscope.derive.facts.evidence import Part
from stepscope.derive.facts.recording import record_grade
from stepscope.derive.run_derivation import of_run
from stepscope.derive.verdicts.effect_status import StepSeries, step_basis
from stepscope.derive.verdicts.recorded_devices import device_signals
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.advice.finding import Finding
    from stepscope.advice.item import Item
    from stepscope.advice.signals import Signals
    from stepscope.analysis.pod_viewer.comparison import SlowestWorker
    from stepscope.analysis.pod_viewer.result import PodStep, Worker, WorkerSummary
    from stepscope.derive.account.time_by_cause import Account
    from stepscope.derive.profile_data import ProfileData
    from stepscope.derive.run_derivation import OfHosts, RunDerivation
    from stepscope.derive.steps.chosen import Steps
    from stepscope.derive.verdicts.recorded_devices import DeviceSignals

ONE_WORKER: Final = shared_texts("judging").reason("one_worker")
#: Causes of time that are work of a host without devices; waits do not count.
HOST_WORK: Final = ("host_compute", "compilation", "output")


class StepWorkers(Frozen, frozen=True):
    """The workers of one step; times in ps.

    Attributes:
        window_ps: Longest length of the step on any worker.
        waiting_ps: Median time for which workers waited for others in collectives,
            excluding the worker that the others waited for; None if unknown.
        excess_ps: Busiest worker's work minus the others' median; None if unknown.
        busiest: Label of the worker with the most work; None if unknown.
        last: Label of the worker that the others waited for; None if unknown.
        skew_ps: Time from the first to the last start of a worker; None if unknown.
        skew_doubt_ps: Possible error of `skew_ps`.
        concurrency: Mean number of devices of a host that work at a time, minimum over
            hosts; None without several devices.
    """

    window_ps: int
    waiting_ps: int | None
    excess_ps: int | None
    busiest: str | None
    last: str | None
    skew_ps: int | None
    skew_doubt_ps: int
    concurrency: float | None


class WorkerSignals(Frozen, frozen=True):
    """All workers of a run.

    Attributes:
        workers: Labels of the workers, `host:device` or `host`.
        devices: Largest number of devices of a host.
        steps: The counted steps that all workers took part in.
        step_source: Source of the steps; None if the recording is one window.
        step_confidence: Confidence of the steps, 0 to 1.
        slowest: The worker that delays the other workers; None if no worker does.
        work_ms: Mean work per step by worker: device work without collectives, or work
            of the host in a program without devices; None if unknown.
        absent: Number of processes of the run whose recording is missing.
    """

    workers: tuple[str, ...]
    devices: int
    steps: tuple[StepWorkers, ...]
    step_source: str | None
    step_confidence: float
    slowest: SlowestWorker | None
    work_ms: dict[str, float | None]
    absent: int

    def alike(self, ratio: float) -> bool:
        """Return whether the most work of any worker is below `ratio` × the least."""
        known = [ms for ms in self.work_ms.values() if ms is not None]
        return not known or max(known) < ratio * min(known)


@of_run
def worker_signals(
    *,
    profile: ProfileData,
    device_signals: DeviceSignals,
    account: OfHosts[Account],
    steps: OfHosts[Steps],
    collective_calls: OfHosts[object],  # noqa: ARG001 - computed before the tool runs
    first_compute: OfHosts[object],  # noqa: ARG001 - computed before the tool runs
) -> WorkerSignals | Unavailable:
    """Return the comparison of all workers; Unavailable for a single worker."""
    if len(account) == 1:
        (accounted,) = account.values()
        if isinstance(accounted, Unavailable):
            return accounted
        if len(accounted.devices) == 1:
            return ONE_WORKER
    # Imported late, because most runs have one worker and do not need this tool.
    from stepscope.analysis import pod_viewer  # noqa: PLC0415

    pod = pod_viewer.analyse(profile, pod_viewer.Options())
    if isinstance(pod, Unavailable):
        return pod
    if len(pod.workers) == 1:
        return ONE_WORKER
    complete = [step for step in pod.steps if step.counted and step.complete]
    basis = [step_basis(host_steps) for host_steps in steps.values()]
    on_host = device_signals.recorded == "host_only"
    with_device = (worker.host for worker in pod.workers if worker.device is not None)
    return WorkerSignals(
        workers=tuple(_worker_label(worker) for worker in pod.workers),
        devices=max(Counter(with_device).values(), default=0),
        steps=tuple(_compare_step_workers(step, on_host=on_host) for step in complete),
        step_source=basis[0][0],
        step_confidence=min(confidence for _, confidence in basis),
        slowest=pod.slowest,
        work_ms={
            _worker_label(worker): _work_ms(worker, on_host=on_host)
            for worker in pod.workers
        },
        absent=max((pod.processes or 0) - len(profile.hosts), 0),
    )


def _compare_step_workers(step: PodStep, *, on_host: bool) -> StepWorkers:
    work = [(_work_ms(worker, on_host=on_host), worker) for worker in step.workers]
    known = [ms for ms, _ in work if ms is not None]
    all_known = len(known) == len(work) > 1
    busiest = max(work, key=lambda known_work: known_work[0] or 0.0)[1]
    last = max(step.workers, key=lambda worker: worker.waited_for_ms or 0.0)
    # Leave out the awaited worker, which does not wait and would lower the median.
    waits = [
        worker.collective_wait_ms
        for worker in step.workers
        if worker is not last or not last.waited_for_ms
    ]
    waited = [wait for wait in waits if wait is not None]
    excess_ms = None
    if all_known:
        # With two workers, the excess work is the difference of their work.
        *lower, highest = sorted(known)
        excess_ms = highest - float(np.median(lower))
    return StepWorkers(
        window_ps=_ms_to_ps(max(worker.total_ms for worker in step.workers)),
        waiting_ps=_ms_to_ps(float(np.median(waited))) if waited else None,
        excess_ps=None if excess_ms is None else _ms_to_ps(excess_ms),
        busiest=_worker_label(busiest) if all_known else None,
        last=_worker_label(last) if last.waited_for_ms else None,
        skew_ps=None if step.start_skew_ms is None else _ms_to_ps(step.start_skew_ms),
        skew_doubt_ps=_ms_to_ps(step.start_skew_doubt_ms or 0.0),
        concurrency=min(step.concurrency.values(), default=None),
    )


def _work_ms(worker: Worker | WorkerSummary, *, on_host: bool) -> float | None:
    """Return the work of a worker, or of its host in a program without devices."""
    if not on_host:
        return worker.device_work_ms
    return sum(worker.breakdown_ms.get(name, 0.0) for name in HOST_WORK)


def _ms_to_ps(ms: float) -> int:
    return round(ms * PS_PER_MS)


def _worker_label(worker: Worker | WorkerSummary) -> str:
    return worker.host if worker.device is None else f"{worker.host}:{worker.device}"


_TEXTS: Final = shared_texts("compared")

#: Signals that the functions of this module read.
COMPARED_READS: Final[tuple[RunDerivation[Any], ...]] = (
    communication_signals,
    device_signals,
    record_grade,
    worker_signals,
)


def compared_workers(signals: Signals) -> WorkerSignals:
    """Return the workers of a run.

    Raises:
        NoVerdict: The run has no comparison of workers.
    """
    workers = signals.of(worker_signals)
    if not isinstance(workers, Unavailable):
        if workers.steps:
            return workers
        raise CannotTell(_TEXTS.reason("no_steps"))
    exchanged = signals.known(communication_signals)
    if exchanged is None:
        # Unrecorded work of a device may have included collectives.
        without_collectives = signals.of(device_signals).recorded == "host_only"
    else:
        without_collectives = not any(exchanged.count.values())
    if without_collectives and workers == ONE_WORKER:
        raise NotApplicable(_TEXTS.reason("alone"))
    raise CannotTell(workers)


def has_pipeline_stages(signals: Signals) -> bool:
    """Return whether devices send results to each other, like pipeline stages."""
    exchanged = signals.known(communication_signals)
    return exchanged is not None and any(
        "send-receive" in kinds for kinds in exchanged.exposed_ps.values()
    )


def judge_steps(
    item: Item,
    signals: Signals,
    comparison: WorkerSignals,
    *,
    cause: str,
    effect_ps: Sequence[int],
    doubt_ps: int = 0,
    named: str | None = None,
    detail: str | None = None,
    **fields: Any,
) -> Finding:
    """Judge the lost time of each step.

    Args:
        cause: Why the time is lost.
        doubt_ps: Possible error of the lost time from clock differences.
        named: The worker that the lost time is about; None for all workers.
        detail: Name of what takes most of the time; None if unknown.
    """
    series = StepSeries(
        step_source=comparison.step_source,
        step_confidence=comparison.step_confidence,
        window_ps=tuple(step.window_ps for step in comparison.steps),
        parts_ps={cause: tuple(effect_ps)},
        doubt_ps=doubt_ps,
    )
    judged = judge_series(item, signals, series)
    share = judged.verdict.share_percent
    worker_name = (
        None if named is None else short_worker_name(named, comparison.workers)
    )
    return judged.finding(
        inputs=("pod_viewer",),
        devices=tuple(sorted(comparison.workers, key=lambda worker: worker != named)),
        parts=()
        if worker_name is None
        else (Part(name=worker_name, detail=detail, share_percent=share),),
        **fields,
    )


def short_worker_name(label: str, workers: Sequence[str]) -> str:
    """Return a short name of one worker that is unique among the workers.

    Hosts with one device each are distinguished by name, devices of one host by number.
    """
    host, _, device = label.rpartition(":")
    if not host:
        return label
    hosts = [worker.rpartition(":")[0] for worker in workers]
    if len(set(hosts)) == 1:
        return f"device {device}"
    return host if hosts.count(host) == 1 else f"{host}, device {device}"


def most_frequent_share(names: Sequence[str | None]) -> tuple[str | None, float]:
    """Return the worker that most steps name, and the percentage of these steps.

    Args:
        names: By step: the named worker; None for no worker.
    """
    counts = Counter(name for name in names if name is not None)
    for name, count in counts.most_common(1):
        return name, 100 * count / len(names)
    return None, 0.0


ONE_EACH: Final = _TEXTS.reason("one_each")
