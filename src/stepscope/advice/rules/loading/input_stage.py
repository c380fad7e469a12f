"""`input.stage`: which stage of the input pipeline is slow, and what it is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.catalogue import rule_item
from stepscope.advice.item import rule
from stepscope.advice.judging.worker_processes import fit_worker_numbers
from stepscope.advice.rules.loading import input_bound
from stepscope.derive.facts.evidence import SHOWN, Part
from stepscope.derive.facts.hosts.batch_makers import python_elements
from stepscope.derive.facts.hosts.pipeline_stages import (
    missing_practices,
    pipeline_signals,
)

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding
    from stepscope.advice.signals import Signals
    from stepscope.thresholds import Thresholds

_ITEM: Final = rule_item("input.stage")


@rule(_ITEM, *input_bound.evaluate.reads)
def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    waits = input_bound.evaluate(signals, thresholds)
    if waits.status == "cannot_tell":
        return _ITEM.cannot_tell(waits.unavailable or _ITEM.reason("no_wait"))
    if waits.status == "pass" and waits.note != "hidden":
        return _ITEM.not_applicable("no_wait")
    found, python = signals.of(pipeline_signals), signals.of(python_elements)
    if not found.stages and not found.own_process:
        return _ITEM.cannot_tell(found.absent or _ITEM.reason("no_wait"))
    missing = missing_practices(found, python.get(found.host or ""))
    telling = (one for one in found.stages if not one.transparent)
    slowest = sorted(telling, key=lambda one: -one.percent)
    return _ITEM.finding(
        "fail",
        severity=waits.severity if waits.status == "fail" else "info",
        confidence=waits.confidence,
        value=slowest[0].percent if slowest else None,
        because=missing,
        parts=tuple(
            Part(name=one.name, share_percent=one.percent) for one in slowest[:SHOWN]
        ),
        devices=waits.devices,
        facts=_ITEM.facts(runs_per_batch=slowest[0].runs_per_call if slowest else None),
        inputs=("pipeline_graph", "pipeline_calls"),
        actions=fit_worker_numbers(_ITEM.actions_for(*missing), signals),
        explained_by=(input_bound.evaluate.item.id,) if waits.status == "fail" else (),
    )
