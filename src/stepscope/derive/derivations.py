"""Derivations: what the tables imply, each computed once.

A derivation is a function that is declared by its signature: its parameters, by
keyword only, are named as tables, as other derivations, or `trace` (the `TraceData`
itself) and `strings` (its interned texts). A parameter whose annotation ends in
`| Unavailable` may be absent; without that an `Unavailable` input is the result.

It is added by one file and one line in `DERIVATIONS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.derive.account.host_states import host_states
from stepscope.derive.account.host_waits import host_waits
from stepscope.derive.account.naming import naming
from stepscope.derive.account.owned_time import account
from stepscope.derive.account.parts import account_parts
from stepscope.derive.account.places import between_steps
from stepscope.derive.account.topics import idle_topics
from stepscope.derive.collectives.calls import collective_calls
from stepscope.derive.collectives.host_calls import host_collectives
from stepscope.derive.collectives.totals import collectives
from stepscope.derive.consistency import consistency
from stepscope.derive.costs.instructions import instruction_costs
from stepscope.derive.device.activity_classes import activity_classes
from stepscope.derive.device.attribution import activity_ops
from stepscope.derive.device.class_totals import class_totals
from stepscope.derive.device.correlation import correlation
from stepscope.derive.device.executions import device_executions
from stepscope.derive.device.exposure import exposure
from stepscope.derive.device.kernels import kernels
from stepscope.derive.device.launch_facts import launch_facts, launch_latency
from stepscope.derive.device.peaks import device_peaks
from stepscope.derive.device.precision import precision
from stepscope.derive.device.tensor_cores import tensor_cores
from stepscope.derive.device.timeline import device_timeline
from stepscope.derive.host.core_time import core_time
from stepscope.derive.host.event_nesting import event_nesting
from stepscope.derive.host.function_calls import function_calls
from stepscope.derive.host.function_frames import frames_beside, function_frames
from stepscope.derive.host.function_lines import function_lines
from stepscope.derive.host.function_names import function_names
from stepscope.derive.host.function_purposes import function_purposes
from stepscope.derive.host.launching_ops import launching_ops
from stepscope.derive.host.op_events import host_op_events
from stepscope.derive.host.tracers import tracers
from stepscope.derive.host.values import host_values
from stepscope.derive.inference.request_waits import request_waits
from stepscope.derive.inference.requests import requests
from stepscope.derive.input_pipeline.calls import pipeline_calls
from stepscope.derive.input_pipeline.graph import pipeline_graph
from stepscope.derive.input_pipeline.input_ops import input_ops
from stepscope.derive.measured.join import measured_kernels
from stepscope.derive.memory.allocation_steps import allocation_steps
from stepscope.derive.memory.replay import memory_replay
from stepscope.derive.memory.silent_devices import unrecorded_devices
from stepscope.derive.model.annotation_calls import annotation_calls
from stepscope.derive.model.kernel_places import kernel_places
from stepscope.derive.model.program_places import program_places
from stepscope.derive.model.source_lines import source_lines
from stepscope.derive.model.work import model_charges, model_work
from stepscope.derive.names.event_kinds import event_kinds
from stepscope.derive.ops.costs import host_op_costs, op_costs
from stepscope.derive.ops.database import device_ops, host_ops
from stepscope.derive.ops.execution_costs import execution_costs
from stepscope.derive.ops.kernel_costs import kernel_costs
from stepscope.derive.ops.placement import op_placement
from stepscope.derive.ops.run_costs import run_costs
from stepscope.derive.phases.host import host_phases
from stepscope.derive.phases.totals import phases
from stepscope.derive.replay.critical import critical_path
from stepscope.derive.replay.graph import step_graph
from stepscope.derive.replay.identity import replay_check
from stepscope.derive.step_time.device_sets import device_sets
from stepscope.derive.step_time.event_categories import event_categories
from stepscope.derive.step_time.host_classes import host_classes
from stepscope.derive.step_time.input_between_steps import input_between_steps
from stepscope.derive.step_windows.first_compute import first_compute
from stepscope.derive.step_windows.windows import windows
from stepscope.derive.steps.assignment import activity_steps
from stepscope.derive.steps.chosen import step_candidates, steps
from stepscope.derive.timeline.counters import counter_curves
from stepscope.derive.timeline.drawn_rows import trace_timeline
from stepscope.derive.timeline.lanes import trace_lanes

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["DERIVATIONS"]

DERIVATIONS: Final[tuple[Callable[..., object], ...]] = (
    event_kinds,
    event_nesting,
    host_classes,
    device_sets,
    between_steps,
    host_states,
    account,
    idle_topics,
    naming,
    account_parts,
    host_waits,
    phases,
    host_phases,
    step_candidates,
    steps,
    activity_steps,
    windows,
    device_timeline,
    correlation,
    host_values,
    host_op_events,
    launching_ops,
    activity_ops,
    activity_classes,
    exposure,
    device_peaks,
    class_totals,
    precision,
    tensor_cores,
    kernels,
    measured_kernels,
    device_executions,
    device_ops,
    host_ops,
    op_placement,
    function_calls,
    function_names,
    function_frames,
    function_lines,
    frames_beside,
    core_time,
    unrecorded_devices,
    function_purposes,
    collectives,
    collective_calls,
    host_collectives,
    first_compute,
    launch_latency,
    launch_facts,
    input_between_steps,
    input_ops,
    memory_replay,
    allocation_steps,
    pipeline_graph,
    pipeline_calls,
    requests,
    request_waits,
    consistency,
    trace_timeline,
    trace_lanes,
    counter_curves,
    event_categories,
    instruction_costs,
    execution_costs,
    run_costs,
    op_costs,
    kernel_costs,
    host_op_costs,
    annotation_calls,
    program_places,
    kernel_places,
    source_lines,
    model_work,
    model_charges,
    step_graph,
    replay_check,
    critical_path,
    tracers,
)
