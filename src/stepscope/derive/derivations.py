"""Derivations: values that are computed from the tables, each once.

A derivation is a function that is declared by its signature. A derivation's
keyword-only parameters have the names of tables or other derivations, or are `trace`
(the `TraceData`) or `strings` (the interned texts of the trace). A parameter with `|
Unavailable` at the end of its annotation accepts an `Unavailable` input. If any other
input is `Unavailable`, the derivation is not called: its result is that input.
`run_derivation.py` declares derivations that combine all hosts.

A new derivation needs one file and one line in `DERIVATIONS`, or in `FACTS` if rules
read it. Modules are imported on first use, because requests use only half of them.
"""

from __future__ import annotations

import ast
from functools import cache
from importlib import import_module
from inspect import CO_VARARGS, CO_VARKEYWORDS
from typing import TYPE_CHECKING, Final

from stepscope.derive.run_derivation import RunDerivation
from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Derivation(Frozen, frozen=True, eq=True):
    """The signature of a derivation.

    Attributes:
        name: Name of the function, and of the parameter of derivations that use it.
        inputs: Parameter → whether the function accepts an `Unavailable` for it. If
            not, an `Unavailable` input becomes the derivation's result.
    """

    name: str
    inputs: dict[str, bool]
    compute: Callable[..., object]


#: Module path below this folder → per-host derivations in that module.
_DERIVATIONS: Final = {
    "names.event_kinds": "event_kinds",
    "host.event_nesting": "event_nesting launching_ops",
    "step_time.host_classes": "host_classes event_categories recorded_activity",
    "step_time.unseen_device": "unseen_device",
    "step_time.device_sets": "device_sets",
    "step_time.start_up": "start_up",
    "account.places": "between_steps",
    "account.host_states": "host_states",
    "account.time_by_cause": "account",
    "account.topics": "idle_topics",
    "account.naming": "naming",
    "account.parts": "account_parts",
    "account.host_waits": "host_waits",
    "account.thread_waits": "thread_sleep",
    "phases": "phases host_phases",
    "steps.chosen": "step_candidates steps activity_steps",
    "steps.recording_end": "recording_end",
    "step_windows.windows": "windows",
    "device.correlation": "device_timeline correlation launch_latency launch_facts",
    "host.values": "host_values profiler_work",
    "host.op_events": "host_op_events",
    "device.attribution": "activity_ops",
    "device.activity_classes": (
        "activity_classes exposure class_totals device_executions"
    ),
    "device.peaks": "device_peaks",
    "device.precision": "precision tensor_cores",
    "device.kernels": "kernels",
    "device.measured_kernels": "measured_kernels",
    "ops.database": "device_ops host_ops op_placement",
    "host.function_calls": "function_calls",
    "host.function_names": "function_names",
    "host.function_frames": "recorded_frames non_step_frames worker_frames",
    "host.placed_frames": "function_frames function_lines",
    "host.function_lines": "recorded_lines worker_lines",
    "input_pipeline.worker_functions": "worker_functions",
    "host.core_time": "core_time",
    "host.function_purposes": "function_purposes",
    "collectives.calls": "collectives collective_calls",
    "collectives.arguments": "host_collectives",
    "step_windows.device_spans": "first_compute",
    "step_time.input_between_steps": "input_between_steps",
    "input_pipeline.input_ops": "input_ops",
    "memory.replay": "memory_replay allocation_steps unrecorded_devices",
    "input_pipeline.graph": "pipeline_graph",
    "input_pipeline.calls": "pipeline_calls",
    "inference_requests": "requests request_waits",
    "consistency": "consistency",
    "trace_rows.drawn_rows": "trace_timeline",
    "trace_rows.lanes": "trace_lanes",
    "trace_rows.counters": "counter_curves",
    "costs.instructions": "instruction_costs",
    "ops.execution_costs": "execution_costs run_costs",
    "ops.costs": "op_costs kernel_costs host_op_costs",
    "model.annotation_calls": "annotation_calls",
    "model.call_trees": "program_places kernel_places",
    "model.source_lines": "source_lines",
    "model.work": "model_work model_charges",
    "replay.graph": "step_graph",
    "replay.node_times": "replay_check",
    "replay.critical": "critical_path",
    "host.tracers": "tracers",
}
#: Module → derivations that rules read. The code of facts mostly holds the GIL.
_FACTS: Final = {
    "facts.devices.contention": "contention_signals",
    "facts.devices.device_copies": "copy_signals",
    "facts.devices.device_fill": "fill_signals compiled_percent",
    "facts.devices.all_reduces": ("communication_signals exchange_signals"),
    "facts.devices.kernel_limits": "op_roofs measured_alone measured_work",
    "facts.devices.kernel_precision": (
        "narrow_kernels precision_signals checking_kernels finite_checks"
    ),
    "facts.devices.kernel_work": "kernel_work",
    "facts.devices.launching": "launch_signals launches_one_program queue_signals",
    "facts.devices.moved_data": "moved_data host_moves",
    "facts.devices.op_sides": "placement_signals ops_on_sides",
    "facts.devices.set_up": "set_up_signals",
    "facts.devices.small_work": "small_kernels small_ops",
    "facts.hosts.batch_fetches": "host_fetches input_signals",
    "facts.hosts.batch_production": (
        "python_elements loader_calls loader_work made_elsewhere has_own_threads "
        "made_in_own_threads"
    ),
    "facts.hosts.callbacks": "called_back",
    "facts.hosts.compilations": "compile_signals",
    "facts.hosts.eager_ops": "host_eager_ops eager_signals",
    "facts.hosts.function_runs": "function_runs",
    "facts.hosts.function_divisions": "function_divisions rare_functions",
    "facts.hosts.own_lines": "enclosing_functions",
    "facts.hosts.pipeline_buffers": "pipeline_buffers",
    "facts.hosts.pipeline_stages": (
        "pipeline_signals host_pipelines service_signals slowest_stage"
    ),
    "facts.hosts.worker_processes": (
        "loader_workers machine_cores worker_time op_runs worker_ops"
    ),
    "facts.judged_steps": "step_signals unexplained_outside epoch_starts",
    "facts.memory_use": "memory_signals host_growth kept_growth",
    "facts.processors": "processor_signals time_without_core asleep",
    "facts.hosts.busy_threads": "busiest_threads",
    "facts.outside_steps": "outside_steps",
    "facts.program_traits": (
        "program_traits collected_by_hand blocking_calls anomaly_checks"
    ),
    "facts.recording": (
        "record_grade capture_signals version_signals recorder_signals"
    ),
    "facts.savings.predicted_savings": "host_replay replay_signals",
    "facts.step_shares": "step_shares account_signals",
    "frameworks": "frameworks_used",
    "verdicts.recorded_devices": "device_signals",
}


