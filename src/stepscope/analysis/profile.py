"""`ProfileWithTools`: a run of which any tool can be asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

from stepscope.analysis.tools import analyse
from stepscope.derive.profile_data import ProfileData

if TYPE_CHECKING:
    import msgspec

    from stepscope.analysis import (
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
    from stepscope.unavailable import Unavailable


class ProfileWithTools(ProfileData):
    """A run, everything that follows from its traces, and the tools that look at it.

    Attributes:
        run: Shown name of the run.
        traces: Host → its tables.
    """

    @overload
    def tool(
        self, name: Literal["overview_page", "overview"], **options: Any
    ) -> overview_page.OverviewPageResult | Unavailable: ...
    @overload
    def tool(
        self,
        name: Literal["input_pipeline_analyzer", "input", "input_pipeline"],
        **options: Any,
    ) -> input_pipeline_analyzer.InputPipelineResult | Unavailable: ...
    @overload
    def tool(
        self,
        name: Literal["framework_op_stats", "ops", "tensorflow_stats"],
        **options: Any,
    ) -> framework_op_stats.FrameworkOpStatsResult | Unavailable: ...
    @overload
    def tool(
        self,
        name: Literal["kernel_stats", "kernels", "gpu_kernel_stats"],
        **options: Any,
    ) -> kernel_stats.KernelStatsResult | Unavailable: ...
    @overload
    def tool(
        self, name: Literal["roofline_model", "roofline"], **options: Any
    ) -> roofline_model.RooflineModelResult | Unavailable: ...
    @overload
    def tool(
        self, name: Literal["memory_profile", "memory"], **options: Any
    ) -> memory_profile.MemoryProfileResult | Unavailable: ...
    @overload
    def tool(
        self, name: Literal["pod_viewer", "pod"], **options: Any
    ) -> pod_viewer.PodViewerResult | Unavailable: ...
    @overload
    def tool(
        self, name: Literal["trace_viewer", "trace", "trace_viewer@"], **options: Any
    ) -> trace_viewer.TraceViewerResult | Unavailable: ...
    @overload
    def tool(
        self,
        name: Literal["tf_data_bottleneck_analysis", "tfdata", "tf_data"],
        **options: Any,
    ) -> tf_data_bottleneck_analysis.TfDataBottleneckAnalysisResult | Unavailable: ...
    @overload
    def tool(
        self, name: Literal["inference_profile", "inference"], **options: Any
    ) -> inference_profile.InferenceProfileResult | Unavailable: ...
    @overload
    def tool(
        self, name: Literal["model_views", "model"], **options: Any
    ) -> model_views.ModelViewsResult | Unavailable: ...
    @overload
    def tool(self, name: str, **options: Any) -> msgspec.Struct | Unavailable: ...
    def tool(self, name: str, **options: Any) -> msgspec.Struct | Unavailable:
        """Run a tool, which declares its options; a frozen result, or `Unavailable`.

        Raises:
            BadUsage: There is no such tool or option, or an option has a value that
                it cannot have.
        """
        return analyse(self, name, options)
