"""`input.stage`: which stage of the input pipeline is slow, and what it lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.catalogue import rule_item
from stepscope.advice.item import rule
from stepscope.advice.judging.worker_processes import fit_worker_numbers
from stepscope.advice.rules.input_pipeline import input_bound
from stepscope.derive.facts.evidence import MAX_RANGES_SHOWN, Part
from stepscope.derive.facts.hosts.batch_production import python_elements
from stepscope.derive.facts.hosts.pipeline_stages import (
    missing_practices,
    pipeline_signals,
)
from stepscope.thresholds import THRESHOLDS

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding
    from stepscope.advice.signals import Signals

_ITEM: Final = rule_item("input.stage")


@rule(_ITEM, *input_bound.evaluate.reads)
def evaluate(signals: Signals) -> Finding:
    waits = input_bound.evaluate(signals)
    if waits.status == "cannot_tell":
        return _ITEM.cannot_tell(waits.unavailable or _ITEM.reason("no_wait"))
    # A step that waits for copies of its batch does not wait for the pipeline.
    fetching = sum(
        cause.share_percent for cause in waits.causes if cause.cause != "transfer"
    )
    if waits.note != "hidden" and (
        waits.status == "pass" or fetching < THRESHOLDS.input_warn.value
    ):
        return _ITEM.not_applicable("no_wait")
    pipeline, python = signals.of(pipeline_signals), signals.of(python_elements)
    if not pipeline.stages and not pipeline.own_process:
        return _ITEM.cannot_tell(pipeline.absent or _ITEM.reason("no_wait"))
    missing = missing_practices(pipeline, python.get(pipeline.host or ""))
    actions = fit_worker_numbers(_ITEM.actions_for(*missing), signals)
    opaque = (stage for stage in pipeline.stages if not stage.transparent)
    slowest = sorted(opaque, key=lambda stage: -stage.percent)
    return _ITEM.finding(
        "fail",
        severity=waits.severity if waits.status == "fail" else "info",
        confidence=waits.confidence,
        value=slowest[0].percent if slowest else None,
        because=missing,
        parts=tuple(
            Part(name=stage.name, share_percent=stage.percent)
            for stage in slowest[:MAX_RANGES_SHOWN]
        ),
        devices=waits.devices,
        facts=_ITEM.facts(runs_per_batch=slowest[0].runs_per_call if slowest else None),
        inputs=("pipeline_graph", "pipeline_calls"),
        # A loader in the program's process may be that of a library, such as Keras.
        actions=(pipeline.own_process and waits.actions) or actions,
        explained_by=(input_bound.evaluate.item.id,) if waits.status == "fail" else (),
    )
