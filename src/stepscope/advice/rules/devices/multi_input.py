"""`multi.input`: the input pipeline is too slow for as many devices.

Definition: docs/advice/multi_input.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.finding import Action, Finding
from stepscope.advice.item import Item
from stepscope.advice.judging.owned import OWNED_READS, Owned, shares_of
from stepscope.advice.rule import Rule
from stepscope.advice.words import Words
from stepscope.advice.worker_comparison import worker_signals
from stepscope.derive.facts.evidence import Fact
from stepscope.derive.facts.hosts.pipeline_stages import service_signals
from stepscope.derive.facts.recording import record_grade
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from stepscope.advice.finding import Severity
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.hosts.pipeline_stages import Service
    from stepscope.thresholds import Thresholds

_OWNED: Final = Owned(parts={"input": ("input",)}, device=True, seen=("input",))
_ACTIONS: Final = (
    Action(
        cause="any",
        framework="any",
        text="Mend the slow stage first: `input.stage` says what it lacks.",
    ),
    Action(
        cause="any",
        framework="TensorFlow",
        text="Give each worker a part of the files.",
        code="dataset = dataset.shard(num_workers, worker_index)",
    ),
    Action(
        cause="any",
        framework="PyTorch",
        text="Use one loader per process, each with its part of the samples.",
        code="DataLoader(dataset, sampler=DistributedSampler(dataset))",
    ),
    Action(
        cause="any",
        framework="JAX",
        text="Load on each process only what its own devices need.",
        code="grain.ShardByJaxProcess()",
    ),
    Action(
        cause="any",
        framework="any",
        text="Keep what is read on a disk of the machine itself.",
    ),
)
_WORDS: Final = Words(
    passed="the input pipeline feeds as many devices",
    texts={
        ("fail", None): (
            (
                (
                    "The input pipeline is too slow for {workers} workers: its slowest "
                    "stage is busy {busy} of the time, and they wait for batches "
                    "{waits}."
                ),
            ),
        ),
        ("pass", None): (
            (
                (
                    "The slowest stage of the input pipeline is busy {busy} of the "
                    "time: it would feed {feeds} times as many devices."
                ),
            ),
        ),
        ("pass", "full"): (
            (
                (
                    "The slowest stage of the input pipeline is busy {busy} of the "
                    "time: it feeds these devices, and would not feed more."
                ),
            ),
        ),
        ("pass", "alone"): (
            (
                (
                    "The slowest stage of the input pipeline is busy {busy} of the "
                    "time with one device: see what is said of the input itself."
                ),
            ),
        ),
    },
)
_ITEM: Final = Item(
    id="multi.input",
    stage=8,
    title="the input pipeline is too slow for as many devices",
    words=_WORDS,
    pages=("tf_data_bottleneck_analysis", "input_pipeline_analyzer"),
    confirm="Run on one device: it does not wait for its batches.",
    refute="If one device waits for its batches as long, their number is no matter.",
    actions=_ACTIONS,
)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Compare how busy the pipeline is with whether the devices wait for it."""
    shares = shares_of(_ITEM, _OWNED, signals, thresholds)
    if isinstance(shares, Finding):
        return shares
    workers = signals.of(worker_signals)
    several = 1 if isinstance(workers, Unavailable) else len(workers.workers)
    services = signals.of(service_signals)
    if isinstance(services, Unavailable):
        return (_ITEM.cannot_tell if several > 1 else _ITEM.not_applicable)(services)
    waits = shares.percent("input")
    waiting = waits >= thresholds.input_warn.value
    first = services[0]
    full = first.busy_percent >= thresholds.service_warn.value
    failed = full and waiting and several > 1
    critical = first.busy_percent >= thresholds.service_critical.value
    severity: Severity = "critical" if critical else "warn"
    return _ITEM.finding(
        "fail" if failed else "pass",
        severity=severity if failed else "info",
        note=_note(full=full, alone=several == 1 and waiting),
        confidence=min(signals.of(record_grade), shares.step_confidence or 0.5),
        value=first.busy_percent,
        threshold=thresholds.service_warn,
        devices=(shares.label,),
        facts=(
            Fact(name="busy", value=first.busy_percent, unit="percent"),
            Fact(name="waits", value=waits, unit="percent"),
            Fact(name="workers", value=several, unit="count"),
            Fact(name="feeds", value=_feeds(first, thresholds), unit="count"),
            *(fact for one in services for fact in _of_host(one)),
        ),
        inputs=("pipeline_graph", "pipeline_calls", "account", "pod_viewer"),
        # The time that the devices wait is promised there.
        explained_by=("input.bound",) if failed else (),
    )


def _note(*, full: bool, alone: bool) -> str | None:
    if alone:
        return "alone"
    return "full" if full else None


def _feeds(service: Service, thresholds: Thresholds) -> float | None:
    """Return how many times the devices it would feed before it is full."""
    if not service.busy_percent:
        return None
    return float(thresholds.service_warn.value // service.busy_percent)


def _of_host(service: Service) -> tuple[Fact, ...]:
    return (
        Fact(
            name="batch",
            value=service.batch_ps / PS_PER_US,
            unit="us",
            note=f"own time of {service.stage} on {service.host} for a batch",
        ),
        Fact(
            name="at_once",
            value=service.at_once,
            unit="count",
            note="of its executions at most",
        ),
        Fact(name="period", value=service.period_ps / PS_PER_US, unit="us"),
    )


RULE: Final = Rule(_ITEM, evaluate, (*OWNED_READS, service_signals, worker_signals))
