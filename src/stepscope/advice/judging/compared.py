"""Rules that compare workers: what all of them ask before they judge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from stepscope.advice.catalogue import shared_texts
from stepscope.advice.verdict import judge
from stepscope.advice.worker_comparison import ONE_WORKER, worker_signals
from stepscope.derive.facts.devices.exchanges import communication_signals
from stepscope.derive.facts.evidence import Part
from stepscope.derive.facts.recording import record_grade
from stepscope.derive.judging.effect_status import StepSeries
from stepscope.derive.judging.recorded_devices import device_signals
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.advice.finding import Finding
    from stepscope.advice.item import Item
    from stepscope.advice.signals import Signals
    from stepscope.advice.worker_comparison import StepWorkers, WorkerSignals
    from stepscope.derive.run_derivation import RunDerivation
    from stepscope.thresholds import Threshold, Thresholds

_TEXTS: Final = shared_texts("compared")

#: The signals that these functions ask for.
COMPARED_READS: Final[tuple[RunDerivation[Any], ...]] = (
    communication_signals,
    device_signals,
    record_grade,
    worker_signals,
)
_STAGED: Final = "send-receive"


def workers_of(item: Item, signals: Signals) -> WorkerSignals | Finding:
    """Return the workers of a run, or the finding that says why none are compared."""
    found = signals.of(worker_signals)
    if not isinstance(found, Unavailable):
        return found if found.steps else item.cannot_tell(_TEXTS.reason("no_steps"))
    if found != ONE_WORKER:
        return item.cannot_tell(found)
    exchanged = signals.of(communication_signals)
    if isinstance(exchanged, Unavailable):
        # A device whose work was not recorded may exchange data all the same.
        alone = signals.of(device_signals).recorded == "host_only"
    else:
        alone = not any(exchanged.count.values())
    return (
        item.not_applicable(_TEXTS.reason("alone"))
        if alone
        else item.cannot_tell(found)
    )


def hands_on(signals: Signals) -> bool:
    """Return whether devices hand work on to each other, as stages of a pipeline."""
    exchanged = signals.of(communication_signals)
    return not isinstance(exchanged, Unavailable) and any(
        _STAGED in kinds for kinds in exchanged.exposed_ps.values()
    )


def judge_steps(
    item: Item,
    signals: Signals,
    thresholds: Thresholds,
    found: WorkerSignals,
    *,
    cause: str,
    effect_ps: Sequence[int],
    warn: Threshold,
    critical: Threshold,
    doubt_ps: int = 0,
    named: str | None = None,
    detail: str | None = None,
    **fields: Any,
) -> Finding:
    """Judge an effect of each step.

    Args:
        cause: What the effect is.
        warn: The share of the time from which it fails.
        critical: The share of the time from which it is grave.
        doubt_ps: How far differing clocks may have moved it.
        named: The worker that it is about; None for all.
        detail: What most of it is; None where nothing is known to be.
    """
    series = StepSeries(
        step_source=found.step_source,
        step_confidence=found.step_confidence,
        window_ps=tuple(step.window_ps for step in found.steps),
        parts_ps={cause: tuple(effect_ps)},
        doubt_ps=doubt_ps,
    )
    verdict = judge(series, warn=warn, critical=critical, thresholds=thresholds)
    return item.judged(
        verdict,
        grade=signals.of(record_grade),
        threshold=warn,
        smallest=thresholds.smallest_effect,
        stepped=found.step_source is not None,
        inputs=("pod_viewer",),
        devices=tuple(sorted(found.workers, key=lambda one: one != named)),
        parts=()
        if named is None
        else (
            Part(
                name=worker_words(named, found.workers),
                detail=detail,
                share_percent=verdict.share_percent,
            ),
        ),
        **fields,
    )


def worker_words(label: str, workers: Sequence[str]) -> str:
    """Return the words for one of some workers, as far as they tell it apart.

    Hosts with one device each are told apart by their names, devices of one host by
    their numbers.
    """
    host, _, device = label.rpartition(":")
    if not host:
        return label
    hosts = [one.rpartition(":")[0] for one in workers]
    if len(set(hosts)) == 1:
        return f"device {device}"
    return host if hosts.count(host) == 1 else f"{host}, device {device}"


def most_often(
    steps: Sequence[StepWorkers], names: Sequence[str | None]
) -> tuple[str | None, float]:
    """Return the worker that is named in most steps, and in what percentage of them."""
    told = [name for name in names if name is not None]
    if not told:
        return None, 0.0
    first = max(dict.fromkeys(told), key=told.count)
    return first, 100 * told.count(first) / len(steps)


ONE_EACH: Final = _TEXTS.reason("one_each")
