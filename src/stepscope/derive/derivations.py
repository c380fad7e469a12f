"""Derivations: what the tables imply, each computed once and by name.

A derivation is added by one file and one line in `DERIVATIONS`.
"""

from __future__ import annotations

from typing import Final

from stepscope.derive.collectives.calls import collective_calls
from stepscope.derive.collectives.totals import collectives
from stepscope.derive.consistency import consistency
from stepscope.derive.costs.instructions import instruction_costs
from stepscope.derive.device.activity_classes import activity_classes
from stepscope.derive.device.attribution import activity_ops
from stepscope.derive.device.class_totals import class_totals
from stepscope.derive.device.correlation import correlation
from stepscope.derive.device.device_timeline import device_timeline
from stepscope.derive.device.executions import device_executions
from stepscope.derive.device.exposure import exposure
from stepscope.derive.device.kernels import kernels
from stepscope.derive.device.launch_facts import launch_facts
from stepscope.derive.device.precision import precision
from stepscope.derive.device.tensor_cores import tensor_cores
from stepscope.derive.engine.derivation import Derivation
from stepscope.derive.host.event_nesting import event_nesting
from stepscope.derive.host.function_calls import function_calls
from stepscope.derive.host.launching_ops import launching_ops
from stepscope.derive.host.op_events import host_op_events
from stepscope.derive.host.values import host_values
from stepscope.derive.inference.request_waits import request_waits
from stepscope.derive.inference.requests import requests
from stepscope.derive.input_pipeline.calls import pipeline_calls
from stepscope.derive.input_pipeline.graph import pipeline_graph
from stepscope.derive.input_pipeline.input_ops import input_ops
from stepscope.derive.memory.allocation_steps import allocation_steps
from stepscope.derive.memory.replay import memory_replay
from stepscope.derive.model.program_places import program_places
from stepscope.derive.model.work import model_charges, model_work
from stepscope.derive.names.event_kinds import event_kinds
from stepscope.derive.ops.costs import host_op_costs, op_costs
from stepscope.derive.ops.database import device_ops, host_ops
from stepscope.derive.ops.execution_costs import execution_costs
from stepscope.derive.ops.placement import op_placement
from stepscope.derive.ops.run_costs import run_costs
from stepscope.derive.phases.host import host_phases
from stepscope.derive.phases.totals import phases
from stepscope.derive.step_time.blame import blame
from stepscope.derive.step_time.breakdown import breakdown
from stepscope.derive.step_time.device_sets import device_sets
from stepscope.derive.step_time.event_categories import event_categories
from stepscope.derive.step_time.host_classes import host_classes
from stepscope.derive.step_time.input_between_steps import input_between_steps
from stepscope.derive.step_windows.first_compute import first_compute
from stepscope.derive.step_windows.windows import windows
from stepscope.derive.steps.assignment import activity_steps
from stepscope.derive.steps.chosen import step_candidates, steps
from stepscope.derive.timeline.drawn_rows import trace_timeline
from stepscope.derive.timeline.lanes import trace_lanes

__all__ = ["DERIVATIONS"]

