"""The options of every tool: one Struct each, known before any tool is loaded.

Every interface reads an option's type, default and sentence from its Struct; the title
is the placeholder of the value in the help of the command line.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec

from stepscope.derive.model.view_names import AnyView

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Calls that are listed unless all are asked for; their number is always given.
MOST_CALLS: Final = 1000

Name = Annotated[str, msgspec.Meta(title="NAME")]
Prefix = Annotated[str, msgspec.Meta(title="PREFIX")]
Flag = Annotated[str, msgspec.Meta(title="FLAG")]
Column = Annotated[str, msgspec.Meta(title="COLUMN")]
#: Commas are part of it: several are given one by one.
Regex = Annotated[str, msgspec.Meta(title="REGEX", extra={"holds_commas": True})]
_Rate = Annotated[float, msgspec.Meta(gt=0, le=1e9, title="RATE")]
#: Points of a timeline that a screen can tell apart (docs/tools/memory_profile.md).
_POINTS: Final = 2000
#: The last time, in ms, that picoseconds can count.
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


class OverviewPageOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What to look at.

    Attributes:
        host: Only this host; empty for all.
        marker: Only the steps of this marker name (train, test, …).
        exclude_flags: Leave windows with one of these flags out of the statistics.
        parameters: Number of the model's parameters, for the expected time of an
            all-reduce; left out, the number in the recording's description of the
            model.
        bandwidth_gib_per_s: Bandwidth between devices, for the expected time of an
            all-reduce.
    """

    host: str = ""
    marker: Name = ""
    exclude_flags: tuple[Flag, ...] = ()
    parameters: int | None = None
    bandwidth_gib_per_s: float | None = None


class InputPipelineOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What to look at.

    Attributes:
        host: Only this host; empty for all.
        marker: Only the steps of this marker name (train, test, …).
        exclude_flags: Leave windows with one of these flags out of the statistics.
    """

    host: str = ""
    marker: Name = ""
    exclude_flags: tuple[Flag, ...] = ()


class FrameworkOpStatsOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What to show.

    Attributes:
        include_idle: Give idle time rows of its own, and count it in percentages.
        op: Only the op with this name: its calls, kernels, copies, launches, share of
            the step, and what dominates.
        scope: Only the ops whose names begin with this path: their calls, kernels,
            copies, launches, share of the step, and what dominates; not with `op`.
        most_calls: Largest number of calls to list; none for all.
    """

    include_idle: bool = False
    op: Name | None = None
    scope: Prefix | None = None
    most_calls: Annotated[int, msgspec.Meta(ge=1)] | None = MOST_CALLS


class KernelStatsOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What to show.

    Attributes:
        op: Only kernels of the op with this name.
        scope: Only kernels of ops whose name begins with this path; not with `op`.
    """

    op: Name | None = None
    scope: Prefix | None = None


class RooflineModelOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What to hold the work against.

    Attributes:
        peak_tflops: Operations that the device computes at best, in 10^12 per second,
            in place of what is known of it.
        peak_gb_per_s: Bytes that its memory moves at best, in 10^9 per second, in place
            of what is known of it.
    """

    peak_tflops: _Rate | None = None
    peak_gb_per_s: _Rate | None = None


class MemoryProfileOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What to show.

    Attributes:
        memory: Only the memory with this id.
        points: Most points of a timeline; none for every event, as in an export.
        at_ms: Take the breakdown after the last event by this time, in ms, instead
            of at the peak.
    """

    memory: Annotated[str, msgspec.Meta(title="ID")] | None = None
    points: Annotated[int, msgspec.Meta(ge=3)] | None = _POINTS
    at_ms: Annotated[float, msgspec.Meta(ge=0, le=_LAST_MS, title="T")] | None = None


class PodViewerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What to show.

    Attributes:
        hosts: Only the workers of these hosts; empty for all. The comparison still
            takes all hosts into account: whom they waited for, say.
    """

    hosts: tuple[str, ...] = ()


class TraceViewerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The whole trace is shown; there is nothing to choose."""


class TfDataBottleneckAnalysisOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What to look at.

    Attributes:
        host: Only this host; empty for all.
        pipeline: Only graphs of the pipelines of this name (`Host:0`, `Device:1`, …);
            empty for all.
        rank: Which call a graph shows, by latency; 0 is the slowest of its pipeline.
    """

    host: str = ""
    pipeline: Name = ""
    rank: Annotated[int, msgspec.Meta(ge=0)] = 0


class InferenceProfileOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What to look at.

    Attributes:
        host: Only this host; empty for all.
        name: Only requests of this name; empty for all.
    """

    host: str = ""
    name: Name = ""


class ModelViewsOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What to show; None leaves it to the preset, and then to the defaults.

    A regular expression matches a whole name, or it does not match.

    Attributes:
        view: The view that is shown first; all of them are in the result.
        op: Only the annotation with this name: its calls, steps, ops and kernels.
        most_calls: Largest number of calls to list; none for all.
        preset: Options that go together; each can still be given.
        step: Only what ran in the step with this number.
        step_name: Only what ran in steps that are marked with this name.
        last_steps: Only what ran in the last so many steps (of that name).
        max_depth: Nodes no deeper than this; 1 is a root.
        min_micros: Nodes with at least this total time, in µs.
        min_accelerator_micros: Nodes with at least this total time on devices, in µs.
        min_cpu_micros: Nodes with at least this total time on hosts, in µs.
        min_bytes: Nodes that asked for at least so many bytes.
        min_params: Nodes that read at least so many elements of variables.
        min_float_ops: Nodes that did at least so many floating-point operations.
        min_occurrence: Nodes with at least so many executions.
        order_by: Siblings by this, the greatest first; names and depths the other way.
        account_type_regexes: Only ops with such a type count at all.
        start_name_regexes: Only these nodes, and what is beneath them.
        trim_name_regexes: Not these nodes, and nothing beneath them.
        show_name_regexes: Only these nodes; what is beneath them moves up.
        hide_name_regexes: Not these nodes; what is beneath them moves up.
        account_displayed_op_only: Totals of what is shown alone, and of what is only
            deeper than `max_depth`.
        show_trainable_variables: Also nodes with trained variables, however little
            they cost, and the column of them; variables that are not trained count in
            no node.
        select: Groups of columns (micros, accelerator_micros, cpu_micros, bytes,
            params, float_ops, occurrence, op_types); all where it is left out.
    """

    view: AnyView = "scope"
    op: Name | None = None
    most_calls: Annotated[int, msgspec.Meta(ge=1)] | None = MOST_CALLS
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
