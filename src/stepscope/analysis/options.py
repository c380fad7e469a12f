"""The options of every tool: one Struct each, available without loading the tool.

The command line, the page and Python read an option's type, default and description
from its Struct. The `title` of a type stands for the value in the command line's help.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Literal

import msgspec

from stepscope.derive.model.view_names import AnyView

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Default for the maximum number of listed calls; their total is always given.
MAX_CALLS: Final = 1000

Name = Annotated[str, msgspec.Meta(title="NAME")]
Prefix = Annotated[str, msgspec.Meta(title="PREFIX")]
Flag = Annotated[str, msgspec.Meta(title="FLAG")]
Column = Annotated[str, msgspec.Meta(title="COLUMN")]
#: A comma is part of the expression, so the command line takes one expression per flag.
Regex = Annotated[str, msgspec.Meta(title="REGEX", extra={"holds_commas": True})]
_Rate = Annotated[float, msgspec.Meta(gt=0, le=1e9, title="RATE")]
#: Default for the number of points of a timeline: as many as a screen can distinguish
#: (docs/tools/memory_profile.md).
_POINTS: Final = 2000
#: Latest time, in ms, whose value in picoseconds fits in an int64.
_LAST_MS: Final = 9.2e9
OrderBy = Literal[
    "name",
    "depth",
    "micros",
    "accelerator_micros",
    "cpu_micros",
    "bytes",
    "params",
    "float_ops",
    "occurrence",
]
Preset = Literal["time_and_memory", "trainable_variables_parameter", "float_operation"]


class InputPipelineOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the input pipeline analyzer.

    Attributes:
        host: Analyse only this host; empty for all hosts.
        marker: Analyse only steps with this marker name (train, test, …).
        exclude_flags: Leave windows with one of these flags out of the statistics.
    """

    host: str = ""
    marker: Name = ""
    exclude_flags: tuple[Flag, ...] = ()


class OverviewPageOptions(InputPipelineOptions, frozen=True, kw_only=True):
    """Options of the overview page.

    Attributes:
        parameters: Number of the model's parameters, for the expected time of an
            all-reduce; by default the number in the recording.
        bandwidth_gib_per_s: Bandwidth between devices, for the time of an all-reduce.
    """

    DEFINED_BY: ClassVar = InputPipelineOptions

    parameters: int | None = None
    bandwidth_gib_per_s: float | None = None


class FrameworkOpStatsOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the op statistics.

    Attributes:
        include_idle: Add a row for idle time, and count idle time in percentages.
        op: Show only the op with this name: its calls, kernels, copies, launches, share
            of the step, and dominant cause of its device time.
        scope: Show only ops whose names begin with this path: their calls, kernels,
            copies, launches, share of the step, and dominant cause of their device
            time. Cannot be combined with `op`.
        most_calls: Maximum number of calls to list; None lists all.
    """

    include_idle: bool = False
    op: Name | None = None
    scope: Prefix | None = None
    most_calls: Annotated[int, msgspec.Meta(ge=1)] | None = MAX_CALLS


class KernelStatsOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the kernel statistics.

    Attributes:
        op: Show only kernels of the op with this name.
        scope: Show only kernels of ops whose names begin with this path. Cannot be
            combined with `op`.
    """

    op: Name | None = None
    scope: Prefix | None = None


class RooflineModelOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the roofline model.

    Attributes:
        peak_tflops: Peak compute rate of the device, in 10^12 operations per second;
            replaces the known rate.
        peak_gb_per_s: Peak memory bandwidth of the device, in 10^9 bytes per second;
            replaces the known bandwidth.
    """

    peak_tflops: _Rate | None = None
    peak_gb_per_s: _Rate | None = None


class MemoryProfileOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the memory profile.

    Attributes:
        memory: Show only the memory with this id.
        points: Maximum number of points of a timeline; None keeps every event.
        at_ms: Time of the breakdown, in ms: it shows the memory after the last event by
            this time. If None, it shows the memory at its peak.
    """

    memory: Annotated[str, msgspec.Meta(title="ID")] | None = None
    points: Annotated[int, msgspec.Meta(ge=3)] | None = _POINTS
    at_ms: Annotated[float, msgspec.Meta(ge=0, le=_LAST_MS, title="T")] | None = None


class PodViewerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the pod viewer.

    Attributes:
        hosts: Show only workers of these hosts; empty for all. The comparison between
            hosts still uses all hosts.
    """

    hosts: tuple[str, ...] = ()


class TraceViewerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the trace viewer: none, because it shows the whole trace."""


class TfDataBottleneckAnalysisOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the tf.data bottleneck analysis.

    Attributes:
        host: Analyse only this host; empty for all hosts.
        pipeline: Show only graphs of pipelines with this name (`Host:0`, `Device:1`,
            …); empty for all.
        rank: Rank, by latency, of the call that each graph shows; 0 is the slowest.
    """

    host: str = ""
    pipeline: Name = ""
    rank: Annotated[int, msgspec.Meta(ge=0)] = 0


class InferenceProfileOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the inference profile.

    Attributes:
        host: Analyse only this host; empty for all hosts.
        name: Show only requests with this name; empty for all.
    """

    host: str = ""
    name: Name = ""


class ModelViewsOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the model views.

    An option of None has the preset's value or, without a preset, the default. A
    regular expression has to match a whole name.

    Attributes:
        view: View to show first; the result contains all views.
        op: Show only the annotation with this name: its calls, steps, ops and kernels.
        most_calls: Maximum number of calls to list; None lists all.
        preset: Name of a set of options; an option that is given replaces the preset's.
        step: Count only work of the step with this number.
        step_name: Count only work of steps whose marker has this name.
        last_steps: Count only work of the last N steps (named `step_name`, if given).
        max_depth: Show only nodes down to this depth; a root has depth 1.
        min_micros: Show only nodes with at least this total time, in µs.
        min_accelerator_micros: Show only nodes with at least this device time, in µs.
        min_cpu_micros: Show only nodes with at least this total time on hosts, in µs.
        min_bytes: Show only nodes that requested at least N bytes of memory.
        min_params: Show only nodes that read at least N elements of variables.
        min_float_ops: Show only nodes with at least N floating-point operations.
        min_occurrence: Show only nodes with at least N executions.
        order_by: Column that sorts the children of a node, largest first; `name` and
            `depth` sort in ascending order.
        account_type_regexes: Count only ops whose type matches one of these patterns.
        start_name_regexes: Show only nodes that match, and their descendants.
        trim_name_regexes: Remove nodes that match, and their descendants.
        show_name_regexes: Show only nodes that one of these matches; shown descendants
            of a hidden node move up.
        hide_name_regexes: Hide nodes that match; their descendants move up.
        account_displayed_op_only: Add up totals from shown nodes and nodes deeper than
            `max_depth` only.
        show_trainable_variables: Also show all nodes with trained variables and their
            column, and count no other variables.
        select: Groups of columns to show (micros, accelerator_micros, cpu_micros,
            bytes, params, float_ops, occurrence, op_types); None shows all.
    """

    view: AnyView = "scope"
    op: Name | None = None
    most_calls: Annotated[int, msgspec.Meta(ge=1)] | None = MAX_CALLS
    preset: Preset | None = None
    step: int | None = None
    step_name: Name | None = None
    last_steps: int | None = None
    max_depth: int | None = None
    min_micros: Annotated[float, msgspec.Meta(title="US")] | None = None
    min_accelerator_micros: Annotated[float, msgspec.Meta(title="US")] | None = None
    min_cpu_micros: Annotated[float, msgspec.Meta(title="US")] | None = None
    min_bytes: int | None = None
    min_params: int | None = None
    min_float_ops: int | None = None
    min_occurrence: int | None = None
    order_by: OrderBy | None = None
    account_type_regexes: tuple[Regex, ...] | None = None
    start_name_regexes: tuple[Regex, ...] | None = None
    trim_name_regexes: tuple[Regex, ...] | None = None
    show_name_regexes: tuple[Regex, ...] | None = None
    hide_name_regexes: tuple[Regex, ...] | None = None
    account_displayed_op_only: bool | None = None
    show_trainable_variables: bool | None = None
    select: tuple[Column, ...] | None = None


OPTIONS: Final[Mapping[str, type[msgspec.Struct]]] = MappingProxyType(
    {
        "overview_page": OverviewPageOptions,
        "input_pipeline_analyzer": InputPipelineOptions,
        "framework_op_stats": FrameworkOpStatsOptions,
        "kernel_stats": KernelStatsOptions,
        "roofline_model": RooflineModelOptions,
        "memory_profile": MemoryProfileOptions,
        "pod_viewer": PodViewerOptions,
        "trace_viewer": TraceViewerOptions,
        "tf_data_bottleneck_analysis": TfDataBottleneckAnalysisOptions,
        "inference_profile": InferenceProfileOptions,
        "model_views": ModelViewsOptions,
    }
)
