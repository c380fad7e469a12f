"""Tools: the data of a profile becomes one frozen result.

A tool is added by one file and one line in `TOOLS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from stepscope.analysis import (
    compat_tensorflow,
    framework_op_stats,
    inference_profile,
    input_pipeline_analyzer,
    kernel_stats,
    memory_profile,
    model_views,
    overview_page,
    pod_viewer,
    roofline_model,
    tf_data_bottleneck_analysis,
    trace_viewer,
)
from stepscope.analysis.results.remedied import remedied
from stepscope.analysis.results.tool import Tool
from stepscope.derive.account.owned_time import account
from stepscope.derive.account.parts import account_parts
from stepscope.derive.collectives.calls import collective_calls
from stepscope.derive.collectives.totals import collectives
from stepscope.derive.consistency import consistency
from stepscope.derive.device.kernels import kernels
from stepscope.derive.device.peaks import device_peaks
from stepscope.derive.host.function_calls import function_calls
from stepscope.derive.host.tracers import tracers
from stepscope.derive.inference.requests import requests
from stepscope.derive.input_pipeline.calls import pipeline_calls
from stepscope.derive.input_pipeline.input_ops import input_ops
from stepscope.derive.measured.join import measured_kernels
from stepscope.derive.memory.allocation_steps import allocation_steps
from stepscope.derive.memory.replay import memory_replay
from stepscope.derive.memory.silent_devices import unrecorded_devices
from stepscope.derive.model.annotation_calls import annotation_calls
from stepscope.derive.model.kernel_places import kernel_places
from stepscope.derive.model.source_lines import source_lines
from stepscope.derive.model.work import model_charges
from stepscope.derive.ops.costs import host_op_costs, op_costs
from stepscope.derive.ops.database import device_ops, host_ops
from stepscope.derive.ops.kernel_costs import kernel_costs
from stepscope.derive.ops.placement import op_placement
from stepscope.derive.phases.totals import phases
from stepscope.derive.profile_data import Reader
from stepscope.derive.step_time.input_between_steps import input_between_steps
from stepscope.derive.step_windows.first_compute import first_compute
from stepscope.derive.step_windows.windows import windows
from stepscope.derive.timeline.drawn_rows import trace_timeline
from stepscope.errors import BadUsage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from stepscope.derive.profile_data import ProfileData, Wanted
    from stepscope.unavailable import Unavailable

__all__ = ["COMPAT", "TOOLS", "analyse", "answers", "find_tool", "needs"]

TOOLS: Final[tuple[Tool, ...]] = (
    Tool(
        "overview_page",
        ("overview",),
        "Overview page",
        overview_page.Options,
        overview_page.analyse,
        (
            account_parts,
            collectives,
            function_calls,
            op_costs,
            op_placement,
            phases,
        ),
        compat={compat_tensorflow.PRODUCER: compat_tensorflow.overview_page},
    ),
    Tool(
        "input_pipeline_analyzer",
        ("input", "input_pipeline"),
        "Input pipeline analyzer",
        input_pipeline_analyzer.Options,
        input_pipeline_analyzer.analyse,
        (account, input_between_steps, input_ops, pipeline_calls),
        compat={compat_tensorflow.PRODUCER: compat_tensorflow.input_pipeline_analyzer},
    ),
    Tool(
        "framework_op_stats",
        ("ops", "tensorflow_stats"),
        "TensorFlow stats",
        framework_op_stats.Options,
        framework_op_stats.analyse,
        (device_ops, host_op_costs, host_ops, op_costs),
    ),
    Tool(
        "kernel_stats",
        ("kernels", "gpu_kernel_stats"),
        "GPU kernel stats",
        kernel_stats.Options,
        kernel_stats.analyse,
        (kernel_places, kernels, measured_kernels, windows),
    ),
    Tool(
        "roofline_model",
        ("roofline",),
        "Roofline model",
        roofline_model.Options,
        roofline_model.analyse,
        (
            device_ops,
            device_peaks,
            kernel_costs,
            kernels,
            measured_kernels,
            op_costs,
        ),
    ),
    Tool(
        "memory_profile",
        ("memory",),
        "Memory profile",
        memory_profile.Options,
        memory_profile.analyse,
        (allocation_steps, memory_replay),
    ),
    Tool(
        "pod_viewer",
        ("pod",),
        "Pod viewer",
        pod_viewer.Options,
        pod_viewer.analyse,
        (account, collective_calls, first_compute, unrecorded_devices),
    ),
    Tool(
        "trace_viewer",
        ("trace", "trace_viewer@"),
        "Trace viewer",
        trace_viewer.Options,
        trace_viewer.analyse,
        (trace_timeline,),
    ),
    Tool(
        "tf_data_bottleneck_analysis",
        ("tfdata", "tf_data"),
        "tf.data bottleneck analysis",
        tf_data_bottleneck_analysis.Options,
        tf_data_bottleneck_analysis.analyse,
        (account, pipeline_calls),
    ),
    Tool(
        "inference_profile",
        ("inference",),
        "Inference profile",
        inference_profile.Options,
        inference_profile.analyse,
        (requests,),
    ),
    Tool(
        "model_views",
        ("model",),
        "Model views",
        model_views.Options,
        model_views.analyse,
        (annotation_calls, model_charges, source_lines),
    ),
)


#: The option that names whose own numbers are asked for.
COMPAT: Final = "compat"
#: What is read of a run beside the answers of its tools: doubts, and what its remedies
#: need not ask for.
_DOUBTS: Final[tuple[Wanted, ...]] = ("quality", consistency, tracers)


def find_tool(name: str) -> Tool:
    """Find the tool of a name or a short name.

    Raises:
        BadUsage: There is none; the message names those there are.
    """
    for tool in TOOLS:
        if name == tool.name or name in tool.aliases:
            return tool
    known = [f"{tool.name} ({', '.join(tool.aliases)})" for tool in TOOLS]
    raise BadUsage.unknown_name("tool", name, known)


def needs(name: str) -> tuple[Wanted, ...]:
    """Return what a tool reads, and what its notes on data quality read."""
    return *find_tool(name).derivations, *_DOUBTS


def answers(
    profile: ProfileData,
    names: Iterable[str],
    *,
    beside: Iterable[Wanted] = (),
    begun: Callable[[Tool], None] = lambda _: None,
) -> dict[str, Any]:
    """Run several tools as they are without options, side by side if it is worth it.

    Args:
        profile: The run.
        names: Names of the tools; the answers come in this order.
        beside: What will be read next, worked out beside the tools.
        begun: Called with the name of each tool when its turn comes, from any thread.
    """
    tools = [find_tool(name) for name in names]
    # The class of a result is declared by its tool, which is known by name only.
    found: dict[str, Any] = {}

    def reader(tool: Tool) -> Reader:
        def run() -> None:
            begun(tool)
            found[tool.name] = remedied(profile, tool.analyse(profile, tool.options()))

        return Reader(tool.derivations, run)

    profile.prepare((*_DOUBTS, *beside), readers=[reader(tool) for tool in tools])
    return {tool.name: found[tool.name] for tool in tools}


def analyse(
    profile: ProfileData, name: str, options: Mapping[str, Any]
) -> msgspec.Struct | Unavailable:
    """Run a tool with options by name.

    The option `compat` of a tool that has producers names the one whose own numbers
    are asked for.

    Raises:
        BadUsage: There is no such tool or option, or an option has a value that it
            cannot have.
    """
    tool = find_tool(name)
    own = dict(options)
    producer = own.pop(COMPAT, "") if tool.compat else ""
    known = tool.options.__struct_fields__
    for option in own:
        if option not in known:
            raise BadUsage.unknown_name(f"option of {tool.name}", option, known)
    if producer and producer not in tool.compat:
        raise BadUsage.unknown_name("producer", str(producer), tool.compat)
    try:
        chosen = msgspec.convert(own, tool.options)
    except msgspec.ValidationError as error:
        message = f"{tool.name}: {error}"
        raise BadUsage(message) from error
    profile.prepare(tool.derivations)
    run = tool.compat[producer] if producer else tool.analyse
    return remedied(profile, run(profile, chosen))
