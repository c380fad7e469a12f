"""Derivations: what the tables imply, each computed once.

A derivation is a function that is declared by its signature: its parameters, by
keyword only, are named as tables, as other derivations, or `trace` (the `TraceData`
itself) and `strings` (its interned texts). A parameter whose annotation ends in
`| Unavailable` may be absent; without that an `Unavailable` input is the result.

It is added by one file and one line in `DERIVATIONS`. Its module is imported when it is
first asked for, since most questions need half of them only.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Final

from stepscope.derive.engine.derivation import derivation_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stepscope.derive.engine.derivation import Derivation

#: Name of the function → its module, below this folder.
DERIVATIONS: Final[Mapping[str, str]] = {
    "event_kinds": "names.event_kinds",
    "event_nesting": "host.event_nesting",
    "host_classes": "step_time.host_classes",
    "device_sets": "step_time.device_sets",
    "between_steps": "account.places",
    "host_states": "account.host_states",
    "account": "account.owned_time",
    "idle_topics": "account.topics",
    "naming": "account.naming",
    "account_parts": "account.parts",
    "host_waits": "account.host_waits",
    "phases": "phases.totals",
    "host_phases": "phases.host",
    "step_candidates": "steps.chosen",
    "steps": "steps.chosen",
    "activity_steps": "steps.assignment",
    "windows": "step_windows.windows",
    "device_timeline": "device.timeline",
    "correlation": "device.correlation",
    "host_values": "host.values",
    "host_op_events": "host.op_events",
    "launching_ops": "host.launching_ops",
    "activity_ops": "device.attribution",
    "activity_classes": "device.activity_classes",
    "exposure": "device.exposure",
    "device_peaks": "device.peaks",
    "class_totals": "device.class_totals",
    "precision": "device.precision",
    "tensor_cores": "device.tensor_cores",
    "kernels": "device.kernels",
    "measured_kernels": "measured.join",
    "device_executions": "device.executions",
    "device_ops": "ops.database",
    "host_ops": "ops.database",
    "op_placement": "ops.placement",
    "function_calls": "host.function_calls",
    "function_names": "host.function_names",
    "function_frames": "host.function_frames",
    "function_lines": "host.function_lines",
    "frames_beside": "host.function_frames",
    "worker_frames": "host.function_frames",
    "worker_lines": "host.function_lines",
    "worker_functions": "input_pipeline.worker_functions",
    "core_time": "host.core_time",
    "unrecorded_devices": "memory.silent_devices",
    "function_purposes": "host.function_purposes",
    "collectives": "collectives.totals",
    "collective_calls": "collectives.calls",
    "host_collectives": "collectives.host_calls",
    "first_compute": "step_windows.first_compute",
    "launch_latency": "device.launch_facts",
    "launch_facts": "device.launch_facts",
    "input_between_steps": "step_time.input_between_steps",
    "input_ops": "input_pipeline.input_ops",
    "memory_replay": "memory.replay",
    "allocation_steps": "memory.allocation_steps",
    "pipeline_graph": "input_pipeline.graph",
    "pipeline_calls": "input_pipeline.calls",
    "requests": "inference.requests",
    "request_waits": "inference.request_waits",
    "consistency": "consistency",
    "trace_timeline": "timeline.drawn_rows",
    "trace_lanes": "timeline.lanes",
    "counter_curves": "timeline.counters",
    "event_categories": "step_time.event_categories",
    "instruction_costs": "costs.instructions",
    "execution_costs": "ops.execution_costs",
    "run_costs": "ops.run_costs",
    "op_costs": "ops.costs",
    "kernel_costs": "ops.kernel_costs",
    "host_op_costs": "ops.costs",
    "annotation_calls": "model.annotation_calls",
    "program_places": "model.program_places",
    "kernel_places": "model.kernel_places",
    "source_lines": "model.source_lines",
    "model_work": "model.work",
    "model_charges": "model.work",
    "step_graph": "replay.graph",
    "replay_check": "replay.identity",
    "critical_path": "replay.critical",
    "tracers": "host.tracers",
}


@cache
def derivation(name: str) -> Derivation:
    """Return a derivation, and import it if it is not yet."""
    module = import_module(f"{__package__}.{DERIVATIONS[name]}")
    return derivation_of(getattr(module, name))


def is_derivation(function: Callable[..., object]) -> bool:
    """Return whether a function is the derivation of its name."""
    module = DERIVATIONS.get(function.__name__)
    return module is not None and function.__module__ == f"{__package__}.{module}"
