"""Signals about several workers: who waits for whom, and how they share the work.

A worker is a device of a host; on a host without devices the host itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.advice.signals.clean_steps import step_basis
from stepscope.advice.signals.signal import signal
from stepscope.derive.account.owned_time import account
from stepscope.derive.collectives.calls import collective_calls
from stepscope.derive.step_windows.first_compute import first_compute
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from stepscope.analysis.pod_viewer.comparison import SlowestWorker
    from stepscope.analysis.pod_viewer.result import PodStep, PodViewerResult
    from stepscope.analysis.pod_viewer.workers import Worker, WorkerSummary
    from stepscope.derive.profile_data import ProfileData
    from stepscope.thresholds import Thresholds

__all__ = ["StepWorkers", "WorkerSignals", "worker_signals"]

_ONE_WORKER: Final = Unavailable(
    code="NO_SAMPLES",
    reason="One worker was recorded: there is none to compare it with.",
    remedy="Where the program runs on several, open the recordings of all of them.",
)


class StepWorkers(Frozen, frozen=True):
    """The workers of one step; times in ps.

    Attributes:
        window_ps: Length of the step on the worker on which it is longest.
        waiting_ps: Time in collectives in which the typical worker waited for others;
            None where unknown.
        excess_ms: Device work of the busiest worker beyond the median; None where
            unknown.
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
        work_ms: Worker → mean device work of a step; None where unknown.
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
        """Return whether no worker has `ratio` times the device work of another."""
        known = [ms for ms in self.work_ms.values() if ms is not None]
        return not known or max(known) < ratio * min(known)


@signal(account, collective_calls, first_compute)
def worker_signals(profile: ProfileData, _: Thresholds) -> WorkerSignals | Unavailable:
    """Read the comparison of all workers; a single worker has none."""
    if len(profile.hosts) == 1 and not _several(profile, profile.hosts[0]):
        return _ONE_WORKER
    # Most runs have one worker, whose report does without this tool.
    from stepscope.analysis import pod_viewer  # noqa: PLC0415

    found = pod_viewer.analyse(profile, pod_viewer.Options())
    if isinstance(found, Unavailable):
        return found
    if len(found.workers) == 1:
        return _ONE_WORKER
    whole = [step for step in found.steps if step.counted and step.complete]
    basis = [step_basis(profile, host) for host in profile.hosts]
    return WorkerSignals(
        workers=tuple(_label(one) for one in found.workers),
        devices=max(_devices_by_host(found).values()),
        steps=tuple(_step(step) for step in whole),
        step_source=basis[0].source,
        step_confidence=min(one.confidence for one in basis),
        slowest=found.slowest,
        work_ms={_label(one): one.device_work_ms for one in found.workers},
        absent=max((found.processes or 0) - len(profile.hosts), 0),
    )


def _several(profile: ProfileData, host: str) -> bool:
    """Return whether several devices of a host did work."""
    found = profile.derived(host, account)
    return not isinstance(found, Unavailable) and len(found.devices) > 1


def _devices_by_host(found: PodViewerResult) -> dict[str, int]:
    counts = dict.fromkeys((one.host for one in found.workers), 0)
    for one in found.workers:
        counts[one.host] += one.device is not None
    return counts


def _step(step: PodStep) -> StepWorkers:
    work = [(one.device_work_ms, one) for one in step.workers]
    known = [ms for ms, _ in work if ms is not None]
    all_known = len(known) == len(work) > 1
    busiest = max(work, key=lambda one: one[0] or 0.0)[1]
    waits = [one.collective_wait_ms for one in step.workers]
    waited = [one for one in waits if one is not None]
    last = max(step.workers, key=lambda one: one.waited_for_ms or 0.0)
    return StepWorkers(
        window_ps=_ps(max(one.total_ms for one in step.workers)),
        waiting_ps=_ps(float(np.median(waited))) if waited else None,
        excess_ps=_ps(max(known) - float(np.median(known))) if all_known else None,
        busiest=_label(busiest) if all_known else None,
        last=_label(last) if last.waited_for_ms else None,
        skew_ps=None if step.start_skew_ms is None else _ps(step.start_skew_ms),
        skew_doubt_ps=_ps(step.start_skew_doubt_ms or 0.0),
        concurrency=min(step.concurrency.values(), default=None),
    )


def _ps(ms: float) -> int:
    return round(ms * PS_PER_MS)


def _label(worker: Worker | WorkerSummary) -> str:
    return worker.host if worker.device is None else f"{worker.host}:{worker.device}"