DERIVATIONS: Final[tuple[Derivation, ...]] = (
    Derivation("event_kinds", ("event_types",), event_kinds),
    Derivation("nesting", ("tracks", "events", "host_values?"), event_nesting),
    Derivation(
        "host_classes",
        (
            "trace",
            "tracks",
            "events",
            "event_types",
            "event_kinds",
            "nesting",
            "stats",
            "host_values",
            "launches?",
            "correlation?",
            "device_activity?",
            "steps?",
            "activity_steps?",
            "windows",
        ),
        host_classes,
    ),
    Derivation(
        "device_sets",
        ("device_activity", "precision", "correlation?", "launches?", "devices?"),
        device_sets,
    ),
    Derivation("breakdown", ("windows", "device_sets?", "host_classes?"), breakdown),
    Derivation(
        "phases",
        (
            "windows",
            "tracks",
            "events",
            "device_activity?",
            "activity_ops?",
            "host_classes",
            "host_op_events",
            "host_phases",
            "launches?",
            "correlation?",
        ),
        phases,
    ),
    Derivation(
        "host_phases",
        ("events", "event_types", "nesting", "host_op_events", "host_values?"),
        host_phases,
    ),
    Derivation(
        "step_candidates",
        (
            "trace",
            "tracks",
            "events",
            "event_types",
            "event_kinds",
            "stats",
            "type_stats",
            "host_values?",
            "device_activity?",
            "launches?",
            "correlation?",
        ),
        step_candidates,
    ),
    Derivation("steps", ("step_candidates",), steps),
    Derivation(
        "activity_steps",
        ("steps", "device_activity", "launches?", "correlation?"),
        activity_steps,
    ),
    Derivation(
        "windows",
        (
            "trace",
            "events",
            "event_types",
            "event_kinds",
            "host_values?",
            "environment",
            "steps?",
            "activity_steps?",
            "device_activity?",
            "launches?",
            "correlation?",
        ),
        windows,
    ),
    Derivation("device_timeline", ("device_activity",), device_timeline),
    Derivation(
        "correlation",
        ("device_activity", "launches", "device_timeline"),
        correlation,
    ),
    Derivation(
        "host_values",
        ("trace", "tracks", "events", "stats", "type_stats"),
        host_values,
    ),
    Derivation(
        "host_op_events",
        (
            "trace",
            "tracks",
            "events",
            "event_types",
            "event_kinds",
            "host_values?",
            "hlo_ops?",
        ),
        host_op_events,
    ),
    Derivation(
        "launching_ops", ("launches", "nesting", "host_op_events"), launching_ops
    ),
    Derivation(
        "activity_ops",
        (
            "device_activity",
            "event_types",
            "strings",
            "hlo_ops?",
            "correlation?",
            "launching_ops?",
        ),
        activity_ops,
    ),
    Derivation(
        "activity_classes", ("device_activity", "activity_ops"), activity_classes
    ),
    Derivation("exposure", ("device_timeline", "activity_ops"), exposure),
    Derivation(
        "class_totals",
        ("device_activity", "activity_classes", "exposure", "activity_steps?"),
        class_totals,
    ),
    Derivation(
        "precision",
        ("activity_classes", "event_types", "strings", "hlo_ops?"),
        precision,
    ),
    Derivation(
        "tensor_cores",
        (
            "activity_classes",
            "activity_ops",
            "event_types",
            "strings",
            "devices?",
            "hlo_ops?",
        ),
        tensor_cores,
    ),
    Derivation(
        "kernels",
        (
            "activity_classes",
            "class_totals",
            "activity_ops",
            "event_types",
            "geometries?",
            "devices?",
            "precision",
            "tensor_cores",
        ),
        kernels,
    ),
    Derivation(
        "device_executions",
        (
            "trace",
            "device_activity",
            "activity_classes",
            "activity_ops",
            "correlation?",
            "launching_ops?",
            "host_op_events?",
            "stats?",
        ),
        device_executions,
    ),
    Derivation(
        "device_ops",
        (
            "activity_classes",
            "class_totals",
            "activity_ops",
            "exposure",
            "device_executions",
            "tensor_cores?",
            "steps?",
        ),
        device_ops,
    ),
    Derivation(
        "host_ops",
        (
            "host_op_events",
            "event_types",
            "launching_ops?",
            "correlation?",
            "windows?",
        ),
        host_ops,
    ),
    Derivation("op_placement", ("host_ops?", "device_ops?"), op_placement),
    Derivation(
        "function_calls",
        ("trace", "events", "event_types", "host_values"),
        function_calls,
    ),
    Derivation(
        "collectives",
        ("activity_classes", "class_totals", "activity_ops", "event_types"),
        collectives,
    ),
    Derivation(
        "collective_calls",
        (
            "trace",
            "activity_classes",
            "activity_ops",
            "event_types",
            "device_activity",
            "activity_steps?",
            "stats?",
        ),
        collective_calls,
    ),
    Derivation("first_compute", ("device_activity", "activity_steps?"), first_compute),
    Derivation(
        "launch_facts",
        ("device_activity", "launches", "correlation", "event_types"),
        launch_facts,
    ),
    Derivation(
        "blame",
        (
            "device_activity",
            "launches",
            "correlation",
            "launch_facts",
            "device_sets",
            "host_classes",
            "windows",
            "activity_steps?",
        ),
        blame,
    ),
    Derivation("input_between_steps", ("steps", "host_classes"), input_between_steps),
    Derivation(
        "input_ops",
        (
            "trace",
            "tracks",
            "events",
            "event_types",
            "event_kinds",
            "host_values?",
            "iterators?",
            "launches?",
            "correlation?",
            "device_activity?",
        ),
        input_ops,
    ),
    Derivation("memory_replay", ("allocations",), memory_replay),
    Derivation(
        "allocation_steps", ("allocations", "steps?", "windows?"), allocation_steps
    ),
    Derivation(
        "pipeline_graph",
        (
            "iterators",
            "trace",
            "tracks",
            "events",
            "event_types",
            "event_kinds",
            "nesting",
            "stats",
        ),
        pipeline_graph,
    ),
    Derivation("pipeline_calls", ("pipeline_graph",), pipeline_calls),
    Derivation(
        "requests",
        (
            "trace",
            "tracks",
            "events",
            "event_types",
            "event_kinds",
            "stats?",
            "type_stats?",
            "steps?",
        ),
        requests,
    ),
    Derivation(
        "request_waits",
        (
            "trace",
            "tracks",
            "events",
            "event_kinds",
            "nesting",
            "stats",
            "host_classes",
            "requests",
            "device_activity?",
            "launches?",
            "correlation?",
            "precision?",
        ),
        request_waits,
    ),
    Derivation(
        "consistency",
        (
            "tracks",
            "nesting?",
            "correlation?",
            "steps?",
            "activity_steps?",
            "input_between_steps?",
            "device_activity?",
            "activity_ops?",
        ),
        consistency,
    ),
    Derivation(
        "trace_timeline",
        (
            "trace",
            "tracks",
            "events",
            "event_types",
            "event_kinds",
            "nesting",
            "host_values?",
            "devices?",
            "device_activity?",
            "launches?",
            "correlation?",
            "activity_ops?",
            "activity_steps?",
            "steps?",
            "windows?",
            "host_op_events?",
        ),
        trace_timeline,
    ),
    Derivation("trace_lanes", ("events", "trace_timeline"), trace_lanes),
    Derivation(
        "event_categories",
        ("events", "nesting", "device_activity?", "precision?", "host_classes?"),
        event_categories,
    ),
    Derivation("instruction_costs", ("hlo_ops",), instruction_costs),
    Derivation(
        "execution_costs",
        ("trace", "events", "host_op_events", "stats?", "instruction_costs?"),
        execution_costs,
    ),
    Derivation(
        "run_costs",
        (
            "trace",
            "activity_classes",
            "activity_ops",
            "instruction_costs?",
            "type_stats?",
        ),
        run_costs,
    ),
    Derivation(
        "op_costs",
        (
            "activity_classes",
            "activity_ops",
            "class_totals",
            "device_executions",
            "run_costs",
            "precision",
            "tensor_cores?",
            "devices?",
            "execution_costs?",
        ),
        op_costs,
    ),
    Derivation(
        "host_op_costs",
        ("host_op_events", "execution_costs", "device_activity?"),
        host_op_costs,
    ),
    Derivation("program_places", ("events", "event_types", "nesting"), program_places),
    Derivation(
        "model_work",
        (
            "events",
            "nesting",
            "program_places",
            "host_op_events?",
            "execution_costs?",
            "device_activity?",
            "activity_ops?",
            "correlation?",
            "launches?",
            "launching_ops?",
            "run_costs?",
            "allocations?",
            "steps?",
            "activity_steps?",
            "windows?",
            "parameters?",
        ),
        model_work,
    ),
    Derivation("model_charges", ("model_work",), model_charges),
)