def _modules_by_name(names_by_module: dict[str, str]) -> dict[str, str]:
    listed = names_by_module.items()
    return {name: module for module, names in listed for name in names.split()}


#: Name of a derivation → path of its module below this folder.
DERIVATIONS: Final = _modules_by_name(_DERIVATIONS)
FACTS: Final = _modules_by_name(_FACTS)
_MODULES: Final = {**DERIVATIONS, **FACTS}


@cache
def host_derivation(name: str) -> Derivation:
    """Return the function of a per-host derivation; import its module if needed."""
    declared = _import_declared(name)
    function = declared.function if isinstance(declared, RunDerivation) else declared
    return read_signature(function)


@cache
def run_derivation(name: str) -> RunDerivation[Any] | None:
    """Return a derivation of the whole run by its name; None for any other name."""
    declared = _import_declared(name) if name in FACTS else None
    if isinstance(declared, RunDerivation) and declared.gather is None:
        return declared
    return None


def _import_declared(name: str) -> Callable[..., object] | RunDerivation[Any]:
    module = import_module(f"{__package__}.{_MODULES[name]}")
    declared: Callable[..., object] | RunDerivation[Any] = getattr(module, name)
    return declared


def is_derivation(function: Callable[..., object]) -> bool:
    """Return whether `DERIVATIONS` lists a function under its name."""
    module = _MODULES.get(function.__name__)
    return module is not None and function.__module__ == f"{__package__}.{module}"


def read_signature(function: Callable[..., object]) -> Derivation:
    """Parse the signature of one derivation.

    Raises:
        TypeError: A parameter is not keyword-only or has no annotation as text; the
            message names the function and the parameter.
    """
    name = function.__name__
    # `inspect.signature` gives the same parameters but is twenty times slower.
    code = function.__code__
    if code.co_argcount or code.co_flags & (CO_VARARGS | CO_VARKEYWORDS):
        raise TypeError(
            f"{name}: its parameter {code.co_varnames[0]!r} is not keyword-only"
        )
    inputs: dict[str, bool] = {}
    for parameter in code.co_varnames[: code.co_kwonlyargcount]:
        annotation = function.__annotations__.get(parameter)
        if not isinstance(annotation, str):
            raise TypeError(
                f"{name}: the annotation of {parameter!r} is not kept as text; "
                "begin the module with `from __future__ import annotations`"
            )
        inputs[parameter] = _names_unavailable(annotation)
    return Derivation(name, inputs, function)


@cache
def _names_unavailable(annotation: str) -> bool:
    if "Unavailable" not in annotation:
        return False
    members = [ast.parse(annotation, mode="eval").body]
    while members:
        match members.pop():
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                members += (left, right)
            case ast.Name(id="Unavailable"):
                return True
    return False
