"""Signals about several workers: who waits for whom, and how they share the work.

A worker is a device of a host; on a host without devices the host itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.advice.catalogue import shared_texts
from stepscope.derive.facts.judged_steps import step_basis
from stepscope.derive.run_derivation import of_run
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.analysis.pod_viewer.comparison import SlowestWorker
    from stepscope.analysis.pod_viewer.result import (
        PodStep,
        PodViewerResult,
        Worker,
        WorkerSummary,
    )
    from stepscope.derive.account.owned_time import Account
    from stepscope.derive.judging.recorded_devices import DeviceSignals
    from stepscope.derive.profile_data import ProfileData
    from stepscope.derive.run_derivation import OfHosts
    from stepscope.derive.steps.chosen import Steps


ONE_WORKER: Final = shared_texts("judging").reason("one_worker")
#: What a worker of a program that uses no device does by itself: neither a wait for
#: other workers nor one for data.
HOST_WORK: Final = ("host_compute", "compilation", "output")


class StepWorkers(Frozen, frozen=True):
    """The workers of one step; times in ps.

    Attributes:
        window_ps: Length of the step on the worker on which it is longest.
        waiting_ps: Time in collectives in which the typical worker waited for others,
            of those that are not the last; None where unknown.
        excess_ps: Work of the busiest worker beyond the median of the others; None
            where unknown.
        busiest: Label of that worker.
        last: Label of the worker that the others waited for; None where none is known.
        skew_ps: Time between the first and the last worker to begin; None where
            unknown.
        skew_doubt_ps: Possible error of it.
        concurrency: How many devices of a host work at a time, of the host where it is
            least; None without several devices.
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
        devices: Number of devices of the host that has most.
        steps: The counted steps that all workers took part in.
        step_source: Where the steps come from; None where the recording is one window.
        step_confidence: 0 to 1.
        slowest: The worker that holds up the others; None where none does.
        work_ms: Worker → its mean work of a step: of a device other than exchanges,
            of a program without one that of the host; None where unknown.
        absent: Processes of the run whose recording is not here.
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
        """Return whether no worker has `ratio` times the work of another."""
        known = [ms for ms in self.work_ms.values() if ms is not None]
        return not known or max(known) < ratio * min(known)


@of_run
def worker_signals(
    *,
    profile: ProfileData,
    device_signals: DeviceSignals,
    account: OfHosts[Account],
    steps: OfHosts[Steps],
    collective_calls: OfHosts[object],  # noqa: ARG001 - so that it is ready for the tool
    first_compute: OfHosts[object],  # noqa: ARG001 - likewise
) -> WorkerSignals | Unavailable:
    """Read the comparison of all workers; a single worker has none."""
    if len(account) == 1:
        (accounted,) = account.values()
        if isinstance(accounted, Unavailable):
            return accounted
        if len(accounted.devices) == 1:
            return ONE_WORKER
    # Most runs have one worker, whose report does without this tool.
    from stepscope.analysis import pod_viewer  # noqa: PLC0415

    found = pod_viewer.analyse(profile, pod_viewer.Options())
    if isinstance(found, Unavailable):
        return found
    if len(found.workers) == 1:
        return ONE_WORKER
    whole = [step for step in found.steps if step.counted and step.complete]
    basis = [step_basis(one) for one in steps.values()]
    on_host = device_signals.recorded == "host_only"
    return WorkerSignals(
        workers=tuple(_label(one) for one in found.workers),
        devices=max(_devices_by_host(found).values()),
        steps=tuple(_step(step, on_host=on_host) for step in whole),
        step_source=basis[0].source,
        step_confidence=min(one.confidence for one in basis),
        slowest=found.slowest,
        work_ms={_label(one): _work_ms(one, on_host=on_host) for one in found.workers},
        absent=max((found.processes or 0) - len(profile.hosts), 0),
    )


def _devices_by_host(found: PodViewerResult) -> dict[str, int]:
    counts = dict.fromkeys((one.host for one in found.workers), 0)
    for one in found.workers:
        counts[one.host] += one.device is not None
    return counts


def _step(step: PodStep, *, on_host: bool) -> StepWorkers:
    work = [(_work_ms(one, on_host=on_host), one) for one in step.workers]
    known = [ms for ms, _ in work if ms is not None]
    all_known = len(known) == len(work) > 1
    busiest = max(work, key=lambda one: one[0] or 0.0)[1]
    last = max(step.workers, key=lambda one: one.waited_for_ms or 0.0)
    # Whom the others wait for waits for nobody: of two workers it would halve the wait.
    waits = [
        one.collective_wait_ms
        for one in step.workers
        if one is not last or not last.waited_for_ms
    ]
    waited = [one for one in waits if one is not None]
    return StepWorkers(
        window_ps=_ps(max(one.total_ms for one in step.workers)),
        waiting_ps=_ps(float(np.median(waited))) if waited else None,
        excess_ps=_ps(_excess(known)) if all_known else None,
        busiest=_label(busiest) if all_known else None,
        last=_label(last) if last.waited_for_ms else None,
        skew_ps=None if step.start_skew_ms is None else _ps(step.start_skew_ms),
        skew_doubt_ps=_ps(step.start_skew_doubt_ms or 0.0),
        concurrency=min(step.concurrency.values(), default=None),
    )


def _excess(work_ms: Sequence[float]) -> float:
    """Return the most work beyond the median of the others; of two, their difference.

    Args:
        work_ms: Work of two workers or more.
    """
    *others, most = sorted(work_ms)
    return most - float(np.median(others))


def _work_ms(worker: Worker | WorkerSummary, *, on_host: bool) -> float | None:
    """Return the work of a worker; of a program without devices that of its host."""
    if not on_host:
        return worker.device_work_ms
    return sum(worker.breakdown_ms.get(name, 0.0) for name in HOST_WORK)


def _ps(ms: float) -> int:
    return round(ms * PS_PER_MS)


def _label(worker: Worker | WorkerSummary) -> str:
    return worker.host if worker.device is None else f"{worker.host}:{worker.device}"
