"""`multi.input`: the input pipeline is too slow for the number of devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.catalogue import rule_item
from stepscope.advice.item import rule
from stepscope.advice.judging.lost_time import OWNED_READS, Owned, owned_shares
from stepscope.advice.judging.worker_comparison import worker_signals
from stepscope.derive.facts.hosts.pipeline_stages import service_signals
from stepscope.derive.facts.recording import record_grade
from stepscope.thresholds import THRESHOLDS
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding, Severity
    from stepscope.advice.signals import Signals

_ITEM: Final = rule_item("multi.input")

_OWNED: Final = Owned(parts={"input": ("input",)}, device=True, seen=("input",))


@rule(_ITEM, *OWNED_READS, service_signals, worker_signals)
def evaluate(signals: Signals) -> Finding:
    shares = owned_shares(_OWNED, signals)
    workers = signals.known(worker_signals)
    several = 1 if workers is None else len(workers.workers)
    services = signals.of(service_signals)
    if isinstance(services, Unavailable):
        return (_ITEM.cannot_tell if several > 1 else _ITEM.not_applicable)(services)
    waits = shares.percent("input")
    waiting = waits >= THRESHOLDS.input_warn.value
    first = services[0]
    full = first.busy_percent >= THRESHOLDS.service_warn.value
    failed = full and waiting and several > 1
    critical = first.busy_percent >= THRESHOLDS.service_critical.value
    severity: Severity = "critical" if critical else "warn"
    note = "full" if full else None
    if several == 1 and waiting:
        note = "alone"
    # Factor by which the number of devices can grow until input is too slow.
    feeds = (
        float(THRESHOLDS.service_warn.value // first.busy_percent)
        if first.busy_percent
        else None
    )
    return _ITEM.finding(
        "fail" if failed else "pass",
        severity=severity if failed else "info",
        note=note,
        confidence=min(signals.of(record_grade), shares.step_confidence or 0.5),
        value=first.busy_percent,
        threshold=THRESHOLDS.service_warn,
        devices=(shares.label,),
        facts=(
            *_ITEM.facts(
                busy=first.busy_percent, waits=waits, workers=several, feeds=feeds
            ),
            *(
                fact
                for service in services
                for fact in (
                    _ITEM.fact(
                        "batch",
                        service.batch_ps / PS_PER_US,
                        stage=service.stage,
                        host=service.host,
                    ),
                    *_ITEM.facts(
                        at_once=service.at_once, period=service.period_ps / PS_PER_US
                    ),
                )
            ),
        ),
        inputs=("pipeline_graph", "pipeline_calls", "account", "pod_viewer"),
        # The finding `input.bound` already has the saving of the waits for input.
        explained_by=("input.bound",) if failed else (),
    )
